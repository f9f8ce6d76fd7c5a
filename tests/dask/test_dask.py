"""Training on a cluster of two workers in this process; test_faults.py has real ones."""

import itertools
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import rankplug
from rankplug import RankingData, list_solvers, make_solver
from rankplug.dask import ClusterData, Ranker
from rankplug.dask import shards as coordinator
from rankplug.exceptions import ClusterError, DataError, ParameterError
from rankplug.objectives import SquaredHinge, open_pairs

N, D, QUERIES = 600, 6, 40
NAMES = [f"f{j}" for j in range(D)]


@pytest.fixture(scope="module")
def client(near_client):
    return near_client


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    qid = np.sort(rng.integers(0, QUERIES, N))
    y = np.clip(np.round(X @ rng.normal(size=D) + rng.normal(size=N)), 0, 4)
    return X, y, qid, 1.0 + qid % 3


@pytest.fixture(scope="module")
def local(arrays):
    X, y, qid, weight = arrays
    return RankingData.from_arrays(X, y, qid, sample_weight=weight)


def cut(arrays, chunks=160):
    return [da.from_array(values, chunks=(chunks, *values.shape[1:])) for values in arrays]


@pytest.fixture(scope="module")
def data(client, arrays):
    with ClusterData.from_collections(*cut(arrays), client=client) as data:
        yield data


@pytest.fixture(scope="module")
def frame(arrays):
    X, y, qid, weight = arrays
    return pd.DataFrame(X, columns=NAMES).assign(y=y, qid=qid, weight=weight)


def keys_on_workers(client):
    return {key for keys in client.has_what().values() for key in keys}


def wait_until_nothing_is_left_but(client, kept):
    """Workers are told to forget after the client has gone on."""
    deadline = time.monotonic() + 60
    while not keys_on_workers(client) <= kept:
        assert time.monotonic() < deadline
        time.sleep(0.01)


# ---- the same model as on one machine ----

SOLVERS = [
    ("tree-tron", {"C": 0.1, "tol": 1e-8}),
    ("tree-tron", {"C": 5.0, "tol": 1e-8, "reduction": "mean", "method": "tron"}),
    ("tree-tron", {"C": 5.0, "reduction": "query-mean", "preconditioner": "diagonal"}),
    ("cutting-plane", {"C": 0.01, "tol": 1e-2}),
    ("cutting-plane", {"C": 1.0, "method": "smoothed-newton", "reduction": "mean"}),
    ("tree-tron", {"C": 0.1, "n_threads": 2}),
]


@pytest.mark.parametrize(("name", "params"), SOLVERS)
def test_the_model_is_that_of_one_machine(data, local, name, params):
    solver = make_solver(name, **params)
    here, there = solver.solve(local), solver.solve(data)
    assert there.status == here.status == "converged"
    assert there.n_iter == here.n_iter
    assert there.objective == pytest.approx(here.objective, rel=1e-8)
    assert there.model.predict(local.X) == pytest.approx(here.model.predict(local.X), abs=1e-8)
    assert len(there.history) == len(here.history)


def test_data_on_the_cluster_know_their_sizes(data, local):
    assert (data.n_samples, data.n_features, data.n_queries) == (N, D, local.n_queries)
    assert data.n_partitions == 4
    assert sum(data.sizes) == N
    assert data.weighted
    assert data.largest_squared_norm() == pytest.approx((local.X**2).sum(axis=1).max())
    assert sum(data.map(len_of)) == N


def len_of(data):
    return len(data.relevance)


def test_paths_ranges_callbacks_and_warm_starts_work_as_on_one_machine(data, local):
    solver = make_solver("tree-tron", tol=1e-6)
    here = rankplug.path(solver, local, [0.01, 0.1])
    there = rankplug.path(solver, data, [0.01, 0.1])
    assert [r.objective for r in there] == pytest.approx([r.objective for r in here], rel=1e-8)
    space, expected = solver.tuning_space(data)["C"], solver.tuning_space(local)["C"]
    assert (space.low, space.high) == pytest.approx((expected.low, expected.high))
    assert solver.set_params(C=0.1).solve(data, init=there[1]).n_iter == 0
    stopped = solver.solve(data, callback=lambda progress: progress.n_iter == 1)
    assert (stopped.status, stopped.n_iter) == ("stopped", 1)
    assert solver.solve(data, time_limit=1e-9).status == "time_limit"


def test_solvers_that_need_all_rows_say_so_and_which_do_not(data):
    available = {info.name for info in list_solvers() if info.available}
    suitable = data.suitable_solvers()
    assert {"cutting-plane", "tree-tron"} <= set(suitable)
    assert len(available - set(suitable)) > 5
    for name in available - set(suitable):
        with pytest.raises(DataError, match=f"{name} needs all rows .*; {', '.join(suitable)} do"):
            make_solver(name).solve(data)


# ---- what travels ----


def test_messages_do_not_depend_on_the_number_of_rows(client, arrays, monkeypatch):
    sent = []
    start = coordinator.Cluster.start

    def size(graph):
        from distributed.protocol import serialize

        plain = {str(i): task[-1] for i, task in enumerate(graph.values())}
        return len(graph), sum(len(frame) for frame in serialize(plain)[1])

    monkeypatch.setattr(
        coordinator.Cluster,
        "start",
        lambda self, graph, keys: sent.append(size(graph)) or start(self, graph, keys),
    )
    operations, results = [], []
    for copies in (1, 4):
        X, y, qid, _ = arrays
        many = [
            np.concatenate([X] * copies),
            np.concatenate([y] * copies),
            np.concatenate([qid + k * QUERIES for k in range(copies)]),
        ]
        with (
            ClusterData.from_collections(*cut(many, N * copies // 4), client=client) as data,
            open_pairs(data, "sum") as shards,
        ):
            loss = SquaredHinge(shards)
            sent.clear()
            home = [loss.move_to(np.ones(D)), loss.gradient(), loss.hessian_product(np.ones(D))]
            loss.start_direction()
            loss.extend_direction(1.0)
            home.append(loss.loss_along(1.0))
            loss.accept()
            home.append(loss.gradient())
            operations.append(list(sent))
            results.append([np.size(one) for one in home])
    assert operations[0] == operations[1]
    # The gradient comes with the loss; start_direction and extend_direction go with loss_along.
    assert len(operations[0]) == 3
    assert {n_tasks for n_tasks, _ in operations[0]} == {4}  # one a partition, added up here
    assert results == [[1, D, D, 1, D]] * 2


def test_partitions_stay_where_they_are_and_nothing_is_left(client, data):
    before, kept = client.who_has(list(data.partitions)), keys_on_workers(client)
    with data.open_pairs("sum", None) as shards:
        loss = SquaredHinge(shards)
        loss.move_to(None)
        for _ in range(5):
            loss.hessian_product(np.ones(D))
        assert shards.n_restored == 0
    assert client.who_has(list(data.partitions)) == before
    wait_until_nothing_is_left_but(client, kept)


def test_long_vectors_are_sent_once_a_worker(client, monkeypatch):
    monkeypatch.setattr(coordinator, "_LONG_MESSAGE", 0)
    X = da.from_array(np.array([[0.0], [1.0], [0.0], [2.0]]), chunks=(2, 1))
    y, qid = (da.from_array(np.array(v), chunks=2) for v in ([0, 1, 0, 1], [0, 0, 1, 1]))
    with (
        ClusterData.from_collections(X, y, qid, client=client) as data,
        open_pairs(data, "sum") as shards,
    ):
        assert SquaredHinge(shards).move_to(np.array([0.5])) == pytest.approx(0.25)


# ---- Ranker ----


def test_a_ranker_is_that_of_one_machine_for_tables_too(client, arrays, frame, tmp_path):
    table = dd.from_pandas(frame, npartitions=3)
    solver = make_solver("tree-tron", C=0.1, tol=1e-8)
    columns = {"qid": table.qid, "sample_weight": table.weight}
    ranker = Ranker(solver, client=client).fit(table[NAMES], table.y, **columns)
    one = rankplug.Ranker(solver).fit(
        frame[NAMES], frame.y, qid=frame.qid, sample_weight=frame.weight
    )
    assert ranker.feature_names_in_.tolist() == NAMES
    assert ranker.n_features_in_ == D
    assert ranker.result_.status == "converged"
    scores = ranker.predict(table[NAMES[::-1]])
    assert isinstance(scores, dd.Series)
    assert scores.npartitions == 3
    computed = scores.compute()
    assert computed.to_numpy() == pytest.approx(one.predict(frame[NAMES]), abs=1e-8)
    assert computed.index.tolist() == frame.index.tolist()
    assert ranker.predict(frame[NAMES]) == pytest.approx(computed.to_numpy())
    expected = one.score(frame[NAMES], frame.y, qid=frame.qid, sample_weight=frame.weight)
    assert ranker.score(table[NAMES], table.y, **columns) == pytest.approx(expected, rel=1e-9)
    ranker.model_.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    assert loaded.predict(frame[NAMES]) == pytest.approx(computed.to_numpy())
    with pytest.raises(DataError, match="missing feature columns: f5"):
        ranker.predict(table[NAMES[:5]])


def test_sparse_blocks_and_real_valued_relevance(client, arrays):
    X, y, qid, _ = arrays
    rows = da.from_array(X, chunks=(160, D)).map_blocks(sparse.csr_matrix)
    real = y - 0.5 * X[:, 0]
    ranker = Ranker(client=client)
    ranker.fit(rows, da.from_array(real, chunks=300), qid=da.from_array(qid, chunks=N))
    one = rankplug.Ranker().fit(sparse.csr_array(X), real, qid=qid)
    assert ranker.model_.coef == pytest.approx(one.model_.coef, abs=1e-8)
    found = ranker.score(rows, da.from_array(real, chunks=160), qid=da.from_array(qid, chunks=160))
    assert found == pytest.approx(one.score(X, real, qid=qid))


def test_scores_are_lazy_and_of_whole_rows(arrays, data, client):
    ranker = Ranker(client=client).fit(data)
    X = da.from_array(arrays[0], chunks=(100, 2))
    scores = ranker.predict(X)
    assert isinstance(scores, da.Array)
    assert scores.chunks == ((100,) * 6,)
    assert scores.compute() == pytest.approx(ranker.predict(arrays[0]))
    with pytest.raises(DataError, match="5 features, but the model is expecting 6"):
        ranker.predict(X[:, :5])
    filtered = dd.from_pandas(pd.DataFrame(arrays[0], columns=NAMES), npartitions=2)
    assert len(ranker.predict(filtered[filtered.f0 > 1e9])) == 0


@pytest.mark.parametrize("scale", ["none", "standard"])
def test_a_prepared_folder_is_mapped_by_the_workers(client, frame, tmp_path, scale):
    from rankplug.io import prepare

    frame.to_parquet(tmp_path / "rows.parquet")
    folder = prepare(
        tmp_path / "rows.parquet",
        tmp_path / "prepared",
        label="y",
        qid="qid",
        weight="weight",
        scale=scale,
        shard_bytes=4096,
        progress=False,
    )
    assert len(folder.shards) > 4
    solver = make_solver("tree-tron", C=0.1, tol=1e-8)
    ranker = Ranker(solver, client=client).fit(folder.path)
    expected = solver.solve(folder.data())
    assert ranker.result_.objective == pytest.approx(expected.objective, rel=1e-8)
    assert type(ranker.model_).__name__ == ("LinearModel" if scale == "none" else "ScaledModel")
    assert ranker.predict(frame[NAMES]) == pytest.approx(
        expected.model.predict(folder.data().X), abs=1e-7
    )
    assert 0 < ranker.score(folder) <= 1


def test_arrays_over_the_partitions(client, data, local):
    arrays = data.to_arrays()
    with client.as_current():
        X, y, qid, weight = dask.compute(*arrays)
    assert X.shape == (N, D)
    assert np.all(np.diff(qid) >= 0)
    again = RankingData.from_arrays(X, y, qid, sample_weight=weight)
    assert again.n_queries == local.n_queries
    assert np.array_equal(again.X, local.X)
    assert again.query_weight == pytest.approx(local.query_weight)


def some_queries(data, modulus):
    chosen = np.flatnonzero(data.query_ids % modulus == 0)
    return data.take_queries(chosen) if len(chosen) else None


def no_queries(data):
    return None


def test_data_can_be_transformed_where_they_are(data, local):
    with data.transform(some_queries, 2) as half:
        assert half.n_queries == np.sum(local.query_ids % 2 == 0)
        one = make_solver("tree-tron").solve(local.take_queries(np.arange(0, QUERIES, 2)))
        there = make_solver("tree-tron").solve(half)
        assert there.objective == pytest.approx(one.objective, rel=1e-8)
    with pytest.raises(DataError, match="no rows"):
        data.transform(no_queries)
    with pytest.raises(ClusterError, match="were closed"):
        half.map(ids_of)


# ---- queries and borders ----


def test_rows_of_queries_that_are_cut_come_together(client):
    qid = np.repeat(["b", "a", "c"], [5, 90, 5])
    X, y = np.arange(100.0)[:, None] / 100, np.arange(100) % 3
    many = ClusterData.from_collections(*cut([X, y, qid], 20), client=client)
    assert sorted(many.map(ids_of)) == [["b", "a"], ["c"]] or many.n_queries == 3
    assert many.n_samples == 100
    one = make_solver("tree-tron").solve(RankingData.from_arrays(X, y, qid))
    assert make_solver("tree-tron").solve(many).objective == pytest.approx(one.objective, rel=1e-8)
    many.close()


def ids_of(data):
    return data.query_ids.tolist()


def test_many_small_partitions_are_put_together(client, arrays, local):
    with ClusterData.from_collections(*cut(arrays, 20), client=client) as data:
        assert data.n_partitions <= 4
        assert data.n_queries == local.n_queries
        assert sorted(itertools.chain(*data.map(ids_of))) == local.query_ids.tolist()


def test_a_query_all_over_the_place_is_an_error_with_its_name(client, arrays):
    X, y, _, _ = arrays
    qid = np.tile(np.arange(100, 110), N // 10)
    with pytest.raises(DataError, match=r"query 10\d has rows in partitions \d and \d.*shuffle"):
        ClusterData.from_collections(*cut([X, y, qid]), client=client)


# ---- mistakes ----


def test_wrong_rows_are_told_with_their_partitions(client, arrays):
    X, y, qid, weight = (values.copy() for values in arrays)
    X[170, 2], y[340] = np.inf, np.inf
    with pytest.raises(DataError) as raised:
        ClusterData.from_collections(*cut([X, y, qid, weight]), client=client)
    lines = str(raised.value).splitlines()
    assert lines[0].startswith("partition 1: X contains infinity (inf) at row 10, column 2")
    assert lines[1].startswith("partition 2: relevance y contains inf")
    kept = keys_on_workers(client)
    weight[:] = np.arange(N)
    with pytest.raises(DataError, match="varies within query"):
        Ranker(client=client).fit(
            *cut(arrays)[:2], qid=cut(arrays)[2], sample_weight=cut([weight])[0]
        )
    wait_until_nothing_is_left_but(client, kept)


def wrong_inputs(arrays):
    X, y, qid, _ = arrays
    dX, dy, dqid = cut([X, y, qid])
    table = dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=4)
    return {
        "X must be a two-dimensional Dask": (X, dy, dqid),
        "y must be a Dask Array or Series": (dX, y, dqid),
        "y is missing": (dX, None, dqid),
        "qid is missing": (dX, dy, None),
        "X has 600 rows but qid has 599": (dX, dy, dqid[:-1]),
        "X has 4 partitions but y has 2": (table, da.from_array(y, chunks=300), dqid),
        "no preference pair in 600 samples": (dX, 0 * dy, dqid),
        "X has no rows": (table[table.f0 > 99], *[table.f0[table.f0 > 99]] * 2),
    }


def test_wrong_inputs_are_told(client, arrays):
    for message, (X, y, qid) in wrong_inputs(arrays).items():
        ranker = Ranker(client=client)
        with pytest.raises(DataError, match=message):
            ranker.fit(X, y, qid=qid)
        with pytest.raises(NotFittedError):
            ranker.predict(arrays[0])


def test_a_failed_fit_leaves_no_model(client, data, arrays):
    ranker = clone(Ranker("tree-tron", client=client)).fit(data)
    ranker.set_params(solver=make_solver("tree-tron", C=-1))
    with pytest.raises(ParameterError, match="C"):
        ranker.fit(data)
    with pytest.raises(NotFittedError):
        ranker.predict(arrays[0])


def test_what_is_no_client_is_told(data):
    with pytest.raises(ParameterError, match="leave them out"):
        Ranker().fit(data, y=[1])
    with pytest.raises(ParameterError, match=r"must be a distributed\.Client"):
        Ranker(client="tcp://nowhere:1").fit(*cut([np.zeros((2, 1)), np.zeros(2)]))
    with pytest.raises(ParameterError, match="timeout"):
        ClusterData.from_partitions(data.partitions, timeout=-1)
