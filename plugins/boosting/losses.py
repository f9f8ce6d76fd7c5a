"""Targets of boosted trees: relevance as the libraries take it, and the loss of all pairs."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.boosting import (
    PairCounts,
    PairwiseObjective,
    pairwise_logistic,
    pairwise_squared_hinge,
)
from rankplug.data import LARGEST_GRADE, LabelRankingData, RankingData, no_pairs_count
from rankplug.exceptions import DataError
from rankplug.shards import weigh_pairs
from rankplug.solver import Data, SearchSpace

PairLoss: TypeAlias = Literal["squared-hinge", "logistic"]

# Second derivative of a pair's loss where both scores are equal.
_CURVATURE = {"squared-hinge": 2.0, "logistic": 0.25}


def levels(data: Data) -> NDArray[np.float64]:
    """Relevance replaced by its position, 0, 1, ..., among the values of its query.

    The order stays, and so do the pairs; the libraries keep labels as float32, which would make
    ties of values that differ by less than one part in 10^7.
    """
    relevance, sizes = data.relevance.ravel(), data.sizes
    order = np.lexsort((relevance, np.repeat(np.arange(len(sizes)), sizes)))  # NaN last
    ascending = relevance[order]
    count = np.cumsum(np.diff(ascending, prepend=ascending[0]) != 0)
    ranked = np.empty(len(relevance))
    ranked[order] = count - np.repeat(count[np.cumsum(sizes) - sizes], sizes)
    ranked[np.isnan(relevance)] = np.nan
    return ranked.reshape(data.relevance.shape)


def gains(data: RankingData) -> NDArray[np.float64]:
    """The gain of relevance that is no grade: ``y - min(y)`` of its query, as in Ranker.score.

    They are halved or doubled together until the largest is between 1/2 and 1, which changes no
    NDCG: the libraries keep labels as float32.

    Raises
    ------
    DataError
        If a difference overflows.
    """
    gain = data.linear_gains()
    return np.ldexp(gain, -math.frexp(float(gain.max()))[1])


def check_relevance(data: Data, objective: str) -> None:
    """Raise `DataError` where an objective of XGBoost would refuse the relevance."""
    if objective not in ("rank:map", "rank:ndcg"):
        return
    high, needed = LARGEST_GRADE, "integer relevance from 0 to 31"
    if objective == "rank:map":
        high, needed = 1, "relevance 0 or 1"
    wrong = _others(data.relevance[~np.isnan(data.relevance)], high)
    if len(wrong):
        shown = ", ".join(f"{value:g}" for value in wrong[:3])
        raise DataError(
            f"objective={objective!r} takes {needed} only, but there are {len(wrong)} other "
            f"values ({shown}{', ...' if len(wrong) > 3 else ''}): map them into that range or "
            "use 'rank:pairwise', which takes any relevance"
        )


def _others(values: NDArray[np.float64], high: int) -> NDArray[np.float64]:
    """The values that are no integers from 0 to `high`."""
    wrong = (values < 0) | (values > high) | (values != np.floor(values))
    return np.unique(values[wrong])


def make_pair_loss(data: Data, loss: PairLoss, counts: PairCounts, qid: Any = None) -> Any:
    """Gradient and Hessian of the loss of all pairs, as a library's function of the scores.

    It is scaled so that second derivatives are 1 on average at the start: the parameters of trees
    that are compared with sums of second derivatives, such as ``min_child_weight`` and
    ``reg_lambda``, then mean the same for all data.
    """
    make: Any = pairwise_squared_hinge if loss == "squared-hinge" else pairwise_logistic
    compared = ~np.isnan(data.relevance)
    objective: PairwiseObjective = make(
        qid,
        **vars(counts),
        document_weight=getattr(data, "document_weight", None),
        relevance=None if counts.weighting.pair_weight == "uniform" else data.relevance[compared],
    )
    scale = _rows_per_pair_weight(data, counts) / (2 * _CURVATURE[loss])

    def scaled(scores: Any, data_set: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        gradient, hessian = objective(scores, data_set)
        return scale * gradient, scale * hessian

    return scaled


def _rows_per_pair_weight(data: Data, counts: PairCounts) -> float:
    """Rows of the queries that have pairs, divided by what all pairs count.

    A query of weight 2 is one that occurs twice, in both.
    """
    sizes = data.sizes
    if isinstance(data, LabelRankingData):
        sizes = (~np.isnan(data.relevance)).sum(axis=1)  # of the labels that are compared
    total = weigh_pairs(data, counts.weighting)
    has_pairs = total > 0
    pairs = has_pairs if counts.is_mean else total
    if not data.weights @ pairs > 0:
        raise no_pairs_count("the weights of all of them are zero")
    return float(data.weights @ (sizes * has_pairs) / (data.weights @ pairs))


def counts_of(solver: Any) -> PairCounts:
    """What the pairs of a solver count."""
    return PairCounts(solver.pair_weight, solver.reduction, solver.document_pairs)


def pair_weight_space(solver: Any) -> SearchSpace:
    """How much the pairs of large queries count, for tuning."""
    from optuna.distributions import CategoricalDistribution

    uniform = counts_of(solver).weighting.pair_weight == "uniform"
    name = "pair_weight" if uniform else "reduction"
    return {name: CategoricalDistribution(("sum", "query-mean"))}
