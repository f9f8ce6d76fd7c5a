"""What works on a worker: the shards of a partition, kept from one operation to the next."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankplug.dask.messages import Message
from rankplug.data import RankingData
from rankplug.shards import LocalShards, Reduction, Shard, open_shards, pair_weights
from rankplug.shards.reductions import PairTotals

__all__ = ["Cell", "Opening", "Part", "add", "open_cell", "work"]

_BYTES_PER_ROW = 64
"""Of the vectors of a shard, about."""


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
    """

    reduction: Reduction
    totals: PairTotals | None
    n_threads: int


@dataclass(frozen=True)
class Part:
    """The sum over some partitions, of which `n_lost` did not know what to add up."""

    value: Any
    n_lost: int = 0


class Cell:
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

    def __reduce__(self) -> tuple[type[Cell], tuple[Opening, int]]:
        return type(self), (self._opening, self._n_rows)

    def __sizeof__(self) -> int:
        return self._n_rows * _BYTES_PER_ROW

    def work(self, data: RankingData, message: Message) -> Part:
        """Do what the message says, or tell that its state is missing."""
        with self._lock, np.errstate(all="ignore"):
            if self._shards is None:
                self._shards = self._open(data)
            if not self._advance(self._shards, message):
                return Part(None, n_lost=1)
            value = self._shards.sum(message.call.function, *message.call.arguments)
            self._step = message.step
            return Part(value)

    def _advance(self, shards: LocalShards, message: Message) -> bool:
        """Come to the message's step, up to its last call; False if there is no way to it."""
        known = self._step in (message.step - 1, message.step)
        if not known and message.state is None:
            return False
        if not known:
            shards.apply(Shard.restore, message.state)
        elif self._step == message.step - 1:
            self._step = None  # lost, if one of the following fails
            for call in message.queued:
                shards.apply(call.function, *call.arguments)
        return True

    def _open(self, data: RankingData) -> LocalShards:
        opening = self._opening
        weight = pair_weights(data, opening.reduction, opening.totals)
        return self._exit.enter_context(open_shards(data, weight, opening.n_threads))


def open_cell(data: RankingData, opening: Opening) -> Cell:
    """A task: the cell of a partition, next to it."""
    return Cell(opening, data.n_samples)


def work(cell: Cell, data: RankingData, message: Message) -> Part:
    """A task: one operation on one partition."""
    return cell.work(data, message)


def add(parts: Sequence[Part]) -> Part:
    """A task: the sum, in this order; without a value if a part has none."""
    n_lost = sum(part.n_lost for part in parts)
    if n_lost:
        return Part(None, n_lost)
    total = parts[0].value
    for part in parts[1:]:
        total = total + part.value
    return Part(total)
