"""Clusters for all files whose tests leave their scheduler alone: of processes, and of threads."""

import pytest


@pytest.fixture(scope="session")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    from distributed import Client

    with Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="session")
def near_cluster():
    """Workers in this process: they start at once, and need not import pandas and Arrow."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        protocol="tcp",
        host="127.0.0.1",
        dashboard_address=":0",
        memory_limit=None,
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def near_client(near_cluster):
    from distributed import Client

    with Client(near_cluster, set_as_default=False) as client:
        yield client
