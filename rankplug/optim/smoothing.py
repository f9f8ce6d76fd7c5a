"""Newton's method for a nonsmooth loss, through ever closer smooth ones.

    minimise  f(w) = 1/2 w.w + C loss(X w),   loss = sum of h(t) over hinges t

A hinge is replaced by a Huber function that is quadratic over a width. At the minimum of the
smooth problem the slopes of its hinges are a feasible dual point, which certifies how far f is
from its own minimum; at any other point they still are one. So both bounds of the minimum come
with each Newton step, and the width shrinks once it, rather than the smooth problem's remaining
gradient, is what keeps the bounds apart.

The squares of slacks within a narrow width drown in rounding errors when C times the loss at zero
is some 1e10 times the minimum or more (separable data with a huge C): then the method stops early.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from rankplug.optim.bracket import Bracket, Certified, OnIteration, Vector
from rankplug.optim.newton_cg import (
    LinearLoss,
    Point,
    Preconditioner,
    has_stalled,
    newton_cg,
    require_finite,
)
from rankplug.optim.vectors import inner, norm2
from rankplug.system.interruption import Overdue, raise_if_overdue

# Where the method ends without convergence:
_NARROWEST = 1e-9  # width; a slack within a narrower one has lost half of its digits
_PROGRESS = 0.99  # an iteration that leaves more of the gap than this is idle
_MOST_IDLE_ITERATIONS = 30
# When and how the width shrinks, which decides the number of steps, not what they find:
_SMOOTH_ENOUGH = 0.3  # share of the gap that the smooth problem's own distance may have
_AIM = 0.3  # share of the gap asked for at which the next width aims
_SHRINK = (0.05, 0.5)  # least factor, from which Newton still starts close, and largest one
_GRADIENT_GOAL = 0.1  # times the gradient whose 1/2 |g|^2 is about the gap asked for


class SmoothedLoss(LinearLoss, Protocol):
    """A sum of Huberised hinges of linear scores.

    h(t) = t^2 / (2 width) for t in (0, width),   t - width / 2 above,   0 below
    """

    width: float

    def narrow(self, width: float) -> float:
        """Change the width; return the loss at the current point. No pass over X."""

    def hinge(self) -> float:
        """The loss at the current point without smoothing."""

    def total_slope(self) -> float:
        """Sum of the slopes h'(t) at the current point."""


def smoothed_newton(
    loss: SmoothedLoss,
    C: float,
    w: Vector | None,
    *,
    tol: float,
    max_iter: int,
    preconditioner: Preconditioner,
    report: OnIteration,
) -> Certified:
    """Minimise f, with the loss's own width at first.

    An iteration

    1. brackets the minimum by the value of f and the dual value of the slopes;
    2. ends if the gap is at most `tol` times f, but not at 0 before the first step: with a tiny
       C even 0 may be that close;
    3. narrows the hinges, if their width rather than the gradient keeps the bounds apart;
    4. takes one Newton step on the smooth problem.

    It starts from `w`, None for 0; other parameters are as for `newton_cg`.
    """
    value, fresh = loss.move_to(w), w is None
    w = np.zeros(loss.n_columns) if w is None else w
    point = Point(w, value, loss.gradient())
    bracket, closed, idle = Bracket(w), np.inf, 0
    last: tuple[float, float] | None = None
    for n_iter in range(max_iter + 1):
        gap = _certify(loss, C, point, bracket)
        going = report(
            n_iter,
            w=bracket.w,
            objective=bracket.objective,
            duality_gap=bracket.gap,
            width=loss.width,
            n_passes=loss.n_passes,
        )
        if bracket.relative_gap <= tol and not (fresh and n_iter == 0):
            return Certified(bracket, n_iter, "converged", loss.n_passes)
        idle = 0 if bracket.gap < _PROGRESS * closed else idle + 1
        closed = bracket.gap if idle == 0 else closed
        if not going or loss.width < _NARROWEST or idle > _MOST_IDLE_ITERATIONS:
            return Certified(bracket, n_iter, "stopped", loss.n_passes)
        if n_iter == max_iter:
            break
        goal = tol * abs(bracket.objective)
        here = point.objective(C), norm2(point.gradient(C))
        try:
            if 0.5 * here[1] ** 2 <= _SMOOTH_ENOUGH * gap or has_stalled(last, *here):
                value = loss.narrow(loss.width * _shrink(goal, gap))
                point = Point(point.w, value, loss.gradient())
                here = point.objective(C), norm2(point.gradient(C))
            last = here
            point = _take_newton_step(loss, C, point, goal, preconditioner)
            raise_if_overdue()  # then Newton's method gave up in the middle
        except Overdue:
            return Certified(bracket, n_iter, "stopped", loss.n_passes)
    return Certified(bracket, max_iter, "max_iter", loss.n_passes)


def _certify(loss: SmoothedLoss, C: float, point: Point, bracket: Bracket[Vector]) -> float:
    """Update both bounds by the point and its slopes; returns the gap between those two.

    With multipliers alpha = C h'(t) of the hinges, the dual value is
    ``sum alpha - 1/2 |C gradient of the loss|^2``.
    """
    primal = 0.5 * inner(point.w, point.w) + C * loss.hinge()
    dual_w = C * point.loss_gradient
    dual = C * loss.total_slope() - 0.5 * inner(dual_w, dual_w)
    bracket.offer(point.w, require_finite(primal))
    bracket.raise_bound(require_finite(dual))
    return primal - dual


def _shrink(goal: float, gap: float) -> float:
    """By how much to narrow: the gap falls with the square of the width, about."""
    least, most = _SHRINK
    return min(max(float(np.sqrt(_AIM * goal / max(gap, goal))), least), most)


def _take_newton_step(
    loss: SmoothedLoss, C: float, point: Point, goal: float, preconditioner: Preconditioner
) -> Point:
    return newton_cg(
        loss,
        C,
        point,
        gradient_tol=_GRADIENT_GOAL * float(np.sqrt(goal)),
        max_iter=1,
        preconditioner=preconditioner,
        report=lambda *_, **__: True,
    ).point
