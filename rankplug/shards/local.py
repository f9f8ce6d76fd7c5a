"""Shards in this process: contiguous runs of whole queries, and threads to work on them.

Queries do not interact, so losses, gradients and Hessian products of a data set are sums over
its shards. The cut depends on the data alone and sums are taken in shard order: the number of
threads changes nothing in a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from threading import Lock
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rankplug.data import JoinedMatrix, PreferenceData, RankingData, even_spans, row_slice
from rankplug.shards.base import Shard
from rankplug.shards.composed import FetchedRows, StackedRows, rows_of
from rankplug.shards.interface import Shards
from rankplug.shards.matrices import KeslerRows, RowMatrix, Vector
from rankplug.shards.memory import Allocate, MappedMemory, Memory, is_mapped
from rankplug.shards.weighting import UNIFORM, PairWeighting, items_of
from rankplug.system.cores import available_cores
from rankplug.system.interruption import raise_if_overdue
from rankplug.system.threads import Team, blas_threads

T = TypeVar("T")

_SHARD_ELEMENTS = 2**21
"""Of the features, 16 MB of float64. Shards of 2**20 to 2**22 take no longer for a product than one
of all rows does; 2**17 takes 12 % longer, 2**15 34 % (120,000 x 136, one thread). Data of fewer
elements stay one shard: threads that wake up for less gain nothing."""
_MANY_SHARDS = 256
"""Enough for threads to share evenly, whatever their number; each answers with a vector as long as
there are columns. From here on shards grow instead, up to `_LARGEST_SHARD`."""
_LARGEST_SHARD = 2**23
"""Elements, 64 MB of float64: the piece of a mapped file that one thread fetches in its turn."""
_ELEMENTS_PER_COLUMN = 4
"""Elements of a sparse shard for each column, at least: its answer, a dense vector, is small beside
what was read for it."""
_RUN_ELEMENTS = 2**19
"""Of the rows of a query that is a shard by itself, at least: threads take half a millisecond for
such a run of rows, some ten times what it costs to wake them."""
_MANY_ELEMENTS = 2**17
"""Of the features: fewer are read in the time that it takes to ask which ones are needed."""
_SHORT = {Shard.start_direction, Shard.extend_direction, Shard.accept, Shard.find_changed_rows}
_SHORT_ROWS = 50_000
"""Of a shard: one thread is done with these operations before it would have woken another."""
_LONG_QUERY = 2000
"""Rows, each of so many pairs that a step changes some of almost all of them."""


class LocalShards(Shards):
    """Shards in this process, and threads to work on them."""

    far = False

    def __init__(
        self, shards: list[Shard], team: Team | None = None, one_thread: bool = False
    ) -> None:
        self.shards = shards
        self._team = team
        self._limits_blas = team is not None or one_thread
        matrix = shards[0].matrix
        self.n_columns = matrix.n_columns
        self.n_rows = sum(shard.matrix.n_rows for shard in shards)
        self.n_elements = sum(shard.matrix.n_elements for shard in shards)
        self.passes_per_product = matrix.passes_per_product
        self.has_gram = matrix.has_gram
        self.rounding = matrix.rounding
        self._few_rows = self.n_rows < _SHORT_ROWS * len(shards)
        n_queries = sum(len(shard.query_weight) for shard in shards)
        short = self.n_rows <= _LONG_QUERY * n_queries
        self.picks_rows = matrix.picks_rows and short and self.n_elements >= _MANY_ELEMENTS

    @override
    def at_work(self) -> AbstractContextManager[None]:
        return blas_threads(1) if self._limits_blas else nullcontext()

    @override
    def apply(self, operation: Callable[..., None], *arguments: Any) -> None:
        for _ in self._results(operation, arguments):
            pass

    @override
    def sum(self, operation: Callable[..., T], *arguments: Any) -> T:
        """Sum of what an operation returns, always added in the order of the shards.

        An array that an operation returns is the caller's: the first one is added to.
        """
        parts: Iterator[Any] = self._results(operation, arguments)
        total = next(parts)
        for part in parts:
            total += part
        return cast(T, total)

    def _results(self, operation: Callable[..., T], arguments: tuple[Any, ...]) -> Iterator[T]:
        def work(shard: Shard) -> T:
            result = operation(shard, *arguments)
            raise_if_overdue()
            return result

        run: Callable[..., Iterable[T]] = map
        if self._team is not None and not (self._few_rows and operation in _SHORT):
            run = self._team.map
        yield from run(work, self.shards)


@contextmanager
def open_shards(
    data: PreferenceData,
    query_weight: Vector,
    n_threads: int | None = None,
    weighting: PairWeighting = UNIFORM,
) -> Iterator[LocalShards]:
    """Cut the data into shards and start the threads for them.

    Parameters
    ----------
    data : RankingData or LabelRankingData
        Its features are not copied. If they are mapped from a file, one thread at a time fetches
        them, and what is kept for each row lies in a temporary file.
    query_weight : float64 array of shape (n_queries,) or (n_instances,)
        What each pair of a query counts.
    n_threads : int, optional
        The cores this process may use by default. Small data make one shard and stay on one
        thread; the rows of one long query are shared.
    weighting : PairWeighting
        What single pairs count beside that.
    """
    spans = _spans(data)
    allocate = _memory(data, len(spans))
    make = partial(_make_shard, data, query_weight, weighting, allocate)
    runs = _runs_of_rows(data)
    n_workers = min(n_threads or available_cores(), max(len(spans), len(runs)))
    with ExitStack() as stack:
        team = stack.enter_context(Team(n_workers)) if n_workers > 1 else None
        run: Callable[..., Iterable[Shard]] = map if team is None else team.map
        shards = list(run(make, spans))
        if team is not None and is_mapped(data.X):
            turn = Lock()
            for shard in shards:
                shard.matrix = FetchedRows(shard.matrix, turn)
        if len(runs) > 1:
            shards[0].matrix = StackedRows(shards[0].matrix, runs, team)
        yield LocalShards(shards, team, one_thread=n_threads == 1)


def _memory(data: PreferenceData, n_shards: int) -> Allocate:
    """What makes the arrays of the shards."""
    if is_mapped(data.X):
        return MappedMemory().zeros
    return np.zeros if n_shards == 1 else Memory().zeros


def _spans(data: PreferenceData) -> list[tuple[int, int]]:
    """Runs of queries (or instances) of about equally many elements of X."""
    rows = data.query_ptr if isinstance(data, RankingData) else np.arange(data.n_samples + 1)
    starts, most = _elements_before(data, rows)
    starts = starts * (data.n_labels or 1)
    n_elements = int(starts[-1])
    many = max(_MANY_SHARDS, n_elements // _LARGEST_SHARD)
    return even_spans(starts, max(1, min(n_elements // _SHARD_ELEMENTS, most, many)))


def _runs_of_rows(data: PreferenceData) -> list[tuple[int, int]]:
    """Runs of rows of about equally many elements of one long query in memory, else none."""
    if not isinstance(data, RankingData) or data.n_queries > 1 or is_mapped(data.X):
        return []
    starts, most = _elements_before(data, np.arange(data.n_samples + 1))
    n_elements = int(starts[-1])
    if n_elements < _SHARD_ELEMENTS:
        return []
    return even_spans(starts, max(1, min(n_elements // _RUN_ELEMENTS, most, _MANY_SHARDS)))


def _elements_before(
    data: PreferenceData, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """Elements of X before some of its rows, and into how many parts they may be cut."""
    X: Any = data.X
    if isinstance(X, np.ndarray):
        return rows * data.n_features, data.n_samples
    joined = isinstance(X, JoinedMatrix)
    starts = (rows * X.row_size if joined else X.indptr[rows]).astype(np.int64)
    return starts, int(starts[-1]) // (_ELEMENTS_PER_COLUMN * data.n_features)


def _make_shard(
    data: PreferenceData,
    query_weight: Vector,
    weighting: PairWeighting,
    allocate: Allocate,
    span: tuple[int, int],
) -> Shard:
    """The shard of a run of queries (or instances)."""
    b, e = span
    query_ptr, relevance, factors = items_of(data, weighting, b, e)
    matrix: RowMatrix
    if isinstance(data, RankingData):
        matrix = rows_of(row_slice(data.X, slice(int(data.query_ptr[b]), int(data.query_ptr[e]))))
    else:
        matrix = KeslerRows(row_slice(data.X, slice(b, e)), ~np.isnan(data.relevance[b:e]))
    return Shard(matrix, query_ptr, relevance, query_weight[b:e], factors, allocate)
