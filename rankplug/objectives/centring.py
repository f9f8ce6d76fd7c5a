"""Rows centred in their query: pairs have the same differences, and products lose no digits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import PreferenceData, RankingData, to_dense
from rankplug.shards import RemoteRankingData, is_mapped

AnyPairs = TypeVar("AnyPairs", bound=PreferenceData | RemoteRankingData)

_SAMPLE_ROWS = 200  # that say how far from 0 the features of a query lie
_FAR = 1e3  # deviations: three digits, and six of their squares, are lost there


def centre_queries(data: AnyPairs) -> AnyPairs:
    """Rows less about the mean of their query, if they lie far from 0 beside their distances.

    Pairs have the same differences, but products with the features lose no digits. Columns of
    sparse features are centred where no row lacks them; labels, and features that are mapped from
    a file or lie on a cluster, are left as they are.
    """
    X: Any = getattr(data, "X", None)  # rows on a cluster lie elsewhere
    held = isinstance(X, np.ndarray) or sparse.issparse(X)
    if not held or is_mapped(X) or not isinstance(data, RankingData):
        return data
    columns = _columns_far_from_zero(X, data)
    if len(columns) == 0:
        return data
    of_columns = to_dense(X[:, columns])
    mean = np.add.reduceat(of_columns, data.query_ptr[:-1], axis=0, dtype=np.float64)
    # A centre that the features' own type holds: differences of near numbers then are exact.
    centre = (mean / data.sizes[:, None]).astype(of_columns.dtype)
    centred = of_columns - np.repeat(centre, data.sizes, axis=0)
    X = X.copy()
    if sparse.issparse(X):
        X.sort_indices()
        X.data[np.isin(X.indices, columns)] = centred.ravel()
    else:
        X[:, columns] = centred
    return replace(data, X=X)


def _columns_far_from_zero(X: Any, data: RankingData) -> NDArray[np.int64]:
    """Columns that `centre_queries` centres, by rows of a sample and the first of their queries."""
    rows = np.arange(0, data.n_samples, max(1, data.n_samples // _SAMPLE_ROWS))
    sample, first = X[rows], X[data.query_ptr[data.row_query[rows]]]
    columns = np.arange(X.shape[1])
    if sparse.issparse(X):
        # What a sample's rows have in common is little, and all that is looked at in the others.
        columns = np.flatnonzero(np.bincount(sample.indices, minlength=X.shape[1]) == len(rows))
        if len(columns) > 0:
            columns = columns[np.bincount(X.indices)[columns] == data.n_samples]
        sample, first = sample[:, columns], first[:, columns]
    first = to_dense(first).astype(np.float64)
    spread = np.abs(to_dense(sample) - first).mean(axis=0)
    far: NDArray[np.bool_] = (spread > 0) & (np.abs(first).mean(axis=0) > _FAR * spread)
    return columns[far]
