"""What `tune` takes: arrays and tables, estimators, and samplers and pruners of Optuna's."""

import numpy as np
import optuna
import pandas as pd
import pytest

import rankplug
from rankplug.exceptions import DataError, ParameterError

QUICK = {"n_trials": 3, "folds": 2, "progress": False}


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 3))
    return X, rng.integers(0, 3, 120), np.repeat(np.arange(24), 5)


X, Y, QID = arrays()
DATA = rankplug.RankingData.from_arrays(X, Y, QID)


def params(result):
    return [(trial.params, trial.values) for trial in result.trials]


@pytest.mark.parametrize("form", ["qid", "group", "table", "estimator", "estimator and data"])
def test_all_forms_of_the_data_make_the_same_trials(form):
    whole = rankplug.tune("tree-tron", DATA, **QUICK)
    table = pd.DataFrame(X, columns=list("abc")).assign(qid=QID)
    given, options = {
        "qid": (("tree-tron", X, Y), {"qid": QID}),
        "group": (("tree-tron", X.tolist(), Y.tolist()), {"group": [5] * 24}),
        "table": (("tree-tron", table, Y), {}),
        "estimator": ((rankplug.Ranker("tree-tron"), X, Y), {"qid": QID}),
        "estimator and data": ((rankplug.Ranker("tree-tron"), DATA), {}),
    }[form]
    assert params(rankplug.tune(*given, **options, **QUICK)) == params(whole)


def test_weights_count():
    weight = np.where(QID < 12, 1.0, 9.0)
    weighted = rankplug.tune("tree-tron", X, Y, qid=QID, sample_weight=weight, **QUICK)
    data = rankplug.RankingData.from_arrays(X, Y, QID, sample_weight=weight)
    assert params(weighted) == params(rankplug.tune("tree-tron", data, **QUICK))
    assert params(weighted) != params(rankplug.tune("tree-tron", DATA, **QUICK))


def test_the_parameters_of_an_estimators_solver_hold():
    ranker = rankplug.Ranker(rankplug.make_solver("tree-tron", tol=1e-2))
    result = rankplug.tune(ranker, X, Y, qid=QID, **QUICK)
    assert result.best_solver.get_params()["tol"] == 1e-2
    assert rankplug.Ranker(result.best_solver).fit(X, Y, qid=QID).predict(X).shape == (120,)


@pytest.mark.parametrize("solver", ["sopopo", "tree-tron"])
def test_label_ranking(solver):
    rng = np.random.default_rng(1)
    features, classes = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    options = {**QUICK, "metric": "top1_error"}
    data = rankplug.LabelRankingData.from_arrays(features, classes)
    whole = params(rankplug.tune(solver, data, **options))
    estimator = rankplug.LabelRanker(solver)
    assert params(rankplug.tune(estimator, features, classes, **options)) == whole
    relevance = (classes[:, None] == np.unique(classes)).astype(float)
    assert params(rankplug.tune(solver, features, relevance, **options)) == whole


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        (("tree-tron", DATA, Y), {}, ParameterError, "data is a RankingData, which holds y too"),
        (("tree-tron", DATA), {"qid": QID}, ParameterError, "which holds qid too"),
        (("tree-tron", X), {}, DataError, "not ndarray, or features with a target y"),
        (("tree-tron", X, Y), {}, DataError, "all 120 rows are one query.*pass qid="),
        ((rankplug.LabelRanker(), X, Y), {"qid": QID}, ParameterError, "has no qid"),
        ((object(), X, Y), {"qid": QID}, ParameterError, "a Solver, or an estimator with one"),
        (("tree-tron", DATA), {"sampler": "cma"}, ParameterError, "or a sampler of Optuna's"),
        (("tree-tron", DATA), {"pruner": object()}, ParameterError, "or a pruner of Optuna's"),
    ],
)
def test_what_is_wrong_is_said(given, options, error, message):
    with pytest.raises(error, match=message):
        rankplug.tune(*given, **options, **QUICK)


def test_a_sampler_of_optunas_is_taken_as_it_is():
    sampler = optuna.samplers.RandomSampler(seed=7)
    result = rankplug.tune("tree-tron", DATA, sampler=sampler, **QUICK)
    distributions = rankplug.make_solver("tree-tron").tuning_space(DATA)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=7))
    expected = [study.ask(distributions).params for _ in range(3)]
    assert [trial.params for trial in result.trials] == expected


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("kind", ["grid", "brute force", "tpe"])
def test_samplers_of_optunas_that_end_a_study_do(kind, n_jobs):
    values = [0.1, 1.0, 10.0]
    sampler, n_trials = {
        "grid": (optuna.samplers.GridSampler({"C": values}, seed=0), 3),
        "brute force": (optuna.samplers.BruteForceSampler(seed=0), 3),
        "tpe": (optuna.samplers.TPESampler(seed=0, multivariate=True), 5),
    }[kind]
    options = {**QUICK, "n_trials": 5, "space": {"C": values}, "n_jobs": n_jobs}
    result = rankplug.tune("tree-tron", DATA, sampler=sampler, pruner=None, **options)
    assert {trial.params["C"] for trial in result.trials} <= set(values)
    assert n_trials <= len(result.trials) <= n_trials + n_jobs - 1
    assert set(result.counts) == {"complete"}


def test_a_path_with_a_sampler_of_optunas():
    sampler = optuna.samplers.RandomSampler(seed=0)
    options = {**QUICK, "n_trials": 2, "space": {"method": ["newton", "tron"]}}
    result = rankplug.tune("tree-tron", DATA, sampler=sampler, path=[0.1, 1.0], **options)
    assert all(trial.params["C"] in (0.1, 1.0) for trial in result.trials)


@pytest.mark.filterwarnings(
    "ignore::optuna.exceptions.ExperimentalWarning", "ignore::FutureWarning"
)
def test_trials_are_not_pruned_where_none_keeps_the_constraints_of_a_sampler():
    sampler = optuna.samplers.TPESampler(seed=0, constraints_func=lambda trial: [1.0])
    options = {**QUICK, "folds": 4, "pruner": "wilcoxon"}
    result = rankplug.tune("tree-tron", DATA, sampler=sampler, **options)
    assert [trial.state for trial in result.trials] == ["complete"] * 3


class GivesUp(optuna.pruners.BasePruner):
    """Gives up every trial but the first, once it has values of two folds."""

    def prune(self, study, trial):
        return trial.number > 0 and len(trial.intermediate_values) >= 2


def test_a_pruner_of_optunas_is_taken_as_it_is():
    options = {**QUICK, "folds": 4}
    result = rankplug.tune("tree-tron", DATA, pruner=GivesUp(), **options)
    assert [trial.state for trial in result.trials] == ["complete", "pruned", "pruned"]
    assert [len(trial.fold_values) for trial in result.trials] == [4, 2, 2]
