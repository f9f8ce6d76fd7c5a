"""Label ranking by soft projections: dual ascent over complete bipartite graphs."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from rankplug.data import RankingData
from rankplug.models import Model
from rankplug.objectives import largest_squared_norm
from rankplug.optim.bracket import Bracket, Vector
from rankplug.parameters import ChoiceOrFunction, Count, Positive
from rankplug.solver import Data, KernelSolver, Monitor, Objective, SolverResult, Status
from rankplug.system.interruption import interrupted
from rankplug_plugins.sopopo.decompositions import NAMES, Decomposition, Graphs, Weights, decompose
from rankplug_plugins.sopopo.problems import (
    DualProblem,
    KernelLabels,
    KernelQueries,
    LinearLabels,
    LinearQueries,
    Point,
)

_STEPS = 8  # epochs behind an extrapolation, each of which keeps a copy of the dual variables
_MOST_VALUES = 2**26  # of all dual vectors kept: 512 MB
_DECADES = 6  # of the smoothing of a start, from where hardly a dual variable is at its bound
_TINY = float(np.finfo(np.float64).tiny)
_RIDGE = 1e-10  # share of the trace: steps of a converging sequence are nearly parallel


class Sopopo(KernelSolver):
    """Large-margin label ranking, whose loss is a sum of largest violations.

    The preferences of an instance with relevance g are split into complete bipartite graphs
    A x B, every label of A better than every label of B, and

        min_W  1/2 sum_r |w_r|^2 + C sum_i sum_(A, B) sigma [max_A (g - s_i) + max_B (s_i - g)]_+

    with scores ``s_ir = w_r.x_i``: of the margins ``g_a - g_b`` asked for in a graph, the one
    missed by most counts. For query-document data there is one w, and the documents of a query
    stand for the labels of an instance.

    Parameters
    ----------
    decomposition : str or callable, default="auto"
        A layer is the items of equal relevance.

        * "auto": "adjacent-layers" for labels, "all-pairs" for documents;
        * "adjacent-layers": each layer against the next lower one;
        * "all-pairs": each pair of items of different relevance (Weston and Watkins' loss for
          classes, Elisseeff and Weston's for several labels);
        * "top-vs-rest": the top layer against all others (Crammer and Singer's for classes);
        * "all-layers": each layer against each lower one.

        A function gets the relevance of one instance or query (NaN: not compared) and returns a
        list of (A, B) or (A, B, sigma), A and B lists of positions.
    weights : "sum" or "mean"
        ``sigma``: 1, or 1 / number of graphs of the instance or query.
    C, kernel, gamma, degree, coef0
        See `KernelSolver`; the loss is summed over instances or queries.
    tol : float, default=1e-3
        Converged when the duality gap is at most this share of the objective.
    max_epochs : int, default=1000
        Most visits to each instance or query.
    shrinking : bool, default=True
        Pass over graphs that are far from any violation. All are looked at again after each
        epoch, so the result is not affected.
    cache_mb : float, default=200
        Memory for rows of the kernel matrix; those of the largest query have room in any case.

    Notes
    -----
    There is no intercept: add a constant feature where labels differ in how often they are good.
    For a large C, or features that are not scaled, epochs gain little and many are needed. With
    query-document data, the graphs whose loss is their worst pair are best left to clean
    relevance: one exception outweighs all other pairs of its graph, up to an optimum of w = 0.
    "all-pairs" lists the pairs: where memory does not hold them, the data are refused.

    The order of visits is random (``random_state``), and drawn by position: rows in another order
    give another model, within `tol` of the same optimum. Scores differ by about 1 % of their range
    where the optimum is clear, by half of it and more where it is close to w = 0.

    The objective of the result is the lowest one met, the duality gap its distance from the dual
    objective.

    References
    ----------
    .. [1] Shalev-Shwartz and Singer, "Efficient Learning of Label Ranking by Soft Projections
       onto Polyhedra", JMLR 7 (2006). Departures: the projection finds its shift by Newton's
       method instead of sorting, where equal entries made Figure 3 divide by zero; the visits
       are permuted, and Anderson's method extrapolates them; rows without features get the
       dual variables that close the gap.
    """

    name = "sopopo"
    tags = KernelSolver.tags.replace(
        problem="min 1/2 |W|^2 + C sum over graphs A x B of [max_A (g - s) + max_B (s - g)]_+",
        reference="Shalev-Shwartz and Singer, Label Ranking by Soft Projections, JMLR 7 (2006)",
        takes_init=True,
    )
    iteration_limit = "max_epochs"
    _if_vanishing = (
        "The loss of a graph is its worst pair, so that one exception outweighs the others: take "
        "decomposition='all-pairs', or 'tree-tron' where there are too many pairs for that"
    )

    decomposition: Annotated[Decomposition, ChoiceOrFunction(("auto", *NAMES))] = "auto"
    weights: Weights = "sum"
    tol: Positive = 1e-3
    max_epochs: Count = 1000
    shrinking: bool = True
    cache_mb: Positive = 200.0

    def describe_objective(self) -> Objective:
        """The loss of bipartite graphs."""
        parameters = {"C": self.C, "decomposition": self.decomposition, "weights": self.weights}
        return Objective("loss of bipartite graphs", parameters | self._kernel_parameters())

    def _smallest_c(self, data: Data) -> float:
        """Where ``4 C max_i k(x_i, x_i) sum of all sigma`` is the smallest margin.

        That bounds the difference of two scores.
        """
        total = float(self._graphs(data).weight.sum())
        levels = np.unique(data.relevance[~np.isnan(data.relevance)])
        if self.kernel != "linear":
            largest = float(self._make_kernel(data).diagonal(data.X).max())
        else:
            largest = largest_squared_norm(data)
        with np.errstate(divide="ignore"):  # features so small that their squares are 0
            return float(np.diff(levels).min() / np.float64(4.0 * largest * total))

    def _solve(
        self, data: Data, init: Model | None, monitor: Monitor, rng: np.random.Generator
    ) -> SolverResult:
        graphs = self._graphs(data)
        problem = self._problem(data, graphs)
        ascent = _Ascent(problem, self.tol, self.shrinking)
        if init is not None:
            ascent.start_at(init, data, self.C)
        result = ascent.run(self.max_epochs, monitor, rng)
        monitor.objective_of_zero = problem.graphs.loss(np.zeros(data.relevance.size), np.inf)
        return self._widen(result, data, self.C * float(graphs.weight.sum()))

    def _problem(self, data: Data, graphs: Graphs | None = None) -> DualProblem:
        graphs = graphs or self._graphs(data)
        bound = self.C * graphs.weight
        if self.kernel != "linear":
            kernel = self._make_kernel(data)
            if isinstance(data, RankingData):
                return KernelQueries(data, graphs, bound, kernel, self.cache_mb)
            return KernelLabels(data, graphs, bound, kernel, self.cache_mb)
        if isinstance(data, RankingData):
            return LinearQueries(data, graphs, bound)
        return LinearLabels(data, graphs, bound)

    def _graphs(self, data: Data) -> Graphs:
        offset = np.concatenate(([0], np.cumsum(data.sizes)))
        decomposition = self.decomposition
        if decomposition == "auto":
            decomposition = "all-pairs" if data.n_labels is None else "adjacent-layers"
        relevance = data.relevance.ravel()
        return decompose(relevance, offset, data.weights, decomposition, self.weights)


class _Ascent:
    """Epochs until the gap between the best primal and the dual objective is small.

    An epoch

    1. visits the groups with an active graph in random order, a soft projection each;
    2. extrapolates the dual variables after some epochs in the same order, see `_Extrapolation`;
    3. scores everything for the primal objective, which also says which graphs are active next;
    4. ends the ascent if the gap is small, or if nothing moved.
    """

    def __init__(self, problem: DualProblem, tol: float, shrinking: bool) -> None:
        self._problem = problem
        self._tol = tol
        self._shrinking = shrinking
        self._margin = np.inf
        self._bracket: Bracket[Point] = Bracket(problem.point())

    def start_at(self, model: Model, data: Data, C: float) -> None:
        """Start with a model's weights, if they are explicit, and dual variables of its scores.

        Were the loss smoothed by ``h/2`` times the sum of their squares, the dual variables at
        these scores would be soft projections of ``(g - s) / h`` over A and ``(s - g) / h`` over
        B. Of some h, and shares of what they give, the one of the highest dual objective counts.
        """
        problem, scores = self._problem, np.asarray(model.predict(data.X)).ravel()
        point = problem.point_of(model)
        if point is not None:
            half = 0.5 * float(np.vdot(point[0], point[0]))
            self._bracket.offer(point, half + problem.graphs.loss(scores, np.inf))
        slack = problem.incidence.signed(data.relevance.ravel() - scores)
        largest = np.abs(slack).max(initial=0.0) / (C * problem.incidence.largest_weight)
        best, best_dual = _dual_objective(problem), np.array(problem.graphs.dual)
        for h in largest * np.logspace(0, -_DECADES, _DECADES + 1):
            if h <= 0.0 or interrupted():
                break
            problem.graphs.move_to(slack / h)
            problem.recompute()
            share = min(1.0, problem.graphs.linear() / max(problem.squared_norm(), _TINY))
            problem.graphs.move_to(share * np.asarray(problem.graphs.dual))
            problem.recompute()
            value = _dual_objective(problem)
            if value > best:
                best, best_dual = value, np.array(problem.graphs.dual)
        np.asarray(problem.graphs.dual)[:] = best_dual
        problem.recompute()

    def run(self, max_epochs: int, monitor: Monitor, rng: np.random.Generator) -> SolverResult:
        """Ascend, and certify what was reached."""
        n_epochs, status = self._ascend(max_epochs, monitor, rng)
        self._problem.recompute()
        bracket = self._bracket
        if not interrupted():
            bracket.lower_bound = _dual_objective(self._problem)
        return SolverResult(
            model=self._problem.model(bracket.w),
            status=status,
            objective=bracket.objective,
            duality_gap=bracket.gap,
            n_iter=n_epochs,
            n_passes=self._problem.n_passes,
        )

    def _ascend(
        self, max_epochs: int, monitor: Monitor, rng: np.random.Generator
    ) -> tuple[int, Status]:
        problem, bracket = self._problem, self._bracket
        extrapolation = _Extrapolation(problem)
        order = np.arange(0)
        for n_epochs in range(1, max_epochs + 1):
            active = problem.graphs.has_active()
            if extrapolation.starts_anew:
                order = rng.permutation(len(active))
            visited = order[active[order]]
            moved = problem.epoch(visited)
            if self._shrinking:
                self._margin = moved
            if not interrupted():
                extrapolation.after_epoch()
            self._evaluate()
            go_on = monitor.report(
                n_epochs,
                model=lambda: problem.model(bracket.w),
                objective=bracket.objective,
                duality_gap=bracket.gap,
                visited=float(len(visited)),
            )
            if bracket.gap <= self._tol * abs(bracket.objective):
                return n_epochs, "converged"
            if not go_on or moved == 0.0:
                return n_epochs, "stopped"
        return max_epochs, "max_iter"

    def _evaluate(self) -> None:
        """Objectives at the current point; the lowest primal one is kept with its weights."""
        problem = self._problem
        loss = problem.graphs.loss(problem.scores(), self._margin)
        primal = 0.5 * problem.squared_norm() + loss
        self._bracket.raise_bound(_dual_objective(problem))
        if primal < self._bracket.objective:
            self._bracket.offer(problem.point(), primal)


class _Extrapolation:
    """Jumps to where a few epochs in the same order seem to lead, if the dual is higher there.

    Near the maximum ascent over blocks converges linearly, slowly for a large C. Its limit is
    guessed to be the affine combination of the last dual vectors whose steps cancel out best
    (Anderson's method, as for coordinate descent by Bertrand and Massias, AISTATS 2021). Far
    from it many variables grow evenly, and the last direction is followed instead. Either way
    soft projections bring the guess back into the constraints.
    """

    def __init__(self, problem: DualProblem) -> None:
        self._problem = problem
        n_values = len(problem.graphs.dual)
        self._n_steps = min(_STEPS, _MOST_VALUES // max(n_values, 1) - 1)
        self._duals: list[Vector] = []

    @property
    def starts_anew(self) -> bool:
        """Whether the next epoch may take another order."""
        return not self._duals

    def after_epoch(self) -> None:
        """Remember the dual variables, and jump when there are enough of them."""
        if self._n_steps < 2:
            return
        self._duals.append(np.array(self._problem.graphs.dual))
        if len(self._duals) > self._n_steps:
            duals, self._duals = self._duals, []
            with np.errstate(over="ignore", invalid="ignore"):  # then the jump is not taken
                if not self._jump(_extrapolate(np.array(duals))):
                    self._stride(duals[-1], duals[-1] - duals[0])

    def _stride(self, start: Vector, direction: Vector) -> None:
        """Go on as before, twice as far each time, for as long as the dual rises."""
        length = 1.0
        while not interrupted() and self._jump(start + length * direction):
            length *= 2.0

    def _jump(self, target: Vector) -> bool:
        """Move to the closest feasible point unless the dual is lower there; whether it moved."""
        problem = self._problem
        dual, weights = np.array(problem.graphs.dual), problem.weights.copy()
        before = _dual_objective(problem)
        problem.graphs.move_to(target)
        problem.recompute()
        if not interrupted() and _dual_objective(problem) > before:
            return True
        np.asarray(problem.graphs.dual)[:] = dual
        problem.weights[:] = weights
        return False


def _dual_objective(problem: DualProblem) -> float:
    """Lower bound of the minimum at the present dual variables."""
    return float(problem.graphs.linear() - 0.5 * problem.squared_norm())


def _extrapolate(duals: NDArray[np.float64]) -> Vector:
    steps = np.diff(duals, axis=0)
    size = np.abs(steps).max()
    if size == 0.0:
        return np.asarray(duals[-1])
    steps /= size
    gram = steps @ steps.T
    gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram)
    share = np.linalg.solve(gram, np.ones(len(gram)))
    target: Vector = (share / share.sum()) @ duals[1:]
    return target
