"""Shards: contiguous runs of whole queries, the unit of all work over the data.

Queries do not interact, so losses, gradients and Hessian products of a data set are sums over
its shards. The cut depends on the data alone and sums are taken in shard order: the number of
threads changes nothing in a result.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug._fast.pairs import ActivePairs, Queries
from rankplug.data import LabelRankingData, RankingData
from rankplug.matrices import DenseRows, KeslerRows, RowMatrix, SparseRows

__all__ = ["Evaluate", "LocalShards", "Shard", "Shards", "available_cores", "open_shards"]

T = TypeVar("T")
Vector: TypeAlias = NDArray[np.float64]
Evaluate: TypeAlias = Callable[[ActivePairs, Vector, Vector], float]
"""Finds the active pairs at some scores, returns the loss and writes coefficients c. Up to a factor
of the loss, ``X' c`` is its gradient and, L being the pairs' Laplacian, ``X' L X`` its Hessian.
"""

_SHARD_ELEMENTS = 2**21
_MAX_SHARDS = 256
_SAMPLE_ROWS = 5000
_SAMPLE_ROWS_PER_COLUMN = 150
_SAMPLE_ROWS_PER_QUERY = 1000


class Shard:
    """Some queries, the active pairs at the current scores, and scores to be tried.

    Scores never leave the shard: what goes in and out are weights of length `n_columns`,
    step lengths and losses. Which loss it is, the caller says by an `Evaluate`.

    Parameters
    ----------
    matrix : RowMatrix
    query_ptr : int64 array of shape (n_queries + 1,), starting at 0
    relevance : float64 array of shape (n_rows,)
    query_weight : float64 array of shape (n_queries,)
    """

    def __init__(
        self,
        matrix: RowMatrix,
        query_ptr: NDArray[np.int64],
        relevance: Vector,
        query_weight: Vector,
    ) -> None:
        self.matrix = matrix
        self.query_ptr = query_ptr
        self.query_weight = query_weight
        queries = Queries(query_ptr, relevance, query_weight)
        self.pairs, self._tried_pairs = ActivePairs(queries), ActivePairs(queries)
        self.scores, self._tried = np.zeros(matrix.n_rows), np.zeros(matrix.n_rows)
        self._coefficient, self._tried_coefficient = np.zeros((2, matrix.n_rows))
        self._product = np.zeros(matrix.n_rows)
        self._direction = np.zeros(matrix.n_rows)
        self._scratch = np.zeros(matrix.n_rows)

    def move_to(self, w: Vector | None, evaluate: Evaluate) -> float:
        """Go to the scores ``X w`` (0 for None); return the loss there."""
        if w is None:
            self.scores[:] = 0.0
        else:
            self.matrix.dot(w, self.scores)
        return self.stay(evaluate)

    def stay(self, evaluate: Evaluate) -> float:
        """Return the loss, which may be another one than before, at the current scores."""
        return evaluate(self.pairs, self.scores, self._coefficient)

    def gradient(self) -> Vector:
        """``X' c`` at the current scores."""
        return self.matrix.transposed_dot(self._coefficient)

    def gradient_along(self) -> Vector:
        """``X' c`` at the scores last tried."""
        return self.matrix.transposed_dot(self._tried_coefficient)

    def laplacian(self, v: Vector) -> Vector:
        """``X' L X v``, L the Laplacian of the current pairs; remembers ``X v``."""
        return self.matrix.laplacian(self.pairs, v, self._product, self._scratch)

    def laplacian_diagonal(self) -> Vector:
        """Approximate diagonal of ``X' L X``, see `RowMatrix.laplacian_diagonal`."""
        return self.matrix.laplacian_diagonal(self.query_ptr, self._weighted_count())

    def laplacian_gram(self, fraction: float) -> NDArray[np.float64]:
        """``X' L X``, estimated from a fraction of the rows."""
        rows, query = _sample_rows(self.query_ptr, fraction)
        count = self._weighted_count()
        total, taken = count.sum(), count[rows].sum()
        scale = total / taken if taken > 0 else 0.0
        return scale * self.matrix.laplacian_gram(rows, query, count[rows])

    def _weighted_count(self) -> Vector:
        return self.pairs.count * np.repeat(self.query_weight, np.diff(self.query_ptr))

    def start_direction(self) -> None:
        """Forget the direction gathered so far."""
        self._direction[:] = 0.0

    def extend_direction(self, step: float) -> None:
        """Add `step` times the ``v`` of the last Hessian product to the direction."""
        np.multiply(self._product, step, out=self._scratch)
        self._direction += self._scratch

    def aim_at(self, w: Vector) -> None:
        """Make the way from the current scores to ``X w`` the direction."""
        self.matrix.dot(w, self._direction)
        self._direction -= self.scores

    def loss_along(self, step: float, evaluate: Evaluate) -> float:
        """Loss after `step` times the direction, without reading the features."""
        np.multiply(self._direction, step, out=self._tried)
        self._tried += self.scores
        return evaluate(self._tried_pairs, self._tried, self._tried_coefficient)

    def slope_along(self) -> float:
        """``c`` at the scores last tried, times the direction."""
        return float(self._tried_coefficient @ self._direction)

    def slope(self) -> float:
        """``c`` at the current scores, times the direction."""
        return float(self._coefficient @ self._direction)

    def hinge(self) -> float:
        """Sum of the slacks of the current pairs, weighted."""
        return self.pairs.hinge(self.scores, self._scratch)

    def clipped_slack(self) -> float:
        """The same with each slack clipped at the band that the loss is curved in."""
        return self.pairs.clipped_slack(self.scores)

    def accept(self) -> None:
        """Make the step last tried the current point."""
        self.pairs, self._tried_pairs = self._tried_pairs, self.pairs
        self.scores, self._tried = self._tried, self.scores
        self._coefficient, self._tried_coefficient = self._tried_coefficient, self._coefficient


class Shards(ABC):
    """The shards of a data set, wherever they are, and somebody to work on them.

    All work is an operation: a method of `Shard` and its arguments, which are the same for every
    shard. So shards may live in other processes, as long as operations can be sent to them.
    """

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Length of a weight vector."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Rows of all shards."""

    @property
    @abstractmethod
    def passes_per_product(self) -> int:
        """Reads of the features that a Hessian product takes: 1 where they are fused."""

    @property
    @abstractmethod
    def has_gram(self) -> bool:
        """Whether the Hessian can be estimated as a matrix."""

    @abstractmethod
    def apply(self, operation: Callable[..., None], *arguments: Any) -> None:
        """Do something to every shard."""

    @abstractmethod
    def sum(self, operation: Callable[..., T], *arguments: Any) -> T:
        """Sum of what an operation returns, always added in the order of the shards."""

    @property
    def sample_fraction(self) -> float:
        """The fraction of the rows that estimates a Hessian well: 150 rows a column are many."""
        n_rows = self.n_rows
        enough = max(_SAMPLE_ROWS, min(0.1 * n_rows, _SAMPLE_ROWS_PER_COLUMN * self.n_columns))
        return min(1.0, enough / n_rows)


class LocalShards(Shards):
    """Shards in this process, and threads to work on them."""

    def __init__(self, shards: list[Shard], executor: ThreadPoolExecutor | None) -> None:
        self.shards = shards
        self._executor = executor

    @property
    def n_columns(self) -> int:
        """Length of a weight vector."""
        return self.shards[0].matrix.n_columns

    @property
    def n_rows(self) -> int:
        """Rows of all shards."""
        return sum(shard.matrix.n_rows for shard in self.shards)

    @property
    def passes_per_product(self) -> int:
        """Reads of the features that a Hessian product takes: 1 where they are fused."""
        return self.shards[0].matrix.passes_per_product

    @property
    def has_gram(self) -> bool:
        """Whether the Hessian can be estimated as a matrix."""
        return self.shards[0].matrix.has_gram

    def apply(self, operation: Callable[..., None], *arguments: Any) -> None:
        """Do something to every shard."""
        for _ in self._results(operation, arguments):
            pass

    def sum(self, operation: Callable[..., T], *arguments: Any) -> T:
        """Sum of what an operation returns, always added in the order of the shards."""
        parts: Iterator[Any] = self._results(operation, arguments)
        total = next(parts)
        for part in parts:
            total = total + part
        return cast(T, total)

    def _results(self, operation: Callable[..., T], arguments: tuple[Any, ...]) -> Iterator[T]:
        run = map if self._executor is None else self._executor.map
        return iter(run(lambda shard: operation(shard, *arguments), self.shards))


@contextmanager
def open_shards(
    data: RankingData | LabelRankingData,
    query_weight: Vector,
    n_threads: int | None = None,
) -> Iterator[LocalShards]:
    """Cut the data into shards and start the threads for them.

    Parameters
    ----------
    data : RankingData or LabelRankingData
        Its features are not copied.
    query_weight : float64 array of shape (n_queries,) or (n_instances,)
        What each pair of a query counts.
    n_threads : int, optional
        The cores this process may use by default. Small data make one shard and stay on one
        thread.
    """
    spans = _spans(data)
    make = _ranking_shard if isinstance(data, RankingData) else _label_shard
    n_workers = min(n_threads or available_cores(), len(spans))
    if n_workers == 1:
        yield LocalShards([make(data, query_weight, b, e) for b, e in spans], None)  # type: ignore[arg-type]
        return
    with ThreadPoolExecutor(n_workers) as executor:
        shards = list(executor.map(lambda span: make(data, query_weight, *span), spans))  # type: ignore[arg-type]
        yield LocalShards(shards, executor)


def _spans(data: RankingData | LabelRankingData) -> list[tuple[int, int]]:
    """Runs of queries (or instances) of about equally many elements of X."""
    X: Any = data.X
    if sparse.issparse(X):
        starts = np.asarray(X.indptr, dtype=np.int64)
        most = int(starts[-1]) // (4 * data.n_features)
    else:
        starts = np.arange(data.n_samples + 1, dtype=np.int64) * data.n_features
        most = _MAX_SHARDS
    if isinstance(data, RankingData):
        return _cut(starts[data.query_ptr], most)
    return _cut(starts * data.n_labels, most)


def _cut(starts: NDArray[np.int64], most: int) -> list[tuple[int, int]]:
    """Spans of queries, given where the elements of each start."""
    n_shards = max(1, min(int(starts[-1]) // _SHARD_ELEMENTS, most, _MAX_SHARDS))
    cuts = np.searchsorted(starts, np.linspace(0, starts[-1], n_shards + 1)[1:-1])
    bounds = np.unique(np.concatenate(([0], cuts, [len(starts) - 1])))
    return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))


def _ranking_shard(data: RankingData, query_weight: Vector, b: int, e: int) -> Shard:
    rows = slice(int(data.query_ptr[b]), int(data.query_ptr[e]))
    matrix: RowMatrix
    if sparse.issparse(data.X):
        matrix = SparseRows(_row_slice(data.X, rows))
    else:
        matrix = DenseRows(data.X[rows])
    query_ptr = data.query_ptr[b : e + 1] - data.query_ptr[b]
    return Shard(matrix, query_ptr, data.relevance[rows], query_weight[b:e])


def _label_shard(data: LabelRankingData, query_weight: Vector, b: int, e: int) -> Shard:
    relevance = data.relevance[b:e]
    compared = ~np.isnan(relevance)
    X = _row_slice(data.X, slice(b, e)) if sparse.issparse(data.X) else data.X[b:e]
    query_ptr = np.concatenate(([0], np.cumsum(compared.sum(axis=1))))
    return Shard(KeslerRows(X, compared), query_ptr, relevance[compared], query_weight[b:e])


def _row_slice(X: sparse.csr_array, rows: slice) -> sparse.csr_array:
    """Some rows of X, sharing its arrays."""
    start, stop = X.indptr[rows.start], X.indptr[rows.stop]
    indptr = X.indptr[rows.start : rows.stop + 1] - start
    parts = (X.data[start:stop], X.indices[start:stop], indptr)
    return sparse.csr_array(parts, shape=(rows.stop - rows.start, X.shape[1]), copy=False)


def available_cores() -> int:
    """The cores this process may use, where the system can say so, else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _sample_rows(
    query_ptr: NDArray[np.int64], fraction: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Evenly spaced queries with about a fraction of the rows, and evenly spaced rows of long ones.

    Returns the rows and, for each, the number of its query within the sample.
    """
    n_queries = len(query_ptr) - 1
    n_taken = max(1, min(n_queries, round(fraction * n_queries)))
    taken = (np.arange(n_taken) * n_queries) // n_taken
    most = max(_SAMPLE_ROWS_PER_QUERY, int(fraction * query_ptr[-1] / n_taken))
    rows = []
    for q in taken:
        stride = max(1, int(query_ptr[q + 1] - query_ptr[q]) // most)
        rows.append(np.arange(query_ptr[q], query_ptr[q + 1], stride))
    query = np.repeat(np.arange(n_taken), [len(part) for part in rows])
    return np.concatenate(rows), query
