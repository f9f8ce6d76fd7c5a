"""Soft projections against a QP solver, scikit-learn's machines and loss formulas."""

import dataclasses
import functools
import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

import rankplug
from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import ConvergenceWarning, DataError, ParameterError
from rankplug.solver import Monitor
from rankplug.testing import contract_checks
from rankplug_plugins.sopopo import Sopopo, decompositions
from rankplug_plugins.sopopo.decompositions import NAMES, decompose
from rankplug_plugins.sopopo.solver import _Ascent
from tests.oracles import bipartite_graphs, graph_loss, groups, query_data

by_decomposition = pytest.mark.parametrize("decomposition", list(NAMES))
by_weights = pytest.mark.parametrize("weights", ["sum", "mean"])


def solve(data, C=1.0, **params):
    params = {"tol": 1e-7, "max_epochs": 5000, **params}
    return rankplug.make_solver("sopopo", C=C, **params).solve(data, random_state=0)


def label_data(seed=0, n=12, d=3, k=5, X=None):
    """Ties, labels that are not compared, a row without features, a row without preference."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) if X is None else X
    Y = rng.integers(0, 3, size=(n, k)) * rng.choice([1.0, 0.5])
    Y[rng.random(Y.shape) < 0.1] = np.nan
    X[3], Y[4] = 0.0, 1.0
    return LabelRankingData.from_arrays(X, Y)


def minimum(data, C, decomposition, weights="sum", X=None):
    """The optimum by a QP solver: (value, weights)."""
    cvxpy = pytest.importorskip("cvxpy")
    X = data.X if X is None else X
    labels = isinstance(data, LabelRankingData)
    w = cvxpy.Variable((data.n_labels, X.shape[1]) if labels else X.shape[1])
    scores = X @ w.T if labels else X @ w
    total = 0
    for y, s, group_weight in groups(data, _Rows(scores, len(data.relevance))):
        graphs = bipartite_graphs(y, decomposition)
        for A, B in graphs:
            sigma = group_weight / (len(graphs) if weights == "mean" else 1)
            above = cvxpy.max(cvxpy.hstack([y[a] - s[a] for a in A]))
            below = cvxpy.max(cvxpy.hstack([s[b] - y[b] for b in B]))
            total += sigma * cvxpy.pos(above + below)
    problem = cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(w) + C * total))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value, w.value


@functools.cache
def label_minimum(decomposition, weights):
    return minimum(label_data(), 0.7, decomposition, weights)


@functools.cache
def query_minimum(decomposition, weighted):
    return minimum(query_data(weighted=weighted), 0.3, decomposition)


class _Rows:
    """An expression whose rows can be iterated."""

    def __init__(self, expression, n):
        self._expression, self._n = expression, n

    def __iter__(self):
        return (self._expression[i] for i in range(self._n))

    def __getitem__(self, key):
        return self._expression[key]


@st.composite
def relevances(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = rng.integers(0, 7, size=draw(st.integers(1, 4)))
    relevance = rng.integers(0, draw(st.sampled_from([1, 2, 3, 9])), size=sizes.sum()) * 0.7
    relevance[rng.random(len(relevance)) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    return relevance, np.concatenate(([0], np.cumsum(sizes))), rng.integers(0, 3, size=len(sizes))


@given(relevances(), st.sampled_from(list(NAMES)), st.sampled_from(["sum", "mean"]))
def test_decompositions_equal_obvious_ones(case, name, weights):
    relevance, offset, group_weight = case
    found = decompose(relevance, offset, group_weight.astype(float), name, weights)
    for g, (begin, end) in enumerate(itertools.pairwise(offset)):
        expected = bipartite_graphs(relevance[begin:end], name) if group_weight[g] else []
        graphs = []
        for b in range(found.group_ptr[g], found.group_ptr[g + 1]):
            members = found.member[found.member_ptr[b] : found.member_ptr[b + 1]].tolist()
            split = found.n_better[b]
            graphs.append((sorted(members[:split]), sorted(members[split:])))
            share = len(expected) if weights == "mean" else 1
            assert found.weight[b] == pytest.approx(group_weight[g] / share)
        assert sorted(graphs) == sorted((sorted(a), sorted(b)) for a, b in expected)


@by_decomposition
@by_weights
@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
def test_label_ranking_equals_a_qp_solver(decomposition, weights, kind):
    data = label_data()
    value, coef = label_minimum(decomposition, weights)
    X = sparse.csr_array(data.X) if kind == "csr" else data.X.astype(kind)
    same = LabelRankingData.from_arrays(X, data.relevance)
    result = solve(same, 0.7, decomposition=decomposition, weights=weights)
    assert result.status == "converged"
    assert result.objective == pytest.approx(value, rel=1e-6)
    assert result.objective - result.duality_gap <= value * (1 + 1e-6)
    np.testing.assert_allclose(result.model.coef, coef, atol=2e-3)


@by_decomposition
@pytest.mark.parametrize("cache_mb", [200.0, 1e-4])
def test_rbf_equals_a_qp_solver(decomposition, cache_mb):
    """Features whose inner products are the kernel make it a linear problem."""
    data = label_data(1)
    values, vectors = np.linalg.eigh(rbf_kernel(data.X, gamma=0.5))
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    value, coef = minimum(data, 0.7, decomposition, X=features)
    params = {"kernel": "rbf", "gamma": 0.5, "cache_mb": cache_mb}
    result = solve(data, 0.7, decomposition=decomposition, **params)
    assert result.objective == pytest.approx(value, rel=1e-6)
    assert result.objective - result.duality_gap <= value * (1 + 1e-6)
    np.testing.assert_allclose(result.model.predict(data.X), features @ coef.T, atol=2e-3)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("kind", ["float64", "csr"])
@by_decomposition
def test_it_starts_at_a_model_of_any_kind(decomposition, kind, kernel):
    """At a solution nearly nothing is left to do; elsewhere the bound still holds."""
    for data in (label_data(1), query_data(1)):
        if kind == "csr":
            data = dataclasses.replace(data, X=sparse.csr_array(data.X))
        if kernel == "rbf" and data.n_labels is None:
            continue
        params = {"decomposition": decomposition, "kernel": kernel, "gamma": 0.3}
        solver = rankplug.make_solver("sopopo", C=0.05, tol=1e-6, **params)
        few = clone(solver).set_params(max_epochs=1, tol=1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cold = solver.solve(data, random_state=0)
            other = rankplug.make_solver("tree-tron").solve(data).model
            for init in (cold, cold.model, other):
                start = few.solve(data, init=init, random_state=0)
                assert start.objective - start.duality_gap <= cold.objective * (1 + 1e-9)
                warm = solver.solve(data, init=init, random_state=0)
                assert warm.objective == pytest.approx(cold.objective, rel=1e-5)
            first = few.solve(data, random_state=0)
            start = few.solve(data, init=cold, random_state=0)
        assert start.duality_gap <= max(0.5 * first.duality_gap, 1e-6 * cold.objective)


def test_weights_start_at_scores_where_a_model_has_none():
    data = query_data(1)
    trees = rankplug.make_solver("xgboost-pairwise", n_estimators=3).solve(data).model
    solver = rankplug.make_solver("sopopo", C=0.05, tol=1e-6)
    cold, warm = (solver.solve(data, init=init, random_state=0) for init in (None, trees))
    assert warm.objective == pytest.approx(cold.objective, rel=1e-5)
    assert warm.duality_gap <= 1e-6 * warm.objective


@by_decomposition
@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
@pytest.mark.parametrize("weighted", [False, True])
def test_queries_equal_a_qp_solver(decomposition, kind, weighted):
    data = query_data(weighted=weighted)
    value, coef = query_minimum(decomposition, weighted)
    X = sparse.csr_array(data.X) if kind == "csr" else data.X.astype(kind)
    weight = (
        None if data.query_weight is None else np.repeat(data.query_weight, np.diff(data.query_ptr))
    )
    same = RankingData.from_arrays(X, data.relevance, data.qid, sample_weight=weight)
    result = solve(same, 0.3, decomposition=decomposition)
    assert result.status == "converged"
    assert result.objective == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(result.model.coef, coef, atol=1e-4)


def certificate(problem, data):
    """The dual objective from the dual variables alone, which must be feasible."""
    graphs, dual = problem.certified, np.asarray(problem.graphs.dual)
    labels = isinstance(data, LabelRankingData)
    X = data.X
    weights, linear = np.zeros((data.n_labels, X.shape[1]) if labels else X.shape[1]), 0.0
    for b, g in enumerate(graphs.group):
        begin, end = graphs.member_ptr[b : b + 2]
        split = begin + graphs.n_better[b]
        alpha, beta = dual[begin:split], dual[split:end]
        assert alpha.min() >= 0
        assert beta.min() >= 0
        bound = problem.C * graphs.weight[b]
        assert alpha.sum() == pytest.approx(beta.sum(), abs=1e-12 * bound)
        assert alpha.sum() <= bound * (1 + 1e-12)
        for i in range(begin, end):
            signed = dual[i] if i < split else -dual[i]
            item = graphs.member[i]
            if labels:
                linear += signed * data.relevance[g, item]
                weights[item] += signed * X[g]
            else:
                row = data.query_ptr[g] + item
                linear += signed * data.relevance[row]
                weights += signed * X[row]
    return linear - 0.5 * np.sum(weights**2)


@by_decomposition
@pytest.mark.parametrize("make", [label_data, query_data])
@pytest.mark.parametrize("n_epochs", [1, 9, 40])
def test_the_gap_is_certified(decomposition, make, n_epochs):
    data = make(2)
    solver = rankplug.make_solver("sopopo", C=2.0, decomposition=decomposition)
    problem = solver._problem(data)
    problem.C, problem.certified = 2.0, solver._graphs(data)
    ascent = _Ascent(problem, 1e-12, True)
    result = ascent.run(n_epochs, Monitor(), np.random.default_rng(0))
    coef = result.model.coef
    loss = graph_loss(data, result.model.predict(data.X), decomposition)
    primal = 0.5 * np.sum(coef**2) + 2.0 * loss
    assert result.objective == pytest.approx(primal, rel=1e-10)
    gap = primal - certificate(problem, data)
    assert result.duality_gap == pytest.approx(gap, rel=1e-6, abs=1e-10 * primal)
    rows = result.history
    for earlier, later in itertools.pairwise(rows):
        assert later["objective"] <= earlier["objective"]
        assert later["duality_gap"] <= earlier["duality_gap"]


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.sampled_from(list(NAMES)),
    st.sampled_from([1e-4, 1.0, 30.0]),
    st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_any_scale_has_a_small_certified_gap(seed, decomposition, C, size):
    data = label_data(seed, n=8, X=np.random.default_rng(seed).normal(size=(8, 3)) * size)
    with np.errstate(all="raise"):
        result = solve(data, C / size**2, decomposition=decomposition, tol=1e-4)
    scores = result.model.predict(data.X)
    loss = graph_loss(data, scores, decomposition)
    primal = 0.5 * np.sum(result.model.coef**2) + C / size**2 * loss
    assert result.objective == pytest.approx(primal, rel=1e-9)
    assert result.duality_gap <= 1e-4 * result.objective


def test_two_labels_are_a_binary_support_vector_machine():
    """With w_1 = -w_0 = v / 2, it is 1/2 (1/2 |v|^2 + 2 C sum hinge)."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 4))
    y = (X[:, 0] + 0.5 * rng.normal(size=80) > 0).astype(int)
    result = solve(LabelRankingData.from_arrays(X, y), 0.5, tol=1e-9)
    svc = LinearSVC(
        C=1.0, loss="hinge", fit_intercept=False, dual=True, tol=1e-9, max_iter=100_000
    ).fit(X, y)
    v = result.model.coef[1] - result.model.coef[0]
    np.testing.assert_allclose(v, svc.coef_[0], atol=1e-4)
    np.testing.assert_allclose(result.model.coef.sum(axis=0), 0.0, atol=1e-12)
    hinge = np.maximum(0, 1 - np.where(y == 1, 1, -1) * (X @ svc.coef_[0])).sum()
    expected = 0.5 * (0.5 * svc.coef_[0] @ svc.coef_[0] + hinge)
    assert result.objective == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("decomposition", ["top-vs-rest", "adjacent-layers", "all-layers"])
def test_classes_with_the_worst_pair_are_crammer_and_singers_machine(decomposition):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    y = rng.integers(0, 4, size=60)
    result = solve(LabelRankingData.from_arrays(X, y), 0.3, decomposition=decomposition, tol=1e-8)
    svc = LinearSVC(
        C=0.3, multi_class="crammer_singer", fit_intercept=False, tol=1e-8, max_iter=100_000
    ).fit(X, y)
    np.testing.assert_allclose(result.model.coef, svc.coef_, atol=1e-3)
    scores = X @ result.model.coef.T
    own = scores[np.arange(60), y]
    scores[np.arange(60), y] = -np.inf
    loss = np.maximum(0, 1 - own + scores.max(axis=1)).sum()
    value = 0.5 * np.sum(result.model.coef**2) + 0.3 * loss
    assert result.objective == pytest.approx(value)


def test_classes_with_all_pairs_are_weston_and_watkins_machine():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 4, size=40)
    result = solve(LabelRankingData.from_arrays(X, y), 0.3, decomposition="all-pairs")
    scores = X @ result.model.coef.T
    slack = np.maximum(0, 1 - scores[np.arange(40), y][:, None] + scores)
    slack[np.arange(40), y] = 0.0
    value = 0.5 * np.sum(result.model.coef**2) + 0.3 * slack.sum()
    assert result.objective == pytest.approx(value)
    assert result.duality_gap <= 1e-6 * value


def test_several_labels_with_the_mean_of_all_pairs_are_elisseeff_and_westons_machine():
    rng = np.random.default_rng(6)
    X, Y = rng.normal(size=(30, 3)), rng.integers(0, 2, size=(30, 5)).astype(float)
    params = {"decomposition": "all-pairs", "weights": "mean"}
    result = solve(LabelRankingData.from_arrays(X, Y), 2.0, **params)
    scores, loss = X @ result.model.coef.T, 0.0
    for s, y in zip(scores, Y, strict=True):
        if 0 < y.sum() < 5:
            loss += np.maximum(0, 1 - (s[y == 1][:, None] - s[y == 0][None, :])).mean()
    value = 0.5 * np.sum(result.model.coef**2) + 2.0 * loss
    assert result.objective == pytest.approx(value)
    assert result.duality_gap <= 1e-6 * value


def test_by_eye():
    """One instance, two labels one apart: w_a - w_b = 1 / x unless C is too small."""
    data = LabelRankingData.from_arrays([[2.0]], [[1.0, 0.0]])
    np.testing.assert_allclose(solve(data, 10.0).model.coef, [[0.25], [-0.25]], atol=1e-9)
    np.testing.assert_allclose(solve(data, 0.01).model.coef, [[0.02], [-0.02]], atol=1e-9)


def test_what_a_function_decomposes():
    def adjacent(relevance):
        return bipartite_graphs(relevance, "adjacent-layers")

    data = label_data(3)
    mine, named = solve(data, decomposition=adjacent), solve(data)
    assert mine.objective == pytest.approx(named.objective, rel=1e-6)

    def doubled(relevance):
        return [(a, b, 2.0) for a, b in adjacent(relevance)]

    assert solve(data, 0.5, decomposition=doubled).objective == pytest.approx(
        named.objective, rel=1e-6
    )
    assert solve(query_data(), decomposition=adjacent).objective == pytest.approx(
        solve(query_data(), decomposition="adjacent-layers").objective, rel=1e-6
    )


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda y: None, r"list of \(A, B\)"),
        (lambda y: [([0],)], r"list of \(A, B\)"),
        (lambda y: [([0], [])], "positions"),
        (lambda y: [([0], [9])], "positions go from 0 to 2"),
        (lambda y: [([0, 0], [1])], "each once"),
        (lambda y: [([1], [0])], "higher relevance"),
        (lambda y: [([0], [2])], "higher relevance"),  # NaN is not compared
        (lambda y: [([0], [1], 0.0)], "weight"),
    ],
)
def test_functions_that_return_no_decomposition(function, words):
    data = LabelRankingData.from_arrays([[1.0]], [[1.0, 0.0, np.nan]])
    with pytest.raises(ParameterError, match=words):
        solve(data, decomposition=function)
    with pytest.raises(DataError, match="no graph"):
        solve(data, decomposition=lambda y: [])


def test_shrinking_changes_nothing_but_visits():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 5))
    data = LabelRankingData.from_arrays(X, X @ rng.normal(size=(5, 6)) * 10 > 0)
    with_shrinking, without = (solve(data, 10.0, shrinking=s, tol=1e-5) for s in (True, False))
    assert with_shrinking.objective == pytest.approx(without.objective, rel=2e-5)
    assert with_shrinking.history[-1]["visited"] < without.history[-1]["visited"]


def test_kernels_agree():
    data = label_data(4)
    rbf = solve(data, kernel="rbf", gamma=0.3)
    mine = solve(data, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.3))
    assert mine.objective == pytest.approx(rbf.objective, rel=1e-6)
    poly = solve(data, kernel="poly", degree=1, gamma=1.0)
    assert poly.objective == pytest.approx(solve(data).objective, rel=1e-6)
    sparse_data = LabelRankingData.from_arrays(sparse.csr_array(data.X), data.relevance)
    for params in ({"kernel": "rbf"}, {"kernel": "poly", "coef0": 1.0}):
        dense, csr = solve(data, **params), solve(sparse_data, **params)
        assert csr.objective == pytest.approx(dense.objective, rel=1e-6)
    with pytest.raises(DataError, match="shape"):
        solve(data, kernel=lambda A, B: np.zeros(3))


@by_decomposition
@pytest.mark.parametrize("cache_mb", [200.0, 1e-4])
@pytest.mark.parametrize("weighted", [False, True])
def test_documents_with_rbf_equal_a_qp_solver(decomposition, cache_mb, weighted):
    data = query_data(1, weighted)
    values, vectors = np.linalg.eigh(rbf_kernel(data.X, gamma=0.5))
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    value, coef = minimum(data, 0.3, decomposition, X=features)
    params = {"kernel": "rbf", "gamma": 0.5, "cache_mb": cache_mb, "tol": 1e-8}
    result = solve(data, 0.3, decomposition=decomposition, **params)
    assert result.status == "converged"
    assert result.objective == pytest.approx(value, rel=1e-6)
    assert result.objective - result.duality_gap <= value * (1 + 1e-6)
    np.testing.assert_allclose(result.model.predict(data.X), features @ coef, atol=3e-3)


def test_documents_with_a_kernel_of_inner_products_are_linear(tmp_path):
    data = query_data()
    expected = solve(data, 0.3, decomposition="all-layers")
    for X in (data.X, sparse.csr_array(data.X), data.X.astype(np.float32)):
        other = dataclasses.replace(data, X=X)
        poly = {"kernel": "poly", "degree": 1, "gamma": 1.0}
        found = solve(other, 0.3, decomposition="all-layers", **poly)
        assert found.objective == pytest.approx(expected.objective, rel=1e-5)
        np.testing.assert_allclose(
            found.model.predict(X), expected.model.predict(data.X), atol=1e-2
        )
    found.model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(data.X), found.model.predict(data.X))


def test_graphs_of_many_documents_take_an_approximate_eigenvalue_of_kernels(monkeypatch):
    data = query_data()
    options = {"kernel": "rbf", "gamma": 0.5, "decomposition": "all-layers"}
    expected = solve(data, 0.3, **options)
    monkeypatch.setattr("rankplug_plugins.sopopo.decompositions._EXACT", 3)
    found = solve(data, 0.3, **options)
    assert found.objective == pytest.approx(expected.objective, rel=1e-5)


@pytest.mark.parametrize("check", contract_checks(Sopopo(kernel="rbf", gamma=0.5)), ids=str)
def test_the_contract_holds_with_kernels(check):
    check()


def test_the_ranker_takes_it_by_default():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(150, 4))
    utility = X @ rng.normal(size=(4, 5))
    ranks = np.argsort(np.argsort(-utility, axis=1), axis=1) + 1
    Y = 5.0 - ranks
    ranker = rankplug.LabelRanker("sopopo", random_state=0).fit(X[:100], Y[:100])
    assert rankplug.LabelRanker().solver == "sopopo"
    assert ranker.score(X[100:], Y[100:]) > 0.85
    assert np.mean(ranker.rank(X[100:]) == ranks[100:]) > 0.6
    missing = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
    assert rankplug.LabelRanker().fit(X[:100], missing[:100]).score(X[100:], Y[100:]) > 0.8
    tied = np.digitize(Y, [1.5, 3.5]).astype(float)
    assert rankplug.LabelRanker().fit(X[:100], tied[:100]).score(X[100:], Y[100:]) > 0.7


def test_classes_and_kernels_through_the_ranker():
    rng = np.random.default_rng(9)
    radius = rng.uniform(size=200)
    X = radius[:, None] * (lambda a: np.stack((np.cos(a), np.sin(a)), 1))(rng.uniform(0, 6.3, 200))
    y = np.array(["in", "mid", "out"])[np.digitize(radius, [0.4, 0.7])]
    solver = rankplug.make_solver("sopopo", kernel="rbf", C=100.0, gamma=3.0, tol=1e-2)
    ranker = rankplug.LabelRanker(solver).fit(X[:120], y[:120])
    assert ranker.classes_.tolist() == ["in", "mid", "out"]
    assert ranker.score(X[120:], y[120:]) > 0.85
    assert set(ranker.classify(X[120:])) <= set(y)


def test_huge_features_are_an_error_and_tiny_ones_are_not():
    y = [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(DataError, match="scale"):
        solve(LabelRankingData.from_arrays(np.eye(2) * 1e200, y))
    result = solve(LabelRankingData.from_arrays(np.eye(2) * 1e-200, y))
    assert result.duality_gap <= 1e-7 * result.objective
    huge = RankingData.from_arrays(np.eye(2) * 1e200, [0, 1])
    with pytest.raises(DataError, match="scale"):
        solve(huge)


def test_running_out_of_epochs_is_said():
    with pytest.warns(ConvergenceWarning):
        assert solve(label_data(), 100.0, max_epochs=1).status == "max_iter"


def test_large_queries_take_an_approximate_eigenvalue(monkeypatch):
    X = np.random.default_rng(5).normal(size=(60, 4))
    y = np.digitize(X @ [2.0, -1.0, 0.5, 0.0], [-1.0, 1.0])
    given = [
        RankingData.from_arrays(form, y, np.arange(60) // 20) for form in (X, sparse.csr_array(X))
    ]
    exact = solve(given[0], decomposition="all-layers")
    assert exact.model.coef.any()
    bounds, bound = [], decompositions._bound_eigenvalue
    monkeypatch.setattr(decompositions, "_EXACT", 2)
    monkeypatch.setattr(
        decompositions,
        "_bound_eigenvalue",
        lambda matrix: bounds.append(bound(matrix)) or bounds[-1],
    )
    for data in given:
        found = solve(data, decomposition="all-layers")
        assert found.objective == pytest.approx(exact.objective, rel=1e-6)
        largest = decompositions._largest_eigenvalue(data.X)  # of all rows, as of a graph
        expected = np.linalg.norm(X - X.mean(axis=0), 2) ** 2
        assert expected <= largest == bounds[-1] <= 1.02 * expected
    assert len(bounds) > 6


@pytest.mark.parametrize("decomposition", ["all-pairs", "all-layers"])
def test_more_graphs_than_memory_holds_are_refused_before_they_are_listed(
    decomposition, monkeypatch
):
    monkeypatch.setattr("rankplug.solver.inputs.physical_memory", lambda: 2**34)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20_000, 2)), rng.normal(size=20_000)
    data = RankingData.from_arrays(X, y, np.zeros(20_000, dtype=int))
    with pytest.raises(DataError, match=r"199,990,000 graphs.*adjacent-layers.*tree-tron"):
        rankplug.make_solver("sopopo", decomposition=decomposition).solve(data)
