"""`ClusterData`: ranking data whose rows are on the workers of a Dask cluster.

Of a remote partition only its metadata are known here: its numbers of rows and queries, its
features, and whether it has pairs to learn from.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from itertools import repeat
from operator import add, attrgetter
from typing import Any, NamedTuple, Self, TypeVar

import dask.array as da
import numpy as np
from dask.delayed import delayed
from distributed import Client, Future
from numpy.typing import NDArray
from typing_extensions import override

from rankplug.dask.cluster import Cluster, connect, release, same_future, unique_name
from rankplug.dask.loading import load_partitions, map_partitions
from rankplug.dask.reading import Columns, require_same_columns
from rankplug.dask.shards import ClusterShards
from rankplug.dask.worker import Opening, Operation, make_partition_shards
from rankplug.data import RankingData, Scaling, no_pairs, no_pairs_count
from rankplug.exceptions import ClusterError, DataError, SolverUnavailableError
from rankplug.io import PreparedFolder, open_prepared
from rankplug.kernels import squared_norms
from rankplug.shards import (
    UNIFORM,
    PairTotals,
    PairWeighting,
    Reduction,
    RemoteRankingData,
    pair_totals,
)
from rankplug.solver import list_solvers, solver_class

T = TypeVar("T")


class ClusterArrays(NamedTuple):
    """Dask Arrays of the same rows in the same partitions.

    `qid` numbers the queries, ascending from row to row. `sample_weight` is None without weights.
    """

    X: da.Array
    y: da.Array
    qid: da.Array
    sample_weight: da.Array | None


@dataclass(frozen=True)
class _Metadata:
    """What is known here of one partition."""

    n_samples: int
    n_queries: int
    columns: Columns
    weighted: bool
    weighs_documents: bool
    has_missing: bool
    has_pairs: bool  # of any weight
    has_counted_pairs: bool  # of positive weight


class ClusterData(RemoteRankingData):
    """Checked ranking data that stay on the workers, each partition with whole queries.

    Made by `from_collections`, `from_prepared` or `from_partitions`. Solvers tagged `distributed`
    take it in place of `RankingData`. The rows are kept in the memory of the workers until
    `close`, the end of a ``with`` block, or until nobody refers to this object. A partition that is
    lost with its worker is made again by Dask from what it was made of.

    Attributes
    ----------
    client : distributed.Client
    timeout : float or None
        Seconds in which the cluster must get something done.
    partitions : tuple of distributed.Future
        Each a `RankingData` on some worker.
    n_partitions : int
    sizes : tuple of int
        Rows of each partition.
    n_samples, n_features, n_queries : int
        Of all partitions.
    feature_names : tuple of str or None
    weighted : bool
        Whether queries have weights.
    weighs_documents : bool
        Whether rows have weights.
    has_missing : bool
        Whether a feature of some row is missing (NaN).
    scaling : Scaling or None
        How the features were scaled when a folder was prepared; solvers see scaled ones.
    """

    def __init__(self, cluster: Cluster, partitions: Sequence[Future]) -> None:
        self._cluster = cluster
        self.client, self.timeout = cluster.client, cluster.timeout
        name = unique_name("metadata")
        graph = {(name, i): (_describe_partition, future) for i, future in enumerate(partitions)}
        found = cluster.gather(cluster.start(graph, list(graph)))
        filled = [i for i, one in enumerate(found) if one is not None]
        if not filled:
            raise DataError("there are no rows in any partition: at least one is needed")
        kept = [found[i] for i in filled]
        _require_alike(kept)
        self.partitions = tuple(same_future(partitions[i]) for i in filled)
        self.n_partitions = len(self.partitions)
        self.sizes = tuple(one.n_samples for one in kept)
        self.n_samples = sum(self.sizes)
        self.n_queries = sum(one.n_queries for one in kept)
        self.n_features, self.feature_names, self.categories = kept[0].columns
        self.weighted = kept[0].weighted
        self.weighs_documents = kept[0].weighs_documents
        self.has_missing = any(one.has_missing for one in kept)
        self.scaling: Scaling | None = None
        self._metadata = kept
        self._totals: dict[PairWeighting, PairTotals] = {}
        self._is_closed = False

    @classmethod
    def from_collections(
        cls,
        X: Any,
        y: Any,
        qid: Any = None,
        sample_weight: Any = None,
        document_weight: Any = None,
        *,
        client: Client | None = None,
        timeout: float | None = 300.0,
    ) -> Self:
        """Read and check Dask collections; returns when all rows are on the workers.

        Queries that are cut by borders between partitions are put together. There will be at most
        two partitions for each thread of the cluster.

        Parameters
        ----------
        X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
            Blocks of arrays may be CSR matrices.
        y : Array or Series of shape (n_samples,)
            Relevance, any finite real numbers.
        qid : Array or Series of shape (n_samples,)
            Query ids, integers or strings. May be left out if X is a DataFrame with a column
            ``qid``, or has one partition: one query.
        sample_weight : Array or Series of shape (n_samples,), optional
            Constant within a query; for arrays also one a query, as in `Ranker.fit`.
        document_weight : Array or Series of shape (n_samples,), optional
            Of rows, as in `Ranker.fit`.
        client : distributed.Client, optional
            By default the current one.
        timeout : float, optional
            Seconds in which the cluster must get something done: read one partition, or finish one
            operation on all of them. None: wait for ever.

        Raises
        ------
        DataError
            If the rows are not valid, with the partitions where they are not; or if a query has
            rows in several partitions and not at their borders, with its id.
        ClusterError
            If the scheduler is lost or the time-out is over.
        ParameterError
            Without a client.
        """
        cluster = connect(client, timeout)
        return cls._of(cluster, load_partitions(cluster, X, y, qid, sample_weight, document_weight))

    @classmethod
    def from_partitions(
        cls,
        partitions: Sequence[Future],
        *,
        client: Client | None = None,
        timeout: float | None = 300.0,
    ) -> Self:
        """Data of partitions that exist: futures of `RankingData`, no query in two of them.

        The futures stay the caller's, who may release them.
        A future of None is left out. Raises as `from_collections`.
        """
        return cls(connect(client, timeout), partitions)

    @classmethod
    def _of(cls, cluster: Cluster, partitions: Sequence[Future]) -> Self:
        """Data of partitions that nobody else needs."""
        try:
            return cls(cluster, partitions)
        finally:
            release(partitions)

    @classmethod
    def from_prepared(
        cls,
        folder: str | os.PathLike[str] | PreparedFolder,
        *,
        client: Client | None = None,
        timeout: float | None = 300.0,
    ) -> Self:
        """The data of a prepared folder; every worker maps its part of the files.

        Parameters
        ----------
        folder : path or PreparedFolder
            What `rankplug.prepare` has made, to be seen under this path by all workers.
        client, timeout
            As in `from_collections`.

        Raises
        ------
        DataError
            If it is not a prepared folder, here or on a worker.
        ClusterError, ParameterError
            As `from_collections`.
        """
        cluster = connect(client, timeout)
        opened = folder if isinstance(folder, PreparedFolder) else open_prepared(folder)
        data = cls._of(cluster, map_partitions(cluster, opened))
        data.scaling = opened.scaling
        return data

    @override
    def require_pairs(self) -> None:
        if not any(one.has_pairs for one in self._metadata):
            raise no_pairs(self.n_samples, self.n_queries)
        if not any(one.has_counted_pairs for one in self._metadata):
            raise no_pairs_count()

    @override
    def count_missing(self) -> NDArray[np.int64]:
        counts: NDArray[np.int64] = reduce(add, self.map(RankingData.count_missing))
        return counts

    @override
    def largest_squared_norm(self) -> float:
        return max(self.map(_largest_squared_norm)) or 1.0

    @override
    def suitable_solvers(self) -> list[str]:
        return [
            info.name for info in list_solvers() if info.available and _is_distributed(info.name)
        ]

    def map(self, function: Callable[..., T], *args: Any) -> list[T]:
        """What ``function(data, *args)`` returns for each partition, in their order.

        It runs where the partition is; only the results come here, so they should be small.

        Parameters
        ----------
        function : callable
            Takes a `RankingData`; can be pickled, and changes nothing.
        """
        futures = self._start(function, args)
        try:
            return self._cluster.gather(futures)
        finally:
            release(futures)

    def transform(self, function: Callable[..., RankingData | None], *args: Any) -> ClusterData:
        """New data on the same workers: ``function(data, *args)`` of each partition.

        Parameters
        ----------
        function : callable
            Returns some of the queries of a `RankingData`, or others instead, or None.

        Raises
        ------
        DataError
            If no rows are left.
        """
        data = ClusterData._of(self._cluster, self._start(function, args))
        data.scaling = self.scaling
        return data

    def to_arrays(self) -> ClusterArrays:
        """The rows as Dask Arrays over the same partitions, not copied; features must be dense.

        Query ids are numbers that ascend, for libraries that ask for that.
        """
        n_queries = [one.n_queries for one in self._metadata]
        before = np.cumsum([0, *n_queries])[:-1].tolist()
        return ClusterArrays(
            X=self._array(repeat(attrgetter("X")), self.n_features),
            y=self._array(repeat(attrgetter("relevance"))),
            qid=self._array(partial(_query_numbers, before=one) for one in before),
            sample_weight=self._array(repeat(attrgetter("row_weight"))) if self.weighted else None,
        )

    def _array(self, values_of: Iterable[Callable[[RankingData], Any]], *columns: int) -> da.Array:
        """What these functions make of the partitions, as one array."""
        blocks = [
            da.from_delayed(delayed(function)(part), (n, *columns), meta=np.empty((0, *columns)))
            for function, part, n in zip(values_of, self.partitions, self.sizes, strict=False)
        ]
        return da.concatenate(blocks)

    @override
    @contextmanager
    def open_pairs(
        self, reduction: Reduction, n_threads: int | None, weighting: PairWeighting = UNIFORM
    ) -> Iterator[ClusterShards]:
        # `n_threads` are those of one task, by default one: a worker does as many tasks at a time
        # as it has threads.
        alike = reduction == "sum" and weighting.counts_alike(self)
        totals = None if alike else self._pair_totals(weighting)
        opening = Opening(reduction, totals, n_threads or 1, weighting)
        shards = self._start(make_partition_shards, (opening,))
        try:
            yield ClusterShards(
                self._cluster, shards, self.partitions, self.n_features, self.n_samples
            )
        finally:
            release(shards)

    def close(self) -> None:
        """Let the workers forget the rows, unless somebody else needs them."""
        release(self.partitions)
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _pair_totals(self, weighting: PairWeighting) -> PairTotals:
        if weighting not in self._totals:
            self._totals[weighting] = reduce(add, self.map(pair_totals, weighting))
        return self._totals[weighting]

    def _start(self, function: Callable[..., Any], args: tuple[Any, ...]) -> list[Future]:
        if self._is_closed:
            raise ClusterError("these data were closed: make them again from what they came from")
        call, name = Operation(function, args), unique_name(getattr(function, "__name__", "map"))
        graph = {(name, i): (call, part) for i, part in enumerate(self.partitions)}
        return self._cluster.start(graph, list(graph))


def _describe_partition(data: RankingData | None) -> _Metadata | None:
    """A task: the metadata of a partition, None if it has no rows."""
    if data is None:
        return None
    counted = _has_pairs(data)
    return _Metadata(
        data.n_samples,
        data.n_queries,
        Columns.of(data),
        data.query_weight is not None,
        data.weighs_documents,
        data.has_missing,
        counted or _has_pairs(data.with_facts(query_weight=None, document_weight=None)),
        counted,
    )


def _require_alike(metadata: Sequence[_Metadata]) -> None:
    """Raise `DataError` if the partitions have other features, or not all of them weights."""
    require_same_columns({number: one.columns for number, one in enumerate(metadata)})
    first = metadata[0]
    for number, one in enumerate(metadata):
        weights = [(part.weighted, part.weighs_documents) for part in (one, first)]
        if weights[0] != weights[1]:
            raise DataError(f"partition {number} and the first one are not both weighted")


def _has_pairs(data: RankingData) -> bool:
    try:
        data.require_pairs()
    except DataError:
        return False
    return True


def _query_numbers(data: RankingData, before: int) -> NDArray[np.int64]:
    return before + data.row_query


def _largest_squared_norm(data: RankingData) -> float:
    return float(squared_norms(data.X).max(initial=0.0))


def _is_distributed(name: str) -> bool:
    try:
        return solver_class(name).tags.distributed
    except SolverUnavailableError:
        return False
