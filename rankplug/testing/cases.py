"""Small ranking problems, and cases of a solver on one task, with which the checks work."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import ConvergenceWarning
from rankplug.metrics import evaluate, evaluate_labels
from rankplug.solver import Data, Solver, SolverResult, Task


@dataclass(frozen=True, eq=False)
class Problem:
    """Arrays from which data are made: ``qid`` is None for label ranking, where y is (n, k)."""

    X: Any
    y: NDArray[np.float64]
    qid: NDArray[np.int64] | None
    sample_weight: NDArray[np.float64] | None = None
    document_weight: NDArray[np.float64] | None = None

    @property
    def queries(self) -> NDArray[np.int64]:
        """The query of each row; only query-document problems have it."""
        assert self.qid is not None, "this is a label-ranking problem"
        return self.qid

    def data(self, X: Any = None, *, names: list[str] | None = None) -> Data:
        """The data, with other features of the same rows if `X` is given."""
        features = self.X if X is None else X
        if self.qid is None:
            return LabelRankingData.from_arrays(features, self.y, feature_names=names)
        weights: dict[str, Any] = {
            "sample_weight": self.sample_weight,
            "document_weight": self.document_weight,
        }
        return RankingData.from_arrays(features, self.y, self.qid, **weights, feature_names=names)

    def rows(self, index: NDArray[Any]) -> Problem:
        """The problem of some of its rows, in that order."""
        qid = None if self.qid is None else self.qid[index]
        weight = None if self.sample_weight is None else self.sample_weight[index]
        return Problem(self.X[index], self.y[index], qid, weight)

    def with_holes(self) -> Problem:
        """The problem with a fifth of the features missing, but for the first column."""
        holes = np.random.default_rng(3).random(self.X.shape) < 0.2
        holes[:, 0] = False
        return replace(self, X=np.where(holes, np.nan, self.X))

    def with_silent_rows(self) -> Problem:
        """The problem and rows without a preference, which change nothing."""
        if self.qid is None:
            silent = np.repeat([[np.nan], [2.0]], self.y.shape[1], axis=1)
            return replace(self, X=np.vstack((self.X, self.X[:2])), y=np.vstack((self.y, silent)))
        last = self.qid.max()
        return replace(
            self,
            X=np.vstack((self.X, self.X[:4])),
            y=np.append(self.y, [1.0, 1.0, 1.0, 0.0]),
            qid=np.append(self.qid, [last + 1, last + 1, last + 1, last + 2]),
        )


def make_problem(task: Task, *, noise: float = 1.0, seed: int = 0) -> Problem:
    """Graded relevance, ties included, from a linear utility and noise.

    The features hold exact zeros (for sparse matrices) and a column that is always zero.
    """
    rng = np.random.default_rng(seed)
    qid, n_samples = None, 30
    labels: tuple[int, ...] = (4,)
    if task == "query-document":
        qid = np.repeat(np.arange(14), rng.integers(3, 9, size=14))
        n_samples, labels = len(qid), ()
    X = rng.normal(size=(n_samples, 5))
    X[rng.random(size=X.shape) < 0.3] = 0.0
    X[:, 1] = 0.0
    utility = X @ rng.normal(size=(5, *labels)) + noise * rng.normal(size=(n_samples, *labels))
    return Problem(X, np.digitize(utility, [-1.0, 1.0]).astype(np.float64), qid)


def list_pairs(problem: Problem, weight: NDArray[np.float64]) -> Problem:
    """Every pair of a problem as a query of its own, with the weight of its preferred row."""
    y, qid = problem.y, problem.queries
    above, below = np.nonzero((qid[:, None] == qid) & (y[:, None] > y) & (weight[:, None] > 0))
    rows = np.column_stack((above, below)).ravel()
    pair = np.repeat(np.arange(len(above)), 2)
    return Problem(problem.X[rows], y[rows], pair, np.repeat(weight[above], 2))


def pair_accuracy(problem: Problem, scores: NDArray[np.float64]) -> float:
    """Share of all preference pairs that are in the right order; ties count one half."""
    metric = "pairwise_accuracy"
    if problem.qid is None:
        return evaluate_labels(problem.y, scores, metric)[metric]
    return evaluate(problem.y, scores, problem.qid, metric)[metric]


@dataclass(frozen=True, eq=False)
class Case:
    """One solver on one task."""

    solver: Solver
    task: Task

    def problem(self, *, noise: float = 1.0, seed: int = 0) -> Problem:
        """A small problem of the task."""
        return make_problem(self.task, noise=noise, seed=seed)

    def has(self, *parameters: str) -> bool:
        """Whether the solver has parameters of these names."""
        return set(parameters).issubset(self.solver.get_params(deep=False))

    def tight(self) -> Case:
        """The same with a tolerance at which solutions can be compared."""
        if not self.has("tol"):
            return self
        solver = clone(self.solver).set_params(tol=1e-8)
        if self.has(solver.iteration_limit):
            solver.set_params(**{solver.iteration_limit: 10_000})
        return replace(self, solver=solver)

    def solve(self, data: Any, **arguments: Any) -> SolverResult:
        """Solve with a fixed random state; convergence is looked at where it matters."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self.solver.solve(data, random_state=0, **arguments)

    def scores(self, data: Any, problem: Problem, **arguments: Any) -> NDArray[np.float64]:
        """Scores of the problem's rows by a model trained on `data`."""
        return predict(self.solve(data, **arguments), problem)

    def expect_same_solution(self, data: Data, expected: Data) -> None:
        """Training on both data gives the same scores of a problem, up to the tolerance."""
        problem, tight = self.problem(), self.tight()
        assert_close(tight.scores(data, problem), tight.scores(expected, problem))

    def feature_kinds(self, X: NDArray[np.float64]) -> Iterator[Any]:
        """The same features in every other form that the solver takes."""
        yield X.astype(np.float32)
        yield np.asfortranarray(X)
        if self.solver.tags.sparse:
            matrix = sparse.csr_array(X)
            yield matrix
            yield matrix.astype(np.float32)
            wide = matrix.copy()
            wide.indptr, wide.indices = matrix.indptr.astype("i8"), matrix.indices.astype("i8")
            yield wide


def predict(result: SolverResult, problem: Problem) -> NDArray[np.float64]:
    """The model's scores of the problem's rows, which must be finite float64."""
    scores = result.model.predict(problem.X)
    assert scores.dtype == np.float64, f"scores are {scores.dtype}, not float64"
    assert scores.shape == problem.y.shape, f"scores of shape {scores.shape}"
    assert np.isfinite(scores).all(), "scores are not finite"
    return scores


def list_arrays(data: Any) -> dict[str, NDArray[Any]]:
    """All arrays that data consist of, by name."""
    found = {name: value for name, value in vars(data).items() if isinstance(value, np.ndarray)}
    if sparse.issparse(data.X):
        found |= {f"X.{part}": getattr(data.X, part) for part in ("data", "indices", "indptr")}
    return found


def assert_close(actual: NDArray[Any], expected: NDArray[Any], dtype: Any = np.float64) -> None:
    """Equal up to rounding and the stopping tolerance, measured by the spread of the scores."""
    share = 1e-3 if dtype == np.float32 else 1e-4
    assert_allclose(actual, expected, rtol=0, atol=share * float(np.ptp(expected)))


def expect_refusal(
    error: type[Exception], call: Callable[..., Any], *args: Any, **kwargs: Any
) -> str:
    """The message with which a call is refused; it is an `AssertionError` if it is not."""
    try:
        call(*args, **kwargs)
    except error as caught:
        return str(caught)
    raise AssertionError(f"{error.__name__} was not raised with {kwargs or args}")
