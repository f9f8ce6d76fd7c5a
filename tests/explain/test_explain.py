"""Contributions of features, and explanations of orders that are made of them."""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

import rankplug
from rankplug.cli import main
from rankplug.data import RankingData
from rankplug.exceptions import DataError, ParameterError
from rankplug.explain import explain_model, explain_query
from rankplug.models import LabelLinearModel, LinearModel, find_contributions
from rankplug.models.pipelines import pipeline_model
from rankplug.models.wrapped import scale_parts, scaled_model

RNG = np.random.default_rng(0)
N_QUERIES, N_ROWS, N_FEATURES = 6, 10, 4
QID = np.repeat(np.arange(N_QUERIES), N_ROWS)
X = RNG.normal(size=(len(QID), N_FEATURES)).round(1)  # with ties
X[:, 3] = QID  # the same for all rows of a query
Y = (X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3] > 2.5).astype(float) + (X[:, 0] > 0.5)
DATA = RankingData.from_arrays(X, Y, QID)

TREES = {"n_estimators": 5}
SOLVERS = {
    "linear": ("tree-tron", {}, "weight times value", 1e-9),
    "xgboost": ("xgboost-pairwise", TREES, "TreeSHAP", 1e-5),
    "lightgbm": ("lightgbm-lambdarank", {**TREES, "min_child_samples": 2}, "TreeSHAP", 1e-9),
    "linear then trees": ("linear-then-boost", TREES, "weight times value + TreeSHAP", 1e-5),
    "splines": ("mapped", {"map": "splines"}, "shape functions", 1e-9),
    "leaves": ("mapped", {"map": {"leaves": TREES}}, "TreeSHAP", 1e-5),
    "leaves and more": (
        "mapped",
        {"map": {"leaves": {"trees": "lightgbm-lambdarank", **TREES}, "identity": {}}},
        "TreeSHAP + shape functions",
        1e-9,
    ),
    "forest": (
        "mapped",
        {"map": {"leaves": {"trees": "extra-trees", **TREES}}},
        "sampled Shapley values",
        1e-9,
    ),
    "kernel": ("mapped", {"map": "nystroem"}, "sampled Shapley values", 1e-9),
}


@pytest.fixture(scope="module")
def models():
    return {
        name: rankplug.make_solver(solver, **params).solve(DATA, random_state=0).model
        for name, (solver, params, _, _) in SOLVERS.items()
    }


@pytest.mark.parametrize("name", SOLVERS)
def test_contributions_add_up_to_the_scores(models, name):
    model, (_, _, method, tolerance) = models[name], SOLVERS[name]
    scores = model.predict(X)
    for rows in (X, sparse.csr_array(X)):
        found = find_contributions(model, rows, n_permutations=2)
        assert found.method == method
        assert (found.error is None) == (method != "sampled Shapley values")
        total = found.values.sum(axis=1) + found.constant
        np.testing.assert_allclose(total, scores, atol=tolerance * np.abs(scores).max())
        np.testing.assert_allclose(found.constant, found.constant[0], rtol=1e-6, atol=1e-12)
    both = model.contributions(X)
    assert both.shape == (len(X), N_FEATURES + 1)
    one = explain_query(model, X[:1])  # has nothing to be set apart from
    assert not one.contributions.any()


def test_linear_ones_are_weight_times_value(models):
    weights = models["linear"].coef
    np.testing.assert_array_equal(models["linear"].contributions(X)[:, :-1], X * weights)
    parts = scale_parts(DATA, None, "standard")
    model = scaled_model(LinearModel(weights), parts.scaling)
    found = model.contributions(X)
    np.testing.assert_allclose(found.sum(axis=1), model.predict(X), atol=1e-12)
    np.testing.assert_allclose(found[:, :-1], parts.train.X * weights, atol=1e-12)


def test_those_of_an_additive_model_depend_on_the_feature_alone(models):
    changed = X.copy()
    changed[:, 1:] = changed[::-1, 1:]
    before, after = (models["splines"].contributions(rows)[:, 0] for rows in (X, changed))
    np.testing.assert_array_equal(before, after)
    changed[::3, 1] = np.nan
    found = models["splines"].contributions(changed)
    np.testing.assert_allclose(found.sum(axis=1), models["splines"].predict(changed), atol=1e-12)


def test_sampled_ones_approach_shapley_values(models):
    model, rows = models["kernel"], X[:N_ROWS]
    found = find_contributions(model, rows, n_permutations=200)
    exact = np.zeros((len(rows), N_FEATURES))
    for start, order in itertools.product(rows, itertools.permutations(range(N_FEATURES))):
        mixed = np.tile(start, (len(rows), 1))
        last = model.predict(mixed)
        for j in order:
            mixed[:, j] = rows[:, j]
            now = model.predict(mixed)
            exact[:, j] += now - last
            last = now
    exact /= len(rows) * math.factorial(N_FEATURES)
    assert np.all(np.abs(found.values - exact) <= 5.0 * found.error + 1e-12)
    assert 0 < found.error.max() < 0.2 * np.abs(exact).max()
    again = find_contributions(model, rows, n_permutations=200)
    np.testing.assert_array_equal(again.values, found.values)


def test_missing_values_and_categories_have_contributions():
    frame = pd.DataFrame(
        {
            "price": np.where(X[:, 0] > 1, np.nan, X[:, 0]),
            "shop": pd.Categorical(np.where(X[:, 1] > 0, "a<b>", "c")),
        }
    )
    ranker = rankplug.Ranker("xgboost-pairwise", n_estimators=5).fit(frame, Y, qid=QID)
    model, scores = ranker.model_, ranker.predict(frame)
    np.testing.assert_allclose(model.contributions(frame).sum(axis=1), scores, atol=1e-5)
    pair = ranker.explain(frame, qid=QID, above=0, below=1)
    assert set(pair.table()["above"]) <= {"a<b>", "c", *frame["price"].dropna()}
    assert "a<b>" not in pair._repr_html_()


TABLE = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": np.where(X[:, 2] > 0, "x", "y")})


@pytest.mark.parametrize(
    ("steps", "method"),
    [
        ([SimpleImputer(), StandardScaler(), SplineTransformer(n_knots=3)], "weight times value"),
        ([PolynomialFeatures(2)], "sampled Shapley values"),
        (
            [make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")],
            "weight times value",
        ),
        (
            [
                make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough"),
                PolynomialFeatures(2),
            ],
            "sampled Shapley values",
        ),
    ],
)
def test_pipelines_tell_by_the_columns_of_the_user(steps, method):
    table = TABLE if "Column" in type(steps[0]).__name__ else TABLE[["a", "b"]]
    pipeline = make_pipeline(*steps, rankplug.Ranker()).fit(table, Y, ranker__qid=QID)
    model = pipeline_model(pipeline, pipeline[-1].model_)
    found = find_contributions(model, table, n_permutations=4)
    assert found.method == method
    assert found.values.shape == table.shape
    total = found.values.sum(axis=1) + found.constant
    np.testing.assert_allclose(total, pipeline.predict(table), atol=1e-9)
    told = explain_model(model, table, qid=QID, y=Y, n_repeats=1)
    assert told.loss.shape == (table.shape[1], 3)


def test_differences_add_up_to_that_of_the_scores(models):
    for name in ("linear", "leaves", "kernel"):
        model = models[name]
        of_query = explain_query(model, X[:N_ROWS], rows=np.arange(5, 5 + N_ROWS))
        scores = model.predict(X[:N_ROWS])
        pair = of_query.pair(6, 14)
        assert pair.difference == pytest.approx(scores[1] - scores[9], abs=1e-5)
        assert pair.differences.sum() == pytest.approx(pair.difference, abs=1e-12)
        assert pair.above == tuple(X[1])
        table = pair.table(top=1)
        assert table["feature"].tolist()[1] == f"{N_FEATURES - 1} other features"
        assert table["difference"].sum() == pytest.approx(pair.difference, abs=1e-12)
        np.testing.assert_allclose(of_query.contributions.sum(axis=0), 0, atol=1e-9)
        assert of_query.table()["score"].is_monotonic_decreasing
    with pytest.raises(ParameterError, match="row 4 is not of the query, whose rows are 5, 6"):
        of_query.pair(4, 6)


def test_what_is_the_same_in_a_query_moves_nothing(models):
    for name in ("linear", "splines"):
        model = models[name]
        told = explain_model(model, X, qid=QID, y=Y)
        assert told.movement[3] == pytest.approx(0, abs=1e-12)
        np.testing.assert_allclose(told.loss[3], 0, atol=1e-12)
        assert told.table()["feature"].iloc[-1] == "f3"
        assert told.loss[0, 1] > 0  # surely of use
    trees = explain_model(models["xgboost"], X, qid=QID)
    assert trees.importance.shape == (N_FEATURES,)
    mixed = np.argsort(QID % 2, kind="stable")  # queries that do not stand together
    again = explain_model(models["linear"], sparse.csr_array(X[mixed]), qid=QID[mixed], y=Y[mixed])
    np.testing.assert_allclose(
        again.movement, explain_model(models["linear"], X, qid=QID).movement, atol=1e-12
    )


def test_an_estimator_explains(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(qid=QID + 100, title="t")
    ranker = rankplug.Ranker().fit(frame.drop(columns="title"), Y)
    pair = ranker.explain(frame, above=11, below=12)
    scores = ranker.predict(frame[list("abcd")])
    assert pair.difference == pytest.approx(scores[11] - scores[12])
    assert "difference of the scores" in str(pair)
    assert pair.plot().get_xlabel()
    of_query = ranker.explain(frame, query=103)
    assert set(of_query.table()["row"]) == set(np.flatnonzero(QID == 3))
    told = ranker.explain(frame, Y)
    assert "loss: of ndcg@10" in told.summary
    for given, error, message in (
        ({"above": 1}, ParameterError, "go together"),
        ({"above": 1, "below": 59}, ParameterError, "row 59 is not of the query"),
        ({"above": 99, "below": 1}, ParameterError, "position of the 60 rows"),
        ({"query": 7}, DataError, "no row is of query 7"),
    ):
        with pytest.raises(error, match=message):
            ranker.explain(frame, **given)
    with pytest.raises(DataError, match="explain needs the queries"):
        ranker.explain(X)
    labels = LabelLinearModel(np.ones((3, N_FEATURES)))
    with pytest.raises(DataError, match="not of a label"):
        labels.contributions(X)


def test_shap_draws_explanations(models):
    shap = pytest.importorskip("shap")
    of_query = explain_query(models["leaves"], X[:N_ROWS])
    found = of_query.to_shap()
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, of_query.scores, atol=1e-9)
    weights = models["linear"].coef
    linear = shap.LinearExplainer((weights, 0.0), X[:N_ROWS])(X[:N_ROWS]).values
    ours = explain_query(models["linear"], X[:N_ROWS]).contributions
    np.testing.assert_allclose(linear, ours, atol=1e-9)
    rows = X + 0.05  # SHAP knows nothing of zeros that count as missing
    trees = shap.TreeExplainer(models["leaves"].to_xgboost()).shap_values(rows)
    np.testing.assert_allclose(trees, models["leaves"].contributions(rows)[:, :-1], atol=1e-5)


def test_the_command_explains(tmp_path, capsys, models):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(search=[f"q{q}" for q in QID])
    ranker = rankplug.Ranker().fit(frame.rename(columns={"search": "qid"}), Y)
    ranker.model_.save(tmp_path / "model")
    file = tmp_path / "data.csv"
    frame.to_csv(file, index=False)
    common = ["explain", str(tmp_path / "model"), str(file), "--qid", "search"]
    assert main([*common, "--above", "11", "--below", "12", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    scores = ranker.model_.predict(X)
    assert sum(row["difference"] for row in table) == pytest.approx(scores[11] - scores[12])
    assert main([*common, "--query", "q3", "--top", "2"]) == 0
    assert capsys.readouterr().out.count("\n") == N_ROWS + 3
    assert main(common) == 0
    assert "movement" in capsys.readouterr().out
    frame.assign(grade=Y)[::-1].to_csv(file, index=False)
    assert main([*common, "--metric", "map", "--label", "grade", "--json"]) == 0
    told = pd.DataFrame(json.loads(capsys.readouterr().out)).set_index("feature")
    assert told.loc["d", "loss"] == pytest.approx(0, abs=1e-9)
    assert told.loc["a", "low"] > 0
    trees = rankplug.Ranker("xgboost-pairwise", n_estimators=3)
    kinds = frame.rename(columns={"search": "qid"}).assign(kind=np.where(X[:, 0] > 0, "u", "v"))
    trees.fit(kinds.astype({"kind": "category"}), Y)
    trees.model_.save(tmp_path / "trees")
    kinds.to_parquet(tmp_path / "kinds.parquet")
    asked = ["explain", str(tmp_path / "trees"), str(tmp_path / "kinds.parquet"), "--json"]
    assert main([*asked, "--above", "11", "--below", "12"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert {"u", "v"} & {row["above"] for row in table if row["feature"] == "kind"}
    scores = trees.predict(kinds)
    found = sum(row["difference"] for row in table)
    assert found == pytest.approx(scores[11] - scores[12], abs=1e-5)
    for wrong, message in (
        (["--above", "3"], "go together"),
        (["--query", "q9"], "no row is of query 'q9'"),
        (["--query", "q3", "--metric", "map"], "--metric measures all queries"),
        (["--metric", "map"], "--metric needs the relevance"),
        (["--above", "99", "--below", "1"], "no row 99, as there are 60, counted from 0"),
        (["--above", "0", "--below", "59"], "row 59 is not of the query"),
    ):
        assert main([*common, *wrong]) == 2
        assert message in capsys.readouterr().err
