"""Compiled loops at sizes around the widths of their lanes, nodes, runs and blocks.

Every array stands between walls: what a loop reads beyond its end would spoil the result, as the
walls of inputs are NaN or no valid number, and what it writes there is seen. The expected results
are plain NumPy. `tests/long/sanitize` runs the same tests in builds that stop at any fault.
"""

import itertools

import numpy as np
import pytest
from scipy import sparse

import rankplug
from rankplug._fast import passes
from rankplug._fast.pairs import ActivePairs, Queries
from rankplug._fast.projection import soft_projection
from rankplug.data import LabelRankingData, RankingData
from tests.oracles import error_of_product, graph_loss

WALL = 40
LANES, FAN, RUN, SUMS, AHEAD_BYTES = (4, 8, 16), 16, 12, 16, 8192
LEVELS = sorted({n + extra for n in LANES for extra in (-1, 0, 1)})


class Walls:
    """Makes arrays between walls, and tells whether these still stand."""

    def __init__(self):
        self._made = []

    def around(self, values, dtype=None):
        values = np.asarray(values, dtype=dtype)
        brick = np.nan if values.dtype.kind == "f" else np.iinfo(values.dtype).min // 2 + 1
        whole = np.full(values.size + 2 * WALL, brick, dtype=values.dtype)
        whole[WALL : WALL + values.size] = values.ravel()
        self._made.append((whole, values.size, brick))
        return whole[WALL : WALL + values.size].reshape(values.shape)

    def zeros(self, *shape, dtype=np.float64):
        return self.around(np.zeros(shape), dtype)

    def standing(self):
        return all(
            np.array_equal(part, np.full(WALL, brick, part.dtype), equal_nan=brick != brick)
            for whole, size, brick in self._made
            for part in (whole[:WALL], whole[WALL + size :])
        )


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


# ---- pairs --------------------------------------------------------------------------------------


def plain_pairs(score, relevance, margin, band):
    """Slacks of the active pairs (rows win, columns lose), and which of them are curved."""
    difference = score[:, None] - score
    active = (relevance[:, None] > relevance) & (difference < margin)
    return np.where(active, margin - difference, 0.0), active & ~(difference < margin - band)


SIDES = ("winner", "loser")
FACTORS = [(), ("winner",), ("loser",), SIDES, ("gain",), (*SIDES, "gain")]


def check_pairs(sizes, n_levels, seed, band=np.inf, margin=1.0, factors=()):
    """Queries of these sizes, with so many levels in those that are large enough."""
    rng = np.random.default_rng(seed)
    walls = Walls()
    n = sum(sizes)
    query_ptr = np.concatenate(([0], np.cumsum(sizes)))
    levels = [rng.permutation(np.arange(size) % n_levels) for size in sizes]
    relevance = np.concatenate(levels).astype(float)
    score, z = np.round(rng.normal(size=n), 1), rng.normal(size=n)
    weight = rng.random(len(sizes)) + 0.5
    own = {"winner": rng.random(n), "loser": rng.random(n), "gain": 0.3 * relevance}
    counts = np.multiply.outer(*(own[k] if k in factors else np.ones(n) for k in SIDES))
    if "gain" in factors:
        counts *= own["gain"][:, None] - own["gain"]
    queries = Queries(
        *(walls.around(array) for array in (query_ptr, relevance, weight)),
        **{name: walls.around(own[name]) for name in factors},
        allocate=lambda shape, dtype=np.float64: walls.zeros(*np.atleast_1d(shape), dtype=dtype),
    )
    pairs = ActivePairs(queries)
    pairs.update(walls.around(score), margin, band)
    out, coefficient, half = walls.zeros(n), walls.zeros(n), walls.zeros(n)
    pairs.laplacian(walls.around(z), out)
    squared = pairs.squared_hinge(walls.around(score), half)
    hinge = pairs.hinge(walls.around(score), coefficient)
    expected = {"squared": 0.0, "hinge": 0.0}
    for q, (b, e) in enumerate(itertools.pairwise(query_ptr)):
        slack, curved = plain_pairs(score[b:e], relevance[b:e], margin, band)
        active, curved = (slack > 0) * counts[b:e, b:e], curved * counts[b:e, b:e]
        count = curved.sum(axis=1) + curved.sum(axis=0)
        close(pairs.count[b:e], count)
        close(pairs.difference[b:e], curved.sum(axis=1) - curved.sum(axis=0))
        product = count * z[b:e] - curved @ z[b:e] - z[b:e] @ curved
        close(out[b:e], weight[q] * product)
        close(coefficient[b:e], weight[q] * (active.sum(axis=0) - active.sum(axis=1)))
        narrow = np.minimum(slack, band) * counts[b:e, b:e]
        close(half[b:e], weight[q] * (narrow.sum(axis=0) - narrow.sum(axis=1)))
        square = np.where(slack < band, slack**2, band * (2 * slack - band) if band < 9 else 0.0)
        expected["squared"] += weight[q] * (square * active).sum()
        expected["hinge"] += weight[q] * (slack * counts[b:e, b:e]).sum()
    close([squared, hinge], list(expected.values()))
    assert walls.standing()


@pytest.mark.parametrize("band", [np.inf, 0.25])
def test_pairs_of_up_to_seventy_rows(band):
    for n in range(1, 71):
        for n_levels in {1, 2, *LEVELS, n}:
            if n_levels <= n:
                check_pairs([n], n_levels, n, band)


@pytest.mark.parametrize("factors", FACTORS, ids="-".join)
def test_queries_side_by_side_keep_to_their_rows(factors):
    """Small ones between large ones, and with none in between."""
    sizes = [1, RUN, 0, RUN + 1, 1, 2 * RUN + 1, 70, 0, 2, 33]
    for n_levels in (1, 2, *LEVELS, 70):
        check_pairs(sizes, n_levels, n_levels, factors=factors)
        check_pairs(sizes[::-1], n_levels, n_levels, band=0.5, factors=factors)


@pytest.mark.parametrize("n_levels", [15, 16, 17, 255, 256, 257])
@pytest.mark.parametrize("extra", [0, 1, 50])
def test_trees_of_one_two_and_three_layers(n_levels, extra):
    check_pairs([n_levels + extra], n_levels, n_levels)
    check_pairs([n_levels + extra, 3], n_levels, n_levels, band=0.3)
    check_pairs([n_levels + extra, 3], n_levels, n_levels, margin=100.0)  # all are active


@pytest.mark.parametrize("n_levels", [4095, 4096, 4097])
def test_trees_of_three_and_four_layers(n_levels):
    """By sums in the order of the scores, since so many pairs are slow to list."""
    rng = np.random.default_rng(n_levels)
    walls = Walls()
    level = rng.permutation(n_levels)
    query_ptr, weight = walls.around([0, n_levels]), walls.around(np.ones(1))
    pairs = ActivePairs(Queries(query_ptr, walls.around(level, np.float64), weight))
    score = rng.random(n_levels) * 0.5  # all pairs are active
    pairs.update(walls.around(score))
    z, out = rng.normal(size=n_levels), walls.zeros(n_levels)
    pairs.laplacian(walls.around(z), out)
    close(pairs.count, np.full(n_levels, n_levels - 1.0))
    close(pairs.difference, 2.0 * level - (n_levels - 1))
    close(out, n_levels * z - z.sum())
    score[:] = level  # each row is level with the next one
    pairs.update(walls.around(score), 1.5)
    close(pairs.count, np.where((level == 0) | (level == n_levels - 1), 1.0, 2.0))
    slack = pairs.hinge(walls.around(score), out)
    close(slack, 0.5 * (n_levels - 1))
    assert walls.standing()


# ---- passes -------------------------------------------------------------------------------------

COLUMNS = [*range(1, 41), 63, 64, 65, 127, 128, 129]
ROWS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 70]


def pairs_over(n, rng):
    """Active pairs of two queries with n rows in all; the plain Laplacian."""
    cut = n // 3
    relevance, score = rng.integers(0, 3, n).astype(float), rng.normal(size=n)
    pairs = ActivePairs(Queries(np.array([0, cut, n]), relevance, np.array([1.0, 0.5])))
    pairs.update(score)
    laplacian = np.zeros((n, n))
    for (b, e), weight in (((0, cut), 1.0), ((cut, n), 0.5)):
        _, active = plain_pairs(score[b:e], relevance[b:e], 1.0, np.inf)
        edges = active + active.T
        laplacian[b:e, b:e] = weight * (np.diag(edges.sum(axis=1)) - edges)
    return pairs, laplacian, np.array([0, cut, n])


def plain_moments(X, query_ptr, c):
    total = np.zeros(X.shape[1])
    for b, e in itertools.pairwise(query_ptr):
        if c[b:e].sum() > 0:
            centred = X[b:e] - c[b:e] @ X[b:e] / c[b:e].sum()
            total += c[b:e] @ centred**2
    return total


def test_changes_beside_a_model():
    for n in ROWS:
        rng = np.random.default_rng(n)
        walls = Walls()
        before, now, bend = rng.normal(size=(3, n))
        step = 0.5
        now[::3] = (before + step * bend)[::3] * (1 + 1e-15)
        changed = walls.around(bend)
        query_ptr = walls.around(np.array([0, 0, n // 2, n]))
        both = walls.around(before), walls.around(now)
        rows = passes.find_changes(query_ptr, *both, step, changed, 1e-12)
        close(changed, now - before - step * bend)
        np.testing.assert_array_equal(rows, np.setdiff1d(np.arange(n), np.arange(0, n, 3)))
        passes.add_scaled(step, walls.around(before), changed)
        close(changed, now - 0.5 * before - step * bend)
        assert walls.standing()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_dense_passes(dtype):
    for d, n in zip(COLUMNS, itertools.cycle(ROWS), strict=False):
        check_dense(n, d, dtype)
    for n in ROWS:
        check_dense(n, 5, dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("d", [1, 7, 64, 129])
def test_dense_passes_around_what_is_fetched_ahead(dtype, d):
    """As many rows as are fetched ahead, twice as many, and one more or less."""
    rows = AHEAD_BYTES // (d * np.dtype(dtype).itemsize) + 1
    walls = Walls()
    rng = np.random.default_rng(d)
    for n in (rows - 1, rows, rows + 1, 2 * rows - 1, 2 * rows, 2 * rows + 1):
        X, u, v = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=n), rng.normal(size=d)
        g, z = walls.zeros(d), walls.zeros(n)
        passes.dense_transposed_dot(walls.around(X), walls.around(u), g)
        passes.dense_dot(walls.around(X), walls.around(v), z)
        close(g, X.T.astype(float) @ u)
        close(z, X.astype(float) @ v)
    assert walls.standing()


def check_dense(n, d, dtype):
    rng = np.random.default_rng(100 * n + d)
    walls = Walls()
    X = walls.around(rng.normal(size=(n, d)), dtype)
    plain = X.astype(float)
    v, u, c = (walls.around(rng.normal(size=size)) for size in (d, n, n))
    np.abs(c, out=c)
    z, g, some, of_some = walls.zeros(n), walls.zeros(d), walls.zeros((n + 1) // 2), walls.zeros(d)
    passes.dense_dot(X, v, z)
    passes.dense_transposed_dot(X, u, g)
    close(z, plain @ v)
    close(g, plain.T @ u)
    rows = walls.around(rng.permutation(n)[: len(some)])
    passes.dense_dot(X, v, some, rows)
    passes.dense_transposed_dot(X, walls.around(u[rows]), of_some, rows)
    close(some, plain[rows] @ v)
    close(of_some, plain[rows].T @ u[rows])
    pairs, laplacian, query_ptr = pairs_over(n, rng)
    passes.dense_laplacian(X, pairs, v, z, of_z := walls.zeros(n), g)
    close(z, plain @ v)
    close(of_z, laplacian @ (plain @ v))
    u = laplacian @ (plain @ v)
    assert np.all(np.abs(g - plain.T @ u) <= error_of_product(X, u) + 1e-9)
    first, out = walls.zeros(d), walls.zeros(d)
    passes.dense_moments(X, walls.around(query_ptr), c, first, out)
    close(out, plain_moments(plain, query_ptr, c))
    centred = walls.around(X)
    passes.dense_centre(centred, walls.around(query_ptr), c, first)
    squares = np.square(centred.astype(float)).sum(axis=0)
    np.testing.assert_allclose(squares, out, rtol=1e-9 if dtype == "float64" else 1e-5, atol=1e-9)
    assert walls.standing()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_sparse_passes(dtype, index):
    """Rows of 0, 1, 2, ... stored values, around the four that are summed side by side."""
    for d, n in zip([1, 2, 3, 4, 5, 8, 9, 17, 40], itertools.cycle(ROWS), strict=False):
        rng = np.random.default_rng(100 * n + d)
        walls = Walls()
        dense = np.where(np.arange(d) < (np.arange(n) % (d + 1))[:, None], 1.0, 0.0)
        dense = (dense * rng.normal(size=(n, d))).astype(dtype)
        X = sparse.csr_array(dense)
        arrays = walls.around(X.indptr, index), walls.around(X.indices, index), walls.around(X.data)
        plain = dense.astype(float)
        v, u, c = (walls.around(rng.normal(size=size)) for size in (d, n, n))
        np.abs(c, out=c)
        z, g, some, of_some = walls.zeros(n), walls.zeros(d), walls.zeros((n + 1) // 2), np.zeros(d)
        passes.sparse_dot(*arrays, v, z)
        passes.sparse_transposed_dot(*arrays, u, g)
        close(z, plain @ v)
        close(g, plain.T @ u)
        rows = walls.around(rng.permutation(n)[: len(some)])
        passes.sparse_dot(*arrays, v, some, rows)
        passes.sparse_transposed_dot(*arrays, walls.around(u[rows]), of_some, rows)
        close(some, plain[rows] @ v)
        close(of_some, plain[rows].T @ u[rows])
        pairs, laplacian, query_ptr = pairs_over(n, rng)
        g[:] = 0.0
        passes.sparse_laplacian(*arrays, pairs, v, z, of_z := walls.zeros(n), g)
        close(of_z, laplacian @ (plain @ v))
        close(g, plain.T @ (laplacian @ (plain @ v)))
        first, out = walls.zeros(d), walls.zeros(d)
        passes.sparse_moments(*arrays, walls.around(query_ptr), c, first, out)
        close(out, plain_moments(plain, query_ptr, c))
        assert walls.standing()


# ---- projection ---------------------------------------------------------------------------------


def plain_projection(mu, nu, C):
    """Bisection on the shift that makes both sums equal, and on those that make them C."""

    def cut(values, shift):
        return np.maximum(values - shift, 0.0)

    def root(excess):
        low, high = -1e3, 1e3
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        return low

    if mu.max() + nu.max() <= 0:
        return np.zeros_like(mu), np.zeros_like(nu)
    shift = root(lambda t: cut(mu, t).sum() - cut(nu, -t).sum())
    alpha, beta = cut(mu, shift), cut(nu, -shift)
    if alpha.sum() > C:
        alpha = cut(mu, root(lambda t: cut(mu, t).sum() - C))
        beta = cut(nu, root(lambda t: cut(nu, t).sum() - C))
    return alpha, beta


def test_projections_of_up_to_seventy_entries():
    walls = Walls()
    for p in range(1, 71):
        rng = np.random.default_rng(p)
        q = int(rng.integers(1, 71))
        mu, nu = rng.normal(size=p), np.round(rng.normal(size=q), 1)
        for C in (0.3, np.inf):
            found = soft_projection(walls.around(mu), walls.around(nu), C)
            for one, expected in zip(found, plain_projection(mu, nu, C), strict=True):
                close(one, expected)
    assert walls.standing()


# ---- epochs of dual ascent ----------------------------------------------------------------------

WIDTHS = [1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 25, 40]


def kinds(X):
    """The same features for each of the compiled loops."""
    yield X
    yield X.astype(np.float32)
    for dtype, index in itertools.product((np.float64, np.float32), (np.int32, np.int64)):
        one = sparse.csr_array(X.astype(dtype))
        one.indptr, one.indices = one.indptr.astype(index), one.indices.astype(index)
        yield one


def certified(result, loss):
    """The objective is that of the model for C = 1, and a lower bound is below it."""
    coef = result.model.coef
    close(result.objective, 0.5 * np.vdot(coef, coef) + loss)
    assert result.duality_gap >= 0


def loss_of_patterns(relevance, scores, by_level):
    """LaRank's: each item against all that it beats, or against those of one level at a time."""
    loss = 0.0
    for a, b in itertools.product(range(len(relevance)), repeat=2):
        if not relevance[b] < relevance[a]:
            continue
        beaten = relevance == relevance[b] if by_level else relevance < relevance[a]
        if b == np.flatnonzero(beaten)[0]:
            loss += max(0.0, 1.0 + scores[beaten].max() - scores[a])
    return loss


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("d", WIDTHS)
def test_epochs_over_labels(d):
    rng = np.random.default_rng(d)
    n, k = d + 2, int(rng.integers(2, 20))
    X, Y = rng.normal(size=(n, d)), rng.integers(0, 3, size=(n, k)).astype(float)
    Y[0, :2] = 0.0, 1.0
    X[rng.random(X.shape) < 0.3] = 0.0
    for features in kinds(X):
        data = LabelRankingData.from_arrays(features, Y)
        scores_of = np.asarray(data.X.toarray() if sparse.issparse(data.X) else data.X, float)
        result = rankplug.make_solver("sopopo", max_epochs=2).solve(data)
        scores = scores_of @ result.model.coef.T
        certified(result, graph_loss(data, scores, "adjacent-layers"))
        for schedule in ("adaptive", "cyclic"):
            result = rankplug.make_solver("larank", epochs=2, schedule=schedule).solve(data)
            scores = scores_of @ result.model.coef.T
            loss = sum(loss_of_patterns(y, s, True) for y, s in zip(Y, scores, strict=True))
            certified(result, loss)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("d", WIDTHS)
def test_epochs_over_queries(d):
    rng = np.random.default_rng(d)
    sizes = [1, 2, int(rng.integers(3, 20)), d]
    n = sum(sizes)
    X, y = rng.normal(size=(n, d)), np.arange(n) % 3
    X[rng.random(X.shape) < 0.3] = 0.0
    for features in kinds(X):
        data = RankingData.from_arrays(features, y, np.repeat(np.arange(4), sizes))
        scores_of = np.asarray(data.X.toarray() if sparse.issparse(data.X) else data.X, float)
        spans = list(itertools.pairwise(data.query_ptr))
        params = {"decomposition": "adjacent-layers", "max_epochs": 2}
        result = rankplug.make_solver("sopopo", **params).solve(data)
        scores = scores_of @ result.model.coef
        certified(result, graph_loss(data, scores, "adjacent-layers"))
        for schedule in ("adaptive", "cyclic"):
            params = {"epochs": 2, "schedule": schedule, "patterns": "items"}
            result = rankplug.make_solver("larank", **params).solve(data)
            scores = scores_of @ result.model.coef
            losses = [loss_of_patterns(y[b:e], scores[b:e], False) for b, e in spans]
            certified(result, sum(losses))
