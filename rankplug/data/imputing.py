"""Imputation of missing features: each column's mean or median in place of NaN."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data.arrays import Matrix, stored_values

ImputeName: TypeAlias = Literal["none", "mean", "median"]

_COLUMNS_ELEMENTS = 1 << 21  # of features whose medians are looked for at once


def fit_imputing(X: Matrix, impute: Literal["mean", "median"]) -> NDArray[np.float64]:
    """What stands for a missing value of each column, as scikit-learn's `SimpleImputer` finds it.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
    impute : "mean" or "median"
        Of the values that are there; 0 for a column without any. Absent values of sparse features
        are zeros.

    Returns
    -------
    float64 ndarray of shape (n_features,)
    """
    from sklearn.impute import SimpleImputer

    width = max(1, _COLUMNS_ELEMENTS // X.shape[0])
    columns: Any = sparse.csc_array(X) if sparse.issparse(X) else X
    found = []
    for begin in range(0, X.shape[1], width):
        # Some columns at a time: X may be mapped, and the imputer makes copies.
        imputer = SimpleImputer(strategy=impute, keep_empty_features=True)
        found.append(imputer.fit(columns[:, begin : begin + width]).statistics_)
    return np.concatenate(found).astype(np.float64)


def fill_missing(X: Matrix, fill: NDArray[np.float64]) -> Matrix:
    """Features with each column's value in place of NaN; a copy if there is any."""
    missing = np.isnan(stored_values(X))
    if not missing.any():
        return X
    if isinstance(X, np.ndarray):
        return np.where(missing, fill.astype(X.dtype), X)
    filled = X.copy()
    filled.data[missing] = fill[X.indices[missing]]
    return filled
