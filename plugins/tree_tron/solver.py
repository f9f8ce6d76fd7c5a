"""Linear rankSVM with squared hinge loss by Newton's method in O(n log k) a product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rankplug.exceptions import DataError
from rankplug.models import Model, linear_model, linear_weights
from rankplug.objectives import Reduction, SquaredHinge, open_pairs, pairwise_c
from rankplug.optim.newton_cg import Minimum, Point, Vector, newton_cg
from rankplug.optim.preconditioners import PreconditionerName, make_preconditioner
from rankplug.optim.tron import tron
from rankplug.parameters import Count, Positive, Threads
from rankplug.solver import Data, Monitor, Solver, SolverResult, SolverTags, Status

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["TreeTron"]


class TreeTron(Solver):
    """Linear rankSVM with squared hinge loss over all preference pairs.

        min_w  1/2 w.w + C sum over (i, j) in P of c_q(i,j) max(0, 1 - (w.x_i - w.x_j))^2

    P holds every pair of one query with ``y_i > y_j``; pairs are never listed: a Hessian product
    costs one read of the features and O(log k) a row for k levels of relevance.

    For label ranking each instance is a query and label r of instance i the row
    ``e_r (x) x_i`` (Kesler's construction), so that w holds one weight vector a label.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss, which is summed over pairs, not averaged.
    tol : float, default=1e-3
        Converged when ``|grad f(w)| <= tol |grad f(0)|``, from whatever point it started, and the
        decrease of f that is left seems to be at most ``tol f(w)``.
    max_iter : int, default=100
        Most Newton steps.
    method : "newton" or "tron"
        Newton-CG with a line search and preconditioner, or the paper's trust region.
    preconditioner : "auto", "cholesky", "diagonal" or "none"
        For "newton". "cholesky" factorises the Hessian of a sample of the data (ranking data
        only); "auto" takes it up to 2,000 features and "diagonal" beyond. All but "none" learn
        from the Hessian products of earlier steps.
    reduction : "sum", "mean" or "query-mean"
        ``c_q``: 1; 1 / number of pairs; or 1 / (pairs of the query * queries with pairs), each
        times the query's weight.
    n_threads : int, optional
        Threads for large data, by default all cores this process may use. The result does not
        depend on it.

    Notes
    -----
    The duality gap of the result is ``1/2 |grad f(w)|^2``, exact for this problem.

    References
    ----------
    .. [1] Lee and Lin, "Large-scale linear rankSVM", Neural Computation 26 (2014). Departures:
       a 16-ary tree of prefix sums instead of a selection tree, one pass for each Hessian
       product, a line search that reads no features, and preconditioning.
    """

    name = "tree-tron"
    tags = SolverTags(
        tasks=("query-document", "label-ranking"),
        problem="min 1/2 |w|^2 + C sum over pairs of max(0, 1 - (s_i - s_j))^2",
        reference="Lee and Lin, Large-scale linear rankSVM, Neural Computation 26 (2014)",
        duality_gap=True,
        warm_start=True,
        distributed=True,
    )
    C: Positive = field(default=1.0, kw_only=False)
    tol: Positive = 1e-3
    max_iter: Count = 100
    method: Literal["newton", "tron"] = "newton"
    preconditioner: PreconditionerName = "auto"
    reduction: Reduction = "sum"
    n_threads: Threads = None

    def tuning_space(self, data: Data | None = None) -> dict[str, BaseDistribution]:
        """C from where every pair has a loss, which depends on the reduction."""
        return {"C": pairwise_c(data, self.reduction)}

    def _solve(
        self,
        data: Data,
        init: Model | None,
        monitor: Monitor,
        rng: np.random.Generator,
    ) -> SolverResult:
        with open_pairs(data, self.reduction, self.n_threads) as shards:
            problem = _Problem(self, data, SquaredHinge(shards))
            if init is not None:
                problem.move_to(linear_weights(init))
            return problem.solve(self.C, monitor)

    def _solve_path(
        self, data: Data, Cs: Sequence[float], rng: np.random.Generator
    ) -> Iterator[SolverResult]:
        with open_pairs(data, self.reduction, self.n_threads) as shards:
            problem = _Problem(self, data, SquaredHinge(shards))
            for C in Cs:
                monitor = Monitor()
                yield self._finish(problem.solve(C, monitor), monitor, data)


class _Problem:
    """One data set with its shards and preconditioner, solved for one C or several.

    Each solution is the starting point of the next.
    """

    def __init__(self, solver: TreeTron, data: Data, loss: SquaredHinge) -> None:
        self._solver = solver
        self._data = data
        self._loss = loss
        self._counted_passes = 0.0
        self._preconditioner = make_preconditioner(solver.preconditioner, loss)
        self.move_to(None)
        self._gradient_at_zero = float(np.linalg.norm(self._point.loss_gradient))

    def move_to(self, w: Vector | None) -> None:
        """Start the next solution from `w` (0 for None)."""
        value = self._loss.move_to(w)
        w = np.zeros(self._loss.n_columns) if w is None else w
        self._point = Point(w, value, self._loss.gradient())

    def solve(self, C: float, monitor: Monitor) -> SolverResult:
        """Solve for this C."""
        try:
            found = self._minimise(C, monitor)
        except FloatingPointError:
            raise DataError(
                f"the features are too large for C={C:g}: numbers overflow or lose their digits; "
                "scale the features, for example to mean 0 and standard deviation 1"
            ) from None
        self._point = found.point
        return self._result(found, C, monitor)

    def _minimise(self, C: float, monitor: Monitor) -> Minimum:
        solver = self._solver
        rules: dict[str, Any] = {
            "gradient_tol": solver.tol * C * self._gradient_at_zero,
            "decrease_tol": solver.tol,
            "max_iter": solver.max_iter,
            "report": monitor.report,
        }
        if solver.method == "tron":
            return tron(self._loss, C, self._point, **rules)
        return newton_cg(self._loss, C, self._point, preconditioner=self._preconditioner, **rules)

    def _result(self, found: Minimum, C: float, monitor: Monitor) -> SolverResult:
        status: Status = found.status
        if status == "stopped" and monitor.interruption is not None:
            status = monitor.interruption
        gradient = found.point.gradient(C)
        n_passes = self._loss.n_passes - self._counted_passes
        self._counted_passes = self._loss.n_passes
        return SolverResult(
            model=linear_model(found.point.w, self._data),
            status=status,
            objective=found.point.objective(C),
            duality_gap=0.5 * float(gradient @ gradient),
            n_iter=found.n_iter,
            n_passes=n_passes,
        )
