"""Runs in MLflow of commands that are killed, and servers that do not answer."""

import os
import signal
import socket
import sqlite3
import time

import pytest

from tests.forks import Fork
from tests.processes import TUNED

HANG = 120  # seconds that no test needs

COMMAND = """
import os, signal, sys
from rankplug.cli import main
from rankplug.report import REPORT_FILES
from rankplug.solver import Monitor

REPORT_FILES["report.html"] = lambda report: "<!DOCTYPE html>"  # slow, and tested elsewhere
report, left = Monitor.report, [int(sys.argv[1])]

def reporting(self, n_iter, **values):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return report(self, n_iter, **values)

Monitor.report = reporting
sys.exit(main(sys.argv[2:]))
"""


def start(folder, reports, *arguments, **variables):
    (folder / "small.yaml").write_text(TUNED)
    return Fork(COMMAND, reports, *arguments, cwd=folder, env={**os.environ, **variables})


def runs(folder):
    with sqlite3.connect(folder / "mlflow.db") as connection:
        found = connection.execute("select run_uuid, name, status from runs order by start_time")
        rows = found.fetchall()
        tags = connection.execute("select run_uuid, key, value from tags").fetchall()
    connection.close()
    return [
        (name, status, {key: value for run, key, value in tags if run == run_id})
        for run_id, name, status in rows
    ]


@pytest.mark.parametrize("command", ["run", "tune"])
def test_the_command_that_resumes_ends_the_runs_of_one_that_was_killed(
    tmp_path, command, empty_store
):
    (tmp_path / "mlflow.db").write_bytes(empty_store.read_bytes())
    where = {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db"}
    arguments = [command, "small.yaml", "--output", "out"]
    killed = start(tmp_path, 30, *arguments, **where)
    _, told = killed.communicate(timeout=HANG)
    assert killed.returncode == -signal.SIGKILL, told
    before = runs(tmp_path)
    left = [name for name, status, _ in before if status == "RUNNING"]
    assert left[:2] == ["small", "tree-tron"]
    for *_, tags in before:
        assert tags["rankplug.process"].startswith(f"{socket.gethostname()}-{killed.pid}-")
        assert tags["rankplug.output"] == str(tmp_path / "out")
    other = start(tmp_path, 10**9, command, "small.yaml", "--output", "other", **where)
    other.communicate(timeout=HANG)
    still = [name for name, status, _ in runs(tmp_path) if status == "RUNNING"]
    assert still == left, "another folder's are left alone"
    again = start(tmp_path, 10**9, *arguments, "--resume", **where)
    _, told = again.communicate(timeout=HANG)
    assert again.returncode == 0, told
    after = runs(tmp_path)
    assert "RUNNING" not in {status for _, status, _ in after}
    small = [(status, tags["rankplug.status"]) for name, status, tags in after if name == "small"]
    assert small == [("KILLED", "killed"), ("FINISHED", "finished"), ("FINISHED", "finished")]
    assert not list((tmp_path / "out").glob(".*")), "no marks of processes are left"


def test_that_a_server_does_not_answer_is_said_after_five_seconds(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        arguments = ["run", "small.yaml", "--output", "out", "--tracking-uri", uri]
        process = start(tmp_path, 10**9, *arguments, MLFLOW_HTTP_REQUEST_TIMEOUT="60")
        server.accept()
        asked = time.monotonic()
        try:
            line = process.stderr.readline()
            waited = time.monotonic() - asked
        finally:
            process.kill()
            process.communicate(timeout=HANG)
    assert line == (
        f"warning: the tracking server at {uri} has not answered for 5 seconds; waiting for it\n"
    )
    assert 2 < waited < 20
