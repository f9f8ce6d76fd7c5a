"""What each exact solver minimises on some data, listed pair by pair from its docstring."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy import sparse

from rankplug.data import LabelRankingData, RankingData, far_origin
from rankplug.exceptions import DataError
from rankplug.kernels import Kernel, default_gamma
from tests.interior_point import Groups, Top
from tests.oracles import better_and_worse, bipartite_graphs, listed_weights

Data = RankingData | LabelRankingData


def dense(X: Any) -> Any:
    """As float64, whatever it was."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def items_of(data: Data, rows: Any) -> Any:
    """A row of each item: that of a document, or of a label and its instance."""
    if data.n_labels is None:
        return rows
    return np.concatenate([np.kron(np.eye(data.n_labels), x[None]) for x in rows])


def kernel_of(solver: Any, data: Data) -> Kernel | None:
    """The kernel, unless it is linear or the solver has none."""
    if getattr(solver, "kernel", "linear") == "linear":
        return None
    needed = solver.kernel in ("rbf", "poly")
    gamma = solver.gamma or (default_gamma(data.X) if needed else 1.0)
    return Kernel(solver.kernel, gamma, solver.degree, solver.coef0)


def factor_of(kernel: Kernel, X: Any) -> Any:
    """Rows whose inner products are the kernel."""
    values, vectors = np.linalg.eigh(kernel(X, X))
    kept = values > 1e-12 * values.max()
    return vectors[:, kept] * np.sqrt(values[kept])


def problem_of(solver: Any, data: Data, base: Any = None) -> Groups | Top:
    """What this solver minimises on these data."""
    if solver.name in ("toppush", "a2dm2"):
        return top_of(solver, data)
    kernel = kernel_of(solver, data)
    rows = dense(data.X) if kernel is None else factor_of(kernel, data.X)
    if solver.name in ("tree-tron", "cutting-plane"):
        weight = listed_weights(
            data, solver.reduction, solver.pair_weight, solver.document_pairs, solver.pairs
        )
        found = [
            ([i], [j], [1.0], 1.0)
            for start, y, _ in examples(data)
            for i, j in zip(
                *(start + one for one in better_and_worse(y, solver.pairs)), strict=True
            )
        ]
    else:
        found = list(graphs_of(solver, data))
        weight = np.array([one[3] for one in found])
    sizes = [len(one[0]) for one in found]
    return Groups(
        items_of(data, rows),
        np.concatenate([one[0] for one in found]),
        np.concatenate([one[1] for one in found]),
        np.concatenate([one[2] for one in found]).astype(float),
        np.repeat(np.arange(len(found)), sizes),
        solver.C * weight,
        2 if solver.name == "tree-tron" else 1,
        base=base,
    )


def examples(data: Data) -> Any:
    """Where the items of each query or instance begin, their relevance, and its weight."""
    if isinstance(data, LabelRankingData):
        k = data.n_labels
        return [(i * k, y, 1.0) for i, y in enumerate(data.relevance)]
    spans = itertools.pairwise(data.query_ptr)
    return [(b, data.relevance[b:e], w) for (b, e), w in zip(spans, data.weights, strict=True)]


def graphs_of(solver: Any, data: Data) -> Any:
    """The pairs, margins and weight of each graph of sopopo, or pattern of larank."""
    labels = data.n_labels is not None
    for start, y, weight in examples(data):
        graphs: list[Any] = []
        if solver.name == "sopopo":
            name = solver.decomposition
            if name == "auto":
                name = "adjacent-layers" if labels else "all-pairs"
            graphs = name(y) if callable(name) else bipartite_graphs(y, name)
            weight /= len(graphs) if solver.weights == "mean" and graphs else 1.0
        elif solver.patterns == "pairs" or (solver.patterns == "auto" and not labels):
            graphs = bipartite_graphs(y, "all-pairs")
        elif labels:
            levels = [np.flatnonzero(y == one) for one in np.unique(y[~np.isnan(y)])]
            graphs = [
                ([a], list(below))
                for k, level in enumerate(levels)
                for a in level
                for below in levels[:k]
            ]
        else:
            graphs = [([a], list(np.flatnonzero(y < y[a]))) for a in range(len(y))]
        graded = solver.name == "sopopo" or solver.margin == "graded"
        for A, B, *own in graphs:
            pairs = list(itertools.product(A, B))
            if pairs and weight > 0:
                margins = [y[a] - y[b] if graded else 1.0 for a, b in pairs]
                places = np.array(pairs) + start
                yield places[:, 0], places[:, 1], margins, weight * (own[0] if own else 1.0)


def top_of(solver: Any, data: RankingData) -> Top:
    """The problem at the top, query by query, or of all rows at once."""
    X, threshold, counted = dense(data.X), solver.threshold, []
    origin = far_origin(data.X)  # of columns, which problem (13) depends on
    X = X if origin is None else X - origin
    for b, y, weight in examples(data):
        if weight > 0 and len(np.unique(y)) > 1:
            counted.append((np.arange(b, b + len(y)), y, weight))
    if threshold is None:
        threshold = min(y.min() for _, y, _ in counted)
    if solver.scope == "global":
        rows, y = (np.concatenate([one[k] for one in counted]) for k in (0, 1))
        of_row = np.concatenate([np.full(len(one[1]), one[2]) for one in counted])
        parts = [(rows, y, of_row)]
    else:
        parts = [
            (rows, y, np.full(len(y), weight / (y > threshold).sum()))
            for rows, y, weight in counted
            if 0 < (y > threshold).sum() < len(y)
        ]
    if not any((y > threshold).any() and (y <= threshold).any() for _, y, _ in parts):
        raise DataError("one kind only")
    n_pos, n_neg = (
        [int(f(y).sum()) for _, y, _ in parts]
        for f in (lambda y: y > threshold, lambda y: y <= threshold)
    )
    rows, y, weight = (np.concatenate([one[k] for one in parts]) for k in range(3))
    weight = weight[y > threshold] / weight[y > threshold].sum()
    queries = np.arange(len(parts))
    query, n_rows = np.repeat(queries, n_pos), np.add(n_pos, n_neg)
    given: dict[str, Any] = {}
    if solver.name == "a2dm2":
        small = 0.03 * solver.lam / n_rows.sum()
        share = n_rows.sum() * np.bincount(query, weight) / n_rows
        given["lam1"] = share * (small if solver.lam1 is None else solver.lam1)
        given["lam2"] = share * (small if solver.lam2 is None else solver.lam2)
    return Top(
        X[rows[y > threshold]],
        X[rows[y <= threshold]],
        query,
        np.repeat(queries, n_neg),
        weight,
        np.minimum(getattr(solver, "top_k", 1), n_neg),
        solver.lam,
        getattr(solver, "loss", "squared-hinge"),
        origin=0.0 if origin is None else origin,
        **given,
    )
