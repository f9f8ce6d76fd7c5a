"""Checks of solvers: tags and parameters, results, how they are stopped, and what they minimise."""

from __future__ import annotations

import contextlib
import pickle
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.testing import assert_array_equal
from sklearn.base import clone

from rankplug.exceptions import ConvergenceWarning, DataError, ParameterError
from rankplug.models import LinearModel, load_model
from rankplug.parameters import Choice, Integer, Optional, Parameter, Real, check_parameters
from rankplug.solver import (
    Objective,
    Progress,
    Solver,
    SolverResult,
    SolverTags,
    Status,
    Task,
    list_solvers,
    make_solver,
)
from rankplug.testing.cases import Case, assert_close, expect_refusal, pair_accuracy, predict


def states_name_and_tags(case: Case) -> None:
    """Name, tasks, problem and reference are stated."""
    solver = case.solver
    assert solver.name, "name is empty"
    assert isinstance(solver.tags, SolverTags), "tags is not a SolverTags"
    assert set(solver.tags.tasks) <= set(get_args(Task)), f"unknown task in {solver.tags.tasks}"
    assert solver.tags.problem, "tags.problem is empty"
    assert solver.tags.reference, "tags.reference is empty"


def copies_are_equal(case: Case) -> None:
    """Clones and unpickled copies have the same parameters and the same ``repr``."""
    solver = case.solver
    for copy in (clone(solver), pickle.loads(pickle.dumps(solver))):
        assert _values(copy) == _values(solver), f"{copy} is no copy of {solver}"
        assert repr(copy) == repr(solver), f"repr {copy!r} of a copy of {solver!r}"
    assert repr(solver).startswith(type(solver).__name__), f"repr {solver!r}"


def _values(solver: Solver) -> dict[str, Any]:
    """All parameters but those that are objects with parameters of their own, which follow."""
    found = solver.get_params()
    objects = {key.partition("__")[0] for key in found if "__" in key}
    return {
        key: value
        for key, value in found.items()
        if key not in objects and not hasattr(value, "get_params") and not isinstance(value, list)
    }


def declares_its_parameters(case: Case) -> None:
    """`parameters` covers every parameter, and a wrong value is refused by name."""
    solver, data = case.solver, case.problem().data()
    values = solver.get_params(deep=False)
    assert set(solver.parameters) == set(values), "parameters and __init__ name different ones"
    check_parameters(solver.name, solver.parameters, values)
    for name in values:
        wrong = clone(solver).set_params(**{name: object()})
        message = expect_refusal(ParameterError, wrong.solve, data)
        assert f"{name}=" in message, f"{name} is not named in: {message}"


def returns_sensible_numbers(case: Case) -> None:
    """Status, objective, gap, counts and history make sense."""
    tags, result = case.solver.tags, case.solve(case.problem().data())
    assert result.status in get_args(Status), f"unknown status {result.status!r}"
    assert result.n_iter >= 0, f"n_iter {result.n_iter}"
    assert 0 <= result.n_passes < np.inf, f"n_passes {result.n_passes}"
    assert result.objective is not None or not tags.exact, "exact solvers have an objective"
    assert (result.duality_gap is not None) == tags.duality_gap, "tags.duality_gap differs"
    if result.objective is not None:
        assert np.isfinite(result.objective), f"objective {result.objective}"
        if result.duality_gap is not None:
            lowest = -1e-8 * (1 + abs(result.objective))
            assert lowest <= result.duality_gap < np.inf, f"duality gap {result.duality_gap}"
    steps = [row["n_iter"] for row in result.history]
    times = [row["seconds"] for row in result.history]
    assert steps, "monitor.report was never called"
    assert steps == sorted(set(steps)), f"n_iter does not rise in the history: {steps}"
    assert [*times, result.seconds] == sorted([*times, result.seconds]), "time runs backwards"
    for row in result.history:
        assert np.isfinite(list(row.values())).all(), f"the history has the row {row}"


def closes_the_gap(case: Case) -> None:
    """At a tight tolerance the gap is a small share of the objective."""
    result = case.tight().solve(case.problem().data())
    assert result.status == "converged", f"status {result.status!r}"
    gap, objective = result.duality_gap, result.objective
    assert gap is not None, "no duality gap"
    assert objective is not None, "no objective"
    assert gap <= 1e-4 * abs(objective), f"duality gap {gap} at objective {objective}"


def predicts_finite_scores(case: Case) -> None:
    """Scores have the right shape, and the model keeps the features' names."""
    problem = case.problem()
    names = [f"feature {j}" for j in range(problem.X.shape[1])]
    result = case.solve(problem.data(names=names))
    predict(result, problem)
    model = result.model
    assert model.feature_names == tuple(names), f"feature names {model.feature_names}"
    n_labels = None if case.task == "query-document" else problem.y.shape[1]
    assert model.n_labels == n_labels, f"n_labels {model.n_labels} instead of {n_labels}"


def learns(case: Case) -> None:
    """Preferences without noise are learned, where a constant scorer gets one half."""
    problem = case.problem(noise=0.0)
    accuracy = pair_accuracy(problem, case.scores(problem.data(), problem))
    assert accuracy > 0.8, f"pairwise accuracy {accuracy:.3f} on separable training data"


def saves_the_same_model(case: Case) -> None:
    """A model that was saved or pickled predicts the same bits."""
    problem = case.problem()
    model = case.solve(problem.data()).model
    expected = model.predict(problem.X)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        assert_array_equal(load_model(Path(folder) / "model").predict(problem.X), expected)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(problem.X), expected)


def is_deterministic(case: Case) -> None:
    """The same random state gives the same bits."""
    problem = case.problem()
    first, second = (case.solve(problem.data()) for _ in range(2))
    assert_array_equal(predict(first, problem), predict(second, problem))
    ends = [(result.status, result.n_iter) for result in (first, second)]
    assert ends[0] == ends[1], f"two equal calls ended with {ends}"


def tells_the_callback(case: Case) -> None:
    """The callback sees the history as it grows."""
    seen: list[Progress] = []
    result = case.solve(case.problem().data(), callback=seen.append)
    rows = [{"n_iter": p.n_iter, "seconds": p.seconds, **p.values} for p in seen]
    assert rows == list(result.history), f"the callback saw {rows}, not {result.history}"


def stops_for_the_callback(case: Case) -> None:
    """A true return value stops the solver at once, with a usable model."""
    calls: list[Progress] = []

    def stop(progress: Progress) -> bool:
        calls.append(progress)
        return True

    problem = case.problem()
    result = case.tight().solve(problem.data(), callback=stop)
    assert result.status == "stopped", f"status {result.status!r} after the callback's stop"
    assert len(calls) == 1, f"{len(calls)} iterations were reported instead of 1"
    predict(result, problem)


def stops_for_the_time_limit(case: Case) -> None:
    """The time limit stops the solver after an iteration, with a usable model."""
    problem = case.problem()
    result = case.tight().solve(problem.data(), time_limit=1e-9)
    assert result.status == "time_limit", f"status {result.status!r} after the time limit"
    predict(result, problem)
    for limit in (0, -1.0, "1"):
        message = expect_refusal(ParameterError, case.solve, problem.data(), time_limit=limit)
        assert "time_limit" in message, f"time_limit is not named in: {message}"


def tells_max_iter(case: Case) -> None:
    """Running out of iterations shows in the status and as a warning."""
    tight = case.tight().solver
    solver = tight.set_params(**{tight.iteration_limit: 1})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = solver.solve(case.problem().data(), random_state=0)
    assert result.status == "max_iter", f"status {result.status!r} after one iteration"
    kinds = [warning.category for warning in caught]
    assert ConvergenceWarning in kinds, f"no ConvergenceWarning with status {result.status!r}"


def starts_warm(case: Case) -> None:
    """A solver that starts at its solution finds it again; a warm start saves iterations."""
    problem, tight = case.problem(), case.tight()
    cold = tight.solve(problem.data())
    for init in (cold, cold.model):
        warm = tight.solve(problem.data(), init=init)
        if case.solver.tags.warm_start:
            assert warm.n_iter <= cold.n_iter, f"{warm.n_iter} iterations, {cold.n_iter} before"
        if case.solver.tags.exact:
            assert_close(predict(warm, problem), predict(cold, problem))
    narrow = problem.data(problem.X[:, :3])
    message = expect_refusal(ParameterError, case.solve, narrow, init=cold)
    assert "features" in message, f"features are not named in: {message}"


def adds_to_a_model(case: Case) -> None:
    """A solver that goes on from a model returns another one, and leaves that as it is."""
    problem = case.problem()
    first = case.solve(problem.data())
    before = predict(first, problem)
    for init in (first, first.model):
        after = predict(case.solve(problem.data(), init=init), problem)
        assert not np.array_equal(after, before), "going on changes no score"
    assert_array_equal(predict(first, problem), before, err_msg="the earlier model was changed")


def refuses_init(case: Case) -> None:
    """A solver that cannot start from a model says so."""
    problem = case.problem()
    init = LinearModel(np.zeros(problem.X.shape[1]))
    message = expect_refusal(ParameterError, case.solve, problem.data(), init=init)
    assert "init" in message, f"init is not named in: {message}"


_ROUNDING = 1e-6
"""Share by which certified values may be apart: of two sums over all pairs, in another order."""
_UNCERTIFIED = 1e-4
"""The same for values without a duality gap, as for the scores of two solutions."""


def describes_its_objective(case: Case) -> None:
    """Only exact solvers have an objective, clones have the same, and `tol` is no part of it."""
    objective = case.solver.describe_objective()
    if objective is None:
        return
    assert isinstance(objective, Objective), f"describe_objective() returned {objective!r}"
    assert case.solver.tags.exact, "there is an objective although tags.exact is False"
    assert clone(case.solver).describe_objective() == objective, "a clone has another objective"
    assert case.tight().solver.describe_objective() == objective, "tol changes the objective"


def changes_its_objective_with_the_minimum(case: Case) -> None:
    """A parameter that changes the minimum changes `describe_objective()`.

    One parameter at a time has another value. A solver may refuse the data with it.
    """
    solver, data = case.tight().solver, case.problem().data()
    expected = case.tight().solve(data)
    for name in sorted(solver.parameters.keys() - {"tol", solver.iteration_limit}):
        for value in _other_values(solver.parameters[name], getattr(solver, name)):
            other = clone(solver).set_params(**{name: value})
            if other.describe_objective() != solver.describe_objective():
                continue
            with contextlib.suppress(ParameterError, DataError):
                found = replace(case, solver=other).solve(data)
                assert _same_minimum(found, expected), (
                    f"{name}={value!r} is no part of the objective, but the minimum is "
                    f"{found.objective}, not {expected.objective}"
                )


def agrees_with_solvers_of_its_objective(case: Case) -> None:
    """Registered solvers that describe an equal objective reach the same minimum."""
    data, tight = case.problem().data(), case.tight()
    expected = tight.solve(data)
    for other in _solvers_of_objective(tight):
        found = replace(case, solver=other).tight().solve(data)
        assert _same_minimum(found, expected), (
            f"{other.name} has an equal objective and its minimum {found.objective}, not "
            f"{expected.objective}"
        )


def _solvers_of_objective(case: Case) -> Iterator[Solver]:
    """The other registered solvers that, with parameters of the same names, have its objective."""
    own = case.solver.describe_objective()
    assert own is not None
    with warnings.catch_warnings():  # a plugin that cannot be imported has no objective
        warnings.simplefilter("ignore")
        others = [one for one in list_solvers() if one.available and case.task in one.tasks]
    for info in others:
        if info.name == case.solver.name:
            continue
        names = make_solver(info.name).get_params(deep=False)
        params = {name: value for name, value in own.parameters.items() if name in names}
        other = make_solver(info.name, **params)
        if other.describe_objective() == own:
            yield other


def _other_values(parameter: Parameter, value: Any) -> Iterator[Any]:
    """Some values that a parameter may have too."""
    candidates: list[Any] = []
    allowed = parameter
    if isinstance(parameter, Optional):
        allowed, candidates = parameter.inner, [None]
    if isinstance(allowed, Choice):
        candidates += allowed.values
    elif isinstance(allowed, Integer):
        candidates += [allowed.low if value is None else int(value) + 1]
    elif isinstance(allowed, Real):
        candidates += [1.0 if value is None else 2.0 * value, 0.5 if value is None else value / 2]
    yield from (one for one in candidates if parameter.accepts(one) and one != value)


def _same_minimum(one: SolverResult, other: SolverResult) -> bool:
    """Whether the minima may be equal: each value lies above the other's lower bound."""
    if one.objective is None or other.objective is None:
        return True
    return _lower_bound(one) <= other.objective and _lower_bound(other) <= one.objective


def _lower_bound(result: SolverResult) -> float:
    assert result.objective is not None
    size = 1.0 + abs(result.objective)
    if result.duality_gap is not None:
        return result.objective - result.duality_gap - _ROUNDING * size
    converged = result.status == "converged"
    return result.objective - _UNCERTIFIED * size if converged else -np.inf
