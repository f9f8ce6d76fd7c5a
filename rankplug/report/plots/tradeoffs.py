"""Quality against each cost, with the solvers that nobody beats in both."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rankplug.metrics import parse_metric
from rankplug.report.plots.canvas import INK, Canvas, Plot, plain_log_axis
from rankplug.report.tables import cost

if TYPE_CHECKING:
    from rankplug.report.report import Report

__all__ = ["front", "learning", "tradeoffs"]

_AXES = {
    "train_seconds": ("Training time", "seconds", 1.0),
    "train_cpu_seconds": ("Processor time of training", "CPU seconds", 1.0),
    "seconds_to_99": ("Time to 99 % of its quality", "seconds", 1.0),
    "n_passes": ("Passes over the data", "passes", 1.0),
    "train_peak_bytes": ("Memory of training", "MB", 1e-6),
    "model_bytes": ("Size of the model", "kB", 1e-3),
    "predict_us_1": ("Prediction, one row at a time", "microseconds per row", 1.0),
    "predict_us_100": ("Prediction, 100 rows at a time", "microseconds per row", 1.0),
    "predict_us_10000": ("Prediction, 10,000 rows at a time", "microseconds per row", 1.0),
}


def tradeoffs(report: Report, canvas: Canvas) -> list[Plot]:
    """A panel for each cost that is known of two solvers at least."""
    metric = report.metrics[0]
    sign = 1 if parse_metric(metric).greater_is_better else -1
    plots = []
    for key, (title, unit, factor) in _AXES.items():
        points = {
            outcome.name: (factor * cost(outcome, key), outcome.score(metric))
            for outcome in report.competitors
            if cost(outcome, key) > 0 and not math.isnan(outcome.score(metric))
        }
        if len(points) < 2:
            continue
        with canvas.axes(2.7) as axes:
            best = front([(x, sign * y) for x, y in points.values()])
            line = np.array(list(points.values()))[best]
            axes.step(*line.T, where="post", color=INK, alpha=0.35, linewidth=1.2)
            for name, point in points.items():
                style = canvas.styles[name]
                axes.plot(*point, style.marker, color=style.color, markersize=8)
            axes.margins(0.12)
            plain_log_axis(axes.xaxis)
            axes.set_xlabel(unit)
            axes.set_ylabel(metric)
            plots.append(Plot(title, canvas.svg(axes, f"{metric} against {title.lower()}")))
    return plots


def learning(report: Report, canvas: Canvas) -> list[Plot]:
    """Quality against the time of trainings that were stopped early."""
    curves = [outcome for outcome in report.competitors if len(outcome.learning_curve) > 1]
    if not curves:
        return []
    metric = report.metrics[0]
    with canvas.axes() as axes:
        for outcome in curves:
            seconds = [point.seconds for point in outcome.learning_curve]
            quality = [point.quality for point in outcome.learning_curve]
            axes.plot(seconds, quality, **vars(canvas.styles[outcome.name]))
        plain_log_axis(axes.xaxis)
        axes.set_xlabel("training, seconds")
        axes.set_ylabel(metric)
        svg = canvas.svg(axes, f"{metric} against training time of every solver")
    caption = "Each point is a training of its own, ended after 1, 2, 4, 8, ... iterations."
    return [Plot("Quality against time", svg, caption)]


def front(points: list[tuple[float, float]]) -> list[int]:
    """Places of the points that no other one beats, by rising cost.

    A point is beaten by one that costs no more and is no worse, and is better in one of both.

    Parameters
    ----------
    points : list of (cost, quality)
        Cost: lower is better; quality: higher is better.

    Examples
    --------
    >>> front([(2.0, 0.5), (1.0, 0.4), (3.0, 0.5)])
    [1, 0]
    """
    order = sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1]))
    best: list[int] = []
    for i in order:
        if not best or points[i][1] > points[best[-1]][1]:
            best.append(i)
    return best
