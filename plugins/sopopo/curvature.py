"""Curvature of the dual objective along the dual variables of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from rankplug.data import Matrix
from rankplug.kernels import squared_norms
from rankplug.optim.bracket import Vector
from rankplug_plugins.sopopo.decompositions import Graphs

__all__ = ["graph_curvatures"]

_EXACT = 400  # rows or columns up to which all eigenvalues are computed
_MARGIN = 1.01  # on an eigenvalue that was only approximated
_PAIR_CHUNK = 2**20  # elements of feature differences at once


def graph_curvatures(X: Matrix, graphs: Graphs, query_ptr: NDArray[np.int64]) -> Vector:
    """Largest eigenvalue of the Gram matrix of each graph's documents around their mean.

    The mean may be taken off because the signed moves along a graph add up to 0.
    """
    sizes = np.diff(graphs.member_ptr)
    rows = np.repeat(query_ptr[graphs.group], sizes) + graphs.member
    curvature = np.empty(len(sizes))
    pairs = np.flatnonzero(sizes == 2)
    first = graphs.member_ptr[pairs]
    curvature[pairs] = _pair_curvatures(X, rows[first], rows[first + 1])
    with np.errstate(over="ignore", invalid="ignore"):
        for b in np.flatnonzero(sizes != 2):
            own = rows[graphs.member_ptr[b] : graphs.member_ptr[b + 1]]
            curvature[b] = _largest_eigenvalue(X[own])
    return curvature


def _pair_curvatures(X: Matrix, a: NDArray[np.int64], b: NDArray[np.int64]) -> Vector:
    """Half the squared distances: two rows lie half a difference from their mean."""
    chunk = max(1, _PAIR_CHUNK // X.shape[1])
    parts = [
        0.5 * squared_norms(X[a[i : i + chunk]] - X[b[i : i + chunk]])
        for i in range(0, len(a), chunk)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def _largest_eigenvalue(rows: Any) -> float:
    n, d = rows.shape
    rows = rows.astype(np.float64)
    mean = np.asarray(rows.mean(axis=0)).ravel()
    if min(n, d) > _EXACT:
        return _approximate_eigenvalue(rows, mean)
    if sparse.issparse(rows):
        gram = _centred_gram(rows, mean)
    else:
        rows -= mean
        gram = rows @ rows.T if n <= d else rows.T @ rows
    if not np.isfinite(gram).all():
        return np.inf
    top = len(gram) - 1
    return max(float(linalg.eigvalsh(gram, subset_by_index=[top, top])[0]), 0.0)


def _centred_gram(rows: Any, mean: Vector) -> NDArray[np.float64]:
    """The smaller Gram matrix of sparse rows less their mean, which would fill them."""
    n, d = rows.shape
    if n > d:
        return np.asarray((rows.T @ rows).toarray() - n * np.outer(mean, mean))
    gram: NDArray[np.float64] = (rows @ rows.T).toarray()
    gram -= gram.mean(axis=0)
    gram -= gram.mean(axis=1)[:, None]
    return gram


def _approximate_eigenvalue(rows: Any, mean: Vector) -> float:
    d = rows.shape[1]

    def product(v: Vector) -> Vector:
        v = v.ravel()
        z = rows @ v - mean @ v
        return np.asarray(rows.T @ z - mean * z.sum())

    operator = LinearOperator((d, d), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=d)
    found = eigsh(operator, k=1, tol=1e-3, v0=start, return_eigenvectors=False)
    return _MARGIN * max(float(found[0]), 0.0)
