"""A report as one page that needs no other file, no script and no network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING

from rankplug.report import tables
from rankplug.report.page import PAGE
from rankplug.report.plots.canvas import Canvas, Plot
from rankplug.report.plots.convergence import convergence
from rankplug.report.plots.curves import curves
from rankplug.report.plots.differences import differences
from rankplug.report.plots.tradeoffs import learning, tradeoffs
from rankplug.report.plots.tuning import tuning
from rankplug.report.plots.weights import weights

if TYPE_CHECKING:
    from rankplug.report.report import Report
    from rankplug.report.tables import Cell, Table

__all__ = ["to_html"]

_SHORT = 12
_MARKS = {"better": "▲ ", "worse": "▼ "}

_ABOUT_TRADEOFFS = "Plots: a line joins the solvers that nobody beats in both cost and quality."
_ABOUT_CONVERGENCE = (
    "A picture for each objective: values of different ones have no common scale. Lines: objective "
    "above the best known bound of its minimum, relative to it; dotted: certified gap; large "
    "marker: gap of the result. Solvers without a stated objective are not shown."
)
_ABOUT_WEIGHTS = (
    "Linear models: weight times standard deviation of the feature in the test set, blue and + if "
    "more of the feature raises the score, orange and − if it lowers it. Others: importance as "  # noqa: RUF001
    "the model defines it, without a direction. All panels show the same features."
)


def to_html(report: Report) -> str:
    """A page that needs no other file: tables, plots, the recipe."""
    drawn = [one.name for one in report.outcomes if one.tuning is not None or report.is_drawn(one)]
    canvas = Canvas(drawn, report.baseline)
    disagreement = tables.disagreements(report)
    sections = [
        _section(replace(tables.results(report), notes=(*report.notes(), *_about_sanity(report)))),
        _section(tables.comparisons(report), differences(report, canvas), canvas),
        _section(tables.repeats(report)),
        _section("From the top down", curves(report, canvas), canvas),
        _section(disagreement),
        _section(
            tables.costs(report) or "Costs",
            [*learning(report, canvas), *tradeoffs(report, canvas)],
            canvas,
            _ABOUT_TRADEOFFS,
        ),
        _section("Convergence", convergence(report, canvas), canvas, _ABOUT_CONVERGENCE),
        _section(tables.tuning(report) or "Tuning", tuning(report, canvas), canvas),
        _section("Features", weights(report, canvas), about=_ABOUT_WEIGHTS),
    ]
    return PAGE.substitute(
        name=escape(report.name),
        splits=_list((f"{split}: {size}" for split, size in report.splits.items()), "splits"),
        lead=_lead(report),
        keys=_keys(canvas),
        sections="\n".join(filter(None, sections)),
        digests=_definitions(report.digests.items()),
        recipe=escape(report.recipe),
    )


def _about_sanity(report: Report) -> list[str]:
    names = [one.name for one in report.succeeded if not report.is_drawn(one)]
    about = "a check that learns next to nothing, not drawn in the plots"
    return [f"{name}: {about}" for name in names]


def _section(
    head: Table | str | None,
    plots: Sequence[Plot] = (),
    canvas: Canvas | None = None,
    about: str = "",
) -> str:
    """A heading, its table, its plots with a legend; nothing if it has neither."""
    if head is None or (isinstance(head, str) and not plots):
        return ""
    title = head if isinstance(head, str) else head.title
    parts = [f"<h2>{escape(title)}</h2>"]
    if not isinstance(head, str):
        parts.append(_table(head))
    if about:
        parts.append(f'<p class="about">{escape(about)}</p>')
    if plots:
        if canvas is not None:
            parts.append(_legend(canvas))
        parts.append(f'<div class="plots">{"".join(map(_figure, plots))}</div>')
    body = "\n".join(parts)
    return f"<section>\n{body}\n</section>"


def _lead(report: Report) -> str:
    """The verdicts in words, those who are better first."""
    if not report.comparisons:
        return ""
    names: dict[str, list[str]] = {}
    for one in report.comparisons:
        names.setdefault(one.verdict, []).append(one.name)
    order = sorted(names, key=lambda verdict: (verdict != "better", verdict))
    metric, baseline = report.metrics[0], report.baseline
    parts = [f"{_verdict(verdict)}: {escape(', '.join(names[verdict]))}" for verdict in order]
    return (
        f"<p>Against <strong>{escape(str(baseline))}</strong> in {escape(metric)} &#8211; "
        f"{'; '.join(parts)}.</p>"
    )


def _table(table: Table) -> str:
    sides = ["left" if side == "<" else "right" for side in table.align]
    head = "".join(
        f'<th scope="col" class="{side}">{_title(title)}</th>'
        for title, side in zip(table.header, sides, strict=True)
    )
    rows = "\n".join(f"<tr>{_row(row, sides)}</tr>" for row in table.rows)
    # The keyboard, too, can scroll what has a tab index.
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(table.title)}">\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>"
        + _list(table.notes, "notes")
    )


def _title(text: str) -> str:
    """The title of a column; a short one stays on one line."""
    title = escape(text)
    return title.replace(" ", "&#160;") if len(text) <= _SHORT else title


def _row(row: Sequence[Cell], sides: Sequence[str]) -> str:
    first = f'<th scope="row" class="{sides[0]}">{_content(row[0])}</th>'
    rest = zip(row[1:], sides[1:], strict=True)
    return first + "".join(f'<td class="{side}">{_content(cell)}</td>' for cell, side in rest)


def _content(cell: Cell) -> str:
    text = _verdict(cell.text)
    return f"<strong>{text}</strong>" if cell.best else text


def _verdict(text: str) -> str:
    """Better and worse with a mark and a colour, any other text as it is."""
    if text not in _MARKS:
        return escape(text)
    return f'<span class="{text}"><span aria-hidden="true">{_MARKS[text]}</span>{text}</span>'


def _keys(canvas: Canvas) -> str:
    """The samples of all legends, drawn once."""
    keys = (
        canvas.key(name).replace("<svg ", f'<symbol id="key-{place}" ').replace("</svg", "</symbol")
        for place, name in enumerate(canvas.styles)
    )
    return f'<svg class="keys" aria-hidden="true">{"".join(keys)}</svg>'


def _legend(canvas: Canvas) -> str:
    keys = "".join(
        f'<li><svg aria-hidden="true" viewBox="0 0 42 16"><use href="#key-{place}"/></svg>'
        f"{escape(name)}</li>"
        for place, name in enumerate(canvas.styles)
    )
    return f'<ul class="legend">{keys}</ul>'


def _figure(plot: Plot) -> str:
    caption = f"<p>{escape(plot.caption)}</p>" if plot.caption else ""
    return (
        f"<figure>\n<figcaption>{escape(plot.title)}</figcaption>\n{plot.svg}\n{caption}</figure>\n"
    )


def _list(items: Iterable[str], kind: str) -> str:
    entries = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f'<ul class="{kind}">{entries}</ul>' if entries else ""


def _definitions(items: Iterable[tuple[str, str]]) -> str:
    entries = "".join(
        f"<dt>{escape(key)}</dt><dd>{escape(str(value))}</dd>" for key, value in items
    )
    if not entries:
        return ""
    about = "Equal digests, seeds and versions give equal numbers, but for times."
    return f"<p>{about}</p>\n<dl>{entries}</dl>"
