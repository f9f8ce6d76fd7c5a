"""Weights of preference pairs: how much each counts in a loss over all pairs.

Pairwise problems sum over the pairs P of all queries: (i, j) with the same query and
``y_i > y_j``. What a pair of query q counts is C times its weight, by `Reduction`:

* ``"sum"``: the query's weight (1 if none is given);
* ``"mean"``: that, divided by the number of all pairs;
* ``"query-mean"``: that, divided by the number of the query's pairs and of queries with pairs.

Numbers of pairs and queries count weights too, so that a query of weight 2 is one that occurs
twice, whatever the reduction. Pairs that count differently (`rankplug.shards.PairWeighting`) are
numbered by what they count: then a mean stays a mean, and C keeps its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from rankplug.data import PreferenceData, no_pairs_count
from rankplug.shards.matrices import Vector
from rankplug.shards.weighting import UNIFORM, PairWeighting, weigh_pairs

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


def pair_totals(data: PreferenceData, weighting: PairWeighting = UNIFORM) -> PairTotals:
    """Count the pairs and the queries (or instances) that have some."""
    own, counts = data.weights, weigh_pairs(data, weighting)
    return PairTotals(float(own @ counts), float(own[counts > 0].sum()))


def pair_weights(
    data: PreferenceData,
    reduction: Reduction,
    totals: PairTotals | None = None,
    weighting: PairWeighting = UNIFORM,
) -> Vector:
    """``c_q``: what each pair of each query (or instance) counts, before C and its own weight.

    Parameters
    ----------
    data : RankingData or LabelRankingData
    reduction : "sum", "mean" or "query-mean"
    totals : PairTotals, optional
        Those of all data, if `data` are only a part.
    weighting : PairWeighting
        What single pairs count.

    Raises
    ------
    DataError
        If no pair counts at all.
    """
    own = data.weights
    if reduction == "sum" and weighting.counts_alike(data):
        return own
    totals = totals or pair_totals(data, weighting)
    if totals.pairs == 0.0:
        raise no_pairs_count("the weights of all of them are zero")
    if reduction == "sum":
        return own
    if reduction == "mean":
        return own / totals.pairs
    counts = weigh_pairs(data, weighting)
    known = np.where(counts > 0, counts, 1.0)
    per_query: Vector = own / (known * totals.queries_with_pairs)
    return np.where(counts > 0, per_query, 0.0)
