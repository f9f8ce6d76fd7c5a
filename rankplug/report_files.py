"""A report as files: tables in CSV and Markdown, a page in HTML, the resolved recipe."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from rankplug.report import Cell, Report

__all__ = ["REPORT_FILES", "to_csv", "to_html", "to_markdown", "to_per_query_csv", "write_report"]


def write_report(report: Report, folder: Path) -> None:
    """Write `REPORT_FILES` into a folder, each complete or not at all."""
    for name, render in REPORT_FILES.items():
        part = folder / f".{name}.part"
        try:
            part.write_text(render(report), encoding="utf-8", newline="")
            part.replace(folder / name)
        finally:
            part.unlink(missing_ok=True)


def to_csv(report: Report) -> str:
    """A row a solver with everything known of it, in full precision.

    Metrics are in columns ``split metric``; ``best`` lists the metrics that it wins.
    """
    scored = [(split, metric) for split in report.splits for metric in report.metrics]
    header = ["name", "solver", "status", "error", "best"]
    header += [f"{split} {metric}" for split, metric in scored]
    header += ["train_seconds", "train_cpu_seconds", "predict_seconds"]
    header += ["objective", "duality_gap", "n_iter", "n_passes", "params"]
    winners = {metric: report.winners(metric) for metric in report.metrics}
    rows: list[list[Any]] = []
    for outcome in report.outcomes:
        result = outcome.result
        best = " ".join(metric for metric in report.metrics if outcome.name in winners[metric])
        row: list[Any] = [outcome.name, outcome.solver, outcome.status, outcome.error, best]
        row += [outcome.metrics.get(split, {}).get(metric) for split, metric in scored]
        row += [outcome.train_seconds, outcome.train_cpu_seconds, outcome.predict_seconds]
        row += [
            getattr(result, key, None) for key in ("objective", "duality_gap", "n_iter", "n_passes")
        ]
        rows.append([*row, json.dumps(dict(outcome.params), default=str)])
    return _csv(header, rows)


def to_per_query_csv(report: Report) -> str:
    """A row for each solver and query of the test set; empty where a query does not count."""
    rows = (
        [outcome.name, query, *(outcome.per_query[metric][i] for metric in report.metrics)]
        for outcome in report.outcomes
        if outcome.result is not None
        for i, query in enumerate(report.query_ids)
    )
    return _csv(["name", "qid", *report.metrics], rows)


def to_markdown(report: Report) -> str:
    """The table and its notes as Markdown, winners in bold."""
    header, rows = report.table()
    lines = [f"# {_escape(report.name)}", ""]
    lines += [f"- {split}: {_escape(size)}" for split, size in report.splits.items()]
    lines += ["", _markdown_row(map(_escape, header))]
    lines.append(_markdown_row([":---", *["---:"] * (len(header) - 2), ":---"]))
    lines += [_markdown_row(map(_markdown_cell, row)) for row in rows]
    lines += ["", "Metrics on the test set; the best in bold.", ""]
    lines += [f"- {_escape(note)}" for note in report.notes()]
    return "\n".join(lines).rstrip() + "\n"


def to_html(report: Report) -> str:
    """A page that needs no other file: the table, a plot, the recipe."""
    header, rows = report.table()
    plot = base64.b64encode(_plot(report)).decode("ascii")
    return _PAGE.substitute(
        name=escape(report.name),
        splits=_html_list(f"{split}: {size}" for split, size in report.splits.items()),
        header="".join(f"<th>{escape(title)}</th>" for title in header),
        rows="\n".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in rows),
        notes=_html_list(report.notes()),
        plot=f"data:image/svg+xml;base64,{plot}",
        recipe=escape(report.recipe),
    )


REPORT_FILES: dict[str, Callable[[Report], str]] = {
    "results.csv": to_csv,
    "per_query.csv": to_per_query_csv,
    "report.md": to_markdown,
    "report.html": to_html,
    "recipe.yaml": lambda report: report.recipe,
}


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(["" if value is None or value != value else value for value in row])
    return stream.getvalue()


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    return f"**{_escape(cell.text)}**" if cell.best else _escape(cell.text)


def _escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|#~&])", r"\\\1", " ".join(text.split()))


def _html_cell(cell: Cell) -> str:
    return f"<td>{'<strong>' * cell.best}{escape(cell.text)}{'</strong>' * cell.best}</td>"


def _html_list(items: Iterable[str]) -> str:
    return "".join(f"<li>{escape(item)}</li>" for item in items)


def _plot(report: Report) -> bytes:
    """The primary metric and the training time of every solver as an SVG picture."""
    from matplotlib.figure import Figure

    outcomes = [outcome for outcome in reversed(report.outcomes) if outcome.result is not None]
    places = range(len(outcomes))
    figure = Figure(figsize=(8, 1.2 + 0.35 * len(outcomes)), layout="constrained")
    scores, times = figure.subplots(1, 2, sharey=True)
    scores.plot([outcome.score(report.metrics[0]) for outcome in outcomes], places, "o")
    scores.set_xlabel(f"{report.metrics[0]} (test)")
    scores.set_yticks(places, [outcome.name for outcome in outcomes], parse_math=False)
    times.barh(places, [outcome.train_seconds or 0.0 for outcome in outcomes], height=0.5)
    times.set_xlabel("training, seconds")
    for axes in (scores, times):
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    stream = io.BytesIO()
    figure.savefig(stream, format="svg")
    return stream.getvalue()


_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$name - rankplug</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.8rem; border-bottom: 1px solid #ccc; text-align: right; }
td { white-space: nowrap; }
th:first-child, td:first-child, th:last-child, td:last-child { text-align: left; }
.wide { overflow-x: auto; }
img { max-width: 100%; margin-top: 1.5rem; }
pre { background: #f5f5f5; padding: 1rem; overflow-x: auto; }
@media (prefers-color-scheme: dark) {
  body { background: #181818; color: #ddd; }
  pre { background: #262626; }
  img { background: #fff; }
}
</style>
</head>
<body>
<h1>$name</h1>
<ul>$splits</ul>
<div class="wide">
<table>
<thead><tr>$header</tr></thead>
<tbody>
$rows
</tbody>
</table>
</div>
<p>Metrics on the test set; the best in bold.</p>
<ul>$notes</ul>
<img src="$plot" alt="Primary metric and training time of each solver">
<h2>Recipe</h2>
<pre>$recipe</pre>
</body>
</html>
""")
