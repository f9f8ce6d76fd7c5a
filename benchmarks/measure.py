"""Time and memory: paired, alternated, medians; and where they were measured."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Generic, TypeVar

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Threads that wait actively make two threads slower than one on virtual machines.
    "OMP_WAIT_POLICY": "passive",
}
"""Set before the process starts; solvers are told their threads by parameter."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: wall, CPU of the calling thread, CPU of all threads."""

    wall: float
    thread_cpu: float
    process_cpu: float

    def __sub__(self, other: Timing) -> Timing:
        return Timing(
            self.wall - other.wall,
            self.thread_cpu - other.thread_cpu,
            self.process_cpu - other.process_cpu,
        )


@dataclass(frozen=True)
class Timed(Generic[Result]):
    """What a call returns that knows its own timing, because not all it does counts."""

    result: Result
    timing: Timing


@dataclass(frozen=True)
class Samples:
    """What a call returned last, and the timings of its runs."""

    result: Any
    timings: list[Timing]

    def median(self, clock: str) -> float:
        return float(median(getattr(timing, clock) for timing in self.timings))

    def ratio(self, other: Samples, clock: str) -> float:
        """The median over the rounds of this call's time divided by the other's."""
        pairs = zip(self.timings, other.timings, strict=True)
        return float(median(getattr(a, clock) / getattr(b, clock) for a, b in pairs))

    def columns(self) -> dict[str, float]:
        medians = {f"{field.name}_s": self.median(field.name) for field in fields(Timing)}
        return {"runs": len(self.timings), **medians}


def alternate(
    calls: Mapping[str, Callable[[], Any]], rounds: int, number: Mapping[str, int] | None = None
) -> dict[str, Samples]:
    """Run the calls in turn (A B A B ...), so that each round sees the same machine.

    `number` says how often a short call is run per turn; its timing is the mean.
    """
    results: dict[str, Any] = {}
    timings: dict[str, list[Timing]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            results[name], timing = timed(call, (number or {}).get(name, 1))
            timings[name].append(timing)
    return {name: Samples(results[name], timings[name]) for name in calls}


def timed(call: Callable[[], Any], number: int = 1) -> tuple[Any, Timing]:
    """The result of a call, and the mean timing of so many of them."""
    before = (time.perf_counter(), time.thread_time(), time.process_time())
    for _ in range(number):
        result = call()
    after = (time.perf_counter(), time.thread_time(), time.process_time())
    if isinstance(result, Timed):
        return result.result, result.timing
    return result, Timing(*((b - a) / number for a, b in zip(before, after, strict=True)))


@contextmanager
def timed_methods(owner: type, *names: str) -> Iterator[list[float]]:
    """Collect the thread CPU time of every call of some methods."""
    spent: list[float] = []

    def timed(original: Any, *arguments: Any) -> Any:
        start = time.thread_time()
        try:
            return original(*arguments)
        finally:
            spent.append(time.thread_time() - start)

    originals = {name: getattr(owner, name) for name in names}
    for name, original in originals.items():
        setattr(owner, name, lambda *arguments, _of=original: timed(_of, *arguments))
    try:
        yield spent
    finally:
        for name, original in originals.items():
            setattr(owner, name, original)


def peak_memory(call: Callable[[], Any]) -> int:
    """Bytes of memory the process needed during the call beyond what it had before.

    Resident memory counts native code's allocations too, page by page. Linux only: the
    kernel's high-water mark is reset first.
    """
    Path("/proc/self/clear_refs").write_text("5")
    before = status_bytes("VmRSS")
    call()
    return status_bytes("VmHWM") - before


def status_bytes(key: str) -> int:
    """A size of this process that the kernel tells."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {key}")


def machine(packages: tuple[str, ...] = ()) -> dict[str, Any]:
    """Facts that belong to every result; no names of hosts or users."""
    known = ("numpy", "scipy", *packages)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _commit(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": "; ".join(f"{name} {version(name)}" for name in known),
    }


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
