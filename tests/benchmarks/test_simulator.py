"""The simulator of benchmarks/scaling.md against sums that were done by hand."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def simulator():
    name = "benchmarks_simulator"
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks/simulator.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


@pytest.fixture
def load(simulator):
    return simulator.Workload(n_rows=10, n_features=4, row_elements=4, element_bytes=8)


@pytest.fixture
def machine(simulator):
    return simulator.Machine(
        n_cores=2, core_bandwidth=100.0, machine_bandwidth=150.0, core_flops=1e9, row_seconds=0.01
    )


@pytest.fixture
def nothing(simulator):
    return simulator.Network(np.inf, 0.0, 0.0, 0.0)


def test_what_a_pass_reads_and_computes(load):
    assert load.bytes_read == 320
    assert load.flops == 160
    assert load.vector_bytes == 32


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        (1, 320 / 100 + 10 * 0.01),
        (2, 160 / 75 + 5 * 0.01),  # two cores share the bandwidth of 150
        (4, 2 * (80 / 75 + 2.5 * 0.01)),  # and four processes the two cores
    ],
)
def test_processes_of_one_machine(simulator, load, machine, nothing, workers, expected):
    for cluster in (
        simulator.Cluster(workers_per_machine=workers),
        simulator.Cluster(threads_per_worker=workers),
    ):
        found = simulator.simulate(load, machine, nothing, cluster)
        assert found.seconds == pytest.approx(expected)
        assert found.task_seconds == pytest.approx(expected)


def test_slow_arithmetic_takes_the_place_of_fast_memory(simulator, load, machine, nothing):
    slow = replace(machine, core_flops=10.0)
    found = simulator.simulate(load, slow, nothing, simulator.Cluster())
    assert found.seconds == pytest.approx(160 / 10 + 0.1)


def test_more_partitions_than_threads_take_turns(simulator, load, machine, nothing):
    cluster = simulator.Cluster(workers_per_machine=2, partitions_per_thread=3)
    found = simulator.simulate(load, machine, nothing, cluster)
    assert found.n_tasks == 6
    assert found.seconds == pytest.approx(160 / 75 + 0.05)


@pytest.mark.parametrize(("source", "expected"), [("disk", 320 / 20), ("network", 320 / 10)])
def test_rows_that_come_from_elsewhere(simulator, load, machine, source, expected):
    slow = replace(machine, disk_bandwidth=20.0)
    network = simulator.Network(10.0, 0.0, 0.0, 0.0)
    cluster = simulator.Cluster(source=source)
    vectors = 2 * 32 / 10  # there and home
    found = simulator.simulate(load, slow, network, cluster)
    assert found.seconds == pytest.approx(expected + vectors)


def test_a_round_through_the_tree(simulator, load, machine):
    network = simulator.Network(
        bandwidth=32.0, hop_seconds=100.0, task_seconds=10.0, round_seconds=1000.0
    )
    idle = replace(load, n_rows=0)
    cluster = simulator.Cluster(n_machines=3, fan_in=2)
    found = simulator.simulate(idle, machine, network, cluster)
    # The vector takes 1 s: tasks begin at 11, 22 and 33. The first addition of two is done at
    # 22 + 10 + 100 + 1, the other, of one that need not move, at 33 + 20 + 100. Both results are
    # home 2 s later.
    assert found.seconds == pytest.approx(1000 + 153 + 2)
    assert (found.n_tasks, found.n_levels) == (5, 1)
    assert found.bytes_moved == (3 + 5) * 32


def test_messages_do_not_depend_on_the_number_of_rows(simulator, load, machine, nothing):
    cluster = simulator.Cluster(n_machines=100)
    few, many = (
        simulator.simulate(replace(load, n_rows=n), machine, nothing, cluster) for n in (10, 1e10)
    )
    assert (few.bytes_moved, few.n_tasks) == (many.bytes_moved, many.n_tasks)


def test_long_vectors_go_once_to_each_worker(simulator, load, machine, nothing):
    cluster = simulator.Cluster(n_machines=2, partitions_per_thread=8, fan_in=16)
    for n_features, copies in ((8192, 16), (8193, 2)):
        wide = replace(load, n_features=n_features)
        found = simulator.simulate(wide, machine, nothing, cluster)
        assert found.bytes_moved == (copies + 16) * 8 * n_features


def test_stragglers_make_passes_longer_and_a_seed_makes_them_again(
    simulator, load, machine, nothing
):
    cluster = simulator.Cluster(n_machines=200)
    even, uneven, again = (
        simulator.simulate(load, machine, nothing, cluster, jitter=jitter).seconds
        for jitter in (0.0, 0.2, 0.2)
    )
    assert uneven == again > 1.3 * even


def test_a_training_is_passes_and_rounds_without_features(simulator, load, machine):
    network = simulator.Network(np.inf, 0.0, 0.0, round_seconds=7.0)
    seconds = simulator.solve_seconds(
        load, machine, network, simulator.Cluster(), n_passes=3, n_rounds=5
    )
    assert seconds == pytest.approx(3 * (7 + 3.3) + 2 * (7 + 0.1))
