"""What single pairs count: gains of relevance and weights of documents, as products of rank two.

The pair (i, j) of a query, i the more relevant, counts

    c_ij = u_i v_j (g_i - g_j)

times what the query does. The gain g is ``2^y - 1`` or y, or its difference is left out; u and v
are weights of documents or 1. All are known by row, so that sums over the pairs cost as many
prefix sums as they have terms, and no pair is ever listed (``rankplug/_fast/weighted.h``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from rankplug._fast.pairs import ActivePairs, Queries
from rankplug.data import LARGEST_GRADE, PreferenceData, RankingData, even_spans
from rankplug.exceptions import DataError
from rankplug.shards.matrices import Vector

PairWeight: TypeAlias = Literal["uniform", "gain", "relevance"]
DocumentPairs: TypeAlias = Literal["preferred", "product"]

_ROWS_AT_ONCE = 2**20


class RowFactors(NamedTuple):
    """Of each row: u, v and g of what its pairs count; None where they are left out."""

    winner: Vector | None = None
    loser: Vector | None = None
    gain: Vector | None = None

    @property
    def given(self) -> dict[str, Any]:
        """Those that are not left out, by name."""
        return {name: values for name, values in self._asdict().items() if values is not None}


NO_FACTORS = RowFactors()


@dataclass(frozen=True)
class PairWeighting:
    """How a pair counts beside the weight of its query.

    Parameters
    ----------
    pair_weight : "uniform", "gain" or "relevance"
        1, the difference of ``2^y - 1``, or that of y.
    document_pairs : "preferred" or "product"
        Of the weights of documents, a pair takes that of its preferred one, or the product of both.
    """

    pair_weight: PairWeight = "uniform"
    document_pairs: DocumentPairs = "preferred"

    def counts_alike(self, data: Any) -> bool:
        """Whether all pairs of a query count the same."""
        return self.pair_weight == "uniform" and not data.weighs_documents

    def factors(self, relevance: Vector, document_weight: Vector | None) -> RowFactors:
        """The factors of rows.

        Raises
        ------
        DataError
            If relevance has no gain ``2^y - 1``, as it is negative or larger than 31.
        """
        weight = None if document_weight is None else np.ascontiguousarray(document_weight)
        gain = None
        if self.pair_weight == "relevance":
            gain = np.ascontiguousarray(relevance)
        elif self.pair_weight == "gain":
            if relevance.size and not (relevance.min() >= 0 and relevance.max() <= LARGEST_GRADE):
                raise DataError(
                    "pair_weight='gain' takes relevance from 0 to 31, whose gain is 2^y - 1, but "
                    f"it is {relevance.min():g} to {relevance.max():g}: scale it, or take "
                    "pair_weight='relevance', the difference itself"
                )
            gain = np.exp2(relevance) - 1.0
        return RowFactors(weight, weight if self.document_pairs == "product" else None, gain)


UNIFORM = PairWeighting()


def weigh_pairs(data: PreferenceData, weighting: PairWeighting = UNIFORM) -> Vector:
    """What all pairs of each query (or instance) count together, without the query's weight.

    Parameters
    ----------
    data : RankingData or LabelRankingData
    weighting : PairWeighting

    Returns
    -------
    float64 ndarray of shape (n_examples,)
        Their number, where they count the same.
    """
    if weighting.counts_alike(data):
        return data.pair_counts.astype(np.float64)
    n_rows = int(data.sizes.sum())
    starts = np.concatenate(([0], np.cumsum(data.sizes)))
    found = [
        _weigh_span(data, weighting, begin, end)
        for begin, end in even_spans(starts, max(1, n_rows // _ROWS_AT_ONCE))
    ]
    return np.concatenate(found)


def _weigh_span(data: PreferenceData, weighting: PairWeighting, begin: int, end: int) -> Vector:
    """The same of some consecutive examples."""
    query_ptr, relevance, factors = items_of(data, weighting, begin, end)
    queries = Queries(query_ptr, relevance, np.ones(end - begin), **factors.given)
    pairs = ActivePairs(queries)
    pairs.update(np.zeros(len(relevance)))
    query = np.repeat(np.arange(end - begin), np.diff(query_ptr))
    return np.bincount(query, 0.5 * pairs.count, end - begin).astype(np.float64, copy=False)


def items_of(
    data: PreferenceData, weighting: PairWeighting, begin: int, end: int
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Vector, RowFactors]:
    """Where consecutive examples begin among their items, and those items' relevance and factors.

    Items are rows of a query, or labels of an instance that are compared.
    """
    if isinstance(data, RankingData):
        query_ptr = data.query_ptr[begin : end + 1]
        rows = slice(int(query_ptr[0]), int(query_ptr[-1]))
        weight = None if data.document_weight is None else data.document_weight[rows]
        relevance = data.relevance[rows]
        return query_ptr - query_ptr[0], relevance, weighting.factors(relevance, weight)
    compared = ~np.isnan(data.relevance[begin:end])
    relevance = data.relevance[begin:end][compared]
    query_ptr = np.concatenate(([0], np.cumsum(compared.sum(axis=1))))
    return query_ptr, relevance, weighting.factors(relevance, None)
