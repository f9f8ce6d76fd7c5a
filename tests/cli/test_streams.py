"""Commands whose output is closed, full, or read by nobody: one message, one status."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CLOSED = "error: standard output is closed: send it to a file, or to /dev/null\n"
FULL = "error: [Errno 28] No space left on device\n"
COMMANDS = {
    "help": ["--help"],
    "version": ["--version"],
    "help of run": ["run", "--help"],
    "run": ["run"],
    "mistake": ["run", "gone.yaml"],
    "init": ["init", "gone.csv"],
    "train": ["train", "gone.yaml"],
    "tune": ["tune", "gone.yaml"],
    "compare": ["compare", "gone.yaml"],
    "evaluate": ["evaluate", "gone", "gone.csv"],
    "predict": ["predict", "gone", "gone.csv", "-o", "out.csv"],
    "prepare": ["prepare", "gone.csv", "-o", "out"],
    "serve": ["serve", "gone"],
    "solvers": ["solvers"],
}


def shell(redirection, arguments, folder, unbuffered=""):
    """Run a command with streams as a shell redirects them."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m rankplug "$@" {redirection}', sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_a_closed_output_is_said_before_anything_is_done(tmp_path, arguments):
    assert shell(">&-", arguments, tmp_path) == (1, "", CLOSED)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_said_where_nothing_can_be(tmp_path):
    assert shell(">&- 2>&-", ["solvers"], tmp_path) == (1, "", "")
    status, out, err = shell("2>&-", ["run", "gone.yaml"], tmp_path)
    assert (status, out, err) == (2, "", "")
    assert shell("<&- 2>&-", ["solvers", "--json"], tmp_path)[0] == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("name", ["help", "version", "run", "solvers"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_one_message(tmp_path, name, unbuffered):
    assert shell("> /dev/full", COMMANDS[name], tmp_path, unbuffered) == (1, "", FULL)
