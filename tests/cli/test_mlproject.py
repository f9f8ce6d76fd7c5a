"""``mlflow run .``: the project file at the root of the repository, in a real process."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
import yaml
from mlflow.projects._project_spec import load_project

import rankplug.mlflow
from rankplug import cli, read_data

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")

ROOT = Path(__file__).parents[2]
RECIPE = """\
name: tiny
data: {train: "train set.txt", test: "train set.txt"}
metrics: [ndcg@10]
sanity: false
solvers:
  - solver: tree-tron
    params: {C: 0.1}
"""


@pytest.fixture
def project(tmp_path):
    """A copy of the project file with a small recipe: a run writes to its project's folder."""
    for name in ("mlproject", "python_env.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "it's tiny.yaml").write_text(RECIPE)
    rng = np.random.default_rng(0)
    rows = [
        f"{int(x[0] > 0)} qid:{i // 10} 1:{x[0]:.4f} 2:{x[1]:.4f}\n"
        for i, x in enumerate(rng.normal(size=(60, 2)))
    ]
    (tmp_path / "train set.txt").write_text("".join(rows))
    return tmp_path


def test_a_project_run_is_the_parent_of_the_solvers_runs(project, empty_store, monkeypatch):
    scripts = str(Path(sys.executable).parent)
    shutil.copy(empty_store, project / "store.db")
    uri = f"sqlite:///{project}/store.db"
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")},
        "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
        "MLFLOW_TRACKING_URI": uri,
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    command = [sys.executable, "-m", "mlflow", "run", ".", "-e", "train", "--env-manager", "local"]
    done = subprocess.run(
        [*command, "-P", "recipe=it's tiny.yaml", "-P", 'output=my "report"'],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / 'my "report"' / "results.csv").is_file()

    client = mlflow.MlflowClient(tracking_uri=uri)
    found = client.search_runs(["0"])
    (child,) = (run for run in found if run.info.run_name == "tree-tron")
    (parent,) = (run for run in found if "mlflow.parentRunId" not in run.data.tags)
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert parent.data.tags["mlflow.source.type"] == "PROJECT"
    assert parent.info.status == child.info.status == "FINISHED"
    assert parent.data.params["rp.name"] == "tiny"
    assert child.data.metrics["ndcg_at_10"] > 0.9
    assert not client.search_registered_models()
    for entry in child.inputs.dataset_inputs:
        assert entry.dataset.name == f"{project.name}/train set.txt"

    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    (output,) = client.get_run(child.info.run_id).outputs.model_outputs
    model_uri = f"models:/{output.model_id}"
    X = read_data(project / "train set.txt").X
    X = X if isinstance(X, np.ndarray) else X.toarray()
    scores = mlflow.pyfunc.load_model(model_uri).predict(pd.DataFrame(X, columns=["f0", "f1"]))
    np.testing.assert_array_equal(scores, rankplug.mlflow.load_model(model_uri).predict(X))

    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", environment["PATH"])
    run = mlflow.projects.run(
        ".",
        entry_point="evaluate",
        parameters={"model": 'my "report"/model', "data": "train set.txt", "metrics": "mrr, err"},
        env_manager="local",
    )
    assert run.get_status() == "FINISHED"
    evaluated = client.get_run(run.run_id)
    assert set(evaluated.data.metrics) == {"mrr", "err"}
    assert evaluated.data.params["data"] == "'train set.txt'"
    files = {file.path for file in client.list_artifacts(run.run_id)}
    assert files == {"per_query.json", "confidence_intervals.json", "ndcg_curve.png"}


NASTY = """it's "a" file & $HOME; #1.txt"""


@pytest.mark.parametrize("entry_point", ["main", "train", "tune", "compare", "evaluate", "predict"])
def test_values_come_through_the_shell_as_they_are(entry_point):
    """The command of every entry point is one that ``rankplug`` has, with all that it needs."""
    entry = load_project(str(ROOT)).get_entry_point(entry_point)
    for parameter in entry.parameters.values():
        assert parameter.type in ("string", "float", "path")
    numbers = {name: "7" for name, one in entry.parameters.items() if one.type == "float"}
    words = dict.fromkeys(entry.parameters.keys() - numbers.keys(), NASTY)
    if entry_point == "predict":
        words["output"] = "rank"
    command = entry.compute_command({**words, **numbers, "set": f"name={NASTY}"}, None)
    program, *arguments = shlex.split(command)
    assert program == "rankplug"
    if entry_point in ("evaluate", "predict"):
        del arguments[arguments.index("--set") :]
    args = vars(cli._parser().parse_args(arguments))
    if "set" in args:
        assert args["set"] == [f"name={NASTY}"]
    for name, value in words.items():
        wanted = [value] if name == "metrics" else value
        assert args[{"metrics": "metric"}.get(name, name)] == wanted
    for name in numbers:
        assert str(args[name]) == "7"


def test_the_model_can_be_registered(project, empty_store, monkeypatch):
    """By a listed parameter, as it is in the other test, whose default registers nothing."""
    for name in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.setenv(name, "")  # so that it is restored: MLflow sets it
        monkeypatch.delenv(name)
    shutil.copy(empty_store, project / "store.db")
    uri = f"sqlite:///{project}/store.db"
    monkeypatch.setattr("mlflow.tracking._tracking_service.utils._tracking_uri", None)
    monkeypatch.setattr("mlflow.tracking.fluent._active_experiment_id", None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.chdir(project)
    run = mlflow.projects.run(
        ".",
        entry_point="train",
        parameters={"recipe": "it's tiny.yaml", "output": "out", "register": "it's good"},
        env_manager="local",
    )
    assert run.get_status() == "FINISHED"
    client = mlflow.MlflowClient(tracking_uri=uri)
    (registered,) = client.search_registered_models()
    assert registered.name == "it's good"
    version = client.get_model_version_by_alias("it's good", "champion")
    assert client.get_run(version.run_id).data.tags["mlflow.parentRunId"] == run.run_id


@pytest.mark.parametrize("entry_point", ["main", "train", "tune", "compare"])
def test_defaults_are_a_recipe_and_no_folder(entry_point):
    entry = load_project(str(ROOT)).get_entry_point(entry_point)
    arguments = shlex.split(entry.compute_command({}, None))[1:]
    args = cli._parser().parse_args(arguments)
    assert (ROOT / args.recipe).is_file()
    assert not args.output
    assert not getattr(args, "storage", None)
    assert not getattr(args, "register", None)


def test_the_environment_lists_mlflow():
    """Without it a run in an environment of its own fails."""
    environment = yaml.safe_load((ROOT / load_project(str(ROOT)).env_config_path).read_text())
    assert any(requirement.startswith("mlflow") for requirement in environment["dependencies"])
