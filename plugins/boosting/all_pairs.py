"""The losses of all pairs as the solvers of both libraries use them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.boosting import PairwiseObjective, pairwise_logistic, pairwise_squared_hinge
from rankplug.data import RankingData
from rankplug.solver import Data

__all__ = ["all_pairs_objective"]

# Second derivative of a pair's loss where both scores are equal.
_CURVATURE = {"squared-hinge": 2.0, "logistic": 0.25}


def all_pairs_objective(data: Data, loss: str, pair_weight: str, qid: Any = None) -> Any:
    """The loss of all pairs, scaled so that second derivatives are 1 on average at the start.

    The parameters of trees that are compared with sums of second derivatives, such as
    ``min_child_weight`` and ``reg_lambda``, then mean the same for all data.
    """
    make: Any = pairwise_squared_hinge if loss == "squared-hinge" else pairwise_logistic
    objective: PairwiseObjective = make(qid, pair_weight=pair_weight)
    scale = _rows_per_pair_weight(data, pair_weight) / (2 * _CURVATURE[loss])

    def scaled(scores: Any, data_set: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        gradient, hessian = objective(scores, data_set)
        return scale * gradient, scale * hessian

    return scaled


def _rows_per_pair_weight(data: Data, pair_weight: str) -> float:
    """Rows of the queries that have pairs, divided by what all pairs count.

    A query of weight 2 is one that occurs twice, in both.
    """
    if isinstance(data, RankingData):
        sizes, weight = np.diff(data.query_ptr), data.query_weight
    else:
        sizes, weight = (~np.isnan(data.relevance)).sum(axis=1), None
    weight = np.ones(len(sizes)) if weight is None else weight
    has_pairs = data.pair_counts > 0
    pairs = data.pair_counts if pair_weight == "sum" else has_pairs
    return float(weight @ (sizes * has_pairs) / (weight @ pairs))
