"""Trust-region Newton (TRON) for the same problem as `rankplug.optim.newton_cg`.

The constants and the update of the radius are those of the rankSVM paper and of LIBLINEAR;
the direction comes from Steihaug's conjugate gradients, which stop at the boundary.

References
----------
.. [1] Lin and More, "Newton's method for large bound-constrained optimization problems",
   SIAM J. Optimization 9 (1999); Lee and Lin, Neural Computation 26 (2014), section 4.
"""

from __future__ import annotations

import numpy as np

from rankplug.optim.bracket import OnIteration, Vector
from rankplug.optim.newton_cg import (
    MAX_CG_PRODUCTS,
    ROUNDING,
    LinearLoss,
    Minimum,
    Point,
    has_stalled,
    point_after,
    require_finite,
)
from rankplug.optim.vectors import inner, norm2
from rankplug.system.interruption import Overdue, interrupted

_CG_TOLERANCE = 0.1  # of the first residual, as in [1]_
# Both as in [1]_: shares of the predicted decrease from which a step is taken, or the region kept
# or grown; and by how much its radius changes.
_ETA = (1e-4, 0.25, 0.75)
_SIGMA = (0.25, 0.5, 4.0)


def tron(
    loss: LinearLoss,
    C: float,
    start: Point,
    *,
    gradient_tol: float,
    max_iter: int,
    report: OnIteration,
) -> Minimum:
    """Minimise ``1/2 w.w + C loss(X w)`` to a small gradient; parameters as for `newton_cg`."""
    point, last = start, None
    radius = norm2(point.gradient(C))
    for n_iter in range(max_iter + 1):
        value, gradient = point.objective(C), point.gradient(C)
        norm = require_finite(norm2(gradient))
        going = report(
            n_iter, w=point.w, objective=value, gradient_norm=norm, n_passes=loss.n_passes
        )
        if norm <= gradient_tol:
            return Minimum(point, n_iter, "converged")
        if not going or has_stalled(last, value, norm):
            return Minimum(point, n_iter, "stopped")
        if n_iter == max_iter:
            break
        last = None
        try:
            step, residual = _solve_within(loss, C, gradient, radius)
            w, loss_value = point.w + step, loss.loss_along(1.0)
            actual = 0.5 * inner(w, w) + C * loss_value - value
            slope = inner(gradient, step)
            predicted = 0.5 * (slope - inner(step, residual))
            length = norm2(step)
            # Close to the minimum both decreases drown in the rounding errors of f.
            negligible = max(abs(actual), abs(predicted)) <= ROUNDING * abs(value)
            if n_iter == 0:
                radius = min(radius, length)
            if not negligible:
                radius = _update_radius(radius, length, slope, actual, predicted)
            if negligible or actual < _ETA[0] * predicted:
                last = value, norm
                loss.accept()
                point = point_after(loss, C, w, loss_value)
        except Overdue:
            return Minimum(point, n_iter, "stopped")
    return Minimum(point, max_iter, "max_iter")


def _update_radius(
    radius: float, length: float, slope: float, actual: float, predicted: float
) -> float:
    """Shrink, keep or grow the region by how well the quadratic model predicted the decrease.

    `alpha` minimises the parabola through both values and the slope (LIBLINEAR's rule).
    """
    curvature = actual - slope
    alpha = _SIGMA[2] if curvature <= 0 else max(_SIGMA[0], -0.5 * slope / curvature)
    if actual > _ETA[0] * predicted:
        return min(max(alpha, _SIGMA[0]) * length, _SIGMA[1] * radius)
    if actual > _ETA[1] * predicted:
        return max(_SIGMA[0] * radius, min(alpha * length, _SIGMA[1] * radius))
    if actual > _ETA[2] * predicted:
        return max(_SIGMA[0] * radius, min(alpha * length, _SIGMA[2] * radius))
    return max(radius, min(alpha * length, _SIGMA[2] * radius))


def _solve_within(
    loss: LinearLoss, C: float, gradient: Vector, radius: float
) -> tuple[Vector, Vector]:
    """Conjugate gradients within a ball: the step and its residual ``-gradient - H step``."""
    step = np.zeros_like(gradient)
    residual = -gradient
    search = residual.copy()
    square = inner(residual, residual)
    enough = _CG_TOLERANCE**2 * square
    loss.start_direction()
    for _ in range(MAX_CG_PRODUCTS):
        product = search + C * loss.hessian_product(search)
        curvature = require_finite(inner(search, product))
        if curvature <= 0.0:  # by rounding errors or underflow
            break
        alpha = square / curvature
        if norm2(step + alpha * search) > radius:
            alpha = _reach_boundary(step, search, radius)
            square = 0.0
        step += alpha * search
        loss.extend_direction(alpha)
        residual -= alpha * product
        if square == 0.0:
            break
        before, square = square, inner(residual, residual)
        if square <= enough or interrupted():
            break
        search = residual + (square / before) * search
    return step, residual


def _reach_boundary(step: Vector, search: Vector, radius: float) -> float:
    """The positive t with ``|step + t search| = radius``."""
    a, b = inner(search, search), inner(step, search)
    room = radius * radius - inner(step, step)
    root = float(np.sqrt(b * b + a * room))
    return room / (b + root) if b >= 0 else (root - b) / a
