"""`Rows`: some rows of the features, and products with them that copy none.

Rows are read in ascending order, part by part. Vectors and sums are float64 whatever the features
are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug._fast import passes
from rankplug.data import Matrix, even_spans, row_slice
from rankplug.shards import Vector
from rankplug.system.interruption import raise_if_overdue

__all__ = ["Rows"]


_PART_ELEMENTS = 2**19
"""Elements of the features, 4 MB of float64: what `Rows.blocks` may copy, and how much is done
before an interruption is noticed. Parts of 2**17 take 5 % longer, of 2**15 17 % (60,000 rows x
136)."""


class Rows:
    """The rows of X at some positions.

    Parameters
    ----------
    X : dense or CSR features
    index : int64 array of shape (n_rows,), ascending
    origin : float64 array of shape (n_columns,), optional
        What is subtracted from every row; for dense features only.
    """

    def __init__(self, X: Matrix, index: NDArray[np.int64], origin: Vector | None = None) -> None:
        self.X, self.index, self.origin = X, index, origin
        self.n_rows, self.n_columns = len(index), int(X.shape[1])
        self._parts = [_Part(X, index, b, e) for b, e in _spans(X, index)]

    def take(self, places: NDArray[np.int64]) -> Rows:
        """The rows at some ascending places among these."""
        return Rows(self.X, self.index[places], self.origin)

    def dot(self, v: Vector) -> Vector:
        """``X v``, X being these rows."""
        z = np.empty(self.n_rows)
        for part in self._visit():
            part.dot(v, z[part.span])
        if self.origin is not None:
            z -= self.origin @ v
        return z

    def transposed_dot(self, u: Vector) -> Vector:
        """``X' u``; rows where u is 0 are not read."""
        g = np.zeros(self.n_columns)
        for part in self._visit():
            part.add_transposed_dot(u[part.span], g)
        if self.origin is not None:
            g -= u.sum() * self.origin
        return g

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """All rows in float64, dense or CSR as X is: which of these rows, and the block of them.

        Blocks are of bounded size, and not to be changed: one may be a part of X itself.
        """
        for part in self._visit():
            yield part.span, self._shift(part.values())

    def gather(self) -> Any:
        """All rows as one float64 matrix."""
        return self._shift(_float64(self.X[self.index]))

    def _shift(self, values: Any) -> Any:
        return values if self.origin is None else values - self.origin

    def _visit(self) -> Iterator[_Part]:
        for part in self._parts:
            raise_if_overdue()
            yield part


class _Part:
    """Some of the rows, and the consecutive rows X from the first to the last of them."""

    def __init__(self, X: Matrix, index: NDArray[np.int64], b: int, e: int) -> None:
        self.span = slice(b, e)
        self._index = index[b:e]
        self._first, stop = int(index[b]), int(index[e - 1]) + 1
        self.X = row_slice(X, slice(self._first, stop))
        self._all = stop - self._first == e - b

    @property
    def _rows(self) -> NDArray[np.int64] | None:
        """The rows of `X` that are meant; None for all."""
        return None if self._all else self._index - self._first

    def dot(self, v: Vector, z: Vector) -> None:
        if isinstance(self.X, np.ndarray):
            passes.dense_dot(self.X, v, z, self._rows)
        else:
            passes.sparse_dot(self.X.indptr, self.X.indices, self.X.data, v, z, self._rows)

    def add_transposed_dot(self, u: Vector, g: Vector) -> None:
        if isinstance(self.X, np.ndarray):
            product = np.empty_like(g)
            passes.dense_transposed_dot(self.X, u, product, self._rows)
            g += product
        else:
            X = self.X
            passes.sparse_transposed_dot(X.indptr, X.indices, X.data, u, g, self._rows)

    def values(self) -> Any:
        return _float64(self.X if self._all else self.X[self._rows])


def _float64(X: Matrix) -> Any:
    if isinstance(X, np.ndarray):
        return np.asarray(X, dtype=np.float64)
    return sparse.csr_array(X, dtype=np.float64)


def _spans(X: Matrix, index: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Runs of the chosen rows with about equally many elements."""
    sizes = X.shape[1] if isinstance(X, np.ndarray) else X.indptr[index + 1] - X.indptr[index]
    starts = np.concatenate(([0], np.cumsum(np.broadcast_to(sizes, len(index)), dtype=np.int64)))
    return even_spans(starts, min(len(index), int(starts[-1]) // _PART_ELEMENTS + 1))
