"""Kill commands, interrupt them, and start them in pairs; look at what they leave.

``python -m tests.long.attack_processes kills --number 100 --seed 1`` (or ``interrupts``,
``pairs``). Moments are spread over the first ten seconds of every command, half of them from when
it has written something: on a busy machine the libraries alone take longer to load. After a kill
the same command must do its work, and no run in MLflow may stay open; an interrupt must end a
command that would go on for ever, with 130 or 143 and without a traceback; of two commands that are
started together each must do its work, or one must be refused with a reason, and a third must find
nothing broken. What is not so is printed and counted.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from tests.long.workers import is_harm, sum_up
from tests.processes import SMALL

HANG = 300  # seconds that no command needs, on a machine that is busy
FIRST = 10.0  # seconds in which signals come
MEMORY_MB = 2000  # that no command may take

RECIPE = (
    SMALL
    + """\
solvers: [tree-tron, cutting-plane]
"""
)
ENDLESS = """
name: endless
data: {dataset: wine}
metrics: [kendall_tau]
sanity: false
tune: {n_trials: 100000, folds: 2}
solvers: [tree-tron]
"""
FOREST = (
    SMALL
    + """\
solvers:
  - solver: xgboost-pairwise
    params: {n_estimators: 10000000}
  - tree-tron
"""
)
# Commands that would go on for ever.
FOREVER = (
    "tune endless.yaml --quiet --output out",
    "tune endless.yaml --quiet --output out",
    "run forest.yaml --quiet --output out",
    "train forest.yaml --quiet --output out",
    "compare forest.yaml --quiet --output out --seeds 2 --baseline tree-tron",
)
# Commands that can be given again after a kill, and what they leave.
AGAIN = {
    "run": ("run small.yaml --quiet --output out", "out/report.html"),
    "run by default": ("run small.yaml --quiet", "rankplug-output/*/report.html"),
    "train": ("train small.yaml --quiet --output out --resume", "out/model/MLmodel"),
    "tune": ("tune small.yaml --quiet --output out --resume --n-trials 3", "out/best.yaml"),
    "compare": (
        "compare small.yaml --quiet --output out --folds 3 --baseline tree-tron",
        "out/report.html",
    ),
    "prepare": ("prepare data.txt -o prepared", "prepared/manifest.json"),
    "predict": ("predict model data.txt -o scores.csv", "scores.csv"),
    "evaluate": ("evaluate model data.txt", "model"),
    "init": ("init data.csv", "data.yaml"),
    "solvers": ("solvers", "model"),
}
# Two at a time, and the statuses that they may end with, in any order.
PAIRS = [
    ("run small.yaml --quiet", "run small.yaml --quiet", [(0, 0)]),
    ("run small.yaml --quiet", "tune small.yaml --quiet --n-trials 2", [(0, 0)]),
    ("compare small.yaml --quiet --folds 3 --baseline tree-tron", "run small.yaml", [(0, 0)]),
    ("run small.yaml --quiet --output out", "run small.yaml --quiet --output out", [(0, 2)]),
    (
        "tune small.yaml --quiet --output out --resume --n-trials 3",
        "tune small.yaml --quiet --output out --resume --n-trials 3",
        [(0, 0)],
    ),
    ("train small.yaml --quiet --register m", "train small.yaml --quiet --register m", [(0, 0)]),
    ("prepare data.txt -o prepared", "prepare data.txt -o prepared", [(0, 0), (0, 2)]),
    ("predict model data.txt -o s.csv", "predict model data.txt -o s.csv", [(0, 0)]),
    ("init data.csv", "init data.csv", [(0, 0), (0, 2)]),
    ("run small.yaml --quiet", "evaluate model data.txt", [(0, 0)]),
]  # fmt: skip


def furnish(folder: Path) -> None:
    """Recipes, data and a model."""
    from rankplug.models import LinearModel

    (folder / "small.yaml").write_text(RECIPE)
    (folder / "endless.yaml").write_text(ENDLESS)
    (folder / "forest.yaml").write_text(FOREST)
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(400, 3)), rng.integers(3, size=400)
    rows = [
        f"{label} qid:{number // 10} " + " ".join(f"{i + 1}:{v:.6f}" for i, v in enumerate(x))
        for number, (label, x) in enumerate(zip(labels, X, strict=True))
    ]
    (folder / "data.txt").write_text("\n".join(rows) + "\n")
    table = [f"{n // 10},{y},{x[0]:.4f}" for n, (y, x) in enumerate(zip(labels, X, strict=True))]
    (folder / "data.csv").write_text("qid,label,a\n" + "\n".join(table) + "\n")
    LinearModel([1.0, 0.0, -1.0]).save(folder / "model")


def start(folder: Path, command: str) -> subprocess.Popen[str]:
    """Start a command in a folder."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
    return subprocess.Popen(
        [sys.executable, "-m", "rankplug", *command.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={
            **plain,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MPLBACKEND": "agg",
            "PYTHONFAULTHANDLER": "1",
        },
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its status and what it said; a hang is killed, and a status of its own."""
    try:
        told, _ = process.communicate(timeout=HANG)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # says where it is
        return -1000, process.communicate()[0]
    return process.returncode, told


def peak_mb(process: subprocess.Popen[str]) -> float:
    """The most memory that it has had until now."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0.0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(found[0]) / 1000 if found else 0.0


def open_runs(folder: Path) -> int:
    """Runs in databases of MLflow's below the folder that are said to run."""
    count = 0
    for file in folder.rglob("mlflow.db"):
        with closing(sqlite3.connect(file)) as database:
            query = "select count(*) from runs where status = 'RUNNING'"
            count += database.execute(query).fetchone()[0]
    return count


def signal_after(process: subprocess.Popen[str], seconds: float, number: int) -> float:
    """Send a signal after some time, if the process still runs; its memory until then."""
    end, peak = time.monotonic() + seconds, 0.0
    while time.monotonic() < end and process.poll() is None:
        peak = max(peak, peak_mb(process))
        time.sleep(min(0.05, max(0.0, end - time.monotonic())))
    if process.poll() is None:
        os.killpg(process.pid, number)
    return peak


def wait_for_work(process: subprocess.Popen[str], folder: Path, random_: random.Random) -> None:
    """Half of the time, wait until the command has written something."""
    if random_.random() < 0.5:
        return
    there, end = set(folder.rglob("*")), time.monotonic() + HANG
    while set(folder.rglob("*")) == there and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)


def kill(folder: Path, number: int, random_: random.Random, seconds: float) -> str:
    """Kill a command and give it again; what is wrong then, or how it went."""
    name = list(AGAIN)[number % len(AGAIN)]
    command, left = AGAIN[name]
    process = start(folder, command)
    wait_for_work(process, folder, random_)
    peak = signal_after(process, seconds, signal.SIGKILL)
    status, told = finish(process)
    if peak > MEMORY_MB:
        return f"MEMORY: {name}: {peak:.0f} MB"
    if status != -signal.SIGKILL:
        return "ended before" if status == 0 else f"FAILED at first: {name}: {status}: {told}"
    report = folder / "out" / "report.html"
    status, told = finish(start(folder, command))
    if status == 2 and (report.exists() or name == "init") and "overwr" in told:
        status = 0  # it was killed when its work was done
    if status != 0:
        return f"BROKEN by a kill after {seconds:.1f} s: {name}: {status}: {told}"
    if not list(folder.glob(left)):
        return f"LOST by a kill after {seconds:.1f} s: {name}: {left}"
    if name in ("run", "tune", "train", "compare") and open_runs(folder):
        return f"OPEN run after a kill after {seconds:.1f} s: {name}"
    return "killed, and done again"


def interrupt(folder: Path, number: int, random_: random.Random, seconds: float) -> str:
    """Interrupt a command that would go on for ever."""
    which, command = random_.choice((signal.SIGINT, signal.SIGTERM)), random_.choice(FOREVER)
    process = start(folder, command)
    wait_for_work(process, folder, random_)
    signal_after(process, seconds, which)
    started = time.monotonic()
    status, told = finish(process)
    if status == -1000:
        return f"LOST: {which.name} to {command} after {seconds:.1f} s: {told[:4000]}"
    if "Traceback" in told and status != -which:  # Python's own, before the command had loaded
        return f"RAW: {which.name} to {command} after {seconds:.1f} s: {told[-1500:]}"
    if status not in (128 + which, -which):
        return f"STATUS {status}: {which.name} to {command} after {seconds:.1f} s: {told[-1500:]}"
    if time.monotonic() - started > 60:
        return f"SLOW: {command}: {time.monotonic() - started:.0f} s"
    if status == -which and "ending the command" not in told:
        return "ended before the command had loaded"
    if open_runs(folder):
        return f"OPEN run after {which.name} to {command} after {seconds:.1f} s"
    return f"ended by {which.name}"


def pair(folder: Path, number: int, random_: random.Random, seconds: float) -> str:
    """Start two commands together, and a third when they have ended."""
    *commands, allowed = PAIRS[number % len(PAIRS)]
    both = [start(folder, command) for command in commands]
    ends = [finish(process) for process in both]
    statuses = tuple(sorted(status for status, _ in ends))
    told = "\n".join(f"{one}: {text}" for one, text in zip(commands, ends, strict=True))
    if statuses not in allowed or "Traceback" in told:
        return f"WRONG {statuses}: {told[-3000:]}"
    status, told = finish(start(folder, "run small.yaml --quiet"))
    if status != 0:
        return f"BROKEN by {commands}: {status}: {told[-2000:]}"
    if open_runs(folder):
        return f"OPEN run after {commands}"
    return f"ended with {statuses[0]} and {statuses[1]}"


ATTACKS: dict[str, Callable[[Path, int, random.Random, float], str]] = {
    "kills": kill,
    "interrupts": interrupt,
    "pairs": pair,
}


def main() -> int:
    """Attack; 1 if anything was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=ATTACKS)
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so many")
    args = parser.parse_args()
    # Shells start what runs in the background with Ctrl-C ignored, and so would all commands be.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    counts: Counter[str] = Counter()
    started = time.monotonic()
    for number in range(args.number):
        if time.monotonic() - started > args.seconds:
            break
        random_ = random.Random(f"{args.seed}/{number}")
        seconds = FIRST * random_.random()
        with tempfile.TemporaryDirectory() as name:
            furnish(Path(name))
            said = ATTACKS[args.what](Path(name), number, random_, seconds)
        word = said.partition(":")[0]
        word = word.split(" ")[0] if is_harm(word) else word
        counts[word] += 1
        if is_harm(word):
            print(f"{args.what} {args.seed}/{number}: {said}", flush=True)
    return min(sum_up(f"{args.what}, seed {args.seed}", counts, started), 1)


if __name__ == "__main__":
    sys.exit(main())
