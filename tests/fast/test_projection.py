"""The soft projection against exact fractions, optimality conditions and a QP solver."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankplug._fast.projection import soft_projection

BOUNDS = [0.0, 1e-3, 0.5, 3.0, 1e4, np.inf]


def exact_level(values, total):
    """The t with sum (v - t)_+ = total > 0, in fractions."""
    descending = sorted(values, reverse=True)
    partial = Fraction(0)
    for count, value in enumerate(descending, 1):
        partial += value
        level = (partial - total) / count
        if count == len(descending) or descending[count] <= level:
            return level
    raise AssertionError


def exact_projection(mu, nu, C):
    """Rational arithmetic over every piece of the equation, one after the other."""
    mu, nu = [Fraction(v) for v in mu], [Fraction(v) for v in nu]
    if max(mu) + max(nu) <= 0 or C == 0:
        return [Fraction(0)] * len(mu), [Fraction(0)] * len(nu)

    def excess(t):
        return sum(max(v - t, 0) for v in mu) - sum(max(v + t, 0) for v in nu)

    knots = sorted({*mu, *(-v for v in nu)})
    low = max(t for t in knots if excess(t) >= 0)
    high = min((t for t in knots if excess(t) <= 0), default=low)
    drop = excess(low) - excess(high)
    shift = low if drop == 0 else low + (high - low) * excess(low) / drop
    total = sum(max(v - shift, 0) for v in mu)
    shifts = shift, -shift
    if total > C:
        shifts = exact_level(mu, Fraction(C)), exact_level(nu, Fraction(C))
    return [max(v - shifts[0], Fraction(0)) for v in mu], [
        max(v - shifts[1], Fraction(0)) for v in nu
    ]


@st.composite
def cases(draw):
    """Ties within and across the sides, one-sided sizes, far offsets, any scale."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    p, q = (draw(st.sampled_from([1, 2, 3, 8])) for _ in range(2))
    kind = draw(st.sampled_from(["normal", "tied", "equal", "opposite", "mixed", "below"]))
    if kind == "normal":
        mu, nu = rng.normal(size=p), rng.normal(size=q)
    elif kind == "tied":
        mu, nu = rng.integers(-2, 3, size=p) * 0.1, rng.integers(-2, 3, size=q) * 0.3
    elif kind == "equal":
        mu, nu = np.full(p, rng.normal()), np.full(q, rng.normal())
    elif kind == "opposite":
        mu, nu = rng.normal(size=p), np.resize(-rng.normal(size=1), q)
        nu[0] = -mu.max()
    elif kind == "mixed":
        mu, nu = rng.normal(size=p) * 10.0 ** rng.integers(-12, 12, size=p), rng.normal(size=q)
    else:
        mu, nu = -rng.random(p), -rng.random(q)
    shift = draw(st.sampled_from([0.0, 1.0, -1e8]))
    scale = draw(st.sampled_from([1.0, 1e-300, 1e-12, 1e12, 1e290]))
    C = draw(st.sampled_from(BOUNDS))
    return (mu + shift) * scale, (nu - shift) * scale, C * draw(st.sampled_from([1.0, scale]))


@settings(max_examples=1200)
@given(cases())
def test_equals_exact_fractions(case):
    mu, nu, C = case
    alpha, beta = soft_projection(mu, nu, C)
    exact_C = 10.0**306 if np.isinf(C) else C
    expected = exact_projection(mu, nu, exact_C)
    unit = np.finfo(float).eps * max(np.abs(mu).max(), np.abs(nu).max())
    for found, exact in zip((alpha, beta), expected, strict=True):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, [float(v) for v in exact], rtol=1e-14, atol=4 * unit)


@settings(max_examples=500)
@given(cases())
def test_is_feasible(case):
    mu, nu, C = case
    alpha, beta = soft_projection(mu, nu, C)
    assert (alpha >= 0).all()
    assert (beta >= 0).all()
    top = max(mu.max() + nu.max(), 0.0)
    rounding = 100 * np.finfo(float).eps * min(top * len(mu), C)
    rounding += 100 * np.finfo(float).eps * min(top * len(nu), C)
    assert abs(alpha.sum() - beta.sum()) <= rounding
    assert alpha.sum() <= C + rounding
    if mu.max() + nu.max() <= 0 or C == 0:
        assert not alpha.any()
        assert not beta.any()


def test_equals_a_qp_solver_on_thousands_of_cases():
    """All cases of a kind are the blocks of one quadratic programme."""
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(0)
    for p, q, size in [(1, 1, 1.0), (1, 6, 1.0), (5, 1, 1.0), (4, 5, 1.0), (8, 8, 100.0)]:
        n = 500
        mu, nu = size * rng.normal(size=(n, p)), size * rng.normal(size=(n, q))
        mu -= size * rng.choice([0.0, 3.0], size=(n, 1))
        tied = rng.random(n) < 0.5
        mu[tied], nu[tied] = np.round(mu[tied]), np.round(nu[tied])
        C = size * rng.choice([0.1, 1.0, 100.0], size=n)
        a, b = cvxpy.Variable((n, p)), cvxpy.Variable((n, q))
        total = cvxpy.sum(a, axis=1)
        constraints = [a >= 0, b >= 0, total == cvxpy.sum(b, axis=1), total <= C]
        distance = cvxpy.sum_squares(a - mu) + cvxpy.sum_squares(b - nu)
        problem = cvxpy.Problem(cvxpy.Minimize(distance / size**2), constraints)
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-12, tol_feas=1e-10)
        found = [soft_projection(*case) for case in zip(mu, nu, C, strict=True)]
        np.testing.assert_allclose([f[0] for f in found], a.value, atol=2e-4 * size)
        np.testing.assert_allclose([f[1] for f in found], b.value, atol=2e-4 * size)
        sums = np.array([f[0].sum() for f in found])
        for kind in (sums == 0, np.isclose(sums, C), (sums > 0) & (sums < 0.999 * C)):
            assert kind.any(), "zero, full and interior projections must all occur"


@given(cases())
def test_projecting_again_changes_nothing(case):
    mu, nu, C = case
    alpha, beta = soft_projection(mu, nu, C)
    again = soft_projection(alpha, beta, C)
    unit = 1e-13 * max(alpha.max(), beta.max())
    np.testing.assert_allclose(again[0], alpha, atol=unit)
    np.testing.assert_allclose(again[1], beta, atol=unit)


def test_large_vectors_with_all_values_tied_or_distinct():
    rng = np.random.default_rng(1)
    for mu, nu in [
        (np.ones(50_000), np.zeros(7)),
        (rng.normal(size=50_000), rng.normal(size=20_000)),
        (2.0 ** rng.integers(-500, 300, size=5_000), -(2.0 ** rng.integers(-500, 300, size=4_000))),
    ]:
        alpha, beta = soft_projection(mu, nu, np.inf)
        assert alpha.sum() == pytest.approx(beta.sum(), rel=1e-10, abs=1e-300)


def test_by_eye():
    alpha, beta = soft_projection([2.0, 2.0], [1.0], np.inf)
    # sum (2 - t)_+ twice equals (1 + t)_+ at t = 1.
    assert alpha.tolist() == [1.0, 1.0]
    assert beta.tolist() == [2.0]
    alpha, beta = soft_projection([2.0, 2.0], [1.0], 0.5)
    assert alpha.tolist() == [0.25, 0.25]
    assert beta.tolist() == [0.5]


@pytest.mark.parametrize(
    ("mu", "nu", "C", "word"),
    [([], [1.0], 1.0, "entry"), ([1.0], [], 1.0, "entry"), ([1.0], [1.0], -1.0, "bound")],
)
def test_refusals(mu, nu, C, word):
    with pytest.raises(ValueError, match=word):
        soft_projection(mu, nu, C)
    with pytest.raises(ValueError, match="bound"):
        soft_projection([1.0], [1.0], float("nan"))
