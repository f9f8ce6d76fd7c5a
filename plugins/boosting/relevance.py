"""Relevance in the form that a boosting library takes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rankplug.data import LARGEST_GRADE, LabelRankingData, RankingData
from rankplug.exceptions import DataError

__all__ = ["check_relevance", "gains", "levels"]


def levels(data: RankingData | LabelRankingData) -> NDArray[np.float64]:
    """Relevance replaced by its position, 0, 1, ..., among the values of its query.

    The order stays, and so do the pairs; the libraries keep labels as float32, which would make
    ties of values that differ by less than one part in 10^7.
    """
    if isinstance(data, LabelRankingData):
        return _levels_of_rows(data.relevance)
    sizes = np.diff(data.query_ptr)
    query = np.repeat(np.arange(data.n_queries), sizes)
    order = np.lexsort((data.relevance, query))
    ascending = data.relevance[order]
    count = np.cumsum(np.diff(ascending, prepend=ascending[0]) != 0)
    ranked = np.empty(data.n_samples)
    ranked[order] = count - np.repeat(count[data.query_ptr[:-1]], sizes)
    return ranked


def _levels_of_rows(relevance: NDArray[np.float64]) -> NDArray[np.float64]:
    order = np.argsort(relevance, axis=1)  # puts NaN last
    ascending = np.take_along_axis(relevance, order, axis=1)
    rises = np.diff(ascending, axis=1, prepend=ascending[:, :1]) > 0
    ranked = np.empty(relevance.shape)
    np.put_along_axis(ranked, order, np.cumsum(rises, axis=1).astype(np.float64), axis=1)
    ranked[np.isnan(relevance)] = np.nan
    return ranked


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


def check_relevance(data: RankingData | LabelRankingData, objective: str) -> None:
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
