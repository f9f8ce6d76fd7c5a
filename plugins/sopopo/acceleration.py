"""Jumps of the dual variables to where epochs lead."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.system.interruption import interrupted
from rankplug_plugins.sopopo.problems import Problem

__all__ = ["Extrapolation"]

Vector: TypeAlias = NDArray[np.float64]

_STEPS = 8
_MOST_VALUES = 2**26  # of all dual vectors kept: 512 MB
_RIDGE = 1e-10


class Extrapolation:
    """Jumps to where a few epochs in the same order seem to lead, if the dual is higher there.

    Near the maximum ascent over blocks converges linearly, slowly for a large C. Its limit is
    guessed to be the affine combination of the last dual vectors whose steps cancel out best
    (Anderson's method, as for coordinate descent by Bertrand and Massias, AISTATS 2021). Far
    from it many variables grow evenly, and the last direction is followed instead. Either way
    soft projections bring the guess back into the constraints.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        n_values = len(problem.graphs.dual)
        self._n_steps = min(_STEPS, _MOST_VALUES // max(n_values, 1) - 1)
        self._duals: list[Vector] = []

    @property
    def starts_anew(self) -> bool:
        """Whether the next epoch may take another order."""
        return not self._duals

    def after_epoch(self) -> None:
        """Remember the dual variables, and jump when there are enough of them."""
        if self._n_steps < 2:
            return
        self._duals.append(np.array(self._problem.graphs.dual))
        if len(self._duals) > self._n_steps:
            duals, self._duals = self._duals, []
            with np.errstate(over="ignore", invalid="ignore"):  # then the jump is not taken
                if not self._jump(_extrapolated(np.array(duals))):
                    self._stride(duals[-1], duals[-1] - duals[0])

    def _stride(self, start: Vector, direction: Vector) -> None:
        """Go on as before, twice as far each time, for as long as the dual rises."""
        length = 1.0
        while not interrupted() and self._jump(start + length * direction):
            length *= 2.0

    def _jump(self, target: Vector) -> bool:
        """Move to the closest feasible point unless the dual is lower there; whether it moved."""
        problem = self._problem
        dual, weights = np.array(problem.graphs.dual), problem.weights.copy()
        before = dual_objective(problem)
        problem.graphs.move_to(target)
        problem.recompute()
        if not interrupted() and dual_objective(problem) > before:
            return True
        np.asarray(problem.graphs.dual)[:] = dual
        problem.weights[:] = weights
        return False


def dual_objective(problem: Problem) -> float:
    """Lower bound of the minimum at the present dual variables."""
    return float(problem.graphs.linear() - 0.5 * problem.squared_norm())


def _extrapolated(duals: NDArray[np.float64]) -> Vector:
    steps = np.diff(duals, axis=0)
    size = np.abs(steps).max()
    if size == 0.0:
        return np.asarray(duals[-1])
    steps /= size
    gram = steps @ steps.T
    gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram)
    share = np.linalg.solve(gram, np.ones(len(gram)))
    target: Vector = (share / share.sum()) @ duals[1:]
    return target
