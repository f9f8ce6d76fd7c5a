"""Ranking at the top by ADMM, A2DM2, or A2DM2 with restart."""

from __future__ import annotations

import math
import sys
from typing import Annotated, Literal, TypeAlias

import numpy as np
from typing_extensions import override

from rankplug.models import LinearModel, Model, linear_weights
from rankplug.objectives import TopProblem
from rankplug.optim.a2dm2 import Iterate, Variant, largest_step, safe_step, splitting
from rankplug.optim.bracket import Bracket, Certified, Vector
from rankplug.parameters import Positive, Real
from rankplug.solver import Candidate, Monitor, SolverResult, TopSolver
from rankplug.system.interruption import Overdue
from rankplug_plugins.a2dm2.split import TopSplit

_Status: TypeAlias = Literal["converged", "max_iter", "stopped"]

_BOUND_EVERY = 10  # iterations: a lower bound of (11) takes a pass over the features
_REGULARISATION = 3e-2  # lam1 and lam2 times rows over lam: the optimum of (11) hardly moves
_STEP = 100.0  # rho over the curvature of the loss, 2 over the number of positives
_FIRST_REVIEW = 25  # iterations before rho is balanced first
_LATER = 1.3  # times the iterations before a balance until the next one
_MOST_CHANGE = 10.0  # of rho at once


class A2dm2TopPush(TopSolver):
    """Linear ranking at the top, split into two functions and a linear constraint.

        (11)  min_w  lam/2 |w|^2 + sum over positives i of p_i max(0, 1 + t_q(i)(w) - w.x_i)^2

    with ``t_q`` and p_i as in `TopSolver`. The method minimises (11) plus

        lam1/2 sum_q t_q^2 + lam2/2 sum_i (t_q(i) - w.x_i)^2 + lam2/2 sum_j (w.x_j - t_q(j))^2

    over w and t, t_q at or above all negatives (the paper's problem 13). What is returned is the
    solution of that. The result's objective and certified duality gap are those of (11), so the gap
    includes what lam1 and lam2 change.

    Parameters
    ----------
    variant : "admm", "a2dm2" or "a2dm2-restart"
        Plain (default), extrapolated multipliers, or those with restarts.
    lam1, lam2 : float, optional
        By default 0.03 lam over the number of rows used, so that the optimum of (11) hardly
        changes; the paper's 0.01 changes it a lot.
    rho : float, optional
        Step length. By default ``200 / number of positives`` at first, which balances both
        residuals after 25, 32, 41, 53, ... iterations, where momentum begins anew; "a2dm2" then
        goes back from where momentum has led astray. With a rho of one's own, "a2dm2" is the
        paper's, sure to converge only up to a bound that is tiny where `lam1` and `lam2` are, and
        warns above it; the other variants converge for every rho.
    eta : float, default=0.999
        "a2dm2-restart" goes back one iteration and restarts when the combined residual is above
        `eta` times the last one.
    relaxation : float, default=1.8
        Over-relaxation of "admm", between 0 and 2; the other variants use none.
    tol : float, default=1e-4
        Converged when the certified gap of (13) is at most `tol` times its value, or that of (11)
        at most `tol` times the objective.
    clamp : bool, default=False
        Lower the `rho` of "a2dm2" to the bound instead of warning.
    lam, max_iter, threshold, scope
        See `TopSolver`.

    References
    ----------
    .. [1] Kadkhodaie, Christakopoulou, Sanjabi and Banerjee, "Accelerated alternating direction
       method of multipliers", KDD 2015. Departures: Algorithm 3 with its misprints corrected,
       relaxation, queries, certified gaps, restarts that drop the iteration, step lengths that
       follow the residuals.
    """

    name = "a2dm2"
    tags = TopSolver.tags.replace(
        reference="Kadkhodaie et al., Accelerated alternating direction method of multipliers, "
        "KDD 2015",
        takes_init=True,
    )
    _if_vanishing = "lam1 and lam2 outweigh its loss: lower them"

    variant: Variant = "admm"
    lam1: Positive | None = None
    lam2: Positive | None = None
    rho: Positive | None = None
    eta: Annotated[float, Real(0, 1, high_open=False)] = 0.999
    relaxation: Annotated[float, Real(0, 2)] = 1.8
    tol: Positive = 1e-4
    clamp: bool = False

    @override
    def _keeps_promise(self, result: SolverResult) -> bool | None:
        """None: what it certifies is that of problem (13), in `_Run`."""
        return None

    def _minimise(self, problem: TopProblem, monitor: Monitor, init: Model | None) -> Certified:
        n_rows = len(problem.weight) + int(problem.neg_ptr[-1])
        small = _REGULARISATION * self.lam / n_rows
        split = TopSplit(
            problem,
            self.lam,
            small if self.lam1 is None else self.lam1,
            small if self.lam2 is None else self.lam2,
        )
        run = _Run(self, split, monitor)
        if init is not None:
            run.start_at(linear_weights(init))
        try:
            status = run.iterate(self._step(split))
        except Overdue:
            status = "stopped"
        return Certified(run.result, run.n_iter, status, split.n_passes)

    def _step(self, split: TopSplit) -> float:
        if self.rho is None:
            return _STEP * 2.0 / len(split.problem.weight)
        if self.variant != "a2dm2":
            return self.rho
        sigma1 = min(self.lam, float(split.lam1.min()))
        largest = largest_step(sigma1, float(split.lam2.min()), split.norm(), 1.0)
        return safe_step(self.rho, largest, clamp=self.clamp)


class _Run:
    """Iterations, with the best weights so far and bounds of (11) and (13); w = 0 has the value 1.

    1. Each iteration of `splitting` offers its weights, whose values take no pass;
    2. every tenth, and the last, raises the lower bounds by the multipliers;
    3. the run ends by the gaps, or when told to;
    4. with a step length of its own it balances both residuals after ever more iterations and
       starts anew from where it is.
    """

    def __init__(self, solver: A2dm2TopPush, split: TopSplit, monitor: Monitor) -> None:
        self._solver, self._split, self._monitor = solver, split, monitor
        zero = np.zeros(split.n_weights)
        self.bracket = Bracket(zero, 1.0, 0.0)
        # Of problem (13), in which w = 0 costs 1, too.
        self._own = Bracket(zero, 1.0, 0.0)
        self._iterate: Bracket[Vector] = Bracket(zero)
        self._y = self._multiplier = np.zeros(len(split.c))
        self.n_iter = 0

    def start_at(self, w: Vector) -> None:
        """Start with these weights and multipliers that fit them, see `TopSplit.start`."""
        split, problem = self._split, self._split.problem
        x, self._y, self._multiplier = split.start(w)
        scores = split.scores(x, -self._y)
        self.bracket.offer(w, problem.value(split.lam, w, *scores))
        self._own.offer(w, split.value(x, -self._y))
        of_11, of_13 = split.lower_bounds(x, self._multiplier)
        self.bracket.raise_bound(of_11)
        self._own.raise_bound(of_13)

    def iterate(self, rho: float) -> _Status:
        """Go on until convergence, the most iterations, or a stop."""
        solver, split = self._solver, self._split
        adaptive = solver.rho is None
        y, multiplier = self._y, self._multiplier
        end = _FIRST_REVIEW if adaptive else solver.max_iter
        while True:
            iterates = splitting(
                split,
                "guarded" if adaptive and solver.variant == "a2dm2" else solver.variant,
                rho,
                y=y,
                multiplier=multiplier,
                eta=solver.eta,
                relaxation=solver.relaxation if solver.variant == "admm" else 1.0,
            )
            for step in iterates:
                self.n_iter += 1
                status = self._follow(step, rho)
                if status is not None:
                    return status
                if self.n_iter >= end and not step.restarted:
                    break
            # Ever longer until the next change: so they end, and convergence is that of ADMM.
            rho *= self._balance(step)
            y, multiplier, end = step.y, step.multiplier, int(_LATER * end)

    @property
    def result(self) -> Bracket[Vector]:
        """The solution of (13), or else of its iterates the best, with bounds of (11).

        Where the gap of (11) itself is closed, it is the solution of that.
        """
        bracket, tol = self.bracket, self._solver.tol
        if bracket.relative_gap <= tol:
            return bracket
        w = self._own.w if self._own.relative_gap <= tol else self._iterate.w
        value = self._split.problem.value_at(self._solver.lam, w) if w.any() else 1.0
        return Bracket(w, value, bracket.lower_bound)

    def _follow(self, step: Iterate, rho: float) -> _Status | None:
        """Report an iteration; how the run ends if it does."""
        solver, bracket = self._solver, self.bracket
        if not np.isfinite(step.primal_residual + step.dual_residual):
            raise FloatingPointError(f"it diverges with rho={rho:.3g} (lower rho)")
        w, value = self._look_at(step)
        last = self.n_iter == solver.max_iter
        if last or self.n_iter % _BOUND_EVERY == 0:
            self._bound(step)
        going = self._monitor.report(
            self.n_iter,
            model=lambda: LinearModel(self.result.w),
            iterate=Candidate(lambda: LinearModel(w), value),
            objective=value,
            duality_gap=bracket.difference,
            primal_residual=step.primal_residual,
            dual_residual=step.dual_residual,
            rho=rho,
            n_passes=self._split.n_passes,
        )
        if min(bracket.relative_gap, self._own.relative_gap) <= solver.tol:
            return "converged"
        if not going:
            self._bound(step)
            return "stopped"
        return "max_iter" if last else None

    def _residuals(self, step: Iterate) -> tuple[float, float]:
        """Primal and dual residual beside what they are residuals of."""
        norms = float(np.linalg.norm(step.Ax)), float(np.linalg.norm(step.y))
        size: float = max(float(np.linalg.norm(step.multiplier)), sys.float_info.min)
        return step.primal_residual / max(*norms, math.sqrt(len(step.y))), step.dual_residual / size

    def _balance(self, step: Iterate) -> float:
        """The factor for rho that would make both residuals alike, within bounds."""
        primal, dual = self._residuals(step)
        tiny = sys.float_info.min
        ratio = max(primal, tiny) / max(dual, tiny)
        return min(max(math.sqrt(ratio), 1.0 / _MOST_CHANGE), _MOST_CHANGE)

    def _look_at(self, step: Iterate) -> tuple[Vector, float]:
        """The weights and their value of (11); they are kept where they are the best."""
        split = self._split
        w = step.x[: split.n_weights].copy()
        value: float = split.problem.value(split.lam, w, *split.scores(step.x, step.Ax))
        own = split.value(step.x, step.Ax)
        self.bracket.offer(w, value)
        self._own.offer(w, own)
        self._iterate.offer(w, own)
        return w, value

    def _bound(self, step: Iterate) -> None:
        """Raise the lower bounds by the multipliers."""
        of_11, of_13 = self._split.lower_bounds(step.x, step.multiplier)
        self.bracket.raise_bound(of_11)
        self._own.raise_bound(of_13)
