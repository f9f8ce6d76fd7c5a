"""Interfaces of iterative methods: a moving loss, the bracket of its minimum, and the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
OnIteration: TypeAlias = Callable[..., bool]
"""Called as ``report(n_iter, w=w, objective=..., ...)`` after each iteration; False stops."""
Weights = TypeVar("Weights")


class MovingLoss(Protocol):
    """A convex loss of the scores X w of the current point, which only moves when told to."""

    n_passes: float

    @property
    def n_columns(self) -> int:
        """Length of a weight vector."""

    def move_to(self, w: Vector | None) -> float:
        """Go to `w` (0 for None) and return the loss there."""

    def gradient(self) -> Vector:
        """Gradient, or a subgradient, of the loss by the weights at the current point."""

    def loss_along(self, step: float) -> float:
        """Loss after `step` times the direction; needs no pass over X."""

    def accept(self) -> None:
        """Make the step last tried the current point; the direction stays."""


@dataclass
class Bracket(Generic[Weights]):
    """The best point and the best lower bound so far: between them lies the minimum.

    Attributes
    ----------
    w : ndarray, or what a method has as its point
        The point with the least objective so far.
    objective : float
        Its objective.
    lower_bound : float
        Of the minimum.
    """

    w: Weights
    objective: float = np.inf
    lower_bound: float = -np.inf

    def offer(self, w: Weights, objective: float) -> None:
        """Take the point if it is better."""
        if objective < self.objective:
            self.w, self.objective = w, objective

    def raise_bound(self, lower_bound: float) -> None:
        """Take the bound if it is better."""
        self.lower_bound = max(self.lower_bound, lower_bound)

    @property
    def difference(self) -> float:
        """Objective minus lower bound, which rounding errors can make slightly negative."""
        return self.objective - self.lower_bound

    @property
    def gap(self) -> float:
        """The difference, or 0 if that is negative."""
        return max(self.difference, 0.0)

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the objective's absolute value."""
        return self.gap / max(abs(self.objective), float(np.finfo(np.float64).tiny))


def recheck(bracket: Bracket[Weights], objective: float, error: float) -> float:
    """The gap of an objective that was evaluated anew, where rounding errors may be as large.

    What has changed is an error of the lower bound, too.
    """
    gap = max(objective - bracket.lower_bound, 0.0)
    return gap + abs(objective - bracket.objective) + error


@dataclass(frozen=True)
class Certified:
    """Where a method ended.

    `status` is "converged", "max_iter", or "stopped": `report` said so, or rounding errors allow
    no further progress. `n_passes` counts the passes over the features so far, with those of
    earlier runs on the same loss.
    """

    bracket: Bracket[Vector]
    n_iter: int
    status: Literal["converged", "max_iter", "stopped"]
    n_passes: float
