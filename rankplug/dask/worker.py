"""Work on one partition, done on its worker: messages with operations, and the shards they move.

Operations without a result wait for the next one that has a result. Shards that were at the step
before do them in turn. To others the coordinator sends, on request, the state that the queued
operations lead to: a few vectors of length n_columns, whatever the number of rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankplug.data import RankingData
from rankplug.shards import (
    UNIFORM,
    LocalShards,
    PairTotals,
    PairWeighting,
    Reduction,
    Shard,
    ShardState,
    open_shards,
    pair_weights,
)

_BYTES_PER_ROW = 64
"""About: five vectors of float64, and six of int32 for the pairs."""


@dataclass(frozen=True)
class Operation:
    """A function with all its arguments but the first, which is the shard or the data."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    @classmethod
    def of(cls, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Operation:
        """An operation that does not change when the caller's arrays do."""
        copied = (a.copy() if isinstance(a, np.ndarray) else a for a in arguments)
        return cls(function, tuple(copied))

    def __call__(self, first: Any) -> Any:
        """What the function returns for `first` and these arguments."""
        return self.function(first, *self.arguments)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays among the arguments."""
        return sum(a.nbytes for a in self.arguments if isinstance(a, np.ndarray))


@dataclass(frozen=True)
class Message:
    """From step `step - 1` to `step`: first `queued`, then `asked`, the one with a result.

    `asked` may be done again at `step`: whatever has a result has the same one again.

    Attributes
    ----------
    step : int
    queued : tuple of Operation
    asked : Operation
    state : ShardState or None
        Where `queued` leads, for shards that are at another step; None: they are to say so.
    """

    step: int
    queued: tuple[Operation, ...]
    asked: Operation
    state: ShardState | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the vectors in the operations."""
        return self.asked.nbytes + sum(one.nbytes for one in self.queued)


@dataclass(frozen=True)
class Opening:
    """How shards are made of a partition.

    Attributes
    ----------
    reduction : "sum", "mean" or "query-mean"
    totals : PairTotals or None
        Those of all partitions; None where the reduction needs none.
    n_threads : int
        Threads for the shards of one partition.
    weighting : PairWeighting
        What single pairs count.
    """

    reduction: Reduction
    totals: PairTotals | None
    n_threads: int
    weighting: PairWeighting = UNIFORM


@dataclass(frozen=True)
class PartialSum:
    """The sum over some partitions, of which `n_lost` did not know what to add up."""

    value: Any
    n_lost: int = 0


class PartitionShards:
    """The shards of one partition in one training, and the step at which they are.

    It is cheap to move to another worker, because the shards do not go with it: they are made
    again there, as they are when a worker dies.
    """

    def __init__(self, opening: Opening, n_rows: int) -> None:
        self._opening = opening
        self._n_rows = n_rows
        self._step: int | None = 0
        self._shards: LocalShards | None = None
        self._exit = ExitStack()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[PartitionShards], tuple[Opening, int]]:
        return type(self), (self._opening, self._n_rows)

    def __sizeof__(self) -> int:
        return self._n_rows * _BYTES_PER_ROW

    def work(self, data: RankingData, message: Message) -> PartialSum:
        """Do what the message says, or tell that its state is missing."""
        with self._lock, np.errstate(all="ignore"):
            if self._shards is None:
                self._shards = self._open(data)
            if not self._advance(self._shards, message):
                return PartialSum(None, n_lost=1)
            value = self._shards.sum(message.asked.function, *message.asked.arguments)
            self._step = message.step
            return PartialSum(value)

    def _advance(self, shards: LocalShards, message: Message) -> bool:
        """Come to the message's step, before what is asked; False if no way leads there."""
        known = self._step in (message.step - 1, message.step)
        if not known and message.state is None:
            return False
        if not known:
            shards.apply(Shard.restore, message.state)
        elif self._step == message.step - 1:
            self._step = None  # lost, if one of the following fails
            for queued in message.queued:
                shards.apply(queued.function, *queued.arguments)
        return True

    def _open(self, data: RankingData) -> LocalShards:
        opening = self._opening
        weighting = opening.weighting
        weight = pair_weights(data, opening.reduction, opening.totals, weighting)
        opened = open_shards(data, weight, opening.n_threads, weighting)
        return self._exit.enter_context(opened)


def make_partition_shards(data: RankingData, opening: Opening) -> PartitionShards:
    """A task: what holds the shards of a partition, next to it."""
    return PartitionShards(opening, data.n_samples)


def work(shards: PartitionShards, data: RankingData, message: Message) -> PartialSum:
    """A task: one operation on one partition."""
    return shards.work(data, message)


def add(sums: Sequence[PartialSum]) -> PartialSum:
    """A task: the sum, in this order; without a value if one of them has none."""
    n_lost = sum(one.n_lost for one in sums)
    if n_lost:
        return PartialSum(None, n_lost)
    total = sums[0].value
    for one in sums[1:]:
        total = total + one.value
    return PartialSum(total)
