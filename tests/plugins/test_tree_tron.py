"""Tree-TRON against listed pairs, a QP solver, optimality conditions and published values."""

import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import maxabs_scale

import rankplug
from rankplug import metrics
from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import ConvergenceWarning, DataError, ParameterError
from rankplug.objectives import pair_weights, squared_hinge_objective
from rankplug.system.interruption import check_in_time
from tests.oracles import (
    WEIGHTINGS,
    listed_weights,
    minimise_squared_hinge,
    odd_weights,
    oddly_weighed,
    pair_differences,
    small_sets,
    squared_hinge_dual,
    squared_hinge_primal,
)

METHODS = [
    {"method": "newton"},
    {"method": "newton", "preconditioner": "none"},
    {"method": "newton", "preconditioner": "diagonal"},
    {"method": "newton", "preconditioner": "cholesky"},
    {"method": "tron"},
]
by_method = pytest.mark.parametrize("params", METHODS, ids=lambda p: "-".join(p.values()))


def solve(data, C=1.0, **params):
    params = {"tol": 1e-8, "max_iter": 500, **params}
    return rankplug.make_solver("tree-tron", C=C, **params).solve(data)


@settings(max_examples=150)
@given(
    small_sets(scales=(0.01, 1.0, 100.0)),
    st.sampled_from([1e-6, 0.1, 1.0, 1e4]),
    st.sampled_from(METHODS),
    st.sampled_from([{}, *WEIGHTINGS]),
)
def test_agrees_with_listed_pairs(arrays, C, params, weighting):
    data, reduction = oddly_weighed(arrays, weighting)
    differences, _ = pair_differences(data)
    weight = listed_weights(data, reduction, **weighting)
    result = solve(data, C, reduction=reduction, **params, **weighting)
    _, best = minimise_squared_hinge(differences, weight, C)
    value, gradient = squared_hinge_primal(differences, weight, C, result.model.coef)
    assert result.objective == pytest.approx(value, rel=1e-8, abs=1e-10)
    assert value - best <= result.duality_gap + 1e-9 * (1 + best)
    scale = 2 * C * np.linalg.norm(differences.T @ weight) + 1e-12
    assert np.linalg.norm(gradient) <= 1e-5 * scale
    gap = value - squared_hinge_dual(differences, weight, C, result.model.coef)
    # Where rounding errors outweigh that gap, a smaller C yields a better one.
    assert result.duality_gap <= gap * (1 + 1e-3) + 1e-7 * (1 + value)


@pytest.mark.parametrize("weighting", [None, *WEIGHTINGS], ids=str)
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_agrees_with_a_qp_solver(C, weighting):
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(0)
    qid = np.repeat([0, 1, 2], [6, 1, 5])
    X = np.round(rng.normal(size=(12, 3)), 1)
    data = RankingData.from_arrays(X, rng.integers(0, 3, size=12), qid)
    differences, _ = pair_differences(data)
    if weighting is not None:
        data = data.with_facts(document_weight=odd_weights(12, 1))
    weight = listed_weights(data, "mean", **(weighting or {}))
    w = cvxpy.Variable(3)
    slack = cvxpy.pos(1 - differences @ w)
    problem = cvxpy.Problem(
        cvxpy.Minimize(0.5 * cvxpy.sum_squares(w) + C * weight @ cvxpy.square(slack))
    )
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    result = solve(data, C, tol=1e-10, reduction="mean", **(weighting or {}))
    assert result.objective == pytest.approx(problem.value, rel=1e-7)
    np.testing.assert_allclose(result.model.coef, w.value, atol=1e-5)


@by_method
@pytest.mark.parametrize("reduction", ["sum", "mean", "query-mean"])
def test_methods_agree(params, reduction):
    rng = np.random.default_rng(1)
    qid = np.repeat(np.arange(20), 15)
    X = rng.normal(size=(300, 8))
    y = np.digitize(X[:, 0] + rng.normal(size=300), [0, 1])
    data = RankingData.from_arrays(X, y, qid, sample_weight=1.0 + (qid % 3))
    result = solve(data, 5.0, reduction=reduction, tol=1e-9, **params)
    reference = solve(data, 5.0, reduction=reduction, tol=1e-9)
    assert result.status == "converged"
    np.testing.assert_allclose(result.model.coef, reference.model.coef, rtol=1e-5, atol=1e-8)
    value, gradient = squared_hinge_objective(data, result.model.coef, 5.0, reduction)
    assert value == pytest.approx(result.objective)
    scale = np.linalg.norm(squared_hinge_objective(data, np.zeros(8), 5.0, reduction)[1])
    assert np.linalg.norm(gradient) < 1e-8 * scale


@by_method
def test_label_ranking(params):
    if params.get("preconditioner") == "cholesky":
        pytest.skip("refused for label ranking, see below")
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3))
    Y = np.digitize(X @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(40, 4)), [-1, 1]).astype(
        float
    )
    Y[rng.random(Y.shape) < 0.1] = np.nan
    data = LabelRankingData.from_arrays(X, Y)
    result = solve(data, 0.5, **params)
    differences, query = pair_differences(data)
    w, best = minimise_squared_hinge(differences, pair_weights(data, "sum")[query], 0.5)
    assert result.objective == pytest.approx(best, rel=1e-7)
    np.testing.assert_allclose(result.model.coef.ravel(), w, atol=1e-4)


def test_cholesky_is_for_ranking_data():
    data = LabelRankingData.from_arrays(np.eye(3), np.array([0, 1, 2]))
    with pytest.raises(ParameterError, match="diagonal"):
        solve(data, preconditioner="cholesky")


def test_ranker_on_classes():
    rng = np.random.default_rng(3)
    centres = np.array([[3, 0], [0, 3], [-3, -3]])
    classes = rng.integers(0, 3, size=60)
    X = centres[classes] + rng.normal(size=(60, 2))
    ranker = rankplug.LabelRanker("tree-tron").fit(X, np.array(["a", "b", "c"])[classes])
    assert np.mean(ranker.classify(X) == np.array(["a", "b", "c"])[classes]) > 0.95


def test_all_rows_of_a_ranking_visible_by_eye():
    """Three documents on a line: the margin decides the slope."""
    data = RankingData.from_arrays([[0.0], [1.0], [3.0]], [0, 1, 2])
    # Huge C: every margin is met exactly or exceeded, so the closest pair gives w = 1.
    assert solve(data, 1e8).model.coef == pytest.approx([1.0], rel=1e-6)


def test_path_equals_single_solutions_and_saves_passes():
    rng = np.random.default_rng(4)
    qid = np.repeat(np.arange(30), 20)
    X = rng.normal(size=(600, 10))
    y = np.digitize(X[:, 0] + rng.normal(size=600), [-1, 0, 1])
    data = RankingData.from_arrays(X, y, qid)
    Cs = [1e-5 * 4**i for i in range(8)]
    solver = rankplug.make_solver("tree-tron")
    path = rankplug.path(solver, data, Cs)
    singles = [rankplug.make_solver("tree-tron", C=C).solve(data) for C in Cs]
    for on_path, single in zip(path, singles, strict=True):
        assert on_path.status == "converged"
        assert on_path.objective == pytest.approx(single.objective, rel=1e-4)
    assert sum(r.n_passes for r in path) < 0.6 * sum(r.n_passes for r in singles)
    assert solver.C == 1.0


def test_an_approximated_hessian_saves_passes_where_columns_repeat_each_other():
    rng = np.random.default_rng(0)
    x, cuts = rng.normal(size=(500, 4)), rng.normal(size=(80, 7))
    bins = [np.searchsorted(np.sort(cut), x[:, t % 4]) for t, cut in enumerate(cuts)]
    X = sparse.csr_array(np.hstack([np.eye(8)[codes] for codes in bins]))
    y = np.digitize(x.sum(axis=1) + np.prod(x, axis=1) + rng.normal(size=500), [-1, 0, 1, 2])
    data = RankingData.from_arrays(X, y, np.arange(500) // 50)
    results = [solve(data, 10.0, tol=1e-5, preconditioner=name) for name in ("nystrom", "diagonal")]
    assert [result.status for result in results] == ["converged", "converged"]
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-4)
    assert results[0].n_passes < 0.8 * results[1].n_passes


def test_warm_start_from_the_solution_is_free():
    data = RankingData.from_arrays(np.random.default_rng(5).normal(size=(50, 3)), np.arange(50) % 4)
    first = solve(data)
    again = rankplug.make_solver("tree-tron", tol=1e-7).solve(data, init=first)
    assert again.n_iter == 0
    assert again.objective == pytest.approx(first.objective)


def test_threads_give_the_same_model(monkeypatch):
    monkeypatch.setattr("rankplug.shards.local._SHARD_ELEMENTS", 200)
    rng = np.random.default_rng(6)
    data = RankingData.from_arrays(
        rng.normal(size=(400, 5)), rng.integers(0, 3, 400), np.repeat(np.arange(40), 10)
    )
    one, two = (solve(data, n_threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one.model.coef, two.model.coef)


def test_stopping_early_is_said():
    data = RankingData.from_arrays(np.random.default_rng(7).normal(size=(50, 3)), np.arange(50) % 4)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        assert solve(data, 100.0, max_iter=1).status == "max_iter"
    solver = rankplug.make_solver("tree-tron", C=100.0)
    assert solver.solve(data, callback=lambda progress: True).status == "stopped"


@pytest.mark.parametrize("size", [1e160, 1e300])
@by_method
def test_huge_features_are_an_error_not_nan(size, params):
    X = np.array([[1.0, 1.0], [-1.0, 2.0], [0.0, 3.0]]) * size
    with pytest.raises(DataError, match="scale"):
        solve(RankingData.from_arrays(X, [0, 1, 2]), 1.0, **params)


def letor(data_folder, name, part):
    return rankplug.read_data(data_folder / name / "Fold1" / f"{part}.txt.gz")


def test_mq2008_equals_the_published_optimum(data_folder):
    """LIBLINEAR's rankSVM at its optimum: pairwise accuracy 0.827101; the paper prints 82.70 %."""
    train = letor(data_folder, "letor4_mq2008", "train")
    test = letor(data_folder, "letor4_mq2008", "test")
    result = rankplug.make_solver("tree-tron", C=128, tol=1e-6).solve(train)
    scores = result.model.predict(test.X)
    found = metrics.evaluate(test.relevance, scores, test.qid, ["pairwise_accuracy", "mean_ndcg"])
    assert found["pairwise_accuracy"] == pytest.approx(0.827101, abs=0.0005)
    assert found["mean_ndcg"] == pytest.approx(0.4594, abs=0.001)


@pytest.mark.parametrize(
    ("name", "C", "objective"),
    [
        ("letor4_mq2008", 1e-3, 30.59838),
        ("letor4_mq2008", 0.1, 2960.83),
        ("letor3_ohsumed", 1e-3, 329.896),
        ("letor3_ohsumed", 0.1, 32730.0),
    ],
)
@pytest.mark.parametrize("method", ["newton", "tron"])
def test_objective_at_the_default_tolerance(data_folder, name, C, objective, method):
    """Against LIBLINEAR's rankSVM 2.11 at the same relative gradient of 1e-3."""
    result = rankplug.make_solver("tree-tron", C=C, method=method).solve(
        letor(data_folder, name, "train")
    )
    assert result.status == "converged"
    # Rounding decides where the long conjugate gradients of tron end.
    assert result.objective <= objective * (1 + {"newton": 1e-4, "tron": 5e-4}[method])


@pytest.mark.parametrize("method", ["newton", "tron"])
@pytest.mark.parametrize("C", [1e-3, 0.1, 10.0])
def test_converged_means_close_to_the_minimum_on_nearly_separable_data(method, C):
    """There the gradient at 0 is huge beside all that matters at the end."""
    X, y = load_breast_cancer(return_X_y=True)
    data = RankingData.from_arrays(maxabs_scale(X), y)
    result = rankplug.make_solver("tree-tron", C=C, method=method).solve(data)
    best = solve(data, C)
    assert (result.status, best.status) == ("converged", "converged")
    assert result.objective <= best.objective * (1 + 5e-3)


@by_method
def test_converged_means_a_certified_gap_where_c_is_huge(params):
    """Twelve rows in sixty dimensions: rounding outweighs the last steps of Newton's method."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(12, 60)), rng.integers(0, 3, 12)
    data = RankingData.from_arrays(X, y, np.arange(12) % 2)
    result = solve(data, 1e6, tol=1e-6, max_iter=2000, **params)
    assert result.status == "converged"
    assert result.duality_gap <= 1e-6 * result.objective
    assert result.objective == pytest.approx(0.05456003, rel=1e-6)


@by_method
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_columns_far_from_0_lose_no_digits(params, kind):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    qid = np.arange(60) % 4
    far = X + 1e6 * qid[:, None]
    near, moved = (RankingData.from_arrays(kind(Z), y, qid) for Z in (X, far))
    here, there = (solve(data, tol=1e-6, **params) for data in (near, moved))
    assert there.status == "converged"
    np.testing.assert_allclose(there.model.coef, here.model.coef, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("late_in", ["rankplug.shards.matrices", "rankplug.optim.linear_systems"])
def test_large_factorisations_look_at_the_time_limit(monkeypatch, late_in):
    """In parts they give the same; once it is over they end, and the status says why."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(80, 40)), np.arange(80) // 8
    data = RankingData.from_arrays(X, rng.integers(0, 3, size=80), qid)
    solver = rankplug.make_solver("tree-tron", preconditioner="cholesky", tol=1e-8)
    expected = solver.solve(data)
    parts = {"rankplug.shards.matrices._NARROWEST": 7, "rankplug.shards.matrices._WORK": 1}
    large = {
        f"rankplug.{module}._LARGE": 8 for module in ("shards.matrices", "optim.linear_systems")
    }
    for name, value in {**parts, **large, "rankplug.optim.linear_systems._PANEL": 7}.items():
        monkeypatch.setattr(name, value)
    found = solver.solve(data, time_limit=1000.0)
    assert (found.status, found.n_iter) == ("converged", expected.n_iter)
    np.testing.assert_allclose(found.model.coef, expected.model.coef, rtol=1e-8)

    def check_late():
        time.sleep(0.2)
        return check_in_time()

    monkeypatch.setattr(f"{late_in}.check_in_time", check_late)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = solver.solve(data, time_limit=0.1)
    assert (result.status, result.n_iter) == ("time_limit", 0)
