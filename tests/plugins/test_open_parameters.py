"""Any parameter of XGBoost and LightGBM passes through the solvers, by the library's own name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold

import rankplug
from rankplug.cli import main
from rankplug.exceptions import ParameterError

pytest.importorskip("lightgbm")

XGBOOST = ["xgboost-pairwise", "xgboost-ndcg", "xgboost-all-pairs"]
LIGHTGBM = ["lightgbm-lambdarank", "lightgbm-all-pairs"]


def make_table(seed=0, n_queries=30, per_query=10):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        rng.normal(size=(n_queries * per_query, 3)), columns=["price", "clicks", "age"]
    )
    table.insert(0, "qid", np.repeat(np.arange(n_queries), per_query))
    score = -table["price"] + np.sin(3 * table["price"]) + table["clicks"]
    table["label"] = np.digitize(score + rng.normal(size=len(table)), [-1, 0, 1])
    return table


@pytest.fixture(scope="module")
def data():
    table = make_table()
    return rankplug.RankingData.from_arrays(
        table[["price", "clicks", "age"]], table["label"], table["qid"]
    )


def small(name, **params):
    return rankplug.make_solver(name, n_estimators=12, n_threads=1, **params)


def rises(model, feature, sign):
    """Whether scores never go the wrong way along a feature, from any row."""
    rng = np.random.default_rng(1)
    rows = np.repeat(rng.normal(size=(40, 3)), 25, axis=0)
    rows[:, feature] = np.tile(np.linspace(-3, 3, 25), 40)
    steps = np.diff(model.predict(rows).reshape(40, 25), axis=1)
    return bool(np.all(sign * steps >= -1e-6))


@pytest.mark.parametrize(
    "constraints", [[-1, 0, 0], {"price": -1}, "(-1,0,0)"], ids=["list", "names", "text"]
)
@pytest.mark.parametrize("name", XGBOOST + LIGHTGBM)
def test_monotone_constraints_hold(name, constraints, data, tmp_path):
    zeros = {"zeros": "value"} if name in XGBOOST else {}
    if isinstance(constraints, str) and name in LIGHTGBM:
        constraints = constraints.strip("()")
    free = small(name, **zeros).solve(data, random_state=0).model
    bound = small(name, **zeros, params={"monotone_constraints": constraints})
    model = bound.solve(data, random_state=0).model
    assert not rises(free, 0, -1)
    assert rises(model, 0, -1)
    model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(data.X), model.predict(data.X))


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("xgboost-pairwise", {"max_delta_step": 0.05}),
        ("xgboost-pairwise", {"interaction_constraints": [["price"], ["clicks", "age"]]}),
        ("xgboost-pairwise", {"interaction_constraints": [[0], [1], [2]]}),
        ("xgboost-pairwise", {"grow_policy": "lossguide", "max_leaves": 4}),
        ("xgboost-pairwise", {"tree_method": "exact"}),
        ("xgboost-pairwise", {"tree_method": "approx", "num_parallel_tree": 2}),
        ("xgboost-pairwise", {"lambdarank_normalization": False}),
        ("xgboost-pairwise", {"lambdarank_unbiased": True}),
        ("xgboost-ndcg", {"colsample_bynode": 0.4, "colsample_bylevel": 0.5}),
        ("xgboost-ndcg", {"ndcg_exp_gain": False}),
        ("xgboost-all-pairs", {"max_delta_step": 0.05}),
        ("linear-then-boost", {"max_delta_step": 0.01}),
        ("lightgbm-lambdarank", {"path_smooth": 10.0}),
        ("lightgbm-lambdarank", {"interaction_constraints": [["price"], ["clicks", "age"]]}),
        ("lightgbm-lambdarank", {"lambdarank_norm": False}),
        ("lightgbm-lambdarank", {"label_gain": [0, 1, 2, 3]}),
        ("lightgbm-lambdarank", {"boosting": "dart", "drop_rate": 0.5}),
        ("lightgbm-lambdarank", {"data_sample_strategy": "goss", "top_rate": 0.3}),
        ("lightgbm-lambdarank", {"min_split_gain": 1.0}),
        ("lightgbm-lambdarank", {"extra_trees": True}),
        ("lightgbm-all-pairs", {"max_depth": 2}),
        ("lightgbm-all-pairs", {"force_col_wise": True, "min_gain_to_split": 1.0}),
        ("lightgbm-all-pairs", {"feature_contri": [0.1, 1.0, 1.0]}),
        ("lightgbm-all-pairs", {"max_bin_by_feature": [3, 4, 5]}),
        ("lightgbm-all-pairs", {"use_quantized_grad": True}),
    ],
)
def test_parameters_change_the_trees_and_are_saved(name, params, data, tmp_path):
    plain = small(name).solve(data, random_state=0).model.predict(data.X)
    model = small(name, params=params).solve(data, random_state=0).model
    assert not np.array_equal(model.predict(data.X), plain)
    model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(data.X), model.predict(data.X))


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("xgboost-pairwise", {"max_delta_stp": 1}, "did you mean 'max_delta_step'"),
        ("xgboost-pairwise", {"eta": 0.1}, "eta is the solver's parameter learning_rate"),
        ("xgboost-pairwise", {"objective": "rank:map"}, "objective cannot be set"),
        ("xgboost-pairwise", {"num_class": 3}, "one score for each row"),
        ("xgboost-pairwise", {"booster": "gblinear"}, "plain boosted trees only"),
        ("xgboost-pairwise", {"seed": 3}, "random_state"),
        ("xgboost-pairwise", {"max_delta_step": "much"}, "expect float but value='much'"),
        ("xgboost-pairwise", {"grow_policy": "wild"}, "valid values are"),
        ("xgboost-pairwise", {"device": "toaster"}, "Invalid argument for `device`"),
        ("xgboost-all-pairs", {"lambdarank_unbiased": True}, "no parameter"),
        ("lightgbm-lambdarank", {"path_smoth": 1}, "did you mean 'path_smooth'"),
        ("lightgbm-lambdarank", {"n_iter": 5}, "n_iter is the solver's parameter n_estimators"),
        ("lightgbm-lambdarank", {"loss": "l2"}, "loss cannot be set"),
        ("lightgbm-lambdarank", {"boosting": "rf"}, "plain boosted trees only"),
        ("lightgbm-lambdarank", {"linear_tree": True}, "plain boosted trees only"),
        ("lightgbm-lambdarank", {"path_smooth": -1}, "path_smooth"),
        ("lightgbm-lambdarank", {"mc": [1, 0, 0], "monotone_constraints": [1, 0, 0]}, "are one"),
        ("lightgbm-lambdarank", {"predict_contrib": True}, "raw scores"),
        ("lightgbm-all-pairs", {"sigmoid": 2.0}, "is for lambdarank"),
        ("lightgbm-all-pairs", ["path_smooth"], "mapping of parameters of LightGBM"),
    ],
)
def test_what_cannot_be_set_is_refused_with_the_reason(name, params, message, data):
    with pytest.raises(ParameterError, match=message):
        small(name, params=params).solve(data)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"monotone_constraints": [1, 0]}, "2 values, but there are 3 features"),
        ({"monotone_constraints": [1, 0, 2]}, "rising"),
        ({"monotone_constraints": {"prize": 1}}, "did you mean 'price'"),
        ({"interaction_constraints": [[0, 7]]}, "7"),
        ({"interaction_constraints": [["price", "clics"]]}, "did you mean 'clicks'"),
        ({"interaction_constraints": ["price"]}, "lists of features"),
    ],
)
@pytest.mark.parametrize("name", ["xgboost-pairwise", "lightgbm-lambdarank"])
def test_constraints_name_features_that_exist(name, params, message, data):
    zeros = {"zeros": "value"} if name in XGBOOST else {}
    with pytest.raises(ParameterError, match=message):
        small(name, params=params, **zeros).solve(data)


def test_labels_may_meet_all_features_whatever_the_constraints():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    relevance = np.column_stack([X[:, 0], -X[:, 0], X[:, 1]])
    labels = rankplug.LabelRankingData.from_arrays(X, relevance)
    params = {"interaction_constraints": [[0], [1]], "monotone_constraints": [0, 1]}
    solver = small("xgboost-pairwise", zeros="value", params=params)
    scores = solver.solve(labels).model.predict(X)
    assert np.corrcoef(scores[:, 0] - scores[:, 1], X[:, 0])[0, 1] > 0.8


def test_constraints_that_would_not_hold_are_refused(data):
    params = {"monotone_constraints": {"price": -1}}
    with pytest.raises(ParameterError, match="zeros='value'"):
        small("xgboost-pairwise", params=params).solve(data)
    with pytest.raises(ParameterError, match="not for the linear part"):
        small("linear-then-boost", params=params, zeros="value").solve(data)


@pytest.mark.parametrize("name", ["xgboost-ndcg", "lightgbm-lambdarank"])
def test_early_stopping_works_with_them(name, data):
    zeros = {"zeros": "value"} if name in XGBOOST else {}
    solver = rankplug.make_solver(
        name, n_estimators=200, early_stopping_rounds=5, n_threads=1, **zeros,
        params={"monotone_constraints": [-1, 0, 0]},
    )  # fmt: skip
    result = solver.solve(data, valid=data.take(np.arange(10)), random_state=0)
    assert result.model.n_trees <= result.n_iter < 200
    assert rises(result.model, 0, -1)


def test_dart_cannot_go_back_to_a_round(data):
    solver = small("lightgbm-lambdarank", params={"boosting": "dart"}, early_stopping_rounds=3)
    with pytest.raises(ParameterError, match="dart"):
        solver.solve(data, valid=data)


def test_they_survive_clones_and_searches(data):
    table = make_table()
    solver = small("xgboost-pairwise", params={"max_delta_step": 1})
    assert clone(solver).get_params()["params"] == {"max_delta_step": 1}
    ranker = rankplug.Ranker(solver)
    search = GridSearchCV(
        ranker, {"solver__params__max_delta_step": [0.01, 1.0]}, cv=GroupKFold(2), refit=False,
        scoring=lambda model, X, y: model.solver.params["max_delta_step"],
    )  # fmt: skip
    search.fit(table[["price", "clicks", "age"]], table["label"], groups=table["qid"])
    assert search.best_params_ == {"solver__params__max_delta_step": 1.0}
    assert solver.params == {"max_delta_step": 1}  # that of the caller is as it was


def test_they_are_tuned_by_name(data):
    space = {
        "params__path_smooth": {"low": 0.0, "high": 10.0},
        "params__boosting": ["gbdt", "dart"],
        "params__extra_trees": True,
        "n_estimators": 5,
    }
    result = rankplug.tune("lightgbm-lambdarank", data, space=space, n_trials=3, folds=2)
    searched = {"params__path_smooth", "params__boosting"}
    assert all(searched <= set(trial.params) for trial in result.trials)
    assert result.best_solver.params["extra_trees"] is True
    assert set(result.best_solver.params) == {"extra_trees", "path_smooth", "boosting"}
    with pytest.raises(ParameterError, match="did you mean 'path_smooth'"):
        rankplug.tune(
            "lightgbm-lambdarank", data, n_trials=1, space={"params__path_smoth": [1.0, 2.0]}
        )


def test_they_stand_in_recipes(tmp_path, capsys):
    make_table().to_csv(tmp_path / "train.csv", index=False)
    make_table(1).to_csv(tmp_path / "test.csv", index=False)
    recipe = {
        "name": "open",
        "data": {"train": "train.csv", "test": "test.csv", "label": "label", "qid": "qid"},
        "solvers": [
            {
                "name": "falling", "solver": "xgboost-pairwise",
                "params": {
                    "n_estimators": 5, "zeros": "value",
                    "params": {"monotone_constraints": {"price": -1}, "max_delta_step": 1},
                },
                "space": {
                    "params__max_leaves": {"low": 2, "high": 9},
                    "params__grow_policy": "lossguide",
                },
            }
        ],
        "metrics": ["ndcg@10"],
        "tune": {"n_trials": 2, "folds": 2},
    }  # fmt: skip
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe))
    assert main(["run", str(file), "--output", str(tmp_path / "out")]) == 0
    recipe["solvers"][0]["params"]["params"]["max_delta_stp"] = 1
    file.write_text(yaml.safe_dump(recipe))
    capsys.readouterr()
    assert main(["run", str(file), "--output", str(tmp_path / "out2")]) == 2
    assert "did you mean 'max_delta_step'" in capsys.readouterr().err
