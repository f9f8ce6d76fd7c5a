"""Linear rankSVM with hinge loss: bundle method, or Newton's on smoothed hinges."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Literal

from typing_extensions import override

from rankplug.objectives import Hinge, SmoothedHinge, centre_queries
from rankplug.optim.bracket import Certified, OnIteration, Vector, recheck
from rankplug.optim.bundle import Planes, bundle_method
from rankplug.optim.preconditioners import make_preconditioner
from rankplug.optim.smoothing import smoothed_newton
from rankplug.optim.vectors import inner
from rankplug.parameters import Count, Positive
from rankplug.shards import Shards
from rankplug.solver import Data, LinearPathSolver, Objective, PathPoint
from rankplug.system.interruption import Overdue


class CuttingPlane(LinearPathSolver):
    """Linear rankSVM with hinge loss over all preference pairs.

        min_w  1/2 w.w + C sum over (i, j) in P of c_q(i,j) max(0, 1 - (w.x_i - w.x_j))

    P holds every pair of one query with ``y_i > y_j``; pairs are never listed: the loss and a
    subgradient cost two passes over the features and O(log n) a row.

    Parameters
    ----------
    method : "ocas", "bmrm" or "smoothed-newton"
        Cutting planes with an exact line search, the plain cutting plane method of the papers,
        or Newton's method on ever narrower Huber hinges. The last is the fastest where passes
        over the data are dear, "ocas" on small data.
    tol : float, default=1e-3
        Converged when the duality gap is at most ``tol`` times the objective's absolute value.
    max_iter : int, default=5000
        Most planes, or Newton steps.
    C, preconditioner, reduction, pair_weight, document_pairs, n_threads
        See `LinearPathSolver`; the preconditioner is for "smoothed-newton".

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
    tags = LinearPathSolver.tags.replace(
        problem="min 1/2 |w|^2 + C sum over pairs of max(0, 1 - (s_i - s_j))",
        reference="Airola et al., Training linear ranking SVMs in linearithmic time (2011)",
    )

    method: Literal["ocas", "bmrm", "smoothed-newton"] = "ocas"
    tol: Positive = 1e-3
    max_iter: Count = 5000

    def describe_objective(self) -> Objective:
        """The hinge loss of pairs."""
        return Objective("hinge loss of pairs", self._loss_parameters())

    @override
    def _prepare(self, data: Data) -> Data:
        return centre_queries(data)

    def _open_problem(self, shards: Shards) -> _HingeProblem:
        return _HingeProblem(self, shards)


class _HingeProblem:
    """One data set with what serves all C: its planes, or the preconditioner of smooth hinges."""

    def __init__(self, solver: CuttingPlane, shards: Shards) -> None:
        rules: dict[str, Any] = {"tol": solver.tol, "max_iter": solver.max_iter}
        self._loss: Hinge | SmoothedHinge
        self._method: Callable[..., Certified]
        if solver.method == "smoothed-newton":
            self._loss = loss = SmoothedHinge(shards)
            preconditioner = make_preconditioner(solver.preconditioner, loss)
            self._method = partial(smoothed_newton, preconditioner=preconditioner, **rules)
        else:
            self._loss = Hinge(shards)
            planes = Planes(shards.n_columns)
            self._method = partial(bundle_method, planes=planes, method=solver.method, **rules)
        self._tol = solver.tol
        self._start: Vector | None = None

    @property
    def n_passes(self) -> float:
        """Passes over the features so far."""
        return self._loss.n_passes

    def move_to(self, w: Vector) -> None:
        """Start the next solution from `w`."""
        self._start = w

    def minimise(self, C: float, report: OnIteration) -> PathPoint:
        """Solve for this C."""
        found = self._method(self._loss, C, w=self._start, report=report)
        bracket = found.bracket
        self._start = bracket.w
        w, objective, gap = bracket.w, bracket.objective, bracket.gap
        with suppress(Overdue):
            error = self._loss.rounding(C, w, self._tol * abs(objective))
            if error > 0:  # scores that have followed many steps are wrong by more
                value = self._loss.move_to(w)
                if isinstance(self._loss, SmoothedHinge):
                    value = self._loss.hinge()
                objective = 0.5 * inner(w, w) + C * value
                gap = recheck(bracket, objective, error)
        return PathPoint(w, objective, gap, found.n_iter, found.status)
