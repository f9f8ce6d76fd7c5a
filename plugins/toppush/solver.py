"""TopPush: linear ranking at the top, with a certified duality gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from rankplug.data import RankingData
from rankplug.exceptions import DataError, ParameterError
from rankplug.models import LinearModel, Model
from rankplug.objectives import (
    Scope,
    TopProblem,
    decades_down,
    largest_squared_norm,
    make_top_problem,
    warn_if_zero_is_optimal,
)
from rankplug.parameters import Choice, Integer, Optional, Real
from rankplug.solver import Data, Monitor, Solver, SolverResult, SolverTags, Status
from rankplug_plugins.toppush.alm_newton import alm_newton
from rankplug_plugins.toppush.apg import accelerated_gradient
from rankplug_plugins.toppush.outcome import Outcome

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["TopPush"]


class TopPush(Solver):
    """Linear ranking at the top: positives above the highest negatives of their query.

        min_w  lam/2 |w|^2 + sum over positives i of p_i max(0, 1 + t_q(i)(w) - w.x_i)^2

    ``t_q`` is the highest score of the negatives of query q, or the mean of the `top_k` highest.
    The weights p_i have sum 1: for Q queries with m_q positives each is ``1 / (Q m_q)``, times
    the query's weight over the mean weight. Queries with positives or negatives only are left out.

    If the top cannot be separated, the optimum is w = 0 with value 1; then a warning says so.

    Parameters
    ----------
    lam : float, default=0.01
        Weight of the regulariser.
    method : "alm-newton" or "apg"
        Augmented Lagrangian with semismooth Newton steps, or Li, Jin and Zhou's accelerated
        gradients on the dual, which take far more passes (and `top_k` = 1 only).
    tol : float, default=1e-6
        Converged when the certified duality gap is at most `tol` times the objective.
    max_iter : int, default=10000
        Most Newton or gradient steps.
    top_k : int, default=1
        How many of the highest negatives of a query count, as their mean: more resist outliers.
    threshold : float, optional
        Rows of higher relevance are positive, the others negative; by default those above the
        lowest relevance.
    scope : "per-query" or "global"
        Compare positives with the negatives of their own query, or of all queries together,
        where each positive counts as much as its query's weight. The same for one query.

    Notes
    -----
    `SolverResult.duality_gap` is the objective minus the dual objective of a feasible point.

    References
    ----------
    .. [1] Li, Jin and Zhou, "Top rank optimization in linear time", NIPS 2014. Departures: the
       augmented Lagrangian, `top_k`, queries, and a stop by the duality gap.
    """

    name = "toppush"
    tags = SolverTags(
        tasks=("query-document",),
        problem="min lam/2 |w|^2 + mean over positives of max(0, 1 + highest negative - s_i)^2",
        reference="Li, Jin and Zhou, Top rank optimization in linear time, NIPS 2014",
        duality_gap=True,
    )
    parameters = {
        "lam": Real(0),
        "method": Choice(("alm-newton", "apg")),
        "tol": Real(0),
        "max_iter": Integer(1),
        "top_k": Integer(1),
        "threshold": Optional(Real()),
        "scope": Choice(("per-query", "global")),
    }

    def __init__(
        self,
        lam: float = 0.01,
        *,
        method: Literal["alm-newton", "apg"] = "alm-newton",
        tol: float = 1e-6,
        max_iter: int = 10_000,
        top_k: int = 1,
        threshold: float | None = None,
        scope: Scope = "per-query",
    ) -> None:
        self.lam = lam
        self.method = method
        self.tol = tol
        self.max_iter = max_iter
        self.top_k = top_k
        self.threshold = threshold
        self.scope = scope

    def tuning_space(self, data: Data | None = None) -> dict[str, BaseDistribution]:
        """The weight lam, up to ``max_i |x_i|^2``, where next to nothing is learnt, and `top_k`.

        Without `top_k` where the method takes 1 only.
        """
        from optuna.distributions import IntDistribution

        lam = decades_down(1.0 if data is None else largest_squared_norm(data))
        if self.method == "apg":
            return {"lam": lam}
        return {"lam": lam, "top_k": IntDistribution(1, 16, log=True)}

    def check(self, data: Data) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        if self.method == "apg" and self.top_k > 1:
            raise ParameterError(
                f"method='apg' takes top_k=1 only, not {self.top_k}: use method='alm-newton'"
            )

    def _solve(
        self,
        data: Data,
        init: Model | None,
        monitor: Monitor,
        rng: np.random.Generator,
    ) -> SolverResult:
        assert isinstance(data, RankingData)
        problem = make_top_problem(data, self.threshold, self.scope, self.top_k)
        try:
            found = self._minimise(problem, monitor)
        except FloatingPointError:
            raise DataError(
                f"the features are too large for lam={self.lam:g}: numbers overflow or lose "
                "their digits; scale the features, for example each to a largest absolute value "
                "of 1"
            ) from None
        status: Status = found.status
        if status == "stopped" and monitor.interruption is not None:
            status = monitor.interruption
        warn_if_zero_is_optimal(self.name, found.bounds.lower_bound, self.tol, self.top_k)
        return SolverResult(
            model=LinearModel(found.bounds.w),
            status=status,
            objective=found.bounds.objective,
            duality_gap=found.bounds.gap,
            n_iter=found.n_iter,
            n_passes=found.n_passes,
        )

    def _minimise(self, problem: TopProblem, monitor: Monitor) -> Outcome:
        method = alm_newton if self.method == "alm-newton" else accelerated_gradient
        return method(
            problem, self.lam, tol=self.tol, max_iter=self.max_iter, report=monitor.report
        )
