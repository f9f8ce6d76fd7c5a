"""Properties of the passes over features, for shapes and values that nobody thought of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from rankplug._fast import passes
from rankplug._fast.pairs import ActivePairs, Queries
from tests.oracles import error_of_product


@st.composite
def problems(draw):
    """Features with zeros, queries (empty ones too), relevance, scores."""
    sizes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any))
    n, d = sum(sizes), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([1e-100, 1.0, 1e100]))
    X = rng.integers(-2, 3, size=(n, d)) * rng.random((n, d)) * scale
    relevance = rng.integers(0, draw(st.integers(1, 5)), size=n).astype(float)
    query_ptr = np.concatenate(([0], np.cumsum(sizes)))
    pairs = ActivePairs(Queries(query_ptr, relevance, rng.random(len(sizes))))
    pairs.update(rng.integers(-3, 4, size=n).astype(float))
    return (
        X.astype(draw(st.sampled_from(["float64"] if scale != 1 else ["float32", "float64"]))),
        pairs,
        rng,
    )


@pytest.mark.parametrize("index", ["int32", "int64"])
@given(problems())
def test_fused_products_are_the_product_of_their_steps(index, problem):
    X, pairs, rng = problem
    n, d = X.shape
    v, u = rng.normal(size=d), np.empty(n)
    exact = X.astype(float)
    pairs.laplacian(exact @ v, u)
    size = np.abs(exact).max(initial=0.0)
    rows = sparse.csr_array(X)
    arrays = (rows.indptr.astype(index), rows.indices.astype(index), rows.data)
    rounding = 1e-11 * size * size * d * n
    for product, error in (
        (lambda *out: passes.dense_laplacian(X, pairs, v, *out), error_of_product(X, u)),
        (lambda *out: passes.sparse_laplacian(*arrays, pairs, v, *out), 0.0),
    ):
        z, of_z, g = np.full(n, np.nan), np.full(n, np.nan), np.zeros(d)
        product(z, of_z, g)
        expected = exact.T @ u
        np.testing.assert_allclose(of_z, u, rtol=1e-9, atol=1e-11 * size * d * n)
        np.testing.assert_allclose(z, exact @ v, rtol=1e-9, atol=1e-12 * size * d)
        assert np.all(np.abs(g - expected) <= error + 1e-9 * np.abs(expected) + rounding)


@given(problems(), st.integers(0, 2**32 - 1))
def test_the_laplacian_is_symmetric_and_not_negative(problem, seed):
    """``v.H.w = w.H.v`` and ``v.H.v >= 0``: it is a sum of squares of differences."""
    X, pairs, _ = problem
    n, d = X.shape
    v, w = np.random.default_rng(seed).normal(size=(2, d))
    images = np.zeros((2, d))
    for vector, image in zip((v, w), images, strict=True):
        passes.dense_laplacian(X, pairs, vector, *np.empty((2, n)), image)
    size = np.square(np.abs(X.astype(float)).max(initial=0.0)) * d * d * n * n
    rounding = size * (np.finfo(np.float32).eps if X.dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(w @ images[0], v @ images[1], rtol=1e-9, atol=rounding)
    assert v @ images[0] >= -rounding
