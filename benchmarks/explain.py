"""Contributions: what they cost beside those of the booster itself, and beside a pass over memory.

The reference of boosted models is the library's own prediction of contributions with its own form
of the data; that of linear models is one product ``X * w``, which reads and writes an array of the
size of the contributions; that of splines is their prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rankplug
from benchmarks.measure import alternate
from rankplug.data import RankingData
from rankplug.models import Model, find_contributions, scale_parts, scaled_model

Row = dict[str, Any]

_SHAPE = (10_000, 136)  # as MSLR-WEB10K has features
_TRAINED = 4_000  # rows to train on: trees and weights do not depend on their number much
_QUERY = 100  # rows of a query
_TREES = {"n_estimators": 100}


def explain(tiny: bool, rounds: int) -> Iterator[Row]:
    """CPU seconds of `find_contributions` and of what it is measured against, in turn."""
    n, d = (400, 10) if tiny else _SHAPE
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = np.clip((X @ rng.normal(size=d) / np.sqrt(d) + rng.normal(size=n)).round(), 0, 4)
    data = RankingData.from_arrays(X, y, np.arange(n) // _QUERY)
    train = data.take(np.arange(min(n, _TRAINED) // _QUERY))
    for name, model, reference in _models(train):
        calls = {"rankplug": _ours(model, X), "reference": lambda: reference(X)}  # noqa: B023
        # Short calls often, as their clock is coarse.
        is_short = calls["rankplug"]().is_additive
        times = alternate(calls, rounds, dict.fromkeys(calls, 20 if is_short else 1))
        found = times["rankplug"].result
        total = found.values.sum(axis=1) + found.constant
        scores = model.predict(X)
        yield {
            "model": name,
            "method": found.method,
            "n_samples": n,
            "n_features": d,
            "contributions_s": times["rankplug"].median("thread_cpu"),
            "reference_s": times["reference"].median("thread_cpu"),
            "ratio": times["rankplug"].ratio(times["reference"], "thread_cpu"),
            "largest_error": float(np.abs(total - scores).max() / np.abs(scores).max()),
        }


def _ours(model: Model, X: NDArray[np.float64]) -> Callable[[], Any]:
    return lambda: find_contributions(model, X)


def _models(train: RankingData) -> Iterator[tuple[str, Model, Callable[[Any], Any]]]:
    """Each kind of model, with the call that it is measured against."""
    weights = np.linspace(-1.0, 1.0, train.n_features)

    def product(X: NDArray[np.float64]) -> Any:
        return X * weights

    linear = _train(train, "tree-tron")
    yield "linear", linear, product
    parts = scale_parts(train, None, "standard")
    yield "linear, scaled", scaled_model(linear, parts.scaling), product
    splines = _train(train, "mapped", map="splines")
    yield "splines", splines, splines.predict
    xgboost = _train(train, "xgboost-pairwise", **_TREES)
    yield "XGBoost", xgboost, _xgboost(xgboost)
    boosted = _train(train, "linear-then-boost", **_TREES)
    yield "linear, then XGBoost", boosted, _xgboost(boosted.trees)
    leaves = _train(train, "mapped", map={"leaves": {"n_estimators": 100}})
    yield "leaves of XGBoost, refitted", leaves, _xgboost(leaves.map.parts[0].trees)
    lightgbm = _train(train, "lightgbm-lambdarank", **_TREES)
    yield "LightGBM", lightgbm, lambda X: lightgbm.booster.predict(X, pred_contrib=True)


def _train(data: RankingData, solver: str, **params: Any) -> Any:
    return rankplug.make_solver(solver, **params).solve(data, random_state=0).model


def _xgboost(model: Any) -> Callable[[Any], Any]:
    import xgboost

    return lambda X: model.booster.predict(xgboost.DMatrix(X), pred_contribs=True)
