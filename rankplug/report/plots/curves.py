"""Ranking curves on the test set: NDCG at each cutoff, and the early part of the ROC curve."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.metrics import Ndcg, confidence_intervals, measure_data, parse_metric
from rankplug.report.plots.canvas import Canvas, Plot, Styles, plain_log_axis, shorten
from rankplug.report.report import Outcome, Report
from rankplug.report.statistics import CONFIDENCE
from rankplug.solver import Data

# Each of the first page of results, some beyond it.
_CUTOFFS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 50)
_GRID = 200  # false positive rates of a curve: more than a plot has pixels for steps
_SATISFIED = 0.98  # share of positives found where the early part of the ROC curve ends


def curves(report: Report, canvas: Canvas) -> list[Plot]:
    """The curves that the data allow: they need the test set and every solver's scores."""
    scored = [outcome for outcome in report.competitors if outcome.scores is not None]
    if report.test is None or not scored:
        return []
    return [
        *_plot_ndcg(report, report.test, scored, canvas),
        *_draw_roc(report.test, scored, canvas),
    ]


def _plot_ndcg(report: Report, test: Data, scored: list[Outcome], canvas: Canvas) -> list[Plot]:
    with canvas.axes() as axes:
        if not draw_ndcg(axes, report, test, scored, canvas.styles):
            return []
        svg = canvas.svg(axes, "NDCG at each cutoff of every solver")
    caption = (
        "Bands: 95 % for the mean of each solver alone, over queries. They may overlap where the "
        "differences, query by query, are clear."
    )
    return [Plot("NDCG at each cutoff", svg, caption)]


def draw_ndcg(
    axes: Any, report: Report, test: Data, scored: Sequence[Outcome], styles: Styles
) -> bool:
    """Mean NDCG at each cutoff with its interval; False if the labels allow none."""
    cutoffs = [k for k in _CUTOFFS if k <= test.sizes.max()]
    if len(cutoffs) < 2:
        return False
    # The recipe's own NDCG if it has one, so that gain and discount are the same.
    parsed = map(parse_metric, report.metrics)
    metric = next((one for one in parsed if isinstance(one, Ndcg)), Ndcg())
    for outcome in scored:
        assert outcome.scores is not None
        try:
            metrics = [replace(metric, k=k) for k in cutoffs]
            measured = list(measure_data(test, outcome.scores, metrics).values())
        except DataError:  # such labels have no gain
            return False
        means = np.array([one.mean() for one in measured])
        if np.isnan(means).any():
            return False
        style = styles[outcome.name]
        axes.plot(cutoffs, means, markersize=3.5, label=shorten(outcome.name), **vars(style))
        low, high = confidence_intervals(measured, level=CONFIDENCE).T
        if not np.isnan(low).any():
            axes.fill_between(cutoffs, low, high, color=style.color, alpha=0.1, linewidth=0)
    name = str(replace(metric, k=None)).replace("ndcg", "ndcg@k", 1)
    axes.set(xlabel="cutoff k", ylabel=name)
    return True


def _draw_roc(test: Data, scored: list[Outcome], canvas: Canvas) -> list[Plot]:
    if not isinstance(test, RankingData) or len(np.unique(test.relevance)) != 2:
        return []
    positive = test.relevance == test.relevance.max()
    most_negatives = np.add.reduceat(~positive, test.query_ptr[:-1], dtype=np.int64).max()
    if most_negatives < 10:  # the early part would be a step or two
        return []
    first = 1.0 / most_negatives
    grid = np.geomspace(first, 1.0, _GRID)
    found = {
        outcome.name: roc_curve(positive, outcome.scores, test.query_ptr, np.append(0.0, grid))
        for outcome in scored
        if outcome.scores is not None
    }
    if any(np.isnan(curve).any() for curve in found.values()):  # no query has both
        return []
    satisfied = [grid[np.searchsorted(curve[1:], _SATISFIED).clip(max=_GRID - 1)]
                 for curve in found.values()]  # fmt: skip
    # Up to a little beyond where the last solver is there, and a decade at least.
    end = float(np.clip(1.3 * max(satisfied), 10 * first, 1.0))
    with canvas.axes() as axes:
        for name, curve in found.items():
            style = canvas.styles[name]
            # A logarithmic axis has no zero: "no negative above" stands left of the first one.
            rates = np.append(first / 2, grid)
            axes.step(rates, curve, where="post", color=style.color, linestyle=style.linestyle)
            axes.plot(first / 2, curve[0], style.marker, color=style.color, clip_on=False)
        axes.set_xlim(first / 2, end)
        plain_log_axis(axes.xaxis)
        axes.set_ylim(top=1.01)
        axes.set(xlabel="false positive rate", ylabel="share of positives found")
        svg = canvas.svg(axes, "Early part of the ROC curve of every solver")
    caption = "At the left edge no negative is above: the markers are pos@top." + (
        " Mean over queries." if test.n_queries > 1 else ""
    )
    return [Plot("Early part of the ROC curve", svg, caption)]


def roc_curve(
    positive: NDArray[np.bool_],
    scores: NDArray[np.float64],
    query_ptr: NDArray[np.int64],
    rates: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Share of positives above all but a share of the negatives; mean over the queries.

    A positive counts at the false positive rate ``r`` if at most ``r n`` of the n negatives of
    its query have a score as high as its own or higher: at rate 0 this is pos@top.

    Parameters
    ----------
    positive : bool ndarray of shape (n_samples,)
    scores : float64 ndarray of shape (n_samples,)
    query_ptr : int64 ndarray of shape (n_queries + 1,)
        Queries without positives or without negatives do not count.
    rates : float64 ndarray of shape (n_rates,)
        From 0 to 1.

    Returns
    -------
    float64 ndarray of shape (n_rates,)
    """
    curves = []
    for start, stop in itertools.pairwise(query_ptr):
        relevant = positive[start:stop]
        own, others = scores[start:stop][relevant], np.sort(scores[start:stop][~relevant])
        if len(own) and len(others):
            above = np.sort(len(others) - np.searchsorted(others, own, side="left"))
            allowed = np.floor(rates * len(others) + 1e-9)
            curves.append(np.searchsorted(above, allowed, side="right") / len(own))
    return np.mean(curves, axis=0) if curves else np.full(len(rates), np.nan)
