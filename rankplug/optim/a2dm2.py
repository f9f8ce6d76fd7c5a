"""Alternating direction method of multipliers (ADMM) and its acceleration A2DM2.

    minimise f1(x) + f2(y)   subject to   A x + B y = c,
    Lagrangian f1(x) + f2(y) + g'(A x + B y - c)

(the multiplier g has the opposite sign in the paper's sections 1 and 2). An iteration is

    x <- argmin f1(x) + g^'A x + rho/2 |A x + B y^ - c|^2
    y <- argmin f2(y) + g^'B y + rho/2 |A x + B y - c|^2
    g <- g^ + rho (A x + B y - c)

where ADMM goes on with ``g^ = g, y^ = y`` and A2DM2 extrapolates as Nesterov does,

    g^ <- g + (t - 1)/t+ (g - g before),   y^ <- argmin f2(y) + g^'B y

with t = 1 at first and ``t+ = (1 + sqrt(1 + 4 t^2)) / 2`` the next one.

"a2dm2-restart" watches the combined residual ``m = |g - g^|^2 / rho + rho |B (y - y^)|^2``. An
iteration with one above eta times the last one's is dropped: the next starts from the one before,
with t = 1, as ADMM, under which m never rises. Any rho will do. Its y^ goes as far beyond y as g^
beyond g, which is the minimiser above where f2 is quadratic, and not far off where f2 is hardly
curved. "guarded" is the same, but restarts only where m is `_RUNAWAY` times the lowest since the
last restart, from where that was.

References
----------
.. [1] Kadkhodaie, Christakopoulou, Sanjabi and Banerjee, "Accelerated alternating direction
   method of multipliers", KDD 2015; Goldstein, O'Donoghue, Setzer and Baraniuk, "Fast alternating
   direction optimization methods", SIAM J. Imaging Sciences 7 (2014), for the restarts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np

from rankplug.exceptions import ConvergenceWarning, warn_caller
from rankplug.optim.bracket import Vector

Variant: TypeAlias = Literal["admm", "a2dm2", "a2dm2-restart"]

_RUNAWAY = 3.0  # a combined residual so much above the lowest one says that momentum leads astray


class SplitProblem(Protocol):
    """The two functions, known by their minimisers, and the operators of the constraint."""

    c: Vector

    def argmin_x(self, v: Vector, rho: float) -> Vector:
        """The x that minimises ``f1(x) + rho/2 |A x - v|^2``."""

    def argmin_y(self, v: Vector, rho: float) -> Vector:
        """The y that minimises ``f2(y) + rho/2 |B y - v|^2``."""

    def argmin_y_linear(self, g: Vector) -> Vector:
        """The y that minimises ``f2(y) + g'B y``; only the accelerated variants ask for it."""

    def map_x(self, x: Vector) -> Vector:
        """``A x``."""

    def map_y(self, y: Vector) -> Vector:
        """``B y``."""


@dataclass(frozen=True, eq=False)
class Iterate:
    """Where the method stands after an iteration.

    Attributes
    ----------
    n_iter : int
    x, y, multiplier : float64 arrays
    Ax : float64 array
        ``A x``.
    primal_residual : float
        ``|A x + B y - c|``.
    dual_residual : float
        ``rho |B (y - y^)|``; times the norm of A it bounds the distance of 0 from the
        subdifferential of the Lagrangian by x.
    restarted : bool
    """

    n_iter: int
    x: Vector
    y: Vector
    multiplier: Vector
    Ax: Vector
    primal_residual: float
    dual_residual: float
    restarted: bool


def splitting(
    problem: SplitProblem,
    variant: Variant | Literal["guarded"],
    rho: float,
    *,
    y: Vector,
    multiplier: Vector,
    eta: float = 0.999,
    relaxation: float = 1.0,
) -> Iterator[Iterate]:
    """Iterate without end.

    Parameters
    ----------
    problem : SplitProblem
    variant : "admm", "a2dm2", "a2dm2-restart" or "guarded"
    rho : float
        Step length; see `safe_step` for "a2dm2".
    y, multiplier : float64 arrays
        Where to start.
    eta : float
        Of "a2dm2-restart".
    relaxation : float in (0, 2)
        Other than 1: ``A x`` is replaced by ``relaxation A x - (1 - relaxation) (B y^ - c)`` in
        the second and third step.
    """
    ahead, y_ahead, back = multiplier, y, (y, multiplier)
    t, limit, n_iter = 1.0, math.inf, 0
    while True:
        n_iter += 1
        By_ahead = problem.map_y(y_ahead)
        x = problem.argmin_x(problem.c - By_ahead - ahead / rho, rho)
        Ax = problem.map_x(x)
        relaxed = Ax
        if relaxation != 1.0:
            relaxed = relaxation * Ax - (1.0 - relaxation) * (By_ahead - problem.c)
        y_new = problem.argmin_y(problem.c - relaxed - ahead / rho, rho)
        By = problem.map_y(y_new)
        new = ahead + rho * (relaxed + By - problem.c)
        change = float(np.linalg.norm(By - By_ahead))
        combined = float(np.sum((new - ahead) ** 2)) / rho + rho * change**2
        restarted = variant in ("a2dm2-restart", "guarded") and combined > limit
        primal_residual = float(np.linalg.norm(Ax + By - problem.c))
        yield Iterate(n_iter, x, y_new, new, Ax, primal_residual, rho * change, restarted)
        if restarted:
            y, multiplier = back
            ahead, y_ahead, t = multiplier, y, 1.0
            limit = limit / eta if variant == "a2dm2-restart" else math.inf
            continue
        y_before, before, y, multiplier = y, multiplier, y_new, new
        if variant == "a2dm2-restart" or _RUNAWAY * combined < limit:
            back = y, multiplier
            limit = combined * (eta if variant == "a2dm2-restart" else _RUNAWAY)
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        momentum = 0.0 if variant == "admm" else (t - 1.0) / following
        ahead = multiplier + momentum * (multiplier - before)
        if variant == "a2dm2":
            y_ahead = problem.argmin_y_linear(ahead)
        else:
            y_ahead = y + momentum * (y - y_before)
        t = following


def largest_step(sigma1: float, sigma2: float, norm_A: float, norm_B: float) -> float:
    """The largest rho for which the paper's theorem promises A2DM2's rate O(1/k^2).

    ``rho^3 <= sigma1 sigma2^2 / (|A|^2 |B|^4)``

    Parameters
    ----------
    sigma1, sigma2 : float
        Moduli of strong convexity: ``f(x) - sigma/2 |x|^2`` is convex.
    norm_A, norm_B : float
        Largest singular values.

    Raises
    ------
    FloatingPointError
        If that is no positive finite number.
    """
    largest = float(np.cbrt(sigma1 * sigma2 * sigma2 / np.float64(norm_A) ** 2 / norm_B**4))
    if not 0.0 < largest < math.inf:
        raise FloatingPointError(f"the largest safe step is {largest:g}")
    return largest


def safe_step(rho: float, largest: float, *, clamp: bool = False) -> float:
    """The step for the accelerated variants: a warning, or `largest`, if rho is above that."""
    if rho <= largest * (1.0 + 1e-12):
        return rho
    if clamp:
        return largest
    warn_caller(
        f"rho={rho:.3g} is {rho / largest:.3g} times the largest step for which A2DM2 is known to "
        f"converge ({largest:.3g}): it may diverge; lower rho, clamp it, or use ADMM",
        ConvergenceWarning,
    )
    return rho
