"""Spaces that are functions of a trial, callbacks of Optuna's, and what a dashboard shows."""

from __future__ import annotations

import numpy as np
import optuna
import pytest

import rankplug
from rankplug.exceptions import ParameterError, TuningError


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=120), [0, 1])
    return rankplug.RankingData.from_arrays(X, y, np.repeat(np.arange(12), 10))


def conditional(trial):
    """Lossguide trees have a number of leaves, others a depth."""
    policy = trial.suggest_categorical("policy", ["lossguide", "depthwise"])
    params = {"n_estimators": 3, "n_threads": 1, "params__grow_policy": policy}
    if policy == "lossguide":
        return params | {"params__max_leaves": trial.suggest_int("leaves", 2, 9)}
    return params | {"max_depth": trial.suggest_int("max_depth", 1, 3)}


def tune(data, space=conditional, solver="xgboost-pairwise", **options):
    options = {"n_trials": 6, "folds": 2, "progress": False, **options}
    return rankplug.tune(solver, data, space=space, **options)


def test_a_function_of_the_trial_is_a_space(data):
    result = tune(data)
    assert len(result.trials) == 6
    kinds = {trial.params["params__grow_policy"] for trial in result.trials}
    assert kinds == {"lossguide", "depthwise"}
    for trial in result.trials:
        lossguide = trial.params["params__grow_policy"] == "lossguide"
        assert ("params__max_leaves" in trial.params) is lossguide
        assert ("max_depth" in trial.params) is not lossguide
        assert trial.params["n_estimators"] == 3
    assert result.best_params == result.best.params
    solver = result.best_solver
    assert solver.params["grow_policy"] == result.best_params["params__grow_policy"]
    assert solver.n_estimators == 3
    assert set(result.study.best_trial.params) <= {"policy", "leaves", "max_depth"}


def test_parameters_within_parameters_are_searched(data):
    solver = rankplug.make_solver("mapped", map={"splines": {}, "identity": {}}, C=1e-3)
    name = "map__splines__n_knots"
    result = tune(data, lambda trial: {name: trial.suggest_int("k", 3, 5)}, solver, n_trials=2)
    assert result.best_solver.get_params()[name] == result.best_params[name] > 2


def test_nothing_returned_means_what_was_suggested(data):
    result = tune(data, lambda trial: trial.suggest_float("C", 0.1, 1.0) and None, "tree-tron")
    assert all(set(trial.params) == {"C"} for trial in result.trials)


def test_the_same_seed_makes_the_same_trials_also_when_resumed(data, tmp_path):
    whole = tune(data)
    tune(data, storage=tmp_path, n_trials=2)
    rest = tune(data, storage=tmp_path, resume=True)
    assert [one.params for one in rest.trials] == [one.params for one in whole.trials]
    assert [one.values for one in rest.trials] == [one.values for one in whole.trials]
    with pytest.raises(ParameterError, match="another setup"):
        tune(data, lambda trial: {"max_depth": 2}, storage=tmp_path, resume=True)


def test_threads_and_samplers_of_optuna_work_on_it(data):
    sampler = optuna.samplers.TPESampler(multivariate=True, group=True, seed=0)
    assert len(tune(data, sampler=sampler, n_jobs=2, n_trials=5).trials) == 5
    assert len(tune(data, sampler="random", pruner=optuna.pruners.HyperbandPruner()).trials) == 6


@pytest.mark.parametrize(
    ("space", "options", "message"),
    [
        (lambda trial: {"max_dept": 3}, {}, "did you mean 'max_depth'"),
        (lambda trial: [1], {}, "must return a mapping"),
        (lambda trial: {"objective": object()}, {}, "cannot be stored"),
        (lambda trial: {"params": {"x": (1, 2)}}, {}, "cannot be stored"),
        (conditional, {"sampler": "grid"}, "needs a space of ranges"),
        (conditional, {"path": True}, "path needs a space of ranges"),
        (7, {}, "or a function of a trial"),
        (conditional, {"callbacks": [1]}, "callbacks must be functions"),
        (conditional, {"callbacks": 1}, "callbacks must be functions"),
    ],
)
def test_mistakes_are_said_before_there_is_a_study(data, tmp_path, space, options, message):
    with pytest.raises(ParameterError, match=message):
        tune(data, space, storage=tmp_path / "studies", **options)
    assert not (tmp_path / "studies").exists()


def test_a_mistake_of_a_later_trial_ends_the_study(data):
    def breaks(trial):
        if trial.number == 2:
            raise KeyError("mine")
        return {"max_depth": 1, "n_estimators": 2}

    with pytest.raises(KeyError, match="mine"):
        tune(data, breaks)


def test_values_that_the_solver_refuses_fail_their_trials(data):
    with pytest.raises(TuningError, match="max_depth=0"):
        tune(data, lambda trial: {"max_depth": 0, "n_estimators": 1})


def test_callbacks_of_optuna_hear_of_each_trial_and_may_stop(data):
    heard = []

    def callback(study, trial):
        assert isinstance(study, optuna.Study)
        heard.append((trial.number, trial.state.name))
        if len(heard) == 3:
            study.stop()

    result = rankplug.tune(
        "tree-tron", data, n_trials=20, folds=2, progress=False, callbacks=[callback],
        space={"C": {"low": 1e-3, "high": 1.0}},
    )  # fmt: skip
    assert [number for number, _ in heard] == [0, 1, 2]
    assert len(result.trials) == 3
    stopping = optuna.study.MaxTrialsCallback(2, states=None)
    for given in (stopping, [stopping]):
        assert len(tune(data, callbacks=given).trials) == 2


def test_the_axes_of_a_dashboard_have_names(data, tmp_path):
    result = tune(data, metric="nDCG@5", storage=tmp_path, n_trials=2)
    assert result.study.metric_names == ["ndcg@5"]
    costly = tune(data, costs="seconds", n_trials=2)
    assert costly.study.metric_names == ["ndcg@10", "seconds"]
