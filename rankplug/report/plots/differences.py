"""How much every solver differs from the baseline, on the mean and query by query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rankplug.report.plots.canvas import INK, Canvas, Plot, room_for, shorten

if TYPE_CHECKING:
    from rankplug.report.report import Report
    from rankplug.report.statistics import Comparison

__all__ = ["differences"]

_LINE = {"color": INK, "linewidth": 1.0, "alpha": 0.6}


def differences(report: Report, canvas: Canvas) -> list[Plot]:
    """Mean differences with their intervals; differences of the queries, sorted."""
    found = [one for one in report.comparisons if one.n_queries > 1 and one.name in canvas.styles]
    return [_means(found, canvas), _queries(found, report, canvas)] if found else []


def _means(found: list[Comparison], canvas: Canvas) -> Plot:
    labels = [shorten(one.name) for one in found]
    height = max(2.0, 0.9 + 0.34 * len(found))
    with canvas.axes(height, left=room_for(labels)) as axes:
        for place, one in enumerate(found):
            style = canvas.styles[one.name]
            # Rounding may put the mean outside of an interval without width.
            bars = [[max(0.0, one.difference - one.low)], [max(0.0, one.high - one.difference)]]
            axes.errorbar(
                one.difference, place, xerr=bars, color=style.color, marker=style.marker, capsize=3
            )
        axes.axvline(0.0, **_LINE)
        axes.set_yticks(range(len(found)), labels)
        axes.set_ylim(len(found) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        metric, baseline = found[0].metric, found[0].baseline
        axes.set_xlabel(f"difference in {metric}")
        svg = canvas.svg(axes, f"Mean difference of every solver to {baseline} in {metric}")
    caption = "Bars are 95 % intervals of each pair alone; the verdicts allow for their number."
    return Plot("Mean difference", svg, caption)


def _queries(found: list[Comparison], report: Report, canvas: Canvas) -> Plot:
    values = {outcome.name: outcome.per_query for outcome in report.succeeded}
    with canvas.axes() as axes:
        for one in found:
            own, other = values[one.name][one.metric], values[one.baseline][one.metric]
            sorted_differences = np.sort((own - other)[~np.isnan(own - other)])[::-1]
            share = 100 * (np.arange(len(sorted_differences)) + 0.5) / len(sorted_differences)
            style = canvas.styles[one.name]
            axes.plot(share, sorted_differences, color=style.color, linestyle=style.linestyle)
        axes.axhline(0.0, **_LINE)
        axes.set_xlim(0, 100)
        axes.set_xlabel("queries, % (largest difference first)")
        metric, baseline = report.metrics[0], report.baseline
        axes.set_ylabel(f"{metric}, difference")
        svg = canvas.svg(axes, f"Differences to {baseline} in {metric} of all queries, sorted")
    caption = "Above zero the solver has the higher value, below zero the baseline."
    return Plot("Query by query", svg, caption)
