"""Recipes, studies and saved models whose data have holes: imputed as a part of the model."""

import json
import warnings
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import rankplug.mlflow
from rankplug import Ranker, RankingData, cli, load_model, make_solver, prepare, read_data, tune
from rankplug.data import fill_missing, fit_imputing
from rankplug.exceptions import DataError, DataWarning
from rankplug.io.predictions import predict_file
from rankplug.models import ScaledModel, predict_data, scale_parts, scaling_for

N = 120
NAMES = ["price", "rating", "clicks", "empty"]
TRON = make_solver("tree-tron", C=0.01, n_threads=1)


def rows(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(5, 2, N), rng.normal(size=N), rng.integers(0, 9, N)])
    y = np.digitize(X @ [0.5, 1, 0.1] + 0.3 * rng.normal(size=N), [2.2, 3.5])
    X[rng.random(X.shape) < 0.2] = np.nan
    return np.column_stack([X, np.full(N, np.nan)]), y, np.repeat(np.arange(N // 10), 10)


X, Y, QID = rows(0)
DATA = RankingData.from_arrays(pd.DataFrame(X, columns=NAMES), Y, QID)


@pytest.mark.parametrize("impute", ["mean", "median"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_columns_are_filled_as_by_scikit_learn(impute, kind):
    features = kind(np.nan_to_num(X) if kind is not np.asarray else X)
    if kind is not np.asarray:
        features.data[::7] = np.nan
    fill = fit_imputing(features, impute)
    imputer = SimpleImputer(strategy=impute, keep_empty_features=True)
    expected = imputer.fit_transform(features)
    filled = fill_missing(features, fill)
    if kind is not np.asarray:
        expected, filled = expected.toarray(), filled.toarray()
    np.testing.assert_allclose(filled, expected, rtol=1e-15)
    assert fill[3] == 0.0


SCALERS = {
    "none": None, "standard": StandardScaler(), "minmax": MinMaxScaler(), "maxabs": MaxAbsScaler()
}  # fmt: skip


@pytest.mark.parametrize("scale", SCALERS)
@pytest.mark.parametrize("impute", ["mean", "median"])
def test_imputed_models_score_as_scikit_learns_pipelines_do(tmp_path, scale, impute):
    parts = scale_parts(DATA, None, scale, impute)
    assert not parts.train.has_missing
    result = TRON.solve(parts.train, random_state=0)
    model = ScaledModel(result.model, parts.scaling)
    imputer = SimpleImputer(strategy=impute, keep_empty_features=True)
    pipeline = make_pipeline(imputer, SCALERS[scale] or "passthrough", Ranker(TRON))
    expected = pipeline.fit(X, Y, ranker__qid=QID).predict(X)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-5, atol=1e-6 * np.ptp(expected))
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    frame = pd.DataFrame(X, columns=NAMES)
    for given in (X, frame, frame.astype(object).where(frame.notna(), None), X[:1] * np.nan):
        np.testing.assert_array_equal(loaded.predict(given), model.predict(given))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    predict_file(loaded, tmp_path / "rows.csv", tmp_path / "out.csv", progress=False)
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "out.csv")["score"], model.predict(X))


def test_folders_that_were_scaled_are_imputed_alike(tmp_path):
    DATA_FRAME = pd.DataFrame(X, columns=NAMES).assign(label=Y, qid=QID)
    DATA_FRAME.to_csv(tmp_path / "rows.csv", index=False)
    prepare(tmp_path / "rows.csv", tmp_path / "folder", scale="standard", progress=False)
    folder = read_data(tmp_path / "folder")
    parts = scale_parts(folder, None, "none", "median")
    assert not parts.train.has_missing
    model = ScaledModel(TRON.solve(parts.train).model, parts.scaling)
    scores = model.predict(X)
    np.testing.assert_allclose(predict_data(model, folder), scores, atol=1e-9)
    np.testing.assert_allclose(model.model.predict(parts.train.X), scores, atol=1e-9)
    median = np.nanmedian(X[:, :3], axis=0)
    np.testing.assert_allclose(scaling_for(folder, "none", None, "median").fill[:3], median)


def test_studies_impute_in_each_fold():
    with pytest.raises(DataError, match="takes no missing values"):
        tune(TRON, DATA, n_trials=2, progress=False)
    result = tune(
        TRON, DATA, n_trials=2, folds=3, scale="standard", impute="median", refit=True,
        progress=False,
    )  # fmt: skip
    assert np.isfinite(result.best_value)
    model = result.best_result.model
    assert model.takes_missing_values
    np.testing.assert_allclose(model.scaling.fill[:3], np.nanmedian(X[:, :3], axis=0))
    assert np.isfinite(model.predict(X)).all()


RECIPE = """\
name: holes
data: {train: train.csv, test: test.csv, label: grade, qid: query}
metrics: [ndcg@10]
scale: standard
solvers:
  - solver: tree-tron
    params: {n_threads: 1}
  - solver: xgboost-pairwise
    params: {n_estimators: 10, n_threads: 1}
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, seed in (("train", 0), ("test", 1)):
        features, y, qid = rows(seed)
        frame = pd.DataFrame(features, columns=NAMES).assign(grade=y, query=qid)
        frame.to_csv(f"{name}.csv", index=False)
    Path("holes.yaml").write_text(RECIPE)
    return "holes.yaml"


def test_a_recipe_gives_trees_what_is_there_and_others_medians(recipe, capsys):
    from rankplug.recipe import load_recipe
    from rankplug.runner import run

    with pytest.warns(DataWarning, match=r"tree-tron: .*price \(\d+\).* the median of each column"):
        report = run(load_recipe(recipe), output="out", progress=False)
    models = {one.name: one.result.model for one in report.outcomes}
    assert {one.status for one in report.outcomes} == {"converged"}
    assert models["tree-tron"].scaling.fill is not None
    assert models["xgboost-pairwise"].scaling.fill is None
    assert models["constant"].scaling.fill is None
    train = RankingData.from_arrays(X, Y, QID)
    alone = make_solver("xgboost-pairwise", n_estimators=10, n_threads=1)
    scaling = scaling_for(train, "standard")
    expected = alone.solve(scaling.of(train), random_state=0).model.predict(scaling.apply(X))
    np.testing.assert_array_equal(models["xgboost-pairwise"].predict(X), expected)


def test_recipes_say_how_or_that_nothing_is_filled_in(recipe):
    from rankplug.recipe import load_recipe
    from rankplug.runner import run

    with pytest.warns(DataWarning, match="xgboost-pairwise: .* the mean of each column"):
        report = run(load_recipe(recipe, overrides=["impute=mean"]), output="mean", progress=False)
    fills = [one.result.model.scaling.fill for one in report.outcomes]
    np.testing.assert_allclose(fills[1][:3], np.nanmean(X[:, :3], axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        report = run(load_recipe(recipe, overrides=["impute=none"]), output="none", progress=False)
    failed = {one.name: one.error for one in report.outcomes if one.status == "failed"}
    assert set(failed) == {"tree-tron", "single-feature"}
    assert "takes no missing values" in failed["tree-tron"]


@pytest.mark.parametrize(
    "more", ["compare: {folds: 3}", "tune: {n_trials: 2}\nlearning_curve: true"]
)
def test_holes_in_folds_studies_and_curves(recipe, more):
    from rankplug.recipe import load_recipe
    from rankplug.runner import run

    Path(recipe).write_text(RECIPE + more + "\n")
    with pytest.warns(DataWarning, match="tree-tron: "):
        report = run(load_recipe(recipe), output="out", progress=False)
    assert {one.status for one in report.outcomes} == {"converged"}, [
        one.error for one in report.outcomes
    ]


def test_the_command_trains_a_model_that_is_served_with_holes(recipe, capsys):
    command = ["train", recipe, "--solver", "tree-tron", "--output", "out", "--quiet"]
    assert cli.main(command) == 0
    assert (
        "the median of each column in the training set stands for them" in capsys.readouterr().err
    )
    assert cli.main(["predict", "out/model", "test.csv", "--out", "scores.csv"]) == 0
    scores = pd.read_csv("scores.csv")["score"].to_numpy()
    served = mlflow.pyfunc.load_model("out/model")
    frame = pd.read_csv("test.csv")[NAMES]
    np.testing.assert_array_equal(served.predict(frame), scores)
    records = [
        {name: None if value != value else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
    np.testing.assert_array_equal(
        served.predict(pd.DataFrame(json.loads(json.dumps(records)))), scores
    )
    assert rankplug.mlflow.load_model("out/model").takes_missing_values
