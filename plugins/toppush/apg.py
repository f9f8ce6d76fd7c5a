"""TopPush by accelerated projected gradients on the dual (Li, Jin and Zhou).

    minimise   1/(2 lam) |X+' a - X-' b|^2 + sum_i a_i^2 / (4 p_i) - sum_i a_i
    over       a, b >= 0 with equal sums in each query,

the negative of D for top_k = 1. The weights are ``w = (X+' a - X-' b) / lam``. Departures from the
paper: the momentum restarts when it points uphill, the step length also grows, and the end is
certified by the duality gap instead of a small change of the objective.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rankplug._fast.projection import soft_projection
from rankplug.objectives import TopProblem
from rankplug.optim.bracket import Bracket, Certified, OnIteration, Vector
from rankplug.system.interruption import Overdue, raise_if_overdue

_LOWER = 0.9  # the curvature each step tries first, of the last one: so steps may grow again
_RAISE = 2.0  # its factor where that was too low
_MOST_RAISES = 100  # a guard: 2^100 times the first curvature is beyond all data
_ROUNDING = 1e-13  # of the exact second-order part, compared with its bound


def accelerated_gradient(
    problem: TopProblem, lam: float, *, tol: float, max_iter: int, report: OnIteration
) -> Certified:
    """Minimise P; parameters as for `alm_newton`, `max_iter` counts gradient steps."""
    dual = _Dual(problem, lam)
    bracket = Bracket(np.zeros(problem.n_features), 1.0, 0.0)
    current = before = dual.origin()
    # Curvature along one positive, which is a lower bound of the largest.
    curvature, momentum = 0.5 / float(problem.weight.max()), 1.0
    for n_iter in range(max_iter + 1):
        w, value = current.combined / lam, dual.primal_value(current)
        bracket.offer(w, value)
        bracket.raise_bound(problem.dual_value(lam, current.a, current.combined))
        going = report(
            n_iter,
            w=bracket.w,
            iterate=(w, value),
            objective=bracket.objective,
            duality_gap=bracket.difference,
            n_passes=dual.n_passes,
        )
        if bracket.difference <= tol * bracket.objective:
            return Certified(bracket, n_iter, "converged", dual.n_passes)
        if not going:
            return Certified(bracket, n_iter, "stopped", dual.n_passes)
        if n_iter == max_iter:
            break
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
        ahead = current.extrapolate(before, (momentum - 1.0) / following)
        try:
            new, curvature = dual.descend(ahead, _LOWER * curvature)
        except Overdue:
            return Certified(bracket, n_iter, "stopped", dual.n_passes)
        if ahead.turns_back(new, current):
            following = 1.0
        before, current, momentum = current, new, following
    return Certified(bracket, max_iter, "max_iter", dual.n_passes)


@dataclass(frozen=True, eq=False)
class _Point:
    """Dual numbers, ``X+' a - X-' b``, and the scores of w: all linear in (a, b)."""

    a: Vector
    b: Vector
    combined: Vector
    pos_scores: Vector
    neg_scores: Vector

    def extrapolate(self, before: _Point, share: float) -> _Point:
        """The point and a share of the way from `before` to it once more."""
        pairs = zip(vars(self).values(), vars(before).values(), strict=True)
        return _Point(*(now + share * (now - then) for now, then in pairs))

    def turns_back(self, new: _Point, current: _Point) -> bool:
        """Whether the gradient step from here opposes the movement."""
        along_a = (self.a - new.a) @ (new.a - current.a)
        return bool(along_a + (self.b - new.b) @ (new.b - current.b) > 0)


class _Dual:
    """The negative dual, its gradient and projected steps."""

    def __init__(self, problem: TopProblem, lam: float) -> None:
        self._problem, self._lam = problem, lam
        self.n_passes = 0.0

    def origin(self) -> _Point:
        """All zero."""
        m, n = len(self._problem.weight), int(self._problem.neg_ptr[-1])
        w = np.zeros(self._problem.n_features)
        return _Point(np.zeros(m), np.zeros(n), w, np.zeros(m), np.zeros(n))

    def primal_value(self, point: _Point) -> float:
        """P at the weights of the point."""
        w = point.combined / self._lam
        return self._problem.value(self._lam, w, point.pos_scores, point.neg_scores)

    def descend(self, point: _Point, curvature: float) -> tuple[_Point, float]:
        """The projected gradient step for the first curvature that bounds the function there."""
        problem = self._problem
        slope_a = point.pos_scores + 0.5 * point.a / problem.weight - 1.0
        slope_b = -point.neg_scores
        for _ in range(_MOST_RAISES):
            raise_if_overdue()
            a, b = self._project(point.a - slope_a / curvature, point.b - slope_b / curvature)
            combined = problem.combination(a, b)
            self.n_passes += 1
            moved_a, moved_b = a - point.a, b - point.b
            change = combined - point.combined
            # The function is quadratic: this is its exact second-order part.
            second = float(change @ change) / self._lam + 0.5 * float(
                np.sum(moved_a**2 / problem.weight)
            )
            square = float(moved_a @ moved_a + moved_b @ moved_b)
            if not math.isfinite(second + square):
                raise FloatingPointError("the dual is too large for floating point")
            if second <= curvature * square * (1.0 + _ROUNDING):
                break
            curvature *= _RAISE
        w = combined / self._lam
        self.n_passes += 1
        return _Point(a, b, combined, *problem.scores(w)), curvature

    def _project(self, mu: Vector, nu: Vector) -> tuple[Vector, Vector]:
        """The closest feasible point: one soft projection a query."""
        problem = self._problem
        a, b = np.empty_like(mu), np.empty_like(nu)
        for q in range(problem.n_queries):
            pos = slice(int(problem.pos_ptr[q]), int(problem.pos_ptr[q + 1]))
            neg = slice(int(problem.neg_ptr[q]), int(problem.neg_ptr[q + 1]))
            a[pos], b[neg] = soft_projection(mu[pos], nu[neg], math.inf)
        return a, b
