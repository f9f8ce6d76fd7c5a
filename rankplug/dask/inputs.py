"""Dask Arrays, DataFrames and Series, cut into runs of rows that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed

from rankplug.exceptions import DataError

__all__ = ["row_parts"]


def row_parts(
    X: Any, y: Any, qid: Any, sample_weight: Any
) -> list[tuple[Delayed, Delayed, Delayed | None, Delayed | None]]:
    """The partitions of `X` with the rows of the others that stand beside them.

    Raises
    ------
    DataError
        If something is no Dask collection, or they are not cut at the same rows.
    """
    if not (dask.is_dask_collection(X) and getattr(X, "ndim", 0) == 2):
        raise DataError(
            f"X must be a two-dimensional Dask Array or a Dask DataFrame, not {_kind(X)}: use "
            "dask.array.from_array or dask.dataframe.from_pandas, or rankplug.Ranker for data in "
            "this process"
        )
    rows = _row_chunks(X)
    features = _partitions(X)
    beside = {"y": y, "qid": qid, "sample_weight": sample_weight}
    parts = {
        name: [None] * len(features) if values is None else _beside(name, values, rows, features)
        for name, values in beside.items()
    }
    if y is None:
        raise DataError("y is missing: pass the relevance of each row")
    if qid is None and len(features) > 1:
        raise DataError(
            f"qid is missing: without it all rows are one query, but X has {len(features)} "
            "partitions; pass the query of each row"
        )
    return list(zip(features, parts["y"], parts["qid"], parts["sample_weight"], strict=True))


def _beside(name: str, values: Any, rows: Any, features: Sequence[Delayed]) -> list[Delayed]:
    if not dask.is_dask_collection(values) or not hasattr(values, "ndim"):
        raise DataError(
            f"{name} must be a Dask Array or Series as X is one, not {_kind(values)}: the rows of "
            "all of them are needed in the same partitions"
        )
    if isinstance(values, da.Array):
        values = _flat(name, values)
        if rows is not None and not _unknown(values) and values.chunks[0] != rows:
            if sum(values.chunks[0]) != sum(rows):
                raise DataError(
                    f"X has {sum(rows)} rows but {name} has {sum(values.chunks[0])} values"
                )
            values = values.rechunk((rows,))
    parts = _partitions(values)
    if len(parts) != len(features):
        raise DataError(
            f"X has {len(features)} partitions but {name} has {len(parts)}: cut them at the same "
            "rows, best by taking all of them from one DataFrame, or make chunk sizes known "
            "(array.compute_chunk_sizes()) and rechunk"
        )
    return parts


def _partitions(X: Any) -> list[Delayed]:
    """The partitions of a collection, each with all its columns."""
    if isinstance(X, da.Array):
        if X.ndim == 2 and X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        return list(X.to_delayed().ravel())
    return list(X.to_delayed())


def _flat(name: str, values: da.Array) -> da.Array:
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    if values.ndim != 1:
        raise DataError(f"{name} has {values.ndim} dimensions; it needs one value per row of X")
    return values


def _row_chunks(X: Any) -> tuple[int, ...] | None:
    """Rows of each partition, None where Dask does not know."""
    if not isinstance(X, da.Array) or _unknown(X):
        return None
    return tuple(X.chunks[0])


def _unknown(array: da.Array) -> bool:
    return bool(np.isnan(array.chunks[0]).any())


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
