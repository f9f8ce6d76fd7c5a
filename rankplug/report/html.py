"""A report as one HTML page that needs no other file and no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rankplug.exceptions import warn_caller
from rankplug.report import tables
from rankplug.report.look.page import Look, policy
from rankplug.report.look.showing import look_at
from rankplug.report.plots.canvas import Canvas, Plot
from rankplug.report.plots.convergence import convergence
from rankplug.report.plots.curves import curves
from rankplug.report.plots.maps import refits, shapes
from rankplug.report.plots.tradeoffs import differences, learning, tradeoffs, tuning
from rankplug.report.plots.weights import weights
from rankplug.report.report import Report
from rankplug.report.tables import Table
from rankplug.report.templates import own, render

_MARKS = {"better": "▲", "worse": "▼"}
"""Verdicts that stand out, by a sign for those who do not see the colours."""
_ABOUT_SANITY = "a check that learns next to nothing, not drawn in the plots"
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
_ABOUT_SHAPES = (
    "Additive models: what a feature adds to the score at each of its values, with mean 0 over the "
    "test set, whose distribution stands beneath."
)
_ABOUT_REFITS = (
    "Models of leaves: the values of the trees as they were trained, in the colour of the text, "
    "and the weights that all leaves together were given for the ranking."
)


class _Section(NamedTuple):
    """A table, plots with a legend, or both, below the title of the table or one of their own."""

    title: str = ""
    table: Table | None = None
    plots: Sequence[Plot] = ()
    about: str = ""
    legend: bool = True


def to_html(report: Report) -> str:
    """A page that needs no other file: tables, plots, the recipe.

    The plots of all sections are drawn first, in the order of the page; then the template
    ``page.html`` puts everything in its place and escapes it.
    """
    drawn = [one.name for one in report.outcomes if one.tuning is not None or report.is_drawn(one)]
    canvas = Canvas(drawn, report.baseline)
    results = tables.results(report)
    sanity = (one.name for one in report.succeeded if not report.is_drawn(one))
    sections = [
        _Section(table=tables.comparisons(report), plots=canvas.draw(differences, report)),
        _Section(table=tables.repeats(report)),
        _Section("From the top down", plots=canvas.draw(curves, report)),
        _Section(table=tables.disagreements(report)),
        _Section(
            "Costs",
            tables.costs(report),
            [*canvas.draw(learning, report), *canvas.draw(tradeoffs, report)],
            _ABOUT_TRADEOFFS,
        ),
        _Section("Convergence", None, canvas.draw(convergence, report), _ABOUT_CONVERGENCE),
        _Section("Tuning", tables.tuning(report), canvas.draw(tuning, report)),
        _Section("Features", None, canvas.draw(weights, report), _ABOUT_WEIGHTS, legend=False),
        _Section("Shapes", None, canvas.draw(shapes, report), _ABOUT_SHAPES, legend=False),
        _Section("Trees, refitted", None, canvas.draw(refits, report), _ABOUT_REFITS, legend=False),
    ]
    about_all = (f"{name}: {_ABOUT_SANITY}" for name in sanity)
    look = _look(report, canvas.failures)
    notes = (*report.notes(), *about_all, *canvas.failures)
    sections.insert(0, _Section(table=replace(results, notes=notes)))
    style = _style(look)
    return render(
        "page.html",
        report=report,
        splits=[f"{split}: {size}" for split, size in report.splits.items()],
        verdicts=_verdicts(report),
        sections=[one for one in sections if one.table is not None or one.plots],
        keys={name: canvas.key(name) for name in canvas.styles},
        marks=_MARKS,
        sides={"<": "left", ">": "right"},
        look=look,
        style=style,
        policy=policy(style, look.script if look else ""),
    )


def _look(report: Report, failures: list[str]) -> Look | None:
    """The rankings of the test set; trouble is a note and no error, as with figures."""
    try:
        return look_at(report)
    except Exception as error:
        failures.append(f"rankings are left out, as they cannot be shown: {error!r}")
        warn_caller(f"report: {failures[-1]}")
        return None


def _style(look: Look | None) -> str:
    """All rules of the page."""
    return own("page.css") + (look.style if look else "")


def _verdicts(report: Report) -> dict[str, list[str]]:
    """The solvers of each verdict on the comparison with the baseline, the better ones first."""
    names: dict[str, list[str]] = {}
    for one in report.comparisons:
        names.setdefault(one.verdict, []).append(one.name)
    order = sorted(names, key=lambda verdict: (verdict != "better", verdict))
    return {verdict: names[verdict] for verdict in order}
