"""ADMM, A2DM2 and TopPush with the stops of the A2DM2 paper, iterate by iterate.

The iterates end by small residuals or small changes, not at a certified minimum: where w = 0 is
optimal, as for ijcnn1 and a9a, their directions rank on the way there, and that is what the paper
measures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from rankplug.models import LinearModel, Model
from rankplug.objectives import TopProblem
from rankplug.optim.a2dm2 import Variant, splitting
from rankplug.optim.bracket import Vector
from rankplug_plugins.a2dm2.split import TopSplit
from rankplug_plugins.toppush.apg import accelerated_gradient

Stop: TypeAlias = Literal["combined", "sum"]
"""What is to be small: equation (9), or the norms of both residuals, added."""

TOL = 1e-4  # the paper's epsilon
FIRST_END = 10  # iterations without a stop
MOST_ITERATIONS = 2000  # the paper states none
ETA = 0.8  # of the restarts, in the paper's section 5.4


@dataclass(frozen=True, eq=False)
class Fit:
    """Where a run ended: by its stop, or at the most iterations or numbers that overflow."""

    model: Model
    n_iter: int
    finished: bool


@dataclass(frozen=True, eq=False)
class Point:
    """An iterate, what its stop looks at, and how often momentum began anew."""

    n_iter: int
    w: Vector
    residual: float
    restarts: int = 0


def follow_splitting(
    split: TopSplit, variant: Variant, rho: float, eta: float = ETA, stop: Stop = "combined"
) -> Iterator[Point]:
    """Iterates of a variant on problem (13), from zero; they end where numbers overflow."""
    zero = np.zeros(len(split.c))
    restarts = 0
    for step in splitting(split, variant, rho, y=zero, multiplier=zero, eta=eta):
        restarts += step.restarted
        residual = step.primal_residual + step.dual_residual
        if not math.isfinite(residual):
            return
        if stop == "combined":  # |g - g^|^2 / rho + rho |B (y - y^)|^2
            residual = rho * step.primal_residual**2 + step.dual_residual**2 / rho
        yield Point(step.n_iter, step.x[: split.n_weights], residual, restarts)


def fit_by_splitting(split: TopSplit, variant: Variant, rho: float, stop: Stop = "combined") -> Fit:
    """Until the residual is below the tolerance, after more than ten iterations."""
    with np.errstate(over="ignore", invalid="ignore"):
        for point in follow_splitting(split, variant, rho, stop=stop):
            if point.n_iter > FIRST_END and point.residual < TOL:
                return Fit(LinearModel(point.w), point.n_iter, finished=True)
            if point.n_iter == MOST_ITERATIONS:
                break
    return Fit(LinearModel(point.w), point.n_iter, finished=False)


def follow_toppush(
    problem: TopProblem, lam: float, max_iter: int, ends: Callable[[Point], bool] | None = None
) -> list[Point]:
    """Iterates of accelerated gradients on the dual; `residual` is its relative change."""
    points: list[Point] = []
    last = 0.0

    def report(
        n_iter: int, *, iterate: Any, objective: float, duality_gap: float, **_: Any
    ) -> bool:
        nonlocal last
        dual = objective - duality_gap
        change = abs(dual - last) / abs(last) if last else math.inf
        last = dual
        points.append(Point(n_iter, iterate[0], change))
        return ends is None or not ends(points[-1])

    accelerated_gradient(problem, lam, tol=1e-12, max_iter=max_iter, report=report)
    return points


def fit_by_toppush(problem: TopProblem, lam: float) -> Fit:
    """Until the dual changes by less than the tolerance, at or after the tenth iteration."""

    def ends(point: Point) -> bool:
        return point.n_iter >= FIRST_END and point.residual <= TOL

    points = follow_toppush(problem, lam, MOST_ITERATIONS, ends)
    return Fit(LinearModel(points[-1].w), points[-1].n_iter, finished=ends(points[-1]))
