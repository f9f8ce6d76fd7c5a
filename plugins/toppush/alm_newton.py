"""TopPush by an augmented Lagrangian, each minimised by semismooth Newton steps.

    minimise over w, t   lam/2 |w|^2 + sum_i p_i l(t_q(i) - w.x_i)
    subject to           (w.x_j - t_q) over the negatives j of q  in  cone_q      for every query q

where cone_q holds the vectors whose mean of the k highest is at most 0. With `project` onto the
polar cone, multipliers u and a penalty sigma,

    Phi(w, t) = lam/2 |w|^2 + sum_i p_i l(t - w.x_i) + 1/(2 sigma) |project(v)|^2
    v = u + sigma (X- w - t),      u <- project(v),     sigma <- growth * sigma.

Only positives with a loss and negatives with a multiplier enter the Hessian. Each t_q is
eliminated by a Schur complement; what is left is factorised, or solved by conjugate gradients if
there are many features. Scores follow the steps, so that line searches read no features.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from rankplug.objectives import TopProblem
from rankplug.optim.bracket import Bracket, Certified, OnIteration, Vector
from rankplug.system.interruption import Overdue
from rankplug_plugins.toppush.cone import project
from rankplug_plugins.toppush.newton_system import NewtonSystem

_FIRST_PENALTY = 10.0  # times 2 p_i, the curvature of the loss
_GROWTH = 5.0  # of the penalty
_FEW_STEPS = 5  # the penalty grows if so many Newton steps were enough
_MOST_STEPS = 50  # for the same multipliers; a problem that asks for more gets new ones anyhow
# Decrements at which Phi counts as minimised: the first one, how much smaller the next one is,
# and the share of the gap below which more accuracy would not show.
_FIRST_ACCURACY = 0.1
_SHRINK = 0.2
_SHARE_OF_GAP = 0.1
_FULL_ENOUGH = 0.3  # shorter steps say nothing about the decrement
# Of the line search: share of the first slope that counts as none, and guards against rounding.
_FLAT = 0.1
_MOST_TRIALS = 30
_LONGEST = 1e3


def alm_newton(
    problem: TopProblem, lam: float, *, tol: float, max_iter: int, report: OnIteration
) -> Certified:
    """Minimise P.

    A Newton step

    1. reads the features for the gradient of Phi, whose projection is a dual point: so the bound;
    2. ends if the gap is at most `tol` times the objective, or after `max_iter` steps;
    3. takes new multipliers, and perhaps a larger penalty, once Phi is about minimised;
    4. solves for the direction, and goes along it to about the least Phi by scores alone.
    """
    state = _State(problem, lam)
    bracket = Bracket(np.zeros(problem.n_features), 1.0, 0.0)
    try:
        status = _iterate(state, bracket, tol=tol, max_iter=max_iter, report=report)
    except Overdue:
        status = "stopped"
    return Certified(bracket, state.n_steps, status, state.n_passes)


def _iterate(
    state: _State, bracket: Bracket[Vector], *, tol: float, max_iter: int, report: OnIteration
) -> Literal["converged", "max_iter", "stopped"]:
    accuracy, decrement, n_inner = _FIRST_ACCURACY, math.inf, 0
    last_gap = math.inf
    while True:
        state.differentiate()
        bracket.raise_bound(state.lower_bound())
        going = report(
            state.n_steps,
            w=bracket.w,
            iterate=(state.w, state.value),
            objective=bracket.objective,
            duality_gap=bracket.difference,
            penalty=state.penalty,
            n_passes=state.n_passes,
        )
        if bracket.difference <= tol * bracket.objective:
            return "converged"
        if not going:
            return "stopped"
        if state.n_steps == max_iter:
            return "max_iter"
        minimised = decrement <= accuracy and state.distance_to_minimum() <= bracket.difference
        if minimised or n_inner >= _MOST_STEPS:
            stuck = n_inner >= _MOST_STEPS and bracket.difference >= last_gap
            if stuck:
                return "stopped"
            last_gap = bracket.difference
            goal = min(_SHARE_OF_GAP * bracket.difference, _SHRINK * accuracy)
            accuracy = max(goal, _SHARE_OF_GAP * tol)
            state.update_multipliers(_GROWTH if n_inner <= _FEW_STEPS else 1.0)
            state.differentiate()
            n_inner = 0
        length, decrement = state.newton_step()
        if length < _FULL_ENOUGH:
            decrement = math.inf
        n_inner += 1
        bracket.offer(state.w, state.value)


class _State:
    """The current point with its scores and multipliers; `value` is that of P, 1 at first."""

    def __init__(self, problem: TopProblem, lam: float) -> None:
        self.problem = problem
        self.lam = lam
        self.penalty = _FIRST_PENALTY
        self.n_steps = 0
        self.n_passes = 0.0
        self.w = np.zeros(problem.n_features)
        self.value = 1.0
        self.t = np.zeros(problem.n_queries)
        self.pos_scores = np.zeros(len(problem.weight))
        self.neg_scores = np.zeros(int(problem.neg_ptr[-1]))
        self.multipliers = np.zeros(len(self.neg_scores))
        per_query = problem.sum_positives(problem.weight) / np.diff(problem.pos_ptr)
        self._curvature = 2.0 * problem.of_negatives(per_query)

    @property
    def sigma(self) -> Vector:
        """The penalty of each negative: constant in a query."""
        sigma: Vector = self.penalty * self._curvature
        return sigma

    def differentiate(self) -> None:
        """Gradient of Phi and what its Hessian needs; one pass over the features."""
        problem = self.problem
        self.slack = problem.arguments(self.t, self.pos_scores)
        self.a = problem.loss.slopes(problem.weight, self.slack)
        shifted = self.neg_scores - problem.of_negatives(self.t)
        self.b, self.face = project(
            self.multipliers + self.sigma * shifted, problem.neg_ptr, problem.top_k
        )
        self._pos_part = problem.positives.transposed_dot(self.a)
        self._neg_part = problem.negatives.transposed_dot(self.b)
        self.n_passes += 1
        self.gradient = self.lam * self.w - self._pos_part + self._neg_part
        self.t_gradient = problem.sum_positives(self.a) - problem.sum_negatives(self.b)

    def distance_to_minimum(self) -> float:
        """Bound of how far Phi, minimised over t, is above its minimum."""
        return 0.5 * float(self.gradient @ self.gradient) / self.lam

    def lower_bound(self) -> float:
        """Of the minimum of P, from the multipliers to be; with one query free of a pass."""
        problem = self.problem
        if problem.n_queries > 1:
            self.n_passes += 1
            return problem.lower_bound(self.lam, self.a, self.b)
        scale = float(problem.matching_scale(self.a, self.b)[0])
        if scale == 0.0:
            return 0.0
        return problem.dual_value(self.lam, self.a, self._pos_part - scale * self._neg_part)

    def update_multipliers(self, growth: float) -> None:
        """Take over the projection as multipliers, and raise the penalty."""
        self.multipliers = self.b
        self.penalty *= growth

    def newton_step(self) -> tuple[float, float]:
        """Move along the Newton direction; its length and the squared decrement."""
        curvature = self.problem.loss.curvatures(self.problem.weight, self.slack)
        system = NewtonSystem(self.problem, self.lam, curvature, self.sigma, self.face)
        dw, dt = system.solve(self.gradient, self.t_gradient)
        self.n_passes += system.n_passes
        decrement = -float(self.gradient @ dw + self.t_gradient @ dt)
        line = _Line(self, dw, dt)
        self.n_passes += 1
        length = line.minimise(decrement)
        self.w = self.w + length * dw
        self.t = self.t + length * dt
        self.pos_scores = self.pos_scores + length * line.pos_scores
        self.neg_scores = self.neg_scores + length * line.neg_scores
        self.n_steps += 1
        self.value = self.problem.value(self.lam, self.w, self.pos_scores, self.neg_scores)
        return length, decrement


class _Line:
    """Phi along a direction; it knows the scores of the direction, so it reads no features."""

    def __init__(self, state: _State, dw: Vector, dt: Vector) -> None:
        problem = state.problem
        self._state, self._problem = state, problem
        self.pos_scores, self.neg_scores = problem.scores(dw)
        self._pos_slope = problem.of_positives(dt) - self.pos_scores
        self._neg_slope = self.neg_scores - problem.of_negatives(dt)
        shifted = state.neg_scores - problem.of_negatives(state.t)
        self._argument = state.multipliers + state.sigma * shifted
        self._w_dw, self._dw_dw = float(state.w @ dw), float(dw @ dw)

    def slope(self, length: float) -> float:
        """Derivative of Phi."""
        state, problem = self._state, self._problem
        slopes = problem.loss.slopes(problem.weight, state.slack + length * self._pos_slope)
        argument = self._argument + length * state.sigma * self._neg_slope
        projected, _ = project(argument, problem.neg_ptr, problem.top_k)
        regulariser = state.lam * (self._w_dw + length * self._dw_dw)
        return regulariser + float(slopes @ self._pos_slope) + float(projected @ self._neg_slope)

    def minimise(self, decrement: float) -> float:
        """A length at which the slope, ``-decrement`` at 0, is small: the rule of false position.

        The slope rises, as Phi is convex; the Illinois variant halves a stale end's value.
        """
        low, high, at_low, at_high = 0.0, 1.0, -decrement, self.slope(1.0)
        if abs(at_high) <= _FLAT * decrement:
            return 1.0
        while at_high < 0.0 and high < _LONGEST:
            low, at_low, high = high, at_high, 2.0 * high
            at_high = self.slope(high)
        length = high
        for _ in range(_MOST_TRIALS):
            if at_high <= at_low:
                break
            length = low - at_low * (high - low) / (at_high - at_low)
            slope = self.slope(length)
            if abs(slope) <= 0.5 * _FLAT * decrement:
                break
            if slope < 0.0:
                low, at_low, at_high = length, slope, 0.5 * at_high
            else:
                high, at_high, at_low = length, slope, 0.5 * at_low
        return length
