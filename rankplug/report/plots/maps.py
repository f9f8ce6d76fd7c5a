"""Plots of models of mapped features: shapes of additive ones, trees before and after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import RankingData, to_dense
from rankplug.explain import explain_model, explain_query
from rankplug.maps import MappedModel
from rankplug.models import LinearModel, Model, ScaledModel, TreeModel, find_contributions
from rankplug.report.plots.canvas import INK, Canvas, Plot, shorten
from rankplug.report.report import Report

_MOST_SHAPES = 8  # of a model: those of the features that move its scores most
_MOST_ROWS = 20_000  # of the test set: more change no picture
_MOST_EXPLAINED = 2_000  # rows whose contributions are computed: a second or so
_MOST_LEAVES = 3_000  # marks in a picture
_BINS = 40


def shapes(report: Report, canvas: Canvas) -> list[Plot]:
    """For each additive model the functions of its strongest features, above their distribution."""
    X = _test_rows(report)
    found: list[Plot] = []
    for name, model in _models(report):
        if X is None or not is_additive(model):
            continue
        names = model.feature_names or [f"column {j}" for j in range(model.n_features)]
        effects = find_contributions(model, X).values
        for j in movers(effects):
            title = f"{name}: {shorten(names[j])}"
            with canvas.axes(2.2) as axes:
                draw_shape(axes, model, X, effects, j, canvas.styles[name].color)
                found.append(Plot(title, canvas.svg(axes, f"Shape of {title}")))
    return found


def is_additive(model: Model) -> bool:
    """Whether the scores are a sum of functions of one feature each."""
    mapped = _mapped_part(model)
    return (
        mapped is not None
        and mapped.map.column_features() is not None
        and isinstance(mapped.model, LinearModel)
    )


def movers(effects: NDArray[np.float64], most: int = _MOST_SHAPES) -> list[int]:
    """The features that move the scores of an additive model, the strongest first."""
    # The deviation of equal numbers may be a rounding error.
    spread = np.where(np.ptp(effects, axis=0) > 0, effects.std(axis=0), 0.0)
    return [int(j) for j in np.argsort(spread)[::-1][:most] if spread[j] > 0]


def refits(report: Report, canvas: Canvas) -> list[Plot]:
    """For each model of leaves: how much trees and features move the scores, and leaves' values."""
    X = _test_rows(report)
    found: list[Plot] = []
    for name, model in _models(report):
        mapped = _mapped_part(model)
        if X is None or mapped is None or not isinstance(mapped.model, LinearModel):
            continue
        for part, after in mapped.map.split_weights(mapped.model.coef):
            trees = getattr(part, "trees", None)
            if isinstance(trees, TreeModel) and trees.leaf_values.any():
                found += _draw_refit(name, trees, after, _rows_of_map(model, X), canvas)
                found += _draw_features(report, name, model, trees, after, canvas)
    return found


def _models(report: Report) -> Iterator[tuple[str, Model]]:
    for outcome in report.competitors:
        if outcome.result is not None:
            yield outcome.name, outcome.result.model


def _mapped_part(model: Model) -> MappedModel | None:
    """The model of mapped features that it is, or that it scales the features for."""
    inner = model.model if isinstance(model, ScaledModel) else model
    return inner if isinstance(inner, MappedModel) else None


def _rows_of_map(model: Model, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of features as the map takes them."""
    return to_dense(model.scaling.apply(X)) if isinstance(model, ScaledModel) else X


def _test_rows(report: Report) -> NDArray[np.float64] | None:
    """Some rows of the test set, as the models take them."""
    if report.test is None or report.test.scaling is not None:
        return None
    X = report.test.X
    some = X[:: X.shape[0] // _MOST_ROWS + 1]
    return to_dense(some).astype(np.float64, copy=False)


def draw_shape(
    axes: Any,
    model: Model,
    X: NDArray[np.float64],
    effects: NDArray[np.float64],
    feature: int,
    color: str,
) -> None:
    """What a feature adds to the score of an additive model, above its distribution.

    `effects` are the contributions for `X`, of shape (n_rows, n_features).
    """
    is_known = ~np.isnan(X[:, feature])
    known = X[is_known, feature]
    grid = np.unique(np.quantile(known, np.linspace(0.0, 1.0, 200)))
    rows = np.repeat(X[:1], len(grid), axis=0)
    rows[:, feature] = grid
    shape = find_contributions(model, rows).values[:, feature]
    axes.plot(grid, shape - effects[is_known, feature].mean(), color=color)
    axes.axhline(0.0, color=INK, linewidth=0.8)
    low, high = axes.get_ylim()
    height, edges = np.histogram(known, bins=_BINS)
    # The distribution stands on the lower edge, a quarter as high as the picture.
    bars = 0.25 * (high - low) * height / height.max()
    axes.bar(edges[:-1], bars, np.diff(edges), low, align="edge", color=INK, alpha=0.25)
    axes.set_ylim(low, high)
    axes.set_ylabel("added to the score")


def _draw_refit(
    name: str, trees: TreeModel, after: NDArray[np.float64], X: NDArray[np.float64], canvas: Canvas
) -> list[Plot]:
    counts = trees.leaf_counts
    starts = np.cumsum(counts) - counts
    leaves = trees.find_leaves(X) + starts
    before = trees.leaf_values
    # Both to the same spread of scores: only the shares of the trees are compared.
    spreads = [np.std(values[leaves], axis=0) for values in (before, after)]
    scales = [np.std(values[leaves].sum(axis=1)) or 1.0 for values in (before, after)]
    style = canvas.styles[name]
    with canvas.axes(2.2) as axes:
        axes.plot(spreads[0] / scales[0], color=INK, linewidth=1.0, label="before")
        axes.plot(spreads[1] / scales[1], color=style.color, linewidth=1.0, label="after")
        axes.set_xlabel("tree, in the order of training")
        axes.set_ylabel("share")
        axes.set_ylim(0.0)
        axes.legend(frameon=False)
        of_trees = canvas.svg(axes, f"Trees of {name} before and after")
    some = np.unique(np.linspace(0, len(before) - 1, _MOST_LEAVES).astype(int))
    with canvas.axes(2.6) as axes:
        style_of = {"color": style.color, "s": 5, "alpha": 0.4, "linewidths": 0}
        axes.scatter(before[some] / scales[0], after[some] / scales[1], **style_of)
        axes.axline((0.0, 0.0), slope=1.0, color=INK, linewidth=0.8)
        axes.set_xlabel("value before")
        axes.set_ylabel("value after")
        of_leaves = canvas.svg(axes, f"Leaves of {name} before and after")
    return [
        Plot(f"{name}: trees", of_trees, "Deviation of a tree's values, by that of the scores."),
        Plot(f"{name}: leaves", of_leaves, "Values of leaves, by the deviation of the scores."),
    ]


def _draw_features(
    report: Report,
    name: str,
    model: Model,
    trees: TreeModel,
    after: NDArray[np.float64],
    canvas: Canvas,
) -> list[Plot]:
    """How far features move documents within queries, where trees tell contributions exactly."""
    test = report.test
    if not isinstance(test, RankingData):
        return []
    X = _rows_of_map(model, to_dense(test.X[:_MOST_EXPLAINED]).astype(np.float64, copy=False))
    if explain_query(trees, X[:2], n_permutations=2).error is not None:
        return []
    both = [
        explain_model(one, X, qid=test.qid[: len(X)]).movement
        for one in (trees, trees.with_weights(after)[0])
    ]
    shares = [one / (one.sum() or 1.0) for one in both]
    first = np.argsort(-np.maximum(*shares), kind="stable")[:_MOST_SHAPES][::-1]
    names = model.feature_names or [f"column {j}" for j in range(model.n_features)]
    with canvas.axes(2.6) as axes:
        colors = (INK, canvas.styles[name].color)
        for k, (share, color, label) in enumerate(
            zip(shares, colors, ("before", "after"), strict=True)
        ):
            axes.barh(
                np.arange(len(first)) + 0.2 - 0.4 * k, share[first], 0.4, color=color, label=label
            )
        axes.set_yticks(range(len(first)), [shorten(names[j]) for j in first])
        axes.set_xlabel("share")
        axes.legend(frameon=False)
        picture = canvas.svg(axes, f"Features of {name} before and after")
    about = "Mean absolute contribution within queries, by the sum over features."
    return [Plot(f"{name}: features", picture, about)]
