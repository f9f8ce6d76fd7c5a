"""``mlflow run .``: the project file at the root of the repository, in a real process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
import yaml

import rankplug.mlflow
from rankplug import read_data

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")

ROOT = Path(__file__).parents[1]
RECIPE = """\
name: tiny
data: {train: "train set.txt", test: "train set.txt"}
metrics: [ndcg@10]
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


def test_a_project_run_is_the_parent_of_the_solvers_runs(project, monkeypatch):
    scripts = str(Path(sys.executable).parent)
    uri = f"sqlite:///{project}/store.db"
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")},
        "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
        "MLFLOW_TRACKING_URI": uri,
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    command = [sys.executable, "-m", "mlflow", "run", ".", "--env-manager", "local"]
    done = subprocess.run(
        [*command, "-P", "recipe=it's tiny.yaml", "-P", "output=my report"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "my report" / "results.csv").is_file()

    client = mlflow.MlflowClient(tracking_uri=uri)
    runs = {"parent": None, "child": None}
    for run in client.search_runs(["0"]):
        runs["child" if "mlflow.parentRunId" in run.data.tags else "parent"] = run
    parent, child = runs["parent"], runs["child"]
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert parent.data.tags["mlflow.source.type"] == "PROJECT"
    assert parent.info.status == child.info.status == "FINISHED"
    assert parent.data.params["rp.name"] == "tiny"
    assert child.data.metrics["ndcg_at_10"] > 0.9
    for entry in child.inputs.dataset_inputs:
        assert entry.dataset.name == f"{project.name}/train set.txt"

    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    (output,) = client.get_run(child.info.run_id).outputs.model_outputs
    model_uri = f"models:/{output.model_id}"
    X = read_data(project / "train set.txt").X
    X = X if isinstance(X, np.ndarray) else X.toarray()
    scores = mlflow.pyfunc.load_model(model_uri).predict(pd.DataFrame(X, columns=["f0", "f1"]))
    np.testing.assert_array_equal(scores, rankplug.mlflow.load_model(model_uri).predict(X))


def test_the_project_file_names_what_exists():
    project = yaml.safe_load((ROOT / "mlproject").read_text())
    assert project["name"] == "rankplug"
    parameters = project["entry_points"]["main"]["parameters"]
    assert (ROOT / parameters["recipe"]["default"]).is_file()
    environment = yaml.safe_load((ROOT / project["python_env"]).read_text())
    assert any(requirement.startswith("mlflow") for requirement in environment["dependencies"])
