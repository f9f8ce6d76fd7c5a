"""The state of shards, followed without their rows.

For each method of `rankplug.shards.Shard` that moves something there is a rule here, which does to
weights what the method does to scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.dask.messages import Call
from rankplug.shards import Evaluate, ShardState

__all__ = ["follow"]


def follow(state: ShardState | None, call: Call) -> ShardState | None:
    """The state after an operation; None before shards have been told where to start."""
    rule = _RULES.get(call.function.__name__)
    return state if rule is None else rule(state, *call.arguments)


def _move_to(
    state: ShardState | None, w: NDArray[np.float64] | None, evaluate: Evaluate
) -> ShardState:
    return ShardState(w, evaluate, None if state is None else state.direction)


def _stay(state: ShardState, evaluate: Evaluate) -> ShardState:
    return replace(state, evaluate=evaluate)


def _laplacian(state: ShardState, v: NDArray[np.float64]) -> ShardState:
    return replace(state, product_of=v, tried=None)


def _start_direction(state: ShardState) -> ShardState:
    return replace(state, direction=None)


def _extend_direction(state: ShardState, step: float) -> ShardState:
    assert state.product_of is not None
    return replace(state, direction=_plus(state.direction, step * state.product_of))


def _aim_at(state: ShardState, w: NDArray[np.float64]) -> ShardState:
    return replace(state, direction=w if state.w is None else w - state.w)


def _loss_along(state: ShardState, step: float, evaluate: Evaluate) -> ShardState:
    return replace(state, product_of=None, tried=(step, evaluate))


def _accept(state: ShardState) -> ShardState:
    assert state.tried is not None
    step, evaluate = state.tried
    w = state.w if state.direction is None else _plus(state.w, step * state.direction)
    return replace(state, w=w, evaluate=evaluate, tried=None)


def _plus(a: NDArray[np.float64] | None, b: NDArray[np.float64]) -> NDArray[np.float64]:
    return b if a is None else a + b


_RULES: Mapping[str, Callable[..., Any]] = {
    "move_to": _move_to,
    "move_to_with_gradient": _move_to,
    "stay": _stay,
    "laplacian": _laplacian,
    "start_direction": _start_direction,
    "extend_direction": _extend_direction,
    "aim_at": _aim_at,
    "loss_along": _loss_along,
    "loss_along_with_gradient": _loss_along,
    "line": _loss_along,
    "accept": _accept,
}
