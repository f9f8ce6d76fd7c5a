"""Rankers that tell whether a metric, a data set or another ranker is any good."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug._fast.pairs import ActivePairs, Queries
from rankplug.data import RankingData
from rankplug.models import LinearModel, Model
from rankplug.solver import Data, Monitor, Solver, SolverResult, SolverTags
from rankplug.system.interruption import interrupted

__all__ = ["Constant", "SingleFeature"]

# The least positive number: two scores differ by at least that much or are tied.
_TIE = np.nextafter(0.0, 1.0)


class Constant(Solver):
    """The same score for every row: what a metric gives to no ranking at all.

    A metric in which this ranker does well is broken, or counts queries without a relevant row.
    """

    name = "constant"
    tags = SolverTags(
        tasks=("query-document",),
        problem="none: every row has the score 0",
        reference="sanity check",
        exact=False,
        learns=False,
    )

    def _solve(
        self, data: Data, init: Model | None, monitor: Monitor, rng: np.random.Generator
    ) -> SolverResult:
        return _finished(LinearModel(np.zeros(data.n_features)), monitor, 0)


class SingleFeature(Solver):
    """The one feature, rising or falling, that orders the most pairs of the training data.

    The share of all preference pairs (i, j) with ``x_i > x_j``, ties counting one half, weighted
    by query. In data whose features are scores of retrieval models, such as LETOR's, one of them
    is often hard to beat.
    """

    name = "single-feature"
    tags = SolverTags(
        tasks=("query-document",),
        problem="the feature and sign with the most pairs of the training data in order",
        reference="sanity check",
        exact=False,
        learns=False,
    )

    def _solve(
        self, data: Data, init: Model | None, monitor: Monitor, rng: np.random.Generator
    ) -> SolverResult:
        assert isinstance(data, RankingData)
        balance = _wins_less_losses(data)
        best = int(np.argmax(np.abs(balance)))
        coef = np.zeros(data.n_features)
        coef[best] = 1.0 if balance[best] >= 0 else -1.0
        return _finished(LinearModel(coef), monitor, 1)


def _wins_less_losses(data: RankingData) -> NDArray[np.float64]:
    """For each feature, the weighted number of pairs in order, less those in reverse order."""
    weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
    row_weight = np.repeat(weight, np.diff(data.query_ptr))
    pairs = ActivePairs(Queries(data.query_ptr, data.relevance, weight))
    total = weight @ data.pair_counts
    balance = np.zeros(data.n_features)
    for j in range(data.n_features):
        if interrupted():
            break
        column: Any = data.X[:, [j]]
        values = np.ascontiguousarray(_dense(column), dtype=np.float64).ravel()
        pairs.update(values, 0.0)
        lost = pairs.count @ row_weight / 2
        pairs.update(values, _TIE)
        lost_or_tied = pairs.count @ row_weight / 2
        balance[j] = (total - lost_or_tied) - lost
    return balance


def _dense(column: Any) -> Any:
    return column if isinstance(column, np.ndarray) else column.toarray()


def _finished(model: LinearModel, monitor: Monitor, n_passes: int) -> SolverResult:
    monitor.report(1)
    return SolverResult(
        model=model,
        status=monitor.interruption or "converged",
        objective=None,
        duality_gap=None,
        n_iter=1,
        n_passes=float(n_passes),
    )
