"""The solvers that grow trees on all pairs, for NDCG, or from a linear start."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys

import numpy as np
import pytest
import xgboost
from scipy import sparse
from sklearn.base import clone

import rankplug
from rankplug.boosting import pairwise_squared_hinge
from rankplug.exceptions import (
    DataError,
    InterruptionWarning,
    ModelFormatError,
    ParameterError,
    SolverUnavailableError,
    UnknownNameError,
)
from rankplug.metrics import evaluate
from rankplug.models import LinearModel
from rankplug.testing import make_problem
from rankplug_plugins.tree_tron import TreeTron
from tests.oracles import listed_weights

lightgbm = pytest.importorskip("lightgbm")

BOTH = ["xgboost-all-pairs", "lightgbm-all-pairs"]


def make_ranking(seed=0, n_queries=20, per_query=12, weights=None, real=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * per_query, 5))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=len(X))
    y = y if real else np.digitize(y, [-0.5, 0.3, 1.0])
    qid = np.repeat(np.arange(n_queries), per_query)
    sample_weight = None if weights is None else np.asarray(weights, float)[qid]
    return rankplug.RankingData.from_arrays(X, y, qid, sample_weight=sample_weight)


def small(name, **params):
    return rankplug.make_solver(name, **{"n_estimators": 15, "n_threads": 1, **params})


def measure(metric, data, model):
    return evaluate(data.relevance, model.predict(data.X), data.qid, metric)[metric]


def scaling(data):
    """What makes second derivatives 1 on average: rows, divided by 4 times the pairs."""
    return data.n_samples / (4 * data.pair_counts.sum())


# --- all pairs --------------------------------------------------------------------------------


def test_xgboost_all_pairs_is_its_objective_scaled(data):
    def objective(scores, matrix):
        return [scaling(data) * part for part in pairwise_squared_hinge()(scores, matrix)]

    matrix = xgboost.QuantileDMatrix(
        data.X, label=data.relevance, group=np.diff(data.query_ptr), missing=0.0
    )
    params = {"base_score": 0.0, "nthread": 1, "max_depth": 4, "learning_rate": 0.2}
    native = xgboost.train(params, matrix, 15, obj=objective)
    model = small("xgboost-all-pairs", max_depth=4, learning_rate=0.2).solve(data).model
    np.testing.assert_array_equal(model.predict(data.X), native.predict(matrix))


@pytest.mark.parametrize("weighting", [None, "uniform", "gain"])
def test_lightgbm_all_pairs_is_its_objective_scaled(data, weighting):
    params, weights, scale = {}, {}, scaling(data)
    if weighting is not None:
        data = data.with_facts(document_weight=np.arange(data.n_samples) % 4.0)
        params = {"pair_weight": weighting, "document_pairs": "product"}
        given = {"document_weight": data.document_weight, "relevance": data.relevance}
        weights = {**params, **given}
        scale = data.n_samples / (4 * listed_weights(data, **params).sum())
    of_pairs = pairwise_squared_hinge(**weights)

    def objective(scores, dataset):
        return [scale * part for part in of_pairs(scores, dataset)]

    dataset = lightgbm.Dataset(data.X, label=data.relevance, group=np.diff(data.query_ptr))
    library = {"objective": objective, "num_threads": 1, "num_leaves": 9, "verbosity": -1}
    native = lightgbm.train(library, dataset, 15)
    model = small("lightgbm-all-pairs", num_leaves=9, **params).solve(data).model
    np.testing.assert_array_equal(model.predict(data.X), native.predict(data.X))


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("loss", ["squared-hinge", "logistic"])
@pytest.mark.parametrize("pair_weight", ["sum", "query-mean"])
def test_second_derivatives_are_one_on_average(name, loss, pair_weight, data):
    # A leaf that must weigh as much as 90 % of the rows cannot be split off.
    solver = small(name, loss=loss, pair_weight=pair_weight)
    heavy = solver.set_params(min_child_weight=0.9 * data.n_samples, n_estimators=2)
    assert np.ptp(heavy.solve(data).model.predict(data.X)) == 0
    light = solver.set_params(min_child_weight=0.01 * data.n_samples)
    assert np.ptp(light.solve(data).model.predict(data.X)) > 0


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("pair_weight", ["sum", "query-mean"])
def test_weights_count_queries(name, pair_weight, data):
    weights = np.arange(20) % 3.0
    repeats = np.repeat(np.arange(20), weights.astype(int))
    weighted = make_ranking(weights=weights)
    repeated = data.take_queries(repeats)
    repeated = dataclasses.replace(repeated, query_ids=np.arange(len(repeats)))
    # Bins of a few values each, whatever the weights; leaves are bounded by weight only.
    coarse = [dataclasses.replace(part, X=np.round(part.X)) for part in (weighted, repeated)]
    leaves = {"min_child_samples": 0} if name == "lightgbm-all-pairs" else {}
    solver = small(name, pair_weight=pair_weight, min_child_weight=3.0, **leaves)
    first, second = (solver.solve(part).model.predict(coarse[0].X) for part in coarse)
    np.testing.assert_allclose(first, second, atol=1e-4)
    plain = solver.solve(dataclasses.replace(coarse[0], query_weight=None)).model
    assert np.abs(plain.predict(coarse[0].X) - first).max() > 0.01


@pytest.mark.parametrize("name", BOTH)
def test_one_query_of_twenty_thousand_real_labels(name):
    data = make_ranking(n_queries=1, per_query=20_000, real=True)
    solver = small(name, n_estimators=4, early_stopping_rounds=4, eval_metric="pairwise_accuracy")
    result = solver.solve(data, valid=data)
    assert measure("pairwise_accuracy", data, result.model) > 0.75
    with pytest.raises(DataError, match=r"10,000 rows .* 20,000: use lightgbm-all-pairs"):
        small("lightgbm-lambdarank").solve(data)


@pytest.mark.parametrize("name", BOTH)
def test_any_labels_of_one_order_give_one_model(name, data):
    expected = small(name).solve(data).model.predict(data.X)
    for y in (1e9 + data.relevance, np.exp(5 * data.relevance) - 3.5):
        other = dataclasses.replace(data, relevance=y)
        np.testing.assert_array_equal(small(name).solve(other).model.predict(data.X), expected)


def test_all_pairs_of_labels():
    data = make_problem("label-ranking").data()
    model = small("xgboost-all-pairs", n_estimators=60).solve(data).model
    scores = model.predict(data.X)
    above = data.relevance[:, :, None] > data.relevance[:, None, :]
    assert np.mean((scores[:, :, None] > scores[:, None, :])[above]) > 0.9


# --- NDCG -------------------------------------------------------------------------------------


def test_xgboost_ndcg_is_that_of_xgboost(data):
    theirs = xgboost.XGBRanker(objective="rank:ndcg", n_estimators=15, n_jobs=1, missing=0.0).fit(
        data.X, data.relevance, qid=data.qid
    )
    model = small("xgboost-ndcg").solve(data).model
    np.testing.assert_array_equal(model.predict(data.X), theirs.predict(data.X))


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg"])
def test_lightgbm_lambdarank_is_that_of_lightgbm(data, objective):
    theirs = lightgbm.LGBMRanker(
        objective=objective,
        n_estimators=15,
        n_jobs=1,
        verbosity=-1,
        seed=int(np.random.default_rng(5).integers(2**31 - 1)),
    ).fit(data.X, data.relevance, group=np.diff(data.query_ptr))
    model = small("lightgbm-lambdarank", objective=objective).solve(data, random_state=5).model
    np.testing.assert_array_equal(model.predict(data.X), theirs.predict(data.X))


@pytest.mark.parametrize("name", ["xgboost-ndcg", "lightgbm-lambdarank"])
def test_real_relevance_has_linear_gain(name):
    data = make_ranking(real=True)
    shifted = dataclasses.replace(data, relevance=data.relevance + np.repeat(np.arange(20), 12))
    model = small(name, n_estimators=40).solve(data).model
    assert measure("pairwise_accuracy", data, model) > 0.8
    again = small(name, n_estimators=40).solve(shifted).model
    np.testing.assert_allclose(again.predict(data.X), model.predict(data.X), atol=0.05)
    if name == "lightgbm-lambdarank":
        with pytest.raises(DataError, match="rank_xendcg"):
            small(name, objective="rank_xendcg").solve(data)


# --- early stopping ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["lightgbm-all-pairs", "lightgbm-lambdarank", "xgboost-ndcg", "linear-then-boost"]
)
def test_early_stopping_keeps_the_best_round(name, data, valid):
    solver = small(name, n_estimators=150, early_stopping_rounds=3, eval_metric="map")
    binary = dataclasses.replace(valid, relevance=(valid.relevance > 1).astype(float))
    result = solver.solve(data, valid=binary, random_state=0)
    seen = [row["valid_map"] for row in result.history]
    assert result.n_iter == np.argmax(seen) + 4 < 150
    assert measure("map", binary, result.model) == pytest.approx(max(seen), abs=6e-7)
    shorter = small(name, n_estimators=int(np.argmax(seen)) + 1).solve(data, random_state=0)
    np.testing.assert_array_equal(result.model.predict(data.X), shorter.model.predict(data.X))


def test_a_stop_by_the_callback_keeps_the_best_round_of_lightgbm(data, valid):
    solver = small("lightgbm-lambdarank", n_estimators=50, early_stopping_rounds=40)
    result = solver.solve(data, valid=valid, callback=lambda progress: progress.n_iter == 9)
    seen = [row["valid_ndcg_at_10"] for row in result.history]
    assert (result.status, result.n_iter) == ("stopped", 9)
    assert result.model.n_trees == np.argmax(seen) + 1


# --- LightGBM as an optional library ------------------------------------------------------------


def test_without_lightgbm_its_solvers_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    missing = {one.name: one.reason for one in rankplug.list_solvers() if not one.available}
    names = ("lightgbm-all-pairs", "lightgbm-lambdarank")
    assert missing == dict.fromkeys(names, "needs lightgbm: pip install lightgbm")
    with pytest.raises(SolverUnavailableError, match="pip install lightgbm"):
        rankplug.make_solver("lightgbm-all-pairs")


def test_few_rows_and_constant_features():
    rows = rankplug.RankingData.from_arrays([[0.0, 7.0], [1.0, 7.0]], [0, 1])
    for name in ("lightgbm-all-pairs", "lightgbm-lambdarank"):
        assert np.ptp(small(name).solve(rows).model.predict(rows.X)) == 0  # leaves of 20 rows
        scores = small(name, min_child_samples=1).solve(rows).model.predict(rows.X)
        assert scores[0] < scores[1]
        constant = dataclasses.replace(rows, X=np.ones((2, 2)))
        assert np.ptp(small(name).solve(constant).model.predict(rows.X)) == 0


def test_lightgbm_models_are_saved_as_text(data, tmp_path):
    model = small("lightgbm-all-pairs").solve(data).model
    model.save(tmp_path / "model")
    native = lightgbm.Booster(model_file=tmp_path / "model" / "model.txt")
    np.testing.assert_array_equal(native.predict(data.X), model.predict(data.X))
    loaded = rankplug.load_model(tmp_path / "model")
    assert loaded.n_trees == 15
    np.testing.assert_array_equal(loaded.predict(sparse.csr_array(data.X)), model.predict(data.X))
    assert np.argmax(loaded.feature_importances()) == 0
    (tmp_path / "model.txt").write_text("no trees")
    with pytest.raises(ModelFormatError, match=r"model\.txt cannot be read"):
        type(model)._read(tmp_path, {})


# --- a linear start ---------------------------------------------------------------------------


def test_trees_start_from_the_linear_scores(data, tmp_path):
    linear = rankplug.make_solver("tree-tron", C=0.01).solve(data).model
    model = small("linear-then-boost", C=0.01).solve(data).model
    np.testing.assert_array_equal(model.linear.coef, linear.coef)
    np.testing.assert_array_equal(
        model.predict(data.X), linear.predict(data.X) + model.trees.predict(data.X)
    )
    model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    for X in (data.X, sparse.csr_array(data.X)):
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_more_rounds_lower_the_loss_from_the_linear_one(data):
    def loss(scores):
        slack = 1 - (scores[:, None] - scores[None, :])
        pair = (data.qid[:, None] == data.qid) & (data.relevance[:, None] > data.relevance)
        return np.sum(np.maximum(slack, 0)[pair] ** 2)

    solver = small("linear-then-boost", n_estimators=30, C=0.01)
    model = solver.solve(data).model
    losses = [loss(model.linear.predict(data.X))]
    for n_trees in (1, 5, 30):
        shorter = solver.set_params(n_estimators=n_trees).solve(data).model
        losses.append(loss(shorter.predict(data.X)))
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.7 * losses[0]


def test_contributions_are_the_sum_of_both_parts(data):
    model = small("linear-then-boost").solve(data).model
    of_trees = model.trees.contributions(data.X)
    of_trees[:, :-1] += data.X * model.linear.coef
    np.testing.assert_allclose(model.contributions(data.X), of_trees)
    assert model.feature_importances().shape == (5,)


def test_any_linear_solver_may_start(data):
    chosen = rankplug.make_solver("cutting-plane", C=0.01)
    solver = small("linear-then-boost", linear=chosen)
    assert isinstance(solver.solve(data).model.linear, LinearModel)
    ranker = clone(rankplug.Ranker(solver)).set_params(solver__linear__C=0.1)
    ranker.fit(data.X, data.relevance, qid=data.qid)
    assert chosen.C == 0.01
    expected = rankplug.make_solver("cutting-plane", C=0.1).solve(data).model
    np.testing.assert_array_equal(ranker.model_.linear.coef, expected.coef)


@pytest.mark.parametrize(
    ("params", "error", "named"),
    [
        ({"linear": "tree-torn"}, UnknownNameError, "did you mean 'tree-tron'"),
        ({"linear": "toppush", "C": 1.0}, ParameterError, "toppush has no parameter 'C'"),
        ({"linear": "xgboost-ndcg"}, ParameterError, "kind 'xgboost', not a linear one"),
    ],
)
def test_what_cannot_start(data, params, error, named):
    with pytest.raises(error, match=named):
        small("linear-then-boost", **params).solve(data)
    solver = rankplug.make_solver("tree-tron")
    with pytest.raises(ParameterError, match="set the solver's own"):
        small("linear-then-boost", linear=solver, C=1.0).solve(data)


@pytest.mark.parametrize("header", [{}, {"linear": {}, "trees": None}], ids=["nothing", "no-trees"])
def test_a_damaged_description_is_a_model_format_error(data, tmp_path, header):
    cls = type(small("linear-then-boost").solve(data).model)
    with pytest.raises(ModelFormatError, match="lacks"):
        cls._read(tmp_path, header)


# --- tuning -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["xgboost-ndcg", "lightgbm-lambdarank", "linear-then-boost", *BOTH]
)
def test_whatever_is_searched_can_be_set(name, data):
    import optuna

    space = rankplug.make_solver(name).search_space(data)
    assert {"n_estimators", "learning_rate"} < set(space)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(3):
        params = {**study.ask(space).params, "n_estimators": 2}
        small(name, **params).solve(data)
    assert ("C" in space) == (name == "linear-then-boost")


def test_every_parameter_reaches_lightgbm(data):
    changed = {
        "learning_rate": 0.125,
        "num_leaves": 5,
        "min_child_samples": 7,
        "min_child_weight": 0.5,
        "subsample": 0.75,
        "colsample_bytree": 0.625,
        "reg_lambda": 2.5,
        "reg_alpha": 0.25,
        "max_bin": 16,
        "truncation_level": 9,
    }
    native = {
        "min_child_samples": "min_data_in_leaf",
        "min_child_weight": "min_sum_hessian_in_leaf",
        "subsample": "bagging_fraction",
        "colsample_bytree": "feature_fraction",
        "reg_lambda": "lambda_l2",
        "reg_alpha": "lambda_l1",
        "truncation_level": "lambdarank_truncation_level",
    }
    model = small("lightgbm-lambdarank", **changed).solve(data, random_state=0).model
    text = model.booster.model_to_string()
    for name, value in changed.items():
        assert f"[{native.get(name, name)}: {value}]" in text


def test_a_signal_that_comes_as_the_linear_start_converges_stops_the_whole():
    class Interrupting(TreeTron):
        def _solve(self, *args):
            result = super()._solve(*args)
            os.kill(os.getpid(), signal.SIGINT)
            return result

    solver = rankplug.make_solver("linear-then-boost", linear=Interrupting())
    with pytest.warns(InterruptionWarning):
        result = solver.solve(make_problem("query-document").data())
    assert (result.status, result.interrupted, result.n_iter) == ("stopped", True, 0)
    assert isinstance(result.model, LinearModel)
