"""Projection onto the cone of dual weights of the highest negatives, query by query.

    K = {u : u >= 0, u_j <= sum(u) / k},

for k = 1 the non-negative orthant. K is the polar of {z : mean of the k highest z_j <= 0}, which
makes it the set of multipliers of the constraint "the mean of the k highest is at most 0".

The projection of v is ``min(max(v + shift, 0), cap)`` with ``cap = sum(u) / k`` and
``k shift = sum_j max(0, v_j + shift - cap)``. With ``x = cap - shift`` both follow from x, and x
is the root of a decreasing piecewise linear function.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankplug.optim.bracket import Vector

_MAX_STEPS = 200  # a guard: bisection alone would have all digits after some 60
_ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class Face:
    """The face of the cone that a projection lies on; projections onto its span are linear.

    Attributes
    ----------
    free : bool array of shape (n,)
        Entries between 0 and their cap.
    capped : bool array of shape (n,)
        Entries at their cap.
    ptr : int64 array of shape (n_queries + 1,)
    k : int64 array of shape (n_queries,)
    """

    free: NDArray[np.bool_]
    capped: NDArray[np.bool_]
    ptr: NDArray[np.int64]
    k: NDArray[np.int64]

    def counts(self) -> tuple[Vector, Vector, Vector]:
        """Numbers f of free and r of capped entries of each query, and ``f r + (k - r)^2``."""
        f, r = self._sums(self.free.astype(float)), self._sums(self.capped.astype(float))
        determinant = f * r + (self.k - r) ** 2
        return f, r, np.where(determinant > 0, determinant, 1.0)

    def project(self, z: Vector) -> Vector:
        """The projection of z onto the span of the face."""
        if not self.capped.any():
            return np.where(self.free, z, 0.0)
        f, r, determinant = self.counts()
        free, capped = (
            self._sums(np.where(self.free, z, 0)),
            self._sums(np.where(self.capped, z, 0)),
        )
        # One capped direction alone (r = k, f = 0) is a mean; the formula's 0/0 there.
        lone = (f == 0) & (r == self.k)
        shift = (-r * free + (self.k - r) * capped) / determinant
        cap = np.where(lone, capped / self.k, (f * capped + (self.k - r) * free) / determinant)
        sizes = np.diff(self.ptr)
        projected = np.where(self.free, z + np.repeat(shift, sizes), 0.0)
        return np.where(self.capped, np.repeat(cap, sizes), projected)

    def _sums(self, values: Vector) -> Vector:
        sums: Vector = np.add.reduceat(values, self.ptr[:-1])
        return sums


def project(v: Vector, ptr: NDArray[np.int64], k: NDArray[np.int64]) -> tuple[Vector, Face]:
    """The projection of v onto the cone, and the face it lies on."""
    u = np.maximum(v, 0.0)
    free, capped = v > 0, np.zeros(len(v), dtype=bool)
    for q in np.flatnonzero(k > 1):
        rows = slice(int(ptr[q]), int(ptr[q + 1]))
        u[rows], free[rows], capped[rows] = _project_one(v[rows], int(k[q]))
    return u, Face(free, capped, ptr, k)


def _project_one(v: Vector, k: int) -> tuple[Vector, NDArray[np.bool_], NDArray[np.bool_]]:
    nothing = np.zeros(len(v), dtype=bool)
    if len(v) <= k:  # a ray: all entries are equal
        mean = float(v.mean())
        return np.full(len(v), max(mean, 0.0)), nothing, np.full(len(v), mean > 0)
    highest = np.sort(np.partition(v, len(v) - k)[len(v) - k :])[::-1]
    if highest.sum() <= 0:
        return np.zeros(len(v)), nothing, nothing
    x, shift = _root(v, highest, k)
    capped = v > x
    free = ~capped & (v + shift > 0)
    u = np.where(capped, x + shift, np.where(free, v + shift, 0.0))
    return u, free, capped


def _root(v: Vector, highest: Vector, k: int) -> tuple[float, float]:
    """The x and the shift, by bracketed Newton on ``G(x) = sum (v + shift)_+ - 2 k shift - k x``.

    At most k entries are capped, so that a root lies at or above the k-th highest and `highest`
    holds all that are above it.
    """
    low, high = float(highest[-1]), max(float(highest[0]), float(np.maximum(v, 0.0).sum()) / k)
    x = low
    for _ in range(_MAX_STEPS):
        over = highest[highest > x]
        shift = float((over - x).sum()) / k
        positive = v[v > -shift]
        value = float((positive + shift).sum()) - 2 * k * shift - k * x
        low, high = (x, high) if value > 0 else (low, x)
        slope = ((k - len(over)) ** 2 + len(over) * (len(positive) - len(over))) / k
        step = value / slope if slope > 0 else 0.0
        if abs(step) <= _ROUNDING * (abs(x) + shift):
            break
        new = x + step
        x = new if low < new < high else 0.5 * (low + high)
    over = highest[highest > x]
    return x, float((over - x).sum()) / k
