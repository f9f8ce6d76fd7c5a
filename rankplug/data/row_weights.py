"""Weights of queries and of rows: checked, put into the order of the rows, made of relevance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug.data.arrays import real_array, real_vector
from rankplug.exceptions import DataError, ParameterError

QueryWeight: TypeAlias = Literal["inverse-idcg"]
QUERY_WEIGHTS: tuple[QueryWeight, ...] = ("inverse-idcg",)


def query_weights(
    sample_weight: ArrayLike,
    query_ptr: NDArray[np.int64],
    query_ids: NDArray[Any],
    order: NDArray[np.int64] | None,
) -> NDArray[np.float64]:
    """The weight of each query, from those of its rows or from one a query."""
    n_queries, n_samples = len(query_ids), int(query_ptr[-1])
    weight = real_array(sample_weight, "sample_weight")
    a_query = weight.shape == (n_queries,) and 1 < n_queries < n_samples
    if a_query and order is not None:
        raise DataError(
            f"sample_weight has {n_queries} values, one a query, but the rows of a query do not "
            "stand together: give one for each row"
        )
    if not a_query:
        weight = real_vector(weight, "sample_weight", n_samples)
    if np.any(weight < 0):
        where = f"{'query' if a_query else 'row'} {np.flatnonzero(weight < 0)[0]}"
        raise DataError(f"sample_weight is negative at {where}")
    if a_query:
        return weight
    weight = weight if order is None else weight[order]
    first = weight[query_ptr[:-1]]
    varying = np.flatnonzero(weight != np.repeat(first, np.diff(query_ptr)))
    if varying.size:
        query = int(np.searchsorted(query_ptr, varying[0], side="right")) - 1
        raise DataError(
            f"sample_weight varies within query {query_ids[query]}: it must be constant within "
            "a query, because a pair of rows takes the weight of its query"
        )
    return first


def document_weights(
    values: ArrayLike, n_samples: int, order: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """The weights of rows, checked, in the order of the data."""
    weight = real_vector(values, "document_weight", n_samples)
    if np.any(weight < 0):
        raise DataError(f"document_weight is negative at row {np.flatnonzero(weight < 0)[0]}")
    return weight if order is None else weight[order]


def stack_document_weights(
    parts: Sequence[tuple[int, NDArray[np.float64] | None]],
) -> NDArray[np.float64] | None:
    """Those of all parts, given with their numbers of rows: 1 where a part has none.

    None if none has.
    """
    if all(weight is None for _, weight in parts):
        return None
    return np.concatenate([np.ones(n) if weight is None else weight for n, weight in parts])


def inverse_idcg(gain: NDArray[np.float64], query_ptr: NDArray[np.int64]) -> NDArray[np.float64]:
    """One over the DCG of the best order of each query; 0 where that is 0, which has no pairs.

        IDCG = sum over ranks r of gain_r / log2(r + 1),   gains in descending order

    Parameters
    ----------
    gain : float64 ndarray of shape (n_samples,)
        Not negative.
    query_ptr : int64 ndarray of shape (n_queries + 1,)
    """
    sizes = np.diff(query_ptr)
    query = np.repeat(np.arange(len(sizes)), sizes)
    best_first = gain[np.lexsort((-gain, query))]
    rank = np.arange(len(gain)) - query_ptr[query]
    ideal = np.add.reduceat(best_first / np.log2(rank + 2.0), query_ptr[:-1])
    return np.divide(1.0, ideal, out=np.zeros(len(sizes)), where=ideal > 0)


def check_query_weight(name: Any) -> None:
    """Raise `ParameterError` unless it names weights that are made of the relevance."""
    if name not in QUERY_WEIGHTS:
        raise ParameterError(
            f"query_weight={name!r} must be {', '.join(map(repr, QUERY_WEIGHTS))}; weights of "
            "queries that are known are sample_weight"
        )
