"""From Dask collections to partitions that hold whole queries and stay on their workers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
from dask.delayed import delayed
from distributed import Future

from rankplug.dask.borders import Crossing, find_crossings, may_overlap, require_one_kind
from rankplug.dask.cluster import Cluster, release, same_future, unique_name
from rankplug.dask.inputs import row_parts
from rankplug.dask.reading import (
    Ends,
    Refusal,
    assemble,
    ends_of,
    ids_of,
    read_partition,
    take_query,
)
from rankplug.dask.runs import PARTITIONS_PER_THREAD, equal_runs
from rankplug.exceptions import DataError

__all__ = ["load_partitions"]

_MOST_REFUSALS = 5


def load_partitions(cluster: Cluster, X: Any, y: Any, qid: Any, sample_weight: Any) -> list[Future]:
    """Read, check and cut the rows by query; futures of RankingData, or of None if empty.

    Every operation costs a task a partition, so that the partitions of X are put together to at
    most two for each thread of the cluster.

    Raises
    ------
    DataError
        If the collections do not fit together, the rows of some partition are no ranking data, or
        a query has rows in several partitions and not at their borders.
    """
    read = delayed(read_partition, pure=False)
    parts = row_parts(X, y, qid, sample_weight)
    futures = cluster.compute([read(number, *part) for number, part in enumerate(parts)])
    try:
        ends, filled = _ends(cluster, futures)
        require_one_kind(ends)
        crossings = _crossings(cluster, filled, ends)
        rows = [one.n_rows for one in ends]
        runs = equal_runs(rows, PARTITIONS_PER_THREAD * cluster.n_threads)
        return _assembled(cluster, filled, runs, crossings)
    finally:
        release(futures)


def _ends(cluster: Cluster, futures: Sequence[Future]) -> tuple[list[Ends], list[Future]]:
    """The ends of the partitions with rows, and those partitions."""
    cluster.wait(futures)
    name = unique_name("ends")
    graph = {(name, i): (ends_of, i, future) for i, future in enumerate(futures)}
    found = cluster.gather(cluster.start(graph, list(graph)))
    refusals = [one.reason for one in found if isinstance(one, Refusal)]
    if refusals:
        more = len(refusals) - _MOST_REFUSALS
        shown = refusals[:_MOST_REFUSALS] + ([f"and {more} more partitions"] if more > 0 else [])
        raise DataError("\n".join(shown))
    filled = [i for i, one in enumerate(found) if one is not None]
    if not filled:
        raise DataError("X has no rows (0 samples) in any partition: at least one is needed")
    return [found[i] for i in filled], [futures[i] for i in filled]


def _crossings(cluster: Cluster, parts: Sequence[Future], ends: Sequence[Ends]) -> list[Crossing]:
    if not may_overlap(ends):
        return find_crossings([np.unique([one.lowest, one.highest]) for one in ends], ends)
    # The ids of all queries go to one worker, and only those that cross borders come here.
    name = unique_name("ids")
    graph: dict[Hashable, Any] = {(name, i): (ids_of, part) for i, part in enumerate(parts)}
    found = unique_name("crossings")
    graph[found] = (partial(find_crossings, ends=ends), list(graph))
    crossings: list[Crossing] = cluster.run(graph, found)
    return crossings


def _assembled(
    cluster: Cluster,
    parts: Sequence[Future],
    runs: Sequence[range],
    crossings: Sequence[Crossing],
) -> list[Future]:
    """Each run as one partition; a query that goes on in later runs stays in its first."""
    run_of = np.repeat(np.arange(len(runs)), [len(run) for run in runs])
    given_up: list[list[Any]] = [[] for _ in runs]
    taken: list[list[Any]] = [[] for _ in runs]
    for crossing in crossings:
        owner = run_of[crossing.partitions[0]]
        for i in crossing.partitions:
            if run_of[i] != owner:
                given_up[run_of[i]].append(crossing.query)
                taken[owner].append((partial(take_query, query=crossing.query), parts[i]))
    name = unique_name("assemble")
    graph: dict[Hashable, Any] = {}
    for k, run in enumerate(runs):
        if len(run) > 1 or given_up[k] or taken[k]:
            graph[name, k] = (_Assembly(given_up[k]), [parts[i] for i in run], taken[k])
    made = dict(zip(graph, cluster.start(graph, list(graph)), strict=True)) if graph else {}
    return [made.get((name, k)) or same_future(parts[run[0]]) for k, run in enumerate(runs)]


class _Assembly:
    """`assemble` that gives up some queries; their ids must not be taken for names of tasks."""

    def __init__(self, given_up: Sequence[Any]) -> None:
        self._given_up = given_up

    def __call__(self, parts: Any, taken: Any) -> Any:
        return assemble(parts, self._given_up, taken)
