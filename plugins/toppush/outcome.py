"""What a method of TopPush returns, and how it tells of its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bounds", "Outcome", "Report"]

Vector: TypeAlias = NDArray[np.float64]
Report: TypeAlias = Callable[..., bool]
"""Called as ``report(n_iter, objective=..., ...)`` after each iteration; False stops."""


@dataclass(eq=False)
class Bounds:
    """The best weights seen, their value of P, and the best lower bound of its minimum.

    They start from w = 0 with value 1, so that no method returns anything worse.
    """

    w: Vector
    objective: float = 1.0
    lower_bound: float = 0.0

    def offer(self, w: Vector, objective: float) -> None:
        """Keep the weights if they are better."""
        if objective < self.objective:
            self.w, self.objective = w.copy(), objective

    def raise_to(self, lower_bound: float) -> None:
        """Keep the lower bound if it is higher."""
        self.lower_bound = max(self.lower_bound, lower_bound)

    @property
    def gap(self) -> float:
        """The certified duality gap; rounding errors can make it slightly negative."""
        return self.objective - self.lower_bound

    def closed(self, tol: float) -> bool:
        """Whether the gap is at most `tol` times the objective."""
        return self.gap <= tol * self.objective


@dataclass(frozen=True, eq=False)
class Outcome:
    """Where a method ended; "stopped": `report` said so, or rounding errors end the progress."""

    bounds: Bounds
    status: Literal["converged", "max_iter", "stopped"]
    n_iter: int
    n_passes: float
