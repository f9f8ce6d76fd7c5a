"""The optimisers on a loss that has nothing to do with ranking."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from rankplug.optim import newton_cg as newton_cg_module
from rankplug.optim import preconditioners
from rankplug.optim.newton_cg import Point, newton_cg
from rankplug.optim.preconditioners import make_preconditioner
from rankplug.optim.tron import tron
from rankplug.optim.vectors import inner, norm2


class LogisticLoss:
    """sum log(1 + exp(-X w)), written as plainly as possible."""

    has_gram = True

    def __init__(self, X):
        self.X = X
        self.n_rows, self.n_columns = X.shape
        self.n_elements = X.size
        self.n_passes = 0.0

    def value(self, scores):
        return float(np.sum(np.logaddexp(0, -scores)))

    def move_to(self, w):
        self.scores = np.zeros(len(self.X)) if w is None else self.X @ w
        return self.value(self.scores)

    def gradient(self):
        self.n_passes += 1
        return -self.X.T @ (1 / (1 + np.exp(self.scores)))

    def curvature(self):
        p = 1 / (1 + np.exp(-self.scores))
        return p * (1 - p)

    def hessian_product(self, v):
        self.n_passes += 1
        self.product = self.X @ v
        return self.X.T @ (self.curvature() * self.product)

    def hessian_diagonal(self):
        return self.curvature() @ self.X**2

    def hessian_gram(self):
        return self.X.T @ (self.curvature()[:, None] * self.X)

    def start_direction(self):
        self.direction = np.zeros(len(self.X))

    def extend_direction(self, step):
        self.direction += step * self.product

    def aim_at(self, w):
        self.n_passes += 1
        self.direction = self.X @ w - self.scores

    def loss_along(self, step):
        self.tried = self.scores + step * self.direction
        return self.value(self.tried)

    def accept(self):
        self.scores = self.tried

    def updated_gradient(self):
        return None


@pytest.fixture(autouse=True)
def approximations_at_once(monkeypatch):
    """Of rank 3, though so small a Hessian is worth none."""
    monkeypatch.setattr(preconditioners, "_RANK", 3)
    monkeypatch.setattr(preconditioners, "_LEAST_RANK", 1)
    monkeypatch.setattr(preconditioners, "_WORTH_RANKS", 0)


@pytest.fixture(name="X")
def features():
    rng = np.random.default_rng(0)
    return rng.normal(size=(80, 7)) * np.logspace(-2, 2, 7) + 0.3


def solve(X, C, method, w=None, tol=1e-9, max_iter=1000, report=lambda *_, **__: True):
    loss = LogisticLoss(X)
    value = loss.move_to(w)
    start = Point(np.zeros(X.shape[1]) if w is None else w, value, loss.gradient())
    limits = {"gradient_tol": tol * C, "max_iter": max_iter, "report": report}
    if method == "tron":
        return tron(loss, C, start, **limits)
    preconditioner = make_preconditioner(method, loss)
    return newton_cg(loss, C, start, preconditioner=preconditioner, **limits)


METHODS = ["tron", "none", "diagonal", "nystrom", "cholesky", "auto"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e3])
def test_reaches_the_minimum(X, C, method):
    found = solve(X, C, method)
    expected = optimize.minimize(
        lambda w: (
            0.5 * w @ w + C * np.sum(np.logaddexp(0, -X @ w)),
            w - C * X.T @ (1 / (1 + np.exp(X @ w))),
        ),
        np.zeros(7),
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-12, "maxiter": 5000},
    )
    assert found.status in ("converged", "stopped")
    assert found.point.objective(C) <= expected.fun * (1 + 1e-9)
    assert np.linalg.norm(found.point.gradient(C)) <= 1e-6 * C * np.linalg.norm(X)


@pytest.mark.parametrize("method", METHODS)
def test_objective_never_rises(X, method):
    values = []
    solve(X, 10.0, method, report=lambda n, objective, **_: values.append(objective) or True)
    assert len(values) > 2
    assert np.all(np.diff(values) <= 1e-12 * values[0])


@pytest.mark.parametrize("method", METHODS)
def test_starts_where_it_is_told(X, method):
    first = solve(X, 1.0, method)
    again = solve(X, 1.0, method, w=first.point.w, tol=1e-6)
    assert again.n_iter == 0
    np.testing.assert_array_equal(again.point.w, first.point.w)


@pytest.mark.parametrize("method", ["tron", "auto"])
def test_limits(X, method):
    assert solve(X, 1.0, method, max_iter=2).status == "max_iter"
    stopped = solve(X, 1.0, method, report=lambda n, **_: n < 1)
    assert (stopped.status, stopped.n_iter) == ("stopped", 1)


@pytest.mark.parametrize("method", ["tron", "cholesky", "none"])
def test_an_impossible_tolerance_ends_in_stopped_or_max_iter(X, method):
    found = solve(X, 1.0, method, tol=1e-300, max_iter=200)
    assert found.status in ("stopped", "max_iter", "converged")
    assert np.linalg.norm(found.point.gradient(1.0)) < 1e-8


def test_preconditioning_saves_products(X):
    products = {}
    for method in ("none", "cholesky"):
        passes = []
        solve(
            X, 1.0, method, report=lambda n, n_passes, seen=passes, **_: seen.append(n_passes) or 1
        )
        products[method] = passes[-1]
    assert products["cholesky"] < 0.7 * products["none"]


@given(seed=st.integers(0, 10_000), n_steps=st.integers(1, 30))
def test_means_of_iterates_have_the_least_residual_so_far(seed, n_steps):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(6, 6)) * np.logspace(-2, 2, 6)
    A, b = A.T @ A + np.eye(6), rng.normal(size=6)
    mean, residual, least = np.zeros(6), b.copy(), np.linalg.norm(b)
    for p in rng.normal(size=(n_steps, 6)) * rng.choice([0.0, 1e-6, 1.0], size=(n_steps, 1)):
        newton_cg_module._smooth(mean, residual, p, b - A @ p)
        least = min(least, np.linalg.norm(b - A @ p))
        assert np.linalg.norm(residual) <= least * (1 + 1e-9)
        np.testing.assert_allclose(residual, b - A @ mean, rtol=1e-6, atol=1e-6 * np.abs(A).max())


def test_a_mean_of_iterates_ends_long_directions():
    """Its residual is small sooner, and its scores are read from the features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40)) @ np.diag(np.logspace(-2, 2, 40)) @ rng.normal(size=(40, 40))
    aims = []

    class Loss(LogisticLoss):
        def aim_at(self, w):
            aims.append(w)
            super().aim_at(w)

    loss = Loss(X / 100)
    start = Point(np.zeros(40), loss.move_to(None), loss.gradient())
    tol = 1e-2 * np.linalg.norm(start.loss_gradient)
    found = newton_cg(
        loss,
        1.0,
        start,
        gradient_tol=tol,
        max_iter=100,
        preconditioner=make_preconditioner("none", loss),
        report=lambda *_, **__: True,
    )
    assert found.status == "converged"
    assert aims
    np.testing.assert_allclose(loss.scores, loss.X @ found.point.w, rtol=1e-9, atol=1e-9)
    assert np.linalg.norm(found.point.w - loss.X.T @ (1 / (1 + np.exp(loss.scores)))) <= tol


@given(n=st.integers(1, 40_000), seed=st.integers(0, 100))
def test_inner_products_of_any_length(n, seed):
    a, b = np.random.default_rng(seed).normal(size=(2, n))
    assert inner(a, b) == pytest.approx(float(np.sum(a * b)), rel=1e-9, abs=1e-9)
    assert norm2(a) == pytest.approx(float(np.linalg.norm(a)))
