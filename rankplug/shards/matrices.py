"""`RowMatrix`: the features of a shard, dense, sparse, of leaves or labels, and products with them.

Each class offers the same operations; `Shard` does not know which one it has. Vectors are float64
whatever the features are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from typing_extensions import override

from rankplug._fast import passes
from rankplug._fast.pairs import ActivePairs
from rankplug.data import Matrix, OneHotMatrix, n_stored
from rankplug.system.interruption import check_in_time

_LARGE = 3000  # columns, of whose products in pairs a time limit does not wait for the last
_WORK = 2**32  # multiplications at once then, a fraction of a second
_NARROWEST = 16  # columns at once
_SUMS = 128.0  # of terms that cancel, and their errors only in part: 5 to 100 times an epsilon
_SHORT_SUMS = 0.25  # whose errors cancel in the sum of them all: 1/60 to 1/12 of an epsilon

Vector: TypeAlias = NDArray[np.float64]


class RowMatrix(ABC):
    """X of a shard: one row a document (or an instance and label), `n_columns` weights."""

    X: Matrix
    n_rows: int
    n_columns: int
    n_elements: int  # that a product reads
    passes_per_product = 2  # reads of X that `laplacian` takes
    has_gram = True  # whether `laplacian_gram` is offered
    rounding = _SUMS * float(np.finfo(np.float64).eps)  # of `laplacian`, relative to its norm
    picks_rows = False  # whether products with a few of the rows cost as much less

    @abstractmethod
    def dot(self, v: Vector, out: Vector) -> None:
        """Write ``X v`` to `out`."""

    @abstractmethod
    def transposed_dot(self, u: Vector) -> Vector:
        """``X' u``."""

    def picked_transposed_dot(self, rows: NDArray[np.int64], u: Vector) -> Vector:
        """``X' u`` of some rows, in ascending order."""
        of_all = np.zeros(self.n_rows)
        of_all[rows] = u
        return self.transposed_dot(of_all)

    def laplacian(
        self, pairs: ActivePairs, v: Vector, product: Vector, of_product: Vector
    ) -> Vector:
        """``X' L X v``, L the Laplacian of the active pairs.

        ``X v`` goes to `product`, ``L X v`` to `of_product`.
        """
        self.dot(v, product)
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
    picks_rows = True

    def __init__(self, X: NDArray[Any]) -> None:
        self.X = X
        if X.dtype == np.float32:
            self.rounding = _SHORT_SUMS * float(np.finfo(X.dtype).eps)
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
    def picked_transposed_dot(self, rows: NDArray[np.int64], u: Vector) -> Vector:
        g = np.empty(self.n_columns)
        passes.dense_transposed_dot(self.X, u, g, rows)
        return g

    @override
    def laplacian(
        self, pairs: ActivePairs, v: Vector, product: Vector, of_product: Vector
    ) -> Vector:
        """``X' L X v`` in one read of X."""
        g = np.empty(self.n_columns)
        passes.dense_laplacian(self.X, pairs, v, product, of_product, g)
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
        return weighted_scatter(self.X[rows], query_ptr, count)


class SparseRows(RowMatrix):
    """Compressed rows.

    ``X' u`` scatters, which costs no more than to gather from a transposed copy, and saves
    making one.
    """

    passes_per_product = 1
    picks_rows = True

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
    def picked_transposed_dot(self, rows: NDArray[np.int64], u: Vector) -> Vector:
        g = np.zeros(self.n_columns)
        passes.sparse_transposed_dot(*self._arrays, u, g, rows)
        return g

    @override
    def laplacian(
        self, pairs: ActivePairs, v: Vector, product: Vector, of_product: Vector
    ) -> Vector:
        """``X' L X v``, reading small queries once."""
        g = np.zeros(self.n_columns)
        passes.sparse_laplacian(*self._arrays, pairs, v, product, of_product, g)
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
        return weighted_scatter(self.X[rows].toarray(), query_ptr, count)


class OneHotRows(RowMatrix):
    """One 1 a row in each group of columns: products gather and scatter, and multiply nothing."""

    picks_rows = True  # as zeros are not read

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
        return weighted_scatter(self.X[rows].tocsr().toarray(), query_ptr, count)


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


def weighted_scatter(
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
