"""Pointwise regression, and rankers that show what a metric or a data set is worth."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import skops.io
from scipy import sparse
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, LogisticRegression, PoissonRegressor, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVR, NuSVR
from sklearn.tree import DecisionTreeRegressor

import rankplug
from rankplug.exceptions import DataError, ModelFormatError, ParameterError
from rankplug.metrics import evaluate
from rankplug.models import LinearModel
from rankplug_plugins.baselines import RegressorModel

NAMES = ["ridge", "linear-svr", "random-forest", "hist-gradient-boosting"]


def make_ranking(seed=0, weights=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(240, 4))
    X[:, 2] = 0.0
    y = np.digitize(X[:, 0] - X[:, 3] + 0.3 * rng.normal(size=240), [-0.5, 0.3, 1.0])
    qid = np.repeat(np.arange(20), 12)
    sample_weight = None if weights is None else np.asarray(weights, float)[qid]
    return rankplug.RankingData.from_arrays(X, y, qid, sample_weight=sample_weight)


def solve(name, data, **params):
    return rankplug.make_solver(name, **params).solve(data, random_state=0)


def measure(metric, data, model):
    return evaluate(data.relevance, model.predict(data.X), data.qid, metric)[metric]


@pytest.mark.parametrize(
    ("regressor", "thin"),
    [
        (make_pipeline(KNNImputer(), Ridge()), True),
        (make_pipeline(StandardScaler(with_mean=False), SimpleImputer(), Ridge()), True),
        (HistGradientBoostingRegressor(max_iter=3), True),
        (RandomForestRegressor(3), False),
    ],
)
def test_missing_values_are_taken_as_regressors_say(regressor, thin):
    data = make_ranking()
    data.X[::5, 1] = np.nan
    solver = rankplug.make_solver("pointwise", regressor=regressor)
    for X in (data.X, sparse.csr_array(data.X)):
        given = rankplug.RankingData.from_arrays(X, data.relevance, data.qid)
        if sparse.issparse(X) and not thin:
            with pytest.raises(DataError, match="missing values in dense features only"):
                solver.solve(given)
        else:
            assert np.isfinite(solver.solve(given).model.predict(X)).all()


def test_imputers_of_other_values_do_not_take_missing_ones():
    for imputer in (SimpleImputer(missing_values=0.0), KNNImputer(missing_values=0.0)):
        solver = rankplug.make_solver("pointwise", regressor=make_pipeline(imputer, Ridge()))
        assert not solver.takes_missing_values()


# --- constant ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metric",
    ["ndcg@10", "ndcg@10[gain=linear]", "ndcg", "mean_ndcg", "map", "mrr", "precision@1", "err"],
)
def test_no_metric_rewards_a_constant_whatever_the_order_of_rows(data, metric):
    best_first = data.relevance.reshape(20, 12).argsort(axis=1)[:, ::-1]
    rows = (best_first + 12 * np.arange(20)[:, None]).ravel()
    binary = metric in ("map", "mrr", "precision@1")
    y = data.relevance > 2 if binary else data.relevance
    scores = solve("constant", data).model.predict(data.X)
    values = [evaluate(y[order], scores, data.qid, metric)[metric] for order in (rows, rows[::-1])]
    assert values[0] == pytest.approx(values[1])
    assert values[0] < 0.85
    perfect = evaluate(y, data.relevance, data.qid, metric)[metric]
    assert values[0] < 0.8 * perfect


@pytest.mark.parametrize(("metric", "value"), [("pairwise_accuracy", 0.5), ("kendall_tau", 0.0)])
def test_a_constant_orders_no_pair(data, metric, value):
    assert measure(metric, data, solve("constant", data).model) == pytest.approx(value)


# --- single feature ---------------------------------------------------------------------------


@pytest.mark.parametrize("in_csr", [False, True])
def test_the_best_single_feature_is_found(data, in_csr):
    rng = np.random.default_rng(0)
    X = np.column_stack((data.X, np.round(data.X[:, 0]), -data.relevance + rng.normal(size=240)))
    X[:, 1] = np.where(rng.random(240) < 0.7, 0.0, data.relevance)  # ties
    data = dataclasses.replace(data, X=sparse.csr_array(X) if in_csr else X)
    accuracy = []
    for column in X.T:
        for sign in (1, -1):
            values = evaluate(data.relevance, sign * column, data.qid, "pairwise_accuracy")
            accuracy.append(values["pairwise_accuracy"])
    best = int(np.argmax(accuracy))
    expected = np.zeros(6)
    expected[best // 2] = 1 if best % 2 == 0 else -1
    model = solve("single-feature", data).model
    np.testing.assert_array_equal(model.coef, expected)
    assert measure("pairwise_accuracy", data, model) == pytest.approx(max(accuracy))


def test_single_feature_goes_by_weighted_queries():
    rng = np.random.default_rng(0)
    y = np.tile([0.0, 1.0, 2.0], 4)
    X = rng.normal(size=(12, 2))
    X[:9, 0], X[9:, 1] = y[:9], y[9:]
    qid = np.repeat(np.arange(4), 3)
    for weight, best in ((1.0, 0), (100.0, 1)):
        weights = np.where(qid == 3, weight, 1.0)
        weighted = rankplug.RankingData.from_arrays(X, y, qid, sample_weight=weights)
        assert np.flatnonzero(solve("single-feature", weighted).model.coef) == [best]


# --- pointwise --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_regressors_by_name(name, data, tmp_path):
    test = make_ranking(seed=1)
    result = solve("pointwise", data, regressor=name, n_estimators=10, n_threads=1)
    assert measure("pairwise_accuracy", test, result.model) > 0.75
    assert isinstance(result.model, LinearModel) == (name in ("ridge", "linear-svr"))
    result.model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    for X in (test.X, test.X.astype(np.float32), sparse.csr_array(test.X)):
        np.testing.assert_array_equal(loaded.predict(X), result.model.predict(X))
    again = solve("pointwise", data, regressor=name, n_estimators=10, n_threads=1)
    np.testing.assert_array_equal(again.model.predict(test.X), result.model.predict(test.X))


@pytest.mark.parametrize("name", NAMES)
def test_queries_are_weighted(name, data):
    first_half = np.arange(20) < 10
    weighted = make_ranking(weights=first_half)
    params = {"regressor": name, "n_estimators": 5, "n_threads": 1}
    scores = solve("pointwise", weighted, **params).model.predict(data.X)
    if name in ("ridge", "linear-svr"):  # the others bin or draw all rows
        half = solve("pointwise", data.take_queries(np.flatnonzero(first_half)), **params).model
        np.testing.assert_allclose(scores, half.predict(data.X), rtol=1e-3, atol=1e-3)
    plain = solve("pointwise", data, **params).model.predict(data.X)
    assert np.abs(scores - plain).max() > 0.01


def test_ridge_is_that_of_scikit_learn_without_its_intercept(data):
    theirs = Ridge(alpha=4.0).fit(data.X, data.relevance)
    model = solve("pointwise", data, regressor="ridge", C=0.25).model
    np.testing.assert_allclose(model.coef, theirs.coef_)


def test_forests_predict_as_scikit_learn_and_tell_importances(data):
    forest = RandomForestRegressor(5, random_state=3)
    model = solve("pointwise", data, regressor=forest).model
    theirs = RandomForestRegressor(5, random_state=3).fit(data.X, data.relevance)
    np.testing.assert_array_equal(model.predict(data.X), theirs.predict(data.X))
    np.testing.assert_array_equal(model.feature_importances(), theirs.feature_importances_)
    assert not hasattr(forest, "estimators_"), "the caller's regressor is left alone"


@pytest.mark.parametrize("regressor", [SVR(), make_pipeline(StandardScaler(), Ridge())], ids=str)
def test_other_regressors_are_saved_too(regressor, data, tmp_path):
    model = solve("pointwise", data, regressor=regressor).model
    assert measure("pairwise_accuracy", data, model) > 0.8
    assert model.feature_importances() is None
    model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(data.X), model.predict(data.X))


TREES = [
    DecisionTreeRegressor(max_depth=5),
    RandomForestRegressor(4, max_leaf_nodes=9, random_state=0),
    ExtraTreesRegressor(4, random_state=0),
    GradientBoostingRegressor(n_estimators=5, random_state=0),
    GradientBoostingRegressor(n_estimators=5, init="zero", loss="huber"),
    HistGradientBoostingRegressor(max_iter=5),
    HistGradientBoostingRegressor(max_iter=5, loss="poisson"),
    make_pipeline("passthrough", make_pipeline(MinMaxScaler(), DecisionTreeRegressor())),
]
OTHERS = [
    Lasso(0.01),
    PoissonRegressor(),
    SVR(kernel="poly", degree=2),
    NuSVR(),
    KernelRidge(kernel="rbf"),
    KernelRidge(kernel="polynomial", gamma=0.5),
    make_pipeline(RobustScaler(), MinMaxScaler(clip=True), MaxAbsScaler(), SVR()),
    make_pipeline(StandardScaler(with_mean=False), Ridge()),
]


@pytest.mark.parametrize("regressor", [*TREES, *OTHERS], ids=str)
def test_regressors_score_as_in_scikit_learn_and_alike_when_saved(regressor, data, tmp_path):
    regressor.fit(data.X, data.relevance)
    model = RegressorModel(regressor)
    X = 1.5 * make_ranking(seed=1).X
    theirs, scores = regressor.predict(X), model.predict(X)
    rounding = 0.0 if regressor in TREES else 1e-11 * np.abs(theirs).max()
    np.testing.assert_allclose(scores, theirs, rtol=0, atol=rounding)
    if hasattr(regressor, "feature_importances_"):
        np.testing.assert_array_equal(model.feature_importances(), regressor.feature_importances_)
    model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), scores)
    some = sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0))
    dense = model.predict(some.toarray())
    np.testing.assert_allclose(loaded.predict(some), dense, rtol=0, atol=1e-11 * dense.max())
    skops.io.dump(regressor, tmp_path / "regressor.skops")  # as version 0.1 saved it
    np.testing.assert_array_equal(RegressorModel._read(tmp_path, {}).predict(X), scores)


def test_what_would_need_pickling_is_not_saved(data, tmp_path):
    model = solve("pointwise", data, regressor=KNeighborsRegressor()).model
    message = r"KNeighborsRegressor cannot be saved.*none of those that can be: .*linear.*forests"
    with pytest.raises(DataError, match=message):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


class Stranger(Ridge):
    """A type that no list of safe ones knows."""


def test_files_are_not_trusted(tmp_path):
    skops.io.dump(Stranger(), tmp_path / "regressor.skops")
    with pytest.raises(ModelFormatError, match=r"not safe to load.*Stranger"):
        RegressorModel._read(tmp_path, {})
    (tmp_path / "regressor.skops").write_bytes(b"no regressor")
    with pytest.raises(ModelFormatError, match="cannot be read"):
        RegressorModel._read(tmp_path, {})


@pytest.mark.parametrize("regressor", ["lasso", Ridge, LogisticRegression(), None, 3], ids=str)
def test_what_is_no_regressor(regressor, data):
    with pytest.raises(ParameterError, match=r"regressor=.*scikit-learn regressor or one of"):
        solve("pointwise", data, regressor=regressor)


def test_what_a_regressor_refuses(data):
    negative = dataclasses.replace(data, relevance=data.relevance - 5)
    with pytest.raises(DataError, match="PoissonRegressor refuses the data"):
        solve("pointwise", negative, regressor=PoissonRegressor())


def test_regressors_are_tuned_by_name(data):
    space = rankplug.make_solver("pointwise").search_space(data)
    assert set(space) == {"regressor", "C", "n_estimators", "min_samples_leaf"}
    assert set(space["regressor"].choices) == set(NAMES)
    ranker = rankplug.Ranker(rankplug.make_solver("pointwise", regressor=Ridge()))
    ranker.set_params(solver__regressor__alpha=100.0)
    ranker.fit(data.X, data.relevance, qid=data.qid)
    theirs = Ridge(alpha=100.0).fit(data.X, data.relevance)
    np.testing.assert_allclose(ranker.model_.coef, theirs.coef_)
