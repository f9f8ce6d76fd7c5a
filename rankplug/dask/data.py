"""`ClusterData`: ranking data whose rows are on the workers of a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from operator import add
from typing import Any, Self, TypeVar

from distributed import Client, Future

from rankplug.dask.arrays import ClusterArrays, arrays_of
from rankplug.dask.cell import Opening, open_cell
from rankplug.dask.cluster import Cluster, connect, release, same_future, unique_name
from rankplug.dask.cluster_shards import ClusterShards
from rankplug.dask.facts import facts_of, require_same_features
from rankplug.dask.loading import load_partitions
from rankplug.dask.messages import Call
from rankplug.dask.prepared import map_partitions
from rankplug.data import RankingData, Scaling, no_pairs, no_pairs_count
from rankplug.exceptions import ClusterError, DataError, SolverUnavailableError
from rankplug.io import PreparedFolder, open_prepared
from rankplug.kernels import squared_norms
from rankplug.shards import Reduction, RemoteRankingData
from rankplug.shards.reductions import PairTotals, pair_totals
from rankplug.solver import list_solvers, solver_class

__all__ = ["ClusterData"]

T = TypeVar("T")


class ClusterData(RemoteRankingData):
    """Checked ranking data that stay on the workers, each partition with whole queries.

    Made by `from_collections`, `from_prepared` or `from_partitions`. Solvers tagged `distributed`
    take it in place of `RankingData`. The rows are kept in the memory of the workers until
    `close`, the end of a ``with`` block, or until nobody refers to this object. A partition that is
    lost with its worker is made again by Dask from what it was made of.

    Attributes
    ----------
    partitions : tuple of distributed.Future
        Each a `RankingData` on some worker.
    sizes : tuple of int
        Rows of each partition.
    feature_names : tuple of str or None
    weighted : bool
        Whether queries have weights.
    scaling : Scaling or None
        How the features were scaled when a folder was prepared; solvers see scaled ones.
    """

    def __init__(self, cluster: Cluster, partitions: Sequence[Future]) -> None:
        self._cluster = cluster
        name = unique_name("facts")
        graph = {(name, i): (facts_of, future) for i, future in enumerate(partitions)}
        found = cluster.gather(cluster.start(graph, list(graph)))
        filled = [i for i, one in enumerate(found) if one is not None]
        if not filled:
            raise DataError("there are no rows in any partition: at least one is needed")
        self._facts = [found[i] for i in filled]
        require_same_features(self._facts)
        self.partitions = tuple(same_future(partitions[i]) for i in filled)
        self.sizes = tuple(one.n_samples for one in self._facts)
        self.feature_names = self._facts[0].feature_names
        self.weighted = self._facts[0].weighted
        self.scaling: Scaling | None = None
        self._is_closed = False

    @classmethod
    def from_collections(
        cls,
        X: Any,
        y: Any,
        qid: Any = None,
        sample_weight: Any = None,
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
            Query ids, integers or strings. May be left out if X has one partition: one query.
        sample_weight : Array or Series of shape (n_samples,), optional
            Constant within a query.
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
            If there is no client.
        """
        cluster = connect(client, timeout)
        return cls._of(cluster, load_partitions(cluster, X, y, qid, sample_weight))

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
            If it is no prepared folder, here or on a worker.
        ClusterError, ParameterError
            As `from_collections`.
        """
        cluster = connect(client, timeout)
        opened = folder if isinstance(folder, PreparedFolder) else open_prepared(folder)
        data = cls._of(cluster, map_partitions(cluster, opened))
        data.scaling = opened.scaling
        return data

    @property
    def client(self) -> Client:
        """The client of the cluster."""
        return self._cluster.client

    @property
    def timeout(self) -> float | None:
        """Seconds in which the cluster must get something done."""
        return self._cluster.timeout

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""
        return len(self.partitions)

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return sum(self.sizes)

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        n_features: int = self._facts[0].n_features
        return n_features

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return sum(one.n_queries for one in self._facts)

    def require_pairs(self) -> None:
        """Raise `DataError` if no query of positive weight has two rows of different relevance."""
        if not any(one.has_pairs for one in self._facts):
            raise no_pairs(self.n_samples, self.n_queries)
        if not any(one.has_counted_pairs for one in self._facts):
            raise no_pairs_count()

    def largest_squared_norm(self) -> float:
        """``max_i |x_i|^2``; 1 if all features are 0."""
        return max(self.map(_largest_squared_norm)) or 1.0

    def suitable_solvers(self) -> list[str]:
        """Names of the registered solvers that take such data."""
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
        return arrays_of(self.partitions, self._facts, self.n_features, self.weighted)

    @contextmanager
    def open_pairs(self, reduction: Reduction, n_threads: int | None) -> Iterator[ClusterShards]:
        """The shards, each pair with its weight; see `rankplug.objectives.open_pairs`.

        `n_threads` are those of one task, by default one: a worker does as many tasks at a time
        as it has threads.
        """
        totals = None if reduction == "sum" else self._pair_totals
        cells = self._start(open_cell, (Opening(reduction, totals, n_threads or 1),))
        try:
            yield ClusterShards(
                self._cluster, cells, self.partitions, self.n_features, self.n_samples
            )
        finally:
            release(cells)

    def close(self) -> None:
        """Let the workers forget the rows, unless somebody else needs them."""
        release(self.partitions)
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _pair_totals(self) -> PairTotals:
        return reduce(add, self.map(pair_totals))

    def _start(self, function: Callable[..., Any], args: tuple[Any, ...]) -> list[Future]:
        if self._is_closed:
            raise ClusterError("these data were closed: make them again from what they came from")
        call, name = Call(function, args), unique_name(getattr(function, "__name__", "map"))
        graph = {(name, i): (call, part) for i, part in enumerate(self.partitions)}
        return self._cluster.start(graph, list(graph))


def _largest_squared_norm(data: RankingData) -> float:
    return float(squared_norms(data.X).max(initial=0.0))


def _is_distributed(name: str) -> bool:
    try:
        return solver_class(name).tags.distributed
    except SolverUnavailableError:
        return False
