"""`ClusterShards`: shards on the workers of a cluster, worked on by tasks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from distributed import Future
from typing_extensions import override

from rankplug.dask.cluster import Cluster, same, unique_name
from rankplug.dask.worker import Message, Operation, PartialSum, add, work
from rankplug.shards import Shards, ShardState, state_after

T = TypeVar("T")

FAN_IN = 8
"""Sums added up by one task, and at most so many here. A level of additions takes as long as four
tasks of the scheduler, and an addition is one (benchmarks/scaling.md): with 8 there is one for
eight partitions, and three levels of them do for 4,096."""
_LONG_MESSAGE = 2**16
"""Bytes. What is shorter goes inside each task: that costs less than a task more, 2.5 ms."""


class ClusterShards(Shards):
    """The shards of each partition next to it, and a coordinator here that knows no row.

    1. Operations without a result are queued here (`apply`).
    2. One with a result (`sum`) is sent together with them: one task a partition, and a tree of
       additions, of which the last one is done here. The tree depends on the number of partitions
       alone, so that results do not depend on the number of workers.
    3. Shards that were made again, because their worker was lost, have missed what came before.
       They say so, and the operation is sent again with the state that leads to it, which is
       followed here by weights (`rankplug.shards.state_after`).

    Parameters
    ----------
    cluster : Cluster
    shards : sequence of Future of `rankplug.dask.worker.PartitionShards`
    partitions : sequence of Future of RankingData
    n_columns, n_rows : int
        Of all partitions.

    Attributes
    ----------
    n_restored : int
        How often the shards of a partition had to be made again, because their worker was lost.
    """

    passes_per_product = 1
    has_gram = True
    far = True  # a question takes some ten milliseconds, however few rows there are

    def __init__(
        self,
        cluster: Cluster,
        shards: Sequence[Future],
        partitions: Sequence[Future],
        n_columns: int,
        n_rows: int,
    ) -> None:
        self.n_columns = n_columns
        self.n_rows = n_rows
        self.n_elements = n_rows * n_columns  # at most: what is stored of sparse ones is not known
        self.n_restored = 0
        self._cluster = cluster
        self._places = list(zip(shards, partitions, strict=True))
        self._step = 0
        self._queued: list[Operation] = []
        self._state = ShardState()

    @override
    def apply(self, operation: Callable[..., None], *arguments: Any) -> None:
        queued = Operation.of(operation, arguments)
        self._state = state_after(operation, self._state, queued.arguments)
        self._queued.append(queued)

    @override
    def sum(self, operation: Callable[..., T], *arguments: Any) -> T:
        asked = Operation.of(operation, arguments)
        after = state_after(operation, self._state, asked.arguments)
        message = Message(self._step + 1, tuple(self._queued), asked)
        found = self._ask(message)
        while found.n_lost:
            self.n_restored += found.n_lost
            found = self._ask(replace(message, state=self._state))
        self._step, self._queued, self._state = message.step, [], after
        return cast(T, found.value)

    def _ask(self, message: Message) -> PartialSum:
        name = unique_name(message.asked.function.__name__)
        graph: dict[Hashable, Any] = {}
        sent: Any = message
        if message.state is not None or message.nbytes > _LONG_MESSAGE:
            # A task of its own: it goes once to each worker, not once to each partition.
            sent = f"{name}-message"
            graph[sent] = (same, message)
        keys: list[Hashable] = [(name, i) for i in range(len(self._places))]
        for key, place in zip(keys, self._places, strict=True):
            graph[key] = (work, *place, sent)
        level = 0
        while len(keys) > FAN_IN:
            groups = [keys[b : b + FAN_IN] for b in range(0, len(keys), FAN_IN)]
            keys = [(f"{name}-add", level, j) for j in range(len(groups))]
            graph.update({key: (add, group) for key, group in zip(keys, groups, strict=True)})
            level += 1
        return add(self._cluster.results(graph, keys))
