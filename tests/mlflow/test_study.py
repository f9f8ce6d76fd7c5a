"""Studies in MLflow."""

import signal
import warnings

import numpy as np
import pytest
from mlflow import MlflowClient
from sqlalchemy.engine import CursorResult

import rankplug
from rankplug.mlflow import load_model
from rankplug.mlflow.run import TrackedRun
from rankplug.mlflow.store import Store, TrackingError, connect
from rankplug.mlflow.study import MlflowTuneObserver
from rankplug.tuning import TuneObserver, tune

rng = np.random.default_rng(0)
DATA = rankplug.RankingData.from_arrays(
    rng.normal(size=(90, 2)), rng.integers(0, 3, 90), np.repeat(np.arange(30), 3)
)


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.fixture(autouse=True)
def own_experiment(monkeypatch, request):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", request.node.name)
    for name in ("MLFLOW_RUN_ID", "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(name, raising=False)


def study(uri, tmp_path, *others, solver="tree-tron", register_as=None, parent=None, **options):
    observer = MlflowTuneObserver(tmp_path, uri, register_as=register_as, parent=parent)
    defaults = {"n_trials": 3, "folds": 2, "metric": "map", "pruner": None, "progress": False}
    options = {**defaults, **options, "observer": [observer, *others]}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return tune(solver, DATA, **options), observer


def runs(uri, observer):
    """The study's run and those of its trials, by number."""
    client = MlflowClient(uri)
    own = client.get_run(observer.run_id)
    below = f"tags.`mlflow.parentRunId` = '{observer.run_id}'"
    found = client.search_runs([own.info.experiment_id], below)
    by_number = {int(run.data.tags["rankplug.trial"]): run for run in found}
    assert len(by_number) == len(found), "a trial is logged twice"
    return own, by_number


def history(uri, run, metric):
    return [one.value for one in MlflowClient(uri).get_metric_history(run.info.run_id, metric)]


def test_every_trial_is_a_run(uri, tmp_path):
    result, observer = study(uri, tmp_path)
    own, trials = runs(uri, observer)
    assert own.info.status == "FINISHED"
    assert own.data.params["metric"] == "map"
    assert own.data.metrics["map"] == result.best_value
    assert own.data.tags["rankplug.best.C"] == str(result.best_params["C"])
    for trial in result.trials:
        run = trials[trial.number]
        assert run.data.params == {"solver": "tree-tron", "C": str(trial.params["C"])}
        assert run.data.metrics["map"] == trial.value
        assert history(uri, run, "fold_map") == list(trial.fold_values)
        assert run.data.tags["rankplug.state"] == "complete"
        assert ("rankplug.best" in run.data.tags) == (trial.number == result.best.number)
        assert run.info.status == "FINISHED"
    files = {file.path for file in MlflowClient(uri).list_artifacts(own.info.run_id)}
    assert {"history.png", "importance.png", "slice.png"} <= files


@pytest.mark.parametrize("place", [1, 12])
def test_a_signal_within_the_database_leaves_it_unlocked(uri, tmp_path, monkeypatch, place):
    """A result that is half made keeps it locked: each write waited for twenty seconds, in vain."""
    make, made = CursorResult.__init__, []

    def interrupt(self, *arguments):
        make(self, *arguments)
        made.append(self)
        if len(made) == place:
            signal.raise_signal(signal.SIGINT)

    class Begin(TuneObserver):
        """Counts results from the first trial on."""

        def trial_started(self, number, params):
            if number == 0:
                monkeypatch.setattr(CursorResult, "__init__", interrupt)

    observer = MlflowTuneObserver(tmp_path, uri)
    options = {"n_trials": 9, "folds": 2, "progress": False, "observer": [Begin(), observer]}
    with pytest.raises(KeyboardInterrupt):
        tune("tree-tron", DATA, **options)
    assert not observer.lost
    own, _ = runs(uri, observer)
    assert own.info.status == "KILLED"


def test_a_resumed_study_logs_nothing_twice(uri, tmp_path):
    class Killed(TuneObserver):
        """Ends the process, as it were, between the end of a trial and its log."""

        def trial_finished(self, trial):
            if trial.number == 1:
                raise KeyboardInterrupt

    options = {"storage": tmp_path, "refit": True, "register_as": "resumed"}
    observer = MlflowTuneObserver(tmp_path, uri)
    with pytest.raises(KeyboardInterrupt):
        tune(
            "tree-tron",
            DATA,
            metric="map",
            n_trials=3,
            folds=2,
            pruner=None,
            storage=tmp_path,
            progress=False,
            observer=[Killed(), observer],
        )
    own, trials = runs(uri, observer)
    assert own.info.status == "KILLED"
    assert set(trials) == {0}
    # Half of the log of trial 1.
    store = Store(MlflowClient(uri), uri, own.info.experiment_id)
    tags = {"rankplug.study_id": own.data.tags["rankplug.study_id"], "rankplug.trial": "1"}
    TrackedRun(store, own.info.run_id).start_child("trial 1", tags)
    result, again = study(uri, tmp_path, resume=True, **options)
    assert again.run_id == observer.run_id
    finished, trials = runs(uri, again)
    assert finished.info.status == "FINISHED"
    assert set(trials) == {0, 1, 2}
    assert trials[1].data.metrics["map"] == result.trials[1].value
    result, again = study(uri, tmp_path, resume=True, **options)
    own, same = runs(uri, again)
    assert {n: run.info.run_id for n, run in same.items()} == {
        n: run.info.run_id for n, run in trials.items()
    }
    assert len(history(uri, own, "map")) == 1
    assert len(MlflowClient(uri).search_model_versions("name = 'resumed'")) == 1
    result, again = study(uri, tmp_path, resume=True, **options | {"n_trials": 4})
    own, trials = runs(uri, again)
    assert set(trials) == {0, 1, 2, 3}
    assert len(history(uri, own, "map")) == 2
    best = [number for number, run in trials.items() if "rankplug.best" in run.data.tags]
    assert best == [result.best.number]


def test_the_best_model_is_the_champion(uri, tmp_path):
    result, observer = study(uri, tmp_path, refit=True, register_as="ranker", scale="standard")
    client = MlflowClient(uri)
    version = client.get_model_version_by_alias("ranker", "champion")
    assert version.run_id == observer.run_id
    (output,) = client.get_run(observer.run_id).outputs.model_outputs
    assert client.get_logged_model(output.model_id).params["C"] == str(result.best_solver.C)
    loaded = load_model(version.source).predict(DATA.X)
    assert np.array_equal(loaded, result.best_result.model.predict(DATA.X))


def test_pruned_and_failed_trials(uri, tmp_path):
    class Sometimes(rankplug.Solver):
        name = "sometimes"
        tags = rankplug.SolverTags(tasks=("query-document",), problem="", reference="")

        def __init__(self, mood=0):
            self.mood = mood

        def _solve(self, data, init, monitor, rng):
            if self.mood == "bad":
                raise ValueError("not today")
            return rankplug.make_solver("tree-tron").solve(data)

    result, observer = study(
        uri, tmp_path, solver=Sometimes(), space={"mood": ["good", "bad"]}, sampler="grid"
    )
    _, trials = runs(uri, observer)
    for trial in result.trials:
        run = trials[trial.number]
        assert run.data.tags["rankplug.state"] == trial.state
        if trial.params["mood"] == "bad":
            assert run.info.status == "FAILED"
            assert run.data.tags["rankplug.error"] == "ValueError: not today"
            assert "map" not in run.data.metrics


def test_a_path_and_costs(uri, tmp_path):
    result, observer = study(uri, tmp_path, path=3, costs=["size"], n_trials=1)
    _, trials = runs(uri, observer)
    assert trials[0].data.metrics["size"] == result.best.values[1]
    assert history(uri, trials[0], "path_C") == [step.C for step in result.best.path]
    assert history(uri, trials[0], "path_map") == [step.value for step in result.best.path]


def test_several_jobs(uri, tmp_path):
    result, observer = study(uri, tmp_path, n_jobs=3, n_trials=6)
    _, trials = runs(uri, observer)
    assert {n: run.data.metrics["map"] for n, run in trials.items()} == {
        trial.number: trial.value for trial in result.trials
    }


def test_below_another_run(uri, tmp_path):
    store = connect(tmp_path, uri)
    parent = TrackedRun.start(store, "recipe")
    _, observer = study(uri, tmp_path, parent=parent, storage=tmp_path)
    own, _ = runs(uri, observer)
    assert own.data.tags["mlflow.parentRunId"] == parent.run_id
    other = TrackedRun.start(store, "recipe again")
    _, again = study(uri, tmp_path, parent=other, storage=tmp_path, resume=True)
    own, _ = runs(uri, again)
    assert again.run_id == observer.run_id
    assert own.data.tags["mlflow.parentRunId"] == other.run_id


def test_trouble_at_the_beginning_is_an_error_and_later_a_warning(uri, tmp_path, monkeypatch):
    with pytest.raises(TrackingError):
        study(f"sqlite:///{tmp_path}/no/../\0", tmp_path)

    def broken(*_, **__):
        raise OSError("no space left")

    observer = MlflowTuneObserver(tmp_path, uri)
    monkeypatch.setattr(TrackedRun, "start_child", broken)
    with pytest.warns(RuntimeWarning, match=r"incomplete: OSError: no space left"):
        result = tune("tree-tron", DATA, n_trials=1, folds=2, observer=observer, progress=False)
    assert result.best
