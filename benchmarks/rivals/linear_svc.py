"""scikit-learn's LinearSVC (LIBLINEAR) on the explicit differences of all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.rivals.base import Fitted, Rival
from rankplug.data import RankingData

_MOST_BYTES = 2**31


def _pairs(data: RankingData) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    high, low = [], []
    for start, end in zip(data.query_ptr, data.query_ptr[1:], strict=False):
        y = data.relevance[start:end]
        i, j = np.nonzero(y[:, None] > y[None, :])
        high.append(start + i)
        low.append(start + j)
    return np.concatenate(high), np.concatenate(low)


def _refuses(data: RankingData) -> str | None:
    per_row = float(data.n_features)
    if sparse.issparse(data.X):
        per_row = 2 * data.X.nnz / data.n_samples
    size = int(data.pair_counts.sum()) * per_row * 8
    return f"pair differences of {size / 2**30:.1f} GiB" if size > _MOST_BYTES else None


def _prepare(data: RankingData) -> tuple[Any, NDArray[np.int64]]:
    high, low = _pairs(data)
    # Two classes are needed: every other pair is turned round, which changes no loss.
    sign = np.where(np.arange(len(high)) % 2 == 0, 1, -1)
    return (data.X[high] - data.X[low]) * sign[:, None], sign


def _fit(prepared: Any, *, C: float, tol: float) -> Fitted:
    from sklearn.svm import LinearSVC

    differences, sign = prepared
    svc = LinearSVC(
        loss="squared_hinge", dual=False, fit_intercept=False, C=C, tol=tol, max_iter=10_000
    ).fit(differences, sign)
    coef = svc.coef_.ravel()
    return Fitted(lambda X: X @ coef, coef)


RIVAL = Rival(
    "linear-svc", "scikit-learn", "sklearn.svm", "squared-hinge", _fit, _prepare, _refuses
)
