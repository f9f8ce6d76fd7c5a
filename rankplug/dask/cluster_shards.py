"""Shards on the workers of a cluster, worked on by tasks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from distributed import Future

from rankplug.dask.cell import Part, add, work
from rankplug.dask.cluster import Cluster, same, unique_name
from rankplug.dask.messages import Call, Message
from rankplug.dask.mirror import follow
from rankplug.shards import Shards, ShardState

__all__ = ["FAN_IN", "ClusterShards"]

T = TypeVar("T")

FAN_IN = 8
"""Sums added up by one task, and at most so many here."""
_LONG_MESSAGE = 2**16  # bytes


class ClusterShards(Shards):
    """A cell with shards next to each partition, and a coordinator here that knows no row.

    Every operation with a result is one task a partition and a tree of additions, of which the last
    one is done here; the tree depends on the number of partitions alone, so that results do not
    depend on the number of workers.

    Parameters
    ----------
    cluster : Cluster
    cells : sequence of Future of `rankplug.dask.cell.Cell`
    partitions : sequence of Future of RankingData
    n_columns, n_rows : int
        Of all partitions.

    Attributes
    ----------
    n_restored : int
        How often the shards of a partition had to be made again, because their worker was lost.
    """

    def __init__(
        self,
        cluster: Cluster,
        cells: Sequence[Future],
        partitions: Sequence[Future],
        n_columns: int,
        n_rows: int,
    ) -> None:
        self._cluster = cluster
        self._places = list(zip(cells, partitions, strict=True))
        self._n_columns = n_columns
        self._n_rows = n_rows
        self._step = 0
        self._queued: list[Call] = []
        self._state: ShardState | None = None
        self.n_restored = 0

    @property
    def n_columns(self) -> int:
        """Length of a weight vector."""
        return self._n_columns

    @property
    def n_rows(self) -> int:
        """Rows of all shards."""
        return self._n_rows

    @property
    def passes_per_product(self) -> int:
        """Reads of the features that a Hessian product takes."""
        return 1

    @property
    def has_gram(self) -> bool:
        """Whether the Hessian can be estimated as a matrix."""
        return True

    @property
    def far(self) -> bool:
        """True: a question takes some ten milliseconds, however few rows there are."""
        return True

    def apply(self, operation: Callable[..., None], *arguments: Any) -> None:
        """Do something to every shard, together with the next operation that has a result."""
        call = Call.of(operation, arguments)
        self._queued.append(call)
        self._state = follow(self._state, call)

    def sum(self, operation: Callable[..., T], *arguments: Any) -> T:
        """Sum of what an operation returns, always added in the order of the partitions."""
        call = Call.of(operation, arguments)
        message = Message(self._step + 1, tuple(self._queued), call)
        part = self._ask(message)
        while part.n_lost:
            self.n_restored += part.n_lost
            part = self._ask(replace(message, state=self._state))
        self._step, self._queued = message.step, []
        self._state = follow(self._state, call)
        return cast(T, part.value)

    def _ask(self, message: Message) -> Part:
        name = unique_name(message.call.function.__name__)
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
