"""Ranking at the top by ADMM, A2DM2, or A2DM2 with restart."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import numpy as np

from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.models import LinearModel, Model
from rankplug.objectives import (
    Scope,
    decades_down,
    largest_squared_norm,
    make_top_problem,
    warn_if_zero_is_optimal,
)
from rankplug.optim.a2dm2 import Iterate, Variant, largest_step, safe_step, splitting
from rankplug.parameters import Choice, Integer, Optional, Real
from rankplug.solver import Data, Monitor, Solver, SolverResult, SolverTags, Status
from rankplug.system.interruption import Overdue
from rankplug_plugins.a2dm2.split import TopSplit

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["A2dm2TopPush"]

_BOUND_EVERY = 10
_REGULARISATION = 3e-4
_STEP = 100.0
_FIRST_REVIEW = 25


class A2dm2TopPush(Solver):
    """Linear ranking at the top, split into two functions and a linear constraint.

        (11)  min_w  lam/2 |w|^2 + sum over positives i of p_i max(0, 1 + t_q(i)(w) - w.x_i)^2

    ``t_q`` is the highest score of the negatives of query q; the weights p_i have sum 1: for Q
    queries with m_q positives each is ``1 / (Q m_q)``, times the query's weight over the mean
    weight. Queries with positives or negatives only are left out. The method minimises (11) plus

        lam1/2 sum_q t_q^2 + lam2/2 sum_i (t_q(i) - w.x_i)^2 + lam2/2 sum_j (w.x_j - t_q(j))^2

    over w and t, t_q at or above all negatives (the paper's problem 13). The result's objective
    and certified duality gap are those of (11), so the gap includes what lam1 and lam2 change.

    If the top cannot be separated, the optimum is w = 0 with value 1; then a warning says so.

    Parameters
    ----------
    lam : float, default=0.01
        Weight of the regulariser.
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
    max_iter : int, default=10000
    clamp : bool, default=False
        Lower `rho` to the bound instead of warning; not for "admm".
    threshold : float, optional
        Rows of higher relevance are positive, the others negative; by default those above the
        lowest relevance.
    scope : "per-query" or "global"
        Compare positives with the negatives of their own query, or of all queries together,
        where each positive counts as much as its query's weight. The same for one query.

    References
    ----------
    .. [1] Kadkhodaie, Christakopoulou, Sanjabi and Banerjee, "Accelerated alternating direction
       method of multipliers", KDD 2015. Departures: Algorithm 3 with its misprints corrected,
       relaxation, queries, a certified gap, restarts compared with non-restarted iterations only.
    """

    name = "a2dm2"
    tags = SolverTags(
        tasks=("query-document",),
        problem="min lam/2 |w|^2 + mean over positives of max(0, 1 + highest negative - s_i)^2",
        reference="Kadkhodaie et al., Accelerated alternating direction method of multipliers, "
        "KDD 2015",
        duality_gap=True,
    )
    parameters = {
        "lam": Real(0),
        "variant": Choice(("admm", "a2dm2", "a2dm2-restart")),
        "lam1": Optional(Real(0)),
        "lam2": Optional(Real(0)),
        "rho": Optional(Real(0)),
        "eta": Real(0, 1, high_open=False),
        "relaxation": Real(0, 2),
        "tol": Real(0),
        "max_iter": Integer(1),
        "clamp": Choice((False, True)),
        "threshold": Optional(Real()),
        "scope": Choice(("per-query", "global")),
    }

    def __init__(
        self,
        lam: float = 0.01,
        *,
        variant: Variant = "admm",
        lam1: float | None = None,
        lam2: float | None = None,
        rho: float | None = None,
        eta: float = 0.999,
        relaxation: float = 1.8,
        tol: float = 5e-6,
        max_iter: int = 10_000,
        clamp: bool = False,
        threshold: float | None = None,
        scope: Scope = "per-query",
    ) -> None:
        self.lam = lam
        self.variant = variant
        self.lam1 = lam1
        self.lam2 = lam2
        self.rho = rho
        self.eta = eta
        self.relaxation = relaxation
        self.tol = tol
        self.max_iter = max_iter
        self.clamp = clamp
        self.threshold = threshold
        self.scope = scope

    def tuning_space(self, data: Data | None = None) -> dict[str, BaseDistribution]:
        """The weight lam, up to ``max_i |x_i|^2``, where next to nothing is learnt."""
        return {"lam": decades_down(1.0 if data is None else largest_squared_norm(data))}

    def _solve(
        self,
        data: Data,
        init: Model | None,
        monitor: Monitor,
        rng: np.random.Generator,
    ) -> SolverResult:
        assert isinstance(data, RankingData)
        problem = make_top_problem(data, self.threshold, self.scope)
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
        except FloatingPointError as error:
            raise DataError(
                f"{self.name} cannot go on, {error}: scale the features, for example each to a "
                "largest absolute value of 1, or lower rho"
            ) from None
        warn_if_zero_is_optimal(self.name, run.lower_bound, 10 * self.tol, None)
        return SolverResult(
            model=LinearModel(run.w),
            status=status,
            objective=run.objective,
            duality_gap=run.objective - run.lower_bound,
            n_iter=run.n_iter,
            n_passes=split.n_passes,
        )

    def _step(self, split: TopSplit) -> float:
        if self.variant == "admm":
            return _STEP * 2.0 / len(split.problem.weight) if self.rho is None else self.rho
        sigma1 = min(self.lam, float(split.lam1.min()))
        largest = largest_step(sigma1, float(split.lam2.min()), split.norm(), 1.0)
        return largest if self.rho is None else safe_step(self.rho, largest, clamp=self.clamp)


class _Run:
    """The best weights so far and bounds of (11) around them; w = 0 has the value 1."""

    def __init__(self, solver: A2dm2TopPush, split: TopSplit, monitor: Monitor) -> None:
        self._solver, self._split, self._monitor = solver, split, monitor
        self.w = np.zeros(split.n_weights)
        self.objective, self.lower_bound = 1.0, 0.0
        self.n_iter = 0

    def iterate(self, rho: float) -> Status:
        """Go on until convergence, the most iterations, or the monitor's wish."""
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

    def _follow(self, step: Iterate, rho: float) -> Status | None:
        """Report an iteration; how the run ends if it does."""
        solver = self._solver
        if not np.isfinite(step.primal_residual + step.dual_residual):
            raise FloatingPointError(f"as it diverges with rho={rho:.3g}")
        value = self._look_at(step)
        solved = max(self._residuals(step)) <= solver.tol
        last = self.n_iter == solver.max_iter
        if solved or last or self.n_iter % _BOUND_EVERY == 0:
            self._bound(step)
        going = self._monitor.report(
            self.n_iter,
            objective=value,
            duality_gap=self.objective - self.lower_bound,
            primal_residual=step.primal_residual,
            dual_residual=step.dual_residual,
            rho=rho,
            n_passes=self._split.n_passes,
        )
        if solved and value < 1.0:  # the solution, not what was best on the way to it
            self.w, self.objective = step.x[: self._split.n_weights].copy(), value
        if solved or self.objective - self.lower_bound <= solver.tol * self.objective:
            return "converged"
        if not going:
            self._bound(step)
            return self._monitor.interruption or "stopped"
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
        return min(max(math.sqrt(max(primal, tiny) / max(dual, tiny)), 0.1), 10.0)

    def _look_at(self, step: Iterate) -> float:
        """Keep the weights if they are the best; their value of (11)."""
        split = self._split
        w = step.x[: split.n_weights]
        value: float = split.problem.value(split.lam, w, *split.scores(step.x, step.Ax))
        if value < self.objective:
            self.w, self.objective = w.copy(), value
        return value

    def _bound(self, step: Iterate) -> None:
        """Raise the lower bound of (11) by the multipliers."""
        split = self._split
        split.n_passes += 1
        a, b = split.dual_point(step.multiplier)
        self.lower_bound = max(self.lower_bound, split.problem.lower_bound(split.lam, a, b))
