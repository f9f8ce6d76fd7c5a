"""The bundle method for an L2-regularised convex loss of linear scores, with line search.

    minimise  f(w) = 1/2 w.w + C loss(X w)

Every subgradient gives a plane below the loss, ``loss(v) >= g.v + b``. The minimum of the
problem with the loss replaced by the highest of its planes bounds the true minimum from below;
it is found by a quadratic program over the simplex with one variable a plane,

    maximise  C b.a - 1/2 |C sum_k a_k g_k|^2,     w = -C sum_k a_k g_k,

and any feasible a is such a bound. Planes do not depend on C: they serve a whole path.

References
----------
.. [1] Teo, Vishwanathan, Smola and Le, "Bundle methods for regularized risk minimization",
   JMLR 11 (2010).
.. [2] Franc and Sonnenburg, "Optimized cutting plane algorithm for large-scale risk
   minimization", JMLR 10 (2009), for the line search and where to cut after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

import numpy as np
from scipy import optimize

from rankplug.optim.bracket import Bracket, Certified, MovingLoss, OnIteration, Vector
from rankplug.optim.newton_cg import require_finite
from rankplug.optim.simplex_qp import maximise_on_simplex
from rankplug.system.interruption import Overdue

BundleMethod: TypeAlias = Literal["ocas", "bmrm"]

_PATIENCE = 30  # programs without a part in the solution, after which a plane's place is free
_QP_SHARE_OF_GAP = 0.01  # left by a program, so that its error hides no progress
_CUT = 1e-3  # share of the way to the model's minimum, see `bundle_method`
_MOST_IDLE_ITERATIONS = 50  # that closed no gap: rounding errors rule
# Of the line search, which has to find better planes, not the exact minimum:
_FLAT = 0.02  # share of the first slope that counts as none
_MAX_EVALUATIONS = 12
_LONGEST = 64.0  # times the way to the model's minimum


class LineLoss(MovingLoss, Protocol):
    """A loss with subgradients, at the current point and along a line from it."""

    def aim_at(self, w: Vector) -> None:
        """Make the way from the current point to `w` the direction."""

    def slope(self) -> float:
        """Slope along the direction at the current point."""

    def slope_along(self) -> float:
        """Slope along the direction at the step last tried."""

    def gradient_along(self) -> Vector:
        """A subgradient by the weights at the step last tried."""


class Planes:
    """Planes below a loss that is never negative, and the minimum above them.

    A plane that was in no solution for `_PATIENCE` programs gives its place to a new one. Those
    in the solution stay, so the lower bound never falls and convergence is kept.
    """

    def __init__(self, n_columns: int) -> None:
        self._gradients = np.zeros((16, n_columns))
        self._offsets = np.zeros(16)
        self._gram = np.zeros((16, 16))
        self._idle = np.zeros(16, dtype=np.int64)
        # The first plane says that the loss is not negative.
        self._multipliers = np.ones(1)

    def __len__(self) -> int:
        return len(self._multipliers)

    def add(self, w: Vector, loss: float, gradient: Vector) -> None:
        """Add the plane that touches the loss at `w`."""
        k = self._place()
        n = len(self)
        self._gradients[k] = gradient
        self._offsets[k] = loss - float(gradient @ w)
        self._gram[k, :n] = self._gram[:n, k] = self._gradients[:n] @ gradient
        self._idle[k] = 0

    def minimise(self, C: float, tol: float) -> tuple[Vector, float]:
        """The point with the least ``1/2 w.w + C max_k (g_k.w + b_k)``, and a lower bound of that.

        Parameters
        ----------
        C : float
        tol : float
            How far the bound may be from the largest one.
        """
        n = len(self)
        offsets, gradients, H = self._offsets[:n], self._gradients[:n], C * self._gram[:n, :n]
        require_finite(float(H.trace()))
        a = maximise_on_simplex(H, offsets, self._multipliers, tol=tol / C)
        self._multipliers = a
        self._idle[:n] = np.where(a > 0, 0, self._idle[:n] + 1)
        w: Vector = -C * (a @ gradients)
        return w, C * float(a @ offsets) - 0.5 * float(w @ w)

    def _place(self) -> int:
        """Where a new plane goes; the first plane keeps its place."""
        n = len(self)
        longest_idle = 1 + int(np.argmax(self._idle[1:n])) if n > 1 else 0
        if longest_idle and self._idle[longest_idle] > _PATIENCE:
            return longest_idle
        if n == len(self._offsets):
            self._grow()
        self._multipliers = np.append(self._multipliers, 0.0)
        return n

    def _grow(self) -> None:
        n = len(self._offsets)
        self._gradients = np.concatenate((self._gradients, np.zeros_like(self._gradients)))
        self._offsets = np.concatenate((self._offsets, np.zeros(n)))
        self._gram = np.pad(self._gram, (0, n))
        self._idle = np.concatenate((self._idle, np.zeros(n, dtype=np.int64)))


def bundle_method(
    loss: LineLoss,
    C: float,
    planes: Planes,
    w: Vector | None,
    *,
    method: BundleMethod,
    tol: float,
    max_iter: int,
    report: OnIteration,
) -> Certified:
    """Minimise f; one plane is added an iteration.

    An iteration

    1. minimises the model, f with the highest of the planes as its loss, for the lower bound;
    2. ends if the gap is at most `tol` times the best f, but not at 0 before the first step: with
       a tiny C even 0 may be that close;
    3. adds a plane: "bmrm" at the minimum of the model. "ocas" looks for the least f on the way
       there from the best point so far, and cuts a little further on: 0.1 % of the remaining way,
       but ten times as far after each iteration that closed no gap. (The paper's 10 % needs four
       times the planes where kinks are dense, as with many pairs.)

    `planes` are empty, or of an earlier run with the same loss and any C. It starts from `w`, None
    for 0; other parameters are as for `newton_cg`.
    """
    value, fresh = loss.move_to(w), w is None
    w = np.zeros(loss.n_columns) if w is None else w
    bracket = Bracket(w)
    bracket.offer(w, require_finite(0.5 * float(w @ w) + C * value))
    if len(planes) == 1:
        planes.add(w, value, loss.gradient())
    gap, idle = bracket.gap, 0
    for n_iter in range(max_iter + 1):
        minimum, bound = planes.minimise(C, _choose_tolerance(bracket, tol))
        bracket.raise_bound(require_finite(bound))
        going = report(
            n_iter,
            w=bracket.w,
            objective=bracket.objective,
            duality_gap=bracket.gap,
            n_planes=len(planes),
            n_passes=loss.n_passes,
        )
        if bracket.relative_gap <= tol and not (fresh and n_iter == 0):
            return Certified(bracket, n_iter, "converged", loss.n_passes)
        idle = 0 if bracket.gap < gap else idle + 1
        gap = bracket.gap
        if not going or idle > _MOST_IDLE_ITERATIONS:
            return Certified(bracket, n_iter, "stopped", loss.n_passes)
        if n_iter == max_iter:
            break
        try:
            if method == "bmrm":
                planes.add(*_cut_at_minimum(loss, C, bracket, minimum))
            else:
                further = min(_CUT * 10.0**idle, 1.0)
                planes.add(*_cut_after_line_search(loss, C, bracket, minimum, further))
        except Overdue:
            return Certified(bracket, n_iter, "stopped", loss.n_passes)
    return Certified(bracket, max_iter, "max_iter", loss.n_passes)


def _choose_tolerance(bracket: Bracket[Vector], tol: float) -> float:
    """A small share of the gap, and of the gap that is asked for."""
    size = abs(bracket.objective)
    return _QP_SHARE_OF_GAP * max(min(bracket.gap, size), tol * size)


def _cut_at_minimum(
    loss: LineLoss, C: float, bracket: Bracket[Vector], minimum: Vector
) -> tuple[Vector, float, Vector]:
    """The plane at the minimum of the model."""
    value = loss.move_to(minimum)
    bracket.offer(minimum, require_finite(0.5 * float(minimum @ minimum) + C * value))
    return minimum, value, loss.gradient()


def _cut_after_line_search(
    loss: LineLoss, C: float, bracket: Bracket[Vector], minimum: Vector, further: float
) -> tuple[Vector, float, Vector]:
    """Move the best point, where the loss stands, on the way to the minimum of the model.

    The plane returned is that at a share of the remaining way, which cuts the minimum off.
    """
    direction = minimum - bracket.w
    loss.aim_at(minimum)
    length = _search_line(loss, C, bracket, direction)
    step = further * (1.0 - length)
    w = bracket.w + step * direction
    return w, loss.loss_along(step), loss.gradient_along()


def _search_line(loss: LineLoss, C: float, bracket: Bracket[Vector], direction: Vector) -> float:
    """Go to about the least f along the direction; returns the step.

    f is convex and piecewise quadratic, so its slope rises; its root is bracketed and found by
    regula falsi in the Illinois variant. It needs no pass over X.
    """
    start = bracket.w
    linear, square = float(start @ direction), float(direction @ direction)
    first = linear + C * loss.slope()
    if first >= 0.0:
        return 0.0
    value = 0.0

    def slope_at(step: float) -> float:
        nonlocal value
        value = loss.loss_along(step)
        return linear + step * square + C * loss.slope_along()

    step = _find_root(slope_at, first)
    w = start + step * direction
    objective = 0.5 * float(w @ w) + C * value
    if objective >= bracket.objective:
        return 0.0
    bracket.offer(w, require_finite(objective))
    loss.accept()
    return step


def _find_root(function: Callable[[float], float], at_zero: float) -> float:
    """About where a rising function, negative at zero, becomes positive; the last step tried."""
    flat = _FLAT * -at_zero
    values = {0.0: at_zero}

    def flatten(step: float) -> float:
        if step not in values:
            values[step] = function(step)
        return 0.0 if abs(values[step]) <= flat else values[step]

    low, high = 0.0, 1.0
    while flatten(high) < 0 and high < _LONGEST:
        low, high = high, 2.0 * high
    if flatten(high) <= 0:
        return high
    root = float(
        optimize.brentq(flatten, low, high, xtol=1e-9, maxiter=_MAX_EVALUATIONS, disp=False)
    )
    if root != next(reversed(values)):
        function(root)
    return root
