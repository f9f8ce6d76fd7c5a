"""Ctrl-C and SIGTERM: real signals, in real processes where they would end this one."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import rankplug
from rankplug.exceptions import InterruptionWarning
from rankplug.models import LinearModel
from rankplug.solver import Monitor
from rankplug.system import interruption
from rankplug.system.interruption import ending_loop, interrupted, interruptible, pieces
from rankplug.system.signals import Terminated, deferred
from rankplug.tuning import TuneObserver, tune

REPORT = Monitor.report
HANG = 120  # seconds that no test needs

# Solvers, with parameters for which they would go on for minutes.
ENDLESS = {
    "tree-tron": {"C": 1e4, "tol": 1e-300, "max_iter": 10**9},
    "tree-tron tron": {"C": 1e4, "tol": 1e-300, "max_iter": 10**9, "method": "tron"},
    "cutting-plane": {"C": 1e4, "tol": 1e-300, "max_iter": 10**9},
    "cutting-plane bmrm": {"C": 1e4, "tol": 1e-300, "max_iter": 10**9, "method": "bmrm"},
    "cutting-plane smoothed": {
        "C": 1e4,
        "tol": 1e-300,
        "max_iter": 10**9,
        "method": "smoothed-newton",
    },
    "sopopo": {"C": 1e4, "tol": 1e-300, "max_epochs": 10**9},
    "larank": {"C": 1e4, "tol": 1e-300, "epochs": 10**9},
    "larank cyclic": {"C": 1e4, "tol": 1e-300, "epochs": 10**9, "schedule": "cyclic"},
    "larank rbf": {"C": 1e4, "tol": 1e-300, "epochs": 10**9, "kernel": "rbf"},
    "toppush": {"lam": 1e-9, "tol": 1e-300, "max_iter": 10**9},
    "toppush apg": {"lam": 1e-9, "tol": 1e-300, "max_iter": 10**9, "method": "apg"},
    "a2dm2": {"lam": 1e-9, "tol": 1e-300, "max_iter": 10**9},
    "xgboost-pairwise": {"n_estimators": 10**6, "n_threads": 1},
    "xgboost-ndcg": {"n_estimators": 10**6, "n_threads": 1},
    "xgboost-all-pairs": {"n_estimators": 10**6, "n_threads": 1},
    "lightgbm-lambdarank": {"n_estimators": 10**6, "n_threads": 1},
    "lightgbm-all-pairs": {"n_estimators": 10**6, "n_threads": 1},
    "linear-then-boost": {"n_estimators": 10**6, "n_threads": 1},
}


def arrays(n_queries=60, seed=0):
    rng = np.random.default_rng(seed)
    n = 10 * n_queries
    X = rng.normal(size=(n, 6))
    y = np.clip(np.round(X[:, 0] + rng.normal(size=n)) + 2, 0, 4)
    return X, y, np.repeat(np.arange(n_queries), 10)


def endless(name):
    return rankplug.make_solver(name.partition(" ")[0], **ENDLESS[name])


@pytest.fixture(autouse=True)
def calm(monkeypatch):
    """The last interruption is long ago, and handlers are as they were at the end."""
    monkeypatch.setattr(interruption, "_last_caught", float("-inf"))
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    yield
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.fixture
def send(monkeypatch):
    """Sends this process a signal after the first iteration, whose report still says go on."""
    number, sent = [signal.SIGINT], []

    def report(self, n_iter, **values):
        going = REPORT(self, n_iter, **values)
        if not sent:
            sent.append(n_iter)
            os.kill(os.getpid(), number[0])
        return going

    monkeypatch.setattr(Monitor, "report", report)
    return number


@pytest.mark.parametrize("name", ENDLESS)
def test_a_solver_returns_what_it_has(name, send):
    X, y, qid = arrays()
    ranker = rankplug.Ranker(endless(name))
    with pytest.warns(InterruptionWarning, match=r"was interrupted by SIGINT and returns"):
        ranker.fit(X, y, qid=qid)
    assert ranker.result_.status == "stopped"
    assert ranker.result_.interrupted
    assert np.isfinite(ranker.predict(X)).all()
    objective = ranker.result_.objective
    assert objective is None or objective >= 0


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", ["sopopo", "larank"])
def test_label_ranking_returns_what_it_has(name, kernel, send):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(400, 5)), rng.integers(0, 4, size=(400, 4))
    ranker = rankplug.LabelRanker(endless(name).set_params(kernel=kernel))
    with pytest.warns(InterruptionWarning):
        ranker.fit(X, Y)
    assert ranker.result_.status == "stopped"
    assert np.isfinite(ranker.predict(X)).all()


def test_sigterm_does_the_same(send):
    send[0] = signal.SIGTERM
    data = rankplug.RankingData.from_arrays(*arrays())
    with pytest.warns(InterruptionWarning, match="SIGTERM"):
        assert endless("tree-tron").solve(data).status == "stopped"


class Slow(rankplug.Solver):
    """Sends itself signals, and asks whether it is to stop only afterwards."""

    name = "slow"
    tags = rankplug.SolverTags(tasks=("query-document",), problem="", reference="")

    def __init__(self, number=signal.SIGINT, asks_first=True, times=1, C=1.0):
        self.number, self.asks_first, self.times, self.C = number, asks_first, times, C

    def _solve(self, data, init, monitor, rng):
        if self.asks_first:
            monitor.report(0)
        for _ in range(self.times):
            signal.raise_signal(self.number)
        monitor.report(1)
        model = LinearModel(np.ones(data.n_features))
        status = monitor.interruption or "converged"
        return rankplug.SolverResult(model, status, None, None, 1, 1.0)


DATA = rankplug.RankingData.from_arrays(*arrays(4))


def test_a_second_signal_has_its_usual_effect():
    with pytest.raises(KeyboardInterrupt):
        Slow(times=2).solve(DATA)


def test_a_signal_soon_after_an_interruption_ends_the_loop_around():
    with pytest.warns(InterruptionWarning):
        Slow().solve(DATA)
    with pytest.raises(KeyboardInterrupt):
        Slow().solve(DATA)


def test_a_signal_long_after_an_interruption_stops_a_solver_again(monkeypatch):
    for _ in range(2):
        with pytest.warns(InterruptionWarning):
            assert Slow().solve(DATA).interrupted
        monkeypatch.setattr(interruption, "_last_caught", time.monotonic() - 11)


def test_before_there_is_a_model_a_signal_is_an_exception():
    with pytest.raises(KeyboardInterrupt):
        Slow(asks_first=False).solve(DATA)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_handler_of_the_program_is_left_in_charge(number):
    came = []
    before = signal.signal(number, lambda number, _: came.append(number))
    try:
        assert Slow(number).solve(DATA).status == "converged"
        signal.signal(number, signal.SIG_IGN)
        assert Slow(number).solve(DATA).status == "converged"
    finally:
        signal.signal(number, before)
    assert came == [number]


def test_solvers_in_threads_leave_signals_alone():
    result = []
    thread = threading.Thread(target=lambda: result.append(Slow(times=0).solve(DATA)))
    thread.start()
    thread.join(HANG)
    assert not result[0].interrupted


def test_a_path_ends_with_the_solver_that_was_stopped():
    with pytest.warns(InterruptionWarning):
        results = rankplug.path(Slow(), DATA, [1.0, 2.0, 3.0])
    assert [result.status for result in results] == ["stopped"]


def test_a_path_of_warm_starts_ends(send):
    with pytest.warns(InterruptionWarning):
        results = rankplug.path(endless("tree-tron"), DATA, [1e4, 1e5])
    assert [result.status for result in results] == ["stopped"]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("path", [False, True])
def test_tuning_ends_and_its_study_goes_on(tmp_path, send, n_jobs, path):
    data = rankplug.RankingData.from_arrays(*arrays())
    told = []

    class Log(TuneObserver):
        def trial_finished(self, trial):
            told.append(trial.state)

    options = {"n_trials": 2, "folds": 2, "storage": tmp_path, "progress": False, "path": path}
    options |= {"space": {"C": {"low": 0.9e4, "high": 1.1e4}}, "observer": Log()}
    with pytest.raises(KeyboardInterrupt):
        tune(endless("tree-tron"), data, n_jobs=n_jobs, **options)
    if n_jobs == 1:  # else the other thread may have ended a trial meanwhile
        assert told == ["killed"]
    quick = endless("tree-tron").set_params(tol=0.1)
    options |= {"study_name": "quick"}
    assert tune(quick, data, **options).counts["complete"] >= 1


def test_a_signal_while_threads_start_leaves_none_behind(tmp_path, monkeypatch):
    start, started, before = threading.Thread.start, [], set(threading.enumerate())

    def start_and_send(self):
        start(self)
        if not started:
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(threading.Thread, "start", start_and_send)
    data = rankplug.RankingData.from_arrays(*arrays())
    options = {"n_trials": 50, "folds": 2, "storage": tmp_path, "progress": False, "n_jobs": 2}
    with pytest.raises(KeyboardInterrupt):
        tune(endless("tree-tron"), data, space={"C": {"low": 0.9e4, "high": 1.1e4}}, **options)
    assert started
    assert set(threading.enumerate()) <= before


def test_sigterm_ends_a_loop_and_then_the_process(tmp_path):
    script = (
        "import signal, sys\n"
        "from rankplug.system.interruption import ending_loop\n"
        "with ending_loop():\n"
        "    try:\n"
        "        signal.raise_signal(signal.SIGTERM)\n"
        "    finally:\n"
        "        print('cleaned up', flush=True)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.stdout == "cleaned up\n"
    assert ended.returncode == -signal.SIGTERM
    assert ended.stderr == ""


def test_somebody_elses_sigterm_stays_theirs():
    before = signal.signal(signal.SIGTERM, lambda *_: raise_(Terminated()))
    try:
        with pytest.raises(Terminated), ending_loop():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def raise_(error):
    raise error


def test_deferred_signals_come_in_the_end():
    done = []

    def foreign():
        with deferred():
            signal.raise_signal(signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        foreign()
    assert done


def test_deferred_signals_reach_the_solver_around():
    def foreign():
        with interruptible("it"):
            assert not interrupted()
            with deferred():
                signal.raise_signal(signal.SIGINT)
            return interrupted()

    with pytest.warns(InterruptionWarning):
        assert foreign()


@pytest.mark.parametrize("name", [name for name in ENDLESS if name[:4] in ("tree", "cutt")])
def test_what_is_overdue_is_given_up_and_leaves_no_trace(name, send, monkeypatch):
    """The result is that of the iteration before, with its own objective."""
    monkeypatch.setattr(interruption, "_GRACE", -1.0)
    data = rankplug.RankingData.from_arrays(*arrays())
    with pytest.warns(InterruptionWarning):
        stopped = endless(name).solve(data, init=LinearModel(np.full(6, 0.1)))
    assert stopped.status == "stopped"
    np.testing.assert_array_equal(stopped.model.coef, np.full(6, 0.1))
    assert stopped.objective == stopped.history[0]["objective"]
    assert len(stopped.history) == 1


@pytest.mark.parametrize("way_out", ["signal", "time_limit"])
def test_larank_does_not_prove_what_takes_long_once_it_is_to_stop(way_out, monkeypatch):
    monkeypatch.setattr(interruption, "_GRACE", 0.0)
    X = np.random.default_rng(0).normal(size=(4000, 2))
    y = (X[:, 0] > 0).astype(int)
    calls, end = [], 40  # the first epoch needs 31 chunks of the kernel matrix, its proof as many

    def kernel(A, B):
        calls.append(len(A))
        if len(calls) == end:
            os.kill(os.getpid(), signal.SIGINT) if way_out == "signal" else time.sleep(0.2)
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2))

    monkeypatch.setattr("rankplug.kernels.Kernel.diagonal", lambda self, X: np.ones(len(X)))
    solver = rankplug.make_solver("larank", kernel=kernel, tol=1e-300)
    if way_out == "signal":
        with pytest.warns(InterruptionWarning):
            result = rankplug.LabelRanker(solver, random_state=0).fit(X, y).result_
    else:
        data = rankplug.LabelRankingData.from_arrays(X, y)
        result = solver.solve(data, random_state=0, time_limit=0.2)
    assert len(calls) <= end + 1
    assert result.status == {"signal": "stopped"}.get(way_out, "time_limit")
    assert result.objective is None
    assert np.isfinite(result.model.predict(X[:50])).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", ["sopopo", "larank", "larank cyclic"])
def test_a_time_limit_ends_an_epoch(name, kernel, monkeypatch):
    """After something was done: one piece of a linear epoch, one chunk of a kernel's rows."""
    monkeypatch.setattr(interruption, "_WORK", 1)
    monkeypatch.setattr(interruption, "_GRACE", 1000.0)
    X = np.random.default_rng(0).normal(size=(2500, 2))
    data = rankplug.LabelRankingData.from_arrays(X, (X[:, 0] > 0).astype(int))
    result = endless(name).set_params(kernel=kernel).solve(data, random_state=0, time_limit=1e-9)
    assert (result.status, result.n_iter) == ("time_limit", 1)
    assert np.any(result.model.predict(X))
    done = result.history[0]
    visits = {"larank": "process_new", "larank cyclic": "visits"}
    if name in visits:
        assert 1 <= done[visits[name]] <= (1 if kernel == "linear" else 128)
    elif kernel == "linear":
        assert result.n_passes < 3


@pytest.mark.parametrize("work", [1.0, 1e4, 1e9, np.linspace(1.0, 1e7, 100)])
def test_pieces_are_the_whole_in_the_same_order(work):
    order = np.random.default_rng(0).permutation(100)
    parts = list(pieces(order, work))
    np.testing.assert_array_equal(np.concatenate(parts), order)
    assert 1 <= len(parts) <= 100
    assert [len(part) for part in pieces(order[:0], work)] == [0]


@pytest.mark.parametrize("schedule", ["adaptive", "cyclic"])
def test_pieces_change_no_result(schedule, monkeypatch):
    data = rankplug.RankingData.from_arrays(*arrays())
    for name, options in [("sopopo", {}), ("larank", {"schedule": schedule})]:
        results = []
        for work in (1, 2**40):
            monkeypatch.setattr(interruption, "_WORK", work)
            results.append(rankplug.make_solver(name, **options).solve(data, random_state=0))
        np.testing.assert_array_equal(results[0].model.coef, results[1].model.coef)
        assert results[0].history[-1]["objective"] == results[1].history[-1]["objective"]
