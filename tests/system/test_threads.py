"""Teams that share jobs, and the threads of BLAS while solvers work."""

import os
import signal
import threading
import time
from contextvars import ContextVar

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import rankplug
from rankplug import make_solver
from rankplug.data import RankingData
from rankplug.shards import local
from rankplug.system import threads
from rankplug.system.threads import Team, blas_threads

LABEL = ContextVar("label", default="")


def blas():
    """Threads of the libraries that can have several; solvers of tests have one that cannot."""
    ours = {library.filepath for library in threads._blas()}
    return [
        pool["num_threads"]
        for pool in threadpool_info()
        if pool["filepath"] in ours and pool["threading_layer"] != "disabled"
    ]


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n_items", [0, 1, 2, 100])
def test_a_team_answers_in_order(n_threads, n_items):
    with Team(n_threads) as team:
        for _ in range(20):
            assert team.map(lambda a, b: a - b, range(n_items), [1] * n_items) == [
                i - 1 for i in range(n_items)
            ]


def test_all_threads_of_a_team_work():
    meeting = threading.Barrier(3, timeout=30)
    with Team(3) as team:
        team.map(lambda _: meeting.wait(), range(3))
    assert not meeting.broken


@pytest.mark.usefixtures("no_hang")
def test_a_team_may_be_used_by_its_own_threads():
    with Team(2) as team:
        sums = team.map(lambda i: sum(team.map(lambda j: i * j, range(5))), range(6))
    assert sums == [10 * i for i in range(6)]


@pytest.mark.usefixtures("no_hang")
def test_a_job_does_not_wait_for_threads_that_are_busy():
    busy, done = threading.Event(), threading.Event()
    with Team(2) as team:

        def first(i):
            if threading.current_thread() is not caller:
                busy.set()
                done.wait()

        caller = threading.Thread(target=lambda: team.map(first, range(2)))
        caller.start()
        if busy.wait(1.0):  # else the caller was done before the other thread woke up
            assert team.map(abs, [-1, -2]) == [1, 2]
        done.set()
        caller.join()


@pytest.mark.parametrize("n_threads", [1, 2])
def test_errors_of_a_job_are_raised_and_its_rest_is_dropped(n_threads):
    started = []

    def work(i):
        started.append(i)
        time.sleep(0.001)
        if i == 3:
            raise KeyError(i)

    with Team(n_threads) as team:
        for _ in range(5):
            started.clear()
            with pytest.raises(KeyError, match="3"):
                team.map(work, range(1000))
            assert len(started) < 20
        assert team.map(abs, [-1]) == [1], "the team goes on"


def test_threads_have_the_context_of_their_caller():
    meeting = threading.Barrier(2, timeout=30)

    def label(_):
        meeting.wait()
        return LABEL.get()

    token = LABEL.set("mine")
    with Team(2) as team:
        assert team.map(label, range(2)) == ["mine", "mine"]
    LABEL.reset(token)


def test_blas_has_as_many_threads_as_the_latest_context_says():
    before = blas()
    assert len(before) > 0
    n = len(before)
    with blas_threads(1):
        assert blas() == [1] * n
        with blas_threads(2):
            assert blas() == [2] * n
        assert blas() == [1] * n
    assert blas() == before
    first, second = blas_threads(1), blas_threads(2)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert blas() == [2] * n
    second.__exit__(None, None, None)
    assert blas() == before
    with pytest.raises(KeyError), blas_threads(1):
        raise KeyError
    assert blas() == before


@pytest.mark.parametrize("n_threads", [1, 2])
def test_solvers_leave_blas_as_it_was_and_use_their_own_threads(n_threads, monkeypatch):
    """The threads of BLAS look for work after each product, and slowed two threads to one."""
    monkeypatch.setattr(local, "_SHARD_ELEMENTS", 100)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    data = RankingData.from_arrays(rng.normal(size=(200, 5)), y, np.arange(200) // 10)
    seen = []
    with blas_threads(2):
        solver = make_solver("tree-tron", n_threads=n_threads)
        solver.solve(data, callback=lambda _: seen.append(blas()))
        assert blas() == [2] * len(blas())
    assert len(seen) > 1
    assert all(found == [1] * len(found) for found in seen)


def test_between_the_solutions_of_a_path_blas_is_as_it_was():
    data = RankingData.from_arrays(np.eye(4), [0, 1, 0, 1], [0, 0, 1, 1])
    with blas_threads(2):
        path = rankplug.path(make_solver("tree-tron", n_threads=1), data, [0.1, 1.0])
        for _ in path:
            assert blas() == [2] * len(blas())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_that_is_forked_within_leaves_the_context_as_any():
    child = None
    before = blas()
    try:
        with blas_threads(1):
            child = os.fork()
        fine = blas() == before
    except BaseException:
        fine = False
    if child == 0:
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert fine


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_threads_of_its_parent():
    """Forked while one of them changes the threads of BLAS, and while a problem is solved."""
    before = blas()
    with blas_threads(1):
        threads._changing.acquire()
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # ends it if it waits
            fine = blas() == before
            with blas_threads(1):
                fine = fine and bool((np.ones((300, 300)) @ np.ones((300, 300)) == 300).all())
            os._exit(0 if fine and blas() == before else 1)
        threads._changing.release()
        assert os.waitpid(child, 0)[1] == 0
    assert blas() == before
