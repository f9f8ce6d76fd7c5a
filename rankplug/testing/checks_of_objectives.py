"""Checks of solvers: they minimise the objective that they describe."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from rankplug.exceptions import DataError, ParameterError
from rankplug.parameters import Choice, Integer, Optional, Parameter, Real
from rankplug.solver import Objective, Solver, SolverResult, list_solvers, make_solver
from rankplug.testing.cases import Case

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
