"""CatBoost's trees: trained by CatBoost, kept and used as arrays of rankplug's own."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import sparse

import rankplug
from rankplug.cli import main
from rankplug.exceptions import DataError, ParameterError, SolverUnavailableError
from rankplug.metrics import evaluate
from rankplug_plugins.boosting.catboost_trees import read_trees

catboost = pytest.importorskip("catboost")

LOSSES = [
    "YetiRank", "YetiRankPairwise", "PairLogit", "PairLogitPairwise", "LambdaMart", "QueryRMSE",
]  # fmt: skip


def make_ranking(seed=0, n_queries=40, per_query=12, holes=0.0, real=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * per_query, 5))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=len(X))
    X[rng.random(X.shape) < holes] = np.nan
    y = y if real else np.digitize(y, [-0.5, 0.3, 1.0])
    qid = np.repeat(np.arange(n_queries), per_query)
    names = ["price", "clicks", "age", "size", "rank"]
    return rankplug.RankingData.from_arrays(pd.DataFrame(X, columns=names), y, qid)


def small(**params):
    return rankplug.make_solver("catboost", **{"n_estimators": 15, "n_threads": 1, **params})


def measure(data, model, metric="ndcg@10"):
    return evaluate(data.relevance, model.predict(data.X), data.qid, metric)[metric]


@pytest.mark.parametrize("loss", LOSSES)
def test_scores_are_those_of_catboost_to_the_bit(loss):
    data = make_ranking(holes=0.2, n_queries=15)
    result = small(loss=loss).solve(data, random_state=3)
    seed = int(np.random.default_rng(3).integers(2**31 - 1))
    native = catboost.CatBoost(
        {"loss_function": loss, "iterations": 15, "learning_rate": 0.1, "thread_count": 1,
         "random_seed": seed, "allow_writing_files": False, "verbose": False}
    )  # fmt: skip
    native.fit(catboost.Pool(data.X, data.relevance, group_id=data.row_query))
    np.testing.assert_array_equal(result.model.predict(data.X), native.predict(data.X))
    assert result.n_iter == 15
    importances = native.get_feature_importance(type="PredictionValuesChange")
    np.testing.assert_allclose(result.model.feature_importances(), importances)


@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide", "Depthwise"])
@pytest.mark.parametrize("nan_mode", ["Min", "Max"])
def test_trees_of_every_form_are_kept(policy, nan_mode, tmp_path):
    data = make_ranking(holes=0.3)
    params = {"grow_policy": policy, "nan_mode": nan_mode}
    model = small(params=params).solve(data, random_state=0).model
    assert model.kind == "trees"
    native = catboost.CatBoost(
        {"loss_function": "YetiRank", "iterations": 15, "learning_rate": 0.1, "thread_count": 1,
         "random_seed": int(np.random.default_rng(0).integers(2**31 - 1)), "verbose": False,
         "allow_writing_files": False, **params}
    )  # fmt: skip
    native.fit(catboost.Pool(data.X, data.relevance, group_id=data.row_query))
    np.testing.assert_array_equal(model.predict(data.X), native.predict(data.X))
    model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(data.X), model.predict(data.X))
    assert loaded.takes_missing_values
    assert sorted(file.suffix for file in (tmp_path / "model").iterdir()) == [".json", ".npz"]


def test_saved_models_need_no_catboost(tmp_path):
    data = make_ranking(holes=0.1)
    result = small().solve(data, random_state=0)
    result.model.save(tmp_path / "model")
    np.save(tmp_path / "X.npy", data.X)
    code = (
        "import sys; sys.modules['catboost'] = None\n"
        "import numpy as np, rankplug\n"
        f"model = rankplug.load_model({str(tmp_path / 'model')!r})\n"
        f"print(repr(float(model.predict(np.load({str(tmp_path / 'X.npy')!r})).sum())))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert float(out.stdout) == float(result.model.predict(data.X).sum()), out.stderr


def test_models_of_mlflow_need_no_catboost_either(tmp_path):
    import mlflow

    import rankplug.mlflow

    data = make_ranking(n_queries=8, holes=0.1)
    frame = pd.DataFrame(data.X, columns=list(data.feature_names)).assign(qid=data.qid)
    ranker = rankplug.Ranker(small(n_estimators=3)).fit(frame, data.relevance)
    rankplug.mlflow.save_model(ranker, tmp_path / "model")
    assert "catboost" not in (tmp_path / "model" / "requirements.txt").read_text()
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(frame), ranker.predict(frame))


@pytest.mark.parametrize("loss", ["YetiRank", "PairLogit"])
def test_early_stopping_goes_by_the_metrics_of_reports(loss):
    data, valid = make_ranking(), make_ranking(seed=1)
    solver = small(loss=loss, n_estimators=300, early_stopping_rounds=5, eval_metric="map")
    result = solver.solve(data, valid=valid, random_state=0)
    values = [row["valid_map"] for row in result.history]
    assert len(result.model.trees.sizes) == np.argmax(values) + 1 == result.n_iter - 5
    assert measure(valid, result.model, "map") == pytest.approx(max(values), abs=1e-12)


def test_data_that_are_watched_have_their_values():
    data, valid = make_ranking(), make_ranking(seed=1)
    ranker = rankplug.Ranker(small(), random_state=0).fit(
        data.X, data.relevance, qid=data.qid,
        eval_set=[(data.X, data.relevance), (valid.X, valid.relevance)],
        eval_qid=[data.qid, valid.qid],
    )  # fmt: skip
    found = list(ranker.evals_result_.values())
    assert len(found) == 2
    last = [values["ndcg@10"][-1] for values in found]
    expected = [measure(one, ranker.model_) for one in (data, valid)]
    assert last == pytest.approx(expected, abs=1e-12)


def test_real_relevance_and_sparse_features():
    data = make_ranking(real=True)
    dense = small(loss="PairLogit").solve(data, random_state=0).model
    thin = rankplug.RankingData.from_arrays(sparse.csr_array(data.X), data.relevance, data.qid)
    thin_model = small(loss="PairLogit").solve(thin, random_state=0).model
    np.testing.assert_array_equal(thin_model.predict(thin.X), dense.predict(data.X))
    for loss in ("YetiRank", "QueryRMSE", "LambdaMart"):
        model = small(loss=loss).solve(data, random_state=0).model
        assert measure(data, model, "pairwise_accuracy") > 0.7


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_dept": 3}, "did you mean 'max_depth', the solver's parameter depth"),
        ({"random_strengt": 3}, "did you mean 'random_strength'"),
        ({"eta": 0.1}, "eta is the solver's parameter learning_rate"),
        ({"objective": "RMSE"}, "objective is the solver's parameter loss"),
        ({"cat_features": [0]}, "features are numbers here"),
        ({"bootstrap_type": "wild"}, "Valid options are"),
        ({"nan_mode": "Forbidden"}, "nan values"),
        ({"custom_metric": "MAP"}, "early stopping is rankplug's"),
        ({"monotone_constraints": {"prise": 1}}, "did you mean 'price'"),
    ],
)
def test_what_cannot_be_set_is_refused_with_the_reason(params, message):
    with pytest.raises(ParameterError, match=message):
        small(params=params).solve(make_ranking(holes=0.1))


def test_monotone_constraints_hold():
    data = make_ranking()
    nameless = rankplug.RankingData.from_arrays(data.X, data.relevance, data.qid)
    with pytest.raises(ParameterError, match="features have no names: give numbers from 0 to 4"):
        small(params={"monotone_constraints": {"price": 1}}).solve(nameless)
    model = small(params={"monotone_constraints": {"price": 1}}, depth=3).solve(data).model
    rows = np.repeat(np.random.default_rng(1).normal(size=(40, 5)), 25, axis=0)
    rows[:, 0] = np.tile(np.linspace(-3, 3, 25), 40)
    assert np.all(np.diff(model.predict(rows).reshape(40, 25), axis=1) >= -1e-9)


def test_errors_of_catboost_are_told():
    data = make_ranking()
    constant = rankplug.RankingData.from_arrays(
        np.ones((data.n_samples, 2)), data.relevance, data.qid
    )
    with pytest.raises(DataError, match="no feature that varies"):
        small().solve(constant)
    X = data.X.copy()
    X[0, 0] = 1e39
    huge = rankplug.RankingData.from_arrays(X, data.relevance, data.qid)
    with pytest.raises(DataError, match="limit of float32"):
        small().solve(huge)


def test_what_early_stopping_cannot_go_by_is_refused():
    data = make_ranking()
    solver = small(early_stopping_rounds=2, eval_metric="map")
    none = rankplug.RankingData.from_arrays(data.X, np.minimum(data.relevance, 1) - 1.0, data.qid)
    with pytest.raises(DataError, match="map is undefined for every query of the data set: use"):
        solver.solve(data, valid=none)
    shrinking = small(early_stopping_rounds=2, params={"model_shrink_rate": 0.1})
    with pytest.raises(ParameterError, match="model_shrink_rate changes earlier trees in later"):
        shrinking.solve(data, valid=data)


def test_an_error_of_the_callback_is_the_callers_own():
    def fail(progress):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        small().solve(make_ranking(), callback=fail)


def test_trees_that_split_by_something_else_are_refused():
    tree = {"splits": [{"split_type": "OneHotFeature"}], "leaf_values": [0.0, 1.0]}
    content = {"scale_and_bias": [1, [0.0]], "features_info": {}, "oblivious_trees": [tree]}
    with pytest.raises(ValueError, match="OneHotFeature"):
        read_trees(content, 2, 1)
    with pytest.raises(ValueError, match="several scores"):
        read_trees({**content, "scale_and_bias": [1, [0.0, 1.0]]}, 2, 1)


def test_without_catboost_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "catboost", None)
    with pytest.raises(SolverUnavailableError, match="pip install catboost"):
        rankplug.make_solver("catboost")
    assert main(["solvers"]) == 0
    line = next(one for one in capsys.readouterr().out.splitlines() if one.startswith("catboost"))
    assert "needs catboost: pip install catboost" in line


def test_it_takes_part_in_recipes_and_its_model_ranks_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, seed in (("train", 0), ("test", 1)):
        data = make_ranking(seed, holes=0.1)
        frame = pd.DataFrame(data.X, columns=list(data.feature_names))
        frame.assign(label=data.relevance, qid=data.qid).to_csv(f"{name}.csv", index=False)
    recipe = {
        "name": "cats",
        "data": {"train": "train.csv", "test": "test.csv"},
        "solvers": [
            {
                "solver": "catboost",
                "params": {"depth": 2, "n_threads": 1},
                "space": {"n_estimators": {"low": 5, "high": 9}, "depth": 2},
            }
        ],
        "metrics": ["ndcg@10"],
        "tune": {"n_trials": 1, "folds": 2},
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    assert main(["run", "recipe.yaml", "--output", "out", "--quiet"]) == 0
    report = (tmp_path / "out" / "results.csv").read_text()
    assert "catboost" in report
    model = next(tmp_path.glob("**/trees.npz")).parent  # of the run that MLflow keeps
    capsys.readouterr()
    assert main(["evaluate", str(model), "test.csv", "--metric", "nDCG@10", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ndcg@10"]["value"] > 0.7


@pytest.mark.parametrize("loss", ["YetiRank", "PairLogit"])
def test_trees_are_added_to_those_of_yesterday(loss, tmp_path):
    data, other = make_ranking(holes=0.1), make_ranking(seed=1)
    yesterday = small(loss=loss, n_estimators=6).solve(data, random_state=0).model
    before = yesterday.predict(data.X)
    solver = small(loss=loss, n_estimators=4)
    result = solver.solve(data, init=yesterday, watch={"other": other}, random_state=1)
    assert result.n_iter == 4
    assert [len(one.trees.sizes) for one in (yesterday, result.model)] == [6, 10]
    np.testing.assert_array_equal(yesterday.predict(data.X), before)
    assert measure(data, result.model) > measure(data, yesterday)
    assert result.evals["other"]["ndcg@10"][-1] == pytest.approx(measure(other, result.model))
    assert result.model.feature_importances().shape == (5,)
    result.model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(data.X), result.model.predict(data.X))


def test_catboost_goes_on_from_its_own_trees_only():
    data = make_ranking()
    for solver in ("tree-tron", "pointwise"):
        init = rankplug.make_solver(solver).solve(data, random_state=0)
        with pytest.raises(ParameterError, match="leave out init"):
            small().solve(data, init=init)
    forest = rankplug.make_solver("pointwise", regressor="random-forest", n_estimators=2)
    mean = forest.solve(data, random_state=0).model.converted.model
    with pytest.raises(ParameterError, match="init holds trees of scikit-learn, to which no"):
        small().solve(data, init=mean)
