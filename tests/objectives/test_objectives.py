"""Shards, losses and weights of pairs against listed pairs."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import DataError
from rankplug.objectives import (
    Hinge,
    PairWeighting,
    SmoothedHinge,
    SquaredHinge,
    centre_queries,
    hinge_objective,
    open_pairs,
    pair_weights,
    squared_hinge_objective,
)
from rankplug.shards import LocalShards, open_shards
from rankplug.solver import make_solver
from tests.oracles import (
    WEIGHTINGS,
    hinge_primal,
    listed_weights,
    odd_weights,
    pair_differences,
    squared_hinge_dual,
    squared_hinge_primal,
)

REDUCTIONS = ["sum", "mean", "query-mean"]


def ranking_data(kind="float64", seed=0, weighted=True):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(8), rng.integers(1, 9, size=8))
    X = rng.normal(size=(len(qid), 6))
    X[np.abs(X) < 0.3] = 0
    X = sparse.csr_array(X) if kind == "csr" else X.astype(kind)
    weight = rng.integers(0, 4, size=8)[qid].astype(float) if weighted else None
    y = rng.integers(0, 3, size=len(qid))
    return RankingData.from_arrays(X, y, qid, sample_weight=weight)


def label_data(kind="float64", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 4))
    X[np.abs(X) < 0.3] = 0
    Y = rng.integers(0, 3, size=(12, 5)).astype(float)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    return LabelRankingData.from_arrays(sparse.csr_array(X) if kind == "csr" else X, Y)


DATA = [
    pytest.param(ranking_data("float64"), id="dense"),
    pytest.param(ranking_data("float32"), id="float32"),
    pytest.param(ranking_data("csr"), id="csr"),
    pytest.param(label_data(), id="labels"),
    pytest.param(label_data("csr"), id="labels-csr"),
]


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("objective", "primal"),
    [(squared_hinge_objective, squared_hinge_primal), (hinge_objective, hinge_primal)],
)
def test_objectives_equal_listed_pairs(data, reduction, objective, primal):
    differences, query = pair_differences(data)
    weight = pair_weights(data, reduction)[query]
    w = np.random.default_rng(1).normal(size=differences.shape[1])
    value, gradient = objective(data, w, 0.7, reduction)
    expected, expected_gradient = primal(differences, weight, 0.7, w)
    assert value == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-8)
    if primal is squared_hinge_primal:
        gap = expected - squared_hinge_dual(differences, weight, 0.7, w)
        assert 0.5 * gradient @ gradient == pytest.approx(gap, rel=1e-8)


def weigh_documents(data, seed=5):
    return data.with_facts(document_weight=odd_weights(data.n_samples, seed))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(weigh_documents(ranking_data("float64")), id="dense"),
        pytest.param(weigh_documents(ranking_data("csr", seed=1, weighted=False)), id="csr"),
        pytest.param(label_data(), id="labels"),
    ],
)
@pytest.mark.parametrize("weighting", WEIGHTINGS, ids=lambda w: "-".join(w.values()))
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_weighted_objectives_equal_listed_pairs(data, reduction, weighting):
    """Value, gradient, Hessian product, estimates of the Hessian and a step of the line search."""
    differences, _ = pair_differences(data)
    weight = listed_weights(data, reduction, **weighting)
    counts = PairWeighting(**weighting)
    w, v = np.random.default_rng(1).normal(size=(2, differences.shape[1]))
    size = np.abs(differences).sum(axis=1) ** 2 @ weight
    for objective, primal in (
        (squared_hinge_objective, squared_hinge_primal),
        (hinge_objective, hinge_primal),
    ):
        value, gradient = objective(data, w, 0.7, reduction, counts)
        expected, expected_gradient = primal(differences, weight, 0.7, w)
        assert value == pytest.approx(expected, rel=1e-10)
        np.testing.assert_allclose(gradient, expected_gradient, atol=1e-12 * size)
    active = (differences @ w < 1) * weight
    hessian = 2 * differences.T @ (active[:, None] * differences)
    with open_pairs(data, reduction, 1, counts) as shards:
        loss = SquaredHinge(shards)
        loss.move_to(w)
        np.testing.assert_allclose(loss.hessian_product(v), hessian @ v, atol=1e-12 * size)
        loss.start_direction()
        loss.extend_direction(0.5)
        there = w + 0.15 * v
        expected = np.sum(weight * np.maximum(0, 1 - differences @ there) ** 2)
        assert loss.loss_along(0.3) == pytest.approx(expected, rel=1e-10)
        diagonal, exact = loss.hessian_diagonal(), np.diag(hessian)
        assert np.all((diagonal > 0.45 * exact - 1e-9 * size) & (diagonal < 2.01 * exact + 1e-9))
        smooth = SmoothedHinge(shards, 0.5)
        slack = np.maximum(0, 1 - differences @ w)
        bent = np.where(slack < 0.5, slack**2, slack - 0.25)
        assert smooth.move_to(w) == pytest.approx(weight @ bent, rel=1e-10)
        assert smooth.hinge() == pytest.approx(weight @ slack, rel=1e-10)
        assert smooth.total_slope() == pytest.approx(weight @ np.minimum(1, 2 * slack), rel=1e-10)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_mean_over_weighted_pairs_keeps_the_meaning_of_c(reduction):
    """Weights in other units change nothing but the sum."""
    data = weigh_documents(ranking_data())
    larger = data.with_facts(document_weight=1000.0 * data.document_weight)
    factor = 1000.0 if reduction == "sum" else 1.0
    expected = squared_hinge_objective(data, np.ones(6), factor, reduction)[0]
    assert squared_hinge_objective(larger, np.ones(6), 1.0, reduction)[0] == pytest.approx(expected)


def test_gains_and_weights_that_leave_no_pair_are_refused():
    data = ranking_data(weighted=False)
    high = data.with_facts(relevance=data.relevance + 30.0)
    with pytest.raises(DataError, match="pair_weight='gain' takes relevance from 0 to 31"):
        squared_hinge_objective(high, np.ones(6), 1.0, "sum", PairWeighting("gain"))
    two = np.minimum(data.relevance, 1.0)
    only = data.with_facts(relevance=two, document_weight=two)
    for reduction in REDUCTIONS:
        with pytest.raises(DataError, match="no preference pair counts"):
            make_solver("tree-tron", document_pairs="product", reduction=reduction).solve(only)


@pytest.mark.parametrize("data", DATA)
def test_hessian_product_and_line_search(data):
    differences, query = pair_differences(data)
    weight = pair_weights(data, "sum")[query]
    rng = np.random.default_rng(2)
    w, v, v2 = rng.normal(size=(3, differences.shape[1]))
    active = (differences @ w < 1) * weight
    rtol = 1e-6 if data.X.dtype == np.float32 else 1e-7  # of products of float32 features
    hessian = 2 * differences.T @ (active[:, None] * differences)
    with open_shards(data, pair_weights(data, "sum"), n_threads=1) as shards:
        loss = SquaredHinge(shards)
        loss.move_to(w)
        np.testing.assert_allclose(loss.hessian_product(v2), hessian @ v2, rtol, 1e-8)
        loss.start_direction()
        loss.extend_direction(0.5)
        np.testing.assert_allclose(loss.hessian_product(v), hessian @ v, rtol, 1e-8)
        loss.extend_direction(-2.0)
        tried = loss.loss_along(0.3)
        there = w + 0.3 * (0.5 * v2 - 2.0 * v)
        assert tried == pytest.approx(np.sum(weight * np.maximum(0, 1 - differences @ there) ** 2))
        # Trying moves nothing; accepting does.
        np.testing.assert_allclose(loss.hessian_product(v), hessian @ v, rtol, 1e-8)
        assert loss.loss_along(0.3) == tried
        loss.accept()
        gradient = loss.gradient()
    np.testing.assert_allclose(
        gradient, squared_hinge_primal(differences, weight, 1.0, there)[1] - there, atol=1e-8
    )


@pytest.mark.parametrize("data", DATA)
def test_hessian_estimates_are_close(data):
    """Within the factor 2 that the approximation may lose."""
    differences, query = pair_differences(data)
    weight = pair_weights(data, "sum")[query]
    exact = 2 * differences.T @ (weight[:, None] * differences)
    with open_shards(data, pair_weights(data, "sum"), n_threads=1) as shards:
        loss = SquaredHinge(shards)
        loss.move_to(None)
        diagonal = loss.hessian_diagonal()
        ratio = diagonal / np.diag(exact)
        assert ratio.min() > 0.45
        assert ratio.max() < 2.01
        if loss.has_gram:
            lower = np.tril(loss.hessian_gram())
            np.testing.assert_allclose(np.diag(lower), diagonal, rtol=1e-6)
            gram = lower + np.tril(lower, -1).T
            eigenvalues = np.linalg.eigvals(np.linalg.solve(exact, gram)).real
            assert eigenvalues.min() > 0.45
            assert eigenvalues.max() < 2.01


def test_gradient_is_the_slope_of_the_objective():
    data = ranking_data()
    w = np.random.default_rng(3).normal(size=6)
    _, gradient = squared_hinge_objective(data, w, 0.3)
    for k in range(6):
        step = np.zeros(6)
        step[k] = 1e-6
        above = squared_hinge_objective(data, w + step, 0.3)[0]
        below = squared_hinge_objective(data, w - step, 0.3)[0]
        assert gradient[k] == pytest.approx((above - below) / 2e-6, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_weight_is_a_repetition(reduction):
    rng = np.random.default_rng(4)
    qid = np.repeat(np.arange(5), [4, 3, 5, 1, 6])
    X, y = rng.normal(size=(19, 3)), rng.integers(0, 3, size=19)
    twice = qid == 2
    weighted = RankingData.from_arrays(X, y, qid, sample_weight=1.0 + twice)
    repeated = RankingData.from_arrays(
        np.vstack((X, X[twice])), np.append(y, y[twice]), np.append(qid, np.full(5, 9))
    )
    w = rng.normal(size=3)
    one, other = (squared_hinge_objective(d, w, 2.0, reduction)[0] for d in (weighted, repeated))
    assert one == pytest.approx(other, rel=1e-12)


def test_mean_reductions_average():
    data = ranking_data(weighted=False)
    w = np.zeros(6)
    # At w = 0 every pair has loss 1.
    for reduction in ("mean", "query-mean"):
        assert squared_hinge_objective(data, w, 3.0, reduction)[0] == pytest.approx(3.0)


@pytest.mark.parametrize("kind", ["float64", "csr"])
def test_threads_change_nothing(kind, monkeypatch):
    monkeypatch.setattr("rankplug.shards.local._SHARD_ELEMENTS", 40)
    data = ranking_data(kind)
    w = np.random.default_rng(5).normal(size=6)
    found = []
    for n_threads in (1, 2, 5):
        with open_shards(data, pair_weights(data, "sum"), n_threads) as shards:
            assert len(shards.shards) > 1
            loss = SquaredHinge(shards)
            found.append((loss.move_to(w), loss.gradient(), loss.hessian_product(w)))
    for value, gradient, product in found[1:]:
        assert value == found[0][0]
        np.testing.assert_array_equal(gradient, found[0][1])
        np.testing.assert_array_equal(product, found[0][2])


def test_shards_hold_every_query_once(monkeypatch):
    monkeypatch.setattr("rankplug.shards.local._SHARD_ELEMENTS", 30)
    data = ranking_data()
    with open_shards(data, np.ones(8), 1) as shards:
        relevance = [shard.query_ptr[-1] for shard in shards.shards]
        assert sum(relevance) == data.n_samples
        assert sum(len(shard.query_ptr) - 1 for shard in shards.shards) == 8


@pytest.mark.parametrize("data", DATA)
def test_hinge_along_a_line(data):
    differences, query = pair_differences(data)
    weight = pair_weights(data, "sum")[query]
    w, goal = np.random.default_rng(5).normal(size=(2, differences.shape[1]))
    there = w + 0.3 * (goal - w)
    value, gradient = hinge_primal(differences, weight, 1.0, there)
    gradient -= there
    with open_shards(data, pair_weights(data, "sum"), n_threads=1) as shards:
        loss = Hinge(shards)
        loss.move_to(w)
        loss.aim_at(goal)
        start = hinge_primal(differences, weight, 1.0, w)[1] - w
        assert loss.slope() == pytest.approx(start @ (goal - w))
        assert loss.loss_along(0.3) == pytest.approx(value - 0.5 * there @ there)
        assert loss.slope_along() == pytest.approx(gradient @ (goal - w))
        np.testing.assert_allclose(loss.gradient_along(), gradient, atol=1e-8)
        loss.accept()
        np.testing.assert_allclose(loss.gradient(), gradient, atol=1e-8)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("width", [1.0, 0.3, 1e-3])
def test_smoothed_hinge_equals_listed_pairs(data, width):
    differences, query = pair_differences(data)
    weight = pair_weights(data, "sum")[query]
    w, v = np.random.default_rng(6).normal(size=(2, differences.shape[1]))
    slack = 1 - differences @ w
    slope = np.clip(slack / width, 0, 1)
    curved = (slack > 0) & (slack < width)
    value = np.where(curved, slack**2 / (2 * width), np.maximum(slack - width / 2, 0))
    hessian = differences.T @ ((weight * curved / width)[:, None] * differences)
    with open_shards(data, pair_weights(data, "sum"), n_threads=1) as shards:
        loss = SmoothedHinge(shards)
        loss.move_to(w)
        assert loss.narrow(width) == pytest.approx(weight @ value)
        np.testing.assert_allclose(loss.gradient(), -differences.T @ (weight * slope), atol=1e-8)
        np.testing.assert_allclose(loss.hessian_product(v), hessian @ v, rtol=1e-8, atol=1e-8)
        assert loss.hinge() == pytest.approx(weight @ np.maximum(slack, 0))
        assert loss.total_slope() == pytest.approx(weight @ slope)


class FarShards(LocalShards):
    """Shards that act as if they were in another process."""

    far = True

    def __init__(self, shards):
        super().__init__(shards.shards, None)
        self.n_questions = 0

    def sum(self, operation, *arguments):
        self.n_questions += 1
        return super().sum(operation, *arguments)


def newton_steps(loss):
    """What is answered to Newton's method, with steps that are accepted at once, later or never."""
    rng = np.random.default_rng(6)
    for w in (None, rng.normal(size=6)):
        yield loss.move_to(w)
        yield loss.gradient()
        for tried in ([1.0], [1.0, 0.5, 0.25], []):
            v = rng.normal(size=6)
            loss.start_direction()
            yield loss.hessian_product(v)
            loss.extend_direction(0.3)
            for step in tried:
                yield loss.loss_along(step)
            if tried:
                loss.accept()
            if isinstance(loss, SmoothedHinge):
                yield loss.narrow(0.5 * loss.width)
            yield loss.gradient()


@pytest.mark.parametrize("make", [SquaredHinge, SmoothedHinge])
def test_far_shards_answer_the_same(make):
    data = ranking_data()
    with (
        open_shards(data, pair_weights(data, "sum"), 1) as near,
        open_shards(data, pair_weights(data, "sum"), 1) as others,
    ):
        for found, expected in zip(
            newton_steps(make(FarShards(others))), newton_steps(make(near)), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


def test_far_shards_are_asked_once_for_loss_and_gradient():
    data = ranking_data()
    with open_shards(data, pair_weights(data, "sum"), 1) as shards:
        far = FarShards(shards)
        loss = SquaredHinge(far)
        loss.move_to(None)
        loss.gradient()
        assert (far.n_questions, loss.n_passes) == (1, 1)
        loss.start_direction()
        loss.hessian_product(np.ones(6))
        loss.extend_direction(0.1)
        loss.loss_along(1.0)
        loss.accept()
        loss.gradient()
        assert (far.n_questions, loss.n_passes) == (3, 3)


def test_centring_sparse_features_makes_only_full_columns_dense():
    rng = np.random.default_rng(0)
    words = sparse.csr_array((np.ones(1000), (np.arange(1000), rng.integers(0, 20_000, 1000))))
    far = 1e6 + rng.normal(size=(1000, 1))
    X = sparse.csr_array(sparse.hstack((words, sparse.csr_array(far))))
    data = RankingData.from_arrays(X, rng.integers(0, 3, 1000), np.repeat([0, 1], 500))
    tracemalloc.start()
    centred = centre_queries(data).X.tocsc()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**24  # a dense sample would have 160 MB
    assert np.abs(centred[:500, [-1]].mean()) < 1e-6
    np.testing.assert_allclose(
        np.diff(centred[:, [-1]].toarray()[:500], axis=0), np.diff(far[:500], axis=0), atol=1e-9
    )
    assert (centred[:, :-1] != words.tocsc()).nnz == 0
