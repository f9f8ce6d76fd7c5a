"""Features normalised within their queries, as RankLib's ``-norm`` does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data.arrays import refuse_missing, to_dense
from rankplug.data.ranking import RankingData
from rankplug.exceptions import DataError, ParameterError

NormName = Literal["zscore", "linear", "sum"]


def normalise_queries(data: RankingData, method: NormName) -> RankingData:
    """The data with each feature normalised within each query.

    With the values x of a feature in a query of n rows:

    * "zscore": ``(x - mean) / s``, s the standard deviation with n - 1; where s is 0, as it is;
    * "linear": ``(x - min) / (max(max, 0) - min)``; where the values are equal, 0;
    * "sum": ``x / sum |x|``; where that is 0, as it is.

    A model of such features needs all rows of a query, normalised alike, whenever it predicts, so
    it is no part of a model. (That a maximum below 0 counts as 0 is RankLib's rule.)

    Parameters
    ----------
    data : RankingData
    method : "zscore", "linear" or "sum"

    Returns
    -------
    RankingData
        Sparse features become dense, but for "sum"; codes of categories stay as they are.

    Raises
    ------
    ParameterError
        If the method is none of these.
    DataError
        If features are missing, or were scaled when they were prepared.

    References
    ----------
    .. [1] RankLib 2.x, ``ZScoreNormalizor``, ``LinearNormalizer`` and ``SumNormalizor``.
    """
    if method not in get_args(NormName):
        raise ParameterError(f"method={method!r} must be one of {', '.join(get_args(NormName))}")
    if data.scaling is not None:
        raise DataError("the features were scaled when they were prepared: prepare them unscaled")
    if data.has_missing:
        refuse_missing(data.X, data.feature_names)
    if method == "sum":
        X: Any = _divided(data)
    else:
        dense = to_dense(data.X).astype(np.float64)
        X = _standardised(dense, data) if method == "zscore" else _between(dense, data)
        X[:, [*data.categories]] = dense[:, [*data.categories]]
    return replace(data, X=X)


def _divided(data: RankingData) -> Any:
    X: Any = data.X
    total = _each(np.add, abs(X), data)
    total[:, [*data.categories]] = 1.0
    factor = (1.0 / np.where(total > 0, total, 1.0))[data.row_query]
    if not sparse.issparse(X):
        return X * factor
    rows = np.repeat(np.arange(data.n_samples), np.diff(X.indptr))
    values = X.data * factor[rows, X.indices]
    return sparse.csr_array((values, X.indices, X.indptr), shape=X.shape)


def _standardised(X: NDArray[np.float64], data: RankingData) -> NDArray[np.float64]:
    sizes = data.sizes[:, None]
    distance = X - (_each(np.add, X, data) / sizes)[data.row_query]
    deviation = np.sqrt(_each(np.add, distance**2, data) / np.maximum(sizes - 1, 1))
    of_rows = deviation[data.row_query]
    return np.where(of_rows > 0, distance / np.where(of_rows > 0, of_rows, 1.0), X)


def _between(X: NDArray[np.float64], data: RankingData) -> NDArray[np.float64]:
    low = _each(np.minimum, X, data)
    length = np.maximum(_each(np.maximum, X, data), 0.0) - low
    divisor = np.where(length > 0, length, 1.0)
    scaled: NDArray[np.float64] = (X - low[data.row_query]) / divisor[data.row_query]
    return scaled


def _each(function: np.ufunc, X: Any, data: RankingData) -> NDArray[np.float64]:
    """A sum or an extreme of each column in each query, of shape (n_queries, n_features)."""
    if sparse.issparse(X):
        rows = np.ones(data.n_samples), data.row_query, np.arange(data.n_samples + 1)
        of_queries = sparse.csr_array(rows, shape=(data.n_samples, data.n_queries))
        return to_dense(of_queries.T @ X)
    return np.asarray(function.reduceat(X, data.query_ptr[:-1], axis=0))
