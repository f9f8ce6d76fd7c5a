"""Features mapped from a file: the same solutions, and no copy of them."""

import json
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import rankplug
from rankplug import datasets
from rankplug.data import RankingData
from rankplug.data.arrays import csr_of_parts
from rankplug.exceptions import DataError
from rankplug.kernels import squared_norms
from rankplug.objectives import Rows, SquaredHinge
from rankplug.shards import open_shards
from rankplug.shards.composed import FetchedRows
from rankplug.shards.memory import MappedMemory, Memory, is_mapped

SOLVERS = {
    "tree-tron": {"C": 0.1},
    "tree-tron by tron": {"C": 0.1, "method": "tron"},
    "cutting-plane": {"C": 0.01},
    "smoothed": {"C": 0.01, "method": "smoothed-newton"},
    "toppush": {"lam": 0.01},
    "toppush with top_k": {"lam": 0.01, "top_k": 3},
    "toppush by apg": {"lam": 0.1, "method": "apg", "tol": 1e-3},
    "a2dm2": {"lam": 0.1, "max_iter": 60},
}
NAMES = {"smoothed": "cutting-plane"}
LAYOUTS = ["float64", "float32", "csr"]


@pytest.fixture
def small_parts(monkeypatch):
    """Several shards and parts of small data."""
    monkeypatch.setattr("rankplug.shards.local._SHARD_ELEMENTS", 700)
    monkeypatch.setattr("rankplug.objectives.top._PART_ELEMENTS", 700)


@pytest.fixture(scope="module")
def web_search():
    return datasets.load("web-search", n_queries=30, docs_per_query=20, n_features=20).train


def in_layout(data, layout):
    if layout == "csr":
        return replace(data, X=sparse.csr_array(np.where(data.X > 0.1, data.X, 0.0)))
    return replace(data, X=data.X.astype(layout))


def mapped(array, path):
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def mapped_data(data, folder):
    """The same data, their features in files that can only be read."""
    X = data.X
    if not sparse.issparse(X):
        return replace(data, X=mapped(X, folder / "features.npy"))
    names = ("data", "indices", "indptr")
    arrays = [mapped(getattr(X, name), folder / f"{name}.npy") for name in names]
    return replace(data, X=csr_of_parts(*arrays, X.shape[1]))


def solve(name, data):
    solver = rankplug.make_solver(NAMES.get(name, name.split()[0]), **SOLVERS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return solver.solve(data)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_find_the_same_as_in_memory(tmp_path, web_search, name, layout):
    data = in_layout(web_search, layout)
    expected, found = solve(name, data), solve(name, mapped_data(data, tmp_path))
    assert (found.status, found.n_iter) == (expected.status, expected.n_iter)
    assert found.objective == pytest.approx(expected.objective, rel=1e-12)
    np.testing.assert_allclose(found.model.coef, expected.model.coef, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["toppush", "toppush by apg", "a2dm2"])
def test_float32_features_are_summed_in_float64(web_search, name):
    data = in_layout(web_search, "float32")
    single, double = solve(name, data), solve(name, replace(data, X=data.X.astype(float)))
    assert single.objective == pytest.approx(double.objective, rel=1e-9)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_mapped_files_are_recognised_through_views(tmp_path, web_search, layout):
    data = in_layout(web_search, layout)
    assert not is_mapped(data.X)
    there = mapped_data(data, tmp_path)
    assert is_mapped(there.X)
    assert is_mapped(there.take_queries(range(3, 9)).X)
    if layout != "csr":
        # What scikit-learn makes of it.
        ranker = rankplug.Ranker("tree-tron").fit(there.X, there.relevance, qid=there.qid)
        expected = rankplug.Ranker("tree-tron").fit(data.X, data.relevance, qid=data.qid)
        np.testing.assert_array_equal(ranker.model_.coef, expected.model_.coef)
        assert is_mapped(RankingData.from_arrays(np.asarray(there.X), there.relevance).X)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_chosen_rows(web_search, layout):
    data = in_layout(web_search, layout)
    rng = np.random.default_rng(0)
    dense = np.asarray(data.X.toarray() if layout == "csr" else data.X, dtype=float)
    v = rng.normal(size=data.n_features)
    for chosen in (np.arange(data.n_samples), np.flatnonzero(rng.random(data.n_samples) < 0.6)):
        rows = Rows(data.X, chosen)
        u = rng.normal(size=rows.n_rows) * (rng.random(rows.n_rows) < 0.5)
        assert len(rows._parts) > 1
        np.testing.assert_allclose(rows.dot(v), dense[chosen] @ v, atol=1e-12)
        np.testing.assert_allclose(rows.transposed_dot(u), dense[chosen].T @ u, atol=1e-12)
        blocks = [block for _, block in rows.blocks()]
        stacked = sparse.vstack(blocks).toarray() if layout == "csr" else np.vstack(blocks)
        np.testing.assert_array_equal(stacked, dense[chosen])
        half = rows.take(np.arange(0, rows.n_rows, 2))
        np.testing.assert_allclose(half.dot(v), dense[chosen[::2]] @ v, atol=1e-12)
    none = rows.take(np.zeros(0, dtype=np.int64))
    assert none.dot(v).shape == (0,)
    assert not none.transposed_dot(np.zeros(0)).any()


@pytest.mark.parametrize("make", [Memory, MappedMemory])
def test_working_memory_is_zero_and_lies_where_it_should(make):
    memory = make()
    arrays = [memory.zeros(7, dtype=np.int32), memory.zeros((2, 3)), memory.zeros(2**23)]
    assert [array.shape for array in arrays] == [(7,), (2, 3), (2**23,)]
    assert [array.dtype for array in arrays] == [np.int32, np.float64, np.float64]
    assert not any(array.any() for array in arrays)
    assert [is_mapped(array) for array in arrays] == [make is MappedMemory] * 3
    arrays[0][:], arrays[1][:] = 1, 2.0
    assert arrays[0].sum() == 7
    assert arrays[1].sum() == 12.0


def test_shards_of_mapped_data_keep_their_numbers_in_a_file(tmp_path, web_search):
    for data, expected in ((web_search, False), (mapped_data(web_search, tmp_path), True)):
        with open_shards(data, np.ones(data.n_queries)) as shards:
            assert [is_mapped(shard.scores) for shard in shards.shards] == (
                [expected] * len(shards.shards)
            )


def test_no_room_for_working_memory_is_said(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rankplug.shards.memory.os.posix_fallocate", full, raising=False)
    with pytest.raises(DataError, match=r"working memory in .*No space left.*TMPDIR"):
        MappedMemory().zeros(3)


def test_nothing_is_left_in_the_temporary_folder(tmp_path, monkeypatch, web_search):
    (tmp_path / "data").mkdir()
    data = mapped_data(web_search, tmp_path / "data")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with open_shards(data, np.ones(data.n_queries)) as shards:
        assert all(is_mapped(shard.scores) for shard in shards.shards)
        assert list(temporary.iterdir()) == []


LIMITED = """
import json, resource, sys, warnings
import numpy as np
import rankplug
from rankplug.data import RankingData
folder, labels, solvers, share = sys.argv[1:]
load = lambda name: np.load(f"{folder}/{name}.npy", mmap_mode="r")
X = load("X")
data = RankingData(X, load(labels), np.array(load("ptr")), np.arange(len(load("ptr")) - 1))
warnings.simplefilter("ignore")

def solve(data):
    made = {name: rankplug.make_solver(name, **p) for name, p in json.loads(solvers).items()}
    return {name: solver.solve(data) for name, solver in made.items()}

solve(data.take_queries(range(20)))  # what is loaded and kept at first use is no copy
status = dict(line.split(":") for line in open("/proc/self/status"))
used = int(status["VmData"].split()[0]) * 1024
allowed = used + int(X.nbytes * float(share))
resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
try:
    np.zeros(X.size, X.dtype)
except MemoryError:
    pass
else:
    sys.exit("the limit does not work")
found = {name: [r.objective, r.model.coef.tolist()] for name, r in solve(data).items()}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Web search of 76 MB in files."""
    folder = tmp_path_factory.mktemp("large")
    data = datasets.load("web-search", n_queries=500, docs_per_query=140).train
    scores = data.X @ np.random.default_rng(0).normal(size=data.n_features)
    # A top that can be found, otherwise w = 0 is the best.
    top = (scores > np.quantile(scores, 0.9)).astype(float)
    arrays = {"X": data.X, "graded": data.relevance, "top": top, "ptr": data.query_ptr}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    labels = {"graded": data, "top": replace(data, relevance=top)}
    return labels, folder


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of private memory")
@pytest.mark.parametrize(
    ("labels", "solvers", "share"),
    [
        (
            "graded",
            # One thread, as the stacks of others would count.
            {
                "tree-tron": {"C": 0.1, "n_threads": 1},
                "cutting-plane": {"C": 1e-4, "n_threads": 1, "max_iter": 4},
            },
            0.1,
        ),
        (
            "top",
            {"toppush": {"lam": 1e-3, "max_iter": 5}, "a2dm2": {"lam": 1e-3, "max_iter": 10}},
            0.4,
        ),
    ],
    ids=["pairs", "top"],
)
def test_memory_is_a_share_of_the_data(large, labels, solvers, share):
    """Private memory beyond the interpreter's own is limited to a share of the features.

    Files that are mapped do not count, as the system can drop what it has read of them, and write
    out what was written. A copy of the features, in part or in whole, ends in a MemoryError.
    """
    data, folder = large[0][labels], large[1]
    options = [str(folder), labels, json.dumps(solvers), str(share)]
    command = [sys.executable, "-c", LIMITED, *options]
    environment = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name, params in solvers.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = rankplug.make_solver(name, **params).solve(data)
        assert expected.model.coef.any()
        objective, coef = found[name]
        assert objective == pytest.approx(expected.objective, rel=1e-10)
        np.testing.assert_allclose(coef, expected.model.coef, atol=1e-10)


def test_ranges_and_pair_counts_take_little_memory(monkeypatch, web_search):
    monkeypatch.setattr("rankplug.data.ranking._ROWS_AT_ONCE", 50)
    monkeypatch.setattr("rankplug.kernels._ELEMENTS_AT_ONCE", 300)
    for layout in LAYOUTS:
        data = in_layout(web_search, layout)
        counts = [
            int(np.sum(data.relevance[b:e] > data.relevance[b:e, None]))
            for b, e in zip(data.query_ptr, data.query_ptr[1:], strict=False)
        ]
        np.testing.assert_array_equal(replace(data).pair_counts, counts)
        dense = np.asarray(data.X.toarray() if layout == "csr" else data.X, dtype=float)
        np.testing.assert_allclose(squared_norms(data.X), (dense**2).sum(axis=1), rtol=1e-12)


@pytest.mark.usefixtures("small_parts")
def test_weights_of_mapped_rows_are_those_in_memory(web_search, tmp_path):
    weight = np.linspace(0.0, 2.0, web_search.n_samples)
    data = web_search.with_facts(document_weight=weight)
    in_file = mapped_data(web_search, tmp_path).with_facts(document_weight=weight)
    weighting = {"pair_weight": "gain", "document_pairs": "product"}
    solver = rankplug.make_solver("tree-tron", C=1e-3, **weighting)
    expected = solver.solve(data).model.coef
    np.testing.assert_array_equal(solver.solve(in_file).model.coef, expected)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_threads_fetch_in_turn(web_search, tmp_path, layout):
    data = in_layout(web_search, layout)
    weight, v = np.ones(data.n_queries), np.linspace(-1, 1, data.n_features)

    def product(shards):
        loss = SquaredHinge(shards)
        return loss.move_to(v), loss.gradient(), loss.hessian_product(v), loss.hessian_diagonal()

    with open_shards(data, weight, 2) as shards:
        assert not any(isinstance(shard.matrix, FetchedRows) for shard in shards.shards)
        expected = product(shards)
    in_file = mapped_data(data, tmp_path)
    with open_shards(in_file, weight, 2) as shards, ThreadPoolExecutor(1) as elsewhere:
        (turn,) = {shard.matrix._turn for shard in shards.shards}
        with turn:
            later = elsewhere.submit(product, shards)
            with pytest.raises(TimeoutError):
                later.result(timeout=0.2)
        for found, one in zip(later.result(timeout=60), expected, strict=True):
            np.testing.assert_array_equal(found, one)
