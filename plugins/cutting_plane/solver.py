"""Linear rankSVM with hinge loss: bundle method, or Newton's on smoothed hinges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from rankplug.exceptions import DataError
from rankplug.models import Model, linear_model, linear_weights
from rankplug.objectives import Hinge, Reduction, SmoothedHinge, open_pairs, pairwise_c
from rankplug.optim.bracket import Certified
from rankplug.optim.bundle import Planes, bundle_method
from rankplug.optim.newton_cg import Report, Vector
from rankplug.optim.preconditioners import PreconditionerName, make_preconditioner
from rankplug.optim.smoothing import smoothed_newton
from rankplug.parameters import Choice, Integer, Optional, Real
from rankplug.shards import Shards
from rankplug.solver import Data, Monitor, Solver, SolverResult, SolverTags, Status

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["CuttingPlane"]


class CuttingPlane(Solver):
    """Linear rankSVM with hinge loss over all preference pairs.

        min_w  1/2 w.w + C sum over (i, j) in P of c_q(i,j) max(0, 1 - (w.x_i - w.x_j))

    P holds every pair of one query with ``y_i > y_j``; pairs are never listed: the loss and a
    subgradient cost two passes over the features and O(log n) a row.

    For label ranking each instance is a query and label r of instance i the row
    ``e_r (x) x_i`` (Kesler's construction), so that w holds one weight vector a label.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss, which is summed over pairs, not averaged.
    method : "ocas", "bmrm" or "smoothed-newton"
        Cutting planes with an exact line search, the plain cutting plane method of the papers,
        or Newton's method on ever narrower Huber hinges. The last is the fastest where passes
        over the data are dear, "ocas" on small data.
    tol : float, default=1e-3
        Converged when the duality gap is at most ``tol`` times the objective's absolute value.
    max_iter : int, default=5000
        Most planes, or Newton steps.
    preconditioner : "auto", "cholesky", "diagonal" or "none"
        For "smoothed-newton", as in tree-tron.
    reduction : "sum", "mean" or "query-mean"
        ``c_q``: 1; 1 / number of pairs; or 1 / (pairs of the query * queries with pairs), each
        times the query's weight.
    n_threads : int, optional
        Threads for large data, by default all cores this process may use. The result does not
        depend on it.

    Notes
    -----
    The duality gap of the result is the objective minus a lower bound of the minimum: the best
    of the planes' minima, or of the dual values of smoothed hinges. The objective in the history
    is the best so far; it never rises.

    TreeRankSVM [2]_ minimises ``lam |w|^2 + 1/N sum over the N pairs``, which is this problem
    divided by a constant: the same w has ``C = 1 / (2 lam)`` with ``reduction="mean"`` (as long
    as no query is weighted), or ``C = 1 / (2 lam N)`` with ``reduction="sum"``. SVMrank divides
    its C by the number of queries.

    References
    ----------
    .. [1] Joachims, "Training linear SVMs in linear time", KDD (2006).
    .. [2] Airola, Pahikkala and Salakoski, "Training linear ranking SVMs in linearithmic time
       using red-black trees", Pattern Recognition Letters 32 (2011). Departures: prefix sums
       instead of red-black trees, line search, and dropping of planes without use.
    .. [3] Franc and Sonnenburg, "Optimized cutting plane algorithm for large-scale risk
       minimization", JMLR 10 (2009).
    """

    name = "cutting-plane"
    tags = SolverTags(
        tasks=("query-document", "label-ranking"),
        problem="min 1/2 |w|^2 + C sum over pairs of max(0, 1 - (s_i - s_j))",
        reference="Airola et al., Training linear ranking SVMs in linearithmic time (2011)",
        duality_gap=True,
        warm_start=True,
        distributed=True,
    )
    parameters = {
        "C": Real(0),
        "method": Choice(("ocas", "bmrm", "smoothed-newton")),
        "tol": Real(0),
        "max_iter": Integer(1),
        "preconditioner": Choice(("auto", "cholesky", "diagonal", "none")),
        "reduction": Choice(("sum", "mean", "query-mean")),
        "n_threads": Optional(Integer(1)),
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        method: Literal["ocas", "bmrm", "smoothed-newton"] = "ocas",
        tol: float = 1e-3,
        max_iter: int = 5000,
        preconditioner: PreconditionerName = "auto",
        reduction: Reduction = "sum",
        n_threads: int | None = None,
    ) -> None:
        self.C = C
        self.method = method
        self.tol = tol
        self.max_iter = max_iter
        self.preconditioner = preconditioner
        self.reduction = reduction
        self.n_threads = n_threads

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
            problem = _problem(self, shards)
            start = None if init is None else linear_weights(init)
            return _solved(problem, self.C, start, monitor, data)

    def _solve_path(
        self, data: Data, Cs: Sequence[float], rng: np.random.Generator
    ) -> Iterator[SolverResult]:
        with open_pairs(data, self.reduction, self.n_threads) as shards:
            problem = _problem(self, shards)
            start = None
            for C in Cs:
                monitor = Monitor()
                result = _solved(problem, C, start, monitor, data)
                start = linear_weights(result.model)
                yield self._finish(result, monitor, data)


class _BundleProblem:
    """One data set, for one C or several: all use the same planes."""

    def __init__(self, solver: CuttingPlane, shards: Shards) -> None:
        self._solver = solver
        self.loss = Hinge(shards)
        self._planes = Planes(shards.n_columns)

    def minimise(self, C: float, start: Vector | None, report: Report) -> Certified:
        """Solve for this C."""
        solver = self._solver
        assert solver.method != "smoothed-newton"
        return bundle_method(
            self.loss,
            C,
            self._planes,
            start,
            method=solver.method,
            tol=solver.tol,
            max_iter=solver.max_iter,
            report=report,
        )


class _SmoothedProblem:
    """One data set with its preconditioner, for one C or several."""

    def __init__(self, solver: CuttingPlane, shards: Shards) -> None:
        self._solver = solver
        self.loss = SmoothedHinge(shards)
        self._preconditioner = make_preconditioner(solver.preconditioner, self.loss)

    def minimise(self, C: float, start: Vector | None, report: Report) -> Certified:
        """Solve for this C."""
        return smoothed_newton(
            self.loss,
            C,
            start,
            tol=self._solver.tol,
            max_iter=self._solver.max_iter,
            preconditioner=self._preconditioner,
            report=report,
        )


def _problem(solver: CuttingPlane, shards: Shards) -> _BundleProblem | _SmoothedProblem:
    if solver.method == "smoothed-newton":
        return _SmoothedProblem(solver, shards)
    return _BundleProblem(solver, shards)


def _solved(
    problem: _BundleProblem | _SmoothedProblem,
    C: float,
    start: Vector | None,
    monitor: Monitor,
    data: Data,
) -> SolverResult:
    passes_before = problem.loss.n_passes
    try:
        found = problem.minimise(C, start, monitor.report)
    except FloatingPointError:
        raise DataError(
            f"the features are too large for C={C:g}: numbers overflow or lose their digits; scale "
            "the features, for example to mean 0 and standard deviation 1"
        ) from None
    status: Status = found.status
    if status == "stopped" and monitor.interruption is not None:
        status = monitor.interruption
    return SolverResult(
        model=linear_model(found.bracket.w, data),
        status=status,
        objective=found.bracket.objective,
        duality_gap=found.bracket.gap,
        n_iter=found.n_iter,
        n_passes=problem.loss.n_passes - passes_before,
    )
