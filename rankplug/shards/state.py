"""The state of a shard in terms of weights, and declarations of what operations do to it.

A shard that is lost with its machine can be made again elsewhere: not from its scores, which are as
many as its rows, but from the weights that led to them. So each method of
`rankplug.shards.base.Shard` declares by `changes_state` or `keeps_state` what it does to the state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar, cast

from rankplug._fast.pairs import ActivePairs
from rankplug.shards.matrices import Vector

Evaluate: TypeAlias = Callable[[ActivePairs, Vector, Vector], float]
"""Finds the active pairs at some scores, returns the loss and writes coefficients c. Up to a factor
of the loss, ``X' c`` is its gradient and, L being the pairs' Laplacian, ``X' L X`` its Hessian.
"""

Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True)
class ShardState:
    """What a shard remembers, in terms of weights: the same for all shards, whatever their rows.

    Its methods do to weights what those methods of `Shard` that name them do to scores. They
    return the new state.

    Attributes
    ----------
    w : float64 array of shape (n_columns,) or None
        The current point, None for 0.
    evaluate : Evaluate or None
        The loss there; None before the first `move_to`.
    direction : float64 array of shape (n_columns,) or None
        The direction as weights.
    product_of : float64 array of shape (n_columns,) or None
        The ``v`` of the last Hessian product, if it was after the last step tried.
    tried : (float, Evaluate) or None
        The step last tried and the loss there, if that was after the last product.
    """

    w: Vector | None = None
    evaluate: Evaluate | None = None
    direction: Vector | None = None
    product_of: Vector | None = None
    tried: tuple[float, Evaluate] | None = None

    def move_to(self, w: Vector | None, evaluate: Evaluate) -> ShardState:
        """At another point; the direction is kept."""
        return ShardState(w, evaluate, self.direction)

    def stay(self, evaluate: Evaluate) -> ShardState:
        """At the same point, with another loss."""
        return replace(self, evaluate=evaluate)

    def multiply(self, v: Vector) -> ShardState:
        """``X v`` takes the place of the scores that were tried."""
        return replace(self, product_of=v, tried=None)

    def start_direction(self, follow: bool = False) -> ShardState:
        """The direction is 0; shards that are far do not `follow`."""
        return replace(self, direction=None)

    def extend_direction(self, step: float) -> ShardState:
        """The direction plus `step` times ``v``."""
        assert self.product_of is not None
        return replace(self, direction=_plus(self.direction, step * self.product_of))

    def aim_at(self, w: Vector) -> ShardState:
        """The direction is the way to `w`."""
        return replace(self, direction=w if self.w is None else w - self.w)

    def try_step(self, step: float, evaluate: Evaluate) -> ShardState:
        """The scores that are tried take the place of ``X v``."""
        return replace(self, product_of=None, tried=(step, evaluate))

    def accept(self) -> ShardState:
        """At the point that was tried."""
        assert self.tried is not None
        step, evaluate = self.tried
        w = self.w if self.direction is None else _plus(self.w, step * self.direction)
        return replace(self, w=w, evaluate=evaluate, tried=None)

    def restore(self, state: ShardState) -> ShardState:
        """Another shard's state."""
        return state


def _plus(a: Vector | None, b: Vector) -> Vector:
    return b if a is None else a + b


def changes_state(rule: Callable[..., ShardState]) -> Callable[[Method], Method]:
    """Declare what a method of `Shard` does to its state.

    Parameters
    ----------
    rule : callable
        ``rule(state, *arguments)`` is the state after the method was called with these arguments.
    """

    def declare(method: Method) -> Method:
        cast(Any, method).state_rule = rule
        return method

    return declare


def keeps_state(method: Method) -> Method:
    """Declare that a method of `Shard` leaves its state as it was."""
    return changes_state(lambda state, *_: state)(method)


def state_after(
    operation: Callable[..., Any], state: ShardState, arguments: tuple[Any, ...]
) -> ShardState:
    """The state of a shard after an operation.

    Raises
    ------
    TypeError
        If the operation does not declare what it does to the state.
    """
    rule = getattr(operation, "state_rule", None)
    if rule is None:
        raise TypeError(
            f"{operation!r} does not declare what it does to the state of a shard: decorate it by "
            "rankplug.shards.changes_state or keeps_state"
        )
    after: ShardState = rule(state, *arguments)
    return after
