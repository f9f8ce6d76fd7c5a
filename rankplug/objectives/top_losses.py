"""Losses at the top: what a positive costs whose score is not above the highest negatives.

They are functions of ``r = offset + t - s``, t the top and s the score of the positive, and all are
1 at w = 0, where t = s = 0:

* squared hinge: ``max(0, r)^2``, offset 1;
* logistic: ``log2(1 + exp(r))``, offset 0;
* exponential: ``exp(r)``, offset 0.

Each knows its conjugate ``l*(u) = max over z of u z - l``, z = t - s, and so a lower bound: for
a, b >= 0 of equal sums in each query,

    D = -|X+' a - X-' b|^2 / (2 lam) - sum_i p_i l*(a_i / p_i)

is at most the minimum of P.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import optimize, special

from rankplug.shards import Vector

TopLossName: TypeAlias = Literal["squared-hinge", "logistic", "exponential"]

_LARGEST_EXPONENT = 500.0  # beyond it, steps are too long anyway, and exp would overflow
_LOG2 = math.log(2.0)
_LONGEST_RAY = 4.0  # where a dual point may be scaled to; at the optimum it is left as it is


class SquaredHingeTop:
    """The loss of TopPush."""

    offset = 1.0

    def total(self, weight: Vector, r: Vector) -> float:
        """``sum_i p_i l(r_i)``."""
        slack = np.maximum(0.0, r)
        return float(weight @ slack**2)

    def slopes(self, weight: Vector, r: Vector) -> Vector:
        """``p_i l'(r_i)``."""
        return np.asarray(2.0 * weight * np.maximum(r, 0.0))

    def curvatures(self, weight: Vector, r: Vector) -> Vector:
        """``p_i l''(r_i)``."""
        return np.where(r > 0, 2.0 * weight, 0.0)

    def dual_value(self, lam: float, weight: Vector, a: Vector, combined: Vector) -> float:
        """The highest D on the ray through (a, b), given ``combined = X+' a - X-' b``."""
        curvature = float(combined @ combined) / lam + 0.5 * float(np.sum(a**2 / weight))
        return 0.5 * float(a.sum()) ** 2 / curvature if curvature > 0 else 0.0


class _Smooth(SquaredHingeTop):
    """A loss without a flat part; a subclass says its conjugate, for u up to `steepest`."""

    offset = 0.0
    steepest = math.inf

    def _conjugate(self, u: Vector) -> Any:
        raise NotImplementedError

    def dual_value(self, lam: float, weight: Vector, a: Vector, combined: Vector) -> float:
        """The highest D that is found on the ray."""
        u, half = a / weight, 0.5 * float(combined @ combined) / lam
        largest = float(u.max(initial=0.0))
        if largest == 0.0:
            return 0.0

        def negative(length: float) -> float:
            return length**2 * half + float(weight @ self._conjugate(length * u))

        end = min(_LONGEST_RAY, self.steepest / largest)
        found = optimize.minimize_scalar(negative, bounds=(0.0, end), method="bounded")
        return float(max(0.0, -negative(min(1.0, end)), -found.fun))


class LogisticTop(_Smooth):
    """``log2(1 + exp(r))``."""

    steepest = 1.0 / _LOG2

    def total(self, weight: Vector, r: Vector) -> float:
        """``sum_i p_i l(r_i)``."""
        return float(weight @ np.logaddexp(0.0, r)) / _LOG2

    def slopes(self, weight: Vector, r: Vector) -> Vector:
        """``p_i l'(r_i)``."""
        return np.asarray(weight * special.expit(r) / _LOG2)

    def curvatures(self, weight: Vector, r: Vector) -> Vector:
        """``p_i l''(r_i)``."""
        return np.asarray(weight * special.expit(r) * special.expit(-r) / _LOG2)

    def _conjugate(self, u: Vector) -> Any:
        v = np.minimum(u * _LOG2, 1.0)
        return -(special.entr(v) + special.entr(1.0 - v)) / _LOG2


class ExponentialTop(_Smooth):
    """``exp(r)``."""

    def total(self, weight: Vector, r: Vector) -> float:
        """``sum_i p_i l(r_i)``."""
        return float(self.slopes(weight, r).sum())

    def slopes(self, weight: Vector, r: Vector) -> Vector:
        """``p_i l'(r_i)``."""
        return np.asarray(weight * np.exp(np.minimum(r, _LARGEST_EXPONENT)))

    def curvatures(self, weight: Vector, r: Vector) -> Vector:
        """``p_i l''(r_i)``."""
        return self.slopes(weight, r)

    def _conjugate(self, u: Vector) -> Any:
        return -special.entr(u) - u


TopLoss: TypeAlias = SquaredHingeTop
TOP_LOSSES: dict[TopLossName, TopLoss] = {
    "squared-hinge": SquaredHingeTop(),
    "logistic": LogisticTop(),
    "exponential": ExponentialTop(),
}
