"""Weights of preference pairs: how much each counts in a loss over all pairs.

Pairwise problems sum over the pairs P of all queries: (i, j) with the same query and
``y_i > y_j``. What a pair of query q counts is C times its weight, by `Reduction`:

* ``"sum"``: the query's weight (1 if none is given);
* ``"mean"``: that, divided by the number of all pairs;
* ``"query-mean"``: that, divided by the number of the query's pairs and of queries with pairs.

Numbers of pairs and queries count weights too, so that a query of weight 2 is one that occurs
twice, whatever the reduction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from rankplug.data import PreferenceData
from rankplug.shards.matrices import Vector

Reduction: TypeAlias = Literal["sum", "mean", "query-mean"]


@dataclass(frozen=True)
class PairTotals:
    """How much there is in some data, weights counted: what the reductions divide by.

    Totals of parts of the data add up.
    """

    pairs: float
    queries_with_pairs: float

    def __add__(self, other: PairTotals) -> PairTotals:
        return PairTotals(
            self.pairs + other.pairs, self.queries_with_pairs + other.queries_with_pairs
        )


def pair_totals(data: PreferenceData) -> PairTotals:
    """Count the pairs and the queries (or instances) that have some."""
    own, counts = data.weights, data.pair_counts
    return PairTotals(float(own @ counts), float(own[counts > 0].sum()))


def pair_weights(
    data: PreferenceData, reduction: Reduction, totals: PairTotals | None = None
) -> Vector:
    """``c_q``: what each pair of each query (or instance) counts, before C.

    Parameters
    ----------
    data : RankingData or LabelRankingData
    reduction : "sum", "mean" or "query-mean"
    totals : PairTotals, optional
        Those of all data, if `data` are only a part.
    """
    own = data.weights
    if reduction == "sum":
        return own
    totals = totals or pair_totals(data)
    if reduction == "mean":
        return own / totals.pairs
    counts = data.pair_counts
    per_query: Vector = own / (np.maximum(counts, 1) * totals.queries_with_pairs)
    return np.where(counts > 0, per_query, 0.0)
