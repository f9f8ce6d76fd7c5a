"""Features in blocks of columns: products, rows and solutions as those of the same CSR matrix."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

import rankplug
from rankplug.data import JoinedMatrix, OneHotMatrix, RankingData
from rankplug.exceptions import DataError
from rankplug.objectives import SquaredHinge
from rankplug.shards import local, open_shards, pair_weights
from rankplug.shards.base import Shard


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def onehot(rng, n, sizes):
    codes = np.column_stack([rng.integers(0, size, n) for size in sizes])
    return OneHotMatrix(codes, np.cumsum([0, *sizes]))


def joined(rng, n=60):
    dense, thin = rng.normal(size=(n, 4)), sparse.random_array((n, 7), density=0.2, rng=rng)
    return JoinedMatrix([onehot(rng, n, (3, 8, 1, 5, 2)), dense, thin.tocsr()], [0.5, 2.0, 1.0])


@pytest.mark.parametrize("sizes", [(4,), (3, 8, 1, 5, 2), (2, 70_000)])
def test_one_hot_products(rng, sizes):
    X = onehot(rng, 40, sizes)
    assert X.codes.dtype == (np.uint16 if max(sizes) < 2**16 else np.uint32)
    dense = X.tocsr().toarray()
    assert (dense.sum(axis=1) == len(sizes)).all()
    v = rng.normal(size=X.shape[1])
    np.testing.assert_allclose(X @ v, dense @ v, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(X[[3, 1]].tocsr().toarray(), dense[[3, 1]])


def test_a_code_beyond_its_group_is_refused():
    with pytest.raises(DataError, match="beyond the columns of its group"):
        OneHotMatrix(np.array([[0, 2]]), np.array([0, 1, 3]))


def test_joined_products(rng):
    X = joined(rng)
    dense = X.toarray()
    v = rng.normal(size=X.shape[1])
    np.testing.assert_allclose(X @ v, dense @ v, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(X[np.arange(5, 9)].toarray(), dense[5:9])
    assert 0 < X.nbytes < dense.nbytes


@pytest.mark.parametrize("kind", ["one-hot", "joined"])
def test_shards_of_blocks_work_as_those_of_csr(rng, kind):
    X = joined(rng) if kind == "joined" else JoinedMatrix([onehot(rng, 60, (3, 8, 1, 5, 2))])
    plain = RankingData.from_arrays(X.tocsr(), rng.integers(0, 4, 60), np.repeat(np.arange(6), 10))
    blocks = dataclasses.replace(plain, X=X)
    found = []
    for data in (plain, blocks):
        with open_shards(data, pair_weights(data, "sum"), 1) as shards:
            loss = SquaredHinge(shards)
            w = np.linspace(-1, 1, X.shape[1])
            found.append(
                [
                    loss.move_to(w),
                    loss.gradient(),
                    loss.hessian_product(np.cos(w)),
                    loss.hessian_diagonal(),
                    np.tril(loss.hessian_gram()),
                    shards.sum(Shard.hinge),
                ]
            )
    for of_csr, of_blocks in zip(*found, strict=True):
        np.testing.assert_allclose(of_blocks, of_csr, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("solver", ["tree-tron", "cutting-plane"])
@pytest.mark.parametrize("preconditioner", ["cholesky", "diagonal"])
def test_solvers_take_blocks(rng, solver, preconditioner):
    X = joined(rng)
    plain = RankingData.from_arrays(X.tocsr(), rng.integers(0, 4, 60), np.repeat(np.arange(6), 10))
    blocks = dataclasses.replace(plain, X=X)
    solver = rankplug.make_solver(solver, C=0.1, tol=1e-6, preconditioner=preconditioner)
    expected, found = solver.solve(plain), solver.solve(blocks)
    assert found.status == "converged"
    assert found.objective == pytest.approx(expected.objective, rel=1e-5)
    np.testing.assert_allclose(found.model.coef, expected.model.coef, rtol=1e-2, atol=1e-4)
    np.testing.assert_allclose(
        found.model.predict(X), found.model.predict(X.tocsr()), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("kind", ["dense", "float32", "sparse", "joined"])
def test_threads_share_the_rows_of_one_long_query(rng, kind, monkeypatch):
    """With the same sums whatever their number, close to those of the rows as a whole."""
    X = joined(rng, 300) if kind == "joined" else rng.normal(size=(300, 6))
    X = {"float32": np.float32, "sparse": sparse.csr_array}.get(kind, lambda X: X)(X)
    one = np.zeros((300, 1))
    data = RankingData.from_arrays(one, rng.normal(size=300), np.zeros(300))
    data = dataclasses.replace(data, X=X, feature_names=None)
    w = np.linspace(-1, 1, X.shape[1])

    def values(n_threads):
        with open_shards(data, pair_weights(data, "sum"), n_threads) as shards:
            loss = SquaredHinge(shards)
            return [
                loss.move_to(w),
                loss.gradient(),
                loss.hessian_product(np.cos(w)),
                loss.hessian_diagonal(),
                np.tril(loss.hessian_gram()),
            ], shards.shards[0].matrix

    whole, _ = values(2)
    monkeypatch.setattr(local, "_SHARD_ELEMENTS", 1000)
    monkeypatch.setattr(local, "_RUN_ELEMENTS", 300)
    found = {n_threads: values(n_threads) for n_threads in (1, 2, 5)}
    assert all(len(matrix._runs) > 2 for _, matrix in found.values())
    for n_threads, (several, _) in found.items():
        for of_whole, of_runs, of_one in zip(whole, several, found[1][0], strict=True):
            rtol = 1e-6 if kind == "float32" else 1e-9  # of the product with the Hessian
            np.testing.assert_allclose(of_runs, of_whole, rtol=rtol, atol=1e-9)
            np.testing.assert_array_equal(of_runs, of_one, err_msg=str(n_threads))


def test_a_long_query_is_solved_alike_by_any_number_of_threads(rng):
    X = rng.normal(size=(40_000, 60))  # more elements than one thread is given at once
    y = X[:, 0] + rng.normal(size=len(X))
    solver = rankplug.make_solver("tree-tron", C=1e-8)
    one, two = (
        rankplug.Ranker(solver.set_params(n_threads=n)).fit(X, y, qid=np.zeros(len(X))).result_
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one.model.coef, two.model.coef)
