"""The contract of feature maps: checks that plugin authors can run on theirs.

As `rankplug.testing.contract_checks` for solvers::

    @pytest.mark.parametrize("check", map_checks(MyMap()), ids=str)
    def test_contract(check):
        check()
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone

from rankplug.data import Task, to_dense
from rankplug.exceptions import DataError, ParameterError
from rankplug.maps import FeatureMap, FittedJoin, FittedMap, JoinedMap, MappedModel
from rankplug.models import LinearModel, load_model
from rankplug.testing.cases import Problem, expect_refusal, make_problem

Check: TypeAlias = Callable[[FeatureMap, Problem], None]


@dataclass(frozen=True, eq=False)
class MapCheck:
    """One check of one map on one task; call it to run it."""

    map: FeatureMap
    task: Task
    check: Check

    def __call__(self) -> None:
        """Run the check."""
        self.check(clone(self.map), make_problem(self.task))

    def __str__(self) -> str:
        return f"{self.map.name}-{self.task}-{self.check.__name__}"


def map_checks(map: FeatureMap) -> list[MapCheck]:  # noqa: A002 - what it is
    """The checks of a map, for each of its tasks.

    Parameters
    ----------
    map : FeatureMap
        With parameters at which 100 rows take milliseconds. It is cloned.

    Returns
    -------
    list of MapCheck
    """
    return [MapCheck(map, task, check) for task in map.tasks for check in _CONTRACT]


def _fit(one: FeatureMap, problem: Problem) -> FittedMap:
    return one.fit(problem.data(), random_state=0)


def declares_its_parameters(one: FeatureMap, problem: Problem) -> None:
    """Every parameter is declared, and a wrong value of each is refused by name."""
    values = one.get_params(deep=False)
    assert values.keys() == set(one.parameters), "parameters and __init__ differ"
    for name in values:
        wrong = clone(one).set_params(**{name: object()})
        message = expect_refusal(ParameterError, _fit, wrong, problem)
        assert f"{name}=" in message, f"{name} is not named in: {message}"


def makes_named_finite_columns(one: FeatureMap, problem: Problem) -> None:
    """As many finite columns as there are names, which differ."""
    fitted = _fit(one, problem)
    mapped = to_dense(fitted.transform(problem.X))
    names = fitted.column_names([f"f{j}" for j in range(fitted.n_features)])
    assert fitted.n_features == problem.X.shape[1], "n_features is that of the data"
    assert mapped.shape == (len(problem.X), fitted.n_columns), f"shape {mapped.shape}"
    assert len(names) == len(set(names)) == fitted.n_columns, "column_names"
    assert np.isfinite(mapped).all(), "columns are finite"
    features = fitted.column_features()
    assert features is None or features.shape == (fitted.n_columns,), "column_features"


def maps_each_row_alone(one: FeatureMap, problem: Problem) -> None:
    """A row's columns depend on that row alone, whatever the form of the features."""
    fitted = _fit(one, problem)
    mapped = to_dense(fitted.transform(problem.X))
    some = np.arange(3, 20, 4)
    np.testing.assert_allclose(
        to_dense(fitted.transform(problem.X[some])), mapped[some], atol=1e-12
    )
    of_sparse = to_dense(fitted.transform(sparse.csr_array(problem.X)))
    np.testing.assert_allclose(of_sparse, mapped, atol=1e-9)


def is_deterministic(one: FeatureMap, problem: Problem) -> None:
    """The same seed gives the same columns, and nothing that was given is changed."""
    before = problem.X.copy()
    first, second = (to_dense(_fit(clone(one), problem).transform(problem.X)) for _ in range(2))
    assert_array_equal(first, second)
    assert_array_equal(problem.X, before)


def says_whether_values_may_miss(one: FeatureMap, problem: Problem) -> None:
    """Missing values are taken by maps that say so, and refused by the others."""
    holes = problem.with_holes()
    if one.takes_missing_values():
        fitted = _fit(one, holes)
        assert fitted.takes_missing_values, "the map takes missing values, but not once fitted"
        assert np.isfinite(to_dense(fitted.transform(holes.X))).all(), "columns are finite"
        return
    fitted = _fit(one, problem)
    expect_refusal(DataError, fitted.transform, holes.X)


def refuses_other_features(one: FeatureMap, problem: Problem) -> None:
    """Another number of features is an error that tells both numbers."""
    fitted = _fit(one, problem)
    message = expect_refusal(DataError, fitted.transform, problem.X[:, :-1])
    assert str(fitted.n_features) in message, message


def saves_the_same_map(one: FeatureMap, problem: Problem) -> None:
    """A model of the columns is saved without pickle, and maps and scores as before."""
    joined = _fit(one if isinstance(one, JoinedMap) else JoinedMap([one]), problem)
    assert isinstance(joined, FittedJoin)
    model = MappedModel(joined, LinearModel(np.linspace(-1.0, 1.0, joined.n_columns)))
    with tempfile.TemporaryDirectory() as parent:
        model.save(Path(parent, "model"))
        again = load_model(Path(parent, "model"))
    assert isinstance(again, MappedModel)
    assert_array_equal(again.predict(problem.X), model.predict(problem.X))
    assert again.column_names() == model.column_names(), "names of the columns"


_CONTRACT: tuple[Check, ...] = (
    declares_its_parameters,
    makes_named_finite_columns,
    maps_each_row_alone,
    is_deterministic,
    says_whether_values_may_miss,
    refuses_other_features,
    saves_the_same_map,
)
