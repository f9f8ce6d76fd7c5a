"""Seconds of one pass over ranking data, from a laptop to a thousand workers.

A pass is one operation on all partitions: a vector of weights goes to every partition, each reads
its rows once, and the vectors that come out are added up in a tree. Nothing here waits or draws a
random number unless `jitter` asks for it: times are computed, level by level, from constants that
``python -m benchmarks scaling`` measures. See scaling.md for the formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Cluster",
    "Machine",
    "Network",
    "Pass",
    "Source",
    "Workload",
    "simulate",
    "solve_seconds",
]

Source = Literal["memory", "disk", "network"]
_LONG_MESSAGE = 2**16  # bytes: a longer vector goes once to each worker, not to each partition


@dataclass(frozen=True)
class Workload:
    """Features: `row_elements` of `element_bytes` each in every row, sparse ones with the index."""

    n_rows: float
    n_features: int
    row_elements: float
    element_bytes: float

    @property
    def bytes_read(self) -> float:
        """Of a pass: every element once, as a product with X and X' is one pass."""
        return self.n_rows * self.row_elements * self.element_bytes

    @property
    def flops(self) -> float:
        """Of a pass: a multiplication and an addition for X v, and for X' c."""
        return 4.0 * self.n_rows * self.row_elements

    @property
    def vector_bytes(self) -> float:
        """A vector of weights, always float64."""
        return 8.0 * self.n_features


@dataclass(frozen=True)
class Machine:
    """One of several machines alike; bytes and flops are per second.

    `row_seconds` is what a row costs one core beside its elements: scores, sorting, pairs.
    """

    n_cores: int
    core_bandwidth: float
    machine_bandwidth: float
    core_flops: float
    row_seconds: float
    disk_bandwidth: float = math.inf


@dataclass(frozen=True)
class Network:
    """Messages between processes.

    Attributes
    ----------
    bandwidth : float
        Bytes per second into or out of one machine.
    hop_seconds : float
        From the end of a task to the start of one that needs its result elsewhere.
    task_seconds : float
        The scheduler's work for a task; it does one after the other.
    round_seconds : float
        What a round costs beside its tasks: the client's way to the scheduler and back.
    """

    bandwidth: float
    hop_seconds: float
    task_seconds: float
    round_seconds: float


@dataclass(frozen=True)
class Cluster:
    """Where the rows are, in how many pieces."""

    n_machines: int = 1
    workers_per_machine: int = 1
    threads_per_worker: int = 1
    partitions_per_thread: int = 1
    fan_in: int = 8
    source: Source = "memory"

    @property
    def n_workers(self) -> int:
        """Processes."""
        return self.n_machines * self.workers_per_machine

    @property
    def threads_per_machine(self) -> int:
        """Tasks that a machine does at the same time."""
        return self.workers_per_machine * self.threads_per_worker

    @property
    def n_threads(self) -> int:
        """Tasks that are done at the same time."""
        return self.n_machines * self.threads_per_machine

    @property
    def n_partitions(self) -> int:
        """Tasks of a round without the additions."""
        return self.n_threads * self.partitions_per_thread

    @property
    def additions(self) -> list[int]:
        """Tasks on each level of the tree; the client adds what the last level returns."""
        levels, n = [], self.n_partitions
        while n > self.fan_in:
            n = math.ceil(n / self.fan_in)
            levels.append(n)
        return levels


@dataclass(frozen=True)
class Pass:
    """What a pass takes; see `simulate`.

    Attributes
    ----------
    bytes_read, flops : float
        Of all partitions.
    bytes_moved : float
        Between processes, at most: the vector to the partitions, and every sum to the next level
        or home.
    n_tasks, n_levels : int
        Tasks of the round, and levels of additions.
    task_seconds : float
        Of one partition, without jitter.
    seconds : float
        Of the whole pass.
    """

    bytes_read: float
    flops: float
    bytes_moved: float
    n_tasks: int
    n_levels: int
    task_seconds: float
    seconds: float


def simulate(
    load: Workload,
    machine: Machine,
    network: Network,
    cluster: Cluster,
    *,
    jitter: float = 0.0,
    seed: int = 0,
) -> Pass:
    """One pass, partition by partition.

    `jitter` makes stragglers: every task takes ``exp(jitter z)`` times as long, z standard normal.
    """
    duration = _task_seconds(load, machine, network, cluster)
    rng = np.random.default_rng(seed)
    factor = np.exp(jitter * rng.standard_normal(cluster.n_partitions))
    ready = _finished(_arrivals(load, network, cluster), duration * factor, cluster.n_threads)
    levels = cluster.additions
    for n in levels:
        ready = _added(ready, n, load, network, cluster.fan_in)
    home = len(ready) * load.vector_bytes / network.bandwidth
    n_tasks = cluster.n_partitions + sum(levels)
    return Pass(
        bytes_read=load.bytes_read,
        flops=load.flops,
        bytes_moved=_copies_sent(load, cluster) * load.vector_bytes + n_tasks * load.vector_bytes,
        n_tasks=n_tasks,
        n_levels=len(levels),
        task_seconds=duration,
        seconds=network.round_seconds + float(ready.max()) + home,
    )


def solve_seconds(
    load: Workload,
    machine: Machine,
    network: Network,
    cluster: Cluster,
    *,
    n_passes: float,
    n_rounds: float,
    jitter: float = 0.0,
) -> float:
    """A whole training: passes, and rounds that read few features or none."""
    full = simulate(load, machine, network, cluster, jitter=jitter)
    without = replace(load, row_elements=0.0, n_features=1)
    small = simulate(without, machine, network, cluster, jitter=jitter)
    return n_passes * full.seconds + (n_rounds - n_passes) * small.seconds


def _task_seconds(load: Workload, machine: Machine, network: Network, cluster: Cluster) -> float:
    """One partition on one thread, while all threads of its machine work.

    Threads share the cores, the memory's bandwidth and the way to disk or network.
    """
    n_threads = cluster.threads_per_machine
    n_busy = min(n_threads, machine.n_cores)
    share = 1.0 / cluster.n_partitions
    from_memory = min(machine.core_bandwidth, machine.machine_bandwidth / n_busy)
    computing = max(share * load.bytes_read / from_memory, share * load.flops / machine.core_flops)
    computing += share * load.n_rows * machine.row_seconds
    computing *= n_threads / n_busy
    way = {"memory": math.inf, "disk": machine.disk_bandwidth, "network": network.bandwidth}
    loading = share * load.bytes_read * n_threads / way[cluster.source]
    return max(computing, loading)  # the next rows come while these are worked on


def _copies_sent(load: Workload, cluster: Cluster) -> int:
    return cluster.n_workers if load.vector_bytes > _LONG_MESSAGE else cluster.n_partitions


def _arrivals(load: Workload, network: Network, cluster: Cluster) -> NDArray[np.float64]:
    """When each task is at its worker: the scheduler sends one after the other."""
    n = cluster.n_partitions
    vector = _copies_sent(load, cluster) / n * load.vector_bytes / network.bandwidth
    return np.arange(1, n + 1) * (network.task_seconds + vector)


def _finished(
    arrivals: NDArray[np.float64], durations: NDArray[np.float64], n_threads: int
) -> NDArray[np.float64]:
    """When each task is done, dealt out to the threads in turn."""
    done = np.empty(len(arrivals))
    free = np.zeros(n_threads)
    for first in range(0, len(arrivals), n_threads):
        wave = slice(first, first + n_threads)
        free = done[wave] = np.maximum(free, arrivals[wave]) + durations[wave]
    return done


def _added(
    ready: NDArray[np.float64], n: int, load: Workload, network: Network, fan_in: int
) -> NDArray[np.float64]:
    """When the `n` additions of a level are done, each of up to `fan_in` results."""
    parts = np.full(n * fan_in, -math.inf)
    parts[: len(ready)] = ready
    groups = parts.reshape(n, fan_in)
    n_moved = np.isfinite(groups).sum(axis=1) - 1
    hop = network.hop_seconds + n_moved * load.vector_bytes / network.bandwidth
    turn = np.arange(1, n + 1) * network.task_seconds
    added: NDArray[np.float64] = groups.max(axis=1) + turn + hop
    return added
