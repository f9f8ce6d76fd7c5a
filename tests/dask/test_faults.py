"""Workers and schedulers that are killed, as real processes, in the midst of training."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from sklearn.exceptions import NotFittedError

from rankplug import RankingData, make_solver
from rankplug.dask import ClusterData, Ranker
from rankplug.dask import data as cluster_data
from rankplug.exceptions import ClusterError, ParameterError

N, D, QUERIES, PARTITIONS = 400, 6, 30, 4
SOLVER = make_solver("tree-tron", C=0.1, tol=1e-8)


class Processes:
    """A scheduler and workers that nobody restarts."""

    def __init__(self, folder):
        self._file = folder / "scheduler.json"
        self._scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", self._file)
        self.workers = []
        self.client = None

    def _start(self, role, *options):
        module = f"distributed.cli.dask_{role}"
        command = [sys.executable, "-m", module, "--no-dashboard", "--host", "127.0.0.1", *options]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def connect(self):
        while not self._file.exists() or not self._file.read_text().strip():
            assert self._scheduler.poll() is None
            time.sleep(0.05)
        self.address = json.loads(self._file.read_text())["address"]
        self.client = Client(self.address, timeout=5)  # also how long it looks for a lost one
        return self.client

    def want_workers(self, n):
        """Start workers until there are so many alive; wait for them."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) < n:
            options = ("--no-nanny", "--nthreads", "1", "--memory-limit", "0")
            self.workers.append(self._start("worker", self.address, *options))
        deadline = time.monotonic() + 120
        while set(self.pids().values()) != {worker.pid for worker in self.workers}:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def pids(self):
        return self.client.run(os.getpid, on_error="ignore")

    def keys(self):
        """What the workers keep."""
        return {key for keys in self.client.has_what().values() for key in keys}

    def kill_workers(self):
        for worker in self.workers:
            worker.kill()
            worker.wait()

    def kill_scheduler(self):
        self._scheduler.kill()
        self._scheduler.wait()

    def stop(self):
        if self.client is not None:
            self.client.close(timeout=5)
        self.kill_workers()
        self.kill_scheduler()


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    logger = logging.getLogger("distributed")
    level, logger.level = logger.level, logging.CRITICAL
    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        processes = Processes(tmp_path_factory.mktemp("scheduler"))
        try:
            processes.connect()
            processes.want_workers(2)
            yield processes
        finally:
            processes.stop()
            logger.level = level


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(N, D)), np.sort(rng.integers(0, QUERIES, N))
    return X, np.clip(np.round(X @ rng.normal(size=D)), 0, 4), qid


@pytest.fixture(scope="module")
def expected(arrays):
    return SOLVER.solve(RankingData.from_arrays(*arrays))


def cut(arrays):
    n = N // PARTITIONS
    return [da.from_array(values, chunks=(n, *values.shape[1:])) for values in arrays]


@pytest.fixture
def opened(monkeypatch):
    """The shards that were opened, to be asked what happened to them."""
    seen, make = [], cluster_data.ClusterShards
    monkeypatch.setattr(
        cluster_data, "ClusterShards", lambda *args: seen.append(make(*args)) or seen[-1]
    )
    return seen


def test_an_interruption_leaves_nothing_on_the_workers(processes, arrays):
    processes.want_workers(2)

    def fail(progress):
        raise ZeroDivisionError

    with ClusterData.from_collections(*cut(arrays), client=processes.client) as data:
        kept = {future.key for future in data.partitions}
        assert len(kept) == PARTITIONS
        with pytest.raises(ZeroDivisionError):
            SOLVER.solve(data, callback=fail)
        wait_until(lambda: processes.keys() == kept)
    wait_until(lambda: not processes.keys())


def test_a_killed_worker_costs_its_partitions_and_changes_no_model(
    processes, arrays, expected, opened
):
    processes.want_workers(2)
    with ClusterData.from_collections(*cut(arrays), client=processes.client) as data:
        whole = SOLVER.solve(data)
        victim, pid = next(iter(processes.pids().items()))
        lost = sum(victim in where for where in processes.client.who_has(data.partitions).values())
        assert 0 < lost < PARTITIONS

        def kill(progress):
            if progress.n_iter == 2:
                os.kill(pid, signal.SIGKILL)

        result = SOLVER.solve(data, callback=kill)
    for found in (whole, result):
        assert found.status == "converged"
        assert found.objective == pytest.approx(expected.objective, rel=1e-8)
        assert found.model.coef == pytest.approx(expected.model.coef, abs=1e-8)
    assert [shards.n_restored for shards in opened] == [0, lost]
    assert len(processes.pids()) == 1


def test_data_that_cannot_be_computed_again_are_an_error(processes, arrays):
    processes.want_workers(1)
    X, y, qid = arrays
    sent = processes.client.scatter(X)
    rows = da.from_delayed(dask.delayed(sent), X.shape, X.dtype)
    beside = [da.from_array(values, chunks=N) for values in (y, qid)]
    with ClusterData.from_collections(rows, *beside, client=processes.client) as data:

        def kill(progress):
            processes.kill_workers()

        with pytest.raises(ClusterError, match="cannot compute again"):
            SOLVER.solve(data, callback=kill)


def test_without_workers_the_time_out_is_an_error_and_no_model_is_left(processes, arrays):
    processes.want_workers(1)
    with ClusterData.from_collections(*cut(arrays), client=processes.client) as patient:
        ranker = Ranker(SOLVER).fit(patient)
        assert ranker.predict(arrays[0]).shape == (N,)
        options = {"client": processes.client, "timeout": 5}
        data = ClusterData.from_partitions(patient.partitions, **options)
        processes.kill_workers()
        with pytest.raises(ClusterError, match="nothing done for 5 seconds: no worker is left"):
            ranker.fit(data)
    with pytest.raises(NotFittedError):
        ranker.predict(arrays[0])


def test_a_lost_scheduler_is_an_error(processes, arrays):
    soon = threading.Timer(1.0, processes.kill_scheduler)
    soon.start()
    with pytest.raises(ClusterError, match=r"connection to the Dask scheduler .* was lost"):
        Ranker(SOLVER, client=processes.client).fit(*cut(arrays)[:2], qid=cut(arrays)[2])
    soon.join()
    wait_until(lambda: processes.client.status == "closed")
    with pytest.raises(ParameterError, match="client is closed"):
        ClusterData.from_collections(*cut(arrays), client=processes.client)


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
