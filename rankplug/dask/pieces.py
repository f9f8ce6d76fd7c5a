"""Pieces: the rows of a caller's Dask collections, cut at the same places.

1. Frames are made one expression, which is cut into its partitions. Columns of one frame that are
   cut one by one need not agree: Dask optimises each collection for itself, and joins small parts
   of files of which few columns are read. One expression is read and shuffled once, too.
2. Arrays are cut into their chunks, which are made those of X where chunk sizes are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import or_
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.delayed import Delayed, delayed

from rankplug.data import tables
from rankplug.exceptions import DataError


def pieces_of(
    X: Any, y: Any, qid: Any, sample_weight: Any, document_weight: Any = None
) -> list[Any]:
    """The partitions of `X` with the rows of the others that stand beside them.

    Returns
    -------
    list
        Dask makes of each a dict with "X", "y", and those of the others that are given.

    Raises
    ------
    DataError
        If something is not a Dask collection, or they are not cut at the same rows.
    """
    if not (dask.is_dask_collection(X) and getattr(X, "ndim", 0) == 2):
        raise DataError(
            f"X must be a two-dimensional Dask Array or a Dask DataFrame, not {_type_name(X)}: use "
            "dask.array.from_array or dask.dataframe.from_pandas, or rankplug.Ranker for data in "
            "this process"
        )
    if y is None:
        raise DataError("y is missing: pass the relevance of each row")
    if qid is not None and has_queries(X):
        tables.without_query_column(X._meta, given=True)
    n_partitions = X.npartitions if isinstance(X, dd.DataFrame) else X.numblocks[0]
    if qid is None and n_partitions > 1 and not has_queries(X):
        raise DataError(
            f"qid is missing: without it all rows are one query, but X has {n_partitions} "
            f"partitions; pass the query of each row, or a DataFrame with a column "
            f"{tables.QUERY_COLUMN!r}"
        )
    frames, arrays = {}, {}
    given = {"X": X, "y": y, "qid": qid}
    given |= {"sample_weight": sample_weight, "document_weight": document_weight}
    for name, values in given.items():
        if isinstance(values, da.Array):
            arrays[name] = values if name == "X" else _cut_as(X, name, values)
        elif values is not None:
            frames[name] = values if name == "X" else _align_with(X, name, values)
    chunks = _arrays_together(arrays, n_partitions)
    if not frames:
        return chunks
    partitions = _frames_together(frames)
    if not arrays:
        return partitions
    return [delayed(or_)(*both) for both in zip(partitions, chunks, strict=True)]


def weights_of_queries(X: Any, sample_weight: Any) -> Any:
    """Weights that are one a query; None if they are one a row, or `X` is no Dask Array.

    They are in this process, or a Dask Array of another length than `X`. Rows of a DataFrame have
    no order that a caller could know.
    """
    if sample_weight is None or not isinstance(X, da.Array):
        return None
    if not dask.is_dask_collection(sample_weight):
        return sample_weight
    if not isinstance(sample_weight, da.Array) or _unknown(X) or _unknown(sample_weight):
        return None
    return None if sample_weight.shape[0] == X.shape[0] else sample_weight.compute()


def has_queries(X: Any) -> bool:
    """Whether `X` is a DataFrame with a column of queries."""
    return isinstance(X, dd.DataFrame) and tables.QUERY_COLUMN in tables.column_names(X)


def _frames_together(frames: Mapping[str, Any]) -> list[Delayed]:
    """The partitions of frames as dicts, in one computation."""
    rows = dd.map_partitions(
        _name_values,
        *frames.values(),
        names=list(frames),
        meta=pd.Series(dtype=object),
        enforce_metadata=False,
    )
    # Without it, partitions stay as the caller sees them: errors tell their numbers.
    with dask.config.set({"optimization.tune.active": False}):
        pieces: list[Delayed] = rows.to_delayed()
    return pieces


def _name_values(*values: Any, names: list[str]) -> dict[str, Any]:
    """A task: values by their names."""
    return dict(zip(names, values, strict=True))


def _align_with(X: Any, name: str, values: Any) -> Any:
    """A frame with the partitions of `X`, where divisions say how if they differ."""
    if not dask.is_dask_collection(values) or not hasattr(values, "npartitions"):
        weights = name == "sample_weight"
        raise DataError(
            f"{name} must be a Dask Array or Series as X is one, not {_type_name(values)}: the "
            "rows of all of them are needed in the same partitions"
            + ("; one a query becomes one a row by df['qid'].map(...)" if weights else "")
        )
    if isinstance(X, da.Array):
        _require_same_number(X.numblocks[0], name, values.npartitions)
        return values
    if X.known_divisions and values.known_divisions and X.divisions != values.divisions:
        ends = (X.divisions[0], X.divisions[-1])
        if (values.divisions[0], values.divisions[-1]) == ends:
            return values.repartition(divisions=X.divisions)
    _require_same_number(X.npartitions, name, values.npartitions)
    return values


def _cut_as(X: Any, name: str, values: da.Array) -> da.Array:
    """An array in one dimension with the chunks of `X`, where it is known how long they are."""
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise DataError(f"{name} has {values.ndim} dimensions; it needs one value per row of X")
    if not isinstance(X, da.Array):
        _require_same_number(X.npartitions, name, values.numblocks[0])
        return values
    rows = X.chunks[0]
    if not _unknown(X) and not _unknown(values) and values.chunks[0] != rows:
        if sum(values.chunks[0]) != sum(rows):
            raise DataError(f"X has {sum(rows)} rows but {name} has {sum(values.chunks[0])} values")
        values = values.rechunk((rows,))
    _require_same_number(X.numblocks[0], name, values.numblocks[0])
    return values


def _require_same_number(n_partitions: int, name: str, n_beside: int) -> None:
    if n_beside != n_partitions:
        raise DataError(
            f"X has {n_partitions} partitions but {name} has {n_beside}: cut them at the same "
            "rows, best by taking all of them from one DataFrame, as in fit(df[features], df['y'], "
            "qid=df['qid']); or make chunk sizes known (array.compute_chunk_sizes()) and rechunk"
        )


def _arrays_together(arrays: Mapping[str, da.Array], n_partitions: int) -> list[dict[str, Delayed]]:
    """The chunks of arrays, each with all its columns, by the names of the arrays."""
    pieces: list[dict[str, Delayed]] = [{} for _ in range(n_partitions)]
    for name, array in arrays.items():
        whole = array.rechunk({1: -1}) if array.ndim == 2 and array.numblocks[1] > 1 else array
        for piece, chunk in zip(pieces, whole.to_delayed().ravel(), strict=True):
            piece[name] = chunk
    return pieces


def _unknown(array: da.Array) -> bool:
    return bool(np.isnan(array.chunks[0]).any())


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
