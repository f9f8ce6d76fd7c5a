"""The best point and the best lower bound of a minimum so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.optim.newton_cg import finite

__all__ = ["Bracket", "Certified"]

Vector: TypeAlias = NDArray[np.float64]


@dataclass
class Bracket:
    """What is known of the minimum: it lies between `lower_bound` and `objective`.

    Attributes
    ----------
    w : ndarray
        The point with the least objective so far.
    objective : float
        Its objective.
    lower_bound : float
        Of the minimum.
    """

    w: Vector
    objective: float = np.inf
    lower_bound: float = -np.inf

    def offer(self, w: Vector, objective: float) -> None:
        """Take the point if it is better."""
        if finite(objective) < self.objective:
            self.w, self.objective = w, objective

    def raise_bound(self, lower_bound: float) -> None:
        """Take the bound if it is better."""
        self.lower_bound = max(self.lower_bound, finite(lower_bound))

    @property
    def gap(self) -> float:
        """Objective minus lower bound; never negative, as rounding errors could make it."""
        return max(self.objective - self.lower_bound, 0.0)

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the objective's absolute value."""
        return self.gap / max(abs(self.objective), float(np.finfo(np.float64).tiny))


@dataclass(frozen=True)
class Certified:
    """Where a method ended.

    `status` is "converged", "max_iter", or "stopped": `report` said so, or rounding errors
    allow no further progress.
    """

    bracket: Bracket
    n_iter: int
    status: Literal["converged", "max_iter", "stopped"]
