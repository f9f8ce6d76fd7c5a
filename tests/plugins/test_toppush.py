"""TopPush: problem (11), its dual, the cone of top_k, and both methods against a QP solver."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import rankplug
from rankplug.data import RankingData
from rankplug.exceptions import ConvergenceWarning, DataError, DataWarning, ParameterError
from rankplug.metrics import evaluate
from rankplug.objectives import make_top_problem
from rankplug.testing import contract_checks
from rankplug_plugins.toppush import alm_newton, newton_system
from rankplug_plugins.toppush.cone import project


def solve(data, lam=0.1, **params):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*the optimum is w = 0")
        return rankplug.make_solver("toppush", lam=lam, **params).solve(data)


def made_data(seed, n=40, shift=1.0, levels=3, n_queries=4, **arguments):
    """Rounded features, so ties, with a duplicate inside and across the levels."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 4)), 1)
    y = rng.integers(0, levels, size=n)
    X[:, 0] += shift * y
    X[5] = X[4]
    qid = np.sort(rng.integers(0, n_queries, size=n))
    return RankingData.from_arrays(X, y, qid, **arguments)


LOSSES = {
    "squared-hinge": lambda z: np.maximum(0, 1 + z) ** 2,
    "logistic": lambda z: np.log2(1 + np.exp(z)),
    "exponential": np.exp,
}


def obvious_value(data, lam, w, threshold=0.0, scope="per-query", top_k=1, loss="squared-hinge"):
    """(11) by loops."""
    positive = data.relevance > threshold
    scores = data.X @ w
    queries = [data.qid == q for q in data.query_ids]
    mixed = [np.unique(data.relevance[rows]).size > 1 for rows in queries]
    queries = [rows for rows, keep in zip(queries, mixed, strict=True) if keep]
    if scope == "global":
        queries = [np.logical_or.reduce(queries)]
    losses = []
    for rows in queries:
        above, below = scores[rows & positive], scores[rows & ~positive]
        if len(above) and len(below):
            top = np.sort(below)[-top_k:].mean()
            losses.append(np.mean(LOSSES[loss](top - above)))
    return 0.5 * lam * w @ w + np.mean(losses)


def qp_optimum(problem, lam, loss="squared-hinge"):
    cvxpy = pytest.importorskip("cvxpy")
    of_margin = {
        "squared-hinge": lambda z: cvxpy.square(cvxpy.pos(1 + z)),
        "logistic": lambda z: cvxpy.logistic(z) / np.log(2),
        "exponential": cvxpy.exp,
    }[loss]
    w = cvxpy.Variable(problem.n_features)
    X_pos, X_neg = problem.positives.gather(), problem.negatives.gather()
    value = 0.5 * lam * cvxpy.sum_squares(w)
    for q in range(problem.n_queries):
        pos = slice(*problem.pos_ptr[q : q + 2])
        neg = slice(*problem.neg_ptr[q : q + 2])
        k = int(problem.top_k[q])
        top = cvxpy.sum_largest(X_neg[neg] @ w, k) / k
        losses = of_margin(top - X_pos[pos] @ w)
        value += cvxpy.sum(cvxpy.multiply(problem.weight[pos], losses))
    found = cvxpy.Problem(cvxpy.Minimize(value))
    with warnings.catch_warnings():  # the comparison itself shows whether it was accurate
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        found.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return found.value, w.value


@pytest.mark.parametrize("scope", ["per-query", "global"])
@pytest.mark.parametrize("top_k", [1, 2, 50])
def test_the_value_is_that_of_the_stated_problem(scope, top_k):
    data, w = made_data(0), np.array([0.5, -0.3, 0.2, 0.1])
    problem = make_top_problem(data, None, scope, top_k)
    expected = obvious_value(data, 0.3, w, scope=scope, top_k=top_k)
    assert problem.value_at(0.3, w) == pytest.approx(expected)
    assert problem.value_at(0.3, np.zeros(4)) == pytest.approx(1.0)


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3]), st.sampled_from(["per-query", "global"]))
def test_no_dual_point_exceeds_any_value(seed, top_k, scope):
    rng = np.random.default_rng(seed)
    problem = make_top_problem(made_data(seed % 50), None, scope, top_k)
    a = rng.exponential(size=len(problem.weight)) * (rng.random(len(problem.weight)) < 0.7)
    b, _ = project(rng.normal(size=problem.neg_ptr[-1]), problem.neg_ptr, problem.top_k)
    w = rng.normal(size=4) * rng.exponential()
    assert problem.lower_bound(0.1, a, b) <= problem.value_at(0.1, w) + 1e-12


@given(
    st.lists(st.integers(-30, 30).map(lambda v: v / 10), min_size=1, max_size=12), st.integers(1, 6)
)
def test_projections_onto_the_cone_are_optimal(v, k):
    """By Moreau: u in the cone, v - u in its polar, orthogonal; and u lies on its face."""
    v, k = np.array(v), min(k, len(v))
    u, face = project(v, np.array([0, len(v)]), np.array([k]))
    rest = v - u
    assert u.min() >= 0
    assert u.max() <= u.sum() / k + 1e-12
    assert np.sort(rest)[-k:].mean() <= 1e-12
    assert abs(u @ rest) <= 1e-10
    np.testing.assert_allclose(face.project(v), u, atol=1e-10)


def test_projections_are_by_query():
    v, ptr, k = np.array([3.0, 1, -1, 2, 2, 0.5]), np.array([0, 3, 6]), np.array([2, 1])
    both, _ = project(v, ptr, k)
    first, _ = project(v[:3], np.array([0, 3]), k[:1])
    np.testing.assert_allclose(both, np.concatenate((first, v[3:])))


@pytest.mark.parametrize("scope", ["per-query", "global"])
@pytest.mark.parametrize("top_k", [1, 2, 3, 50])
@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_a_qp_solver(seed, scope, top_k):
    data = made_data(seed, shift=[0.0, 0.5, 1.0, 3.0][seed])
    lam = [1.0, 1e-2, 1e-3, 1e-1][seed]
    result = solve(data, lam, scope=scope, top_k=top_k, tol=1e-9)
    best, w = qp_optimum(make_top_problem(data, None, scope, top_k), lam)
    assert result.status == "converged"
    assert result.objective == pytest.approx(best, rel=1e-7)
    assert -1e-9 <= result.duality_gap <= 1e-9 * result.objective
    np.testing.assert_allclose(result.model.coef, w, atol=1e-3 * (1 + np.abs(w).max()))
    expected = obvious_value(data, lam, result.model.coef, scope=scope, top_k=top_k)
    assert result.objective == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
@pytest.mark.parametrize("scope", ["per-query", "global"])
@pytest.mark.parametrize("top_k", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_other_losses_agree_with_a_cone_solver(seed, scope, top_k, loss):
    data = made_data(seed, shift=2.0)
    problem = make_top_problem(data, None, scope, top_k, loss)
    value, w = qp_optimum(problem, 0.05, loss)
    options = {"lam": 0.05, "scope": scope, "top_k": top_k, "loss": loss, "tol": 1e-8}
    result = solve(data, **options)
    assert result.status == "converged"
    obvious = obvious_value(data, 0.05, result.model.coef, scope=scope, top_k=top_k, loss=loss)
    assert result.objective == pytest.approx(obvious, rel=1e-12)
    assert result.objective == pytest.approx(value, rel=1e-6)
    assert result.objective - result.duality_gap <= value + 1e-7
    np.testing.assert_allclose(result.model.coef, w, atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_no_dual_point_of_any_loss_exceeds_any_value(loss):
    rng = np.random.default_rng(0)
    for seed in range(5):
        problem = make_top_problem(made_data(seed), None, "per-query", 1, loss)
        steepest = getattr(problem.loss, "steepest", np.inf)
        for _ in range(30):
            size = 10.0 ** rng.uniform(-2, 2)
            a = problem.weight * np.minimum(size * rng.random(len(problem.weight)), steepest)
            b = rng.random(int(problem.neg_ptr[-1]))
            w = rng.normal(size=4) * 10.0 ** rng.uniform(-2, 1)
            assert problem.lower_bound(0.1, a, b) <= problem.value_at(0.1, w)
    # The second derivative is that of the first, and that of the value; away from the kink.
    r, h, ones = np.linspace(-3, 3, 7) + 0.01, 1e-6, np.ones(7)
    loss = problem.loss
    change = (loss.slopes(ones, r + h) - loss.slopes(ones, r - h)) / (2 * h)
    np.testing.assert_allclose(change, loss.curvatures(ones, r), rtol=1e-5, atol=1e-8)
    for e in np.eye(7):
        rise = (loss.total(e, r + h) - loss.total(e, r - h)) / (2 * h)
        assert rise == pytest.approx(loss.slopes(e, r).sum(), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize(
    "check",
    [
        check
        for loss in ("logistic", "exponential")
        for check in contract_checks(rankplug.make_solver("toppush", loss=loss))
    ],
    ids=lambda check: f"{check.case.solver.loss}-{check}",
)
def test_the_contract_holds_for_other_losses(check):
    check()


@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_other_losses_vanish_and_separate_alike(inseparable, loss):
    with pytest.warns(UserWarning, match="the optimum is w = 0"):
        result = rankplug.make_solver("toppush", loss=loss).solve(inseparable)
    assert result.objective == pytest.approx(1.0)
    X = np.array([[5.0, 1.0], [4.0, -1.0], [0.0, 0.5], [-1.0, 0.0]])
    data = RankingData.from_arrays(sparse.csr_array(X), [1, 1, 0, 0])
    for lam in (1e-8, 1e-3, 10.0):
        result = solve(data, lam, loss=loss)
        assert result.status == "converged"
        assert evaluate(data.relevance, result.model.predict(X), None, "pos@top")["pos@top"] == 1
    with pytest.raises(ParameterError, match="takes loss='squared-hinge' only"):
        rankplug.make_solver("toppush", loss=loss, method="apg").solve(data)


@pytest.mark.parametrize("scope", ["per-query", "global"])
def test_accelerated_gradients_agree(scope):
    data = made_data(2)
    slow = solve(data, method="apg", scope=scope, tol=1e-6)
    fast = solve(data, scope=scope, tol=1e-9)
    assert slow.status == "converged"
    assert slow.objective - slow.duality_gap <= fast.objective + 1e-9
    assert slow.objective == pytest.approx(fast.objective, rel=2e-6)


@pytest.mark.parametrize("top_k", [1, 3])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_many_features_take_conjugate_gradients(monkeypatch, kind, top_k):
    data = made_data(3)
    data = RankingData.from_arrays(kind(data.X), data.relevance, data.qid)
    expected = solve(data, top_k=top_k, tol=1e-9)
    monkeypatch.setattr(newton_system, "_LARGEST_CHOLESKY", 0)
    result = solve(data, top_k=top_k, tol=1e-9)
    assert result.status == "converged"
    assert result.objective == pytest.approx(expected.objective, rel=1e-8)


def test_the_threshold_makes_positives():
    data = made_data(1)
    with pytest.warns(DataWarning, match="two grades, 0 to 2, .*above 0 .*Set threshold=0 "):
        by_default = solve(data)
    with pytest.warns(DataWarning, match="a2dm2: relevance has more than two grades"):
        rankplug.Ranker("a2dm2").fit(data.X, data.relevance, qid=data.qid)
    binary = RankingData.from_arrays(data.X, data.relevance > 1, data.qid)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        low, high, two = solve(data, threshold=0.5), solve(data, threshold=1.0), solve(binary)
    assert by_default.objective == pytest.approx(low.objective)
    assert high.objective == pytest.approx(two.objective)


def test_queries_of_one_kind_are_left_out():
    data = made_data(1)
    X = np.vstack((data.X, [[50.0, 0, 0, 0], [60.0, 0, 0, 0]]))
    y = np.append(data.relevance, [1, 2])  # a query without a negative
    more = RankingData.from_arrays(X, y, np.append(data.qid, [9, 9]))
    np.testing.assert_allclose(solve(more).model.coef, solve(data).model.coef, atol=1e-5)


@pytest.mark.parametrize("threshold", [-1.0, 5.0])
@pytest.mark.parametrize("scope", ["per-query", "global"])
def test_one_kind_only_is_an_error_that_names_the_threshold(threshold, scope):
    with pytest.raises(DataError, match=f"relevance > {threshold:g}.*from 0 to 2.*threshold"):
        solve(made_data(0), threshold=threshold, scope=scope)


def test_weights_in_the_global_scope():
    data = made_data(1)
    double = data.qid % 2 == 0
    weighted = RankingData.from_arrays(data.X, data.relevance, data.qid, sample_weight=1.0 + double)
    repeated = RankingData.from_arrays(
        np.vstack((data.X, data.X[double])),
        np.concatenate((data.relevance, data.relevance[double])),
        np.concatenate((data.qid, 10 + data.qid[double])),
    )
    one, two = (solve(d, scope="global", tol=1e-10) for d in (weighted, repeated))
    assert one.objective == pytest.approx(two.objective, rel=1e-8)


@pytest.fixture
def inseparable():
    """A positive between two negatives on a line."""
    return RankingData.from_arrays([[-1.0], [0.0], [1.0]], [0, 1, 0])


@pytest.mark.parametrize("method", ["alm-newton", "apg"])
def test_a_vanishing_optimum_is_said(inseparable, method):
    with pytest.warns(UserWarning, match="w = 0.*top_k > 1.*scope='per-query'.*features"):
        result = rankplug.make_solver("toppush", method=method).solve(inseparable)
    assert result.objective == pytest.approx(1.0)
    assert result.duality_gap <= 1e-6
    np.testing.assert_allclose(result.model.coef, 0.0, atol=1e-3)


def test_top_k_resists_an_outlier():
    """One negative above all positives makes w = 0 optimal; the mean of two does not."""
    rng = np.random.default_rng(0)
    y = np.repeat([1, 0], 20)
    X = rng.normal(size=(40, 2)) + 2.0 * y[:, None]
    X[-1] = 8.0
    data = RankingData.from_arrays(X, y)
    assert not solve(data, 1e-2).model.coef.any()
    scores = solve(data, 1e-2, top_k=10).model.predict(X[:-1])
    assert evaluate(y[:-1], scores, None, "pos@top")["pos@top"] > 0.5


def test_a_separable_top_without_a_warning():
    data = RankingData.from_arrays([[0.0], [1.0], [3.0]], [0, 0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = rankplug.make_solver("toppush", lam=1e-6).solve(data)
    # The margin is 2, so (1 - 2 w)^2 + lam/2 w^2 has its minimum close to w = 1/2.
    assert result.model.coef == pytest.approx([0.5], rel=1e-5)


def test_stopping_early_is_said():
    data = made_data(2)
    solver = rankplug.make_solver("toppush", lam=1e-3, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        assert solver.solve(data).status == "max_iter"


def test_apg_refuses_top_k():
    with pytest.raises(ParameterError, match="alm-newton"):
        solve(made_data(0), method="apg", top_k=2)


@pytest.mark.parametrize("method", ["alm-newton", "apg"])
@pytest.mark.parametrize("size", [1e160, 1e300])
def test_huge_features_are_an_error_not_nan(method, size):
    X = np.array([[1.0, 1.0], [-1.0, 2.0], [0.0, 3.0]]) * size
    with pytest.raises(DataError, match="scale"):
        solve(RankingData.from_arrays(X, [0, 1, 1]), method=method)


def test_the_penalty_only_rises():
    result = solve(made_data(2), tol=1e-9)
    penalties = [row["penalty"] for row in result.history]
    assert penalties == sorted(penalties)
    assert penalties[0] == alm_newton._FIRST_PENALTY


@pytest.mark.parametrize("matrix", [[[-1.0, 2.0], [2.0, -1.0]], [[0.0, 1.0], [1.0, 0.0]]])
def test_a_hessian_that_rounding_made_indefinite_ends(matrix):
    with pytest.raises(FloatingPointError, match="digits"):
        newton_system._solve_positive(np.array(matrix), np.ones(2))


@pytest.mark.parametrize(
    ("name", "lam", "objective", "most_passes"),
    [
        ("spambase", 1.0, 0.9998853, 120),
        ("spambase", 1e-2, 0.9918850, 120),
        ("spambase", 1e-3, 0.9723319, 120),
        ("a9a", 1e-2, 1.0, 120),
        ("ijcnn1.train", 1e-2, 1.0, 120),
        ("w8a", 1.0, 0.9723757, 200),
        ("w8a", 1e-3, 0.7063806, 200),
    ],
)
def test_passes_on_public_sets(data_folder, name, lam, objective, most_passes):
    data = rankplug.read_data(data_folder / "libsvm_binary" / f"{name}.txt.gz")
    largest = abs(sparse.csr_array(data.X)).max(axis=0).toarray().ravel()
    X = sparse.csr_array(
        sparse.csr_array(data.X) @ sparse.diags_array(1 / np.maximum(largest, 1e-300))
    )
    data = RankingData.from_arrays(X, data.relevance > 0)
    result = solve(data, lam)
    assert result.status == "converged"
    assert result.objective == pytest.approx(objective, rel=2e-6)
    assert result.duality_gap <= 1e-6 * result.objective
    assert result.n_passes <= most_passes
