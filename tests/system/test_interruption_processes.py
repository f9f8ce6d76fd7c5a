"""Signals while compiled code runs, and to the command line, in processes of their own."""

import json
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from tests.processes import SMALL, run_python

HANG = 180  # seconds that nothing here needs

SOLVERS = """
import json, os, signal, sys, threading, time, warnings
import numpy as np
import rankplug
from rankplug.system import interruption
from rankplug.solver import Monitor

# More than enough work for each of these to be still at it when the signal comes.
rng = np.random.default_rng(0)
n, d = 40_000, 20
X = rng.normal(size=(n, d))
y = np.clip(np.round(X[:, 0] + rng.normal(size=n)) + 2, 0, 4)
data = rankplug.RankingData.from_arrays(X, y, np.repeat(np.arange(n // 40), 40))
few = data.take_queries(np.arange(75))  # a second an epoch of LaRank's
ENDLESS = {
    "tree-tron": {"C": 1e6, "tol": 1e-300, "max_iter": 10**9, "preconditioner": "none"},
    "cutting-plane": {"C": 1e3, "tol": 1e-300, "max_iter": 10**9},
    "sopopo": {"C": 1e3, "tol": 1e-300, "max_epochs": 10**9},
    "larank": {"C": 1e3, "tol": 1e-300, "epochs": 10**9},
    "toppush": {"lam": 1e-9, "tol": 1e-300, "max_iter": 10**9},
    "a2dm2": {"lam": 1e-9, "tol": 1e-300, "max_iter": 10**9},
    "xgboost-pairwise": {"n_estimators": 10**6},
    "lightgbm-lambdarank": {"n_estimators": 10**6},
    "linear-then-boost": {"n_estimators": 10**6},
}
report, sent = Monitor.report, []

def reporting(self, n_iter, **values):
    going = report(self, n_iter, **values)  # now there is a model, however long the timer takes
    if not sent:
        sent.append(n_iter)
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
    return going

Monitor.report = reporting
for name, params in ENDLESS.items():
    sent.clear()
    interruption._last_caught = float("-inf")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = rankplug.make_solver(name, **params).solve(few if name == "larank" else data)
    kinds = [one.category.__name__ for one in told]
    finite = bool(np.isfinite(result.model.predict(X)).all())
    print(json.dumps([name, result.status, result.interrupted, kinds, finite]), flush=True)
"""


def test_every_kind_of_solver_stops_in_the_middle_of_its_work():
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    ended = run_python(SOLVERS, timeout=HANG, env=environment)
    assert ended.returncode == 0, ended.stderr
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(lines) == 9
    for name, status, was_interrupted, told, finite in lines:
        assert (status, was_interrupted, finite) == ("stopped", True, True), name
        assert "InterruptionWarning" in told, name


# Runs commands in children, so that the libraries are imported once. Each line it reads is a
# signal, the number of reports of solvers after which it comes, and the arguments.
COMMANDS = """
import json, os, signal, sys, time
from rankplug.cli import main
from rankplug.mlflow import study, tracking
from rankplug.report import REPORT_FILES
from rankplug.solver import Monitor
import optuna, rankplug_plugins.tree_tron

REPORT_FILES["report.html"] = lambda report: "<!DOCTYPE html>"  # slow, and tested elsewhere
report = Monitor.report
for line in sys.stdin:
    number, after, arguments = json.loads(line)
    child = os.fork()
    if child == 0:
        left = [after]

        def reporting(self, n_iter, **values):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), number)
            return report(self, n_iter, **values)

        Monitor.report = reporting
        os.dup2(2, 1)
        try:
            status = main(arguments)
        except BaseException as error:
            print("escaped:", repr(error), file=sys.stderr, flush=True)
            status = 99
        sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

RECIPE = (
    SMALL
    + """\
solvers:
  - solver: tree-tron
    params: {tol: 1e-6}
  - solver: cutting-plane
    params: {tol: 1e-3}
"""
)


@pytest.fixture(scope="module")
def rankplug_command(tmp_path_factory, empty_store):
    """A function that runs a command and sends it a signal: its status and what it wrote."""
    folder = tmp_path_factory.mktemp("commands")
    (folder / "small.yaml").write_text(RECIPE)
    (folder / "mlflow.db").write_bytes(empty_store.read_bytes())
    errors = folder / "errors.txt"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    environment["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
    with open(errors, "w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", COMMANDS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            cwd=folder,
            env=environment,
        )

    def run(number, after, *arguments):
        start = errors.stat().st_size
        process.stdin.write(json.dumps([int(number), after, arguments]) + "\n")
        process.stdin.flush()
        status = int(process.stdout.readline())
        return status, errors.read_text()[start:]

    run.folder = folder
    yield run
    process.stdin.close()
    process.wait(HANG)
    process.stdout.close()


def statuses(folder):
    """The statuses of the runs in the store that were not there at the last call."""
    with sqlite3.connect(folder / "mlflow.db") as connection:
        found = connection.execute("select name, status from runs order by start_time").fetchall()
        connection.execute("update runs set name = 'seen'")
    connection.close()
    return {name: status for name, status in found if name != "seen"}


@pytest.mark.parametrize(
    ("command", "number", "status"),
    [("run", signal.SIGINT, 130), ("train", signal.SIGTERM, 143), ("compare", signal.SIGINT, 130)],
)
def test_a_command_ends_cleanly(rankplug_command, command, number, status):
    output = f"{command}-{status}"
    options = {"train": ["--solver", "tree-tron"], "compare": ["--baseline", "tree-tron"]}
    found, told = rankplug_command(
        number, 2, command, "small.yaml", "--output", output, *options.get(command, [])
    )
    assert found == status, told
    assert told.lstrip().startswith("interrupted: ending the command\n")
    assert "Traceback" not in told
    assert "interrupted by the user" in told
    assert (rankplug_command.folder / output / "report.html").exists()
    assert not (rankplug_command.folder / output / "model").exists()
    runs = statuses(rankplug_command.folder)
    assert runs == {"small": "KILLED", "tree-tron": "KILLED"}


def test_an_interrupted_study_goes_on(rankplug_command):
    arguments = ["tune", "small.yaml", "--solver", "tree-tron", "--n-trials", "4"]
    arguments += ["--output", "tuned"]
    found, told = rankplug_command(signal.SIGTERM, 60, *arguments)
    assert found == 143, told
    assert "Traceback" not in told
    runs = statuses(rankplug_command.folder)
    assert runs["small"] == "KILLED"
    assert "RUNNING" not in runs.values()
    ended = {name for name, state in runs.items() if state == "FINISHED" and "trial" in name}
    assert ended
    found, told = rankplug_command(signal.SIGTERM, 10**9, *arguments, "--resume")
    assert found == 0, told
    again = statuses(rankplug_command.folder)
    assert ended.isdisjoint(again), "a finished trial was repeated"
    assert again["small"] == "FINISHED"
