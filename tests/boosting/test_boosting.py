"""rankplug's objectives, metrics and data inside XGBoost and LightGBM."""

from __future__ import annotations

import copy
import doctest
import pickle
import sys

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import rankplug.boosting
from rankplug.boosting import (
    ndcg_metric,
    pairwise_logistic,
    pairwise_squared_hinge,
    ranking_data,
    ranking_metric,
)
from rankplug.exceptions import DataError, ParameterError, UnknownNameError
from rankplug.metrics import Ndcg, evaluate

lightgbm = pytest.importorskip("lightgbm")

XGBOOST = {"base_score": 0.0, "nthread": 1, "max_depth": 3, "disable_default_eval_metric": True}
LIGHTGBM = {"num_threads": 1, "verbosity": -1, "num_leaves": 7, "metric": "None"}


def brute_force(
    y, scores, qid, weight, slope_and_curvature, pair_weight="sum", own=None, product=False
):
    """Gradient and Hessian diagonal, pair by pair."""
    own = np.ones(len(y)) if own is None else own
    gain = {"gain": np.exp2(y) - 1.0, "relevance": y}.get(pair_weight)
    gradient, hessian = np.zeros((2, len(y)))
    for query in np.unique(qid):
        rows = np.flatnonzero(qid == query)
        pairs = [(i, j) for i in rows for j in rows if y[i] > y[j]]
        for i, j in pairs:
            c = weight[i] / (len(pairs) if pair_weight == "query-mean" else 1)
            c *= own[i] * (own[j] if product else 1.0)
            c *= 1.0 if gain is None else gain[i] - gain[j]
            slope, curvature = slope_and_curvature(scores[i] - scores[j])
            gradient[i] += c * slope
            gradient[j] -= c * slope
            hessian[[i, j]] += c * curvature
    return gradient, hessian


def squared_hinge(margin):
    return lambda t: (-2 * (margin - t), 2.0) if t < margin else (0.0, 0.0)


def logistic(t):
    return -1 / (1 + np.exp(t)), 1 / (2 + np.exp(t) + np.exp(-t))


def make_rows(seed=0, n=90, n_queries=7):
    """Labels with ties, real and negative, scores with ties, queries in no order, weights."""
    rng = np.random.default_rng(seed)
    qid = rng.integers(0, n_queries, n)
    y = rng.choice([-1.5, 0.0, 0.25, 3.0, 1e6], n)
    scores = np.round(rng.normal(size=n), 1)
    return qid, y, scores, rng.uniform(0.0, 3.0, n_queries)[qid]


def make_regression(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=n)


# --- derivatives ------------------------------------------------------------------------------


@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from([-2.0, 0.0, 0.5, 1.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0]),
            st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0, 1.25, 2.0]),
        ),
        min_size=1,
        max_size=40,
    ),
    margin=st.sampled_from([0.25, 1.0, 1.5]),
    pair_weight=st.sampled_from(["sum", "query-mean", "gain", "relevance"]),
    documents=st.sampled_from([None, "preferred", "product"]),
)
@settings(max_examples=60)
def test_squared_hinge_equals_brute_force(rows, margin, pair_weight, documents):
    qid, y, scores = (np.array(column) for column in zip(*rows, strict=True))
    weight, weights, own = np.array([1.0, 0.5, 2.0, 0.0])[qid], {}, None
    if pair_weight == "gain":
        y = np.maximum(y, 0.0)
    if documents is not None and pair_weight != "query-mean":
        own = np.random.default_rng(len(y)).choice([0.0, 0.3, 1.0, 5.0], len(y))
        weights = {"document_weight": own, "document_pairs": documents}
    objective = pairwise_squared_hinge(qid, margin=margin, pair_weight=pair_weight, **weights)
    parts = (pair_weight, own, documents == "product")
    expected = brute_force(y, scores, qid, weight, squared_hinge(margin), *parts)
    found = objective(y, scores, sample_weight=weight)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    # Labels may be levels, where the relevance is told; a mean over the query divides by its sum.
    if pair_weight == "relevance":
        told = pairwise_squared_hinge(
            qid,
            margin=margin,
            pair_weight=pair_weight,
            reduction="query-mean",
            relevance=y,
            **weights,
        )
        mean = told(np.argsort(np.argsort(y)).astype(float), scores, sample_weight=weight)
        ones = brute_force(y, np.zeros(len(y)), qid, np.ones(len(y)), lambda _: (0.0, 1.0), *parts)
        total = np.bincount(qid, weights=0.5 * ones[1])[qid]
        total = np.where(total > 0, total, 1.0)
        np.testing.assert_allclose(mean, expected / total, rtol=1e-8, atol=1e-8)


def test_a_large_query_of_distinct_labels_equals_the_sum_over_pairs():
    rng = np.random.default_rng(0)
    y, scores = rng.normal(size=(2, 700))
    slack = 1 - (scores[:, None] - scores[None, :])
    active = (y[:, None] > y[None, :]) & (slack > 0)
    slack = 2 * slack * active
    gradient, hessian = pairwise_squared_hinge()(y, scores, group=[700])
    np.testing.assert_allclose(gradient, slack.sum(axis=0) - slack.sum(axis=1), rtol=1e-8)
    np.testing.assert_array_equal(hessian, 2 * (active.sum(axis=0) + active.sum(axis=1)))


@pytest.mark.parametrize("n_knots", [4, 16, 64])
@pytest.mark.parametrize("pair_weight", ["sum", "query-mean"])
def test_logistic_errs_by_no_more_than_it_says(n_knots, pair_weight):
    qid, y, scores, weight = make_rows()
    scores = 4 * scores
    objective = pairwise_logistic(qid, n_knots=n_knots, pair_weight=pair_weight)
    found = objective(y, scores, weight)
    exact = brute_force(y, scores, qid, weight, logistic, pair_weight)
    pairs = brute_force(y, scores, qid, weight, lambda t: (0.0, 1.0), pair_weight)[1]
    assert np.all(np.abs(found[0] - exact[0]) <= objective.max_error * pairs + 1e-9)
    assert np.any(np.abs(found[0] - exact[0]) > 0.01 * objective.max_error * pairs)
    assert np.all(found[1] >= 0)
    assert objective.max_error < 0.75 / n_knots**2


def test_the_stated_error_of_sixteen_knots():
    assert 0.002 < pairwise_logistic().max_error < 0.003


def test_logistic_is_one_for_pairs_in_deep_disorder_and_zero_in_good_order():
    gradient, hessian = pairwise_logistic()([1.0, 0.0], [-300.0, 300.0])
    np.testing.assert_allclose(gradient, [-1.0, 1.0], atol=1e-10)
    np.testing.assert_allclose(hessian, 0.0, atol=1e-12)
    np.testing.assert_array_equal(pairwise_logistic()([1.0, 0.0], [300.0, -300.0]), 0.0)


def test_rows_may_come_in_any_order():
    qid, y, scores, weight = make_rows()
    order = np.random.default_rng(1).permutation(len(y))
    expected = pairwise_squared_hinge(qid)(y, scores, weight)
    names = np.array(list("abcdefg"))[qid]
    found = pairwise_squared_hinge(names[order])(y[order], scores[order], weight[order])
    np.testing.assert_allclose(found, np.array(expected)[:, order], rtol=1e-12, atol=1e-12)


def test_one_objective_serves_one_data_set_after_another():
    objective = pairwise_squared_hinge()
    for seed, group in ((0, [40, 50]), (1, [40, 50]), (1, [30, 60]), (1, None)):
        _, y, scores, _ = make_rows(seed)
        qid = np.zeros(90) if group is None else np.repeat([0, 1], group)
        for weight in (None, np.array([1.0, 3.0])[qid.astype(int)]):
            expected = pairwise_squared_hinge(qid)(y, scores, weight)
            np.testing.assert_array_equal(objective(y, scores, weight, group), expected)


@pytest.mark.parametrize("make", [pairwise_squared_hinge, pairwise_logistic])
def test_objectives_are_copied(make):
    qid, y, scores, weight = make_rows()
    objective = make(qid, pair_weight="query-mean")
    expected = objective(y, scores, weight)
    for other in (copy.deepcopy(objective), pickle.loads(pickle.dumps(objective))):
        np.testing.assert_array_equal(other(y, scores, weight), expected)


# --- training ---------------------------------------------------------------------------------


def test_a_query_of_twenty_thousand_real_labels_trains_in_both_libraries():
    X, y = make_regression(20_000)
    accuracy = ranking_metric("pairwise_accuracy")
    booster = xgboost.train(
        XGBOOST, xgboost.QuantileDMatrix(X, label=y), 8, obj=pairwise_squared_hinge()
    )
    scores = booster.predict(xgboost.DMatrix(X), output_margin=True)
    assert accuracy(y, scores, group=[len(y)])[1] > 0.85

    params = {**LIGHTGBM, "objective": pairwise_squared_hinge()}
    trees = lightgbm.train(params, lightgbm.Dataset(X, label=y, group=[len(y)]), 8)
    assert accuracy(y, trees.predict(X), group=[len(y)])[1] > 0.85

    own = {**LIGHTGBM, "objective": "lambdarank"}
    with pytest.raises(lightgbm.basic.LightGBMError):
        lightgbm.train(own, lightgbm.Dataset(X, label=y, group=[len(y)]), 8)


def test_queries_and_weights_of_data_sets_are_used():
    _, y, scores, _ = make_rows()
    group, weight = [30, 60], np.array([1.0, 2.5])
    qid = np.repeat([0, 1], group)
    expected = pairwise_squared_hinge(qid)(y, scores, weight[qid])
    X = np.ones((90, 1))
    for data in (
        xgboost.DMatrix(X, label=y, group=group, weight=weight),
        xgboost.DMatrix(X, label=y, qid=qid, weight=weight),
        lightgbm.Dataset(X, label=y, group=group, weight=weight[qid]).construct(),
    ):
        found = pairwise_squared_hinge()(scores, data)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        # Labels are the same within float32, and so are the pairs.
        np.testing.assert_array_equal(found[1] > 0, np.array(expected[1]) > 0)


def test_every_wrapper_minimises_the_same_loss():
    X, y = make_regression()
    group = [150, 250]
    qid = np.repeat([0, 1], group)
    weight = np.array([1.0, 2.0])
    objective = pairwise_squared_hinge()

    booster = xgboost.train(XGBOOST, xgboost.DMatrix(X, label=y, group=group), 5, obj=objective)
    shape = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1, "learning_rate": 0.3}
    wrapper = xgboost.XGBRegressor(
        objective=pairwise_squared_hinge(qid), base_score=0.0, **shape
    ).fit(X, y)
    np.testing.assert_allclose(
        wrapper.predict(X, output_margin=True), booster.predict(xgboost.DMatrix(X)), atol=1e-5
    )

    trees = lightgbm.train(
        {**LIGHTGBM, "objective": objective},
        lightgbm.Dataset(X, label=y, group=group, weight=weight[qid]),
        5,
    )
    ranker = lightgbm.LGBMRanker(
        objective=objective, metric="None", n_estimators=5, num_leaves=7, n_jobs=1, verbosity=-1
    )
    ranker = clone(ranker).fit(X, y, group=group, sample_weight=weight[qid])
    np.testing.assert_allclose(ranker.predict(X), trees.predict(X), rtol=1e-12)
    assert np.ptp(trees.predict(X)) > 0.5


def test_rows_without_pairs_do_no_harm():
    X, y = make_regression(60)
    y[:20] = 1.0
    group = [20, 1, 39]
    for penalty in (0.0, 1.0):
        params = {**XGBOOST, "reg_lambda": penalty, "min_child_weight": 0.0}
        data = xgboost.DMatrix(X, label=y, group=group)
        scores = xgboost.train(params, data, 40, obj=pairwise_squared_hinge()).predict(data)
        assert np.isfinite(scores).all()
    params = {**LIGHTGBM, "objective": pairwise_squared_hinge(), "min_data_in_leaf": 1}
    trees = lightgbm.train(params, lightgbm.Dataset(X, label=y, group=group), 40)
    assert np.isfinite(trees.predict(X)).all()


def test_xgbranker_refuses_functions_itself():
    with pytest.raises(ValueError, match="not supported"):
        xgboost.XGBRanker(objective=pairwise_squared_hinge())


# --- metrics ----------------------------------------------------------------------------------


@pytest.fixture
def graded():
    """Scores with ties, and a query without a relevant row."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 60)
    y[:15] = 0
    return rng.normal(size=(60, 3)), y, np.round(rng.normal(size=60), 1), [15, 20, 25]


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (ndcg_metric(5), "ndcg@5"),
        (ndcg_metric(None, gain="linear", empty=1), "ndcg[empty=1,gain=linear]"),
        (ranking_metric("map"), "map"),
        (ranking_metric(Ndcg(3)), "ndcg@3"),
        (ranking_metric("top1_error"), "top1_error"),
    ],
)
def test_metrics_are_those_of_reports(graded, metric, name):
    X, y, scores, group = graded
    y = y > 1 if name == "map" else y
    qid = np.repeat([0, 1, 2], group)
    expected = evaluate(y, scores, qid, name)[name]
    matrix = xgboost.DMatrix(X, label=y, group=group)
    assert metric(scores, matrix) == (name, expected)
    dataset = lightgbm.Dataset(X, label=y, group=group).construct()
    assert metric(scores, dataset) == (name, expected, name != "top1_error")
    assert metric(y, scores, None, group) == (name, expected, name != "top1_error")
    assert ranking_metric(metric.metric, qid)(y, scores) == expected


def test_metrics_stop_both_libraries_early(graded):
    X, y, _, group = graded
    other = np.random.default_rng(1).normal(size=X.shape)
    metric = ndcg_metric(10)
    train, valid = (xgboost.DMatrix(part, label=y, group=group) for part in (X, other))
    seen = {}
    stopping = xgboost.callback.EarlyStopping(rounds=4, maximize=metric.greater_is_better)
    booster = xgboost.train(
        XGBOOST,
        train,
        100,
        obj=pairwise_squared_hinge(),
        evals=[(valid, "valid")],
        custom_metric=metric,
        callbacks=[stopping],
        evals_result=seen,
        verbose_eval=False,
    )
    assert booster.best_iteration == np.argmax(seen["valid"]["ndcg@10"])
    assert len(seen["valid"]["ndcg@10"]) == booster.best_iteration + 5 < 100

    ranker = lightgbm.LGBMRanker(
        objective=pairwise_squared_hinge(), n_estimators=100, n_jobs=1, verbosity=-1
    ).fit(
        X,
        y,
        group=group,
        eval_X=other,
        eval_y=y,
        eval_group=[group],
        eval_metric=metric,
        callbacks=[lightgbm.early_stopping(4, first_metric_only=True, verbose=False)],
    )
    (values,) = [seen["ndcg@10"] for seen in ranker.evals_result_.values()]
    assert ranker.best_iteration_ == np.argmax(values) + 1


def test_metrics_refuse_what_they_cannot_tell(graded):
    X, y, scores, group = graded
    with pytest.raises(ParameterError, match=r"use xgboost\.train"):
        ndcg_metric()(y, scores)
    with pytest.raises(DataError, match=r"made for 2 rows .* called with 60"):
        ndcg_metric(10, [0, 1])(y, scores)
    with pytest.raises(DataError, match="undefined for every query"):
        ndcg_metric()(scores, xgboost.DMatrix(X, label=np.zeros(60), group=group))
    with pytest.raises(UnknownNameError, match="ndcg"):
        ranking_metric("ndgc@10")
    ranker = xgboost.XGBRanker(eval_metric=ndcg_metric(), n_estimators=1)
    with pytest.raises(ParameterError, match=r"use xgboost\.train"):
        ranker.fit(X, y, group=group, eval_set=[(X, y)], eval_group=[group])


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"margin": 0}, "margin=0"),
        ({"pair_weight": "mean"}, "pair_weight='mean'"),
        ({"qid": [0], "group": [1]}, "both qid and group"),
        ({"group": [0.5]}, "group"),
    ],
)
def test_wrong_arguments(arguments, named):
    with pytest.raises((ParameterError, DataError), match=named):
        pairwise_squared_hinge(**arguments)


def test_calls_that_make_no_sense():
    objective = pairwise_squared_hinge()
    with pytest.raises(DataError, match="no labels"):
        objective(np.zeros(3), xgboost.DMatrix(np.ones((3, 1))))
    with pytest.raises(DataError, match="6 scores for labels of shape"):
        objective([0, 1, 2], np.zeros((3, 2)))
    with pytest.raises(DataError, match="2 weights for 3 rows"):
        objective([0, 1, 2], np.zeros(3), [1, 2], [3])
    with pytest.raises(DataError, match="varies within query"):
        objective([0, 1, 2], np.zeros(3), [1, 2, 3])
    with pytest.raises(DataError, match="made for 2 rows"):
        pairwise_squared_hinge(group=[2])([0, 1, 2], np.zeros(3))
    with pytest.raises(DataError, match="adds up to 4"):
        objective([0, 1, 2], np.zeros(3), None, [4])


# --- data -------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_csr", [False, True])
def test_data_sets_are_read_back(in_csr):
    qid, y, _, _ = make_rows()
    qid = np.sort(qid)
    group, weight = np.unique(qid, return_counts=True)[1], np.arange(7.0)
    X = np.random.default_rng(0).normal(size=(90, 3)).astype(np.float32)
    X[X < -1] = 0.0
    features = sparse.csr_matrix(X) if in_csr else X
    names = ["first", "second", "third"]
    dmatrix = xgboost.DMatrix(features, label=y, group=group, weight=weight, feature_names=names)
    dataset = lightgbm.Dataset(
        features,
        label=y,
        group=group,
        weight=weight[qid],
        feature_name=names,
        free_raw_data=False,
        params={"verbosity": -1},
    )
    for matrix in (dmatrix, dataset):
        data = ranking_data(matrix)
        assert sparse.issparse(data.X) == in_csr
        np.testing.assert_array_equal(data.X.toarray() if in_csr else data.X, X)
        np.testing.assert_allclose(data.relevance, y, rtol=1e-7)
        np.testing.assert_array_equal(np.diff(data.query_ptr), group)
        np.testing.assert_array_equal(data.query_weight, weight)
        assert data.feature_names == tuple(names)
        model = rankplug.make_solver("tree-tron").solve(data).model
        assert model.predict(data.X).shape == (90,)


def test_all_rows_are_one_query_where_the_data_set_has_none():
    X, y = make_regression(30)
    assert ranking_data(xgboost.DMatrix(X, label=y)).n_queries == 1
    assert ranking_data(lightgbm.Dataset(X, label=y, free_raw_data=False)).n_queries == 1


def test_quantized_data_are_taken_on_request():
    X, y = make_regression(200)
    matrix = xgboost.QuantileDMatrix(X, label=y, max_bin=32)
    with pytest.raises(DataError, match="allow_quantized=True"):
        ranking_data(matrix)
    data = ranking_data(matrix, allow_quantized=True)
    assert all(1 < len(np.unique(column)) <= 33 for column in data.X.T)
    assert np.corrcoef(data.X[:, 0], X[:, 0])[0, 1] > 0.8


def test_rankers_say_how_to_read_back_a_data_set():
    X, y = make_regression(30)
    for matrix in (xgboost.DMatrix(X, label=y), lightgbm.Dataset(X, label=y)):
        with pytest.raises(DataError, match=r"rankplug\.boosting\.ranking_data"):
            rankplug.Ranker().fit(matrix, y)


def test_data_that_cannot_be_read_back(tmp_path):
    X, y = make_regression(30)
    with pytest.raises(DataError, match="free_raw_data=False"):
        ranking_data(lightgbm.Dataset(X, label=y, params={"verbosity": -1}).construct())
    with pytest.raises(DataError, match="no labels"):
        ranking_data(xgboost.DMatrix(X))
    with pytest.raises(DataError, match=r"ndarray is neither .*from_arrays"):
        ranking_data(X)
    file = tmp_path / "rows.csv"
    np.savetxt(file, np.column_stack((y, X)), delimiter=",")
    with pytest.raises(DataError, match=r"rows\.csv.*read_data"):
        ranking_data(lightgbm.Dataset(str(file), free_raw_data=False, params={"verbosity": -1}))


@pytest.mark.parametrize("module", ["", ".library_data"])
def test_examples_in_the_documentation(module):
    name = f"rankplug.boosting{module}"
    failed, tried = doctest.testmod(sys.modules[name])
    assert failed == 0
    assert tried > 0
