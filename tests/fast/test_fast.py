"""The compiled loops against sums over listed pairs."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from rankplug._fast import passes
from rankplug._fast.pairs import ActivePairs, Queries
from tests.oracles import error_of_product


def listed_pairs(score, relevance, query_ptr, weight, margin, **factors):
    """Laplacian, squared hinge and hinge, pair by pair, each as it counts."""
    one = np.ones(len(score))
    winner, loser = (one if factors.get(k) is None else factors[k] for k in ("winner", "loser"))
    gain = factors.get("gain")
    laplacian = np.zeros((len(score), len(score)))
    squared = hinge = 0.0
    for q, (b, e) in enumerate(itertools.pairwise(query_ptr)):
        for i in range(b, e):
            for j in range(b, e):
                slack = margin - (score[i] - score[j])
                if relevance[i] > relevance[j] and score[i] - score[j] < margin:
                    edge = np.zeros(len(score))
                    edge[i], edge[j] = 1, -1
                    c = weight[q] * winner[i] * loser[j]
                    c *= 1.0 if gain is None else gain[i] - gain[j]
                    laplacian += c * np.outer(edge, edge)
                    squared += c * slack**2
                    hinge += c * slack
    return laplacian, squared, hinge


@st.composite
def shards(draw):
    """Queries of any size with few or many levels; scores with ties, exact margins or outliers."""
    sizes = draw(st.lists(st.integers(0, 40), min_size=1, max_size=4))
    n = sum(sizes)
    n_levels = draw(st.sampled_from([1, 2, 5, 6, 9, 10, 17, 300]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    score = rng.normal(size=n) * draw(st.sampled_from([0.0, 0.1, 1.0, 30.0]))
    shape = draw(st.sampled_from(["as they are", "ties", "crowded", "an outlier"]))
    if shape == "ties":
        score = np.round(score * 2) / 2
    elif shape == "crowded":
        score *= np.exp(-3 * rng.exponential(size=n))
    elif shape == "an outlier":
        score[:1] = 1e3
    relevance = rng.integers(0, n_levels, size=n) * 0.37 - 1.0
    query_ptr = np.concatenate(([0], np.cumsum(sizes)))
    return score, relevance, query_ptr, rng.random(len(sizes)), draw(st.sampled_from([1.0, 0.25]))


@given(shards())
def test_active_pairs_equal_listed_pairs(shard):
    score, relevance, query_ptr, weight, margin = shard
    pairs = ActivePairs(Queries(query_ptr, relevance, weight))
    laplacian, squared, hinge = listed_pairs(score, relevance, query_ptr, weight, margin)
    if len(score) == 0:
        return
    # A first update elsewhere: nothing of it may remain.
    pairs.update(np.cos(np.arange(len(score), dtype=float)), 0.5)
    pairs.update(score, margin)
    z = np.sin(np.arange(len(score)) + 0.5)
    out = np.empty(len(score))
    pairs.laplacian(z, out)
    np.testing.assert_allclose(out, laplacian @ z, atol=1e-11)
    assert pairs.squared_hinge(score, out) == pytest.approx(squared, abs=1e-9, rel=1e-9)
    assert pairs.hinge(score, out) == pytest.approx(hinge, abs=1e-9, rel=1e-9)


@given(shards(), st.sampled_from([1.0, 0.7, 1e-3]))
def test_a_band_leaves_straight_pairs_out(shard, share):
    """Curvature ends where the slack reaches the band; windows with and without are renewed."""
    score, relevance, query_ptr, weight, margin = shard
    if len(score) == 0:
        return
    band = share * margin
    pairs = ActivePairs(Queries(query_ptr, relevance, weight))
    pairs.update(np.cos(np.arange(len(score), dtype=float)), margin, band)
    pairs.update(score, margin, band)
    everything, squared, hinge = listed_pairs(score, relevance, query_ptr, weight, margin)
    straight, beyond, excess = listed_pairs(score, relevance, query_ptr, weight, margin - band)
    z = np.sin(np.arange(len(score)) + 0.5)
    out, plain = np.empty((2, len(score)))
    pairs.laplacian(z, out)
    np.testing.assert_allclose(out, (everything - straight) @ z, atol=1e-10)
    assert pairs.squared_hinge(score, out) == pytest.approx(squared - beyond, abs=1e-9, rel=1e-9)
    assert pairs.clipped_slack(score) == pytest.approx(hinge - excess, abs=1e-9, rel=1e-9)
    assert pairs.hinge(score, out) == pytest.approx(hinge, abs=1e-9, rel=1e-9)
    pairs.update(score, margin)
    assert pairs.squared_hinge(score, out) == pytest.approx(squared, abs=1e-9, rel=1e-9)
    fresh = ActivePairs(Queries(query_ptr, relevance, weight))
    fresh.update(score, margin)
    fresh.squared_hinge(score, plain)
    np.testing.assert_allclose(out, plain, atol=1e-10)


WEIGHINGS = ["winner", "loser", "both", "gain", "gain and winner", "gain and both"]


def draw_factors(relevance, kind, seed):
    """Weights of rows from 1e-6 to 1e6, some of them zero, and gains."""
    rng = np.random.default_rng(seed)
    winner, loser = 10.0 ** rng.uniform(-6, 6, (2, len(relevance)))
    winner[rng.random(len(winner)) < 0.2] = 0.0
    loser = winner if "both" in kind else loser  # the product: one array
    return {
        "winner": winner if "winner" in kind or "both" in kind else None,
        "loser": loser if kind == "loser" or "both" in kind else None,
        "gain": np.exp2(np.minimum(relevance, 20.0)) - 1.0 if "gain" in kind else None,
    }


@given(
    shards(), st.sampled_from(WEIGHINGS), st.integers(0, 2**32), st.sampled_from([9.0, 0.5, 0.1])
)
def test_weighted_pairs_equal_listed_pairs(shard, kind, seed, share):
    """Every entry point, with a band (0.5, 0.1 of the margin) and without one (9)."""
    score, relevance, query_ptr, weight, margin = shard
    if len(score) == 0:
        return
    relevance = np.round(relevance, 2)
    band = np.inf if share > 1 else share * margin
    factors = draw_factors(relevance, kind, seed)
    pairs = ActivePairs(Queries(query_ptr, relevance, weight, **factors))
    pairs.update(np.cos(np.arange(len(score), dtype=float)), 0.5, 0.2)
    pairs.update(score, margin, band)
    every, squared, hinge = listed_pairs(score, relevance, query_ptr, weight, margin, **factors)
    straight, beyond, excess = np.zeros_like(every), 0.0, 0.0
    if share < 1:
        parts = (score, relevance, query_ptr, weight, margin - band)
        straight, beyond, excess = listed_pairs(*parts, **factors)
    # What is compared has the size of all the pairs of a query, or of rows where it is by row.
    size = np.abs(every).max(initial=1e-300)
    z = np.sin(np.arange(len(score)) + 0.5)
    out, up, down = np.empty((3, len(score)))
    pairs.laplacian(z, out)
    curved = every - straight
    np.testing.assert_allclose(out, curved @ z, rtol=1e-9, atol=1e-12 * size)
    row_weight = np.repeat(weight, np.diff(query_ptr))
    np.testing.assert_allclose(pairs.count * row_weight, np.diag(curved), atol=1e-12 * size)
    assert pairs.count.min() >= 0.0
    scale = size * max(1.0, np.abs(score).max()) ** 2
    assert pairs.squared_hinge(score, out) == pytest.approx(
        squared - beyond, rel=1e-9, abs=1e-10 * scale
    )
    assert pairs.hinge(score, up) == pytest.approx(hinge, rel=1e-9, abs=1e-11 * scale)
    slack = hinge - (excess if share < 1 else 0.0)
    assert pairs.clipped_slack(score) == pytest.approx(slack, rel=1e-9, abs=1e-11 * scale)
    # Derivatives: (L s - margin d) for the square, straight pairs by their constant slope.
    edges = listed_derivatives(score, relevance, query_ptr, weight, margin, band, factors)
    np.testing.assert_allclose(out, edges[0], rtol=1e-9, atol=1e-10 * scale)
    np.testing.assert_allclose(up, edges[1], rtol=1e-9, atol=1e-11 * scale)
    pairs.update(score, margin)
    assert pairs.squared_hinge(score, down) == pytest.approx(squared, rel=1e-9, abs=1e-10 * scale)


def listed_derivatives(score, relevance, query_ptr, weight, margin, band, factors):
    """Half the derivative of the banded square, and that of the hinge, pair by pair."""
    half, first = np.zeros((2, len(score)))
    for q, (b, e) in enumerate(itertools.pairwise(query_ptr)):
        for i, j in itertools.product(range(b, e), repeat=2):
            slack = margin - (score[i] - score[j])
            if relevance[i] > relevance[j] and slack > 0.0:
                c = weight[q]
                c *= 1.0 if factors["winner"] is None else factors["winner"][i]
                c *= 1.0 if factors["loser"] is None else factors["loser"][j]
                c *= 1.0 if factors["gain"] is None else factors["gain"][i] - factors["gain"][j]
                for out, change in ((half, c * min(slack, band)), (first, c)):
                    out[i] -= change
                    out[j] += change
    return half, first


@given(shards(), st.sampled_from(WEIGHINGS))
def test_weights_of_one_change_nothing(shard, kind):
    score, relevance, query_ptr, weight, margin = shard
    if len(score) == 0:
        return
    relevance = (relevance > 0).astype(float)  # gains of 0 and 1
    one = np.ones(len(score))
    factors = {name: one if name in kind else None for name in ("winner", "loser")}
    factors["gain"] = relevance if "gain" in kind else None
    found = []
    for given_factors in ({}, factors):
        pairs = ActivePairs(Queries(query_ptr, relevance, weight, **given_factors))
        pairs.update(score, margin)
        out = np.empty(len(score))
        found.append((pairs.squared_hinge(score, out), *out, *pairs.count, *pairs.difference))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12, atol=1e-10)


@given(shards())
def test_coefficients_are_derivatives(shard):
    score, relevance, query_ptr, weight, margin = shard
    if len(score) == 0:
        return
    pairs = ActivePairs(Queries(query_ptr, relevance, weight))
    pairs.update(score, margin)
    half, first = np.empty((2, len(score)))
    pairs.squared_hinge(score, half)
    pairs.hinge(score, first)
    slope = np.zeros(len(score)), np.zeros(len(score))
    for q, (b, e) in enumerate(itertools.pairwise(query_ptr)):
        for i in range(b, e):
            for j in range(b, e):
                slack = margin - (score[i] - score[j])
                if relevance[i] > relevance[j] and score[i] - score[j] < margin:
                    for k, change in ((0, weight[q] * slack), (1, weight[q])):
                        slope[k][i] -= change
                        slope[k][j] += change
    np.testing.assert_allclose(half, slope[0], atol=1e-9)
    np.testing.assert_allclose(first, slope[1], atol=1e-12)


def test_counts_add_up_at_float_ties():
    """0.1 * 3 - 0.1 * 2 and the like: what one row wins, another must lose."""
    score = np.cumsum(np.full(40, 0.1)) * 10
    relevance = np.arange(40.0)[::-1].copy()
    pairs = ActivePairs(Queries(np.array([0, 40]), relevance, np.ones(1)))
    pairs.update(score, 1.0)
    assert pairs.difference.sum() == 0


@pytest.mark.parametrize("n", [63, 64, 65, 128, 129, 500, 900])
@pytest.mark.parametrize("n_levels", [2, 15, 16, 17, 64, 400, 10_000])
def test_counts_of_long_queries_equal_listed_pairs(n, n_levels):
    """Every way to count: words of 64 rows, their ends, and where they would be too many."""
    rng = np.random.default_rng(n)
    relevance, score = rng.integers(0, n_levels, size=n).astype(float), rng.normal(size=n)
    pairs = ActivePairs(Queries(np.array([0, n]), relevance, np.ones(1)))
    higher, slack = relevance[:, None] > relevance, 1.0 - (score[:, None] - score)
    for band in (np.inf, 0.3):
        pairs.update(score, band=band)
        curved = higher & (slack > 0) & (slack <= band)
        won, lost = curved.sum(axis=1), curved.sum(axis=0)
        np.testing.assert_array_equal(pairs.count, won + lost)
        np.testing.assert_array_equal(pairs.difference, won - lost)
    out = np.empty(n)
    assert pairs.clipped_slack(score) == pytest.approx(
        np.minimum(0.3, np.maximum(slack, 0.0))[higher].sum()
    )
    pairs.laplacian(score, out)
    np.testing.assert_allclose(out, (won + lost) * score - (curved | curved.T) @ score, atol=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n_levels", [2, 5, 400])
def test_scores_that_are_not_finite_give_a_loss_that_is_none(bad, n_levels):
    rng = np.random.default_rng(0)
    for n in (2, 3, 20, 133):
        relevance = np.arange(n) % n_levels * 1.0
        pairs = ActivePairs(Queries(np.array([0, n]), relevance, np.ones(1)))
        for share in (1 / n, 0.5, 1.0):
            score = rng.normal(size=n)
            score[rng.permutation(n)[: max(1, int(share * n))]] = bad
            pairs.update(score)
            assert not np.isfinite(pairs.squared_hinge(score, np.empty(n)))
            assert not np.isfinite(pairs.hinge(score, np.empty(n)))
            assert not pairs.count.any()


@pytest.mark.parametrize("n_levels", [2, 8, 200, 5000])
def test_large_query_against_full_counts(n_levels):
    """With every pair active, counts and sums have a closed form."""
    rng = np.random.default_rng(0)
    n = 5000
    relevance = rng.integers(0, n_levels, size=n).astype(float)
    pairs = ActivePairs(Queries(np.array([0, n]), relevance, np.ones(1)))
    pairs.update(rng.random(n) * 0.9)
    _, level, size = np.unique(relevance, return_inverse=True, return_counts=True)
    z = rng.normal(size=n)
    by_level = np.bincount(level, weights=z)
    out = np.empty(n)
    pairs.laplacian(z, out)
    np.testing.assert_array_equal(pairs.count, n - size[level])
    np.testing.assert_allclose(out, (n - size[level]) * z - (z.sum() - by_level[level]), atol=1e-8)


def test_a_shard_refuses_arrays_that_do_not_fit():
    with pytest.raises(ValueError, match="do not fit"):
        Queries(np.array([0, 3]), np.zeros(4), np.ones(1))


@pytest.fixture(params=["float64", "float32"])
def dense(request):
    return np.random.default_rng(1).normal(size=(37, 11)).astype(request.param)


@pytest.mark.parametrize("columns", [1, 3, 15, 16, 17, 64, 65])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_dense_products(columns, dtype):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(9, columns)).astype(dtype)
    v, u = rng.normal(size=columns), rng.normal(size=9)
    z, g = np.empty(9), np.empty(columns)
    passes.dense_dot(X, v, z)
    passes.dense_transposed_dot(X, u, g)
    np.testing.assert_allclose(z, X.astype(float) @ v, atol=1e-12)
    np.testing.assert_allclose(g, X.T.astype(float) @ u, atol=1e-12)


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_sparse_and_fused_products(dense, index):
    dense[np.abs(dense) < 0.8] = 0
    X = sparse.csr_array(dense)
    arrays = (X.indptr.astype(index), X.indices.astype(index), X.data)
    rng = np.random.default_rng(3)
    query_ptr = np.array([0, 5, 5, 6, 20, 37])
    relevance = rng.integers(0, 3, size=37).astype(float)
    pairs = ActivePairs(Queries(query_ptr, relevance, rng.random(5)))
    pairs.update(rng.normal(size=37))
    v = rng.normal(size=11)
    z, of_z, u, sz, of_sz = np.empty((5, 37))
    g, sg = np.zeros((2, 11))
    passes.dense_laplacian(dense, pairs, v, z, of_z, g)
    passes.sparse_laplacian(*arrays, pairs, v, sz, of_sz, sg)
    expected_z = dense.astype(float) @ v
    pairs.laplacian(expected_z, u)
    np.testing.assert_allclose(z, expected_z, atol=1e-12)
    np.testing.assert_allclose(sz, expected_z, atol=1e-12)
    np.testing.assert_allclose(of_z, u, atol=1e-11)
    np.testing.assert_allclose(of_sz, u, atol=1e-11)
    exact = dense.T.astype(float) @ u
    np.testing.assert_allclose(sg, exact, atol=1e-10)
    assert np.all(np.abs(g - exact) <= error_of_product(dense, u) + 1e-10)


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_moments(dense, index):
    dense[np.abs(dense) < 0.8] = 0
    X = sparse.csr_array(dense)
    c = np.abs(np.sin(np.arange(37)))
    c[5:8] = 0
    query_ptr = np.array([0, 5, 8, 8, 37])
    expected = np.zeros(11)
    for b, e in itertools.pairwise(query_ptr):
        rows, weight = dense[b:e].astype(float), c[b:e]
        if weight.sum() > 0:
            mean = weight @ rows / weight.sum()
            expected += weight @ (rows - mean) ** 2
    first, out, sparse_out = np.zeros((3, 11))
    passes.dense_moments(dense, query_ptr, c, first, out)
    np.testing.assert_allclose(out, expected, atol=1e-10)
    first[:] = 0
    arrays = (X.indptr.astype(index), X.indices.astype(index), X.data)
    passes.sparse_moments(*arrays, query_ptr, c, first, sparse_out)
    np.testing.assert_allclose(sparse_out, expected, atol=1e-10)
    assert not first.any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(shards())
def test_rows_are_centred_query_by_query(dtype, shard):
    score, _, query_ptr, _, _ = shard
    if len(score) == 0:
        return
    rng = np.random.default_rng(len(score))
    X = (rng.normal(size=(len(score), 7)) + 3.0).astype(dtype)
    c = np.maximum(rng.normal(size=len(score)), 0.0)
    expected = np.zeros_like(X, dtype=float)
    for b, e in itertools.pairwise(query_ptr):
        if c[b:e].sum() > 0:
            mean = c[b:e] @ X[b:e].astype(float) / c[b:e].sum()
            expected[b:e] = np.sqrt(c[b:e])[:, None] * (X[b:e] - mean)
    passes.dense_centre(X, query_ptr, c, np.empty(7))
    np.testing.assert_allclose(X, expected, atol=1e-12 if dtype == "float64" else 1e-5)
