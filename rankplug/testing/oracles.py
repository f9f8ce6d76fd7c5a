"""Slow and obvious versions of what the solvers compute, to check them against.

Everything here lists the pairs, so it is for a few hundred rows at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

from rankplug.data import LabelRankingData, RankingData

__all__ = [
    "hinge_dual",
    "hinge_primal",
    "minimise_squared_hinge",
    "pair_differences",
    "squared_hinge_dual",
    "squared_hinge_primal",
]

Vector = NDArray[np.float64]


def pair_differences(
    data: RankingData | LabelRankingData,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """``x_i - x_j`` of every pair with ``y_i > y_j`` in its query, and the query of each pair.

    For label ranking, an instance is a query and label r of instance i the row ``e_r (x) x_i``.
    """
    differences, queries = [], []
    for q, (rows, relevance) in enumerate(_iterate_queries(data)):
        better, worse = np.nonzero(relevance[:, None] > relevance[None, :])
        differences.append(rows[better] - rows[worse])
        queries.append(np.full(len(better), q))
    return np.concatenate(differences), np.concatenate(queries)


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


def _iterate_queries(
    data: RankingData | LabelRankingData,
) -> list[tuple[NDArray[np.float64], Vector]]:
    features: Any = data.X
    dense = features.toarray() if sparse.issparse(features) else features
    X = np.asarray(dense, dtype=np.float64)
    if isinstance(data, RankingData):
        spans = zip(data.query_ptr[:-1], data.query_ptr[1:], strict=True)
        return [(X[b:e], data.relevance[b:e]) for b, e in spans]
    labels = np.eye(data.n_labels)
    # A comparison with NaN is false, so a label without relevance is in no pair.
    return [(np.kron(labels, x[None, :]), y) for x, y in zip(X, data.relevance, strict=True)]
