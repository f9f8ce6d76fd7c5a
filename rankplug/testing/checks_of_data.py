"""Checks of solvers: data are not modified, and rows without preferences change nothing."""

from __future__ import annotations

import pickle
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.testing import assert_array_equal
from scipy import sparse

from rankplug.exceptions import DataError
from rankplug.models import load_model
from rankplug.solver import Progress, Task
from rankplug.testing.cases import (
    Case,
    assert_close,
    expect_refusal,
    list_arrays,
    list_pairs,
    make_problem,
)


def nothing_is_modified(case: Case) -> None:
    """Neither the solver, nor the data, nor NumPy's global random state."""
    problem = case.problem()
    for X in case.feature_kinds(problem.X):
        data = problem.data(X)
        attributes = dict(vars(case.solver))
        before = {name: array.copy() for name, array in list_arrays(data).items()}
        random_state = pickle.dumps(np.random.get_state())  # noqa: NPY002
        case.solve(data)
        assert vars(case.solver) == attributes, "solve changed the solver"
        for name, array in before.items():
            assert_array_equal(list_arrays(data)[name], array, err_msg=f"solve changed data.{name}")
        assert pickle.dumps(np.random.get_state()) == random_state, (  # noqa: NPY002
            "solve drew from np.random, not from rng"
        )


def read_only_is_enough(case: Case) -> None:
    """Data may lie in read-only memory, such as memory maps."""
    problem = case.problem()
    for X in case.feature_kinds(problem.X):
        data = problem.data(X)
        for array in list_arrays(data).values():
            array.flags.writeable = False
        case.scores(data, problem)


def feature_kinds_agree(case: Case) -> None:
    """float32 and sparse features give the scores of dense float64 ones."""
    problem, tight = case.problem(), case.tight()
    expected = tight.scores(problem.data(), problem)
    for X in case.feature_kinds(problem.X):
        assert_close(tight.scores(problem.data(X), problem), expected, X.dtype)


def sparse_is_refused(case: Case) -> None:
    """A solver for dense features says how to get them."""
    problem = case.problem()
    data = problem.data(sparse.csr_array(problem.X))
    message = expect_refusal(DataError, case.solver.solve, data)
    assert "toarray" in message, f"the remedy, X.toarray(), is not named in: {message}"


def missing_values_are_taken(case: Case) -> None:
    """A solver that takes missing values learns from what is there, and its model predicts."""
    problem = case.problem().with_holes()
    model = case.solve(problem.data()).model
    assert model.takes_missing_values, "the model says that it takes no missing values"
    expected = model.predict(problem.X)
    assert np.isfinite(expected).all(), "a score of a row with holes is not finite"
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        found = load_model(Path(folder) / "model").predict(problem.X)
    assert_array_equal(found, expected, err_msg="the saved model scores holes in another way")


def missing_values_are_refused(case: Case) -> None:
    """Any other solver says which features are missing, how often, and what to do, at once."""
    problem, reported = case.problem(), list[Progress]()
    names = [f"feature {j}" for j in range(problem.X.shape[1])]
    data = problem.with_holes().data(names=names)
    message = expect_refusal(DataError, case.solver.solve, data, callback=reported.append)
    assert not reported, "work began before the missing values were refused"
    counts = data.count_missing()
    for name, count in zip(names, counts.tolist(), strict=True):
        told = f"{name} ({count})" in message
        assert told == (count > 0), f"{count} missing values of {name!r}, but: {message}"
    assert "SimpleImputer" in message, f"the remedy, SimpleImputer, is not named in: {message}"
    model = case.solve(problem.data()).model
    if not model.takes_missing_values:
        expect_refusal(DataError, model.predict, problem.with_holes().X)


def row_order_is_irrelevant(case: Case) -> None:
    """The rows of a query, and queries, may come in any order."""
    problem = case.problem()
    shuffled = problem.rows(np.random.default_rng(1).permutation(len(problem.y)))
    case.expect_same_solution(shuffled.data(), problem.data())


def silent_rows_are_legal(case: Case) -> None:
    """One-level queries, single rows and labels that are not compared are no error."""
    problem = case.problem()
    case.scores(problem.with_silent_rows().data(), problem)


def silent_rows_change_nothing(case: Case) -> None:
    """One-level queries, single rows and labels that are not compared contribute nothing."""
    problem = case.problem()
    case.expect_same_solution(problem.with_silent_rows().data(), problem.data())


def weight_zero_drops_a_query(case: Case) -> None:
    """A query of weight zero is as if it were not there."""
    problem = case.problem()
    kept = problem.queries % 3 != 0
    weighted = replace(problem, sample_weight=kept.astype(np.float64))
    case.expect_same_solution(weighted.data(), problem.rows(np.flatnonzero(kept)).data())


def weight_two_repeats_a_query(case: Case) -> None:
    """A query of weight two is as good as that query twice."""
    problem = case.problem()
    double = problem.queries % 3 == 0
    weighted = replace(problem, sample_weight=1.0 + double)
    repeated = problem.rows(np.concatenate((np.arange(len(double)), np.flatnonzero(double))))
    repeated.queries[len(double) :] += 1 + problem.queries.max()
    case.expect_same_solution(weighted.data(), repeated.data())


def document_weights_are_used_or_refused(case: Case) -> None:
    """Weights of rows count as in a list of the weighted pairs, or are refused."""
    problem = case.problem()
    weight = np.random.default_rng(4).integers(0, 4, len(problem.y)).astype(np.float64)
    data = replace(problem, document_weight=weight).data()
    if not case.solver.takes_document_weights():
        message = expect_refusal(DataError, case.solver.solve, data)
        assert "document_weight" in message, f"document_weight is not named in: {message}"
    elif case.solver.tags.exact:
        case.expect_same_solution(data, list_pairs(problem, weight).data())
    else:
        case.scores(data, problem)


def any_real_relevance_is_taken(case: Case) -> None:
    """Negative, fractional and large relevance is no error."""
    problem = case.problem()
    noise = np.random.default_rng(2).normal(size=problem.y.shape)
    for y in (noise, 1000.0 * problem.y - 500.0):
        case.scores(replace(problem, y=y).data(), problem)


def no_preference_is_refused(case: Case) -> None:
    """Without any preference there is nothing to learn."""
    problem = case.problem()
    constant = replace(problem, y=np.ones_like(problem.y)).data()
    message = expect_refusal(DataError, case.solver.solve, constant)
    assert "no preference pair" in message, f"the cause is not named in: {message}"


def foreign_data_are_refused(case: Case) -> None:
    """Data of another task, and arrays, are not taken."""
    for task in set(get_args(Task)) - set(case.solver.tags.tasks):
        foreign = make_problem(task).data()
        message = expect_refusal(DataError, case.solver.solve, foreign)
        assert case.solver.name in message, f"the solver is not named in: {message}"
    message = expect_refusal(DataError, case.solver.solve, case.problem().X)
    assert "from_arrays" in message, f"the remedy, from_arrays, is not named in: {message}"


def validation_data_are_checked(case: Case) -> None:
    """Validation data must have the features of the training data."""
    problem, valid = case.problem(), case.problem(seed=1)
    case.scores(problem.data(), problem, valid=valid.data())
    narrow = valid.data(valid.X[:, :3])
    message = expect_refusal(DataError, case.solver.solve, problem.data(), valid=narrow)
    assert "features" in message, f"features are not named in: {message}"


def validation_data_change_nothing(case: Case) -> None:
    """A solver that needs no validation data leaves them aside."""
    problem, valid = case.problem(), case.problem(seed=1)
    expected = case.scores(problem.data(), problem)
    assert_array_equal(case.scores(problem.data(), problem, valid=valid.data()), expected)
