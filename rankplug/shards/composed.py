"""Matrices of rows that are made of others: blocks side by side, runs of rows, and mapped files."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from typing_extensions import override

from rankplug._fast.pairs import ActivePairs
from rankplug.data import JoinedMatrix, OneHotMatrix, row_slice
from rankplug.shards.matrices import (
    DenseRows,
    OneHotRows,
    RowMatrix,
    SparseRows,
    Vector,
    weighted_scatter,
)
from rankplug.system.threads import Team

_FEW = 0.05  # of the rows of a file: fewer lie on a small part of its pages


class JoinedRows(RowMatrix):
    """Blocks of columns side by side, each times a factor."""

    def __init__(self, X: JoinedMatrix) -> None:
        self.X: Any = X
        self._blocks = [rows_of(block) for block in X.blocks]
        self.n_rows, self.n_columns = X.shape
        self.n_elements = sum(block.n_elements for block in self._blocks)
        self.picks_rows = all(block.picks_rows for block in self._blocks)

    @override
    def dot(self, v: Vector, out: Vector) -> None:
        out[:] = 0.0
        part = np.empty(self.n_rows)
        for block, factor, weights in self._with_parts(v):
            block.dot(weights, part)
            part *= factor
            out += part

    @override
    def transposed_dot(self, u: Vector) -> Vector:
        return _side_by_side(self.X.factors, [block.transposed_dot(u) for block in self._blocks])

    @override
    def picked_transposed_dot(self, rows: NDArray[np.int64], u: Vector) -> Vector:
        parts = [block.picked_transposed_dot(rows, u) for block in self._blocks]
        return _side_by_side(self.X.factors, parts)

    @override
    def laplacian_diagonal(self, query_ptr: NDArray[np.int64], count: Vector) -> Vector:
        parts = [block.laplacian_diagonal(query_ptr, count) for block in self._blocks]
        return _side_by_side(np.square(self.X.factors), parts)

    @override
    def laplacian_gram(
        self, rows: NDArray[np.int64], query_ptr: NDArray[np.int64], count: Vector
    ) -> NDArray[np.float64]:
        return weighted_scatter(self.X[rows].toarray(), query_ptr, count)

    def _with_parts(self, v: Vector) -> Iterator[tuple[RowMatrix, float, Vector]]:
        return zip(self._blocks, self.X.factors, self.X.split(v), strict=True)


def _side_by_side(factors: Iterable[float], parts: list[Vector]) -> Vector:
    return np.concatenate([f * part for f, part in zip(factors, parts, strict=True)])


class StackedRows(RowMatrix):
    """The rows of one long query in runs, which threads share.

    Sums are taken in the order of the runs: how many threads there are changes nothing.

    Parameters
    ----------
    whole : RowMatrix
    spans : list of (int, int)
        The runs of rows.
    team : Team, optional
        Whose threads take the runs; without it one after the other.
    """

    def __init__(self, whole: RowMatrix, spans: list[tuple[int, int]], team: Team | None) -> None:
        self.X = whole.X
        self._whole = whole
        self._spans = [slice(*span) for span in spans]
        self._runs = [rows_of(row_slice(whole.X, span)) for span in self._spans]
        self._map: Callable[..., Iterable[Any]] = map if team is None else team.map
        self.n_rows, self.n_columns = whole.n_rows, whole.n_columns
        self.n_elements = whole.n_elements
        self.passes_per_product, self.has_gram = whole.passes_per_product, whole.has_gram

    @override
    def dot(self, v: Vector, out: Vector) -> None:
        parts = [out[span] for span in self._spans]
        for _ in self._map(lambda run, part: run.dot(v, part), self._runs, parts):
            pass

    @override
    def transposed_dot(self, u: Vector) -> Vector:
        parts = [u[span] for span in self._spans]
        sums = iter(self._map(lambda run, part: run.transposed_dot(part), self._runs, parts))
        total: Vector = next(sums)
        for part in sums:
            total += part
        return total

    @override
    def laplacian_diagonal(self, query_ptr: NDArray[np.int64], count: Vector) -> Vector:
        return self._whole.laplacian_diagonal(query_ptr, count)

    @override
    def laplacian_gram(
        self, rows: NDArray[np.int64], query_ptr: NDArray[np.int64], count: Vector
    ) -> NDArray[np.float64]:
        return self._whole.laplacian_gram(rows, query_ptr, count)


class FetchedRows(RowMatrix):
    """Rows of a mapped file: one thread at a time fetches those that it goes on to work with.

    Parameters
    ----------
    matrix : RowMatrix
    turn : Lock
        Whose turn it is to fetch.
    """

    def __init__(self, matrix: RowMatrix, turn: Lock) -> None:
        self.X = X = matrix.X
        self._matrix = matrix
        arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices]
        self._pages = [array.reshape(-1).view(np.uint8)[:: mmap.PAGESIZE] for array in arrays]
        self._turn = turn
        self.n_rows, self.n_columns = matrix.n_rows, matrix.n_columns
        self.n_elements = matrix.n_elements
        self.passes_per_product, self.has_gram = matrix.passes_per_product, matrix.has_gram
        self.picks_rows, self.rounding = matrix.picks_rows, matrix.rounding

    @override
    def dot(self, v: Vector, out: Vector) -> None:
        self._fetched().dot(v, out)

    @override
    def transposed_dot(self, u: Vector) -> Vector:
        return self._fetched().transposed_dot(u)

    @override
    def picked_transposed_dot(self, rows: NDArray[np.int64], u: Vector) -> Vector:
        matrix = self._matrix if len(rows) < _FEW * self.n_rows else self._fetched()
        return matrix.picked_transposed_dot(rows, u)

    @override
    def laplacian(
        self, pairs: ActivePairs, v: Vector, product: Vector, of_product: Vector
    ) -> Vector:
        return self._fetched().laplacian(pairs, v, product, of_product)

    @override
    def laplacian_diagonal(self, query_ptr: NDArray[np.int64], count: Vector) -> Vector:
        return self._fetched().laplacian_diagonal(query_ptr, count)

    @override
    def laplacian_gram(
        self, rows: NDArray[np.int64], query_ptr: NDArray[np.int64], count: Vector
    ) -> NDArray[np.float64]:
        # It reads some of the features only.
        return self._matrix.laplacian_gram(rows, query_ptr, count)

    def _fetched(self) -> RowMatrix:
        with self._turn:
            for page in self._pages:
                page.max(initial=0)
        return self._matrix


def rows_of(X: Any) -> RowMatrix:
    """The products with a matrix of features, of whatever kind it is."""
    if isinstance(X, JoinedMatrix):
        return JoinedRows(X)
    if isinstance(X, OneHotMatrix):
        return OneHotRows(X)
    return SparseRows(X) if sparse.issparse(X) else DenseRows(X)
