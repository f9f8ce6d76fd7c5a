"""Training that goes on from an earlier model, and the names that its trees keep."""

import json

import numpy as np
import pandas as pd
import pytest

import rankplug
from rankplug import LabelRankingData, RankingData
from rankplug.data import fit_scaling
from rankplug.exceptions import ParameterError
from rankplug.models import LabelLinearModel, LinearModel, ScaledModel
from rankplug.testing import make_problem

pytest.importorskip("lightgbm")

BOOSTERS = [
    "xgboost-pairwise",
    "xgboost-ndcg",
    "xgboost-all-pairs",
    "linear-then-boost",
    "lightgbm-lambdarank",
    "lightgbm-all-pairs",
]
NAMES = ["a b", "c[1]", "µ", 'say "x"', "back\\u0041slash"]


def quick(name, **params):
    return rankplug.make_solver(name, **{"n_estimators": 6, "n_threads": 1, **params})


def trees_of(model):
    return getattr(model, "trees", model)


@pytest.fixture(scope="module")
def data():
    return make_problem("query-document").data(names=NAMES)


@pytest.mark.parametrize("name", BOOSTERS)
def test_trees_are_added_to_those_of_yesterday(name, data, tmp_path):
    yesterday = quick(name).solve(data, random_state=0).model
    before = yesterday.predict(data.X)
    result = quick(name, n_estimators=4).solve(data, init=yesterday, random_state=0)
    assert result.n_iter == len(result.history) == 4
    assert trees_of(result.model).n_trees == 10
    assert trees_of(yesterday).n_trees == 6
    np.testing.assert_array_equal(yesterday.predict(data.X), before)
    result.model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(data.X), result.model.predict(data.X))
    again = quick(name, n_estimators=4).solve(data, init=loaded, random_state=0)
    assert trees_of(again.model).n_trees == 14


@pytest.mark.parametrize("name", ["xgboost-all-pairs", "linear-then-boost", "lightgbm-all-pairs"])
def test_six_rounds_and_four_are_ten(name, data):
    """Without randomness, rounds do not know when the training paused."""
    ten = quick(name, n_estimators=10).solve(data, random_state=0).model
    six = quick(name).solve(data, random_state=0)
    four = quick(name, n_estimators=4).solve(data, init=six, random_state=0).model
    np.testing.assert_allclose(four.predict(data.X), ten.predict(data.X), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["xgboost-pairwise", "lightgbm-all-pairs"])
def test_early_stopping_keeps_the_earlier_trees(name, data):
    valid = make_problem("query-document", seed=1).data()
    yesterday = quick(name).solve(data, random_state=0)
    solver = quick(name, n_estimators=50, early_stopping_rounds=3)
    result = solver.solve(data, valid=valid, init=yesterday, random_state=0)
    assert result.n_iter < 50
    assert trees_of(result.model).n_trees == 6 + result.n_iter - 3


def test_trees_of_labels_go_on():
    data = make_problem("label-ranking").data(names=NAMES)
    yesterday = quick("xgboost-pairwise").solve(data, random_state=0)
    result = quick("xgboost-pairwise").solve(data, init=yesterday, random_state=0)
    assert result.model.n_trees == 12
    assert result.model.booster.feature_names[-1] == "label"


@pytest.mark.parametrize(
    ("name", "init", "message"),
    [
        ("xgboost-pairwise", "lightgbm-all-pairs", "from XGBoost's trees, not .* 'lightgbm'"),
        ("lightgbm-lambdarank", "tree-tron", "from LightGBM's trees, not .* 'linear'"),
        ("linear-then-boost", "xgboost-pairwise", "from its own models, not .* 'xgboost'"),
        ("tree-tron", "xgboost-pairwise", "start from linear models, not from kind 'xgboost'"),
    ],
)
def test_other_models_are_no_start(name, init, message, data):
    params = {} if init == "tree-tron" else {"n_estimators": 2}
    model = rankplug.make_solver(init, **params).solve(data).model
    with pytest.raises(ParameterError, match=message):
        rankplug.make_solver(name).solve(data, init=model)


@pytest.mark.parametrize("name", ["cutting-plane", "tree-tron"])
def test_models_of_other_kinds_cannot_be_starting_points(name):
    data = rankplug.RankingData.from_arrays([[0.0], [1.0]], [0, 1])

    class Other(rankplug.models.base.Model):
        kind = "other"
        n_features = 1
        _predict = _write = None
        _read = None

    with pytest.raises(ParameterError, match="linear models"):
        rankplug.make_solver(name).solve(data, init=Other())


def test_zeros_are_treated_as_before(data):
    yesterday = quick("xgboost-pairwise", zeros="value").solve(data)
    with pytest.raises(ParameterError, match="trained with zeros='value'"):
        quick("xgboost-pairwise").solve(data, init=yesterday)


def test_columns_and_labels_must_be_those_of_yesterday(data):
    yesterday = LinearModel(np.ones(5), [*NAMES[:3], NAMES[4], NAMES[3]])
    with pytest.raises(ParameterError, match=r"'back.*' where the data have 'say.*\(column 3\)"):
        rankplug.make_solver("tree-tron").solve(data, init=yesterday)
    problem = make_problem("label-ranking")
    first = LabelRankingData.from_arrays(problem.X, problem.y, labels=list("abcd"))
    other = LabelRankingData.from_arrays(problem.X, problem.y, labels=list("abdc"))
    model = rankplug.make_solver("tree-tron").solve(first).model
    with pytest.raises(ParameterError, match="labels a, b, c, d, the data have a, b, d, c"):
        rankplug.make_solver("tree-tron").solve(other, init=model)


@pytest.mark.parametrize("name", BOOSTERS)
def test_trees_keep_the_names_of_the_columns(name, data, tmp_path):
    model = quick(name).solve(data, random_state=0).model
    model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    for trees in (trees_of(model), trees_of(loaded)):
        booster = trees.booster
        if trees.kind == "xgboost":
            expected = ["a b", "c_1_", "µ", "say _x_", "back_u0041slash"]
            assert booster.feature_names == expected
            assert set(booster.get_score(importance_type="gain")) <= set(expected)
        else:
            assert booster.feature_name() == ["a_b", "c_1_", "µ", "say__x_", "back\\u0041slash"]
        importances = trees.feature_importances()
        assert importances[0] > 0
        assert importances[1] == 0  # a column of zeros
        np.testing.assert_array_equal(importances, trees_of(model).feature_importances())
    unnamed = RankingData.from_arrays(data.X, data.relevance, data.qid)
    other = quick(name).solve(unnamed, random_state=0).model
    np.testing.assert_array_equal(other.predict(data.X), model.predict(data.X))
    np.testing.assert_array_equal(
        trees_of(other).feature_importances(), trees_of(model).feature_importances()
    )


def test_names_that_become_the_same_are_left_out():
    problem = make_problem("query-document")
    data = problem.data(names=["a[", "a]", "b", "c", "d"])
    model = quick("xgboost-pairwise").solve(data).model
    assert not model.booster.feature_names
    assert model.feature_names == ("a[", "a]", "b", "c", "d")


def test_the_file_of_trees_names_the_columns(tmp_path):
    problem = make_problem("query-document")
    table = pd.DataFrame(problem.X, columns=["year", "length", "stars", "price", "age"])
    data = RankingData.from_arrays(table, problem.y, problem.qid)
    model = quick("xgboost-pairwise").solve(data).model
    model.save(tmp_path / "model")
    content = json.loads((tmp_path / "model" / "trees.json").read_text())
    assert content["learner"]["feature_names"] == table.columns.tolist()
    assert model.contributions(table).shape == (len(table), 6)


@pytest.mark.parametrize("task", ["query-document", "label-ranking"])
def test_a_linear_solver_starts_from_a_model_of_scaled_features(task):
    """As commands leave them: the weights of the features as they were are the start."""
    problem = make_problem(task)
    data = problem.data(problem.X * [1.0, 1.0, 5.0, 0.2, 3.0] + 1.0)
    solver = rankplug.make_solver("tree-tron", tol=1e-6)
    cold = solver.solve(data)
    scaling = fit_scaling(data.X, "standard")
    inner = cold.model.coef / scaling.factor
    model = LinearModel(inner) if task == "query-document" else LabelLinearModel(inner)
    warm = solver.solve(data, init=ScaledModel(model, scaling))
    assert warm.n_iter == 0
    assert warm.objective == pytest.approx(cold.objective)
