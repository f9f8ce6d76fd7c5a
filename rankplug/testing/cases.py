"""A solver on a task: what the contract's checks work with."""

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

from rankplug.exceptions import ConvergenceWarning
from rankplug.solver import Solver, SolverResult, Task
from rankplug.testing.problems import Problem, make_problem

__all__ = ["Case", "assert_close", "expect_refusal", "list_arrays", "predict"]


@dataclass(frozen=True, eq=False)
class Case:
    """One solver on one task."""

    solver: Solver
    task: Task

    def problem(self, *, noise: float = 1.0, seed: int = 0) -> Problem:
        """A small problem of the task."""
        return make_problem(self.task, noise=noise, seed=seed)

    def has(self, parameter: str) -> bool:
        """Whether the solver has such a parameter."""
        return parameter in self.solver.get_params(deep=False)

    def tight(self) -> Case:
        """The same with a tolerance at which solutions can be compared."""
        if not self.has("tol"):
            return self
        params = {"tol": 1e-8, self.solver.iteration_limit: 10_000}
        wanted = {name: value for name, value in params.items() if self.has(name)}
        return replace(self, solver=clone(self.solver).set_params(**wanted))

    def solve(self, data: Any, **arguments: Any) -> SolverResult:
        """Solve with a fixed random state; convergence is looked at where it matters."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self.solver.solve(data, random_state=0, **arguments)

    def scores(self, data: Any, problem: Problem, **arguments: Any) -> NDArray[np.float64]:
        """Scores of the problem's rows by a model trained on `data`."""
        return predict(self.solve(data, **arguments), problem)

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
