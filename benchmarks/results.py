"""Results as CSV files: written whole or not at all, read back for plots."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def write(path: Path, rows: Iterable[Mapping[str, Any]], facts: Mapping[str, Any]) -> None:
    """Write the rows, each followed by the facts about the machine."""
    complete = [{**row, **facts} for row in rows]
    columns = list(dict.fromkeys(name for row in complete for name in row))
    # The facts come last even if a later row has a column of its own.
    columns = [name for name in columns if name not in facts] + list(facts)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".partial")
    with unfinished.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _shown(value) for name, value in row.items()} for row in complete)
    unfinished.replace(path)


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a file that `write` made."""
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _shown(value: Any) -> Any:
    return f"{value:.10g}" if isinstance(value, float) else value
