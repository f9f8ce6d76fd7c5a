"""Slow and obvious versions of losses over bipartite graphs, to check solvers against them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import LabelRankingData, RankingData

__all__ = ["bipartite_graphs", "graph_loss", "groups"]

Graph = tuple[list[int], list[int]]


def groups(data: RankingData | LabelRankingData, scores: Any) -> list[tuple[Any, Any, float]]:
    """Relevance, scores and weight of each query or instance."""
    if isinstance(data, LabelRankingData):
        return [(y, s, 1.0) for y, s in zip(data.relevance, scores, strict=True)]
    weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
    spans = zip(data.query_ptr[:-1], data.query_ptr[1:], weight, strict=True)
    return [(data.relevance[b:e], scores[b:e], float(w)) for b, e, w in spans]


def bipartite_graphs(relevance: NDArray[np.float64], decomposition: str) -> list[Graph]:
    """The graphs (A, B) of one query or instance, as positions; NaN is not compared."""
    compared = [i for i in range(len(relevance)) if not np.isnan(relevance[i])]
    levels = sorted({float(relevance[i]) for i in compared}, reverse=True)
    layers = [[i for i in compared if relevance[i] == level] for level in levels]
    if decomposition == "adjacent-layers":
        return [(layers[j], layers[j + 1]) for j in range(len(layers) - 1)]
    if decomposition == "all-layers":
        return [(a, b) for j, a in enumerate(layers) for b in layers[j + 1 :]]
    if decomposition == "top-vs-rest":
        rest = [i for layer in layers[1:] for i in layer]
        return [(layers[0], rest)] if rest else []
    if decomposition == "all-pairs":
        return [([a], [b]) for a in compared for b in compared if relevance[a] > relevance[b]]
    raise ValueError(decomposition)


def graph_loss(
    data: RankingData | LabelRankingData,
    scores: NDArray[np.float64],
    decomposition: str,
    weights: str = "sum",
) -> float:
    """Sum over graphs of ``sigma max over (a, b) of [g_a - g_b - (s_a - s_b)]_+``, pair by pair."""
    total = 0.0
    for y, s, group_weight in groups(data, scores):
        graphs = bipartite_graphs(y, decomposition)
        sigma = 1.0 / len(graphs) if weights == "mean" and graphs else 1.0
        for A, B in graphs:
            worst = max(y[a] - y[b] - (s[a] - s[b]) for a in A for b in B)
            total += group_weight * sigma * max(worst, 0.0)
    return total
