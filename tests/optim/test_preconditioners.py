"""Preconditioners: what is known of the Hessian has to be in them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankplug.optim.preconditioners import (
    Cholesky,
    Corrected,
    Diagonal,
    Identity,
    Nystrom,
    make_preconditioner,
)


class Quadratic:
    """A loss with the Hessian H, which estimates it badly."""

    n_columns, n_rows, n_elements = 5, 7, 35
    has_gram = True

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(7, 5)) * np.logspace(-1, 1, 5)
        self.H = A.T @ A
        self.n_estimates = 0

    def hessian_diagonal(self):
        self.n_estimates += 1
        return 3.0 * np.diag(self.H)

    def hessian_gram(self):
        self.n_estimates += 1
        return self.H + np.diag(np.arange(5.0))


def as_matrix(operator, n_columns=5):
    return np.column_stack([operator(column) for column in np.eye(n_columns)])


def directions(seed, n):
    return np.random.default_rng(seed + 1).normal(size=(n, 5))


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 20),
    C=st.sampled_from([1e-3, 1.0, 1e3]),
    name=st.sampled_from(["diagonal", "cholesky"]),
)
def test_known_products_are_updates_of_bfgs(seed, n, C, name):
    loss = Quadratic(seed)
    preconditioner = make_preconditioner(name, loss)
    M = np.linalg.inv(as_matrix(preconditioner.at(C)))
    for v in directions(seed, n):
        preconditioner.observe(v, loss.H @ v)
    for v in directions(seed, n)[:: 1 if n <= 16 else 2]:
        y, Mv = v + C * loss.H @ v, M @ v
        M += np.outer(y, y) / (y @ v) - np.outer(Mv, Mv) / (v @ Mv)
    loss.hessian_diagonal = loss.hessian_gram = None  # no new estimate in this comparison
    preconditioner._base._n_products = 0
    inverse = as_matrix(preconditioner.at(C))
    np.testing.assert_allclose(inverse @ M, np.eye(5), atol=1e-6)
    np.testing.assert_allclose(inverse, inverse.T, rtol=1e-6, atol=1e-9 * np.abs(inverse).max())
    assert np.linalg.eigvalsh(inverse + inverse.T).min() > 0
    np.testing.assert_allclose(inverse @ y, v, rtol=1e-6, atol=1e-9 * np.abs(v).max())


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_products_with_all_conjugate_directions_give_the_inverse(C):
    loss = Quadratic(0)
    preconditioner = Corrected(Identity(), loss.n_columns)
    for v in np.linalg.eigh(loss.H)[1].T:
        preconditioner.observe(v, loss.H @ v)
    expected = np.linalg.inv(np.eye(5) + C * loss.H)
    np.testing.assert_allclose(as_matrix(preconditioner.at(C)), expected, rtol=1e-9, atol=1e-12)


def test_of_long_directions_evenly_spaced_products_are_kept():
    loss, kept = Quadratic(0), directions(0, 100)[::8]
    preconditioner, same = (Corrected(Identity(), loss.n_columns) for _ in range(2))
    for v in directions(1, 7):  # an earlier direction
        preconditioner.observe(v, loss.H @ v)
    preconditioner.at(1.0)
    for v in directions(0, 100):
        preconditioner.observe(v, loss.H @ v)
    for v in kept:
        same.observe(v, loss.H @ v)
    np.testing.assert_array_equal(*(as_matrix(p.at(1.0)) for p in (preconditioner, same)))


def test_short_directions_are_kept_until_they_are_forgotten():
    loss = Quadratic(0)
    preconditioner, same = (Corrected(Identity(), loss.n_columns) for _ in range(2))
    for start in range(0, 20, 4):
        for v in directions(0, 20)[start : start + 4]:
            preconditioner.observe(v, loss.H @ v)
        preconditioner.at(1.0)
    for v in directions(0, 20)[-16:]:
        same.observe(v, loss.H @ v)
    np.testing.assert_array_equal(*(as_matrix(p.at(1.0)) for p in (preconditioner, same)))
    preconditioner.forget()
    np.testing.assert_array_equal(as_matrix(preconditioner.at(1.0)), np.eye(5))


def test_a_diagonal_is_mixed_with_its_mean():
    loss = Quadratic(0)
    diagonal = 3.0 * np.diag(loss.H)
    scale = 1.0 + 2.0 * (0.7 * diagonal + 0.3 * diagonal.mean())
    inverse = make_preconditioner("diagonal", loss).at(2.0)(np.ones(5))
    np.testing.assert_allclose(inverse, 1.0 / scale)


@pytest.mark.parametrize("name", ["diagonal", "cholesky"])
def test_long_directions_ask_for_a_new_estimate(name):
    loss = Quadratic(0)
    preconditioner = make_preconditioner(name, loss)
    preconditioner.at(1.0)
    for n_products, n_estimates in [(3, 1), (4, 2), (0, 2)]:
        for v in directions(0, n_products):
            preconditioner.observe(v, loss.H @ v)
        preconditioner.at(2.0)
        assert loss.n_estimates == n_estimates


def test_none_stays_none_and_long_vectors_are_not_kept():
    loss = Quadratic(0)
    for preconditioner in (make_preconditioner("none", loss), Corrected(Identity(), 2**24)):
        for v in directions(0, 5):
            preconditioner.observe(v, loss.H @ v)
        np.testing.assert_array_equal(as_matrix(preconditioner.at(1.0)), np.eye(5))


class Repetitive:
    """A loss whose Hessian has few large eigenvalues, as columns of leaves of trees give it."""

    n_columns, n_rows, n_elements, has_gram = 60, 1000, 60_000, True

    def __init__(self, seed, n_large=30):
        rng = np.random.default_rng(seed)
        large = rng.normal(size=(60, n_large)) * np.logspace(0, 3, n_large)
        self.H = large @ large.T + (n_large > 0) * np.diag(rng.random(60))
        self.products = 0

    def hessian_product(self, v):
        self.products += 1
        return self.H @ v

    def hessian_diagonal(self):
        return np.diag(self.H)

    def hessian_gram(self):
        return self.H


def costly(loss, n_products=96, C=1.0):
    """The approximation, after so many products for one direction."""
    preconditioner = make_preconditioner("nystrom", loss)._base
    preconditioner.at(C)
    for v in np.random.default_rng(1).normal(size=(n_products, loss.n_columns)):
        preconditioner.observe(v, v)
    return preconditioner


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_an_approximation_of_the_hessian_leaves_few_eigenvalues(C):
    loss = Repetitive(0)
    matrix = np.eye(60) + C * loss.H
    spread = {}
    for name, preconditioner in (("before", costly(loss, 95)), ("after", costly(loss))):
        inverse = as_matrix(preconditioner.at(C), 60)
        np.testing.assert_allclose(inverse, inverse.T, rtol=1e-6, atol=1e-9 * np.abs(inverse).max())
        half = np.linalg.cholesky((inverse + inverse.T) / 2)  # it is positive definite
        eigenvalues = np.linalg.eigvalsh(half.T @ matrix @ half)
        spread[name] = eigenvalues[-1] / eigenvalues[0]
    assert spread["after"] < 10.0
    assert spread["before"] > 10 * spread["after"]


def test_an_approximation_is_made_once_from_products_that_count():
    loss = Repetitive(0)
    preconditioner = costly(loss, 95)
    preconditioner.at(1.0)
    assert loss.products == 0
    preconditioner.observe(None, None)
    inverses = [as_matrix(preconditioner.at(C), 60) for C in (1.0, 2.0, 1.0)]
    assert loss.products == 48
    np.testing.assert_array_equal(inverses[0], inverses[2])
    assert np.abs(inverses[0] - inverses[1]).max() > 0.0


@pytest.mark.parametrize("n_large", [0, 20])
def test_an_approximation_of_low_rank_is_exact(n_large):
    loss = Repetitive(0)
    large = np.random.default_rng(2).normal(size=(60, n_large))
    loss.H = large @ large.T
    inverse = as_matrix(costly(loss).at(10.0), 60)
    np.testing.assert_allclose(inverse @ (np.eye(60) + 10.0 * loss.H), np.eye(60), atol=1e-6)


def test_few_elements_are_not_worth_an_approximation():
    loss = Repetitive(0)
    loss.n_elements = 2 * 60 * 16
    assert type(make_preconditioner("nystrom", loss)._base) is Nystrom
    loss.n_elements -= 1
    assert type(make_preconditioner("nystrom", loss)._base) is Diagonal


@pytest.mark.parametrize(
    ("n_columns", "of_a_row", "kind"),
    [
        (2000, 2000, Cholesky),
        (2001, 2001, Nystrom),
        (300, 45, Cholesky),  # the leaves of few trees
        (300, 44, Nystrom),
    ],
)
def test_a_factor_is_for_rows_that_hold_many_elements(n_columns, of_a_row, kind):
    loss = Repetitive(0)
    loss.n_columns, loss.n_rows, loss.n_elements = n_columns, 10_000, 10_000 * of_a_row
    assert type(make_preconditioner("auto", loss)._base) is kind
    loss.has_gram = False
    assert type(make_preconditioner("auto", loss)._base) is Nystrom
