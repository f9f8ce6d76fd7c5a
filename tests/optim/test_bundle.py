"""The bundle method and its quadratic program on losses that have nothing to do with ranking."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from rankplug.optim import bundle
from rankplug.optim.bracket import Bracket
from rankplug.optim.bundle import Planes, bundle_method
from rankplug.optim.simplex_qp import maximise_on_simplex


class HingeSum:
    """sum max(0, 1 - X w), written as plainly as possible."""

    def __init__(self, X):
        self.X = X
        self.n_columns = X.shape[1]
        self.n_passes = 0.0

    def value(self, scores):
        return float(np.sum(np.maximum(0, 1 - scores)))

    def subgradient(self, scores):
        return -(scores < 1).astype(float)

    def move_to(self, w):
        self.n_passes += w is not None
        self.scores = np.zeros(len(self.X)) if w is None else self.X @ w
        return self.value(self.scores)

    def gradient(self):
        self.n_passes += 1
        return self.X.T @ self.subgradient(self.scores)

    def aim_at(self, w):
        self.n_passes += 1
        self.direction = self.X @ w - self.scores

    def slope(self):
        return float(self.subgradient(self.scores) @ self.direction)

    def loss_along(self, step):
        self.tried = self.scores + step * self.direction
        return self.value(self.tried)

    def slope_along(self):
        return float(self.subgradient(self.tried) @ self.direction)

    def gradient_along(self):
        self.n_passes += 1
        return self.X.T @ self.subgradient(self.tried)

    def accept(self):
        self.scores = self.tried


def some_features():
    return np.random.default_rng(0).normal(size=(60, 6)) * np.logspace(-1, 0.5, 6) + 0.3


def objective(X, C, w):
    return 0.5 * w @ w + C * np.maximum(0, 1 - X @ w).sum()


@functools.cache
def minimum(C):
    """Of the problem of the fixture, by the dual: a box-constrained smooth problem."""
    X = some_features()
    found = optimize.minimize(
        lambda a: (0.5 * np.sum((X.T @ a) ** 2) - a.sum(), X @ (X.T @ a) - 1),
        np.full(len(X), 0.5 * C),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, C)] * len(X),
        options={"ftol": 1e-15, "gtol": 1e-12, "maxiter": 20_000, "maxfun": 200_000},
    )
    return -found.fun


def solve(X, C, method="ocas", planes=None, w=None, tol=1e-6, max_iter=2000, report=None):
    report = report or (lambda *_, **__: True)
    planes = Planes(X.shape[1]) if planes is None else planes
    limits = {"tol": tol, "max_iter": max_iter, "report": report}
    return bundle_method(HingeSum(X), C, planes, w, method=method, **limits)


@pytest.fixture(name="X")
def features():
    return some_features()


@pytest.fixture(name="many_kinks")
def many_rows():
    return np.random.default_rng(1).normal(size=(5000, 20)) + 0.1


METHODS = ["ocas", "bmrm"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("C", [1e-6, 1e-3, 0.1, 10.0])
def test_brackets_the_minimum(X, C, method):
    found = solve(X, C, method, tol=1e-5, max_iter=20_000)
    bracket, expected = found.bracket, minimum(C)
    assert found.status == "converged"
    assert bracket.objective == pytest.approx(objective(X, C, bracket.w), rel=1e-12)
    assert bracket.lower_bound <= expected * (1 + 1e-7)
    assert expected <= bracket.objective * (1 + 1e-7)
    assert bracket.objective - bracket.lower_bound <= 1e-5 * bracket.objective


@pytest.mark.parametrize("method", METHODS)
def test_bounds_are_monotone(X, method):
    seen = []
    solve(X, 1.0, method, report=lambda n, **values: seen.append(values) or True)
    objectives = [row["objective"] for row in seen]
    bounds = [row["objective"] - row["duality_gap"] for row in seen]
    assert len(seen) > 3
    assert np.all(np.diff(objectives) <= 0)
    assert np.all(np.diff(bounds) >= -1e-9 * objectives[0])


def test_the_line_search_saves_planes(many_kinks):
    ocas, bmrm = (solve(many_kinks, 0.1, method, tol=1e-3) for method in METHODS)
    assert ocas.n_iter < 0.5 * bmrm.n_iter


def test_the_line_search_reads_no_features(X):
    """Two passes an iteration: the scores of the model's minimum, and a subgradient."""
    passes = []
    solve(X, 1.0, "ocas", report=lambda n, n_passes, **_: passes.append(n_passes) or True)
    np.testing.assert_array_equal(np.diff(passes), 2)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("patience", [0, 3])
def test_dropping_planes_keeps_convergence(X, method, patience, monkeypatch):
    monkeypatch.setattr(bundle, "_PATIENCE", patience)
    planes = Planes(X.shape[1])
    found = solve(X, 1.0, method, planes, tol=1e-5, max_iter=20_000)
    assert found.status == "converged"
    assert len(planes) < found.n_iter
    assert found.bracket.objective == pytest.approx(minimum(1.0), rel=1e-4)


def test_planes_of_another_problem_are_bounds(X):
    planes, w = Planes(X.shape[1]), None
    for C in (0.01, 0.1, 0.001):
        found = solve(X, C, planes=planes, w=w, tol=1e-4)
        w = found.bracket.w
        assert found.status == "converged"
        assert found.bracket.lower_bound <= minimum(C) * (1 + 1e-7)
        assert found.bracket.objective == pytest.approx(minimum(C), rel=2e-4)


def test_planes_of_another_problem_save_iterations(many_kinks):
    planes, w, warm, cold = Planes(20), None, 0, 0
    for C in (0.01, 0.02, 0.04, 0.08):
        found = solve(many_kinks, C, planes=planes, w=w, tol=1e-3)
        w = found.bracket.w
        warm += found.n_iter
        cold += solve(many_kinks, C, tol=1e-3).n_iter
    assert warm < 0.7 * cold


@pytest.mark.parametrize("method", METHODS)
def test_limits(X, method):
    assert solve(X, 1.0, method, max_iter=2).status == "max_iter"
    stopped = solve(X, 1.0, method, report=lambda n, **_: n < 1)
    assert (stopped.status, stopped.n_iter) == ("stopped", 1)


@pytest.mark.parametrize("method", METHODS)
def test_an_impossible_tolerance_ends(X, method):
    found = solve(X, 1.0, method, tol=1e-300)
    assert found.status in ("stopped", "max_iter", "converged")
    assert found.bracket.gap <= 1e-6 * found.bracket.objective


def test_overflow_is_an_error(X):
    with np.errstate(all="ignore"), pytest.raises(FloatingPointError):
        solve(X * 1e200, 1.0)


def test_bracket():
    bracket = Bracket(np.zeros(1))
    assert bracket.gap == np.inf
    bracket.offer(np.ones(1), 4.0)
    bracket.offer(np.full(1, 2.0), 5.0)
    bracket.raise_bound(3.0)
    bracket.raise_bound(2.0)
    assert (bracket.w, bracket.objective, bracket.gap) == (1.0, 4.0, 1.0)
    assert bracket.relative_gap == 0.25


@st.composite
def programs(draw):
    """Of low rank, with duplicates, and of very different scales."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, rank = draw(st.integers(1, 25)), draw(st.integers(0, 8))
    points = rng.normal(size=(n, rank)) * draw(st.sampled_from([1e-4, 1.0, 1e5]))
    points[n // 2 :] = points[: n - n // 2]
    b = rng.normal(size=n) * draw(st.sampled_from([0.0, 1.0, 1e3]))
    start = rng.random(n) * (rng.random(n) < 0.5)
    start[0] += 1
    return points @ points.T, b, start / start.sum()


@settings(max_examples=300)
@given(programs())
def test_simplex_program(program):
    """Feasible, and no feasible direction ascends: the gradient is largest on the support."""
    H, b, start = program
    kept = start.copy()
    a = maximise_on_simplex(H, b, start, tol=0.0)
    np.testing.assert_array_equal(start, kept)
    assert a.min() >= 0
    assert a.sum() == pytest.approx(1)
    gradient = b - H @ a
    scale = np.abs(b).max() + np.abs(H).max() + 1e-300
    assert gradient.max() - a @ gradient <= 1e-7 * scale


def test_simplex_program_stops_at_its_tolerance():
    H, b = np.eye(3), np.array([1.0, 0.9, 0.0])
    start = np.array([1.0, 0, 0])
    np.testing.assert_array_equal(maximise_on_simplex(H, b, start, tol=2.0), start)
    np.testing.assert_allclose(
        maximise_on_simplex(H, b, start, tol=0.0), [0.55, 0.45, 0], atol=1e-12
    )
