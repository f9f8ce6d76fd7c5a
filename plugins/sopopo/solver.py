"""Label ranking by soft projections: dual ascent over complete bipartite graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import ParameterError
from rankplug.kernels import Kernel, KernelFunction, KernelName
from rankplug.models import Model
from rankplug.objectives import decades_up, gamma_range, largest_squared_norm
from rankplug.parameters import Choice, ChoiceOrFunction, Integer, Optional, Real
from rankplug.solver import Data, Monitor, Solver, SolverResult, SolverTags, Status
from rankplug.system.interruption import interrupted
from rankplug_plugins.sopopo.acceleration import Extrapolation, dual_objective
from rankplug_plugins.sopopo.decompositions import NAMES, Decomposition, Graphs, Weights, decompose
from rankplug_plugins.sopopo.problems import (
    KernelLabels,
    LinearLabels,
    LinearQueries,
    Point,
    Problem,
)

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["Sopopo"]


class Sopopo(Solver):
    """Large-margin label ranking, whose loss is a sum of largest violations.

    The preferences of an instance with relevance g are split into complete bipartite graphs
    A x B, every label of A better than every label of B, and

        min_W  1/2 sum_r |w_r|^2 + C sum_i sum_(A, B) sigma [max_A (g - s_i) + max_B (s_i - g)]_+

    with scores ``s_ir = w_r.x_i``: of the margins ``g_a - g_b`` asked for in a graph, the one
    missed by most counts. For query-document data there is one w, and the documents of a query
    stand for the labels of an instance.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss, which is summed over instances or queries, not averaged.
    decomposition : str or callable, default="adjacent-layers"
        A layer is the items of equal relevance.

        * "adjacent-layers": each layer against the next lower one;
        * "all-pairs": each pair of items of different relevance (Weston and Watkins' loss for
          classes, Elisseeff and Weston's for several labels);
        * "top-vs-rest": the top layer against all others (Crammer and Singer's for classes);
        * "all-layers": each layer against each lower one.

        A function gets the relevance of one instance or query (NaN: not compared) and returns a
        list of (A, B) or (A, B, sigma), A and B lists of positions.
    weights : "sum" or "mean"
        ``sigma``: 1, or 1 / number of graphs of the instance or query.
    kernel : "linear", "rbf", "poly" or callable
        Other kernels than "linear" are for label ranking only. A function takes two matrices
        of rows and returns the matrix of their kernels, which must be positive semidefinite.
    gamma : float, optional
        For "rbf" and "poly"; by default 1 / (number of features * variance of X).
    degree, coef0 : int, float
        ``(gamma x.z + coef0)^degree`` for "poly".
    tol : float, default=1e-3
        Converged when the duality gap is at most this share of the objective.
    max_epochs : int, default=1000
        Most visits to each instance or query.
    shrinking : bool, default=True
        Pass over graphs that are far from any violation. All are looked at again after each
        epoch, so the result is not affected.
    cache_mb : float, default=200
        Memory for rows of the kernel matrix.

    Notes
    -----
    There is no intercept: add a constant feature where labels differ in how often they are good.
    For a large C, or features that are not scaled, epochs gain little and many are needed. With
    query-document data, the graphs whose loss is their worst pair are best left to clean
    relevance: one exception outweighs all other pairs of its graph. Take "all-pairs" otherwise.

    The order of visits is random (``random_state``). The objective of the result is the lowest
    one met, the duality gap its distance from the dual objective.

    References
    ----------
    .. [1] Shalev-Shwartz and Singer, "Efficient Learning of Label Ranking by Soft Projections
       onto Polyhedra", JMLR 7 (2006). Departures: the projection finds its shift by Newton's
       method instead of sorting, where equal entries made Figure 3 divide by zero; the visits
       are permuted, and Anderson's method extrapolates them; rows without features get the
       dual variables that close the gap.
    """

    name = "sopopo"
    tags = SolverTags(
        tasks=("label-ranking", "query-document"),
        problem="min 1/2 |W|^2 + C sum over graphs A x B of [max_A (g - s) + max_B (s - g)]_+",
        reference="Shalev-Shwartz and Singer, Label Ranking by Soft Projections, JMLR 7 (2006)",
        duality_gap=True,
        kernel=True,
    )
    iteration_limit = "max_epochs"
    parameters = {
        "C": Real(0),
        "decomposition": ChoiceOrFunction(tuple(NAMES)),
        "weights": Choice(("sum", "mean")),
        "kernel": ChoiceOrFunction(("linear", "rbf", "poly")),
        "gamma": Optional(Real(0)),
        "degree": Integer(1),
        "coef0": Real(0, low_open=False),
        "tol": Real(0),
        "max_epochs": Integer(1),
        "shrinking": Choice((True, False)),
        "cache_mb": Real(0),
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        decomposition: Decomposition = "adjacent-layers",
        weights: Weights = "sum",
        kernel: KernelName | KernelFunction = "linear",
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        max_epochs: int = 1000,
        shrinking: bool = True,
        cache_mb: float = 200.0,
    ) -> None:
        self.C = C
        self.decomposition = decomposition
        self.weights = weights
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_epochs = max_epochs
        self.shrinking = shrinking
        self.cache_mb = cache_mb

    def tuning_space(self, data: Data | None = None) -> dict[str, BaseDistribution]:
        """C, and gamma of a kernel that has it.

        C begins where every graph still has a loss: scores differ by no more than
        ``4 C max_i k(x_i, x_i) sum of all sigma``, which is then below the smallest margin.
        """
        if data is None:
            return {"C": decades_up(1e-6)}
        self.check(data)
        space: dict[str, BaseDistribution] = {"C": decades_up(self._smallest_c(data))}
        if self.kernel in ("rbf", "poly"):
            space["gamma"] = gamma_range(data.X)
        return space

    def _smallest_c(self, data: Data) -> float:
        total = float(self._graphs(data).weight.sum())
        levels = np.unique(data.relevance[~np.isnan(data.relevance)])
        if isinstance(data, LabelRankingData) and self.kernel != "linear":
            largest = float(self._kernel_function(data).diagonal(data.X).max())
        else:
            largest = largest_squared_norm(data)
        return float(np.diff(levels).min()) / (4.0 * largest * total)

    def check(self, data: Data) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        if isinstance(data, RankingData) and self.kernel != "linear":
            raise ParameterError(
                f"sopopo: kernel={self.kernel!r} is for label ranking only; query-document data "
                "take kernel='linear'"
            )

    def _solve(
        self,
        data: Data,
        init: Model | None,
        monitor: Monitor,
        rng: np.random.Generator,
    ) -> SolverResult:
        return _Ascent(self._problem(data), self.tol, self.shrinking).run(
            self.max_epochs, monitor, rng
        )

    def _problem(self, data: Data) -> Problem:
        graphs = self._graphs(data)
        bound = self.C * graphs.weight
        if isinstance(data, RankingData):
            return LinearQueries(data, graphs, bound)
        if self.kernel == "linear":
            return LinearLabels(data, graphs, bound)
        return KernelLabels(data, graphs, bound, self._kernel_function(data), self.cache_mb)

    def _graphs(self, data: Data) -> Graphs:
        if isinstance(data, RankingData):
            relevance, offset, weight = data.relevance, data.query_ptr, data.query_weight
        else:
            relevance, weight = data.relevance.ravel(), None
            offset = data.n_labels * np.arange(data.n_samples + 1)
        weight = np.ones(len(offset) - 1) if weight is None else weight
        return decompose(relevance, offset, weight, self.decomposition, self.weights)

    def _kernel_function(self, data: LabelRankingData) -> Kernel:
        return Kernel.for_data(self.kernel, self.gamma, self.degree, self.coef0, data.X)


class _Ascent:
    """Epochs until the gap between the best primal and the dual objective is small."""

    def __init__(self, problem: Problem, tol: float, shrinking: bool) -> None:
        self._problem = problem
        self._tol = tol
        self._shrinking = shrinking
        self._margin = np.inf
        self._primal = np.inf
        self._dual = -np.inf
        self._best: Point = problem.point()

    def run(self, max_epochs: int, monitor: Monitor, rng: np.random.Generator) -> SolverResult:
        """Ascend, and certify what was reached."""
        n_epochs, status = self._ascend(max_epochs, monitor, rng)
        self._problem.recompute()
        if not interrupted():
            self._dual = dual_objective(self._problem)
        return SolverResult(
            model=self._problem.model(self._best),
            status=status,
            objective=self._primal,
            duality_gap=self._gap,
            n_iter=n_epochs,
            n_passes=self._problem.n_passes,
        )

    def _ascend(
        self, max_epochs: int, monitor: Monitor, rng: np.random.Generator
    ) -> tuple[int, Status]:
        problem = self._problem
        extrapolation = Extrapolation(problem)
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
                objective=self._primal,
                duality_gap=self._gap,
                visited=float(len(visited)),
            )
            if self._gap <= self._tol * abs(self._primal):
                return n_epochs, "converged"
            if not go_on:
                return n_epochs, monitor.interruption or "stopped"
            if moved == 0.0:
                return n_epochs, "stopped"
        return max_epochs, "max_iter"

    def _evaluate(self) -> None:
        """Objectives at the current point; the lowest primal one is kept with its weights."""
        problem = self._problem
        loss = problem.graphs.loss(problem.scores(), self._margin)
        primal = 0.5 * problem.squared_norm() + loss
        self._dual = max(self._dual, dual_objective(problem))
        if primal < self._primal:
            self._primal = primal
            self._best = problem.point()

    @property
    def _gap(self) -> float:
        return max(self._primal - self._dual, 0.0)
