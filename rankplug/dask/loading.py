"""Loading: from Dask collections or a prepared folder to partitions of whole queries on workers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from dask.delayed import delayed
from distributed import Future
from numpy.typing import NDArray

from rankplug.dask.cluster import Cluster, release, same_future, unique_name
from rankplug.dask.pieces import pieces_of, weights_of_queries
from rankplug.dask.reading import (
    Crossing,
    Ends,
    Refusal,
    assemble,
    ends_of,
    find_crossings,
    first_queries,
    ids_of,
    may_overlap,
    read_partition,
    require_one_kind,
    require_same_columns,
    take_query,
    weigh,
)
from rankplug.data import RankingData, even_spans, real_array
from rankplug.exceptions import DataError
from rankplug.io import PreparedFolder, open_prepared

_PARTITIONS_PER_THREAD = 2
"""Most partitions for each thread of a cluster: each of them costs a task a pass
(benchmarks/scaling.md), but more than one balance what workers have to do."""
_MOST_REFUSALS = 5
"""Lines of an error message: what is wrong in one partition is often so in all."""


def load_partitions(
    cluster: Cluster, X: Any, y: Any, qid: Any, sample_weight: Any, document_weight: Any = None
) -> list[Future]:
    """Read, check and cut the rows by query; futures of RankingData, or of None if empty.

    Every operation costs a task a partition, so that the partitions of X are put together to at
    most two for each thread of the cluster.

    Raises
    ------
    DataError
        If the collections do not fit together, the rows of some partition are no ranking data, or
        a query has rows in several partitions and not at their borders.
    """
    read = delayed(_read_piece, pure=False)
    with cluster.client.as_current():  # which decides how Dask shuffles rows
        weights = weights_of_queries(X, sample_weight)
        by_query = weights is not None
        pieces = pieces_of(X, y, qid, None if by_query else sample_weight, document_weight)
    futures = cluster.compute([read(i, piece, by_query) for i, piece in enumerate(pieces)])
    try:
        ends, filled = _ends(cluster, futures)
        require_one_kind(ends)
        require_same_columns({one.number: one.columns for one in ends})
        crossings = _crossing_queries(cluster, filled, ends)
        if by_query:
            filled = _weigh(cluster, filled, ends, real_array(weights, "sample_weight"))
            futures += filled
        rows = [one.n_rows for one in ends]
        runs = equal_runs(rows, _PARTITIONS_PER_THREAD * cluster.n_threads)
        return _assemble(cluster, filled, runs, crossings)
    finally:
        release(futures)


def _read_piece(
    number: int, piece: dict[str, Any], stand_together: bool
) -> RankingData | Refusal | None:
    """A task: check the rows of a partition; None if it has none."""
    others = [piece.get(name) for name in ("qid", "sample_weight", "document_weight")]
    return read_partition(number, piece["X"], piece["y"], *others, stand_together=stand_together)


def _weigh(
    cluster: Cluster, parts: Sequence[Future], ends: Sequence[Ends], weights: NDArray[np.float64]
) -> list[Future]:
    """The partitions with the weights of their queries, which are told in the order of the rows."""
    *before, n_queries = first_queries(ends)
    if weights.shape != (n_queries,):
        n_rows = sum(one.n_rows for one in ends)
        raise DataError(
            f"sample_weight has shape {weights.shape}: it must be one a row ({n_rows}) of a Dask "
            f"Array cut as X is, or one a query ({n_queries})"
        )
    if np.any(weights < 0):
        raise DataError(f"sample_weight is negative at query {np.flatnonzero(weights < 0)[0]}")
    name = unique_name("weigh")
    graph: dict[Hashable, Any] = {
        (name, i): (partial(weigh, weights=weights[start : start + one.n_queries]), part)
        for i, (start, one, part) in enumerate(zip(before, ends, parts, strict=True))
    }
    return cluster.start(graph, list(graph))


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


def _crossing_queries(
    cluster: Cluster, parts: Sequence[Future], ends: Sequence[Ends]
) -> list[Crossing]:
    if not may_overlap(ends):
        return find_crossings([np.unique([one.lowest, one.highest]) for one in ends], ends)
    # The ids of all queries go to one worker, and only those that cross borders come here.
    name = unique_name("ids")
    graph: dict[Hashable, Any] = {(name, i): (ids_of, part) for i, part in enumerate(parts)}
    found = unique_name("crossings")
    graph[found] = (partial(find_crossings, ends=ends), list(graph))
    crossings: list[Crossing] = cluster.run(graph, found)
    return crossings


def _assemble(
    cluster: Cluster, parts: Sequence[Future], runs: Sequence[range], crossings: Sequence[Crossing]
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
    for run in equal_runs(rows, _PARTITIONS_PER_THREAD * cluster.n_threads):
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
    part = data.take(np.arange(begin, end))
    return MappedPartition(
        part.X,
        part.relevance,
        part.query_ptr,
        part.query_ids,
        part.query_weight,
        part.feature_names,
        scaling=part.scaling,
        document_weight=part.document_weight,
        source=(path, n_samples, begin, end),
    )


def equal_runs(rows: Sequence[int], most: int) -> list[range]:
    """Runs of neighbours of about equally many rows, at most so many of them.

    Examples
    --------
    >>> equal_runs([5, 5, 10], most=2)
    [range(0, 2), range(2, 3)]
    """
    if len(rows) <= most:
        return [range(i, i + 1) for i in range(len(rows))]
    return [range(*span) for span in even_spans(np.cumsum([0, *rows]), max(most, 1))]
