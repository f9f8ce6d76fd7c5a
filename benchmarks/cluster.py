"""Training on worker processes of this machine: one against two, and one that is killed.

Every worker has one thread. Rows are those of web-search in float32, made on the workers, with
another seed for each partition.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

import dask
import numpy as np
from distributed import Client, LocalCluster

from benchmarks.measure import alternate
from rankplug import RankingData, datasets, make_solver
from rankplug.dask import ClusterData
from rankplug.dask.shards import FAN_IN, ClusterShards
from rankplug.dask.worker import Message, Operation
from rankplug.objectives import SquaredHinge, open_pairs
from rankplug.shards import PairWeighting, Reduction, Shard
from rankplug.solver import Solver, SolverResult

Row = dict[str, Any]

_DOCUMENTS = 100
_KILLS = 10


def cluster(tiny: bool, rounds: int) -> Iterator[Row]:
    """Passes and trainings of 2M x 136 on a cluster of one worker and on one of two, in turn.

    Where other processes take the cores, wall time says little; the seconds of CPU that the
    busiest worker needs are those that a pass takes on cores of its own.
    """
    n_queries = 160 if tiny else 20_000
    solver = make_solver("tree-tron", C=1e-4)
    with ExitStack() as clusters:
        clients = {str(n): clusters.enter_context(workers(n)) for n in (1, 2)}
        for n_partitions in (2, 4):
            with ExitStack() as stack:
                data: dict[str, ClusterData] = {}
                for name, client in clients.items():
                    made = _web_search(client, n_queries, n_partitions, list(client.nthreads()))
                    data[name] = stack.enter_context(made)
                passes = _calls(stack, data)
                trainings = {name: partial(solver.solve, one) for name, one in data.items()}
                yield from _rows("hessian product", passes, data, 8 * rounds)
                yield from _rows("training", trainings, data, rounds)


def cluster_kills(tiny: bool, rounds: int) -> Iterator[Row]:  # noqa: ARG001
    """One of two workers killed at random moments of a training, and what comes of it."""
    solver = make_solver("tree-tron", C=1e-3, tol=1e-8)
    rng = np.random.default_rng(0)
    # A slow machine takes long to start the next worker; until then it is not given up.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        workers(2) as client,
    ):
        n_queries = 160 if tiny else 1_000
        with _web_search(client, n_queries, 4) as data:
            undisturbed = solver.solve(data)
        for _ in range(2 if tiny else _KILLS):
            client.wait_for_workers(2, timeout=600)
            moment = float(rng.uniform(0.0, 0.7 * undisturbed.seconds))
            victim = str(rng.choice(sorted(client.nthreads())))
            with _web_search(client, n_queries, 4) as data:
                held = sum(victim in where for where in client.who_has(data.partitions).values())
                result = _solved_with_a_kill(solver, data, victim, moment)
                yield {
                    "n_samples": data.n_samples,
                    "partitions": data.n_partitions,
                    "on_the_killed_worker": held,
                    "restored": data.shards.n_restored,
                    "killed_after_s": moment,
                    "seconds": result.seconds,
                    "undisturbed_seconds": undisturbed.seconds,
                    "status": result.status,
                    **_differences(result, undisturbed),
                }


class _Watched(ClusterData):
    """Data that remember the shards opened last."""

    shards: ClusterShards

    @contextmanager
    def open_pairs(
        self, reduction: Reduction, n_threads: int | None, weighting: PairWeighting
    ) -> Iterator[ClusterShards]:
        with super().open_pairs(reduction, n_threads, weighting) as self.shards:
            yield self.shards


def _web_search(
    client: Client, n_queries: int, n_partitions: int, workers: Sequence[str] = ()
) -> _Watched:
    """The data on some of the workers, by default where Dask wants them."""
    each = n_queries // n_partitions
    futures = [
        client.submit(_part, seed, each, workers=place, pure=False)
        for seed, place in zip(range(n_partitions), cycle(workers or [None]))
    ]
    return _Watched.from_partitions(futures, client=client)


def _part(seed: int, n_queries: int) -> RankingData:
    sizes = {"n_queries": n_queries, "docs_per_query": _DOCUMENTS}
    data = datasets.load("web-search", seed=seed, dtype="float32", **sizes).train
    return replace(data, query_ids=data.query_ids + seed * n_queries)


@contextmanager
def workers(n: int) -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=n,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=":0",
            memory_limit=0,
        ) as started,
        Client(started) as client,
    ):
        yield client


def _calls(stack: ExitStack, data: Mapping[str, ClusterData]) -> dict[str, Callable[[], Any]]:
    """Hessian products at the same point."""
    calls: dict[str, Callable[[], Any]] = {}
    for name, one in data.items():
        v = np.random.default_rng(0).normal(size=one.n_features)
        loss = SquaredHinge(stack.enter_context(open_pairs(one, "sum")))
        loss.move_to(0.1 * v)
        calls[name] = partial(loss.hessian_product, v)
    return calls


def _rows(
    what: str, calls: Mapping[str, Callable[[], Any]], data: Mapping[str, ClusterData], repeats: int
) -> Iterator[Row]:
    alternate(calls, 1)
    before = {name: _cpu_seconds(one) for name, one in data.items()}
    samples = alternate(calls, repeats)
    for name, sample in samples.items():
        used = [b - a for a, b in zip(before[name], _cpu_seconds(data[name]), strict=True)]
        result = sample.result if isinstance(sample.result, SolverResult) else None
        yield {
            "what": what,
            "workers": name,
            "n_samples": data[name].n_samples,
            "n_features": data[name].n_features,
            **_traffic(data[name]),
            "runs": repeats,
            "wall_s": sample.median("wall"),
            "speedup": samples["1"].ratio(sample, "wall"),
            "busiest_worker_cpu_s": max(used) / repeats,
            "objective": "" if result is None else result.objective,
            "n_iter": "" if result is None else result.n_iter,
            "load": os.getloadavg()[0],
        }


def _cpu_seconds(data: ClusterData) -> list[float]:
    """Of each worker, since it began."""
    return list(data.client.run(time.process_time).values())


def _traffic(data: ClusterData) -> Row:
    """Of a Hessian product: what is sent for each partition, and what comes here."""
    v = np.zeros(data.n_features)
    message = Message(1, (), Operation.of(Shard.laplacian, (v,)))
    return {
        "partitions": data.n_partitions,
        "bytes_sent_per_task": len(pickle.dumps(message)),
        "bytes_home": min(data.n_partitions, FAN_IN) * v.nbytes,
    }


def _solved_with_a_kill(
    solver: Solver, data: ClusterData, victim: str, moment: float
) -> SolverResult:
    pid = data.client.run(os.getpid, workers=[victim])[victim]
    timer = threading.Timer(moment, os.kill, (pid, signal.SIGKILL))
    timer.start()
    try:
        return solver.solve(data)
    finally:
        timer.join()


def _differences(result: SolverResult, undisturbed: SolverResult) -> Row:
    change = result.model.coef - undisturbed.model.coef  # type: ignore[attr-defined]
    return {
        "relative_difference_of_the_objective": result.objective / undisturbed.objective - 1.0,
        "largest_difference_of_a_weight": float(np.abs(change).max()),
    }
