"""Plots of quality: against the baseline, against each cost, and on the way of tuning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rankplug.metrics import parse_metric
from rankplug.report.plots.canvas import (
    INK,
    Canvas,
    Plot,
    Styles,
    plain_log_axis,
    room_for,
    shorten,
)
from rankplug.report.report import ParetoTrials, Report, TuningSummary
from rankplug.report.statistics import Comparison
from rankplug.report.tables import cost

COSTS = {
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
_LINE = {"color": INK, "linewidth": 1.0, "alpha": 0.6}


def differences(report: Report, canvas: Canvas) -> list[Plot]:
    """Mean differences with their intervals; differences of the queries, sorted."""
    found = [one for one in report.comparisons if one.n_queries > 1 and one.name in canvas.styles]
    return [_plot_means(found, canvas), _plot_queries(found, report, canvas)] if found else []


def _plot_means(found: list[Comparison], canvas: Canvas) -> Plot:
    height = max(2.0, 0.9 + 0.34 * len(found))
    with canvas.axes(height, left=room_for(shorten(one.name) for one in found)) as axes:
        draw_means(axes, found, canvas.styles)
        metric, baseline = found[0].metric, found[0].baseline
        svg = canvas.svg(axes, f"Mean difference of every solver to {baseline} in {metric}")
    caption = "Bars are 95 % intervals of each pair alone; the verdicts allow for their number."
    return Plot("Mean difference", svg, caption)


def _plot_queries(found: list[Comparison], report: Report, canvas: Canvas) -> Plot:
    metric, baseline = report.metrics[0], report.baseline
    with canvas.axes() as axes:
        draw_queries(axes, found, report, canvas.styles)
        svg = canvas.svg(axes, f"Differences to {baseline} in {metric} of all queries, sorted")
    caption = "Above zero the solver has the higher value, below zero the baseline."
    return Plot("Query by query", svg, caption)


def draw_means(axes: Any, found: Sequence[Comparison], styles: Styles) -> None:
    """Mean differences to the baseline, each in a line of its own, with their intervals."""
    for place, one in enumerate(found):
        style = styles[one.name]
        # Rounding may put the mean outside of an interval without width.
        bars = [[max(0.0, one.difference - one.low)], [max(0.0, one.high - one.difference)]]
        axes.errorbar(
            one.difference, place, xerr=bars, color=style.color, marker=style.marker, capsize=3
        )
    axes.axvline(0.0, **_LINE)
    axes.set_yticks(range(len(found)), [shorten(one.name) for one in found], parse_math=False)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"difference in {found[0].metric}")


def draw_queries(axes: Any, found: Sequence[Comparison], report: Report, styles: Styles) -> None:
    """Differences of the queries, a line for each solver, sorted."""
    values = {outcome.name: outcome.per_query for outcome in report.succeeded}
    for one in found:
        own, other = values[one.name][one.metric], values[one.baseline][one.metric]
        sorted_differences = np.sort((own - other)[~np.isnan(own - other)])[::-1]
        share = 100 * (np.arange(len(sorted_differences)) + 0.5) / len(sorted_differences)
        style = styles[one.name]
        axes.plot(
            share, sorted_differences, color=style.color, linestyle=style.linestyle,
            label=shorten(one.name),
        )  # fmt: skip
    axes.axhline(0.0, **_LINE)
    axes.set(xlim=(0, 100), xlabel="queries, % (largest difference first)")
    axes.set_ylabel(f"{report.metrics[0]}, difference")


def tradeoffs(report: Report, canvas: Canvas) -> list[Plot]:
    """A panel for each cost that is known of two solvers at least."""
    metric = report.metrics[0]
    plots = []
    for key, (title, _, _) in COSTS.items():
        points = points_of(report, key)
        if len(points) < 2:
            continue
        with canvas.axes(2.7) as axes:
            draw_tradeoff(axes, points, key, metric, canvas.styles)
            plots.append(Plot(title, canvas.svg(axes, f"{metric} against {title.lower()}")))
    return plots


def points_of(report: Report, key: str) -> dict[str, tuple[float, float]]:
    """Cost and quality of each solver of which both are known."""
    metric, (_, _, factor) = report.metrics[0], COSTS[key]
    return {
        outcome.name: (factor * cost(outcome, key), outcome.score(metric))
        for outcome in report.competitors
        if cost(outcome, key) > 0 and not math.isnan(outcome.score(metric))
    }


def draw_tradeoff(
    axes: Any, points: Mapping[str, tuple[float, float]], key: str, metric: str, styles: Styles
) -> None:
    """Quality against a cost; a line joins the solvers that nobody beats in both."""
    sign = 1 if parse_metric(metric).greater_is_better else -1
    best = front([(x, sign * y) for x, y in points.values()])
    line = np.array(list(points.values()))[best]
    axes.step(*line.T, where="post", color=INK, alpha=0.35, linewidth=1.2)
    for name, point in points.items():
        style = styles[name]
        axes.plot(*point, style.marker, color=style.color, markersize=8, label=shorten(name))
    axes.margins(0.12)
    plain_log_axis(axes.xaxis)
    axes.set(xlabel=COSTS[key][1], ylabel=metric)


def learning(report: Report, canvas: Canvas) -> list[Plot]:
    """Quality against the time of trainings that were stopped early."""
    curves = [outcome for outcome in report.competitors if len(outcome.learning_curve) > 1]
    if not curves:
        return []
    metric = report.metrics[0]
    with canvas.axes() as axes:
        for outcome in curves:
            _, seconds, quality = zip(*outcome.learning_curve, strict=True)
            axes.plot(seconds, quality, **vars(canvas.styles[outcome.name]))
        plain_log_axis(axes.xaxis)
        axes.set(xlabel="training, seconds", ylabel=metric)
        svg = canvas.svg(axes, f"{metric} against training time of every solver")
    caption = "Each point is a training of its own, ended after 1, 2, 4, 8, ... iterations."
    return [Plot("Quality against time", svg, caption)]


def tuning(report: Report, canvas: Canvas) -> list[Plot]:
    """Trials by number and by time; a panel of its own where there were several objectives."""
    tuned = {one.name: one.tuning for one in report.outcomes if one.tuning and one.tuning.history}
    plots = [_plot_trials(tuned, unit, canvas) for unit in ("trial", "seconds") if tuned]
    several = [trials for trials in report.pareto if len(trials.objectives) > 1]
    return plots + [_draw_objectives(trials, canvas) for trials in several]


def _plot_trials(tuned: Mapping[str, TuningSummary], unit: str, canvas: Canvas) -> Plot:
    with canvas.axes() as axes:
        draw_trials(axes, tuned, unit, canvas.styles)
        metric = next(iter(tuned.values())).metric
        svg = canvas.svg(axes, f"{metric} of the trials of tuning, by {unit}")
    caption = "Lines: the best so far. Crosses at the lower edge: pruned or failed."
    return Plot("Trials" if unit == "trial" else "Trials by time", svg, caption)


def draw_trials(axes: Any, tuned: Mapping[str, TuningSummary], unit: str, styles: Styles) -> None:
    """The values of the trials and the best so far, by number ("trial") or by "seconds"."""
    for name, summary in tuned.items():
        style = styles[name]
        _, seconds, history, _ = zip(*summary.history, strict=True)
        values = np.array(history)
        places = np.array(seconds if unit == "seconds" else range(1, len(values) + 1))
        done = ~np.isnan(values)
        better = np.maximum if parse_metric(summary.metric).greater_is_better else np.minimum
        axes.plot(places[done], values[done], style.marker, color=style.color, alpha=0.35)
        axes.step(
            places[done], better.accumulate(values[done]), where="post",
            color=style.color, linestyle=style.linestyle, label=shorten(name),
        )  # fmt: skip
        # Trials without a value, at the lower edge.
        axes.plot(
            places[~done], np.zeros((~done).sum()), "x", color=style.color, alpha=0.6,
            transform=axes.get_xaxis_transform(), clip_on=False,
        )  # fmt: skip
    metric = next(iter(tuned.values())).metric
    label = "seconds since the start" if unit == "seconds" else "trial"
    axes.set(xlabel=label, ylabel=f"{metric}, validation")


def _draw_objectives(found: ParetoTrials, canvas: Canvas) -> Plot:
    """The first two objectives of each trial, and the trials that nobody beats in them."""
    points = [(values[1], values[0]) for _, values, _ in found.trials]
    signs = (-1 if found.maximise[1] else 1, 1 if found.maximise[0] else -1)
    with canvas.axes() as axes:
        style = canvas.styles[found.name]
        if points:
            best = front([(signs[0] * x, signs[1] * y) for x, y in points])
            line = np.array(points)[best].T
            axes.plot(*np.array(points).T, style.marker, color=style.color, alpha=0.35)
            axes.plot(*line, style.marker, color=style.color)
            axes.step(*line, where="post", color=INK, alpha=0.4, linewidth=1.2)
        axes.set(xlabel=found.objectives[1], ylabel=found.objectives[0])
        svg = canvas.svg(axes, f"Trials of {found.name} in two objectives")
    return Plot(f"{found.name}: {' and '.join(found.objectives)}", svg)


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
