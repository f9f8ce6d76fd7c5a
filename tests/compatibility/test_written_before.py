"""What version 0.1.0 wrote, before the modules were arranged in departments, still opens.

The archives in `files` were written by `make.py`, which says how. They hold models, prepared
folders, studies, runs and recipes, each with what that version itself read or computed from them.
"""

import json
import os
import shutil
import sqlite3
import tarfile
import warnings
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest
import yaml
from packaging.version import Version
from scipy import sparse

import rankplug
from rankplug import cli
from rankplug.io import verify_prepared
from rankplug.recipe.loader import load_recipe

FILES = Path(__file__).with_name("files")
ROOT = "/tmp/written-before"
"""Where the files were written; absolute paths in them begin with it."""

TEXTS = ("MLmodel", "runs.json", "state.json")
"""Files with absolute paths, beside recipes and databases."""

# Libraries read what they wrote earlier, not what they will write later.
WRITTEN_WITH = {"mlflow": "3.17.2", "optuna": "5.0.0", "xgboost": "3.2.0", "lightgbm": "4.7.0"}

NAMES = ["BM25", "größe", "ページ", 'quo"te', "a/b"]

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")


def require(*packages):
    """Skip where a library is older than the one that wrote the files."""
    for package in packages:
        if Version(version(package)) < Version(WRITTEN_WITH[package]):
            pytest.skip(f"written with {package} {WRITTEN_WITH[package]}, which is newer")


def unpack(name, folder):
    """Unpack an archive, and make it as if it had been written where it is now."""
    with tarfile.open(FILES / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    here = str(folder)
    for file in (file for file in folder.rglob("*") if file.is_file()):
        if file.suffix == ".db":
            relocate_database(file, f"{ROOT}/{name}", here)
        elif file.suffix in (".yaml", ".resolved") or file.name in TEXTS:
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace(f"{ROOT}/{name}", here), encoding="utf-8")
    return folder


def relocate_database(file, before, now):
    """Replace the beginning of paths, wherever they stand."""
    with closing(sqlite3.connect(file)) as connection, connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            for column in connection.execute(f"PRAGMA table_info({table})").fetchall():
                change = f"UPDATE {table} SET {column[1]} = replace({column[1]}, ?, ?)"
                connection.execute(f"{change} WHERE instr({column[1]}, ?)", (before, now, before))


def facts(folder, name):
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


# --- models ---

MODELS = [
    "linear",
    "linear-of-names",
    "single-feature",
    "constant",
    "label-linear",
    "label-linear-of-classes",
    "kernel-rbf-dense",
    "kernel-rbf-dense-labels",
    "kernel-rbf-sparse",
    "kernel-rbf-sparse-labels",
    "kernel-poly-dense",
    "kernel-poly-dense-labels",
    "kernel-poly-sparse",
    "kernel-poly-sparse-labels",
    "xgboost",
    "xgboost-zeros",
    "xgboost-labels",
    "lightgbm",
    "linear-then-trees",
    "linear-by-regression",
    "regressor",
    "regressor-hist-gradient-boosting",
    "regressor-random-forest",
    "scaled-standard",
    "scaled-maxabs",
    "scaled-minmax-labels",
    "scaled-kernel",
    "scaled-xgboost",
    "scaled-regressor",
    "pipeline",
    "pipeline-of-two",
    "pipeline-xgboost",
    "pipeline-kernel-labels",
]
SHIFTED = {
    "scaled-standard",
    "scaled-xgboost",
    "scaled-minmax-labels",
    "pipeline",
    "pipeline-of-two",
}
"""Those that take no sparse features."""
TREES = {"regressor-hist-gradient-boosting", "regressor-random-forest", "scaled-regressor"}
"""Those of scikit-learn, which are for the version that wrote them."""
FLOAT32 = ("xgboost", "linear-then-trees")  # whose sums are XGBoost's


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return unpack("models", tmp_path_factory.mktemp("models"))


def load(folder, name):
    if "xgboost" in name or name == "linear-then-trees":
        require("xgboost")
    if name == "lightgbm":
        pytest.importorskip("lightgbm")
        require("lightgbm")
    with warnings.catch_warnings():
        if "regressor" in name:  # scikit-learn says that another version wrote it, if so
            warnings.simplefilter("ignore")
        try:
            return rankplug.load_model(folder)
        except rankplug.exceptions.ModelFormatError:
            if name in TREES and version("scikit-learn") != "1.9.1":
                pytest.skip("written with scikit-learn 1.9.1")
            raise


def assert_scores(actual, expected, name):
    """Equal to the last bit where sums are exact, else up to another machine's rounding."""
    assert actual.dtype == np.float64
    if any(part in name for part in FLOAT32):
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)
    elif any(part in name for part in ("rbf", "regressor", "lightgbm")):
        np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-13)
    else:
        np.testing.assert_array_equal(actual, expected)


def test_there_is_a_model_of_every_kind(models):
    known = {one["kind"] for one in facts(models, "models").values()}
    assert known == {
        "linear", "label-linear", "kernel", "lightgbm", "linear-then-trees", "regressor",
        "pipeline", "scaled", "xgboost",
    }  # fmt: skip
    assert set(facts(models, "models")) == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_predicts_what_it_did(models, name, tmp_path):
    model = load(models / name, name)
    expected = facts(models, "models")[name]
    assert model.kind == expected["kind"]
    assert model.n_features == 5
    names = None if model.feature_names is None else list(model.feature_names)
    assert names == expected["feature_names"]
    if expected["labels"] is None:
        assert model.n_labels is None
    else:
        assert np.asarray(model.labels).tolist() == expected["labels"]
    importances = model.feature_importances()
    if expected["importances"] is None:
        assert importances is None
    else:
        np.testing.assert_allclose(importances, expected["importances"], rtol=1e-5)
    with np.load(models / "scores.npz") as arrays:
        X, scores = arrays["X"], arrays[name]
    assert_scores(model.predict(X), scores, name)
    assert_scores(model.predict(X.astype(np.float32)), scores, name)
    if name not in SHIFTED:
        assert_scores(model.predict(sparse.csr_array(X)), scores, name)
    if names is not None:
        frame = pd.DataFrame(X, columns=names)[names[::-1]]
        assert_scores(model.predict(frame.assign(other=0)), scores, name)
    model.save(tmp_path / "again")
    assert_scores(rankplug.load_model(tmp_path / "again").predict(X), scores, name)


# --- folders of MLflow's models ---


@pytest.fixture(scope="module")
def mlflow_models(tmp_path_factory):
    require("mlflow", "xgboost")
    return unpack("mlflow_models", tmp_path_factory.mktemp("mlflow_models"))


@pytest.mark.parametrize("name", ["plain", "pipeline", "unnamed"])
def test_an_mlflow_model_predicts_what_it_did(mlflow_models, name):
    import mlflow

    import rankplug.mlflow

    with np.load(mlflow_models / "scores.npz") as arrays:
        X, qid, scores = arrays["X"], arrays["qid"], arrays[name]
    kind = "xgboost" if name == "unnamed" else name
    rows = X if name == "unnamed" else pd.DataFrame(X, columns=NAMES)
    assert_scores(rankplug.mlflow.load_model(str(mlflow_models / name)).predict(rows), scores, kind)
    loaded = mlflow.pyfunc.load_model(str(mlflow_models / name))
    assert_scores(loaded.predict(rows), scores, kind)
    if name != "unnamed":
        assert loaded.metadata.signature.inputs.input_names()[:5] == NAMES
        best = loaded.predict(rows.assign(qid=qid.astype(str)), params={"output": "top_k", "k": 1})
        tops = pd.Series(scores).groupby(qid).max()
        assert best["qid"].tolist() == tops.index.astype(str).tolist()
        np.testing.assert_array_equal(best["score"], tops)
        assert len(loaded.input_example) == 2


# --- prepared folders ---


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return unpack("prepared", tmp_path_factory.mktemp("prepared"))


@pytest.mark.parametrize(
    "name", ["dense", "dense-standard", "dense-float32", "sparse", "sparse-maxabs"]
)
def test_a_prepared_folder_holds_what_it_did(prepared, name):
    verify_prepared(prepared / name)
    data = rankplug.read_data(prepared / name)
    with np.load(prepared / f"{name}.npz") as arrays:
        expected = dict(arrays)
    assert sparse.issparse(data.X) == expected.pop("sparse")
    coef = rankplug.make_solver("tree-tron", n_threads=1, tol=1e-9).solve(data).model.coef
    # The weights of that time are within their tolerance of the minimum.
    np.testing.assert_allclose(coef, expected.pop("coef"), rtol=1e-2)
    X = data.X.toarray() if sparse.issparse(data.X) else data.X
    found = {"X": X, "factor": None, "shift": None}
    if data.scaling is not None:
        found |= {"factor": data.scaling.factor, "shift": data.scaling.shift}
    for key in ("relevance", "query_ptr", "query_ids", "query_weight", "feature_names", "order"):
        found[key] = getattr(data, key)
    found = {key: np.asarray(value) for key, value in found.items() if value is not None}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key].dtype == value.dtype
        np.testing.assert_array_equal(found[key], value, err_msg=key)


def test_prepared_folders_have_their_shards(prepared):
    from rankplug.io import open_prepared

    folder = open_prepared(prepared / "dense")
    parts = [folder.shard(number) for number in range(len(folder.shards))]
    assert len(parts) > 3
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), folder.data().X)


@pytest.mark.parametrize("name", ["half-read", "half-arranged"])
def test_a_preparation_goes_on(prepared, name, tmp_path):
    """What was read before is not read again: otherwise the wrong label would be found."""
    shutil.copytree(prepared / f".{name}.partial", tmp_path / f".{name}.partial")
    file = prepared / "half.txt"
    written = file.stat()
    text = file.read_text()
    arguments = {"scale": "maxabs", "shard_bytes": 1000, "progress": False}
    try:
        file.write_text("x" + text[1:])
        os.utime(file, (written.st_mtime, written.st_mtime))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rankplug.prepare(file, tmp_path / name, **arguments)
        with pytest.raises(rankplug.exceptions.DataError, match="line 1"):
            rankplug.prepare(file, tmp_path / "anew", **arguments)
    finally:
        file.write_text(text)
        os.utime(file, (written.st_mtime, written.st_mtime))
    verify_prepared(tmp_path / name)
    whole = {array.name: array.read_bytes() for array in (prepared / "whole").glob("*.npy")}
    assert {array.name: array.read_bytes() for array in (tmp_path / name).glob("*.npy")} == whole
    assert not (tmp_path / f".{name}.partial").exists()


# --- studies ---


@pytest.fixture
def studies(tmp_path):
    require("optuna")
    folder = unpack("studies", tmp_path)
    url = f"sqlite:///{folder}/studies.db"
    optuna.storages.RDBStorage(url, skip_compatibility_check=True).upgrade()
    return folder


@pytest.mark.parametrize("name", ["of-space", "of-path", "of-trees", "of-costs", "killed"])
def test_a_study_goes_on(studies, name):
    if name == "of-trees":
        require("xgboost")
    study = facts(studies, "studies")[name]
    data = rankplug.read_data(studies / "documents.csv")
    place = studies / "journal" if study["in_journal"] else f"sqlite:///{studies}/studies.db"

    def resumed(more):
        arguments = {**study["arguments"], "storage": place, "study_name": name, "resume": True}
        arguments["n_trials"] += more
        solver = rankplug.make_solver(study["solver"], **study["params"])
        return rankplug.tune(solver, data, **arguments)

    def trials(result):
        return [[one.state, one.params, list(one.values)] for one in result.trials]

    expected = study["trials"]
    if name == "killed":
        assert expected[-1][0] == "running"
        expected[-1][0] = "killed"
    result = resumed(0)
    assert result.study.user_attrs["rankplug.id"] == study["id"], "the study began anew"
    assert trials(result) == expected
    assert result.best_value == study["best_value"]
    assert result.best_params == study["best_params"]
    result = resumed(2)
    assert trials(result)[: len(expected)] == expected
    n_more = 0 if name == "of-path" else 2  # the path was all that there is
    assert [one.state for one in result.trials[len(expected) :]] == n_more * ["complete"]
    assert result.best_value >= study["best_value"]


def test_a_study_is_not_mistaken_for_another(studies):
    study = facts(studies, "studies")["of-space"]
    data = rankplug.read_data(studies / "documents.csv").take_queries(range(14))
    with pytest.raises(rankplug.exceptions.ParameterError, match="another setup: data was"):
        rankplug.tune(
            study["solver"], data, **study["arguments"],
            storage=studies / "journal", study_name="of-space", resume=True,
        )  # fmt: skip


# --- runs ---


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    require("mlflow", "optuna", "xgboost")
    folder = unpack("runs", tmp_path_factory.mktemp("runs"))
    if version("mlflow") != WRITTEN_WITH["mlflow"]:
        from mlflow.store.db.utils import _upgrade_db, create_sqlalchemy_engine

        _upgrade_db(create_sqlalchemy_engine(f"sqlite:///{folder}/output/mlflow.db"))
    return folder


@pytest.fixture
def tracking(runs, monkeypatch):
    """The tracking URI of the runs, in their folder."""
    import mlflow

    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(runs)
    uri = f"sqlite:///{runs}/output/mlflow.db"
    mlflow.set_tracking_uri(uri)
    yield uri
    mlflow.set_tracking_uri(None)


def test_runs_are_read(runs, tracking):
    import mlflow

    client = mlflow.MlflowClient()
    expected = facts(runs, "runs")["runs"]
    assert len(expected) == 16
    for run_id, one in expected.items():
        run = client.get_run(run_id)
        assert (run.info.run_name, run.info.status) == (one["name"], one["status"])
        assert run.data.tags.get("mlflow.parentRunId") == one["parent"]
        assert run.data.params == one["params"]
        assert run.data.metrics == one["metrics"]


def test_models_of_runs_predict_what_they_did(runs, tracking):
    import mlflow

    import rankplug.mlflow

    rows = pd.read_csv(runs / "train.csv")[NAMES]
    expected = facts(runs, "runs")
    n_models = 0
    for run_id, run in expected["runs"].items():
        for model_id, scores in run["models"].items():
            n_models += 1
            rounding = 1e-6 if run["name"] == "xgboost-pairwise" else 1e-12
            close = {"rtol": rounding, "atol": rounding}
            loaded = mlflow.pyfunc.load_model(f"models:/{model_id}")
            np.testing.assert_allclose(loaded.predict(rows), scores, **close)
            own = rankplug.mlflow.load_model(f"runs:/{run_id}/{run['name']}")
            np.testing.assert_allclose(own.predict(rows), scores, **close)
            if expected["champion"]["run"] == run_id:
                champion = mlflow.pyfunc.load_model("models:/small@champion")
                np.testing.assert_allclose(champion.predict(rows), scores, **close)
    assert n_models == 6


def runs_below(uri, parent):
    """The runs of a run's solvers by name."""
    import mlflow

    client = mlflow.MlflowClient(uri)
    (experiment,) = client.search_experiments(filter_string="name = 'rankplug'")
    found = client.search_runs(
        [experiment.experiment_id], f"tags.`mlflow.parentRunId` = '{parent}'"
    )
    return {run.info.run_name: run for run in found}


def latest(uri):
    """The latest run of a recipe."""
    import mlflow

    client = mlflow.MlflowClient(uri)
    (experiment,) = client.search_experiments(filter_string="name = 'rankplug'")
    ordered = client.search_runs([experiment.experiment_id], order_by=["start_time DESC"])
    return next(run for run in ordered if "mlflow.parentRunId" not in run.data.tags)


def test_a_run_is_repeated(runs, tracking, tmp_path, capsys):
    expected = facts(runs, "runs")["runs"]
    run_id = next(
        one["parent"] for one in expected.values() if one["name"] == "single-feature"
    )  # of the two, the one that was not tuned
    command = ["run", f"runs:/{run_id}", "--tracking-uri", tracking, "--quiet"]
    assert cli.main([*command, "--output", str(tmp_path / "again")]) == 0
    assert "data (" not in capsys.readouterr().err, "the digests of the data are others now"
    repetition = latest(tracking)
    assert repetition.data.tags["rankplug.repeats"] == run_id
    now = runs_below(tracking, repetition.info.run_id)
    then = {one["name"]: one for one in expected.values() if one["parent"] == run_id}
    assert now.keys() == then.keys()
    for name, run in now.items():
        # Parameters that came since have their defaults.
        added = run.data.params.keys() - then[name]["params"].keys()
        defaults = rankplug.make_solver(run.data.params["solver"]).get_params()
        since = {key: str(defaults[key]) for key in added}
        assert run.data.params == then[name]["params"] | since
        for metric in ("ndcg_at_5", "map", "train_ndcg_at_5", "valid_pairwise_accuracy"):
            value = then[name]["metrics"][metric]
            assert run.data.metrics[metric] == pytest.approx(value, abs=1e-9)


def test_tuning_of_a_recipe_goes_on(runs, tracking):
    import mlflow

    expected = facts(runs, "runs")["runs"]

    def children(parent):
        """Name, parameters and value of the trials of a study, as they were written."""
        return {
            one["name"]: (one["params"], one["metrics"]["ndcg_at_5"])
            for one in expected.values()
            if one["parent"] == parent and one["name"].startswith("trial")
        }

    options = ["--tracking-uri", tracking, "--quiet", "--resume", "--n-trials", "4"]
    assert cli.main(["tune", "small.yaml", "--output", "tuned", *options]) == 0
    tuned = runs_below(tracking, latest(tracking).info.run_id)
    assert tuned.keys() == {"tree-tron", "xgboost-pairwise"}
    for name, run in tuned.items():
        (before,) = (key for key, one in expected.items() if one["name"] == name and children(key))
        best = max(value for _, value in children(before).values())
        assert run.data.metrics["tuning_trials"] == 4
        (study,) = runs_below(tracking, run.info.run_id).values()
        then = mlflow.MlflowClient().get_run(before)
        key = "rankplug.study_id"
        assert study.data.tags[key] == then.data.tags[key], "the study began anew"
        assert study.data.metrics["ndcg_at_5"] >= best
        trials = runs_below(tracking, study.info.run_id)
        assert trials.pop("trial 3").info.status == "FINISHED"
        found = {
            key: (one.data.params, one.data.metrics["ndcg_at_5"]) for key, one in trials.items()
        }
        assert found == children(before), name


# --- recipes ---

RECIPES = [
    "files",
    "folds",
    "label_ranking",
    "letor",
    "multiclass",
    "path",
    "quickstart",
    "seeds",
    "single_query_regression",
    "top_ranking",
    "tune",
    "web_search",
]


@pytest.fixture(scope="module")
def recipes(tmp_path_factory):
    folder = unpack("recipes", tmp_path_factory.mktemp("recipes"))
    assert sorted(file.stem for file in folder.glob("*.yaml")) == RECIPES
    return folder


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_means_what_it_did(recipes, name):
    more = []
    if name == "letor":
        splits = ("train", "valid", "test")
        more = [f"data.{split}={recipes}/data/{split}.txt" for split in splits]
    text = load_recipe(recipes / f"{name}.yaml", more).to_yaml()
    resolved = recipes / f"{name}.resolved"
    before = yaml.safe_load(resolved.read_text(encoding="utf-8"))
    assert known_before(yaml.safe_load(text), before) == before
    assert load_recipe(resolved).to_yaml() == text


def known_before(now, before):
    """The values of a recipe without keys that were not there before."""
    if isinstance(now, dict) and isinstance(before, dict):
        return {key: known_before(now[key], before.get(key)) for key in now if key in before}
    if isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        return [known_before(*pair) for pair in zip(now, before, strict=True)]
    return now
