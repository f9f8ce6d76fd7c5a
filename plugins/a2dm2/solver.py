"""Ranking at the top by ADMM, A2DM2, or A2DM2 with restart."""

from __future__ import annotations

import math
import sys
from typing import Annotated, Literal, TypeAlias

import numpy as np
from typing_extensions import override

from rankplug.models import LinearModel
from rankplug.objectives import TopProblem
from rankplug.optim.a2dm2 import Iterate, Variant, largest_step, safe_step, splitting
from rankplug.optim.bracket import Bracket, Certified
from rankplug.parameters import Positive, Real
from rankplug.solver import Monitor, SolverResult, TopSolver
from rankplug.system.interruption import Overdue
from rankplug_plugins.a2dm2.split import TopSplit

_Status: TypeAlias = Literal["converged", "max_iter", "stopped"]

_BOUND_EVERY = 10  # iterations: a lower bound of (11) takes a pass over the features
_REGULARISATION = 3e-4  # lam1 and lam2 times the number of rows: the optimum of (11) hardly moves
_STEP = 100.0  # rho over the curvature of the loss, 2 over the number of positives
_FIRST_REVIEW = 25  # iterations before rho is balanced first
_MOST_CHANGE = 10.0  # of rho at once


class A2dm2TopPush(TopSolver):
    """Linear ranking at the top, split into two functions and a linear constraint.

        (11)  min_w  lam/2 |w|^2 + sum over positives i of p_i max(0, 1 + t_q(i)(w) - w.x_i)^2

    with ``t_q`` and p_i as in `TopSolver`. The method minimises (11) plus

        lam1/2 sum_q t_q^2 + lam2/2 sum_i (t_q(i) - w.x_i)^2 + lam2/2 sum_j (w.x_j - t_q(j))^2

    over w and t, t_q at or above all negatives (the paper's problem 13). The result's objective
    and certified duality gap are those of (11), so the gap includes what lam1 and lam2 change.

    Parameters
    ----------
    variant : "admm", "a2dm2" or "a2dm2-restart"
        Plain (default), extrapolated multipliers, or those with restarts. Only "admm" converges
        for every rho; the others are sure to for `rho` up to a bound that is tiny where `lam1`
        and `lam2` are, and warn above it.
    lam1, lam2 : float, optional
        By default 3e-4 over the number of rows used, so that the optimum of (11) hardly changes;
        the paper's 0.01 changes it a lot.
    rho : float, optional
        Step length. By default "admm" starts with ``200 / number of positives`` and balances both
        residuals after 25, 50, 100, 200, ... iterations; the others take the bound.
    eta : float, default=0.999
        "a2dm2-restart" restarts when the combined residual is above `eta` times the last one.
    relaxation : float, default=1.8
        Over-relaxation of "admm", between 0 and 2; the other variants use none.
    tol : float, default=5e-6
        Converged when primal and dual residuals are at most `tol` of their scale, or the duality
        gap of (11) at most `tol` times the objective.
    clamp : bool, default=False
        Lower `rho` to the bound instead of warning; not for "admm".
    lam, max_iter, threshold, scope
        See `TopSolver`.

    References
    ----------
    .. [1] Kadkhodaie, Christakopoulou, Sanjabi and Banerjee, "Accelerated alternating direction
       method of multipliers", KDD 2015. Departures: Algorithm 3 with its misprints corrected,
       relaxation, queries, a certified gap, restarts compared with non-restarted iterations only.
    """

    name = "a2dm2"
    tags = TopSolver.tags.replace(
        reference="Kadkhodaie et al., Accelerated alternating direction method of multipliers, "
        "KDD 2015"
    )
    _near_one = 10.0

    variant: Variant = "admm"
    lam1: Positive | None = None
    lam2: Positive | None = None
    rho: Positive | None = None
    eta: Annotated[float, Real(0, 1, high_open=False)] = 0.999
    relaxation: Annotated[float, Real(0, 2)] = 1.8
    tol: Positive = 5e-6
    clamp: bool = False

    @override
    def _keeps_promise(self, result: SolverResult) -> bool | None:
        """None: what it certifies is that of problem (13), in `_Run`."""
        return None

    def _minimise(self, problem: TopProblem, monitor: Monitor) -> Certified:
        n_rows = len(problem.weight) + int(problem.neg_ptr[-1])
        small = _REGULARISATION / n_rows
        split = TopSplit(
            problem,
            self.lam,
            small if self.lam1 is None else self.lam1,
            small if self.lam2 is None else self.lam2,
        )
        run = _Run(self, split, monitor)
        try:
            status = run.iterate(self._step(split))
        except Overdue:
            status = "stopped"
        return Certified(run.bracket, run.n_iter, status, split.n_passes)

    def _step(self, split: TopSplit) -> float:
        if self.variant == "admm":
            return _STEP * 2.0 / len(split.problem.weight) if self.rho is None else self.rho
        sigma1 = min(self.lam, float(split.lam1.min()))
        largest = largest_step(sigma1, float(split.lam2.min()), split.norm(), 1.0)
        return largest if self.rho is None else safe_step(self.rho, largest, clamp=self.clamp)


class _Run:
    """Iterations, with the best weights so far and bounds of (11); w = 0 has the value 1.

    1. Each iteration of `splitting` offers its weights, whose value of (11) takes no pass;
    2. every tenth, and the last, raises the lower bound of (11) by the multipliers;
    3. the run ends by the residuals, by the gap, or when told to;
    4. with a step length of its own, "admm" balances both residuals after ever more iterations
       and starts anew from where it is.
    """

    def __init__(self, solver: A2dm2TopPush, split: TopSplit, monitor: Monitor) -> None:
        self._solver, self._split, self._monitor = solver, split, monitor
        self.bracket = Bracket(np.zeros(split.n_weights), 1.0, 0.0)
        self.n_iter = 0

    def iterate(self, rho: float) -> _Status:
        """Go on until convergence, the most iterations, or a stop."""
        solver, split = self._solver, self._split
        adaptive = solver.variant == "admm" and solver.rho is None
        y = multiplier = np.zeros(len(split.c))
        end = _FIRST_REVIEW if adaptive else solver.max_iter
        while True:
            iterates = splitting(
                split,
                solver.variant,
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
                if self.n_iter == end:
                    break
            # Ever longer until the next change: so they end, and convergence is that of ADMM.
            rho *= self._balance(step)
            y, multiplier, end = step.y, step.multiplier, 2 * end

    def _follow(self, step: Iterate, rho: float) -> _Status | None:
        """Report an iteration; how the run ends if it does."""
        solver, bracket = self._solver, self.bracket
        if not np.isfinite(step.primal_residual + step.dual_residual):
            raise FloatingPointError(f"it diverges with rho={rho:.3g} (lower rho)")
        value = self._look_at(step)
        solved = max(self._residuals(step)) <= solver.tol
        last = self.n_iter == solver.max_iter
        if solved or last or self.n_iter % _BOUND_EVERY == 0:
            self._bound(step)
        # What is returned is the solution, not what was best on the way to it.
        solution = step.x[: self._split.n_weights].copy() if solved and value < 1.0 else None
        going = self._monitor.report(
            self.n_iter,
            model=lambda: LinearModel(bracket.w if solution is None else solution),
            objective=value,
            duality_gap=bracket.difference,
            primal_residual=step.primal_residual,
            dual_residual=step.dual_residual,
            rho=rho,
            n_passes=self._split.n_passes,
        )
        if solution is not None:
            bracket.w, bracket.objective = solution, value
        if solved or bracket.difference <= solver.tol * bracket.objective:
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

    def _look_at(self, step: Iterate) -> float:
        """Keep the weights if they are the best; their value of (11)."""
        split = self._split
        w = step.x[: split.n_weights]
        value: float = split.problem.value(split.lam, w, *split.scores(step.x, step.Ax))
        self.bracket.offer(w.copy(), value)
        return value

    def _bound(self, step: Iterate) -> None:
        """Raise the lower bound of (11) by the multipliers."""
        split = self._split
        split.n_passes += 1
        a, b = split.dual_point(step.multiplier)
        self.bracket.raise_bound(split.problem.lower_bound(split.lam, a, b))
