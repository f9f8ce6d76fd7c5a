"""The rows of a preparation as they were read: dense or sparse, as it seemed best at that point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import Matrix, concatenate_ranges
from rankplug.data.arrays import csr_of_parts, holds_nan, index_type
from rankplug.exceptions import DataError
from rankplug.io.prepared.inputs import Piece
from rankplug.io.prepared.job import State
from rankplug.io.prepared.npy import HEADER_BYTES, GrowingFiles
from rankplug.io.svmlight import MOST_FEATURES

ROW_PTR = "row_ptr.raw"
"""Where the values of each sparse row begin, as int64."""

_COLUMN = np.dtype(np.int32)  # larger indices than `MOST_FEATURES` are refused


def append_piece(files: GrowingFiles, state: State, piece: Piece) -> State:
    """Write the rows of a piece to the end; returns the state after it, but for the sizes."""
    X: Any = piece.X
    n_rows, n_columns = X.shape
    if n_columns > MOST_FEATURES:
        raise DataError(f"feature {n_columns} is too large to be prepared: renumber the features")
    dense = isinstance(X, np.ndarray)
    if dense:
        files.append("rows/features.npy", X)
    else:
        n_columns = 0  # which does not matter: rows of different widths are kept alike
        if files.length(ROW_PTR) == 0:
            files.append(ROW_PTR, np.zeros(1, dtype=np.int64))
        known = files.n_elements("rows/values.npy", X.data.itemsize)
        files.append(ROW_PTR, known + X.indptr[1:].astype(np.int64))
        files.append("rows/values.npy", X.data)
        files.append("rows/columns.npy", X.indices.astype(_COLUMN, copy=False))
    files.append("rows/relevance.npy", piece.relevance)
    if piece.document_weight is not None:
        files.append("rows/document_weight.npy", piece.document_weight)
    parts = [*state.parts]
    if parts and parts[-1][:2] == (dense, n_columns):
        n_rows += parts.pop()[2]
    parts.append((dense, n_columns, n_rows))
    missing = state.missing or holds_nan(X)
    return replace(state, parts=tuple(parts), missing=missing, position=piece.end)


class RawRows:
    """All rows that were appended.

    Parameters
    ----------
    folder : Path
    state : State
    dtype : numpy.dtype
        Of the features.
    layout : "dense" or "sparse"
        The form in which `take` returns them.
    n_features : int
    """

    def __init__(
        self,
        folder: Path,
        state: State,
        dtype: np.dtype[Any],
        layout: Literal["dense", "sparse"],
        n_features: int,
    ) -> None:
        self.dtype = dtype
        self.layout = layout
        self.n_features = n_features
        self.n_rows = state.position.all_rows
        self._parts = _parts(folder, state, dtype)

    @property
    def n_values(self) -> int:
        """Stored elements of all rows."""
        return sum(part.n_values for part in self._parts)

    @property
    def is_final(self) -> bool:
        """Whether the files hold the rows in the form that `take` returns."""
        if self.layout == "dense":
            return all(
                isinstance(part, _Dense) and part.X.shape[1] == self.n_features
                for part in self._parts
            )
        sparse_only = all(isinstance(part, _Sparse) for part in self._parts)
        return sparse_only and index_type(self.n_values, self.n_features) is np.int32

    def take(self, rows: NDArray[np.int64]) -> Matrix:
        """Some rows, in any order."""
        found, places = [], []
        for part in self._parts:
            place = np.flatnonzero((rows >= part.start) & (rows < part.stop))
            if place.size:
                chosen: slice | NDArray[np.int64] = rows[place] - part.start
                if np.all(np.diff(rows[place]) == 1):  # a slice is read much faster
                    chosen = slice(rows[place[0]] - part.start, rows[place[-1]] + 1 - part.start)
                found.append(self._convert(part.take(chosen, self.n_features)))
                places.append(place)
        if len(found) == 1:
            return found[0]
        back = np.argsort(np.concatenate(places))
        if self.layout == "dense":
            stacked: NDArray[Any] = np.concatenate(found)
            return stacked[back]
        return sparse.csr_array(sparse.vstack(found, format="csr"))[back]

    def _convert(self, X: Matrix) -> Matrix:
        if not isinstance(X, np.ndarray):
            return X.toarray() if self.layout == "dense" else X
        missing = self.n_features - X.shape[1]
        if self.layout == "dense" and missing:
            return np.pad(X, ((0, 0), (0, missing)))
        if self.layout == "dense":
            return X
        rows = sparse.csr_array(X)
        return csr_of_parts(rows.data, rows.indices, rows.indptr, self.n_features)


@dataclass(frozen=True)
class _Dense:
    """Rows from `start` to `stop`, an array."""

    start: int
    stop: int
    X: NDArray[Any]

    @property
    def n_values(self) -> int:
        return int(self.X.size)

    def take(self, rows: slice | NDArray[np.int64], n_features: int) -> Matrix:
        return np.array(self.X[rows])


@dataclass(frozen=True)
class _Sparse:
    """Rows from `start` to `stop`, each from one place in the values to another."""

    start: int
    stop: int
    ends: NDArray[np.int64]
    values: NDArray[Any]
    columns: NDArray[np.int32]

    @property
    def n_values(self) -> int:
        return int(self.ends[-1] - self.ends[0])

    def take(self, rows: slice | NDArray[np.int64], n_features: int) -> Matrix:
        begins = self.ends[:-1][rows]
        lengths = self.ends[1:][rows] - begins
        row_ptr = np.concatenate(([0], np.cumsum(lengths)))
        inside: slice | NDArray[np.int64]
        if isinstance(rows, slice):
            inside = slice(begins[0], begins[0] + row_ptr[-1])
        else:
            inside = concatenate_ranges(begins, lengths)
        values, columns = np.array(self.values[inside]), np.array(self.columns[inside])
        return csr_of_parts(values, columns, row_ptr.astype(columns.dtype), n_features)


def _parts(folder: Path, state: State, dtype: np.dtype[Any]) -> list[_Dense | _Sparse]:
    features = _map(folder / "rows/features.npy", dtype, HEADER_BYTES)
    values = _map(folder / "rows/values.npy", dtype, HEADER_BYTES)
    columns = _map(folder / "rows/columns.npy", _COLUMN, HEADER_BYTES)
    row_ptr = _map(folder / ROW_PTR, np.dtype(np.int64), 0)
    parts: list[_Dense | _Sparse] = []
    begin = n_cells = n_sparse = 0
    for dense, n_columns, n_rows in state.parts:
        if dense:
            X = features[n_cells : n_cells + n_rows * n_columns].reshape(n_rows, n_columns)
            parts.append(_Dense(begin, begin + n_rows, X))
            n_cells += n_rows * n_columns
        else:
            ends = row_ptr[n_sparse : n_sparse + n_rows + 1]
            parts.append(_Sparse(begin, begin + n_rows, ends, values, columns))
            n_sparse += n_rows
        begin += n_rows
    return parts


def _map(file: Path, dtype: np.dtype[Any], offset: int) -> NDArray[Any]:
    """All that stands in a file, which need not be there."""
    if not file.exists() or file.stat().st_size <= offset:
        return np.empty(0, dtype=dtype)
    return np.memmap(file, dtype=dtype, mode="r", offset=offset)
