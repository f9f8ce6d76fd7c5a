"""Numbers of preference pairs of queries, and the errors where there are none that count."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import DataError


def no_pairs(n_samples: int, n_queries: int) -> DataError:
    """The error that there is nothing to learn from in so many samples and queries."""
    return DataError(
        f"no preference pair in {n_samples} samples of {n_queries} queries: the rows of a query "
        "all have the same relevance, so there is nothing to learn; check the labels and the "
        "query ids"
    )


def no_pairs_count(why: str = "sample_weight is zero for every query that has one") -> DataError:
    """The error that what could be learnt from has no weight."""
    return DataError(f"no preference pair counts: {why}")


def level_runs(
    relevance: NDArray[np.float64], query: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows by query and ascending relevance, and where each level of a query starts there.

    Parameters
    ----------
    relevance : float64 ndarray of shape (n_samples,)
    query : int64 ndarray of shape (n_samples,)
        The number of each row's query.

    Returns
    -------
    rows : int64 ndarray of shape (n_samples,)
    starts : int64 ndarray of shape (n_levels of all queries,)
        Positions in `rows`.
    """
    by_level = np.lexsort((relevance, query))
    value, group = relevance[by_level], query[by_level]
    is_first = np.ones(len(by_level), dtype=bool)
    is_first[1:] = (group[1:] != group[:-1]) | (value[1:] != value[:-1])
    return by_level, np.flatnonzero(is_first)


def count_pairs(relevance: NDArray[np.float64], query_ptr: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of pairs ``y_i > y_j`` of each query: all but those that are tied."""
    sizes = np.diff(query_ptr)
    query = np.repeat(np.arange(len(sizes)), sizes)
    by_level, starts = level_runs(relevance, query)
    runs = np.diff(np.append(starts, len(relevance)))
    tied = np.zeros(len(sizes), dtype=np.int64)
    np.add.at(tied, query[by_level[starts]], runs * (runs - 1) // 2)
    result: NDArray[np.int64] = sizes * (sizes - 1) // 2 - tied
    return result


def require_pairs(data: Any) -> None:
    """Raise `DataError` if no pair of these documents of queries counts anything."""
    same_query = np.ones(max(data.n_samples - 1, 0), dtype=bool)
    boundaries = data.query_ptr[1:-1] - 1
    same_query[boundaries[boundaries >= 0]] = False
    pairs = same_query & (data.relevance[1:] != data.relevance[:-1])
    if not pairs.any():
        raise no_pairs(data.n_samples, data.n_queries)
    weight = data.row_weight
    if weight is not None and not weight[1:][pairs].any():
        raise no_pairs_count()
    if data.document_weight is None:
        return
    lowest = np.minimum.reduceat(data.relevance, data.query_ptr[:-1])
    counted = data.document_weight > 0
    counted &= (data.weights > 0)[data.row_query]
    if not np.any(counted & (data.relevance > lowest[data.row_query])):
        raise no_pairs_count("document_weight is zero for every row above another one")
