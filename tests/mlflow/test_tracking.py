"""Recipes in MLflow: what is logged, where, and what happens when something goes wrong."""

import os
import shutil
import time
import warnings
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from scipy import sparse
from sqlalchemy.exc import IntegrityError

import rankplug.mlflow
from rankplug import LabelRankingData, RankingData, make_solver, runner
from rankplug.cli.running import exit_status
from rankplug.exceptions import ParameterError
from rankplug.mlflow.run import dataset_inputs
from rankplug.mlflow.store import TrackingError
from rankplug.mlflow.tracking import MlflowObserver
from rankplug.models import LinearModel
from rankplug.recipe import Compare, Dataset, Entry, Files, Recipe, Tune
from rankplug.report import REPORT_FILES, Outcome
from rankplug.runner import Observer, data_digest, experiment, turn
from rankplug.solver import Progress, Solver, SolverResult, SolverTags

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")

NAMES = ["a", "b", "c"]
ENVIRONMENT = ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID")


def ranking_data(seed):
    X = np.random.default_rng(seed).normal(size=(40, 3))
    y = np.clip(np.round(X @ [1.0, -1.0, 0.5]), 0, 3)
    return RankingData.from_arrays(X, y, np.repeat(np.arange(4), 10), feature_names=NAMES)


SPLITS = {"train": ranking_data(0), "valid": ranking_data(1), "test": ranking_data(2)}
RECIPE = Recipe(
    "toy",
    Dataset("digits-retrieval", {"seed": 3}),
    ("ndcg@10", "pairwise_accuracy"),
    (
        Entry("tree-tron", "svm", {"C": 0.5}),
        Entry("xgboost-pairwise", "trees: 10 %", {"n_estimators": 4, "n_threads": 1}),
    ),
    seed=7,
    sanity=False,
)
SMALL = replace(RECIPE, solvers=RECIPE.solvers[:1])
BROKEN = replace(RECIPE, solvers=(Entry("tree-tron", "bad", {"C": -1.0}), *RECIPE.solvers[:1]))


class Interrupting(Solver):
    """Reports an iteration, then the user presses Ctrl-C."""

    name = "interrupting"
    tags = SolverTags(("query-document",), "none", "none")

    def _solve(self, data, init, monitor, rng):
        monitor.report(1, objective=3.0)
        raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def small_data(monkeypatch):
    for name in (*ENVIRONMENT, "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(experiment, "load_splits", lambda recipe: SPLITS)
    monkeypatch.setattr(turn, "measure", lambda model, data: {})
    monkeypatch.setitem(REPORT_FILES, "report.html", lambda report: "<!DOCTYPE html>")  # slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run in the default store, started from an empty folder: (observer, report, folder)."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        for name in (*ENVIRONMENT, "MLFLOW_EXPERIMENT_NAME"):
            patch.delenv(name, raising=False)
        patch.setattr(experiment, "load_splits", lambda recipe: SPLITS)
        patch.chdir(folder)
        before = mlflow.get_tracking_uri(), mlflow.active_run(), dict(os.environ)
        observer = MlflowObserver("out")
        report = runner.run(RECIPE, observer=observer, output="out", progress=False)
        assert (mlflow.get_tracking_uri(), mlflow.active_run(), dict(os.environ)) == before
    return observer, report, folder


@pytest.fixture
def store(finished):
    """The tracking URI of a database that exists already: making one takes seconds."""
    return finished[0].tracking_uri


def client_of(observer):
    return mlflow.MlflowClient(tracking_uri=observer.tracking_uri)


def parent_and_children(observer):
    client = client_of(observer)
    parent = client.get_run(observer.run_id)
    filter_ = f"tags.`mlflow.parentRunId` = '{observer.run_id}'"
    children = client.search_runs([parent.info.experiment_id], filter_)
    return parent, {child.info.run_name: child for child in children}


def run(recipe, output, store, expected=None):
    observer = MlflowObserver(output, store)
    if expected is None:
        return observer, runner.run(recipe, observer=observer, output=output, progress=False)
    with pytest.raises(expected):
        runner.run(recipe, observer=observer, output=output, progress=False)
    return observer, None


def test_everything_is_in_the_output_folder(finished):
    observer, _, folder = finished
    assert [path.name for path in folder.iterdir()] == ["out"]
    assert observer.tracking_uri == f"sqlite:///{folder}/out/mlflow.db"
    parent, children = parent_and_children(observer)
    for one in (parent, *children.values()):
        assert one.info.artifact_uri.startswith(f"file://{folder}/out/mlartifacts/")


def test_the_parent_run_tells_of_the_recipe(finished):
    observer = finished[0]
    parent, children = parent_and_children(observer)
    assert parent.info.run_name == "toy"
    assert parent.info.status == "FINISHED"
    assert sorted(children) == ["svm", "trees: 10 %"]
    assert parent.data.params == {
        "rp.name": "toy",
        "rp.data": "digits-retrieval",
        "rp.data.seed": "3",
        "rp.metrics": "ndcg@10, pairwise_accuracy",
        "rp.solvers": "svm, trees: 10 %",
        "rp.scale": "none",
        "rp.seed": "7",
    }
    assert parent.data.tags["rankplug.status"] == "finished"
    assert "| svm |" in parent.data.tags["mlflow.note.content"]


def test_the_files_of_the_report_are_artifacts(finished, tmp_path):
    observer, _, folder = finished
    client = client_of(observer)
    names = {artifact.path for artifact in client.list_artifacts(observer.run_id)}
    assert {"recipe.yaml", "report.md", "results.csv"} <= names
    for name in names:
        logged = Path(client.download_artifacts(observer.run_id, name, str(tmp_path)))
        assert logged.read_bytes() == (folder / "out" / name).read_bytes()
    assert (tmp_path / "recipe.yaml").read_text() == RECIPE.to_yaml()


def test_child_runs_have_their_pictures(finished, monkeypatch):
    """They stand alone, in the colours of the report, and name the solver."""
    observer = finished[0]
    children, client = parent_and_children(observer)[1], client_of(observer)
    convergence = {"convergence_1.svg", "convergence_2.svg"}
    wanted = {"svm": {"features.svg", *convergence}, "trees: 10 %": {"features.svg"}}
    monkeypatch.chdir(finished[2])
    for name, files in wanted.items():
        run_id = children[name].info.run_id
        found = {one.path for one in client.list_artifacts(run_id) if one.path.endswith(".svg")}
        assert found == files
        for file in files:
            path = mlflow.artifacts.download_artifacts(
                run_id=run_id, artifact_path=file, tracking_uri=observer.tracking_uri
            )
            picture = Path(path).read_text()
            assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
            assert name in picture
            assert "var(--" not in picture
            assert "currentColor" not in picture


def test_pictures_that_cannot_be_drawn_cost_nothing_else(store, tmp_path, monkeypatch):
    def fail(report):
        raise RuntimeError("no font")

    monkeypatch.setattr("rankplug.mlflow.tracking.draw_pictures", fail)
    with pytest.warns(RuntimeWarning, match="RuntimeError: no font"):
        observer = run(SMALL, tmp_path / "out", store)[0]
    parent, children = parent_and_children(observer)
    assert parent.info.status == children["svm"].info.status == "FINISHED"


def test_child_runs_have_parameters_and_status(finished):
    observer, report, _ = finished
    children = parent_and_children(observer)[1]
    for outcome in report.outcomes:
        child = children[outcome.name]
        expected = {key: str(value) for key, value in outcome.params.items()}
        assert child.data.params == {"solver": outcome.solver, **expected}
        assert child.info.status == "FINISHED"
        assert child.data.tags["rankplug.status"] == outcome.status
        assert child.info.start_time <= child.info.end_time


def test_the_environment_is_told(finished):
    parent, children = parent_and_children(finished[0])
    for one in (parent, *children.values()):
        assert one.data.tags["env.rankplug"] == rankplug.__version__
        assert one.data.tags["env.numpy"] == np.__version__
        assert int(one.data.tags["env.cpu_count"]) >= int(one.data.tags["env.cpus_usable"]) >= 1
        for key in ("python", "scipy", "xgboost", "mlflow", "platform"):
            assert one.data.tags[f"env.{key}"]


def test_metrics_are_those_of_the_report(finished):
    observer, report, _ = finished
    children = parent_and_children(observer)[1]
    for outcome in report.outcomes:
        logged = children[outcome.name].data.metrics
        assert logged["ndcg_at_10"] == outcome.metrics["test"]["ndcg@10"]
        assert logged["valid_ndcg_at_10"] == outcome.metrics["valid"]["ndcg@10"]
        assert logged["train_pairwise_accuracy"] == outcome.metrics["train"]["pairwise_accuracy"]
        assert logged["train_seconds"] == outcome.train_seconds
        assert logged["predict_seconds"] == outcome.predict_seconds
        assert logged["n_iter"] == outcome.result.n_iter
        assert logged["n_passes"] == outcome.result.n_passes
        for name in ("objective", "duality_gap"):
            if getattr(outcome.result, name) is not None:
                assert logged[name] == getattr(outcome.result, name)


def test_the_history_is_stepped(finished):
    observer, report, _ = finished
    children = parent_and_children(observer)[1]
    for outcome in report.outcomes:
        child = children[outcome.name]
        history = outcome.result.history
        assert len(history) > 1
        logged = client_of(observer).get_metric_history(child.info.run_id, "seconds")
        assert [(metric.step, metric.value) for metric in logged] == [
            (row["n_iter"], row["seconds"]) for row in history
        ]
        times = [metric.timestamp for metric in logged]
        assert times == sorted(times)
        assert child.info.start_time - 1000 <= times[0] <= times[-1] <= child.info.end_time + 1000


def test_data_sets_are_inputs(finished):
    parent, children = parent_and_children(finished[0])
    for one in (parent, *children.values()):
        inputs = {entry.dataset.name: entry for entry in one.inputs.dataset_inputs}
        assert sorted(inputs) == [
            "digits-retrieval/test",
            "digits-retrieval/train",
            "digits-retrieval/valid",
        ]
        train = inputs["digits-retrieval/train"]
        assert train.dataset.digest == data_digest(SPLITS["train"])
        assert [(tag.key, tag.value) for tag in train.tags] == [("mlflow.data.context", "training")]


def test_another_process_may_add_the_same_data_meanwhile(store, tmp_path, monkeypatch):
    add, asked = SqlAlchemyStore._log_inputs_impl, []

    def add_too_late(self, *arguments):
        asked.append(arguments)
        if len(asked) % 2:
            raise IntegrityError("INSERT INTO datasets (dataset_uuid)", {}, OSError("UNIQUE"))
        add(self, *arguments)

    monkeypatch.setattr(SqlAlchemyStore, "_log_inputs_impl", add_too_late)
    observer, _ = run(SMALL, tmp_path / "out", store)
    parent, children = parent_and_children(observer)
    tracked = (parent, *children.values())
    assert [len(one.inputs.dataset_inputs) for one in tracked] == [3, 3]
    assert len(asked) == 4


def test_metrics_are_tied_to_the_model_and_the_data(finished):
    observer = finished[0]
    client = client_of(observer)
    for child in parent_and_children(observer)[1].values():
        (output,) = client.get_run(child.info.run_id).outputs.model_outputs
        metrics = {
            metric.key: metric for metric in client.get_logged_model(output.model_id).metrics
        }
        assert metrics["ndcg_at_10"].value == child.data.metrics["ndcg_at_10"]
        assert metrics["ndcg_at_10"].dataset_name == "digits-retrieval/test"
        assert metrics["valid_ndcg_at_10"].dataset_digest == data_digest(SPLITS["valid"])


def test_models_score_as_in_the_run(finished, monkeypatch):
    observer, report, _ = finished
    monkeypatch.setenv("MLFLOW_TRACKING_URI", observer.tracking_uri)
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    client = client_of(observer)
    frame = pd.DataFrame(SPLITS["test"].X, columns=NAMES).assign(qid="q", note=1)
    frame = frame[["note", "c", "qid", "b", "a"]]
    names = {"svm": "svm", "trees: 10 %": "trees- 10 -"}
    for outcome in report.outcomes:
        run_id = parent_and_children(observer)[1][outcome.name].info.run_id
        (output,) = client.get_run(run_id).outputs.model_outputs
        expected = outcome.result.model.predict(SPLITS["test"].X)
        for uri in (f"models:/{output.model_id}", f"runs:/{run_id}/{names[outcome.name]}"):
            loaded = mlflow.pyfunc.load_model(uri)
            np.testing.assert_array_equal(loaded.predict(frame), expected)
            assert loaded.metadata.signature.inputs.required_input_names() == NAMES
        logged = client.get_logged_model(output.model_id)
        assert logged.status == "READY"
        assert logged.source_run_id == run_id


def test_a_failed_solver_fails_its_run_and_the_parent(store, tmp_path):
    observer, report = run(BROKEN, tmp_path, store)
    parent, children = parent_and_children(observer)
    assert {name: child.info.status for name, child in children.items()} == {
        "bad": "FAILED",
        "svm": "FINISHED",
    }
    assert parent.info.status == "FAILED"
    tags = children["bad"].data.tags
    assert tags["rankplug.status"] == "failed"
    assert tags["rankplug.error"] == report.outcomes[0].error
    text = client_of(observer).download_artifacts(
        children["bad"].info.run_id, "error.txt", str(tmp_path)
    )
    assert "C=-1.0" in Path(text).read_text()


def test_an_interrupted_solver_is_killed_and_keeps_its_history(store, tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "make_solver", lambda name, **params: Interrupting())
    observer, report = run(SMALL, tmp_path, store)
    assert report.interrupted
    parent, children = parent_and_children(observer)
    assert parent.info.status == "KILLED"
    assert {name: child.info.status for name, child in children.items()} == {"svm": "KILLED"}
    assert children["svm"].data.metrics["objective"] == 3.0
    assert parent.data.tags["rankplug.status"] == "interrupted"
    assert "results.csv" in {
        artifact.path for artifact in client_of(observer).list_artifacts(observer.run_id)
    }


@pytest.mark.parametrize(
    ("error", "status"), [(KeyboardInterrupt(), "KILLED"), (MemoryError("no room"), "FAILED")]
)
def test_when_the_run_breaks_off_no_run_stays_open(error, status, store, tmp_path):
    class Breaking(Observer):
        def solver_started(self, name, solver):
            raise error

    observer = MlflowObserver(tmp_path, store)
    with pytest.raises(type(error)):
        runner.run(SMALL, observer=[observer, Breaking()], output=tmp_path, progress=False)
    parent, children = parent_and_children(observer)
    assert parent.info.status == status
    assert {name: child.info.status for name, child in children.items()} == {"svm": status}
    assert type(error).__name__ in parent.data.tags["rankplug.error"]


def test_under_an_mlflow_project_its_run_is_the_parent(store, tmp_path, monkeypatch):
    client = mlflow.MlflowClient(tracking_uri=store)
    experiment = client.create_experiment("project", artifact_location=str(tmp_path / "elsewhere"))
    project = client.create_run(experiment).info.run_id
    client.log_param(project, "recipe", "'toy.yaml'")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_RUN_ID", project)
    observer, _ = run(SMALL, tmp_path / "out", None)
    assert observer.tracking_uri == store
    assert observer.run_id == project
    parent, children = parent_and_children(observer)
    assert sorted(children) == ["svm"]
    assert {child.info.experiment_id for child in children.values()} == {experiment}
    assert parent.data.params["recipe"] == "'toy.yaml'"
    assert parent.data.params["rp.seed"] == "7"
    assert not (tmp_path / "out" / "mlflow.db").exists()


def test_an_explicit_uri_wins_over_the_environment(store, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_RUN_ID", "not-in-this-store")
    observer, _ = run(SMALL, tmp_path, store)
    assert parent_and_children(observer)[0].info.status == "FINISHED"


def test_the_experiment_can_be_named(store, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "named")
    observer, _ = run(SMALL, tmp_path / "a", store)
    client = client_of(observer)
    experiment = client.get_experiment_by_name("named")
    assert client.get_run(observer.run_id).info.experiment_id == experiment.experiment_id
    client.delete_experiment(experiment.experiment_id)
    observer = MlflowObserver(tmp_path / "b", store)
    with pytest.raises(TrackingError, match="'named' was deleted: restore it"):
        runner.run(SMALL, observer=observer, output=tmp_path / "b", progress=False)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "1")
    observer, _ = run(SMALL, tmp_path / "c", store)
    assert client.get_run(observer.run_id).info.experiment_id == "1"


class Witness(Observer):
    trained = False

    def solver_started(self, name, solver):
        self.trained = True


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://127.0.0.1:1", "cannot track the run at http://127.0.0.1:1: .*--tracking-uri"),
        ("sqlite:////proc/mlflow.db", "unable to open database file"),
        ("sqlite:///{file}", "file is not a database"),
        ("file:///tmp/runs", "filesystem tracking backend"),
        ("nonsense://x", "cannot track the run at nonsense://x"),
    ],
)
def test_a_store_that_cannot_be_used_is_an_error_before_training(
    uri, message, tmp_path, monkeypatch
):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    (tmp_path / "text").write_text("no database " * 100)
    observer, witness = MlflowObserver(tmp_path, uri.format(file=tmp_path / "text")), Witness()
    with pytest.raises(TrackingError, match=message):
        runner.run(SMALL, observer=[observer, witness], output=tmp_path, progress=False)
    assert not witness.trained
    assert observer.run_id is None


class Losing(Observer):
    """The store is lost to some of its client's calls when a solver starts."""

    def __init__(self, patch, *calls):
        self.patch, self.calls = patch, calls

    def solver_started(self, name, solver):
        for call in self.calls:
            self.patch.setattr(mlflow.MlflowClient, call, self.lose)

    @staticmethod
    def lose(*_, **__):
        raise ConnectionError("server gone")


def test_a_store_that_is_lost_costs_no_results(store, tmp_path, monkeypatch):
    losing = Losing(monkeypatch, "log_batch", "log_artifact")
    observer = MlflowObserver(tmp_path, store)
    with pytest.warns(RuntimeWarning, match="incomplete: ConnectionError: server gone"):
        report = runner.run(SMALL, observer=[observer, losing], output=tmp_path, progress=False)
    assert not report.failed
    assert (tmp_path / "results.csv").is_file()


def test_a_model_that_cannot_be_saved_costs_only_the_model(store, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(LinearModel, "_write", fail)
    with pytest.warns(RuntimeWarning, match="disk full"):
        observer, report = run(SMALL, tmp_path, store)
    parent, children = parent_and_children(observer)
    assert parent.info.status == "FINISHED"
    outcome = report.outcomes[0]
    assert children["svm"].data.metrics["ndcg_at_10"] == outcome.metrics["test"]["ndcg@10"]
    assert children["svm"].info.status == "FINISHED"


def test_long_histories_fit_in_batches(store, tmp_path):
    history = tuple(
        {"n_iter": i, "seconds": i / 1e6, "objective": 1 / i, "valid ndcg@10": 0.5}
        for i in range(1, 1201)
    )
    result = SolverResult(LinearModel([1.0]), "max_iter", 0.0, None, 1200, 2400.0, history)
    solver = make_solver("tree-tron")
    observer = MlflowObserver(tmp_path, store)
    observer.run_started(RECIPE, SPLITS)
    observer.solver_started("long", solver)
    observer.progress("long", Progress(1, 0.001, {"objective": 1.0}))
    observer.solver_finished(Outcome("long", "tree-tron", {}, "max_iter", result=result))
    child = parent_and_children(observer)[1]["long"]
    logged = client_of(observer).get_metric_history(child.info.run_id, "objective")
    rows = [(row["n_iter"], row["objective"]) for row in history]
    assert sorted((metric.step, metric.value) for metric in logged) == sorted([*rows, (1200, 0.0)])
    assert child.data.metrics["objective"] == 0.0
    assert child.data.metrics["valid ndcg_at_10"] == 0.5


def test_waiting_for_a_lost_server_happens_once(store, tmp_path, monkeypatch):
    """After the first trouble MLflow is told to give up quickly; the setting does not stay."""
    seen = []

    def lose(*_, **__):
        seen.append(os.environ.get("MLFLOW_HTTP_REQUEST_MAX_RETRIES"))
        raise ConnectionError("server gone")

    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    observer = MlflowObserver(tmp_path, store)
    observer.run_started(RECIPE, SPLITS)
    monkeypatch.setattr(mlflow.MlflowClient, "create_run", lose)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        observer.solver_started("a", make_solver("tree-tron"))
        observer.solver_started("b", make_solver("tree-tron"))
    assert seen == [None, "2"]
    assert "MLFLOW_HTTP_REQUEST_MAX_RETRIES" not in os.environ


@pytest.mark.parametrize("name", ["a b#é&'", "100%20?"])
def test_awkward_folder_names(name, finished, tmp_path, monkeypatch):
    output = tmp_path / name
    output.mkdir()
    shutil.copy(finished[2] / "out" / "mlflow.db", output)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "another")
    observer, _ = run(SMALL, output, None)
    assert parent_and_children(observer)[0].info.status == "FINISHED"
    assert list((output / "mlartifacts").rglob("report.md"))
    assert not [
        path for path in tmp_path.rglob("*") if path.is_file() and output not in path.parents
    ]


def test_an_output_that_holds_a_report_is_not_written_to(store, tmp_path):
    run(SMALL, tmp_path, store)
    observer, _ = run(SMALL, tmp_path, store, expected=ParameterError)
    assert observer.run_id is None


def test_digests_tell_data_apart():
    data = SPLITS["train"]
    assert data_digest(data) == data_digest(ranking_data(0))
    others = [
        replace(data, X=data.X + 1e-12),
        replace(data, X=data.X.astype(np.float32)),
        replace(data, X=sparse.csr_array(data.X)),
        replace(data, relevance=data.relevance[::-1]),
        replace(data, query_ptr=np.array([0, 20, 40])),
        replace(data, query_weight=np.ones(4)),
        LabelRankingData.from_arrays(data.X, data.relevance),
    ]
    digests = {data_digest(other) for other in [data, *others]}
    assert len(digests) == 8
    assert all(len(digest) == 32 for digest in digests)


def test_files_are_named_as_sources(tmp_path):
    recipe = replace(RECIPE, data=Files(tmp_path / "Fold1/train.txt", tmp_path / "Fold1/test.txt"))
    inputs = dataset_inputs(recipe, {"train": SPLITS["train"], "test": SPLITS["test"]})
    dataset = inputs["train"].dataset
    assert dataset.name == "Fold1/train.txt"
    assert mlflow.data.get_source(dataset).uri == str(tmp_path / "Fold1/train.txt")
    labels = LabelRankingData.from_arrays(SPLITS["train"].X, np.repeat([0, 1], 20))
    assert '"num_labels": 2' in dataset_inputs(recipe, {"train": labels})["train"].dataset.profile


def test_the_progress_of_training_is_not_logged_while_it_lasts(store, tmp_path, monkeypatch):
    observer = MlflowObserver(tmp_path, store)
    observer.run_started(RECIPE, SPLITS)
    observer.solver_started("svm", make_solver("tree-tron"))
    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", lambda *_, **__: pytest.fail("logged"))
    for i in range(100):
        observer.progress("svm", Progress(i, time.perf_counter(), {"objective": 1.0}))


# Tuning and repetitions


def children_of(observer, run_id):
    client = client_of(observer)
    experiment = client.get_run(run_id).info.experiment_id
    runs = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{run_id}'")
    return {run.info.run_name: run for run in runs}


def test_trials_are_below_the_run_of_their_solver(store, tmp_path):
    tuned = replace(SMALL, tune=Tune(n_trials=3, sampler="random", seed=1))
    observer, report = run(tuned, tmp_path, store)
    parent, children = parent_and_children(observer)
    assert parent.data.params["rp.tune.n_trials"] == "3"
    assert "rp.tune.timeout" not in parent.data.params
    child, outcome = children["svm"], report.outcomes[0]
    C = outcome.tuning.best_params["C"]
    assert float(child.data.params["C"]) == C
    assert child.data.metrics["tuning_trials"] == 3
    assert child.data.metrics["tuning_seconds"] == outcome.tuning.seconds
    assert child.data.metrics["ndcg_at_10"] == outcome.score("ndcg@10")
    (study,) = children_of(observer, child.info.run_id).values()
    trials = children_of(observer, study.info.run_id)
    assert set(trials) == {"trial 0", "trial 1", "trial 2"}
    logged = {
        float(one.data.params["C"]): one.data.metrics["ndcg_at_10"] for one in trials.values()
    }
    assert logged[C] == max(logged.values()) == outcome.tuning.best_value
    assert {one.info.status for one in (study, *trials.values())} == {"FINISHED"}


def test_the_model_of_a_solver_can_be_registered(finished):
    observer, report, _ = finished
    client = client_of(observer)
    assert observer.register("svm", "toy-ranker") == 1
    assert observer.register("trees: 10 %", "toy-ranker") == 2
    champion = client.get_model_version_by_alias("toy-ranker", "champion")
    assert champion.version in (2, "2")
    child = parent_and_children(observer)[1]["trees: 10 %"]
    assert champion.run_id == child.info.run_id
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", observer.tracking_uri)
        patch.setenv("MLFLOW_REGISTRY_URI", observer.tracking_uri)
        scores = rankplug.mlflow.load_model("models:/toy-ranker@champion").predict(SPLITS["test"].X)
    np.testing.assert_array_equal(scores, report.outcomes[1].result.model.predict(SPLITS["test"].X))
    with pytest.raises(TrackingError, match="the model of nobody was not logged"):
        observer.register("nobody", "toy-ranker")
    with pytest.raises(TrackingError, match="svm cannot be registered as ''"):
        observer.register("svm", "")


def test_repetitions_are_steps_of_a_metric(store, tmp_path):
    observer, report = run(replace(SMALL, compare=Compare(folds=3)), tmp_path, store)
    child = parent_and_children(observer)[1]["svm"]
    history = client_of(observer).get_metric_history(child.info.run_id, "repeat_ndcg_at_10")
    logged = {metric.step: metric.value for metric in history}
    repeats = report.outcomes[0].repeats
    assert logged == {number: values["ndcg@10"] for number, values in enumerate(repeats)}
    assert child.data.metrics["ndcg_at_10"] == report.outcomes[0].score("ndcg@10")
    assert len(client_of(observer).get_run(child.info.run_id).outputs.model_outputs) == 1


@pytest.mark.parametrize("calls", [("log_batch", "search_runs"), ("search_runs",)])
def test_a_store_that_is_lost_before_tuning_costs_no_results(store, tmp_path, monkeypatch, calls):
    losing = Losing(monkeypatch, *calls)
    observer = MlflowObserver(tmp_path, store)
    tuned = replace(SMALL, tune=Tune(n_trials=2))
    with pytest.warns(RuntimeWarning, match="server gone"):
        report = runner.run(tuned, observer=[observer, losing], output=tmp_path, progress=False)
    assert not report.failed
    assert report.outcomes[0].tuning.n_trials == 2
    assert exit_status(report, observer) == 3
