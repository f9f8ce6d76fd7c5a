"""Runs whose tracking server does not answer: nothing is lost, and nothing is logged twice."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import mlflow
import pytest

from rankplug.cli import main
from rankplug.mlflow.steps import KEY

HANG = 120  # seconds that no test needs

# A command during which something happens: at report number N of its solvers, N of the argument
# that it is given, `happen` is called; no pause is left between questions to a server.
COMMAND = """
import os, signal, subprocess, sys, time
from urllib.request import urlopen
import rankplug.mlflow.spooling as spooling
from rankplug.cli import main
from rankplug.report import REPORT_FILES
from rankplug.solver import Monitor

REPORT_FILES["report.html"] = lambda report: "<!DOCTYPE html>"  # slow, and tested elsewhere
spooling._FIRST_PAUSE = spooling._LONGEST_PAUSE = spooling._TIMES_THE_PROBE = 0.0
report, count, events = Monitor.report, [0], eval(sys.argv[1])

def kill(group):
    os.killpg(group, signal.SIGKILL)

def start(command, url):
    subprocess.Popen(command, start_new_session=True)
    while True:
        try:
            return urlopen(url, timeout=1)
        except OSError:
            time.sleep(0.2)

def reporting(self, n_iter, **values):
    count[0] += 1
    for call, *args in events.get(count[0], ()):
        globals()[call](*args)
    return report(self, n_iter, **values)

Monitor.report = reporting
sys.exit(main(sys.argv[2:]))
"""

RECIPE = """
name: small
data: {dataset: wine}
metrics: [kendall_tau]
sanity: false
scale: standard
tune: {n_trials: 2, folds: 2}
solvers:
  - solver: tree-tron
    params: {tol: 1e-6}
  - solver: cutting-plane
"""
