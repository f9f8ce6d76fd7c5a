"""Trials on the workers of a cluster: the same studies as in one process, whoever dies."""

import os
import signal
import threading
import time

import numpy as np
import optuna
import pandas as pd
import pytest

import rankplug
from rankplug.exceptions import ClusterError, DataError, ParameterError, TuningError
from rankplug.models import LinearModel
from rankplug.solver import SolverResult
from rankplug.tuning import TuneObserver

distributed = pytest.importorskip("distributed")

import dask.dataframe as dd  # noqa: E402

import rankplug.dask  # noqa: E402


def ranking_data(n_queries=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6 * n_queries, 4))
    y = np.digitize(X @ rng.normal(size=4) + rng.normal(size=len(X)), [-1, 1])
    return rankplug.RankingData.from_arrays(X, y, np.repeat(np.arange(n_queries), 6))


DATA = ranking_data()
QUICK = {"n_trials": 4, "folds": 2, "progress": False}


def on_cluster(client, solver="tree-tron", data=DATA, **options):
    return rankplug.dask.tune(solver, data, client=client, **{**QUICK, **options})


def here(solver="tree-tron", data=DATA, **options):
    return rankplug.tune(solver, data, **{**QUICK, **options})


def trials(result):
    """All that does not depend on time."""
    kept = ("number", "state", "params", "values", "fold_values", "n_passes", "error")
    return [[getattr(trial, name) for name in kept] for trial in result.trials]


def processes(client):
    return set(client.run(os.getpid).values())


class Direction(rankplug.Solver):
    """Scores by a given direction, and does something strange meanwhile."""

    name = "direction"
    tags = rankplug.SolverTags(tasks=("query-document",), problem="", reference="")

    def __init__(self, angle=0.0, act=None, n_threads=None):
        self.angle = angle
        self.act = act
        self.n_threads = n_threads

    def _solve(self, data, init, monitor, rng):
        if self.act is not None:
            self.act(self, monitor)
        coef = [np.cos(self.angle), np.sin(self.angle), 0.0, 0.0]
        return SolverResult(LinearModel(coef), "converged", None, None, 1, 1.0)


ANGLES = {"angle": {"low": 0.0, "high": 3.0}}


@pytest.mark.parametrize(
    "options",
    [
        {"n_jobs": 1, "n_trials": 6, "folds": 3, "pruner": "median"},
        {"sampler": "random", "pruner": None, "n_trials": 6},
        {"n_jobs": 1, "path": 4, "space": {"reduction": ["sum", "mean"]}},
        {"n_jobs": 1, "valid": ranking_data(seed=1), "scale": "standard", "refit": True},
    ],
    ids=["one job", "two jobs", "path", "valid"],
)
def test_trials_are_those_of_one_process(client, options):
    result = on_cluster(client, **options)
    alone = here(**{**options, "n_jobs": 1})
    assert trials(result) == trials(alone)
    assert result.best_params == alone.best_params
    assert result.best_solver.n_threads is None
    if "refit" in options:
        assert np.allclose(
            result.best_result.model.predict(DATA.X), alone.best_result.model.predict(DATA.X)
        )


def test_label_ranking_too(client):
    rng = np.random.default_rng(0)
    data = rankplug.LabelRankingData.from_arrays(rng.normal(size=(30, 3)), rng.random((30, 4)))
    options = {"metric": "kendall_tau", "n_trials": 2, "n_jobs": 1}
    assert trials(on_cluster(client, "sopopo", data, **options)) == trials(
        here("sopopo", data, **options)
    )


def collections(data, n=3):
    """A Dask DataFrame with names, and the same rows in this process."""
    table = pd.DataFrame(data.X, columns=list("abcd")).assign(y=data.relevance, qid=data.qid)
    return table, dd.from_pandas(table, npartitions=n)


def test_data_may_be_collections_or_on_the_cluster(near_client, tmp_path):
    local, table = collections(DATA)
    held_out, valid = collections(ranking_data(seed=1))
    X, y, qid = table[list("abcd")], table["y"], table["qid"]
    options = {"n_jobs": 1, "n_trials": 2}
    expected = trials(here(**options))
    assert trials(on_cluster(near_client, data=X, y=y, qid=qid, **options)) == expected
    assert trials(on_cluster(near_client, data=table[[*"abcd", "qid"]], y=y, **options)) == expected
    frame = local[list("abcd")]
    assert (
        trials(on_cluster(near_client, data=frame, y=local.y, qid=local.qid, **options)) == expected
    )
    rankplug.write_data(DATA, tmp_path / "rows.txt")
    folder = rankplug.prepare(tmp_path / "rows.txt", tmp_path / "folder")
    assert trials(on_cluster(near_client, data=tmp_path / "folder", **options)) == expected
    with rankplug.dask.ClusterData.from_prepared(folder, client=near_client) as data:
        assert trials(on_cluster(near_client, data=data, **options)) == expected
    expected = trials(here(valid=ranking_data(seed=1), **options))
    for other in (
        (valid[list("abcd")], valid["y"], valid["qid"]),
        (held_out[[*"abcd", "qid"]], held_out.y),
    ):
        assert trials(on_cluster(near_client, valid=other, **options)) == expected


def test_data_that_are_something_else_are_refused(near_client):
    _, table = collections(DATA)
    with pytest.raises(ParameterError, match=r"valid must be \(X, y, qid\) or"):
        on_cluster(near_client, valid=table)
    with pytest.raises(ParameterError, match="come with such data"):
        on_cluster(near_client, y=table["y"])
    with pytest.raises(DataError, match="y is missing"):
        on_cluster(near_client, data=table)


def test_workers_train_and_this_process_does_not(client, tmp_path):
    def tell(solver, monitor):
        (tmp_path / str(os.getpid())).write_text(str(solver.n_threads))

    on_cluster(client, Direction(act=tell), space=ANGLES, n_trials=8)
    files = list(tmp_path.iterdir())
    assert {int(file.name) for file in files} <= processes(client)
    assert {file.read_text() for file in files} == {"1"}, "a task works on one thread"


@pytest.mark.parametrize("kind", ["folder", "object"])
def test_a_study_goes_on_wherever_it_is_kept(client, tmp_path, kind):
    storage = {"folder": tmp_path / "study", "object": optuna.storages.InMemoryStorage()}[kind]
    options = {"storage": storage, "n_jobs": 1}
    first = on_cluster(client, n_trials=2, **options)
    with pytest.raises(ParameterError, match="resume=True"):
        on_cluster(client, **options)
    both = here(resume=True, n_trials=3, storage=storage)
    more = on_cluster(client, resume=True, n_trials=5, **options)
    assert more.trials[:3] == both.trials
    assert both.trials[:2] == first.trials
    assert trials(more) == trials(here(n_trials=5))


def test_errors_of_trials_are_those_of_tune(client):
    def fail(solver, monitor):
        raise ValueError("as told") if solver.angle > 1 else DataError("no such data")

    options = {"space": {"angle": [0.0, 2.0]}, "sampler": "grid", "n_trials": None}
    with pytest.raises(TuningError, match=r"2 failed.*(ValueError: as told|no such data)"):
        on_cluster(client, Direction(act=fail), **options)

    def fail_sometimes(solver, monitor):
        if solver.angle > 1:
            fail(solver, monitor)

    result = on_cluster(client, Direction(act=fail_sometimes), **options)
    assert result.counts == {"complete": 1, "failed": 1}
    assert {trial.error for trial in result.trials} == {None, "ValueError: as told"}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interruption_stops_the_workers_and_the_study_goes_on(client, tmp_path, n_jobs):
    began, stopped, go = (tmp_path / name for name in ("began", "stopped", "go"))
    began.mkdir(), stopped.mkdir()

    def last_until_stopped(solver, monitor):
        if go.exists():
            return
        (began / str(solver.angle)).touch()
        while monitor.report(1):
            time.sleep(0.05)
        (stopped / str(solver.angle)).touch()

    def interrupt():
        try:
            wait_for(lambda: len(list(began.iterdir())) == n_jobs)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    options = {
        "space": {"angle": [0.0, 1.0]},
        "sampler": "grid",
        "n_trials": None,
        "storage": tmp_path / "study",
    }
    solver = Direction(act=last_until_stopped)
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        on_cluster(client, solver, n_jobs=n_jobs, **options)
    wait_for(lambda: len(list(stopped.iterdir())) == n_jobs)
    go.touch()
    result = on_cluster(client, solver, resume=True, **options)
    assert result.counts == {"complete": 2, "killed": n_jobs}


def wait_for(condition):
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_a_killed_worker_loses_no_trial_and_repeats_none(client, tmp_path):
    killed = tmp_path / "killed"

    def die_once(solver, monitor):
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    before = processes(client)
    options = {"space": ANGLES, "sampler": "random", "pruner": None, "n_trials": 6}
    result = on_cluster(client, Direction(act=die_once), storage=tmp_path, **options)
    assert killed.exists()
    assert trials(result) == trials(here(Direction(), **options))
    assert result.counts == {"complete": 6}
    client.wait_for_workers(2)
    assert processes(client) != before


def test_data_lost_with_all_workers_are_sent_again(client):
    class Restart(TuneObserver):
        def trial_started(self, number, params):
            if number == 2:
                client.restart(wait_for_workers=False)  # the study itself waits for them

    options = {"space": ANGLES, "sampler": "random", "pruner": None}
    result = on_cluster(client, Direction(), observer=Restart(), n_jobs=1, **options)
    assert trials(result) == trials(here(Direction(), **options))


def test_a_trial_that_kills_workers_has_failed(client):
    def die(solver, monitor):
        if solver.angle == 1.0:
            os.kill(os.getpid(), signal.SIGKILL)

    options = {"space": {"angle": [0.0, 1.0]}, "sampler": "grid", "n_trials": None}
    scheduler = client.cluster.scheduler
    allowed, scheduler.allowed_failures = scheduler.allowed_failures, 0
    try:
        result = on_cluster(client, Direction(act=die), n_jobs=1, **options)
    finally:
        scheduler.allowed_failures = allowed
    assert result.counts == {"complete": 1, "failed": 1}
    (error,) = filter(None, (trial.error for trial in result.trials))
    assert "1 workers died" in error


def test_a_lost_cluster_ends_the_study_and_counts_no_trial(tmp_path):
    options = {"space": ANGLES, "storage": tmp_path, "n_jobs": 1, "pruner": None}
    with (
        distributed.LocalCluster(
            n_workers=1,
            processes=False,
            protocol="tcp",
            host="127.0.0.1",
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        ) as small,
        distributed.Client(small) as client,
    ):

        class Unlucky(TuneObserver):
            def trial_started(self, number, params):
                if number == 1:
                    small.scale(0)
                    wait_for(lambda: not client.nthreads())

        with pytest.raises(ClusterError, match=r"no worker for 0\.2 seconds.*resume"):
            on_cluster(client, Direction(), observer=Unlucky(), cluster_timeout=0.2, **options)
    result = here(Direction(), resume=True, **{**options, "n_trials": 3})
    assert result.counts == {"complete": 3, "killed": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"trainer": print}, "leave it out"),
        ({"cluster_timeout": -1}, "timeout=-1"),
        ({"client": "tcp://here"}, "must be a distributed.Client"),
        ({"n_trials": None}, "give n_trials"),
    ],
)
def test_wrong_arguments(client, options, message):
    with pytest.raises(ParameterError, match=message):
        on_cluster(**{"client": client, **options})


def test_the_cluster_of_an_address_as_on_the_command_line(client):
    from rankplug.cli import recipes

    with recipes.tune_on(client.scheduler.address) as search:
        result = search("tree-tron", DATA, n_jobs=1, **QUICK)
    assert trials(result) == trials(here())
    with recipes.tune_on(None) as search:
        assert search is None


def test_no_scheduler_at_an_address(monkeypatch):
    from rankplug.cli import recipes

    monkeypatch.setattr(recipes, "_PATIENCE", 0.2)
    message = "no Dask scheduler answers there"
    with pytest.raises(ClusterError, match=message), recipes.tune_on("tcp://127.0.0.1:1"):
        pass
