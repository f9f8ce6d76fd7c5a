"""The engine of ADMM and A2DM2 on the paper's elastic net, and ranking at the top by it."""

import warnings
from itertools import islice, pairwise

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import maxabs_scale

import rankplug
from rankplug.data import RankingData
from rankplug.exceptions import ConvergenceWarning, DataError
from rankplug.objectives import make_top_problem
from rankplug.optim.a2dm2 import largest_step, safe_step, splitting
from rankplug_plugins.a2dm2 import split as split_module
from rankplug_plugins.a2dm2.split import TopSplit

VARIANTS = ["admm", "a2dm2", "a2dm2-restart"]


class ElasticNet:
    """min |x|_1 + 1/2 |x|^2 + mu (|y|_1 + 1/2 |y|^2) subject to A x + y = c (equation 15)."""

    def __init__(self, seed=0, m=12, n=20, mu=0.5):
        rng = np.random.default_rng(seed)
        self.matrix = rng.normal(size=(m, n))
        x = rng.normal(size=n) * (rng.random(n) < 0.2)
        self.c = self.matrix @ x + rng.exponential(0.01, size=m)
        self.mu = mu
        self.norm = np.linalg.norm(self.matrix, 2)
        self._last = np.zeros(n)

    def argmin_x(self, v, rho):
        """Proximal gradients from the last solution: there is no closed form."""
        x, step = self._last, 1 / (1 + rho * self.norm**2)
        gram, right = self.matrix.T @ self.matrix, self.matrix.T @ v
        for _ in range(3000):
            new = soft(x - step * (x + rho * (gram @ x - right)), step)
            done = np.abs(new - x).max() < 1e-14
            x = new
            if done:
                break
        self._last = x
        return x

    def argmin_y(self, v, rho):
        return soft(rho * v, self.mu) / (rho + self.mu)

    def argmin_y_linear(self, g):
        return soft(-g, self.mu) / self.mu

    def map_x(self, x):
        return self.matrix @ x

    def map_y(self, y):
        return y

    def value(self, x, y):
        return np.abs(x).sum() + x @ x / 2 + self.mu * (np.abs(y).sum() + y @ y / 2)

    @property
    def largest_step(self):
        return largest_step(1.0, self.mu, self.norm, 1.0)

    def optimum(self):
        cvxpy = pytest.importorskip("cvxpy")
        x, y = (cvxpy.Variable(k) for k in self.matrix.shape[::-1])
        value = cvxpy.norm1(x) + cvxpy.sum_squares(x) / 2
        value += self.mu * (cvxpy.norm1(y) + cvxpy.sum_squares(y) / 2)
        problem = cvxpy.Problem(cvxpy.Minimize(value), [self.matrix @ x + y == self.c])
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        return problem.value, x.value

    def run(self, variant, rho, n_iter, **options):
        zero = np.zeros(len(self.c))
        steps = splitting(self, variant, rho, y=zero, multiplier=zero, **options)
        return list(islice(steps, n_iter))


def soft(v, t):
    return np.sign(v) * np.maximum(np.abs(v) - t, 0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_elastic_net_is_solved(variant):
    problem = ElasticNet()
    best, x = problem.optimum()
    last = problem.run(variant, problem.largest_step, 300)[-1]
    assert last.primal_residual < 1e-5
    assert problem.value(last.x, last.y) == pytest.approx(best, rel=1e-5)
    np.testing.assert_allclose(last.x, x, atol=1e-4)


def test_acceleration_is_faster_and_restarts_faster_still():
    """The order of the paper's figure 1."""
    problem = ElasticNet()
    residual = {v: problem.run(v, problem.largest_step, 60)[-1].primal_residual for v in VARIANTS}
    assert residual["a2dm2"] < 0.3 * residual["admm"]
    assert residual["a2dm2-restart"] < 0.1 * residual["a2dm2"]


def test_relaxation_changes_the_way_not_the_end():
    problem = ElasticNet()
    plain, relaxed = (problem.run("admm", 0.3, 400, relaxation=r) for r in (1.0, 1.6))
    np.testing.assert_allclose(plain[-1].x, relaxed[-1].x, atol=1e-6)
    assert relaxed[30].primal_residual != pytest.approx(plain[30].primal_residual, rel=1e-3)


def test_a_restart_is_never_followed_by_another():
    restarts = [s.restarted for s in ElasticNet().run("a2dm2-restart", 0.05, 200, eta=0.8)]
    assert any(restarts)
    assert not any(a and b for a, b in pairwise(restarts))
    assert not any(s.restarted for s in ElasticNet().run("a2dm2", 0.05, 50))


def test_momentum_starts_as_nesterov_does():
    """t = 1 gives no momentum at first: the second iteration starts from g itself."""
    problem = ElasticNet()
    first, second = problem.run("a2dm2", 0.05, 2)
    y_ahead = problem.argmin_y_linear(first.multiplier)
    x = problem.argmin_x(problem.c - y_ahead - first.multiplier / 0.05, 0.05)
    np.testing.assert_allclose(second.x, x, atol=1e-10)


def test_the_step_is_checked():
    assert largest_step(8.0, 1.0, 1.0, 1.0) == pytest.approx(2.0)
    assert largest_step(1.0, 8.0, 2.0, 2.0) == pytest.approx(1.0)
    assert safe_step(0.5, 1.0) == 0.5
    with pytest.warns(ConvergenceWarning, match=r"rho=10 is 5 times.*clamp"):
        assert safe_step(10.0, 2.0) == 10.0
    assert safe_step(10.0, 2.0, clamp=True) == 2.0


def made_data(seed=0, n=30, kind=np.asarray, **arguments):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 3)), 1)
    y = rng.integers(0, 2, size=n)
    X[:, 0] += y
    X[3] = X[2]
    return RankingData.from_arrays(kind(X), y, np.sort(rng.integers(0, 3, size=n)), **arguments)


def made_split(seed=0, **arguments):
    return TopSplit(make_top_problem(made_data(seed), None, "per-query"), 0.3, **arguments)


def solve(data, lam=0.1, **params):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*the optimum is w = 0")
        return rankplug.make_solver("a2dm2", lam=lam, **params).solve(data)


@pytest.mark.parametrize("rho", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("seed", range(3))
def test_every_step_is_the_exact_minimiser(seed, rho):
    """Each update of Algorithm 3 against a numerical minimisation of its own subproblem."""
    rng = np.random.default_rng(seed)
    split = made_split(seed, lam1=0.2, lam2=0.05)
    problem, m = split.problem, len(split.problem.weight)
    v = 3 * rng.normal(size=len(split.c))

    def f1(x):
        w, t = x[:3], x[3:]
        return 0.15 * w @ w + 0.5 * split.lam1 @ t**2

    def of_x(x):
        return f1(x) + 0.5 * rho * np.sum((split.map_x(x) - v) ** 2)

    x = split.argmin_x(v, rho)
    found = optimize.minimize(of_x, np.zeros_like(x), tol=1e-12)
    assert of_x(x) <= found.fun + 1e-9 * abs(found.fun)
    np.testing.assert_allclose(x, found.x, atol=1e-4)

    def minimiser(i, extra):
        """Of one entry of f2 plus `extra`."""

        def of_entry(u):
            loss = problem.weight[i] * max(0.0, 1 + u) ** 2 if i < m else 0.0
            return loss + 0.5 * split.lam2[i] * u * u + extra(u)

        high = 0.0 if i >= m else 500.0
        return optimize.minimize_scalar(
            of_entry, bounds=(-500.0, high), method="bounded", options={"xatol": 1e-10}
        ).x

    y, linear = split.argmin_y(v, rho), split.argmin_y_linear(v)
    for i in range(len(v)):
        close = minimiser(i, lambda u, i=i: 0.5 * rho * (u - v[i]) ** 2)
        assert y[i] == pytest.approx(close, abs=1e-5)
        assert linear[i] == pytest.approx(minimiser(i, lambda u, i=i: v[i] * u), abs=1e-4)


def test_the_constraint_is_that_of_the_problem():
    split = made_split(lam1=0.1, lam2=0.1)
    problem, rng = split.problem, np.random.default_rng(1)
    w, t = rng.normal(size=3), rng.normal(size=problem.n_queries)
    Ax = split.map_x(np.concatenate((w, t)))
    m = len(problem.weight)
    X_pos, X_neg = problem.positives.gather(), problem.negatives.gather()
    np.testing.assert_allclose(Ax[:m], X_pos @ w - problem.of_positives(t))
    np.testing.assert_allclose(Ax[m:], problem.of_negatives(t) - X_neg @ w)
    v = rng.normal(size=len(Ax))
    assert split.transposed(v) @ np.concatenate((w, t)) == pytest.approx(v @ Ax)
    pos, neg = split.scores(np.concatenate((w, t)), Ax)
    np.testing.assert_allclose(pos, X_pos @ w)
    np.testing.assert_allclose(neg, X_neg @ w)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_three_ways_to_the_w_step(monkeypatch, kind):
    problem = make_top_problem(made_data(kind=kind), None, "per-query")
    split = TopSplit(problem, 0.3, 0.2, 0.1)
    v = np.random.default_rng(0).normal(size=len(split.c))
    expected = split._by_columns(0.7)(v)
    np.testing.assert_allclose(split._by_rows(0.7)(v), expected, atol=1e-9)
    monkeypatch.setattr(split_module, "_LARGEST_FACTOR", 0)
    np.testing.assert_allclose(split._solver(0.7)(v), expected, atol=1e-6)


def test_more_features_than_rows():
    rng = np.random.default_rng(0)
    data = RankingData.from_arrays(rng.normal(size=(10, 25)), np.arange(10) % 2)
    result = solve(data, tol=1e-8)
    exact = rankplug.make_solver("toppush", lam=0.1, tol=1e-9).solve(data)
    assert result.objective == pytest.approx(exact.objective, rel=1e-3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_problem_13_is_solved(variant):
    cvxpy = pytest.importorskip("cvxpy")
    data = made_data()
    one = RankingData.from_arrays(data.X, data.relevance)
    problem = make_top_problem(one, None, "per-query")
    w, t = cvxpy.Variable(3), cvxpy.Variable()
    b, s = t - problem.positives.gather() @ w, problem.negatives.gather() @ w - t
    value = 0.15 * cvxpy.sum_squares(w) + cvxpy.sum_squares(cvxpy.pos(1 + b)) / b.shape[0]
    value += 0.05 * t**2 + 0.05 * (cvxpy.sum_squares(s) + cvxpy.sum_squares(b))
    cvxpy.Problem(cvxpy.Minimize(value), [s <= 0]).solve(solver="CLARABEL")
    result = solve(one, 0.3, variant=variant, lam1=0.1, lam2=0.1, tol=1e-9)
    np.testing.assert_allclose(result.model.coef, w.value, atol=1e-4)


@pytest.mark.parametrize("scope", ["per-query", "global"])
@pytest.mark.parametrize("lam", [1.0, 0.1, 1e-2])
def test_defaults_are_close_to_the_optimum_of_problem_11(lam, scope):
    data = made_data(1)
    result = solve(data, lam, scope=scope)
    exact = rankplug.make_solver("toppush", lam=lam, scope=scope, tol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        best = exact.solve(data).objective
    assert result.status == "converged"
    assert best * (1 - 1e-8) <= result.objective <= best * (1 + 2e-3)
    assert result.objective - result.duality_gap <= best * (1 + 1e-8)
    problem = make_top_problem(data, None, scope)
    assert result.objective == pytest.approx(problem.value_at(lam, result.model.coef))


def test_the_theorems_step_bounds_that_of_the_papers_variant():
    data = made_data()
    params = {"variant": "a2dm2", "lam1": 0.1, "lam2": 0.1}
    bound = solve(data, **params, rho=1e3, clamp=True).history[0]["rho"]
    with pytest.warns(ConvergenceWarning, match="10 times the largest step"):
        solve(data, **params, rho=10 * bound)
    restarting = solve(data, **{**params, "variant": "a2dm2-restart"}, rho=1e3 * bound)
    assert restarting.status == "converged"


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_variants_solve_by_default(variant):
    """Their minimum is 0.36387; with a step that the theorem allows they would not leave w = 0."""
    X, y = load_breast_cancer(return_X_y=True)
    result = solve(RankingData.from_arrays(maxabs_scale(X), y), 0.01, variant=variant)
    assert result.status == "converged"
    assert result.n_iter < 1000
    assert result.objective == pytest.approx(0.36387, rel=1e-3)


def test_the_solution_of_its_own_problem_is_returned():
    """Where lam1 and lam2 are as large as the paper's, it may be no better than w = 0 for (11)."""
    data = made_data(4)
    result = solve(data, 0.01, lam1=0.1, lam2=0.1, rho=0.01, tol=1e-5)
    assert result.status == "converged"
    problem = TopSplit(make_top_problem(data, None, "per-query"), 0.01, 0.1, 0.1)
    w = result.model.coef
    pos, neg = problem.problem.scores(w)

    def value(t):
        b, s = problem.problem.of_positives(t) - pos, neg - problem.problem.of_negatives(t)
        return problem.value(np.concatenate((w, t)), np.concatenate((b, -s)))

    tops = problem.problem.tops(neg)
    best = min(value(tops + shift) for shift in np.linspace(0, 1, 50))
    assert best < 1.0
    assert np.abs(w).max() > 0.01


def test_divergence_is_an_error_that_names_the_remedy():
    params = {"variant": "a2dm2", "lam1": 1e-6, "lam2": 1e-6, "rho": 1e6}
    solver = rankplug.make_solver("a2dm2", **params)
    with (
        pytest.warns(ConvergenceWarning, match="times the largest step"),
        pytest.raises(DataError, match=r"diverges with rho=.*lower rho"),
    ):
        solver.solve(made_data())


def test_a_vanishing_optimum_is_said():
    data = RankingData.from_arrays([[-1.0], [0.0], [1.0]], [0, 1, 0])
    with pytest.warns(UserWarning, match="w = 0.*toppush.*top_k > 1"):
        result = rankplug.make_solver("a2dm2").solve(data)
    assert result.objective == pytest.approx(1.0)


@pytest.mark.parametrize("size", [1e160, 1e300])
def test_huge_features_are_an_error_not_nan(size):
    X = np.array([[1.0, 1.0], [-1.0, 2.0], [0.0, 3.0]]) * size
    with pytest.raises(DataError, match="scale"):
        solve(RankingData.from_arrays(X, [0, 1, 1]))


def test_history_holds_both_residuals():
    row = solve(made_data()).history[-1]
    assert {"primal_residual", "dual_residual", "duality_gap", "objective"} <= set(row)


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_starts_at_a_model(variant, tmp_path):
    """The multipliers are found again: a solution is known for one at once, saved or not."""
    X, y = load_breast_cancer(return_X_y=True)
    data = RankingData.from_arrays(maxabs_scale(X), y, np.arange(len(y)) % 3)
    cold = solve(data, lam=0.01, variant=variant)
    assert cold.n_iter > 100
    cold.model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    toppush = rankplug.make_solver("toppush", lam=0.01).solve(data)
    solver = rankplug.make_solver("a2dm2", lam=0.01, variant=variant)
    for init, most in ((cold, 20), (loaded, 20), (toppush, cold.n_iter)):
        warm = solver.solve(data, init=init)
        assert warm.n_iter <= most
        assert warm.status == "converged"
        assert warm.objective == pytest.approx(cold.objective, rel=3e-4)
        assert warm.objective - warm.duality_gap <= toppush.objective * (1 + 1e-9)


def test_a_start_bounds_whatever_the_model(monkeypatch):
    """Any weights give multipliers whose bounds hold; with many negatives the top ones alone."""
    for seed in range(4):
        data = made_data(seed, n=60)
        least = rankplug.make_solver("toppush", lam=0.1, tol=1e-9).solve(data)
        split = TopSplit(make_top_problem(data, None, "per-query"), 0.1, 1e-4, 1e-4)
        rng = np.random.default_rng(seed)
        for most in (2**21, 0):
            monkeypatch.setattr(split_module, "_MOST_FITTED", most)
            for w in (np.zeros(3), rng.normal(size=3), least.model.coef):
                x, y, g = split.start(w)
                assert (y[len(split.problem.weight) :] <= 0).all()
                of_11, of_13 = split.lower_bounds(x, g)
                assert of_11 <= least.objective * (1 + 1e-9)
                assert of_13 <= split.value(x, -y) + 1e-12
