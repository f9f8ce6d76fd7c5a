import csv
import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from rankplug import __version__, cli
from rankplug.exceptions import DataError
from rankplug.report import REPORT_FILES
from rankplug.runner import Observer, experiment, turn
from rankplug.solver import SolverInfo
from rankplug_recipes import packaged_recipes, summary

RECIPE = """
name: small
data:
  dataset: wine
metrics: [kendall_tau, top1_error]
sanity: false
solvers:
  - solver: tree-tron
    params: {C: 0.1}
  - solver: tree-tron
    name: other
    params: {C: 1e-3}
"""


class Tracker(Observer):
    """Stands in for the MLflow observer."""

    is_complete = True

    def __init__(self, output, tracking_uri, *, spool=False):
        self.tracking_uri = tracking_uri


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """A small recipe in the working directory; nothing is tracked."""
    store, tracking = types.ModuleType("store"), types.ModuleType("tracking")
    store.resolve_tracking_uri = lambda folder, uri: uri or f"sqlite:///{folder}/mlflow.db"
    tracking.MlflowObserver = Tracker
    monkeypatch.setitem(sys.modules, "rankplug.mlflow", types.ModuleType("rankplug.mlflow"))
    monkeypatch.setitem(sys.modules, "rankplug.mlflow.store", store)
    monkeypatch.setitem(sys.modules, "rankplug.mlflow.tracking", tracking)
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.setattr(turn, "measure", lambda model, data: {})
    monkeypatch.setitem(REPORT_FILES, "report.html", lambda report: "<!DOCTYPE html>")  # slow
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(RECIPE)
    return "small.yaml"


def test_a_run_ends_with_the_table_and_where_to_look(recipe, capsys):
    assert cli.main(["run", recipe, "--output", "out dir"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["solver", "kendall_tau", "top1_error"]
    assert [line.split()[0] for line in lines[2:4]] == ["tree-tron", "other"]
    assert "*" in out
    assert f"report: {Path('out dir/report.html')}" in lines
    assert lines[-1] == "runs:   mlflow ui --backend-store-uri 'sqlite:///out dir/mlflow.db'"
    assert err == ""
    rows = csv.DictReader(Path("out dir/results.csv").read_text().splitlines())
    assert [row["name"] for row in rows] == ["tree-tron", "other"]


def test_runs_in_default_folders_share_a_store(recipe, capsys):
    assert cli.main(["run", recipe, "--quiet"]) == 0
    (folder,) = Path("rankplug-output").iterdir()
    assert folder.name.startswith("small-")
    out = capsys.readouterr().out
    assert str(folder / "report.html") in out
    assert out.endswith("--backend-store-uri sqlite:///rankplug-output/mlflow.db\n")


def test_values_and_the_tracking_store_can_be_set(recipe, capsys):
    arguments = ["run", recipe, "--set", "name=mine", "--set", "solvers.other.params.C=1e-2"]
    arguments += ["--output", "out", "--tracking-uri", "http://localhost:5000"]
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out.endswith("runs:   http://localhost:5000\n")
    resolved = Path("out/recipe.yaml").read_text()
    assert "name: mine" in resolved
    assert "C: 0.01" in resolved


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "smal.yaml"], "error: no file 'smal.yaml', and no recipe of that name"),
        (["run", "small.yaml", "--set", "seed"], "error: --set seed: write --set key=value"),
        (
            ["run", "small.yaml", "--set", "sed=1", "--set", "metrics=[mapp]"],
            "error: 2 problems in the recipe small.yaml:\n  --set sed: unknown key 'sed'; did you ",
        ),
        (["run", "small.yaml", "--output", "small.yaml"], "error: output: small.yaml is a file"),
        (["run", "small.yaml", "--set", "metrics=[ndcg@10]"], None),
    ],
)
def test_a_mistake_is_one_message_and_no_traceback(recipe, capsys, arguments, message):
    status = cli.main(arguments)
    out, err = capsys.readouterr()
    if message is None:
        assert status == 0
        return
    assert status == 2
    assert err.startswith(message)
    assert "Traceback" not in err
    assert out == ""


def test_debug_shows_the_traceback(recipe):
    with pytest.raises(ValueError, match="no file"):
        cli.main(["run", "gone.yaml", "--debug"])


def test_an_earlier_report_is_not_overwritten(recipe, capsys):
    assert cli.main(["run", recipe, "--output", "out"]) == 0
    assert cli.main(["run", recipe, "--output", "out"]) == 2
    assert "earlier run" in capsys.readouterr().err


def broken(error):
    def make_solver(name, **params):
        from rankplug.solver import make_solver

        solver = make_solver(name, **params)
        if params["C"] == 1e-3:
            solver.solve = lambda *args, **kwargs: raise_(error)
        return solver

    return make_solver


def raise_(error):
    raise error


def test_a_failed_solver_is_shown_and_makes_the_status_1(recipe, capsys, monkeypatch):
    monkeypatch.setattr(experiment, "make_solver", broken(DataError("too many rows")))
    assert cli.main(["run", recipe, "--output", "out"]) == 1
    out = capsys.readouterr().out
    assert "other: too many rows" in out.splitlines()
    assert "converged" in out


def test_an_interrupted_run_shows_what_was_finished(recipe, capsys, monkeypatch):
    monkeypatch.setattr(experiment, "make_solver", broken(KeyboardInterrupt()))
    assert cli.main(["run", recipe, "--output", "out"]) == 130
    out = capsys.readouterr().out
    assert "converged" in out
    assert "the run was interrupted" in out
    assert Path("out/report.html").exists()


def test_an_interruption_elsewhere_ends_quietly(recipe, capsys, monkeypatch):
    monkeypatch.setattr(experiment, "load_splits", lambda recipe: raise_(KeyboardInterrupt()))
    assert cli.main(["run", recipe, "--output", "out"]) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert not Path("out").exists()


def test_a_warning_is_one_line(recipe, capsys):
    arguments = ["run", recipe, "--output", "out", "--set", "solvers.other.params.max_iter=1"]
    arguments += ["--set", "solvers.other.params.tol=1e-12"]
    assert cli.main(arguments) == 0
    out, err = capsys.readouterr()
    assert "max_iter" in out
    assert err.startswith("warning: tree-tron stopped after ")
    assert err.count("\n") == 1


def test_solvers_are_listed(capsys):
    assert cli.main(["solvers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["solver", "tasks", "available", "problem"]
    listed = {line.split()[0]: line for line in lines[2:]}
    assert {"tree-tron", "xgboost-pairwise"} <= set(listed)
    assert "yes" in listed["tree-tron"]


def test_a_broken_plugin_is_listed_with_its_reason(capsys, monkeypatch, recwarn):
    info = SolverInfo("odd", ("label-ranking",), "a problem", "", False, "needs odd_module", "odd")

    def list_solvers():
        import warnings

        warnings.warn("odd cannot be imported", stacklevel=1)
        return [info]

    monkeypatch.setattr("rankplug.solver.list_solvers", list_solvers)
    assert cli.main(["solvers"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split(maxsplit=3) == [
        "odd",
        "label-ranking",
        "no",
        "needs odd_module",
    ]
    assert not recwarn


def test_solvers_are_listed_as_json(capsys):
    assert cli.main(["solvers", "--json"]) == 0
    solvers = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert solvers["tree-tron"]["available"] is True
    assert "query-document" in solvers["tree-tron"]["tasks"]


@pytest.mark.parametrize("arguments", [[], ["rum"], ["tune"], ["run", "a", "--outpt", "b"]])
def test_a_wrong_command_line_shows_the_usage(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert "usage: rankplug" in capsys.readouterr().err


def test_help_names_the_packaged_recipes_and_the_schema(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["run", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for name, file in packaged_recipes().items():
        assert any(line.split() == [name, *summary(file).split()] for line in text.splitlines())
    assert "pydoc rankplug.recipe" in text


def test_without_a_recipe_those_that_come_along_are_listed(capsys):
    assert cli.main(["run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = {line.split()[0]: line for line in lines[1:-2]}
    assert set(listed) == set(packaged_recipes())
    assert "handwritten digit" in listed["quickstart"]
    assert all(len(line) <= 100 for line in lines)


def test_the_command_line_loads_nothing_slow():
    slow = {"sklearn", "scipy", "numpy", "mlflow", "xgboost", "matplotlib", "pandas", "yaml"}
    code = "import sys, rankplug.cli; rankplug.cli._parser(); print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not slow & set(result.stdout.split())


def test_the_module_runs_as_a_program():
    result = subprocess.run(
        [sys.executable, "-m", "rankplug", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout == f"rankplug {__version__}\n"


def test_a_reader_that_leaves_early_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [sys.executable, "-m", "rankplug", "solvers"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")
def test_a_real_run_is_tracked_in_the_output_folder(tmp_path, empty_store):
    """The whole way, as a user goes it: a program, an SQLite store, runs in it."""
    (tmp_path / "small.yaml").write_text(RECIPE)
    (tmp_path / "out").mkdir()
    shutil.copy(empty_store, tmp_path / "out" / "mlflow.db")
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID"):
        environment.pop(name, None)
    result = subprocess.run(
        [sys.executable, "-m", "rankplug", "run", "small.yaml", "--output", "out"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    uri = f"sqlite:///{tmp_path / 'out' / 'mlflow.db'}"
    assert f"mlflow ui --backend-store-uri {uri}" in result.stdout

    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiments = [one.experiment_id for one in client.search_experiments()]
    names = {run.info.run_name for run in client.search_runs(experiments)}
    assert names == {"small", "tree-tron", "other"}
    assert {file.name for file in tmp_path.iterdir()} == {"small.yaml", "out"}
