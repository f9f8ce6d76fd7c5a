"""``rankplug train``: one solver of a recipe, its model and its registration."""

import shutil
from pathlib import Path

import mlflow
import numpy as np
import pytest

import rankplug.mlflow
from rankplug import cli
from rankplug.datasets import load
from rankplug.exceptions import DataError

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")

RECIPE = """\
name: small
data: {dataset: digits-retrieval, params: {n_queries: 12}}
metrics: [ndcg@10]
sanity: false
scale: maxabs
baseline: second
solvers:
  - solver: tree-tron
  - solver: tree-tron
    name: second
    params: {C: 0.01}
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch, empty_store):
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(RECIPE)
    Path("out").mkdir()
    shutil.copy(empty_store, "out/mlflow.db")
    return "small.yaml"


def test_the_model_is_kept_and_registered(recipe, capsys):
    command = ["train", recipe, "--solver", "second", "--output", "out", "--quiet"]
    assert cli.main([*command, "--register", "digits"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[0] == "second"
    assert "model:  out/model" in lines
    assert lines[-1].strip() == "models:/digits@champion, version 1"
    model = rankplug.mlflow.load_model("out/model")
    X = load("digits-retrieval", n_queries=12).test.X
    client = mlflow.MlflowClient(f"sqlite:///{Path.cwd()}/out/mlflow.db")
    version = client.get_model_version_by_alias("digits", "champion")
    registered = rankplug.mlflow.load_model(
        client.get_model_version_download_uri("digits", version.version)
    )
    np.testing.assert_array_equal(model.predict(X), registered.predict(X))


def test_what_cannot_be_trained_or_kept_is_told_at_once(recipe, capsys):
    assert cli.main(["train", recipe, "--solver", "secnd", "--output", "out"]) == 2
    assert "unknown solver of the recipe 'secnd'; did you mean 'second'" in capsys.readouterr().err
    mine = Path("out/model/MLmodel")
    mine.parent.mkdir()
    mine.write_text("mine")
    assert cli.main(["train", recipe, "--output", "out"]) == 2
    assert "out/model is there already, and is not overwritten" in capsys.readouterr().err
    assert mine.read_text() == "mine"
    assert not Path("out/recipe.yaml").exists()


def test_a_failure_leaves_no_model(recipe, capsys, monkeypatch):
    """Without --solver it is the first one of the recipe."""

    def broken(*args, **kwargs):
        raise DataError("too many rows")

    monkeypatch.setattr("rankplug_plugins.tree_tron.TreeTron._solve", broken)
    command = ["train", recipe, "--output", "out", "--quiet", "--register", "digits"]
    assert cli.main(command) == 1
    assert "tree-tron: too many rows" in capsys.readouterr().out
    assert not Path("out/model").exists()


@pytest.mark.usefixtures("recipe")
def test_a_column_of_weights_of_rows_is_named(capsys):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=60), rng.random(60)
    rows = [f"{i // 6},{int(x[i] > 0)},{x[i]:.3f},{w[i]:.3f}" for i in range(60)]
    Path("rows.csv").write_text("\n".join(["qid,label,a,w", *rows]) + "\n")
    command = ["train", "rows.csv", "--document-weight", "w", "--output", "out", "--quiet"]
    assert cli.main(command) == 0, capsys.readouterr().err
    assert "document_weight: w" in Path("out/recipe.yaml").read_text()
    assert rankplug.mlflow.load_model("out/model").feature_names == ("a",)
