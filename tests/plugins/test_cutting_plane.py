"""The hinge-loss rankSVM against listed pairs, a QP solver and published values."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

import rankplug
from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import ConvergenceWarning, DataError
from rankplug.objectives import hinge_objective, pair_weights
from rankplug.optim import smoothing
from rankplug.optim.bundle import Planes
from tests.oracles import (
    WEIGHTINGS,
    hinge_dual,
    hinge_primal,
    listed_weights,
    oddly_weighed,
    pair_differences,
    small_sets,
)

METHODS = ["ocas", "bmrm", "smoothed-newton"]
by_method = pytest.mark.parametrize("method", METHODS)


def solve(data, C=1.0, **params):
    return rankplug.make_solver("cutting-plane", C=C, **params).solve(data)


def qp_minimum(differences, weight, C):
    """The minimum by cvxpy and Clarabel, of the problem divided by C or more."""
    cvxpy = pytest.importorskip("cvxpy")
    w, scale = cvxpy.Variable(differences.shape[1]), max(C, 1.0)
    loss = weight @ cvxpy.pos(1 - differences @ w)
    problem = cvxpy.Problem(cvxpy.Minimize(0.5 / scale * cvxpy.sum_squares(w) + C / scale * loss))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return scale * problem.value


def some_data(seed=0, noise=1.0, n_queries=20):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), 15)
    X = rng.normal(size=(len(qid), 8))
    y = np.digitize(X[:, 0] + noise * rng.normal(size=len(qid)), [0, 1])
    return RankingData.from_arrays(X, y, qid, sample_weight=1.0 + (qid % 3))


def label_data():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3))
    utility = X @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(40, 4))
    Y = np.digitize(utility, [-1, 1]).astype(float)
    Y[rng.random(Y.shape) < 0.1] = np.nan
    return LabelRankingData.from_arrays(X, Y)


@settings(max_examples=120, phases=[Phase.generate])
@given(
    small_sets(),
    st.sampled_from([1e-6, 0.1, 1.0, 1e4]),
    st.sampled_from(METHODS),
    st.sampled_from([{}, *WEIGHTINGS]),
)
def test_agrees_with_a_qp_solver(arrays, C, method, weighting):
    """The certified bounds lie on both sides of the minimum, within the tolerance.

    With a huge C, smoothed hinges of separable data may end in rounding errors, and say so.
    """
    data, reduction = oddly_weighed(arrays, weighting)
    differences, _ = pair_differences(data)
    weight = listed_weights(data, reduction, **weighting)
    result = solve(data, C, method=method, tol=1e-5, reduction=reduction, **weighting)
    value, _ = hinge_primal(differences, weight, C, result.model.coef)
    assert result.objective == pytest.approx(value, rel=1e-8)
    converged = result.status == "converged"
    assert converged or (method, C, result.status) == ("smoothed-newton", 1e4, "stopped")
    assert 0 <= result.duality_gap <= (1e-5 if converged else 0.1) * value
    minimum = qp_minimum(differences, weight, C)
    slack = 1e-6 * (1 + minimum)
    assert value - result.duality_gap - slack <= minimum <= value + slack


@by_method
@pytest.mark.parametrize("reduction", ["sum", "mean", "query-mean"])
def test_methods_agree_within_their_gaps(method, reduction):
    data = some_data()
    result = solve(data, 5.0, method=method, reduction=reduction, tol=1e-4)
    reference = solve(data, 5.0, reduction=reduction, tol=1e-9)
    assert result.status == reference.status == "converged"
    assert result.duality_gap <= 1e-4 * result.objective
    lower = result.objective - result.duality_gap
    assert lower <= reference.objective * (1 + 1e-9)
    assert reference.objective - reference.duality_gap <= result.objective * (1 + 1e-9)
    value, _ = hinge_objective(data, result.model.coef, 5.0, reduction)
    assert value == pytest.approx(result.objective)
    # f is strongly convex: the gap also bounds the distance of the minimisers.
    distance = np.linalg.norm(result.model.coef - reference.model.coef)
    assert distance <= np.sqrt(2 * result.duality_gap) + np.sqrt(2 * reference.duality_gap) + 1e-9


@by_method
def test_label_ranking(method):
    data = label_data()
    differences, query = pair_differences(data)
    result = solve(data, 0.5, method=method, tol=1e-6)
    expected = qp_minimum(differences, pair_weights(data, "sum")[query], 0.5)
    assert result.status == "converged"
    assert result.objective == pytest.approx(expected, rel=2e-6)


@pytest.mark.parametrize("method", ["ocas", "bmrm"])
@pytest.mark.parametrize("data", [some_data(n_queries=6), label_data()], ids=["queries", "labels"])
def test_the_bound_of_the_planes_recomputed_pair_by_pair(method, data, monkeypatch):
    """Each plane is a choice of pairs, and its multiplier their share of a dual point."""
    touched, bundles = [], []
    make, add = Planes.__init__, Planes.add
    monkeypatch.setattr(Planes, "__init__", lambda self, n: bundles.append(self) or make(self, n))
    monkeypatch.setattr(
        Planes, "add", lambda self, w, *plane: touched.append(w) or add(self, w, *plane)
    )
    monkeypatch.setattr("rankplug.optim.bundle._PATIENCE", 10_000)  # keeps the planes in order
    C, (differences, query) = 0.05, pair_differences(data)
    weight = pair_weights(data, "sum")[query]
    result = solve(data, C, method=method, tol=1e-6)
    share = bundles[0]._multipliers[1:]
    active = np.array([differences @ w < 1 for w in touched])
    alpha = C * weight * (share @ active)
    assert alpha.min() >= 0
    assert np.all(alpha <= C * weight * (1 + 1e-9))
    bound = hinge_dual(differences, alpha)
    gap = hinge_primal(differences, weight, C, result.model.coef.ravel())[0] - bound
    assert result.duality_gap == pytest.approx(gap, abs=1e-9 * bound)


@pytest.mark.parametrize("data", [some_data(), label_data()], ids=["queries", "labels"])
def test_the_bound_of_smoothed_hinges_recomputed_pair_by_pair(data, monkeypatch):
    """At each point, the slopes of the smoothed hinges are a dual point."""
    C, (differences, query) = 0.5, pair_differences(data)
    weight, bounds = pair_weights(data, "sum")[query], []

    def certify(loss, C, point, bracket, original=smoothing._certify):
        slopes = np.clip((1 - differences @ point.w) / loss.width, 0, 1)
        bounds.append(hinge_dual(differences, C * weight * slopes))
        return original(loss, C, point, bracket)

    monkeypatch.setattr(smoothing, "_certify", certify)
    result = solve(data, C, method="smoothed-newton", tol=1e-4)
    value, _ = hinge_primal(differences, weight, C, result.model.coef.ravel())
    assert result.duality_gap == pytest.approx(value - max(bounds), rel=1e-5)


@by_method
def test_the_history_is_monotone(method):
    result = solve(some_data(), 5.0, method=method)
    objectives = [row["objective"] for row in result.history]
    bounds = [row["objective"] - row["duality_gap"] for row in result.history]
    assert len(objectives) > 2
    assert np.all(np.diff(objectives) <= 0)
    assert np.all(np.diff(bounds) >= -1e-9 * objectives[0])
    assert objectives[-1] == result.objective


@by_method
@pytest.mark.parametrize("lam", [1e-4, 0.01, 1.0])
def test_lambda_of_the_paper(method, lam):
    """lam |w|^2 + 1/N sum over the N pairs: C = 1 / (2 lam N), or 1 / (2 lam) of the mean."""
    weighted = some_data()
    data = RankingData.from_arrays(weighted.X, weighted.relevance, weighted.qid)
    differences, _ = pair_differences(data)
    n_pairs = len(differences)

    def paper(w):
        return lam * w @ w + np.maximum(0, 1 - differences @ w).mean()

    by_sum = solve(data, 1 / (2 * lam * n_pairs), method=method, tol=1e-5)
    by_mean = solve(data, 1 / (2 * lam), reduction="mean", method=method, tol=1e-5)
    best = 2 * lam * qp_minimum(differences, np.ones(n_pairs), 1 / (2 * lam * n_pairs))
    for result in (by_sum, by_mean):
        assert paper(result.model.coef) == pytest.approx(2 * lam * result.objective)
        assert paper(result.model.coef) == pytest.approx(best, rel=2e-5)


@by_method
def test_a_ranking_visible_by_eye(method):
    """Three documents on a line: huge C meets every margin, so the closest pair gives w = 1."""
    data = RankingData.from_arrays([[0.0], [1.0], [3.0]], [0, 1, 2])
    C = 1e3 if method == "smoothed-newton" else 1e6
    assert solve(data, C, method=method, tol=1e-6).model.coef == pytest.approx([1.0], rel=1e-3)
    # Tiny C: every pair is active, and w is C times the sum of differences.
    assert solve(data, 1e-6, method=method).model.coef == pytest.approx([6e-6], rel=1e-2)


@by_method
def test_path_equals_single_solutions_and_saves_passes(method):
    data = some_data(n_queries=60)
    Cs = [1e-3 * 2**i for i in range(6)]
    solver = rankplug.make_solver("cutting-plane", method=method)
    path = rankplug.path(solver, data, Cs)
    singles = [solve(data, C, method=method) for C in Cs]
    for on_path, single in zip(path, singles, strict=True):
        assert on_path.status == "converged"
        assert on_path.duality_gap <= 1e-3 * on_path.objective
        assert on_path.objective == pytest.approx(single.objective, rel=2e-3)
    assert sum(r.n_passes for r in path) < 0.8 * sum(r.n_passes for r in singles)
    assert solver.C == 1.0


@by_method
def test_a_start_at_the_solution_keeps_its_objective(method):
    data = some_data()
    first = solve(data, 5.0, method=method, tol=1e-5)
    again = rankplug.make_solver("cutting-plane", C=5.0, method=method).solve(data, init=first)
    assert again.status == "converged"
    assert again.objective <= first.objective * (1 + 1e-12)


@by_method
def test_threads_give_the_same_model(method, monkeypatch):
    monkeypatch.setattr("rankplug.shards.local._SHARD_ELEMENTS", 200)
    data = some_data()
    one, two = (solve(data, method=method, n_threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one.model.coef, two.model.coef)


@by_method
def test_stopping_early_is_said(method):
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        result = solve(some_data(), 100.0, method=method, max_iter=1)
    assert result.status == "max_iter"
    solver = rankplug.make_solver("cutting-plane", C=100.0, method=method)
    assert solver.solve(some_data(), callback=lambda progress: True).status == "stopped"


@by_method
def test_an_impossible_tolerance_ends(method):
    result = solve(some_data(), 1.0, method=method, tol=1e-300, max_iter=100_000)
    assert result.status in ("stopped", "converged")
    assert result.duality_gap <= 1e-6 * result.objective


@pytest.mark.parametrize("size", [1e160, 1e300])
@by_method
def test_huge_features_are_an_error_not_nan(size, method):
    X = np.array([[1.0, 1.0], [-1.0, 2.0], [0.0, 3.0]]) * size
    with pytest.raises(DataError, match="scale"):
        solve(RankingData.from_arrays(X, [0, 1, 2]), 1.0, method=method)


@pytest.mark.parametrize("offset", ["one", "one a query"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_offsets_of_queries_change_nothing_for_smoothed_hinges(offset, dtype):
    rng = np.random.default_rng(3)
    X, qid = rng.normal(size=(100, 5)), np.arange(100) // 10
    y = np.digitize(X @ rng.normal(size=5) + rng.normal(size=100), [-1, 0, 1])
    shift = 1e5 if offset == "one" else 1e5 * rng.normal(size=10)[qid][:, None]
    far = RankingData.from_arrays((X + shift).astype(dtype), y, qid)
    near = RankingData.from_arrays(far.X.astype(np.float64) - shift, y, qid)
    for C in (1.0, 1e4):
        solver = rankplug.make_solver("cutting-plane", C=C, method="smoothed-newton")
        found, expected = solver.solve(far), solver.solve(near)
        assert found.status == "converged"
        slack = found.duality_gap + expected.duality_gap
        rounding = 1e-6 if dtype is np.float64 else 1e-2
        limit = slack + rounding * expected.objective
        assert abs(found.objective - expected.objective) <= limit


@pytest.mark.parametrize(
    ("name", "C", "objective"),
    [
        ("letor4_mq2008", 1e-3, 27.5611),
        ("letor4_mq2008", 0.1, 2504.36),
        ("letor3_ohsumed", 1e-3, 300.436),
        ("letor3_ohsumed", 0.1, 29710.0),
    ],
)
@by_method
def test_objectives_of_svmrank(data_folder, name, C, objective, method):
    """Against SVMrank 1.00 at eps 1e-3, whose own solutions are this far from the minimum."""
    train = rankplug.read_data(data_folder / name / "Fold1" / "train.txt.gz")
    result = solve(train, C, method=method)
    assert result.status == "converged"
    assert result.duality_gap <= 1e-3 * result.objective
    assert result.objective <= objective * (1 + 2e-3)


@by_method
def test_california_housing(data_folder, method):
    """One query with 3,842 distinct utilities; SVMrank has 57.5751 on some split."""
    houses = rankplug.read_data(data_folder / "cal_housing" / "cal_housing.txt.gz", dense=True)
    rows = np.random.default_rng(0).permutation(houses.n_samples)[:16_000]
    X = StandardScaler().fit_transform(houses.X[rows])
    result = solve(RankingData.from_arrays(X, houses.relevance[rows]), 1e-6, method=method)
    assert result.status == "converged"
    assert result.objective == pytest.approx(57.58, rel=5e-3)
