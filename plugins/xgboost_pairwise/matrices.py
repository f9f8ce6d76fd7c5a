"""Ranking data as XGBoost's binned matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import LabelRankingData, Matrix, RankingData

__all__ = ["label_rows", "levels", "missing_value", "quantile_matrix", "rows_per_block"]

_BLOCK_VALUES = 4_000_000


def quantile_matrix(
    data: RankingData | LabelRankingData,
    relevance: NDArray[np.float64],
    *,
    zeros: str,
    max_bin: int,
    n_threads: int | None,
    ref: Any = None,
) -> Any:
    """`data` as an ``xgboost.QuantileDMatrix`` with `relevance` (of its shape) as labels.

    Queries are handed over as sizes or positions, never as the caller's ids, which XGBoost
    would cut to 32 bits. `ref` is the training matrix whose bins validation data share.
    """
    import xgboost

    common = {
        "missing": missing_value(zeros),
        "max_bin": max_bin,
        "nthread": n_threads,
        "ref": ref,
    }
    if isinstance(data, LabelRankingData):
        blocks = _label_blocks(data, relevance)
        return xgboost.QuantileDMatrix(blocks, enable_categorical=True, **common)
    return xgboost.QuantileDMatrix(
        data.X,
        label=relevance,
        weight=data.query_weight,
        group=np.diff(data.query_ptr),
        **common,
    )


def missing_value(zeros: str) -> float:
    """What XGBoost is told to treat as missing."""
    return 0.0 if zeros == "missing" else np.nan


def levels(data: RankingData | LabelRankingData) -> NDArray[np.float64]:
    """Relevance replaced by its position, 0, 1, ..., among the values of its query.

    The order stays, and so do the pairs; XGBoost keeps labels as float32, which would make
    ties of values that differ by less than one part in 10^7.
    """
    if isinstance(data, LabelRankingData):
        return _levels_of_rows(data.relevance)
    sizes = np.diff(data.query_ptr)
    query = np.repeat(np.arange(data.n_queries), sizes)
    order = np.lexsort((data.relevance, query))
    ascending = data.relevance[order]
    count = np.cumsum(np.diff(ascending, prepend=ascending[0]) != 0)
    ranked = np.empty(data.n_samples)
    ranked[order] = count - np.repeat(count[data.query_ptr[:-1]], sizes)
    return ranked


def _levels_of_rows(relevance: NDArray[np.float64]) -> NDArray[np.float64]:
    order = np.argsort(relevance, axis=1)  # puts NaN last
    ascending = np.take_along_axis(relevance, order, axis=1)
    rises = np.diff(ascending, axis=1, prepend=ascending[:, :1]) > 0
    ranked = np.empty(relevance.shape)
    np.put_along_axis(ranked, order, np.cumsum(rises, axis=1).astype(np.float64), axis=1)
    ranked[np.isnan(relevance)] = np.nan
    return ranked


def label_rows(X: Matrix, instances: NDArray[np.int64], labels: NDArray[np.int64]) -> Matrix:
    """Rows ``(x_i, 1 + label)`` for label ranking; the last column is a category.

    Categories start at 1, so that they never count as missing.
    """
    codes = (labels + 1).astype(X.dtype)[:, None]
    if sparse.issparse(X):
        rows: Matrix = sparse.hstack([X[instances], sparse.csr_array(codes)], format="csr")
        return rows
    return np.hstack([X[instances], codes])


def rows_per_block(n_features: int, n_labels: int) -> int:
    """How many instances to lay out at a time, so that a block stays within 32 MB."""
    return max(1, _BLOCK_VALUES // ((n_features + 1) * n_labels))


def _label_blocks(data: LabelRankingData, relevance: NDArray[np.float64]) -> Any:
    """An ``xgboost.DataIter`` over (instance, label) rows; an instance is a query."""
    import xgboost

    step = rows_per_block(data.n_features, data.n_labels)
    types = ["q"] * data.n_features + ["c"]

    class Blocks(xgboost.DataIter):
        def __init__(self) -> None:
            self.start = 0
            super().__init__()

        def reset(self) -> None:
            self.start = 0

        def next(self, input_data: Any) -> bool:
            if self.start >= data.n_samples:
                return False
            values = relevance[self.start : self.start + step]
            position, label = np.nonzero(~np.isnan(values))
            instance = position + self.start
            self.start += step
            input_data(
                data=label_rows(data.X, instance, label),
                label=values[position, label],
                qid=instance,
                feature_types=types,
            )
            return True

    return Blocks()
