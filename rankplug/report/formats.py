"""A report as text, Markdown and CSV, and as files in a folder."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rankplug.display import text_table
from rankplug.io.files import replacing
from rankplug.report.html import to_html
from rankplug.report.report import Report
from rankplug.report.tables import Cell, Table, report_tables

_OF_OUTCOME = ("train_seconds", "train_cpu_seconds", "predict_seconds")
_OF_RESULT = ("objective", "duality_gap", "n_iter", "n_passes")
_OF_COMPARISON = (
    "n_queries", "difference", "low", "high", "p_value", "p_holm", "wins", "ties", "losses",
    "verdict",
)  # fmt: skip


def to_text(report: Report) -> str:
    """The tables and their notes for a terminal, winners marked by an asterisk."""
    results, *others = report_tables(report)
    lines = [_text(results), "* best on the test set", *report.notes()]
    for table in others:
        lines += ["", table.title, "", _text(table), *table.notes]
    return "\n".join(lines) + "\n"


def _text(table: Table) -> str:
    """The table for a terminal; columns with a winner have room for its asterisk."""
    columns = zip(*table.rows, strict=True)
    marks = [" " if any(cell.best for cell in column) else "" for column in columns]
    marks = marks or [""] * len(table.header)
    titles = [title + mark for title, mark in zip(table.header, marks, strict=True)]
    rows = [
        [cell.text + ("*" if cell.best else mark) for cell, mark in zip(row, marks, strict=True)]
        for row in table.rows
    ]
    return text_table(titles, rows, table.align)


def to_markdown(report: Report) -> str:
    """The tables and their notes as Markdown, winners in bold."""
    results, *others = report_tables(report)
    lines = [f"# {_escape(report.name)}", ""]
    lines += [f"- {split}: {_escape(size)}" for split, size in report.splits.items()]
    lines += ["", *_markdown(results), "", "Metrics on the test set; the best in bold.", ""]
    lines += _bullets(report.notes())
    for table in others:
        lines += ["", f"## {_escape(table.title)}", "", *_markdown(table), ""]
        lines += _bullets(table.notes)
    if report.digests:
        lines += ["", "## To get the same numbers", ""]
        lines += _bullets(f"{key}: {value}" for key, value in report.digests.items())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _markdown(table: Table) -> Iterator[str]:
    """The lines of a table."""
    header = [_escape(title) for title in table.header]
    sides = [":---" if side == "<" else "---:" for side in table.align]
    rows = ([_emphasise(cell) for cell in row] for row in table.rows)
    return (f"| {' | '.join(cells)} |" for cells in (header, sides, *rows))


def _emphasise(cell: Cell) -> str:
    return f"**{_escape(cell.text)}**" if cell.best else _escape(cell.text)


def _bullets(items: Iterable[str]) -> list[str]:
    return [f"- {_escape(item)}" for item in items]


def _escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|#~&])", r"\\\1", " ".join(text.split()))


def to_csv(report: Report) -> str:
    """A row a solver with everything known of it, in full precision.

    Metrics are in columns ``split metric``; ``best`` lists the metrics that it wins;
    ``difference`` and so on compare the primary metric with the baseline's.
    """
    scored = [(split, metric) for split in report.splits for metric in report.metrics]
    measured = dict.fromkeys(key for one in report.outcomes for key in one.costs)  # in their order
    costs = [key for key in measured if key not in _OF_OUTCOME]
    header = ["name", "solver", "status", "error", "best"]
    header += [f"{split} {metric}" for split, metric in scored]
    header += [*_OF_COMPARISON, *_OF_OUTCOME, *costs, *_OF_RESULT, "params"]
    winners = {metric: report.winners(metric) for metric in report.metrics}
    compared = {one.name: one for one in report.comparisons}
    rows: list[list[Any]] = []
    for outcome in report.outcomes:
        best = " ".join(metric for metric in report.metrics if outcome.name in winners[metric])
        row: list[Any] = [outcome.name, outcome.solver, outcome.status, outcome.error, best]
        row += [outcome.metrics.get(split, {}).get(metric) for split, metric in scored]
        row += [getattr(compared.get(outcome.name), key, None) for key in _OF_COMPARISON]
        row += [getattr(outcome, key) for key in _OF_OUTCOME]
        row += [outcome.costs.get(key) for key in costs]
        row += [getattr(outcome.result, key, None) for key in _OF_RESULT]
        rows.append([*row, json.dumps(dict(outcome.params), default=str)])
    return _csv(header, rows)


def to_per_query_csv(report: Report) -> str:
    """A row for each solver and query of the test set; empty where a query does not count."""
    rows = (
        [outcome.name, query, *(outcome.per_query[metric][i] for metric in report.metrics)]
        for outcome in report.succeeded
        for i, query in enumerate(report.query_ids)
    )
    return _csv(["name", "qid", *report.metrics], rows)


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(["" if value is None or value != value else value for value in row])
    return stream.getvalue()


REPORT_FILES: dict[str, Callable[[Report], str]] = {
    "results.csv": to_csv,
    "per_query.csv": to_per_query_csv,
    "report.md": to_markdown,
    "recipe.yaml": lambda report: report.recipe,
    "report.html": to_html,
}


def write_report(report: Report, folder: Path) -> None:
    """Write `REPORT_FILES` into a folder, each complete or not at all."""
    for name, render in REPORT_FILES.items():
        with replacing(folder / name) as stream:
            stream.write(render(report).encode())
