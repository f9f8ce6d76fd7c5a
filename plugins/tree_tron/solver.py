"""Linear rankSVM with squared hinge loss by Newton's method in O(n log k) a product."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from rankplug.objectives import SquaredHinge
from rankplug.optim.bracket import OnIteration, Vector
from rankplug.optim.newton_cg import Point, newton_cg
from rankplug.optim.preconditioners import make_preconditioner
from rankplug.optim.tron import tron
from rankplug.parameters import Count, Positive
from rankplug.shards import Shards
from rankplug.solver import LinearPathSolver, Objective, PathPoint


class TreeTron(LinearPathSolver):
    """Linear rankSVM with squared hinge loss over all preference pairs.

        min_w  1/2 w.w + C sum over (i, j) in P of c_q(i,j) max(0, 1 - (w.x_i - w.x_j))^2

    P holds every pair of one query with ``y_i > y_j``; pairs are never listed: a Hessian product
    costs one read of the features and O(log k) a row for k levels of relevance.

    Parameters
    ----------
    tol : float, default=1e-3
        Converged when ``|grad f(w)| <= tol |grad f(0)|``, from whatever point it started, and the
        decrease of f that is left seems to be at most ``tol f(w)``.
    max_iter : int, default=100
        Most Newton steps.
    method : "newton" or "tron"
        Newton-CG with a line search and preconditioner, or the paper's trust region.
    C, preconditioner, reduction, n_threads
        See `LinearPathSolver`; the preconditioner is for "newton".

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
    tags = LinearPathSolver.tags.replace(
        problem="min 1/2 |w|^2 + C sum over pairs of max(0, 1 - (s_i - s_j))^2",
        reference="Lee and Lin, Large-scale linear rankSVM, Neural Computation 26 (2014)",
    )

    tol: Positive = 1e-3
    max_iter: Count = 100
    method: Literal["newton", "tron"] = "newton"

    def describe_objective(self) -> Objective:
        """The squared hinge loss of pairs."""
        parameters = {"C": self.C, "reduction": self.reduction}
        return Objective("squared hinge loss of pairs", parameters)

    def _open_problem(self, shards: Shards) -> _SquaredHingeProblem:
        return _SquaredHingeProblem(self, SquaredHinge(shards))


class _SquaredHingeProblem:
    """One data set with its point, loss and preconditioner; a solution is the next start."""

    def __init__(self, solver: TreeTron, loss: SquaredHinge) -> None:
        self._solver = solver
        self._loss = loss
        self._preconditioner = make_preconditioner(solver.preconditioner, loss)
        self.move_to(None)
        self._gradient_at_zero = float(np.linalg.norm(self._point.loss_gradient))

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
        """Solve for this C; ``1/2 |grad f|^2`` bounds how far f is from its minimum."""
        solver = self._solver
        rules: dict[str, Any] = {
            "gradient_tol": solver.tol * C * self._gradient_at_zero,
            "decrease_tol": solver.tol,
            "max_iter": solver.max_iter,
            "report": report,
        }
        if solver.method == "tron":
            found = tron(self._loss, C, self._point, **rules)
        else:
            rules["preconditioner"] = self._preconditioner
            found = newton_cg(self._loss, C, self._point, **rules)
        self._point = point = found.point
        gradient = point.gradient(C)
        gap = 0.5 * float(gradient @ gradient)
        return PathPoint(point.w, point.objective(C), gap, found.n_iter, found.status)
