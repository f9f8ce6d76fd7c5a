"""A report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankplug.report.report import Report
    from rankplug.report.tables import Cell, Table

__all__ = ["to_markdown"]


def to_markdown(report: Report) -> str:
    """The tables and their notes as Markdown, winners in bold."""
    results, *others = report.tables()
    lines = [f"# {_escape(report.name)}", ""]
    lines += [f"- {split}: {_escape(size)}" for split, size in report.splits.items()]
    lines += ["", *_table(results), "", "Metrics on the test set; the best in bold.", ""]
    lines += _list(report.notes())
    for table in others:
        lines += ["", f"## {_escape(table.title)}", "", *_table(table), "", *_list(table.notes)]
    if report.digests:
        lines += ["", "## To get the same numbers", ""]
        lines += _list(f"{key}: {value}" for key, value in report.digests.items())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _table(table: Table) -> Iterator[str]:
    yield _row(map(_escape, table.header))
    yield _row(":---" if side == "<" else "---:" for side in table.align)
    for row in table.rows:
        yield _row(map(_cell, row))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    return f"**{_escape(cell.text)}**" if cell.best else _escape(cell.text)


def _list(items: Iterable[str]) -> list[str]:
    return [f"- {_escape(item)}" for item in items]


def _escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|#~&])", r"\\\1", " ".join(text.split()))
