"""Linear rankSVM with squared hinge loss by Newton's method in O(n log k) a product."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

import numpy as np
from typing_extensions import override

from rankplug.objectives import SquaredHinge, centre_queries
from rankplug.optim.bracket import Bracket, OnIteration, Vector, recheck
from rankplug.optim.newton_cg import Point, newton_cg
from rankplug.optim.preconditioners import make_preconditioner
from rankplug.optim.tron import tron
from rankplug.optim.vectors import inner, norm2
from rankplug.parameters import Count, Positive
from rankplug.shards import Shards
from rankplug.solver import Data, LinearPathSolver, Objective, PathPoint, Status
from rankplug.system.interruption import Overdue, interrupted, is_late

_DECADES = 8  # of C, from where hardly a pair is beyond its margin


class TreeTron(LinearPathSolver):
    """Linear rankSVM with squared hinge loss over all preference pairs.

        min_w  1/2 w.w + C sum over (i, j) in P of c_q(i,j) max(0, 1 - (w.x_i - w.x_j))^2

    P holds every pair of one query with ``y_i > y_j``; pairs are never listed: a Hessian product
    costs one read of the features and O(log k) a row for k levels of relevance.

    Parameters
    ----------
    tol : float, default=1e-3
        Converged when ``|grad f(w)| <= tol |grad f(0)|``, from whatever point it started, and the
        duality gap is at most ``tol f(w)``.
    max_iter : int, default=100
        Most Newton steps.
    method : "newton" or "tron"
        Newton-CG with a line search and preconditioner, or the paper's trust region, which stops
        by the gradient; where that proves too little, some steps of "newton" follow.
    C, preconditioner, reduction, pair_weight, document_pairs, n_threads
        See `LinearPathSolver`; the preconditioner is for "newton".

    Notes
    -----
    The duality gap of the result is ``1/2 |grad f(w)|^2``, which is certain for this problem.

    With a huge C on data that can be separated, rounding errors may forbid any more progress before
    that. Then the problem is solved once more by way of smaller C, whose minima are lower bounds
    too; if not even that closes the gap, the status is "stopped" and a warning tells it.

    References
    ----------
    .. [1] Lee and Lin, "Large-scale linear rankSVM", Neural Computation 26 (2014). Departures:
       a 16-ary tree of prefix sums instead of a selection tree, one pass for each Hessian
       product, a line search that reads no features, and preconditioning.
    """

    name = "tree-tron"
    tags = LinearPathSolver.tags.replace(
        problem="min 1/2 |w|^2 + C sum over pairs of max(0, 1 - (s_i - s_j))^2",
        reference="Lee and Lin, Large-scale linear rankSVM, Neural Computation 26 (2014)",
    )

    tol: Positive = 1e-3
    max_iter: Count = 100
    method: Literal["newton", "tron"] = "newton"

    def describe_objective(self) -> Objective:
        """The squared hinge loss of pairs."""
        return Objective("squared hinge loss of pairs", self._loss_parameters())

    @override
    def _prepare(self, data: Data) -> Data:
        return centre_queries(data)

    def _open_problem(self, shards: Shards) -> _SquaredHingeProblem:
        return _SquaredHingeProblem(self, SquaredHinge(shards))


class _SquaredHingeProblem:
    """One data set with its point, loss and preconditioner; a solution is the next start."""

    def __init__(self, solver: TreeTron, loss: SquaredHinge) -> None:
        self._solver = solver
        self._loss = loss
        self._preconditioner = make_preconditioner(solver.preconditioner, loss)
        self.move_to(None)
        self._gradient_at_zero = norm2(self._point.loss_gradient)

    @property
    def n_passes(self) -> float:
        """Passes over the features so far."""
        return self._loss.n_passes

    def move_to(self, w: Vector | None) -> None:
        """Start the next solution from `w` (0 for None)."""
        value = self._loss.move_to(w)
        w = np.zeros(self._loss.n_columns) if w is None else w
        self._point = Point(w, value, self._loss.gradient())

    def minimise(self, C: float, report: OnIteration) -> PathPoint:
        """Solve for this C; if rounding errors forbid that, by way of smaller ones."""
        told = _Told(report, C)
        status = self._descend(C, told)
        bracket = Bracket(self._point)
        self._certify(bracket, C, C)
        stuck = status == "stopped" and told.going and not (interrupted() or is_late())
        if stuck and bracket.relative_gap > self._solver.tol:
            self.move_to(None)
            for decade in range(_DECADES, -1, -1):
                smaller = C / 10.0**decade
                status = self._descend(smaller, told)
                self._certify(bracket, C, smaller)
                if not told.going or interrupted() or status == "max_iter":
                    break
            if bracket.w is not self._point:
                self.move_to(bracket.w.w)
            if status == "stopped" and bracket.relative_gap <= self._solver.tol:
                status = "converged"
        w, objective, gap = bracket.w.w, bracket.objective, bracket.gap
        with suppress(Overdue):
            error = self._loss.rounding(C, w, self._solver.tol * abs(objective))
            if error > 0:  # scores that have followed many steps are wrong by more
                self.move_to(w)
                objective = self._point.objective(C)
                gap = recheck(bracket, objective, error)
        return PathPoint(w, objective, gap, told.n_iter, status)

    def _descend(self, C: float, told: _Told) -> Status:
        """Go to about the minimum for this C from where the loss stands."""
        solver = self._solver
        gradient_tol = solver.tol * C * self._gradient_at_zero
        status: Status = "converged"
        if solver.method == "tron":
            rules = told.rules(C, solver.max_iter)
            found = tron(self._loss, C, self._point, gradient_tol=gradient_tol, **rules)
            self._point, status = found.point, found.status
        if status == "converged":
            found = newton_cg(
                self._loss,
                C,
                self._point,
                gradient_tol=gradient_tol,
                gap_tol=solver.tol,
                preconditioner=self._preconditioner,
                **told.rules(C, solver.max_iter),
            )
            self._point, status = found.point, found.status
        return status

    def _certify(self, bracket: Bracket[Point], C: float, smaller: float) -> None:
        """Take over the point for C, and the lower bound that it gives for a smaller one."""
        point = self._point
        bracket.offer(point, point.objective(C))
        gradient = point.gradient(smaller)
        bracket.raise_bound(point.objective(smaller) - 0.5 * inner(gradient, gradient))


class _Told:
    """Iterations of several runs, told as those of one that minimises for C."""

    def __init__(self, report: OnIteration, C: float) -> None:
        self._report, self._C = report, C
        self.n_iter, self.going = -1, True

    def rules(self, C: float, max_iter: int) -> dict[str, Any]:
        """What a run for this C may do: what is left of the iterations, each of them told."""
        first = max(self.n_iter, 0)

        def report(n_iter: int, *, w: Vector, objective: float, **values: Any) -> bool:
            if first + n_iter > self.n_iter:
                half = 0.5 * inner(w, w)
                value = objective if C == self._C else half + (objective - half) * (self._C / C)
                self.n_iter = first + n_iter
                self.going = self._report(self.n_iter, w=w, objective=value, **values)
            return self.going and not interrupted()

        return {"max_iter": max_iter - first, "report": report}
