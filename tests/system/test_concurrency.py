"""Fits in threads, in processes and across forks; pickles; limits of threads."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import rankplug
from rankplug.models import LinearModel, load_model
from rankplug.shards import local as shards
from rankplug.system import cores

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

HANG = 120

COMPILED = {
    "tree-tron": {},
    "tree-tron tron": {"method": "tron"},
    "cutting-plane": {},
    "cutting-plane smoothed": {"method": "smoothed-newton"},
    "sopopo": {},
    "larank": {},
    "larank rbf": {"kernel": "rbf"},
    "larank cyclic": {"schedule": "cyclic"},
    "toppush": {},
    "toppush apg": {"method": "apg"},
    "a2dm2": {},
    "single-feature": {},
    "xgboost-pairwise": {"n_estimators": 5},
    "xgboost-all-pairs": {"n_estimators": 5},
    "lightgbm-lambdarank": {"n_estimators": 5},
    "lightgbm-all-pairs": {"n_estimators": 5},
    "linear-then-boost": {"n_estimators": 5},
}


def arrays(seed=0, n_queries=40, d=6):
    rng = np.random.default_rng(seed)
    n = 10 * n_queries
    X = rng.normal(size=(n, d))
    y = np.clip(np.round(X[:, 0] + rng.normal(size=n)) + 2, 0, 4)
    return X, y, np.repeat(np.arange(n_queries), 10)


def make(name):
    return rankplug.make_solver(name.partition(" ")[0], **COMPILED[name])


def scores(name, seed=0):
    """What a model of these data predicts; to be called anywhere."""
    X, y, qid = arrays(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rankplug.Ranker(make(name), random_state=0).fit(X, y, qid=qid).predict(X)


@pytest.mark.parametrize("name", COMPILED)
def test_fits_at_once_give_what_they_give_one_by_one(name, monkeypatch):
    monkeypatch.setattr(shards, "_SHARD_ELEMENTS", 500)  # several shards, and threads, each
    one_by_one = [scores(name, seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(scores, [name] * 4, range(4)))
    np.testing.assert_array_equal(at_once, one_by_one)


def test_one_data_set_serves_several_fits_at_once():
    data = rankplug.RankingData.from_arrays(*arrays())
    names = list(COMPILED)

    def solve(name):
        with warnings.catch_warnings():
            return make(name).solve(data, random_state=0).model.predict(data.X)

    one_by_one = [solve(name) for name in names]
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(solve, names))
    for name, found, expected in zip(names, at_once, one_by_one, strict=True):
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_no_thread_is_left_behind(monkeypatch):
    monkeypatch.setattr(shards, "_SHARD_ELEMENTS", 500)
    before = threading.active_count()
    for name in ("tree-tron", "cutting-plane"):
        scores(name)
    assert threading.active_count() == before


# ---- processes ----------------------------------------------------------------------------------

FEW = ["tree-tron", "sopopo", "larank", "a2dm2", "xgboost-pairwise", "lightgbm-lambdarank"]


@pytest.mark.parametrize("prefer", ["processes", "threads"])
def test_joblib(prefer):
    expected = [scores(name) for name in FEW]
    tasks = (joblib.delayed(_task())(name) for name in FEW)
    found = joblib.Parallel(n_jobs=2, prefer=prefer)(tasks)
    np.testing.assert_array_equal(found, expected)
    (limit,) = set(joblib.Parallel(n_jobs=2)(joblib.delayed(_cores())() for _ in range(2)))
    assert limit <= max(1, joblib.cpu_count() // 2), "workers together have too many threads"
    joblib.externals.loky.get_reusable_executor().shutdown()


def _task():
    """`scores` as a process can read it that cannot import this module."""
    return cloudpickle.loads(cloudpickle.dumps(scores))


def _cores():
    def ask():
        from rankplug.system.cores import available_cores

        return available_cores()

    return ask


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("name", FEW)
def test_a_fork_after_fits_with_threads_does_not_hang(name, monkeypatch):
    monkeypatch.setattr(shards, "_SHARD_ELEMENTS", 500)
    expected = scores(name)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            signal.alarm(HANG)
            os._exit(not np.array_equal(scores(name), expected))
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


SPAWNED = """
import multiprocessing
import numpy as np
from rankplug import make_solver
from rankplug.datasets import load

def fit(data, name):
    return make_solver(name).solve(data, random_state=0).model

if __name__ == "__main__":
    data = load("wine").train
    names = ["tree-tron", "sopopo", "larank"]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        models = pool.starmap(fit, [(data, name) for name in names])
    for name, model in zip(names, models, strict=True):
        np.testing.assert_array_equal(model.predict(data.X), fit(data, name).predict(data.X))
"""


def test_spawned_processes(tmp_path):
    (tmp_path / "spawned.py").write_text(SPAWNED)
    ended = subprocess.run(
        [sys.executable, "spawned.py"], cwd=tmp_path, capture_output=True, text=True, timeout=HANG
    )
    assert ended.returncode == 0, ended.stderr


# ---- pickles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
@pytest.mark.parametrize("info", rankplug.list_solvers(), ids=lambda info: info.name)
def test_estimators_survive_pickling(info, dumps):
    few = {"n_estimators": 3, "early_stopping_rounds": None}
    few["map"] = {"leaves": {"n_estimators": 3}, "identity": {}}
    solver = rankplug.make_solver(info.name)
    known = solver.get_params(deep=False)
    solver.set_params(**{name: value for name, value in few.items() if name in known})
    X, y, qid = arrays(n_queries=10)
    for task in info.tasks:
        if task == "query-document":
            ranker, fit = rankplug.Ranker(solver, random_state=0), {"y": y, "qid": qid}
        else:
            ranker, fit = rankplug.LabelRanker(solver, random_state=0), {"Y": y}
        again = pickle.loads(dumps(ranker))
        assert repr(again) == repr(ranker)
        expected = ranker.fit(X, **fit).predict(X)
        np.testing.assert_array_equal(again.fit(X, **fit).predict(X), expected)
        fitted = pickle.loads(dumps(ranker))
        np.testing.assert_array_equal(fitted.predict(X), expected)
        assert fitted.result_.status == ranker.result_.status
        np.testing.assert_array_equal(pickle.loads(dumps(ranker.model_)).predict(X), expected)


# ---- saving -------------------------------------------------------------------------------------


def save_with_mlflow(model, path):
    from rankplug.mlflow import save_model

    save_model(model, path)


@pytest.mark.parametrize("save", [LinearModel.save, save_with_mlflow], ids=["model", "mlflow"])
@pytest.mark.parametrize("made", [False, True])
def test_of_several_that_save_to_one_path_one_succeeds(save, made, tmp_path):
    n = 8
    if made:
        (tmp_path / "model").mkdir()
    together = threading.Barrier(n)

    def work(number):
        together.wait()
        with contextlib.suppress(FileExistsError):
            save(LinearModel([number, 1.0]), tmp_path / "model")
            return number
        return None

    with ThreadPoolExecutor(n) as pool:
        winners = [number for number in pool.map(work, range(n)) if number is not None]
    assert len(winners) == 1
    folder = tmp_path / "model"
    loaded = load_model(folder if (folder / "model.json").exists() else folder / "model")
    assert loaded.coef[0] == winners[0]
    assert os.listdir(tmp_path) == ["model"]


# ---- threads ------------------------------------------------------------------------------------


def test_cores_respect_the_environment(monkeypatch):
    monkeypatch.setattr(joblib, "cpu_count", lambda: 8)
    monkeypatch.setattr(cores, "_openmp", list)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert cores.available_cores() == 8
    for text, expected in [("3", 3), ("2,1", 2), ("", 8), ("many", 8), ("0", 1), ("99", 8)]:
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert cores.available_cores() == expected


def test_cores_respect_a_limit_of_threadpoolctl(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 8)
    with threadpool_limits(5):
        assert cores.available_cores() == 5
        with threadpool_limits(1):
            assert cores.available_cores() == 1
    data = rankplug.RankingData.from_arrays(*arrays())
    monkeypatch.setattr(shards, "_SHARD_ELEMENTS", 500)
    monkeypatch.setattr(shards, "Team", None)  # not to be used
    with threadpool_limits(1):
        rankplug.make_solver("tree-tron").solve(data)


def test_cores_respect_quotas_as_joblib_knows_them():
    command = "from rankplug.system.cores import available_cores; print(available_cores())"
    environment = {**os.environ, "LOKY_MAX_CPU_COUNT": "1"}
    environment.pop("OMP_NUM_THREADS", None)
    found = subprocess.run(
        [sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout == "1\n"
