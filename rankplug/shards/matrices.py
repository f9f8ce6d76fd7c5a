"""`RowMatrix`: the features of a shard, dense, sparse, of labels or mapped, and products with them.

Each class offers the same operations; `Shard` does not know which one it has. Vectors are float64
whatever the features are.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from typing_extensions import override

from rankplug._fast import passes
from rankplug._fast.pairs import ActivePairs
from rankplug.data import JoinedMatrix, Matrix, OneHotMatrix, n_stored, row_slice
from rankplug.system.interruption import check_in_time

_LARGE = 3000  # columns, of whose products in pairs a time limit does not wait for the last
_WORK = 2**32  # multiplications at once then, a fraction of a second
_NARROWEST = 16  # columns at once

Vector: TypeAlias = NDArray[np.float64]


class RowMatrix(ABC):
    """X of a shard: one row a document (or an instance and label), `n_columns` weights."""

    X: Matrix
    n_rows: int
    n_columns: int
    n_elements: int  # that a product reads
    passes_per_product = 2  # reads of X that `laplacian` takes
    has_gram = True  # whether `laplacian_gram` is offered

    @abstractmethod
    def dot(self, v: Vector, out: Vector) -> None:
        """Write ``X v`` to `out`."""

    @abstractmethod
    def transposed_dot(self, u: Vector) -> Vector:
        """``X' u``."""

    def laplacian(self, pairs: ActivePairs, v: Vector, product: Vector) -> Vector:
        """``X' L X v``, L the Laplacian of the active pairs; ``X v`` goes to `product`."""
        self.dot(v, product)
        of_product = np.empty(self.n_rows)
        pairs.laplacian(product, of_product)
        return self.transposed_dot(of_product)

    @abstractmethod
    def laplacian_diagonal(self, query_ptr: NDArray[np.int64], count: Vector) -> Vector:
        """Diagonal of ``X' L X`` for the Laplacian that `count` pairs a row make on average.

        L is approximated in each query by ``diag(c) - c c' / sum(c)``, which has the same row
        sums and, up to a factor ``1 - c_i / sum(c)``, the same diagonal.
        """

    @abstractmethod
    def laplacian_gram(
        self, rows: NDArray[np.int64], query_ptr: NDArray[np.int64], count: Vector
    ) -> NDArray[np.float64]:
        """Lower half of ``X' L X`` of some rows, with the approximation of `laplacian_diagonal`.

        The queries of the rows are from `query_ptr`; `count` is c of each row.
        """


class DenseRows(RowMatrix):
    """C-contiguous float32 or float64 features."""

    passes_per_product = 1

    def __init__(self, X: NDArray[Any]) -> None:
        self.X = X
        self.n_rows, self.n_columns = X.shape
        self.n_elements = X.size

    @override
    def dot(self, v: Vector, out: Vector) -> None:
        passes.dense_dot(self.X, v, out)

    @override
    def transposed_dot(self, u: Vector) -> Vector:
        g = np.empty(self.n_columns)
        passes.dense_transposed_dot(self.X, u, g)
        return g

    @override
    def laplacian(self, pairs: ActivePairs, v: Vector, product: Vector) -> Vector:
        """``X' L X v`` in one read of X."""
        g = np.empty(self.n_columns)
        passes.dense_laplacian(self.X, pairs, v, product, g)
        return g

    @override
    def laplacian_diagonal(self, query_ptr: NDArray[np.int64], count: Vector) -> Vector:
        diagonal = np.zeros(self.n_columns)
        passes.dense_moments(self.X, query_ptr, count, np.empty(self.n_columns), diagonal)
        return diagonal

    @override
    def laplacian_gram(
        self, rows: NDArray[np.int64], query_ptr: NDArray[np.int64], count: Vector
    ) -> NDArray[np.float64]:
        return _weighted_scatter(self.X[rows], query_ptr, count)


class SparseRows(RowMatrix):
    """Compressed rows.

    ``X' u`` scatters, which costs no more than to gather from a transposed copy, and saves
    making one.
    """

    passes_per_product = 1

    def __init__(self, X: sparse.csr_array) -> None:
        self.X: sparse.csr_array = X
        self._arrays = (X.indptr, X.indices, X.data)
        self.n_rows, self.n_columns = X.shape
        self.n_elements = X.nnz

    @override
    def dot(self, v: Vector, out: Vector) -> None:
        passes.sparse_dot(*self._arrays, v, out)

    @override
    def transposed_dot(self, u: Vector) -> Vector:
        g = np.zeros(self.n_columns)
        passes.sparse_transposed_dot(*self._arrays, u, g)
        return g

    @override
    def laplacian(self, pairs: ActivePairs, v: Vector, product: Vector) -> Vector:
        """``X' L X v``, reading small queries once."""
        g = np.zeros(self.n_columns)
        passes.sparse_laplacian(*self._arrays, pairs, v, product, g)
        return g

    @override
    def laplacian_diagonal(self, query_ptr: NDArray[np.int64], count: Vector) -> Vector:
        diagonal, scratch = np.zeros(self.n_columns), np.zeros(self.n_columns)
        passes.sparse_moments(*self._arrays, query_ptr, count, scratch, diagonal)
        return diagonal

    @override
    def laplacian_gram(
        self, rows: NDArray[np.int64], query_ptr: NDArray[np.int64], count: Vector
    ) -> NDArray[np.float64]:
        return _weighted_scatter(self.X[rows].toarray(), query_ptr, count)


class OneHotRows(RowMatrix):
    """One 1 a row in each group of columns: products gather and scatter, and multiply nothing."""

    def __init__(self, X: OneHotMatrix) -> None:
        self.X: Any = X
        self._arrays = (X.codes, X.starts)
        self.n_rows, self.n_columns = X.shape
        self.n_elements = X.codes.size

    @override
    def dot(self, v: Vector, out: Vector) -> None:
        passes.onehot_dot(*self._arrays, v, out)

    @override
    def transposed_dot(self, u: Vector) -> Vector:
        g = np.zeros(self.n_columns)
        passes.onehot_transposed_dot(*self._arrays, u, g)
        return g

    @override
    def laplacian_diagonal(self, query_ptr: NDArray[np.int64], count: Vector) -> Vector:
        diagonal, scratch = np.zeros(self.n_columns), np.zeros(self.n_columns)
        passes.onehot_moments(*self._arrays, query_ptr, count, scratch, diagonal)
        return diagonal

    @override
    def laplacian_gram(
        self, rows: NDArray[np.int64], query_ptr: NDArray[np.int64], count: Vector
    ) -> NDArray[np.float64]:
        return _weighted_scatter(self.X[rows].tocsr().toarray(), query_ptr, count)


class JoinedRows(RowMatrix):
    """Blocks of columns side by side, each times a factor."""

    def __init__(self, X: JoinedMatrix) -> None:
        self.X: Any = X
        self._blocks = [rows_of(block) for block in X.blocks]
        self.n_rows, self.n_columns = X.shape
        self.n_elements = sum(block.n_elements for block in self._blocks)

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
        parts = [block.transposed_dot(u) for block in self._blocks]
        return np.concatenate([f * part for f, part in zip(self.X.factors, parts, strict=True)])

    @override
    def laplacian_diagonal(self, query_ptr: NDArray[np.int64], count: Vector) -> Vector:
        parts = [block.laplacian_diagonal(query_ptr, count) for block in self._blocks]
        squares = np.square(self.X.factors)
        return np.concatenate([f * part for f, part in zip(squares, parts, strict=True)])

    @override
    def laplacian_gram(
        self, rows: NDArray[np.int64], query_ptr: NDArray[np.int64], count: Vector
    ) -> NDArray[np.float64]:
        return _weighted_scatter(self.X[rows].toarray(), query_ptr, count)

    def _with_parts(self, v: Vector) -> Iterator[tuple[RowMatrix, float, Vector]]:
        return zip(self._blocks, self.X.factors, self.X.split(v), strict=True)


class StackedRows(RowMatrix):
    """The rows of one long query in runs, which threads share.

    Sums are taken in the order of the runs: how many threads there are changes nothing.

    Parameters
    ----------
    whole : RowMatrix
    spans : list of (int, int)
        The runs of rows.
    executor : Executor, optional
        Whose threads take the runs; without it one after the other.
    """

    def __init__(
        self, whole: RowMatrix, spans: list[tuple[int, int]], executor: Executor | None
    ) -> None:
        self.X = whole.X
        self._whole = whole
        self._spans = [slice(*span) for span in spans]
        self._runs = [rows_of(row_slice(whole.X, span)) for span in self._spans]
        self._map: Callable[..., Iterator[Any]] = map if executor is None else executor.map
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
        sums = self._map(lambda run, part: run.transposed_dot(part), self._runs, parts)
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


class KeslerRows(RowMatrix):
    """Rows ``e_r (x) x_i`` of instance i and label r, never written out.

    With the weights seen as V of shape (n_labels, n_features), the scores are ``X V'`` and
    ``X' u`` is ``U' X`` with U the coefficients of shape (n_instances, n_labels).

    Parameters
    ----------
    X : dense or CSR features of shape (n_instances, n_features)
    compared : boolean array of shape (n_instances, n_labels)
        Which labels have a relevance; the others get no row.
    """

    has_gram = False

    def __init__(self, X: Any, compared: NDArray[np.bool_]) -> None:
        self.X = X
        self.compared = compared
        self.shape = (compared.shape[1], X.shape[1])
        self.n_rows = int(compared.sum())
        self.n_columns = self.shape[0] * self.shape[1]
        self.n_elements = self.shape[0] * n_stored(X)

    @override
    def dot(self, v: Vector, out: Vector) -> None:
        out[:] = (self.X @ v.reshape(self.shape).T)[self.compared]

    @override
    def transposed_dot(self, u: Vector) -> Vector:
        return self._spread(u, self.X)

    @override
    def laplacian_diagonal(self, query_ptr: NDArray[np.int64], count: Vector) -> Vector:
        """Exact: two labels of an instance share no weight, so no pair has a cross term."""
        return self._spread(count, self.X * self.X)

    @override
    def laplacian_gram(
        self, rows: NDArray[np.int64], query_ptr: NDArray[np.int64], count: Vector
    ) -> NDArray[np.float64]:
        """Not offered: n_labels * n_features columns make too large a matrix."""
        raise NotImplementedError("label-ranking data have no Hessian estimate")

    def _spread(self, u: Vector, X: Any) -> Vector:
        coefficients = np.zeros(self.compared.shape)
        coefficients[self.compared] = u
        return np.ascontiguousarray((X.T @ coefficients).T, dtype=np.float64).ravel()


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

    @override
    def dot(self, v: Vector, out: Vector) -> None:
        self._fetched().dot(v, out)

    @override
    def transposed_dot(self, u: Vector) -> Vector:
        return self._fetched().transposed_dot(u)

    @override
    def laplacian(self, pairs: ActivePairs, v: Vector, product: Vector) -> Vector:
        return self._fetched().laplacian(pairs, v, product)

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


def _weighted_scatter(
    X: NDArray[Any], query_ptr: NDArray[np.int64], count: Vector
) -> NDArray[np.float64]:
    """Lower half of the sum over queries of ``sum_i c_i (x_i - m)(x_i - m)'``, m a weighted mean.

    Overwrites X; float32 is precise enough for an estimate.
    """
    passes.dense_centre(X, query_ptr, count, np.empty(X.shape[1]))
    n_columns = X.shape[1]
    if n_columns > _LARGE and check_in_time():
        gram = np.zeros((n_columns, n_columns))
        width = max(_NARROWEST, _WORK // X.size)
        for begin in range(0, n_columns, width):
            check_in_time()
            gram[begin:, begin : begin + width] = X[:, begin:].T @ X[:, begin : begin + width]
        return gram
    syrk = linalg.get_blas_funcs("syrk", (X,))
    return np.asarray(syrk(1.0, X.T, lower=1), dtype=np.float64)
