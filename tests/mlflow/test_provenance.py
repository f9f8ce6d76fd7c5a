"""What a run depends on, and the repetition of a run from its own artifacts."""

import shutil
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path

import mlflow
import pytest

from rankplug import cli
from rankplug.exceptions import RecipeError
from rankplug.mlflow.provenance import Repetition, provenance_tags
from rankplug.recipe.loader import load_recipe
from rankplug.runner.splits import load_splits

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")

RECIPE = """\
name: small
data: {train: train.csv, test: train.csv}
metrics: [ndcg@10]
sanity: false
seed: 5
solvers:
  - solver: tree-tron
    params: {C: 0.1}
"""
ROWS = "label,qid,a,b\n" + "".join(f"{i % 3},{i // 6},{i % 5},{(i * i) % 7}\n" for i in range(36))


@pytest.fixture(scope="module")
def first(empty_store, tmp_path_factory):
    """A finished run: (folder, tracking URI, parent run, child run)."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "small.yaml").write_text(RECIPE)
    (folder / "train.csv").write_text(ROWS)
    (folder / "out").mkdir()
    shutil.copy(empty_store, folder / "out" / "mlflow.db")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "small.yaml"], ["commit", "-qm", "recipe"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID"):
            patch.delenv(name, raising=False)
        patch.chdir(folder)
        assert cli.main(["run", "small.yaml", "--output", "out", "--quiet"]) == 0
    uri = f"sqlite:///{folder}/out/mlflow.db"
    return folder, uri, *_runs(uri)


def _runs(uri):
    """The latest run and its solver's."""
    client = mlflow.MlflowClient(uri)
    experiments = [one.experiment_id for one in client.search_experiments()]
    found = client.search_runs(experiments, order_by=["start_time DESC"])
    child = next(run for run in found if run.info.run_name == "tree-tron")
    return client.get_run(child.data.tags["mlflow.parentRunId"]), child


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def test_runs_say_what_they_depend_on(first):
    folder, _, *runs = first
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()
    for run in runs:
        tags = run.data.tags
        assert tags["rankplug.seed"] == "5"
        assert tags["rankplug.git_commit"] == commit
        assert len(tags["rankplug.digest.train"]) == 32
        assert tags["rankplug.digest.train"] == tags["rankplug.digest.test"]
        for name in ("python", "numpy", "xgboost", "cpu", "cpus_usable", "blas_threads"):
            assert tags[f"env.{name}"], name


def test_changes_since_the_commit_show(first, monkeypatch):
    folder, *_ = first
    monkeypatch.chdir(folder)
    recipe = load_recipe("small.yaml")
    text = Path("small.yaml").read_text()
    Path("small.yaml").write_text(text + "# more\n")
    try:
        assert provenance_tags(recipe, {})["rankplug.git_commit"].endswith("-dirty")
    finally:
        Path("small.yaml").write_text(text)


def test_without_a_repository_there_is_no_commit(first, tmp_path, monkeypatch):
    folder, *_ = first
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    recipe = load_recipe(folder / "small.yaml")
    assert provenance_tags(recipe, {}) == {"rankplug.seed": "5"}


def test_a_run_is_repeated_from_its_own_artifacts(first, capsys):
    _, uri, parent, child = first
    run_id = child.info.run_id  # which stands for its parent
    command = ["run", f"runs:/{run_id}", "--tracking-uri", uri, "--output", "again", "--quiet"]
    assert cli.main(command) == 0
    assert "warning: not as in run" not in capsys.readouterr().err
    again, its_child = _runs(uri)
    assert again.info.run_id != parent.info.run_id
    assert again.data.tags["rankplug.repeats"] == parent.info.run_id
    assert again.data.params == parent.data.params
    for name in ("ndcg_at_10", "objective"):
        assert its_child.data.metrics[name] == child.data.metrics[name]


def test_other_data_are_told(first):
    folder, uri, parent, _ = first
    known = Repetition.of(f"runs:/{parent.info.run_id}", uri)
    recipe = known.recipe(["seed=6"])
    assert (recipe.seed, recipe.data.train) == (6, folder / "train.csv")
    splits = load_splits(recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known.run_started(recipe, splits)
    splits["test"] = splits["test"].take_queries([0, 1])
    then = parent.data.tags["rankplug.digest.test"]
    with pytest.warns(RuntimeWarning, match=rf"test data \(.* now, {then} then\)") as caught:
        known.run_started(recipe, splits)
    assert len(caught) == 1


def test_another_environment_is_told(first):
    _, uri, parent, _ = first
    known = Repetition.of(f"runs:/{parent.info.run_id}", uri)
    older = replace(known, tags={**known.tags, "env.numpy": "1.0"})
    with pytest.warns(RuntimeWarning, match=r"numpy \(.* now, 1.0 then\)"):
        older.run_started(known.recipe(), {})


def test_a_run_without_a_recipe_is_an_error(first):
    _, uri, *_ = first
    with pytest.raises(RecipeError, match=r"runs:/nothing: no run of a recipe .*--tracking-uri"):
        Repetition.of("runs:/nothing", uri)
    client = mlflow.MlflowClient(uri)
    run = client.create_run("0")
    with pytest.raises(RecipeError, match="no run of a recipe"):
        Repetition.of(f"runs:/{run.info.run_id}", uri)
