"""Passes on 1, 2 and 4 worker processes against the simulator, which then looks further.

The constants come first: what a core does in a pass, what all of them do, what Dask takes for a
task. Then passes over one problem on worker processes of this machine, beside what the simulator
says of them. Last, clusters that are not here, of machines like this one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any, get_args

import joblib
import numpy as np

from benchmarks import results
from benchmarks.cluster import workers
from benchmarks.plots import draw_line, figure_of
from benchmarks.problems import as_float32, text_scores, web_search
from benchmarks.simulator import (
    Cluster,
    Machine,
    Network,
    Source,
    Workload,
    simulate,
    solve_seconds,
)
from rankplug.dask import ClusterData
from rankplug.dask.shards import FAN_IN
from rankplug.data import RankingData
from rankplug.objectives import SquaredHinge, open_pairs
from rankplug.shards import Shards

Row = dict[str, Any]

_WORKERS = (1, 2, 4)
_PARTITIONS_PER_THREAD = 2
_FEATURES = 136
_ROWS_PER_QUERY = 100
_IN_PROCESS = Network(np.inf, 0.0, 0.0, 0.0)


_DENSE_SOLVE = {"n_passes": 7.0, "n_rounds": 8.0}
_SPARSE_SOLVE = {"n_passes": 17.0, "n_rounds": 17.0}
"""Passes of tree-tron on web-search and text-scores, and rounds with that which samples rows."""

_ASSUMED = {"network bandwidth": 1.25e9, "disk bandwidth": 2e9, "jitter": 0.1}
"""Of machines that are not here: 10 Gbit/s and an NVMe disk each, and uneven tasks."""

_CLUSTERS: tuple[tuple[float, int, Source], ...] = (
    (1e8, 10, "memory"),
    (1e9, 100, "memory"),
    (1e10, 1000, "memory"),
    (1e10, 1000, "disk"),
    (1e10, 1000, "network"),
)
_GROWING = (2, 4, 16, 64, 256, 1000, 4000)


def scaling(tiny: bool, rounds: int) -> Iterator[Row]:
    """Constants, measured and predicted passes here, predicted ones elsewhere."""
    data = (web_search(40, 20) if tiny else web_search(2000, 120)).train
    dense = dense_constants(data, rounds)
    sparse = sparse_constants(dense, tiny, rounds)
    with workers(2) as client:
        network = network_constants(client, rounds)
    for name, constants in {"dense": dense, "sparse": sparse, "dask": network}.items():
        for key, value in asdict(constants).items():
            yield {"kind": "constant", "name": f"{name} {key}", "value": value}
    yield from _threads(data, dense, rounds)
    load = Workload(4_000 if tiny else 1_000_000, _FEATURES, _FEATURES, 8)
    for n in _WORKERS:
        cluster = Cluster(workers_per_machine=n, partitions_per_thread=_PARTITIONS_PER_THREAD)
        with workers(n) as client:
            seconds = median(cluster_pass_seconds(client, load, cluster.n_partitions, 4 * rounds))
        yield _measured("worker processes", load, dense, network, cluster, seconds)
    yield from _elsewhere(dense, sparse, network)


def dense_constants(data: RankingData, rounds: int) -> Machine:
    """This machine, from fused Hessian products.

    A pass over one feature is what rows cost beside their features. What other passes take more
    is computing where the features stay in the cache, and reading where they do not.
    """
    few = data.take_queries(np.arange(2))
    narrow = replace(data, X=np.ascontiguousarray(data.X[:, :1]))
    n_cores = joblib.cpu_count()
    rows = pass_seconds(narrow, 1, 3 * rounds)
    per_row = rows / data.n_samples
    computing = pass_seconds(few, 1, 300 * rounds) - per_row * few.n_samples
    reading = pass_seconds(data, 1, 3 * rounds) - rows
    together = pass_seconds(data, n_cores, 3 * rounds) - rows / n_cores
    return Machine(
        n_cores=n_cores,
        core_bandwidth=data.X.nbytes / reading,
        machine_bandwidth=data.X.nbytes / max(together, reading / n_cores),
        core_flops=4.0 * few.X.size / max(computing, 1e-9),
        row_seconds=per_row,
    )


def sparse_constants(dense: Machine, tiny: bool, rounds: int) -> Machine:
    """The same machine on sparse rows, which are read more slowly, a column here and one there."""
    data = (text_scores(400, 200) if tiny else text_scores(100_000)).train
    n_bytes = data.X.data.nbytes + data.X.indices.nbytes
    reading = pass_seconds(data, 1, 3 * rounds) - dense.row_seconds * data.n_samples
    bandwidth = n_bytes / max(reading, 1e-9)
    ratio = dense.machine_bandwidth / dense.core_bandwidth
    return replace(dense, core_bandwidth=bandwidth, machine_bandwidth=ratio * bandwidth)


def network_constants(client: Any, rounds: int) -> Network:
    """What Dask takes, on loopback: rounds without work, and a large array from worker to worker.

    Rounds over more and more partitions have more tasks and more levels of additions; the three
    costs are fitted to their times.
    """
    from scipy.optimize import nnls

    costs, seconds = [], []
    for n in (1, 2, 8, 16, 64):
        additions = Cluster(workers_per_machine=n, fan_in=FAN_IN).additions
        costs.append([1, n + sum(additions), len(additions)])
        load = Workload(n * _ROWS_PER_QUERY, 1, 1, 8)
        seconds.append(median(cluster_pass_seconds(client, load, n, 4 * rounds)))
    (per_round, per_task, per_level), _ = nnls(np.array(costs, dtype=float), np.array(seconds))
    return Network(_bandwidth(client), float(per_level), float(per_task), float(per_round))


def pass_seconds(data: RankingData, n_threads: int, repeats: int) -> float:
    """The median over Hessian products in this process."""
    with open_pairs(data, "sum", n_threads) as shards:
        return median(_products(shards, repeats))


def cluster_pass_seconds(
    client: Any, load: Workload, n_partitions: int, repeats: int
) -> list[float]:
    """Seconds of Hessian products over random dense rows that are made on the workers."""
    addresses = list(client.nthreads())
    size = int(load.n_rows / n_partitions)
    partitions = [
        client.submit(
            random_rows, size, load.n_features, seed, workers=[addresses[seed % len(addresses)]]
        )
        for seed in range(n_partitions)
    ]
    with (
        ClusterData.from_partitions(partitions, client=client) as data,
        open_pairs(data, "sum") as shards,
    ):
        return _products(shards, repeats)


def random_rows(n_rows: int, n_features: int, seed: int) -> RankingData:
    """Queries of 100 rows with three grades, the same for the same seed."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    utility = X @ np.random.default_rng(0).normal(size=n_features) / n_features**0.5
    grades = np.digitize(utility + rng.standard_normal(n_rows), (0.5, 1.5))
    ids = seed * n_rows + np.arange(n_rows) // _ROWS_PER_QUERY
    return RankingData.from_arrays(X, grades, ids)


def _products(shards: Shards, repeats: int) -> list[float]:
    rng = np.random.default_rng(0)
    loss = SquaredHinge(shards)
    loss.move_to(0.1 * rng.normal(size=shards.n_columns))
    v = rng.normal(size=shards.n_columns)
    loss.hessian_product(v)
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        loss.hessian_product(v)
        seconds.append(time.perf_counter() - started)
    return seconds


def _bandwidth(client: Any, n_bytes: int = 2**26) -> float:
    """Bytes per second from one worker to another."""
    here, there = list(client.nthreads())[:2]
    seconds = []
    for _ in range(3):
        array = client.submit(np.ones, n_bytes // 8, workers=[here], pure=False)
        array = client.submit(np.copy, array, workers=[here], pure=False)
        client.gather(client.submit(len, array, workers=[here], pure=False))
        started = time.perf_counter()
        client.gather(client.submit(len, array, workers=[there], pure=False))
        seconds.append(time.perf_counter() - started)
    return n_bytes / median(seconds)


def _threads(data: RankingData, machine: Machine, rounds: int) -> Iterator[Row]:
    """One process, whose float32 passes say nothing to the constants."""
    for name, part in {"float64": data, "float32": as_float32(data)}.items():
        load = Workload(part.n_samples, part.n_features, part.n_features, part.X.itemsize)
        for n in dict.fromkeys((1, machine.n_cores)):
            seconds = pass_seconds(part, n, 3 * rounds)
            cluster = Cluster(threads_per_worker=n)
            yield _measured(f"threads, {name}", load, machine, _IN_PROCESS, cluster, seconds)


def _elsewhere(dense: Machine, sparse: Machine, network: Network) -> Iterator[Row]:
    """Machines like this one, with the disk and the network that are stated in the rows."""
    network = replace(network, bandwidth=_ASSUMED["network bandwidth"])
    disk = _ASSUMED["disk bandwidth"]
    dense, sparse = replace(dense, disk_bandwidth=disk), replace(sparse, disk_bandwidth=disk)
    for name, value in _ASSUMED.items():
        yield {"kind": "assumed", "name": name, "value": value}
    laptop = Cluster(threads_per_worker=dense.n_cores)
    for n_rows in (1e6, 1e7, 1e8):
        # The last does not fit into its memory.
        scene = replace(laptop, source="memory" if n_rows < 1e8 else "disk")
        yield _projected("laptop", _dense(n_rows), dense, _IN_PROCESS, scene, _DENSE_SOLVE)
    for n_rows, n_workers, source in _CLUSTERS:
        scene = _cluster(dense, n_workers, source)
        yield _projected("dense", _dense(n_rows), dense, network, scene, _DENSE_SOLVE)
        yield _projected("sparse", _sparse(n_rows), sparse, network, scene, _SPARSE_SOLVE)
    for n_workers in _GROWING:
        for source in get_args(Source):
            scene, load = _cluster(dense, n_workers, source), _dense(1e7 * n_workers)
            yield _projected("growing", load, dense, network, scene, _DENSE_SOLVE)


def _dense(n_rows: float) -> Workload:
    return Workload(n_rows, _FEATURES, _FEATURES, 4)  # float32


def _sparse(n_rows: float) -> Workload:
    return Workload(n_rows, 50_000, 75, 12)  # float64 with the column


def _cluster(machine: Machine, n_workers: int, source: Source) -> Cluster:
    """As many workers on a machine as it has cores."""
    return Cluster(
        n_machines=max(1, n_workers // machine.n_cores),
        workers_per_machine=min(n_workers, machine.n_cores),
        partitions_per_thread=_PARTITIONS_PER_THREAD,
        source=source,
    )


def _projected(
    name: str,
    load: Workload,
    machine: Machine,
    network: Network,
    cluster: Cluster,
    solve: Mapping[str, float],
) -> Row:
    jitter = _ASSUMED["jitter"]
    seconds = solve_seconds(load, machine, network, cluster, jitter=jitter, **solve)
    row = _row("projected", name, load, machine, network, cluster, jitter)
    return row | solve | {"solve_s": seconds}


def _measured(
    name: str, load: Workload, machine: Machine, network: Network, cluster: Cluster, seconds: float
) -> Row:
    row = _row("measured", name, load, machine, network, cluster)
    load_average = os.getloadavg()[0]
    ratio = seconds / row["predicted_s"]
    return row | {"measured_s": seconds, "ratio": ratio, "load_average": load_average}


def _row(
    kind: str,
    name: str,
    load: Workload,
    machine: Machine,
    network: Network,
    cluster: Cluster,
    jitter: float = 0.0,
) -> Row:
    found = simulate(load, machine, network, cluster, jitter=jitter)
    return {
        "kind": kind,
        "name": name,
        "n_machines": cluster.n_machines,
        "n_workers": cluster.n_workers,
        "n_threads": cluster.n_threads,
        "n_partitions": cluster.n_partitions,
        "source": cluster.source,
        **asdict(load),
        "bytes_read": found.bytes_read,
        "flops": found.flops,
        "bytes_moved": found.bytes_moved,
        "n_tasks": found.n_tasks,
        "n_levels": found.n_levels,
        "task_s": found.task_seconds,
        "predicted_s": found.seconds,
    }


def plot_scaling(source: Path, target: Path) -> None:
    """Predicted and measured passes here, and predicted ones as the cluster grows."""
    table = results.read(source)
    figure, (here, growing) = figure_of(2)
    measured = [row for row in table if row["name"] == "worker processes"]
    draw_line(here, measured, "n_workers", "measured", "measured_s")
    draw_line(here, measured, "n_workers", "simulator", "predicted_s")
    here.set_xticks([1, 2, 4], ["1", "2", "4"])
    rows = f"{float(measured[0]['n_rows']):,.0f} x {measured[0]['n_features']}"
    here.set(title=f"{rows}, this machine", xlabel="worker processes", ylabel="seconds a pass")
    for where in ("memory", "disk", "network"):
        line = [row for row in table if row["name"] == "growing" and row["source"] == where]
        draw_line(growing, line, "n_workers", f"rows in {where}", "predicted_s")
    growing.set(title="10 million rows a worker", xlabel="workers", ylabel="seconds a pass")
    for axis in (here, growing):
        axis.legend(frameon=False)
    figure.savefig(target, dpi=150)
