"""Base classes of solvers that minimise the same kind of function.

Each holds the parameters that state the problem, what is worth tuning, and the frame of the run; a
solver adds its method.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace
from functools import partial
from typing import Annotated, Any, NamedTuple, Protocol, get_args

import numpy as np
from typing_extensions import override

from rankplug.data import RankingData
from rankplug.exceptions import DataWarning, ParameterError, warn_caller
from rankplug.kernels import Kernel, KernelFunction, KernelName, default_gamma
from rankplug.models import KernelModel, LinearModel, Model, linear_model, linear_weights
from rankplug.objectives import (
    DocumentPairs,
    PairChoice,
    PairWeight,
    PairWeighting,
    Reduction,
    Scope,
    TopLossName,
    TopProblem,
    decades_down,
    decades_up,
    gamma_range,
    largest_squared_norm,
    make_top_problem,
    open_pairs,
    pairwise_c,
)
from rankplug.optim.bracket import Certified, OnIteration, Vector
from rankplug.optim.preconditioners import PreconditionerName
from rankplug.parameters import ChoiceOrFunction, Count, Optional, Positive, Real, Threads
from rankplug.shards import RemoteRankingData, Shards
from rankplug.solver.base import SearchSpace, Solver
from rankplug.solver.inputs import AnyData, Data
from rankplug.solver.monitor import Monitor
from rankplug.solver.result import Objective, SolverResult, SolverTags, Status, tells_apart
from rankplug.solver.stopping import EarlyStopping, MetricName, require_validation

_EPSILON = float(np.finfo(np.float64).eps)
_ROUNDINGS = 8.0  # of a term and of what it is made of, for the primal and for the dual objective
_NEGLIGIBLE = 1e-3  # share of a gap that need not be told
_FEW_ROWS = 256  # of which a function says how large kernels are
_LITTLE_ABOVE = 10.0  # a C that is bounded by the longest of all rows


class IterativeSolver(Solver):
    """A solver that shows its models on the way, and may stop early by validation data.

    Its `_solve` reports each iteration to the monitor with what makes the model; the base class
    does the rest.

    Parameters
    ----------
    early_stopping_rounds : int, optional
        Stop when `eval_metric` of the validation data, which `solve` then needs, has not become
        better for so many looks, and return the best model that was seen: it is no minimum, so
        the status is "stopped" unless its certified gap is small enough. There is a look after
        each of the first 20 iterations, then at every 20th part more. None leaves validation
        data aside.
    eval_metric : str, optional
        A metric of rankplug. By default "ndcg@10", of labels "kendall_tau", and
        "pairwise_accuracy" where the relevance is no gain.
    """

    early_stopping_rounds: Count | None = None
    eval_metric: Annotated[str | None, Optional(MetricName())] = None

    def uses_validation(self) -> bool:
        """With `early_stopping_rounds`."""
        return self.early_stopping_rounds is not None

    def check(self, data: AnyData) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        if self.uses_validation() and isinstance(data, RemoteRankingData):
            raise ParameterError(
                f"early_stopping_rounds={self.early_stopping_rounds} cannot be used on a cluster: "
                "set it to None"
            )

    @override
    def _stop_early(self, valid: Data | None, monitor: Monitor) -> EarlyStopping | None:
        if self.early_stopping_rounds is None:
            return None
        valid = require_validation(self.early_stopping_rounds, valid)
        return EarlyStopping(valid, monitor.metric_of(valid), self.early_stopping_rounds)


class PathPoint(NamedTuple):
    """Where a method ended for one C: `status` is "stopped" if `report` said so, for example."""

    w: Vector
    objective: float
    duality_gap: float
    n_iter: int
    status: Status


class PathProblem(Protocol):
    """The pairs of one data set, to be solved for one C or for several.

    It starts at w = 0; the solution for a C is where the next one starts.
    """

    @property
    def n_passes(self) -> float:
        """Passes over the features so far."""

    def move_to(self, w: Vector) -> None:
        """Start there instead."""

    def minimise(self, C: float, report: OnIteration) -> PathPoint:
        """Solve for this C."""


class LinearPathSolver(IterativeSolver):
    """Linear models and a loss of all preference pairs, for one C or several in turn.

    1. `open_pairs` makes shards of the data, with the weight of each pair;
    2. `_open_problem`, the solver's own, makes what all C share: planes, preconditioner;
    3. `PathProblem.minimise` is called for each C, from the last solution or the given model.

    For label ranking each instance is a query and label r of instance i the row
    ``e_r (x) x_i`` (Kesler's construction), so that w holds one weight vector a label.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss, which is summed over pairs, not averaged.
    preconditioner : "auto", "cholesky", "nystrom", "diagonal" or "none"
        Of Newton's method. "cholesky" factorises the Hessian of a sample of the data (ranking data
        only); "auto" takes it up to 2,000 features, or fewer if rows hold few of them, and
        "nystrom" beyond: the Hessian's diagonal, and once many products were needed an
        approximation of low rank. All but "none" learn from the Hessian products of earlier steps.
    reduction : "sum", "mean" or "query-mean"
        ``c_q``: 1; 1 / number of pairs; or 1 / (pairs of the query * queries with pairs), each
        times the query's weight. The numbers of all pairs and of queries are weighted, too: a query
        of weight 2 counts as two of them.
    pair_weight : "uniform", "gain" or "relevance"
        What a pair counts beside ``c_q``: 1, the difference of the gains ``2^y - 1`` of its rows,
        or that of their relevance y. Numbers of pairs then are sums of that.
    document_pairs : "preferred" or "product"
        Where rows have weights (``document_weight``): a pair counts that of its preferred row, or
        the product of both, too.
    pairs : "all" or "adjacent"
        Which pairs count: all of a query, or those of adjacent levels of its relevance only. These
        are fewer where there are many levels, and their features are copied, each row twice at
        most; an instance of label ranking as often as it has levels, less one.
    n_threads : int, optional
        Threads for large data, by default all cores this process may use. The result does not
        depend on it.
    """

    tags = SolverTags(
        ("query-document", "label-ranking"),
        "min 1/2 |w|^2 + C sum over pairs of a loss of s_i - s_j",
        "none",
        duality_gap=True,
        warm_start=True,
        distributed=True,
        document_weights=True,
    )

    C: Positive = field(default=1.0, kw_only=False)
    preconditioner: PreconditionerName = "auto"
    reduction: Reduction = "sum"
    pair_weight: PairWeight = "uniform"
    document_pairs: DocumentPairs = "preferred"
    pairs: PairChoice = "all"
    n_threads: Threads = None

    @property
    def weighting(self) -> PairWeighting:
        """What single pairs count."""
        return PairWeighting(self.pair_weight, self.document_pairs)

    def tuning_space(self, data: Data | None = None) -> SearchSpace:
        """C from where every pair has a loss, which depends on the reduction."""
        return {"C": pairwise_c(data, self.reduction, self.weighting, self.pairs)}

    def check(self, data: AnyData) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        if self.pairs == "adjacent" and isinstance(data, RemoteRankingData):
            raise ParameterError("pairs='adjacent' is for data on one machine: take pairs='all'")

    def _prepare(self, data: Data) -> Data:
        """The data that are solved instead: with the same differences of rows in each query."""
        return data

    def _open_pairs(self, data: Data) -> AbstractContextManager[Shards]:
        """The shards of the data, each pair with its weight."""
        prepared = self._prepare(data)
        return open_pairs(prepared, self.reduction, self.n_threads, self.weighting, self.pairs)

    def _loss_parameters(self) -> dict[str, Any]:
        """The parameters that enter the loss, for `describe_objective`.

        Those of other weights and pairs than usual are named only where they are others, so that
        solvers of other packages, which may know none of them, state an equal objective.
        """
        usual = {"pair_weight": "uniform", "document_pairs": "preferred", "pairs": "all"}
        others = {name: getattr(self, name) for name in usual if getattr(self, name) != usual[name]}
        return {"C": self.C, "reduction": self.reduction, **others}

    @abstractmethod
    def _open_problem(self, shards: Shards) -> PathProblem:
        """Make what the solutions for all C share."""

    def _solve(
        self, data: Data, init: Model | None, monitor: Monitor, rng: np.random.Generator
    ) -> SolverResult:
        with self._open_pairs(data) as shards, shards.at_work():
            problem = self._open_problem(shards)
            if init is not None:
                problem.move_to(linear_weights(init))
            report = monitor.report_weights(partial(linear_model, data=data))
            return _as_result(problem.minimise(self.C, report), problem.n_passes, data)

    def _solve_path(
        self, data: Data, Cs: Sequence[float], rng: np.random.Generator
    ) -> Iterator[SolverResult]:
        with self._open_pairs(data) as shards:
            with shards.at_work():
                problem, n_passes = self._open_problem(shards), 0.0
            for C in Cs:
                monitor = Monitor(name=self.name)
                with self._overflow_refused(monitor, C=C), shards.at_work():
                    report = monitor.report_weights(partial(linear_model, data=data))
                    found = problem.minimise(C, report)
                result = _as_result(found, problem.n_passes - n_passes, data)
                n_passes = problem.n_passes
                yield self._finish(result, monitor, data)


def _as_result(found: PathPoint, n_passes: float, data: Data) -> SolverResult:
    return SolverResult(
        model=linear_model(found.w, data),
        status=found.status,
        objective=found.objective,
        duality_gap=found.duality_gap,
        n_iter=found.n_iter,
        n_passes=n_passes,
    )


class KernelSolver(IterativeSolver):
    """Large margins of ``s(x) = <w, phi(x)>``, where phi is known by its inner products only.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss, which is summed, not averaged.
    kernel : "linear", "rbf", "poly" or callable
        Inner products of phi. A function takes two matrices of rows and returns the matrix of
        their kernels, which must be positive semidefinite.
    gamma : float, optional
        For "rbf" and "poly"; by default 1 / (number of features * variance of X).
    degree, coef0 : int, float
        ``(gamma x.z + coef0)^degree`` for "poly".
    """

    tags = SolverTags(
        ("label-ranking", "query-document"),
        "min 1/2 |w|^2 + C sum of losses",
        "none",
        duality_gap=True,
        kernel=True,
    )

    C: Positive = field(default=1.0, kw_only=False)
    kernel: Annotated[KernelName | KernelFunction, ChoiceOrFunction(get_args(KernelName))] = (
        "linear"
    )
    gamma: Positive | None = None
    degree: Count = 3
    coef0: Annotated[float, Real(0, low_open=False)] = 0.0

    def tuning_space(self, data: Data | None = None) -> SearchSpace:
        """C from where every term still has a loss, and gamma of a kernel that has it."""
        if data is None:
            return {"C": decades_up(1e-6)}
        self.check(data)
        space: SearchSpace = {"C": decades_up(self._smallest_c(data))}
        if self.kernel in ("rbf", "poly"):
            space["gamma"] = gamma_range(data.X)
        return space

    @abstractmethod
    def _smallest_c(self, data: Data) -> float:
        """A C at which scores differ by less than the smallest margin."""

    @override
    def _explain_vanishing(
        self, result: SolverResult, monitor: Monitor, data: AnyData
    ) -> str | None:
        reason = super()._explain_vanishing(result, monitor, data)
        if reason is None or isinstance(data, RemoteRankingData):
            return None
        if not tells_apart(result.model, data):
            return reason
        # About where every term still has a loss, nothing is much better than w = 0, and may rank.
        return reason if _LITTLE_ABOVE * self._smallest_c(data) < self.C else None

    def _widen(self, result: SolverResult, data: Data, total: float) -> SolverResult:
        """The result, in its gap what rounding errors of the scores may hide.

        They only count beside the gap that is asked for: with a huge C, or kernels that are huge
        beside their differences. `total` is C times all weights.
        """
        if result.objective is None or result.duality_gap is None:
            return result
        error = _ROUNDINGS * _EPSILON * _size_of_terms(result.model, data) * total
        goal = float(self.get_params(deep=False)["tol"]) * abs(result.objective)
        if not error > _NEGLIGIBLE * goal:
            return result
        return replace(result, duality_gap=result.duality_gap + error)

    def _make_kernel(self, data: Data) -> Kernel:
        gamma = self.gamma
        if gamma is None:
            gamma = default_gamma(data.X) if self.kernel in ("rbf", "poly") else 1.0
        return Kernel(self.kernel, gamma, self.degree, self.coef0)

    def _kernel_parameters(self) -> dict[str, Any]:
        """The kernel, and those of its parameters that it has."""
        names = {"rbf": ["gamma"], "poly": ["gamma", "degree", "coef0"]}
        own = names.get(self.kernel, []) if isinstance(self.kernel, str) else []
        return {name: getattr(self, name) for name in ["kernel", *own]}


def _size_of_terms(model: Any, data: Data) -> float:
    """How large the terms are that a score is the sum of."""
    if not isinstance(model, KernelModel):
        square = max(float(row @ row) for row in np.atleast_2d(model.coef))
        return float(np.sqrt(largest_squared_norm(data) * square))
    kernel, rows = model.kernel, model.support
    if callable(kernel.function):
        rows = rows[:: rows.shape[0] // _FEW_ROWS + 1]
        diagonal = np.diagonal(kernel(rows, rows))
    else:
        diagonal = kernel.diagonal(rows)
    return kernel.condition(rows) * float(
        diagonal.max() * np.abs(model.dual_coef).sum(axis=0).max()
    )


class TopSolver(IterativeSolver):
    """Linear ranking at the top, of `rankplug.objectives.TopProblem`.

        (11)  min_w  lam/2 |w|^2 + sum over positives i of p_i max(0, 1 + t_q(i)(w) - w.x_i)^2

    ``t_q`` is the highest score of the negatives of query q. The weights p_i have sum 1: for Q
    queries with m_q positives each is ``1 / (Q m_q)``, times the query's weight over the mean
    weight. Queries with positives or negatives only are left out.

    1. `make_top_problem` splits the rows into positives and negatives;
    2. `_minimise`, the solver's own, brackets the minimum, which is at most 1, that of w = 0;
    3. a warning says so if the lower bound leaves no w that is better: then the top cannot be
       separated.

    Parameters
    ----------
    lam : float, default=0.01
        Weight of the regulariser.
    tol : float, default=1e-6
        Converged when the certified duality gap is at most `tol` times the objective.
    max_iter : int, default=10000
        Most iterations.
    threshold : float, optional
        Rows of higher relevance are positive, the others negative, whatever their grades; by
        default those above the lowest relevance, with a warning if there are more than two grades.
    scope : "per-query" or "global"
        Compare positives with the negatives of their own query, or of all queries together,
        where each positive counts as much as its query's weight. The same for one query.
    """

    tags = SolverTags(
        ("query-document",),
        "min lam/2 |w|^2 + mean over positives of max(0, 1 + highest negative - s_i)^2",
        "none",
        duality_gap=True,
        one_query=True,
    )
    lam: Positive = field(default=0.01, kw_only=False)
    tol: Positive = 1e-6
    max_iter: Count = 10_000
    threshold: Annotated[float, Real()] | None = None
    scope: Scope = "per-query"

    def describe_objective(self) -> Objective:
        """Equation (11)."""
        return Objective(
            "ranking at the top",
            {
                "lam": self.lam,
                "threshold": self.threshold,
                "scope": self.scope,
                "top_k": self._top_k() or 1,
                **({} if self._top_loss() == "squared-hinge" else {"loss": self._top_loss()}),
            },
        )

    def tuning_space(self, data: Data | None = None) -> SearchSpace:
        """The weight lam, up to ``max_i |x_i|^2``, where next to nothing is learnt."""
        return {"lam": decades_down(1.0 if data is None else largest_squared_norm(data))}

    @abstractmethod
    def _minimise(self, problem: TopProblem, monitor: Monitor, init: Model | None) -> Certified:
        """Bracket the minimum, from a model if there is one."""

    def _top_k(self) -> int | None:
        """How many of the highest negatives count; None if the solver has no such parameter."""
        return None

    @override
    def _explain_vanishing(
        self, result: SolverResult, monitor: Monitor, data: AnyData
    ) -> str | None:
        """The certificate decides: whether no w beats w = 0 by more than the tolerance."""
        assert result.objective is not None
        assert result.duality_gap is not None
        tol, top_k = self.tol, self._top_k()
        if result.objective - result.duality_gap < 1.0 - tol:
            return super()._explain_vanishing(result, monitor, data)
        remedy = "solver 'toppush' with top_k > 1" if top_k is None else f"top_k > {top_k}"
        return (
            f"the optimum is w = 0 (or as good as that, within tol={tol:g}), which ranks nothing. "
            "Cause: the top cannot be separated, as a mean of the positives looks like a mean of "
            f"the highest negatives. Remedies: {remedy}, so that single negatives count less; "
            "scope='per-query' if the rows belong to queries; more or other features, and scaled "
            "ones; a smaller lam"
        )

    def _top_loss(self) -> TopLossName:
        """Which loss a positive has."""
        return "squared-hinge"

    def _solve(
        self, data: Data, init: Model | None, monitor: Monitor, rng: np.random.Generator
    ) -> SolverResult:
        assert isinstance(data, RankingData)
        if self.threshold is None:
            self._tell_of_grades(data)
        k, loss = self._top_k() or 1, self._top_loss()
        problem = make_top_problem(data, self.threshold, self.scope, k, loss)
        found = self._minimise(problem, monitor, init)
        bracket = found.bracket
        return SolverResult(
            model=LinearModel(bracket.w),
            status=found.status,
            objective=bracket.objective,
            duality_gap=bracket.difference,
            n_iter=found.n_iter,
            n_passes=found.n_passes,
        )

    def _tell_of_grades(self, data: RankingData) -> None:
        """Warn if relevance has more than the two kinds that are told apart."""
        counted = (data.weights > 0) & (data.pair_counts > 0)
        y = data.relevance[counted[data.row_query]]
        low, high = float(y.min()), float(y.max())
        if np.any((y > low) & (y < high)):
            warn_caller(
                f"{self.name}: relevance has more than two grades, {low:g} to {high:g}, and it "
                f"knows two kinds: rows above {low:g} are positive, all of them alike. Set "
                f"threshold={low:g} if that is meant, or a higher threshold, from which rows are "
                "good enough; 'tree-tron' and 'cutting-plane' learn from every grade",
                DataWarning,
            )
