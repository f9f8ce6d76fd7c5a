"""Gradients by Hessian products and the rows whose pairs change, beside those read from X."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from rankplug import make_solver
from rankplug.data import JoinedMatrix, OneHotMatrix, RankingData
from rankplug.objectives import SmoothedHinge, SquaredHinge, squared_hinge_objective
from rankplug.optim import newton_cg
from rankplug.optim.newton_cg import point_after
from rankplug.shards import UNIFORM, PairWeighting, Shard, local, open_shards, pair_weights
from rankplug.shards.composed import rows_of


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch):
    monkeypatch.setattr(local, "_MANY_ELEMENTS", 0)


KINDS = ["float64", "float32", "csr", "one-hot", "joined"]


def features(kind, rng, n):
    if kind == "one-hot":
        return OneHotMatrix(rng.integers(0, 4, (n, 3)).astype(np.uint16), np.array([0, 4, 8, 12]))
    if kind == "joined":
        return JoinedMatrix((features("csr", rng, n), features("one-hot", rng, n)), (0.5, 2.0))
    X = rng.normal(size=(n, 6)) * (rng.random((n, 6)) < 0.7)
    return sparse.csr_array(X) if kind == "csr" else X.astype(kind)


def queries(kind="float64", seed=0, n_queries=12):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, n_queries)
    n = int(sizes.sum())
    qid = np.repeat(np.arange(n_queries), sizes)
    data = RankingData.from_arrays(np.zeros((n, 1)), rng.integers(0, 4, n), qid)
    X = features(kind, rng, n)
    return replace(data, X=JoinedMatrix((X,), (1.0,)) if kind == "one-hot" else X)


def step_along(loss, rng, lengths, size):
    """Walk along a direction made of two products, to the last of some steps along it."""
    loss.start_direction()
    for share in rng.normal(size=2):
        loss.hessian_product(size * rng.normal(size=loss.n_columns))
        loss.extend_direction(share)
    for length in lengths:
        loss.loss_along(length)
    loss.accept()


def open_all(data, weighting=UNIFORM):
    return open_shards(data, pair_weights(data, "sum", weighting=weighting), 1, weighting)


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # a constant
@given(
    seed=st.integers(0, 2**32 - 1),
    make=st.sampled_from([SquaredHinge, SmoothedHinge]),
    weight=st.sampled_from(["uniform", "gain"]),
    lengths=st.sampled_from([(1.0,), (1.0, 0.5, 0.25)]),
    size=st.sampled_from([1e-6, 0.01, 0.1, 1.0]),
    elements=st.sampled_from([30, 2**20]),
)
def test_an_updated_gradient_is_the_gradient(kind, seed, make, weight, lengths, size, elements):
    rng = np.random.default_rng(seed)
    data, weighting = queries(kind, seed), PairWeighting(pair_weight=weight)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_SHARD_ELEMENTS", elements)
        with open_all(data, weighting) as shards:
            loss = make(shards)
            loss.move_to(rng.normal(size=loss.n_columns))
            loss.gradient()
            for _ in range(3):
                step_along(loss, rng, lengths, size)
                passes = loss.n_passes
                updated = loss.updated_gradient()
                read = loss.n_passes - passes
                exact = shards.sum(Shard.gradient) * loss.factor
                if updated is None:
                    loss.gradient()
                    continue
                assert 0.0 <= read <= 0.7 + 1e-9
                largest = max(np.abs(exact).max(), 1.0)
                np.testing.assert_allclose(
                    updated[0], exact, rtol=0, atol=20 * updated[1] + 1e-10 * largest
                )


def test_rows_whose_pairs_stay_are_not_read():
    data = queries(n_queries=200)
    with open_all(data) as shards:
        loss = SquaredHinge(shards)
        rng = np.random.default_rng(1)
        loss.move_to(rng.normal(size=6))
        loss.gradient()
        read = []
        for size in (1e-9, 0.1):
            step_along(loss, rng, (1.0,), size)
            passes = loss.n_passes
            gradient, error = loss.updated_gradient()
            read.append(loss.n_passes - passes)
            np.testing.assert_allclose(gradient, 2.0 * shards.sum(Shard.gradient), atol=1e-9)
            assert error < 1e-9
        assert read[0] == 0.0 < read[1] < 0.5


def test_heavy_queries_do_not_hide_what_changes_in_others():
    """Weights of queries that differ by 1e12, and a step that matters to the light ones only."""
    data = queries(n_queries=200)
    weight = np.ones(200)
    weight[0] = 1e12
    X = data.X.copy()
    X[data.query_ptr[0] : data.query_ptr[1]] = 0.0
    data = replace(data, X=X)
    rng = np.random.default_rng(3)
    with open_shards(data, weight, 1) as shards:
        loss = SquaredHinge(shards)
        loss.move_to(rng.normal(size=6))
        loss.gradient()
        step_along(loss, rng, (1.0,), 1e-2)
        gradient, _ = loss.updated_gradient()
        np.testing.assert_allclose(gradient, 2.0 * shards.sum(Shard.gradient), rtol=1e-9)


def test_what_is_not_known_is_not_updated():
    data = queries(n_queries=200)
    rng = np.random.default_rng(2)
    with open_all(data) as shards:
        loss = SquaredHinge(shards)
        loss.move_to(None)
        step_along(loss, rng, (1.0,), 1e-9)
        assert loss.updated_gradient() is None, "no gradient to start from"
        loss.gradient()
        step_along(loss, rng, (1.0,), 10.0)
        assert loss.updated_gradient() is None, "most rows have other pairs"
        loss.gradient()
        loss.aim_at(np.zeros(6))
        loss.loss_along(1e-9)
        loss.accept()
        assert loss.updated_gradient() is None, "a direction of no products"
        smooth = SmoothedHinge(shards)
        smooth.move_to(None)
        smooth.gradient()
        smooth.narrow(0.5)
        step_along(smooth, rng, (1.0,), 1e-9)
        assert smooth.updated_gradient() is None, "of another loss"


class Updating:
    """A loss whose gradient is 1, or 2 as updated, with an error."""

    def __init__(self, error):
        self.error = error

    def updated_gradient(self):
        return None if self.error is None else (np.full(1, 2.0), self.error)

    def gradient(self):
        return np.ones(1)


@pytest.mark.parametrize(("error", "expected"), [(0.0, 2.0), (1e-9, 2.0), (0.1, 1.0), (None, 1.0)])
def test_what_rounding_errors_may_change_is_read(error, expected):
    assert point_after(Updating(error), 1.0, np.zeros(1), 0.0).loss_gradient == expected


def test_float32_products_do_not_spoil_a_certificate():
    """The gap that is told is the one of the weights found, to the digits that tol asks for."""
    data = queries("float32", n_queries=400)
    data = replace(data, X=np.ascontiguousarray(data.X * np.array([1, 1, 1, 1, 50, 0.02], "f4")))
    for tol in (1e-3, 1e-8):
        result = make_solver("tree-tron", C=1.0, tol=tol, n_threads=1).solve(data)
        value, gradient = squared_hinge_objective(data, result.model.coef, 1.0)
        assert result.status == "converged"
        assert result.objective == pytest.approx(value, rel=1e-9)
        gap = 0.5 * gradient @ gradient
        assert gap <= tol * value
        assert result.duality_gap == pytest.approx(gap, rel=0.02, abs=1e-12 * value)


def test_passes_of_a_solution_are_fewer(monkeypatch):
    data = queries(n_queries=400)

    def n_passes():
        result = make_solver("tree-tron", C=0.1, tol=1e-6, n_threads=1).solve(data)
        return result.n_passes, result.objective

    updated = n_passes()
    monkeypatch.setattr(newton_cg, "_CERTAIN", -1.0)
    monkeypatch.setattr(SquaredHinge, "updated_gradient", lambda self: None)
    read = n_passes()
    assert updated[0] < read[0] - 1
    assert updated[1] == pytest.approx(read[1], rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 3, 700])
def test_products_with_chosen_rows(kind, n):
    rng = np.random.default_rng(n)
    X = features(kind, rng, n)
    matrix = rows_of(X)
    dense = X if isinstance(X, np.ndarray) else X.toarray()
    for share in (0.0, 0.1, 1.0):
        rows = np.flatnonzero(rng.random(n) < share)
        if len(rows) == 0:
            rows = np.array([n - 1])
        u = rng.normal(size=len(rows))
        np.testing.assert_allclose(
            matrix.picked_transposed_dot(rows, u), dense[rows].T @ u, atol=1e-5 * len(rows)
        )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # a constant
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.1, 1e3, 1e8]))
def test_the_limit_of_rounding_errors_is_one(seed, size):
    data = queries(seed=seed)
    with open_all(data) as shards:
        SquaredHinge(shards).move_to(size * np.random.default_rng(seed).normal(size=6))
        exact = shards.sum(Shard.rounding)
        assert exact <= shards.sum(Shard.rounding_limit) * (1 + 1e-12)
    with open_all(data, PairWeighting(pair_weight="gain")) as shards:
        SquaredHinge(shards).move_to(None)
        assert shards.sum(Shard.rounding_limit) == np.inf
