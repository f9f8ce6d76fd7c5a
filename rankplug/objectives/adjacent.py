"""Pairs of adjacent levels only: the data whose pairs these are, and what each of them counts.

A query of k levels becomes k - 1 queries of two, the rows of each level with those of the next
one. So every loss over all pairs is one over pairs of adjacent levels, in O(n) of them where the
levels are small, and each row is there at most twice; an instance of label ranking is there once
for each two levels, with the other labels left out.

References
----------
.. [1] Lee and Lin, "Large-scale linear rankSVM", Neural Computation 26 (2014), section 5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.data import (
    LabelRankingData,
    RankingData,
    concatenate_ranges,
    level_runs,
    no_pairs_count,
    take_rows,
)
from rankplug.shards import PairWeighting, Reduction, Vector, pair_weights, weigh_pairs

PairChoice: TypeAlias = Literal["all", "adjacent"]
Indices: TypeAlias = NDArray[np.int64]


def split_levels(
    data: RankingData | LabelRankingData,
) -> tuple[RankingData | LabelRankingData, Indices]:
    """The data of adjacent levels, and which query or instance each of theirs comes from."""
    return _split_instances(data) if isinstance(data, LabelRankingData) else _split_queries(data)


def _split_queries(data: RankingData) -> tuple[RankingData, Indices]:
    query = data.row_query
    order, begin = level_runs(data.relevance, query)
    group, end = query[order], np.append(begin[1:], len(order))
    lower = np.flatnonzero(group[begin[1:]] == group[begin[:-1]])
    sizes = end[lower + 1] - begin[lower]
    rows = order[concatenate_ranges(begin[lower], sizes)]
    origin = group[begin[lower]]
    return replace(
        data,
        X=take_rows(data.X, rows),
        relevance=data.relevance[rows],
        query_ptr=np.concatenate(([0], np.cumsum(sizes))),
        query_ids=data.query_ids[origin],
        query_weight=data.weights[origin],
        order=None,
        document_weight=None if data.document_weight is None else data.document_weight[rows],
        shown=None,
    ), origin


def _split_instances(data: LabelRankingData) -> tuple[LabelRankingData, Indices]:
    Y = data.relevance
    order = np.argsort(Y, axis=1, kind="stable")  # NaN comes last
    value = np.take_along_axis(Y, order, axis=1)
    rises = np.zeros(Y.shape, dtype=np.int64)
    rises[:, 1:] = value[:, 1:] > value[:, :-1]
    level = np.empty(Y.shape, dtype=np.int64)
    np.put_along_axis(level, order, np.cumsum(rises, axis=1), axis=1)
    level[np.isnan(Y)] = -1
    n_steps = np.maximum(level.max(axis=1), 0)
    origin = np.repeat(np.arange(len(Y)), n_steps)
    step = concatenate_ranges(np.zeros(len(Y), dtype=np.int64), n_steps)[:, None]
    kept = (level[origin] == step) | (level[origin] == step + 1)
    relevance = np.where(kept, Y[origin], np.nan)
    return replace(data, X=take_rows(data.X, origin), relevance=relevance), origin


def adjacent_weights(
    data: RankingData | LabelRankingData,
    split: RankingData | LabelRankingData,
    origin: Indices,
    reduction: Reduction,
    weighting: PairWeighting,
) -> Vector:
    """As `pair_weights`, of the split data; a query's pairs are those of all its parts.

    Raises
    ------
    DataError
        If no pair counts at all.
    """
    if reduction != "query-mean":
        return pair_weights(split, reduction, weighting=weighting)
    own = data.weights
    counts = np.bincount(origin, weigh_pairs(split, weighting), minlength=len(own))
    total = own[counts > 0].sum()
    if total == 0.0:
        raise no_pairs_count("the weights of all of them are zero")
    known = np.where(counts > 0, counts, 1.0)  # of no weight at all, otherwise
    weight: Vector = np.where(counts[origin] > 0, own[origin] / (known[origin] * total), 0.0)
    return weight
