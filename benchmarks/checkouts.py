"""The same measurement on two versions of the package, in turn.

``RANKPLUG_BEFORE`` names a checkout, compiled, of the commit to compare with. Each version runs in
processes of its own, which run the same script. Its last line is JSON: "package", the file that it
found, and "rows", its measurements.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

BEFORE = "RANKPLUG_BEFORE"
_ROOT = Path(__file__).parents[1]

Measurement = tuple[Mapping[str, Any], Mapping[str, float]]
"""What was measured, by columns that name it, and its figures."""


def measure_in_turn(
    script: str, tiny: bool, rounds: int
) -> Iterator[tuple[str, str, list[Measurement]]]:
    """Versions, "before" (if there is one) and "after" in turn, their commits and measurements."""
    checkouts = {"before": os.environ.get(BEFORE), "after": str(_ROOT)}
    for _ in range(rounds):
        for version, checkout in checkouts.items():
            if checkout is not None:
                yield version, _commit_of(checkout), _measured_in(checkout, script, tiny)


def _measured_in(checkout: str, script: str, tiny: bool) -> list[Measurement]:
    """What a process measures whose package is that of a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        # Entry points name the plugins' package, which is a folder of another name there.
        Path(folder, "rankplug_plugins").symlink_to(Path(checkout, "plugins").absolute())
        path = os.pathsep.join([checkout, folder])
        command = [sys.executable, "-P", script, *(["--tiny"] if tiny else [])]
        environment = {**os.environ, "PYTHONPATH": path, "MLFLOW_DISABLE_TELEMETRY": "true"}
        done = subprocess.run(
            command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True
        )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if not Path(answer["package"]).is_relative_to(Path(checkout).resolve()):
        raise RuntimeError(f"{answer['package']} was measured, which is not of {checkout}")
    rows: list[Measurement] = answer["rows"]
    return rows


def _commit_of(checkout: str) -> str:
    git = ["git", "-C", checkout, "describe", "--always", "--dirty"]
    found = subprocess.run(git, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"
