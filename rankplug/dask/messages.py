"""What is sent to the workers: an operation on shards, with those that came before it.

Operations without a result wait for the next one that has a result. Shards that were at the step
before do them in turn. To others the coordinator sends, on request, the state that the queued
operations lead to: a few vectors of length n_columns, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankplug.shards import ShardState

__all__ = ["Call", "Message"]


@dataclass(frozen=True)
class Call:
    """A function with all its arguments but the first."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    @classmethod
    def of(cls, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Call:
        """A call that does not change when the caller's arrays do."""
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
    """From step `step - 1` to `step`: first `queued`, then `call`, whose result is asked for.

    `call` may be done again at `step`: whatever has a result has the same one again.

    Attributes
    ----------
    step : int
    queued : tuple of Call
    call : Call
    state : ShardState or None
        Where `queued` leads, for shards that are at another step; None: they are to say so.
    """

    step: int
    queued: tuple[Call, ...]
    call: Call
    state: ShardState | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the vectors in the calls."""
        return self.call.nbytes + sum(call.nbytes for call in self.queued)
