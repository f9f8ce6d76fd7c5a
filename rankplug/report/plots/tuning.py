"""The trials of tuning: what each found, and the best so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rankplug.metrics import parse_metric
from rankplug.report.outcome import ParetoTrials, TuningSummary
from rankplug.report.plots.canvas import INK, Canvas, Plot
from rankplug.report.plots.tradeoffs import front

if TYPE_CHECKING:
    from rankplug.report.report import Report

__all__ = ["tuning"]


def tuning(report: Report, canvas: Canvas) -> list[Plot]:
    """Trials by number and by time; a panel of its own where there were several objectives."""
    tuned = {one.name: one.tuning for one in report.outcomes if one.tuning and one.tuning.history}
    plots = []
    if tuned:
        plots.append(_trials(tuned, "trial", canvas))
        plots.append(_trials(tuned, "seconds", canvas))
    plots += [_several(trials, canvas) for trials in report.pareto if len(trials.objectives) > 1]
    return plots


def _trials(tuned: dict[str, TuningSummary], unit: str, canvas: Canvas) -> Plot:
    with canvas.axes() as axes:
        for name, summary in tuned.items():
            style = canvas.styles[name]
            values = np.array([value for _, _, value, _ in summary.history])
            places = np.array(
                [seconds if unit == "seconds" else i for i, (_, seconds, _, _)
                 in enumerate(summary.history, start=1)]
            )  # fmt: skip
            done = ~np.isnan(values)
            better = np.maximum if parse_metric(summary.metric).greater_is_better else np.minimum
            axes.plot(places[done], values[done], style.marker, color=style.color, alpha=0.35)
            axes.step(
                places[done], better.accumulate(values[done]), where="post",
                color=style.color, linestyle=style.linestyle,
            )  # fmt: skip
            # Trials without a value, at the lower edge.
            axes.plot(
                places[~done], np.zeros((~done).sum()), "x", color=style.color, alpha=0.6,
                transform=axes.get_xaxis_transform(), clip_on=False,
            )  # fmt: skip
        metric = next(iter(tuned.values())).metric
        axes.set_xlabel("seconds since the start" if unit == "seconds" else "trial")
        axes.set_ylabel(f"{metric}, validation")
        svg = canvas.svg(axes, f"{metric} of the trials of tuning, by {unit}")
    caption = "Lines: the best so far. Crosses at the lower edge: pruned or failed."
    return Plot("Trials" if unit == "trial" else "Trials by time", svg, caption)


def _several(found: ParetoTrials, canvas: Canvas) -> Plot:
    """The first two objectives of each trial, and the trials that nobody beats in them."""
    points = [(values[1], values[0]) for _, values, _ in found.trials]
    signs = (-1 if found.maximise[1] else 1, 1 if found.maximise[0] else -1)
    with canvas.axes() as axes:
        style = canvas.styles[found.name]
        if points:
            best = front([(signs[0] * x, signs[1] * y) for x, y in points])
            axes.plot(*np.array(points).T, style.marker, color=style.color, alpha=0.35)
            axes.plot(*np.array(points)[best].T, style.marker, color=style.color)
            axes.step(*np.array(points)[best].T, where="post", color=INK, alpha=0.4, linewidth=1.2)
        axes.set_xlabel(found.objectives[1])
        axes.set_ylabel(found.objectives[0])
        svg = canvas.svg(axes, f"Trials of {found.name} in two objectives")
    return Plot(f"{found.name}: {' and '.join(found.objectives)}", svg)
