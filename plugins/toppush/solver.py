"""TopPush: linear ranking at the top, with a certified duality gap."""

from __future__ import annotations

from typing import Literal

from rankplug.exceptions import ParameterError
from rankplug.models import LinearModel, Model
from rankplug.objectives import TopLossName, TopProblem
from rankplug.optim.bracket import Certified
from rankplug.parameters import Count
from rankplug.solver import Data, Monitor, SearchSpace, TopSolver
from rankplug_plugins.toppush.alm_newton import alm_newton
from rankplug_plugins.toppush.apg import accelerated_gradient


class TopPush(TopSolver):
    """Linear ranking at the top: positives above the highest negatives of their query.

        min_w  lam/2 |w|^2 + sum over positives i of p_i max(0, 1 + t_q(i)(w) - w.x_i)^2

    with ``t_q`` and p_i as in `TopSolver`, but ``t_q`` is the mean of the `top_k` highest scores.
    Other losses of a positive, as smooth ones, stand for the squared hinge if they are asked for.

    Parameters
    ----------
    method : "alm-newton" or "apg"
        Augmented Lagrangian with semismooth Newton steps, or Li, Jin and Zhou's accelerated
        gradients on the dual, which take far more passes (and `top_k` = 1 only).
    top_k : int, default=1
        How many of the highest negatives of a query count, as their mean: more resist outliers.
    loss : "squared-hinge", "logistic" or "exponential"
        With ``z = t_q - w.x_i``: ``max(0, 1 + z)^2``, ``log2(1 + exp(z))`` or ``exp(z)``; all are 1
        at w = 0. The last two are for "alm-newton".
    lam, tol, max_iter, threshold, scope
        See `TopSolver`; an iteration is a Newton or gradient step.

    Notes
    -----
    `SolverResult.duality_gap` is the objective minus the dual objective of a feasible point.

    References
    ----------
    .. [1] Li, Jin and Zhou, "Top rank optimization in linear time", NIPS 2014. Departures: the
       augmented Lagrangian, `top_k`, queries, and a stop by the duality gap.
    """

    name = "toppush"
    tags = TopSolver.tags.replace(
        reference="Li, Jin and Zhou, Top rank optimization in linear time, NIPS 2014"
    )

    method: Literal["alm-newton", "apg"] = "alm-newton"
    top_k: Count = 1
    loss: TopLossName = "squared-hinge"

    def tuning_space(self, data: Data | None = None) -> SearchSpace:
        """That of `TopSolver`, and `top_k` unless the method takes 1 only."""
        from optuna.distributions import IntDistribution

        space = super().tuning_space(data)
        return (
            space if self.method == "apg" else space | {"top_k": IntDistribution(1, 16, log=True)}
        )

    def check(self, data: Data) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        if self.method == "apg" and self.top_k > 1:
            raise ParameterError(
                f"method='apg' takes top_k=1 only, not {self.top_k}: use method='alm-newton'"
            )
        if self.method == "apg" and self.loss != "squared-hinge":
            raise ParameterError(
                f"method='apg' takes loss='squared-hinge' only, not {self.loss!r}: use "
                "method='alm-newton'"
            )

    def _top_k(self) -> int:
        return self.top_k

    def _top_loss(self) -> TopLossName:
        return self.loss

    def _minimise(self, problem: TopProblem, monitor: Monitor, init: Model | None) -> Certified:
        method = alm_newton if self.method == "alm-newton" else accelerated_gradient
        report = monitor.report_weights(LinearModel)
        return method(problem, self.lam, tol=self.tol, max_iter=self.max_iter, report=report)
