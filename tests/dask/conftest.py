"""Clusters for all files whose tests leave their scheduler alone: of processes, and of threads."""

from contextlib import contextmanager

import pytest


@contextmanager
def two_workers(**options):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", **options
    ) as cluster:
        yield cluster


@contextmanager
def client_of(cluster):
    from distributed import Client

    with Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="session")
def cluster():
    options = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    with two_workers(scheduler_kwargs=options) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with client_of(cluster) as client:
        yield client


@pytest.fixture(scope="session")
def near_cluster():
    """Workers in this process: they start at once, and need not import pandas and Arrow."""
    options = {"dashboard_address": ":0", "memory_limit": None}
    with two_workers(processes=False, protocol="tcp", **options) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def near_client(near_cluster):
    with client_of(near_cluster) as client:
        yield client
