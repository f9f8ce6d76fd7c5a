"""Partitions that are runs of queries of a prepared folder, mapped where they are worked on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from distributed import Future

from rankplug.dask.cluster import Cluster, unique_name
from rankplug.dask.runs import PARTITIONS_PER_THREAD, equal_runs
from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.io import PreparedFolder, open_prepared

__all__ = ["MappedPartition", "map_partitions", "open_partition"]


@dataclass(frozen=True, eq=False)
class MappedPartition(RankingData):
    """Queries of a prepared folder. A worker that is sent it opens the folder itself."""

    source: tuple[str, int, int, int] = ("", 0, 0, 0)

    def __reduce__(self) -> tuple[Callable[..., MappedPartition], tuple[str, int, int, int]]:
        return open_partition, self.source


def map_partitions(cluster: Cluster, folder: PreparedFolder) -> list[Future]:
    """Runs of shards of about equal length, at most two for each thread of the cluster."""
    shards = folder.shards
    rows = [shard.rows[1] - shard.rows[0] for shard in shards]
    name, size = unique_name("open"), folder.manifest.n_samples
    graph: dict[Any, Any] = {}
    for run in equal_runs(rows, PARTITIONS_PER_THREAD * cluster.n_threads):
        begin, end = shards[run[0]].queries[0], shards[run[-1]].queries[1]
        graph[name, begin] = (open_partition, str(folder.path), size, begin, end)
    return cluster.start(graph, list(graph))


def open_partition(path: str, n_samples: int, begin: int, end: int) -> MappedPartition:
    """A task: some queries of a folder with so many rows.

    Raises
    ------
    DataError
        If the folder is not there on this machine, or it is another one.
    """
    try:
        data = open_prepared(path).data()
    except DataError as error:
        raise DataError(f"a worker cannot open what this process can: {error}") from None
    if data.n_samples != n_samples:
        raise DataError(
            f"{path} has {data.n_samples} rows on a worker but {n_samples} here: every worker "
            "must see the same folder"
        )
    part = data.take_queries(np.arange(begin, end))
    return MappedPartition(
        part.X,
        part.relevance,
        part.query_ptr,
        part.query_ids,
        part.query_weight,
        part.feature_names,
        scaling=part.scaling,
        source=(path, n_samples, begin, end),
    )
