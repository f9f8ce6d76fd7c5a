"""Line-search Newton-CG for an L2-regularised loss of linear scores.

    minimise  f(w) = 1/2 w.w + C loss(X w)

for a convex loss with a (generalised) Hessian. The method knows the loss only through
`LinearLoss`, whose scores ``X w`` follow the iterates: a Hessian product also yields ``X v``,
the scores of the Newton direction are gathered from those, and a line search therefore never
reads X.

References
----------
.. [1] Lin, Weng and Keerthi, "Trust region Newton method for large-scale logistic regression",
   JMLR 9 (2008); Lee and Lin, "Large-scale linear rankSVM", Neural Computation 26 (2014),
   equation (4.4), for the stopping rule.
.. [2] Nash and Sofer, "Assessing a search direction within a truncated-Newton method",
   Operations Research Letters 9 (1990), for the end of the conjugate gradients.
.. [3] Zhou and Walker, "Residual smoothing techniques for iterative methods", SIAM Journal on
   Scientific Computing 15 (1994).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np

from rankplug.optim.bracket import MovingLoss, OnIteration, Vector
from rankplug.optim.vectors import inner, norm2
from rankplug.system.interruption import Overdue, interrupted

Operator: TypeAlias = Callable[[Vector], Vector]

MAX_CG_PRODUCTS = 1000
"""A guard: residuals that rounding keeps from falling would go on for ever."""
ROUNDING = 1e-14
"""Relative changes of f below this, some tens of the machine's epsilon, say nothing."""
_IDLE = 1e-3
"""A gradient that shrinks by less, while f stays the same, shrinks by chance."""
_CERTAIN = 1e-3
"""Share of a gradient that rounding errors may be: its square bounds the distance of f from its
minimum, which need not be known to three digits."""
_SUFFICIENT_DECREASE = 0.01  # share of the slope's promise, as in LIBLINEAR's line search
_MAX_HALVINGS = 40  # 2^-40 is 1e-12: shorter steps drown in rounding errors
_CG_SHARE_OF_GOAL = 0.9  # of the gradient asked for; the rest is for the model's error
_CG_TOLERANCE = 0.1
"""Of the first residual: a Newton direction need not be exact far from the minimum [1]_."""
_LEAST_PROGRESS = 0.3
"""Of an average step of the conjugate gradients: less, and a new Newton step gains more. How long
norms of residuals stay large depends on the preconditioner."""
_CHANGED = 0.3  # share of the gradient by which the quadratic model was wrong,
_FEW_PRODUCTS = 10  # after so few products: long runs gain by corrections that are wrong, too


class LinearLoss(MovingLoss, Protocol):
    """A loss with a Hessian; the direction is gathered from the products with it."""

    def hessian_product(self, v: Vector) -> Vector:
        """Hessian of the loss at the current point times `v`; ``X v`` is remembered."""

    def start_direction(self) -> None:
        """Forget the direction gathered so far."""

    def extend_direction(self, step: float) -> None:
        """Add `step` times the ``v`` of the last Hessian product to the direction."""

    def updated_gradient(self) -> tuple[Vector, float] | None:
        """The gradient after `accept`, and about the norm of its error; None if only X tells it."""

    def aim_at(self, w: Vector) -> None:
        """Make the way from the current point to `w` the direction; reads the features once."""


class Preconditioner(Protocol):
    """An approximate inverse of the Hessian of f."""

    def at(self, C: float) -> Operator:
        """The approximate inverse at the loss's current point."""

    def observe(self, v: Vector, product: Vector) -> None:
        """Be told the Hessian of the loss times a vector; neither array changes any more."""

    def forget(self) -> None:
        """Be told that the Hessian has changed much since the last products."""


@dataclass(frozen=True)
class Point:
    """Weights, with the loss and its gradient there."""

    w: Vector
    loss: float
    loss_gradient: Vector

    def objective(self, C: float) -> float:
        """Value of f at the point."""
        return 0.5 * inner(self.w, self.w) + C * self.loss

    def gradient(self, C: float) -> Vector:
        """Gradient of f at the point."""
        return self.w + C * self.loss_gradient


@dataclass(frozen=True)
class Minimum:
    """Where a method ended.

    `status` is "converged", "max_iter", or "stopped": `report` said so, a signal did, or rounding
    errors leave no step that decreases f.
    """

    point: Point
    n_iter: int
    status: Literal["converged", "max_iter", "stopped"]


def newton_cg(
    loss: LinearLoss,
    C: float,
    start: Point,
    *,
    gradient_tol: float,
    gap_tol: float = math.inf,
    max_iter: int,
    preconditioner: Preconditioner,
    report: OnIteration,
) -> Minimum:
    """Minimise f from a point where the loss stands already.

    An iteration

    1. reports value and gradient, and ends if the gradient is small and proves that f is close to
       its minimum, of which ``1/2 |grad f|^2`` is a bound;
    2. solves for the Newton direction by preconditioned conjugate gradients, not exactly, unless
       the last step did not help: then only what cannot be shown to decrease ends the method;
    3. halves the step until f decreases enough, by scores that the products have yielded;
    4. moves there, and updates the gradient, or reads the features once for it.

    Parameters
    ----------
    loss : LinearLoss
        At `start`; it ends at the point returned.
    C : float
    start : Point
    gradient_tol : float
        Stop when the norm of the gradient of f is at most this,
    gap_tol : float
        and f is certainly within this share of itself above its minimum.
    max_iter : int
    preconditioner : Preconditioner
    report : callable

    Raises
    ------
    FloatingPointError
        If numbers became too large for floating point.
    """
    point, last, thorough = start, None, False
    for n_iter in range(max_iter + 1):
        value, gradient = point.objective(C), point.gradient(C)
        norm = require_finite(norm2(gradient))
        going = report(
            n_iter, w=point.w, objective=value, gradient_norm=norm, n_passes=loss.n_passes
        )
        goal = gradient_tol if norm > gradient_tol else math.sqrt(2.0 * gap_tol * abs(value))
        if norm <= min(goal, gradient_tol):
            return Minimum(point, n_iter, "converged")
        stalled = has_stalled(last, value, norm)
        if not going or (stalled and thorough):
            return Minimum(point, n_iter, "stopped")
        if n_iter == max_iter:
            break
        thorough = stalled
        rules = {"thorough": thorough, "proving": norm <= gradient_tol}
        try:
            moved = _take_step(loss, C, point, preconditioner, _CG_SHARE_OF_GOAL * goal, **rules)
        except Overdue:
            moved = None
        if moved is None:
            return Minimum(point, n_iter, "stopped")
        last, point = (value, norm), moved
    return Minimum(point, max_iter, "max_iter")


def _take_step(
    loss: LinearLoss,
    C: float,
    point: Point,
    preconditioner: Preconditioner,
    gradient_goal: float,
    **rules: bool,
) -> Point | None:
    """The next point, None if there is no better one along the Newton direction."""
    value, gradient = point.objective(C), point.gradient(C)
    direction, residual, n_products = _solve_for_direction(
        loss, C, point.w, gradient, preconditioner, gradient_goal, **rules
    )
    step = _search_line(loss, C, point.w, value, gradient, direction)
    if step is None:
        return None
    length, loss_value = step
    loss.accept()
    reached = point_after(loss, C, point.w + length * direction, loss_value)
    if n_products <= _FEW_PRODUCTS:
        expected = (1.0 - length) * gradient - length * residual
        if norm2(reached.gradient(C) - expected) > _CHANGED * norm2(gradient):
            preconditioner.forget()
    return reached


def point_after(loss: LinearLoss, C: float, w: Vector, value: float) -> Point:
    """The point `w`, which the loss was made to accept, with its gradient.

    That is the last one, updated, unless rounding errors may be a part of it to speak of.
    """
    updated = loss.updated_gradient()
    if updated is not None:
        point = Point(w, value, updated[0])
        if C * updated[1] <= _CERTAIN * norm2(point.gradient(C)):
            return point
    return Point(w, value, loss.gradient())


def has_stalled(last: tuple[float, float] | None, value: float, norm: float) -> bool:
    """Whether rounding errors rule: neither f nor the norm of its gradient went down."""
    return last is not None and value >= last[0] * (1 - ROUNDING) and norm >= last[1] * (1 - _IDLE)


def require_finite(number: float) -> float:
    """The number itself; `FloatingPointError` if it is infinite or NaN."""
    if not math.isfinite(number):
        raise FloatingPointError("a norm or curvature is too large for floating point")
    return number


def _solve_for_direction(
    loss: LinearLoss,
    C: float,
    w: Vector,
    gradient: Vector,
    preconditioner: Preconditioner,
    gradient_goal: float,
    *,
    thorough: bool,
    proving: bool,
) -> tuple[Vector, Vector, int]:
    """Conjugate gradients on ``(I + C H) p = -gradient``: p, its residual, and how many products.

    They stop at a tenth of the first residual, in the preconditioner's norm; when a step decreases
    the quadratic model by little beside the average of all steps [2]_, unless they are to be
    thorough; or when the model promises a gradient of at most `gradient_goal`, for p or for a mean
    of all p so far that has a smaller residual [3]_. The scores of such a mean are read from the
    features, which costs no more than to go on. While all that is left is `proving` that f is near
    its minimum, where the model is exact, they go on if one more product should reach that goal.
    They stop also when interrupted, or where rounding errors rule: wherever they stop the direction
    is one of descent.
    """
    precondition = preconditioner.at(C)
    p = np.zeros_like(gradient)
    residual = -gradient
    mean, mean_residual = p.copy(), residual.copy()
    preconditioned = precondition(residual)
    search = preconditioned.copy()
    square = inner(residual, preconditioned)
    enough, decrease, norm = _CG_TOLERANCE**2 * square, 0.0, norm2(residual)
    loss.start_direction()
    for n_products in range(1, MAX_CG_PRODUCTS + 1):
        loss_product = loss.hessian_product(search)
        product = search + C * loss_product
        curvature = require_finite(inner(search, product))
        if curvature <= 0.0:  # by rounding errors or underflow
            break
        preconditioner.observe(search, loss_product)
        step = square / curvature
        p += step * search
        loss.extend_direction(step)
        residual -= step * product
        _smooth(mean, mean_residual, p, residual)
        decrease += step * square  # twice that of the model
        before, norm = norm, norm2(residual)
        if norm <= gradient_goal or interrupted():
            break
        if norm2(mean_residual) <= gradient_goal:
            loss.aim_at(w + mean)
            return mean, mean_residual, n_products
        nearly = proving and norm * norm <= gradient_goal * before
        if not (thorough or nearly) and n_products * step * square <= _LEAST_PROGRESS * decrease:
            break
        preconditioned = precondition(residual)
        square_before, square = square, inner(residual, preconditioned)
        if square <= enough and not nearly:
            break
        search = preconditioned + (square / square_before) * search
    return p, residual, n_products


def _smooth(mean: Vector, mean_residual: Vector, p: Vector, residual: Vector) -> None:
    """Move a mean of iterates towards the latest one, to the least norm of its residual."""
    way = residual - mean_residual
    length = inner(way, way)
    if length > 0.0:
        share = min(max(-inner(mean_residual, way) / length, 0.0), 1.0)
        mean_residual += share * way
        mean += share * (p - mean)


def _search_line(
    loss: LinearLoss, C: float, w: Vector, value: float, gradient: Vector, direction: Vector
) -> tuple[float, float] | None:
    """The first of the steps 1, 1/2, 1/4, ... that decreases f enough, and the loss there."""
    slope = inner(gradient, direction)
    w_w, w_p, p_p = inner(w, w), inner(w, direction), inner(direction, direction)
    # Close to the minimum the decrease drowns in the rounding errors of f.
    slack = ROUNDING * abs(value)
    step = 1.0
    for _ in range(_MAX_HALVINGS):
        tried = loss.loss_along(step)
        regulariser = 0.5 * (w_w + 2.0 * step * w_p + step * step * p_p)
        if regulariser + C * tried <= value + _SUFFICIENT_DECREASE * step * slope + slack:
            return step, tried
        step *= 0.5
    return None
