"""Oracles: slow and obvious versions of what the solvers compute, and data to check them on.

Oracles list pairs or graphs, so they are for a few hundred rows at most.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, sparse

from rankplug.data import LabelRankingData, RankingData
from rankplug.solver import Data

Vector = NDArray[np.float64]
Graph = tuple[list[int], list[int]]


def query_data(seed: int = 0, weighted: bool = False) -> RankingData:
    """Ties, a query with equal documents, a query with one level, and weights if they are asked."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(6), [9, 1, 7, 6, 2, 8])
    X, y = rng.normal(size=(33, 4)) + 2.0, rng.integers(0, 4, size=33).astype(float)
    X[qid == 4], y[qid == 4] = 1.0, [0.0, 1.0]
    y[qid == 3] = 2.0
    weight = np.array([1.0, 1.0, 0.0, 3.0, 0.5, 2.0])[qid] if weighted else None
    return RankingData.from_arrays(X, y, qid, sample_weight=weight)


@st.composite
def small_sets(draw: st.DrawFn, scales: Sequence[float] = (1.0,)) -> Any:
    """Ties, one-level queries, single rows, duplicate rows, any kind of matrix."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = rng.integers(1, 8, size=draw(st.integers(1, 5)))
    qid = np.repeat(np.arange(len(sizes)), sizes)
    y = rng.integers(0, draw(st.sampled_from([2, 3, 20])), size=len(qid)).astype(float)
    y[qid == 0] = y[0]
    # One query that has a pair for certain.
    qid, y = np.append(qid, [99, 99]), np.append(y, [0.0, 1.0])
    X = rng.normal(size=(len(qid), draw(st.integers(1, 4)))) * draw(st.sampled_from(scales))
    X = np.round(X, 2)
    X[1] = X[0]
    kind = draw(st.sampled_from(["float64", "float32", "csr"]))
    return (sparse.csr_array(X) if kind == "csr" else X.astype(kind)), y, qid


def pair_differences(
    data: Data, pairs: str = "all"
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """``x_i - x_j`` of every pair with ``y_i > y_j`` in its query, and the query of each pair.

    For label ranking, an instance is a query and label r of instance i the row ``e_r (x) x_i``.
    """
    differences, queries = [], []
    examples = zip(_rows_of_examples(data), groups(data, data.relevance), strict=True)
    for q, (rows, (relevance, *_)) in enumerate(examples):
        better, worse = better_and_worse(relevance, pairs)
        differences.append(rows[better] - rows[worse])
        queries.append(np.full(len(better), q))
    return np.concatenate(differences), np.concatenate(queries)


def better_and_worse(relevance: Vector, pairs: str = "all") -> tuple[Any, Any]:
    """The positions of every pair; or of those with no level between."""
    # A comparison with NaN is false, so a label without relevance is in no pair.
    better, worse = np.nonzero(relevance[:, None] > relevance[None, :])
    if pairs == "adjacent":
        place = {level: k for k, level in enumerate(sorted(set(relevance[~np.isnan(relevance)])))}
        near = [
            place[relevance[b]] == place[relevance[w]] + 1
            for b, w in zip(better, worse, strict=True)
        ]
        better, worse = better[near], worse[near]
    return better, worse


WEIGHTINGS = [
    {"pair_weight": pair_weight, "document_pairs": document_pairs}
    for pair_weight in ("uniform", "gain", "relevance")
    for document_pairs in ("preferred", "product")
]


def odd_weights(n: int, seed: int) -> Vector:
    """Weights of rows from 1e-6 to 1e6, a quarter of them zero."""
    rng = np.random.default_rng(seed)
    weight: Vector = 10.0 ** rng.uniform(-6, 6, n)
    weight[rng.random(n) < 0.25] = 0.0
    return weight


def oddly_weighed(arrays: Any, weighting: dict[str, Any]) -> tuple[RankingData, str]:
    """Data, whose rows have odd weights if pairs are weighed, and a reduction that suits them.

    Means, then: a huge C times the largest weight would leave no digits of a smaller one.
    """
    data = RankingData.from_arrays(*arrays)
    if not weighting:
        return data, "sum"
    weight = odd_weights(data.n_samples, len(arrays[1]))
    weight[-2:] = 1.0  # of a pair for certain
    return data.with_facts(document_weight=weight), "mean"


def listed_weights(
    data: Data,
    reduction: str = "sum",
    pair_weight: str = "uniform",
    document_pairs: str = "preferred",
    pairs: str = "all",
) -> Vector:
    """What each of the pairs of `pair_differences` counts, one by one."""
    listed = []
    documents = getattr(data, "document_weight", None)
    documents = np.ones(data.relevance.shape) if documents is None else documents
    for relevance, own, weight in groups(data, documents):
        better, worse = better_and_worse(relevance, pairs)
        gain = 2.0**relevance - 1.0 if pair_weight == "gain" else relevance
        counts = weight * own[better] * (own[worse] if document_pairs == "product" else 1.0)
        listed.append(counts if pair_weight == "uniform" else counts * (gain[better] - gain[worse]))
    if reduction == "query-mean":
        own = data.weights
        there = sum(own[q] for q, one in enumerate(listed) if one.sum() > 0)
        listed = [
            own[q] * one / (one.sum() * there) if one.sum() > 0 else 0.0 * one
            for q, one in enumerate(listed)
        ]
    found = np.concatenate(listed)
    return found / found.sum() if reduction == "mean" else found


def hinge_primal(
    differences: NDArray[np.float64], weight: Vector, C: float, w: Vector
) -> tuple[float, Vector]:
    """``1/2 w.w + C sum_p weight_p max(0, 1 - w.d_p)`` over pairs p, and a subgradient."""
    slack = 1.0 - differences @ w
    value = 0.5 * w @ w + C * np.sum(weight * np.maximum(0.0, slack))
    return float(value), w - C * differences.T @ (weight * (slack > 0))


def hinge_dual(differences: NDArray[np.float64], alpha: Vector) -> float:
    """Dual objective ``sum_p alpha_p - 1/2 |sum_p alpha_p d_p|^2``.

    It bounds the minimum from below for every alpha with ``0 <= alpha_p <= C weight_p``.
    """
    combined = differences.T @ alpha
    return float(alpha.sum() - 0.5 * combined @ combined)


def squared_hinge_primal(
    differences: NDArray[np.float64], weight: Vector, C: float, w: Vector
) -> tuple[float, Vector]:
    """``1/2 w.w + C sum_p weight_p max(0, 1 - w.d_p)^2`` over pairs p, and its gradient."""
    slack = np.maximum(0.0, 1.0 - differences @ w)
    value = 0.5 * w @ w + C * np.sum(weight * slack**2)
    return float(value), w - 2.0 * C * differences.T @ (weight * slack)


def squared_hinge_dual(
    differences: NDArray[np.float64], weight: Vector, C: float, w: Vector
) -> float:
    """Dual objective at ``alpha_p = 2 C weight_p max(0, 1 - w.d_p)``.

    ``D(alpha) = sum_p alpha_p - 1/2 |sum_p alpha_p d_p|^2 - sum_p alpha_p^2 / (4 C weight_p)``
    """
    alpha = 2.0 * C * weight * np.maximum(0.0, 1.0 - differences @ w)
    combined = differences.T @ alpha
    positive = alpha > 0
    penalty = np.sum(alpha[positive] ** 2 / (4.0 * C * weight[positive]))
    return float(alpha.sum() - 0.5 * combined @ combined - penalty)


def minimise_squared_hinge(
    differences: NDArray[np.float64], weight: Vector, C: float
) -> tuple[Vector, float]:
    """The minimiser by a general-purpose method, and the objective there."""
    found: Any = optimize.minimize(
        lambda w: squared_hinge_primal(differences, weight, C, w),
        np.zeros(differences.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 10_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-10},
    )
    return np.asarray(found.x), float(found.fun)


def groups(data: Data, scores: Any) -> list[tuple[Any, Any, float]]:
    """Relevance, scores (which may be symbols) and weight of each query or instance."""
    if isinstance(data, LabelRankingData):
        return [(y, s, 1.0) for y, s in zip(data.relevance, scores, strict=True)]
    spans = zip(data.query_ptr[:-1], data.query_ptr[1:], data.weights, strict=True)
    return [(data.relevance[b:e], scores[b:e], float(w)) for b, e, w in spans]


def bipartite_graphs(relevance: NDArray[np.float64], decomposition: str) -> list[Graph]:
    """The graphs (A, B) of one query or instance, as positions; NaN is not compared."""
    compared = [i for i in range(len(relevance)) if not np.isnan(relevance[i])]
    levels = sorted({float(relevance[i]) for i in compared}, reverse=True)
    layers = [[i for i in compared if relevance[i] == level] for level in levels]
    if decomposition == "adjacent-layers":
        return list(itertools.pairwise(layers))
    if decomposition == "all-layers":
        return list(itertools.combinations(layers, 2))
    if decomposition == "top-vs-rest":
        rest = [i for layer in layers[1:] for i in layer]
        return [(layers[0], rest)] if rest else []
    if decomposition == "all-pairs":
        return [([a], [b]) for a in compared for b in compared if relevance[a] > relevance[b]]
    raise ValueError(decomposition)


def graph_loss(
    data: Data, scores: NDArray[np.float64], decomposition: str, weights: str = "sum"
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


def _rows_of_examples(data: Data) -> list[NDArray[np.float64]]:
    features: Any = data.X
    X = np.asarray(features.toarray() if sparse.issparse(features) else features, np.float64)
    if isinstance(data, RankingData):
        return np.split(X, data.query_ptr[1:-1])
    return [np.kron(np.eye(data.n_labels), x[None, :]) for x in X]


def error_of_product(X, u):
    """How far X' u in a Hessian product may be from the exact one, for each column of X.

    Of float32 features it is summed in their precision, 64 rows at a time: each term may be off by
    half a digit of each sum that it is part of, and by one of its own.
    """
    digit = np.finfo(X.dtype).eps if X.dtype == np.float32 else 1e-12
    return 65 * digit * (np.abs(X.astype(float)).T @ np.abs(u))
