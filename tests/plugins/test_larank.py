"""LaRank against a QP solver, sopopo, binary machines and its own counts."""

import dataclasses
import doctest
import functools
import itertools
import threading
import tracemalloc
import warnings

import numpy as np
import pytest
import structured_outputs
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

import rankplug
from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import ConvergenceWarning, DataError, ParameterError
from rankplug.kernels import Kernel, KernelCache
from rankplug.models import LabelLinearModel, LinearModel
from rankplug.testing import contract_checks
from rankplug_plugins.larank import LaRank
from rankplug_plugins.larank.patterns import list_patterns
from tests.oracles import query_data

by_schedule = pytest.mark.parametrize("schedule", ["adaptive", "cyclic"])
by_margin = pytest.mark.parametrize("margin", ["unit", "graded"])


def solve(data, C=1.0, seed=0, **params):
    solver = LaRank(C, **{"tol": 1e-7, "epochs": 5000, "patterns": "items", **params})
    return solver.solve(data, random_state=seed)


def class_data(seed=0, n=60, d=4, k=4, noise=1.0):
    rng = np.random.default_rng(seed)
    weights, X = rng.normal(size=(d, k)), rng.normal(size=(n, d))
    y = (X @ weights + noise * rng.normal(size=(n, k))).argmax(axis=1)
    return LabelRankingData.from_arrays(X, y)


def label_data(seed=0, n=12, d=3, k=5):
    """Ties, labels that are not compared, a row without features, a row without preference."""
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, d)), rng.integers(0, 3, size=(n, k)) * 0.7
    Y[rng.random(Y.shape) < 0.1] = np.nan
    X[3], Y[4], X[5] = 0.0, 1.0, X[6]
    return LabelRankingData.from_arrays(X, Y)


def patterns(data, kind="items"):
    """Weight, better item and worse ones of each pattern, listed one by one."""
    if kind == "pairs":
        yield from ((weight, a, [b]) for weight, a, worse in patterns(data) for b in worse)
        return
    if isinstance(data, LabelRankingData):
        for i, y in enumerate(data.relevance):
            for a in range(data.n_labels):
                for level in {float(value) for value in y if value < y[a]}:
                    yield 1.0, (i, a), [(i, b) for b in range(data.n_labels) if y[b] == level]
        return
    weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
    for q, (begin, end) in enumerate(itertools.pairwise(data.query_ptr)):
        for a in range(begin, end):
            worse = [b for b in range(begin, end) if data.relevance[b] < data.relevance[a]]
            if worse:
                yield weight[q], a, worse


def margin_of(data, a, b, margin):
    return 1.0 if margin == "unit" else data.relevance[a] - data.relevance[b]


def primal(data, scores, squared_norm, C, margin="unit"):
    loss = 0.0
    for weight, a, worse in patterns(data):
        violations = [margin_of(data, a, b, margin) + scores[b] - scores[a] for b in worse]
        loss += weight * max(0.0, *violations)
    return 0.5 * squared_norm + C * loss


def minimum(data, C, margin="unit", X=None, kind="items", base=0.0):
    """The optimum by a QP solver: (value, scores of all items), which `base` is added to."""
    cvxpy = pytest.importorskip("cvxpy")
    X = data.X if X is None else X
    labels = isinstance(data, LabelRankingData)
    w = cvxpy.Variable((X.shape[1], data.n_labels) if labels else X.shape[1])
    scores, loss = X @ w + base, 0
    for weight, a, worse in patterns(data, kind):
        violations = [margin_of(data, a, b, margin) + scores[b] - scores[a] for b in worse]
        loss += weight * cvxpy.pos(cvxpy.max(cvxpy.hstack(violations)))
    problem = cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(w) + C * loss))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value, scores.value


@functools.cache
def known_minimum(make, C, margin, **options):
    return minimum(make(**options), C, margin)


def assert_optimal(result, value, rel=1e-6):
    assert result.objective == pytest.approx(value, rel=rel)
    dual = result.objective - result.duality_gap
    assert dual == pytest.approx(value, rel=rel)
    assert dual <= value * (1 + 1e-8)


def in_kind(data, kind):
    X = sparse.csr_array(data.X) if kind.startswith("csr") else data.X
    X = X.astype("float32" if kind.endswith("32") else "float64")
    return dataclasses.replace(data, X=X)


@by_schedule
@by_margin
@pytest.mark.parametrize("kind", ["float64", "float32", "csr64", "csr32"])
def test_label_ranking_equals_a_qp_solver(schedule, margin, kind):
    value, scores = known_minimum(label_data, 0.7, margin)
    data = in_kind(label_data(), kind)
    result = solve(data, 0.7, schedule=schedule, margin=margin)
    assert isinstance(result.model, LabelLinearModel)
    assert_optimal(result, value)
    np.testing.assert_allclose(result.model.predict(data.X), scores, atol=3e-3)


@by_schedule
@by_margin
@pytest.mark.parametrize("kind", ["float64", "float32", "csr64", "csr32"])
@pytest.mark.parametrize("weighted", [False, True])
def test_queries_equal_a_qp_solver(schedule, margin, kind, weighted):
    value, scores = minimum_of_queries(margin, weighted)
    data = in_kind(query_data(weighted=weighted), kind)
    result = solve(data, 0.3, schedule=schedule, margin=margin)
    assert isinstance(result.model, LinearModel)
    assert_optimal(result, value)
    np.testing.assert_allclose(result.model.predict(data.X), scores, atol=3e-3)


@by_schedule
@by_margin
@pytest.mark.parametrize("make", [label_data, query_data])
def test_pairs_as_patterns_equal_a_qp_solver(schedule, margin, make):
    """For documents they are the default."""
    data = make()
    value, scores = minimum_of_pairs(make, margin)
    kind = "auto" if make is query_data else "pairs"
    result = solve(data, 0.3, schedule=schedule, margin=margin, patterns=kind)
    assert_optimal(result, value)
    np.testing.assert_allclose(result.model.predict(data.X), scores, atol=3e-3)


@functools.cache
def minimum_of_pairs(make, margin):
    return minimum(make(), 0.3, margin, kind="pairs")


def test_pairs_beyond_memory_are_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr("rankplug.solver.inputs.physical_memory", lambda: 2**34)
    y = np.arange(20_000) % 9
    data = RankingData.from_arrays(np.ones((20_000, 1)), y, np.zeros(20_000, dtype=int))
    with pytest.raises(DataError, match=r"patterns='items', or 'tree-tron' or 'cutting-plane'"):
        LaRank().solve(data)


@functools.cache
def minimum_of_queries(margin, weighted):
    return minimum(query_data(weighted=weighted), 0.3, margin)


def features_of(X, gamma):
    """Features whose inner products are the kernel make it a linear problem."""
    values, vectors = np.linalg.eigh(rbf_kernel(X, gamma=gamma))
    return vectors * np.sqrt(np.maximum(values, 0.0))


@by_schedule
@pytest.mark.parametrize("make", [label_data, query_data])
@pytest.mark.parametrize("cache_mb", [500.0, 1e-4])
def test_rbf_equals_a_qp_solver(schedule, make, cache_mb):
    data = make(1)
    value, scores = minimum_with_rbf(make)
    params = {"kernel": "rbf", "gamma": 0.5, "schedule": schedule, "cache_mb": cache_mb}
    result = solve(data, 0.7, **params)
    assert result.model.kind == "kernel"
    assert_optimal(result, value)
    np.testing.assert_allclose(result.model.predict(data.X), scores, atol=3e-3)


@functools.cache
def minimum_with_rbf(make):
    data = make(1)
    return minimum(data, 0.7, X=features_of(data.X, 0.5))


@pytest.mark.parametrize("kind", ["float64", "csr32", "rbf"])
@pytest.mark.parametrize("make", [label_data, query_data])
def test_new_rows_alone_equal_a_qp_solver(make, kind, tmp_path):
    """Online: ``min 1/2 |w - w_before|^2 + C loss``, the earlier model a part of the new one."""
    C, kernel = 2.0, {"kernel": "rbf", "gamma": 0.3} if kind == "rbf" else {}
    before = solve(make(seed=1), C, **kernel).model
    before.save(tmp_path / "before")
    base = before.predict(make().X)
    data = make() if kind == "rbf" else in_kind(make(), kind)
    F = features_of(data.X, 0.3) if kind == "rbf" else data.X
    for schedule in ("adaptive", "cyclic"):
        value, scores = minimum(data, C, X=F, base=base)
        options = {"online": True, "schedule": schedule, **kernel}
        found = rankplug.models.load_model(tmp_path / "before")
        result = LaRank(C, tol=1e-7, epochs=5000, patterns="items", **options).solve(
            data, init=found, random_state=0
        )
        assert result.status == "converged"
        assert_optimal(result, value)
        np.testing.assert_allclose(result.model.predict(data.X), scores, atol=2e-3)
    np.testing.assert_array_equal(before.predict(make().X), base)


def test_online_takes_one_epoch_and_says_nothing():
    data, first = class_data(seed=1), class_data(seed=1, n=20)
    online = LaRank(C=1.0, online=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start = online.solve(first, random_state=0)
        result = online.solve(data, init=start, random_state=0)
        again = online.solve(data, init=result, random_state=0)
    assert (start.n_iter, result.n_iter) == (1, 1)
    assert again.objective <= result.objective  # less is left to learn
    nothing = LaRank(C=1.0, online=True, margin="graded", tol=1e-9)
    far = LabelLinearModel(1e6 * result.model.coef, data.labels)
    learnt = far.predict(data.X).argmax(axis=1)
    same = nothing.solve(LabelRankingData.from_arrays(data.X, learnt), init=far, random_state=0)
    np.testing.assert_array_equal(same.model.coef, far.coef)
    assert (same.objective, same.status) == (0.0, "converged")
    clear = LabelRankingData.from_arrays(10.0 * np.eye(4), np.arange(4))
    kernel = LaRank(C=100.0, kernel="rbf", gamma=0.1, tol=1e-6, epochs=5000, online=True)
    learnt = kernel.solve(clear, random_state=0).model
    assert learnt.predict(clear.X).argmax(axis=1).tolist() == [0, 1, 2, 3]
    again = kernel.set_params(tol=1e-2).solve(clear.take([0, 1]), init=learnt, random_state=0)
    assert again.status == "converged"
    np.testing.assert_allclose(again.model.predict(clear.X), learnt.predict(clear.X), atol=1e-2)


def test_with_kernels_the_kernel_stays():
    data = class_data()
    model = LaRank(kernel="rbf").solve(data, random_state=0).model
    other = class_data(seed=3)
    result = LaRank(kernel="rbf", online=True).solve(other, init=model, random_state=0)
    assert result.model.kernel == model.kernel
    np.testing.assert_array_equal(result.model.support[: len(model.support)], model.support)
    with pytest.raises(ParameterError, match="goes on with the kernel of init"):
        LaRank(kernel="rbf", gamma=7.0, online=True).solve(other, init=model)
    linear = LaRank().solve(data, random_state=0).model
    with pytest.raises(ParameterError, match="goes on from a model with kernels"):
        LaRank(kernel="rbf", online=True).solve(other, init=linear)
    with pytest.raises(ParameterError, match="linear solvers start from linear models"):
        LaRank(online=True).solve(other, init=model)


def test_the_gap_of_the_paper_is_a_share_of_c():
    data = class_data(n=200)
    loose = LaRank(C=0.5, gap="absolute", tol=1.0).solve(data, random_state=0)
    assert loose.status == "converged"
    assert loose.duality_gap <= 0.5
    tight = LaRank(C=0.5, gap="absolute", tol=1e-3, epochs=5000).solve(data, random_state=0)
    assert (tight.status, tight.duality_gap <= 5e-4) == ("converged", True)
    assert tight.n_iter > loose.n_iter
    few = quiet(LaRank(C=0.5, gap="absolute", tol=1e-9, epochs=2), data)
    assert few.status == "max_iter"


@pytest.mark.parametrize("operations", ["new", "new+old", "new+optimize"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_fewer_operations_reach_the_same_minimum(operations, kernel):
    data = class_data(n=100)
    solver = LaRank(0.3, kernel=kernel, gamma=0.3, tol=1e-4, epochs=5000, operations=operations)
    result = solver.solve(data, random_state=0)
    expected = LaRank(0.3, kernel=kernel, gamma=0.3, tol=1e-4, epochs=5000).solve(data)
    assert result.status == "converged"
    assert result.objective == pytest.approx(expected.objective, rel=2e-4)
    row = result.history[0]
    assert (row["process_old"] > 0) == (operations == "new+old")
    assert (row["optimize"] > 0) == (operations == "new+optimize")


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("make", [label_data, query_data])
@by_schedule
def test_it_starts_at_a_model_of_any_kind(make, kernel, schedule):
    """At a solution nearly nothing is left to do; elsewhere the bound still holds."""
    data = make()
    params = {"kernel": kernel, "gamma": 0.3, "schedule": schedule, "tol": 1e-6, "epochs": 5000}
    solver = LaRank(0.05, **params)
    cold = solver.solve(data, random_state=0)
    other = rankplug.make_solver("tree-tron").solve(data).model
    for init in (cold, cold.model, other):
        start = quiet(clone(solver).set_params(epochs=1), data, init=init)
        assert start.objective - start.duality_gap <= cold.objective * (1 + 1e-9)
        warm = solver.solve(data, init=init, random_state=0)
        assert warm.objective == pytest.approx(cold.objective, rel=1e-5)
    first = quiet(clone(solver).set_params(epochs=1), data)
    start = quiet(clone(solver).set_params(epochs=1), data, init=cold)
    assert start.duality_gap < 0.5 * first.duality_gap


@pytest.mark.parametrize("C", [1e-6, 1e6])
@by_schedule
def test_tiny_and_huge_c(C, schedule):
    """Separable, so that a huge C is a hard margin; with a tiny one every pattern has a loss."""
    data = class_data(n=15, d=3, k=3, noise=0.0)
    value, _ = minimum(data, C)
    assert_optimal(solve(data, C, schedule=schedule, tol=1e-6), value, rel=1e-5)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_cyclic_schedule_does_not_get_stuck(kernel):
    """With real relevance and a huge C it alone leaves 30 % of the objective after 3,000 epochs."""
    rng = np.random.default_rng(0)
    data = RankingData.from_arrays(rng.normal(size=(16, 4)), rng.normal(size=16))
    params = {"tol": 1e-3, "epochs": 2000, "schedule": "cyclic", "kernel": kernel}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the optimum is about w = 0
        result = solve(data, 1000.0, **params)
    assert result.status == "converged"


def test_one_row_by_eye():
    """Of three classes the right one is 1 above the others, unless C is too small."""
    data = LabelRankingData.from_arrays([[2.0]], [[1.0, 0.0, 0.0]])
    expected = np.array([[1.0], [-0.5], [-0.5]]) / 3.0
    for schedule in ("adaptive", "cyclic"):
        model = solve(data, 10.0, schedule=schedule).model
        np.testing.assert_allclose(model.coef, expected, atol=1e-5)
    pair = RankingData.from_arrays([[3.0], [1.0]], [1, 0])
    assert solve(pair, 10.0).model.coef == pytest.approx([0.5])
    assert solve(pair, 0.01).model.coef == pytest.approx([0.02])


def test_equal_documents_and_rows_without_features_have_no_gap():
    equal = RankingData.from_arrays(np.ones((4, 2)), [0, 1, 1, 2])
    assert solve(equal, 2.0).objective == pytest.approx(2.0 * 3)
    empty = LabelRankingData.from_arrays(np.zeros((3, 2)), [0, 1, 2])
    assert solve(empty, 2.0).objective == pytest.approx(2.0 * 3)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([label_data, query_data]),
    st.sampled_from(["linear", "rbf"]),
    st.sampled_from(["adaptive", "cyclic"]),
    st.sampled_from(["unit", "graded"]),
    st.sampled_from([1e-3, 0.5, 50.0]),
    st.sampled_from([1, 7]),
)
def test_the_gap_is_certified(seed, make, kernel, schedule, margin, C, epochs):
    """Objective by its formula; the dual objective by the weights and what bounds it."""
    data = make(seed)
    params = {"kernel": kernel, "gamma": 0.3, "schedule": schedule, "margin": margin}
    solver = LaRank(C, epochs=epochs, tol=1e-12, cache_mb=1e-3, patterns="items", **params)
    result = quiet(solver, data)
    scores = result.model.predict(data.X)
    if kernel == "linear":
        squared_norm = np.sum(result.model.coef**2)
    else:
        K = rbf_kernel(result.model.support, gamma=0.3)
        squared_norm = np.sum(result.model.dual_coef * (K @ result.model.dual_coef))
    value = primal(data, scores, squared_norm, C, margin)
    assert result.objective == pytest.approx(value, rel=1e-8)
    duals = [row["dual"] for row in result.history]
    assert all(a <= b + 1e-9 * abs(b) for a, b in itertools.pairwise(duals))
    exact = {"schedule": "adaptive", "epochs": 500, "tol": 1e-4, "cache_mb": 1.0}
    tight = quiet(clone(solver).set_params(**exact), data)
    assert tight.status == "converged"
    assert duals[-1] <= tight.objective * (1 + 1e-9)
    assert result.objective >= tight.history[-1]["dual"] * (1 - 1e-9)


def quiet(solver, data, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solver.solve(data, random_state=0, **arguments)


@by_schedule
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_classes_equal_sopopo_with_the_class_against_the_rest(schedule, kernel):
    data = class_data()
    mine = solve(data, 0.5, kernel=kernel, schedule=schedule, tol=1e-5)
    params = {"kernel": kernel, "decomposition": "top-vs-rest", "tol": 1e-5}
    other = rankplug.make_solver("sopopo", C=0.5, **params).solve(data, random_state=0)
    gaps = mine.duality_gap + other.duality_gap
    assert abs(mine.objective - other.objective) <= gaps
    np.testing.assert_allclose(mine.model.predict(data.X), other.model.predict(data.X), atol=0.05)


def test_rankings_with_graded_margins_equal_sopopo_with_all_pairs():
    rng = np.random.default_rng(2)
    Y = np.argsort(rng.random((25, 5)), axis=1).astype(float)
    data = LabelRankingData.from_arrays(rng.normal(size=(25, 3)), Y)
    mine = solve(data, 0.2, margin="graded", tol=1e-5)
    other = rankplug.make_solver("sopopo", C=0.2, decomposition="all-pairs", tol=1e-5)
    theirs = other.solve(data, random_state=0)
    assert abs(mine.objective - theirs.objective) <= mine.duality_gap + theirs.duality_gap


@by_schedule
def test_two_classes_are_a_binary_machine_with_twice_the_c(schedule):
    data = class_data(seed=3, n=80, k=2)
    y = data.relevance.argmax(axis=1)
    result = solve(data, 0.5, tol=1e-9, schedule=schedule)
    svc = LinearSVC(C=1.0, loss="hinge", fit_intercept=False, tol=1e-9, max_iter=100_000)
    v = svc.fit(data.X, y).coef_[0]
    np.testing.assert_allclose(result.model.coef[1] - result.model.coef[0], v, atol=1e-4)
    np.testing.assert_allclose(result.model.coef.sum(axis=0), 0.0, atol=1e-12)


def test_list_patterns_labels_are_one_for_each_beaten_level():
    data = label_data()
    layout = list_patterns(data)
    assert len(layout.own) == len(list(patterns(data)))
    classes = list_patterns(class_data())
    np.testing.assert_array_equal(classes.end - classes.begin, 3)
    assert len(list_patterns(query_data()).own) == len(list(patterns(query_data())))


@by_schedule
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_same_seed_gives_the_same_bits(schedule, kernel):
    for data in (class_data(n=150), query_data()):
        runs = [solve(data, kernel=kernel, schedule=schedule, tol=1e-3) for _ in range(2)]
        rows = [[{**row, "seconds": 0} for row in run.history] for run in runs]
        assert rows[0] == rows[1]
        scores = [run.model.predict(data.X) for run in runs]
        np.testing.assert_array_equal(*scores)
        other = solve(data, kernel=kernel, schedule=schedule, tol=1e-3, seed=1)
        assert not np.array_equal(other.model.predict(data.X), scores[0])
        own = [
            solve(data, kernel=kernel, schedule=schedule, tol=1e-3, random_state=0, seed=seed)
            for seed in (1, 2)
        ]
        np.testing.assert_array_equal(*[run.model.predict(data.X) for run in own])


def test_one_epoch_is_an_online_algorithm():
    """LaRank x1: each pattern is new once, and only support patterns meet them in the kernel."""
    both = class_data(seed=4, n=1200, noise=0.3)
    truth = both.relevance[600:].argmax(axis=1)
    train = dataclasses.replace(both, X=both.X[:600], relevance=both.relevance[:600])
    with pytest.warns(ConvergenceWarning, match="epochs"):
        result = LaRank(10.0, kernel="rbf", epochs=1).solve(train, random_state=0)
    assert (result.status, result.n_iter) == ("max_iter", 1)
    (row,) = result.history
    assert row["process_new"] == 600
    assert 0 < row["support_patterns"] < 600
    assert row["support_patterns"] < row["support_vectors"] <= 2 * row["steps"]
    assert 0 < row["kernel_evaluations"] < 600**2 / 2
    n_support = row["support_patterns"]
    assert row["certificate_evaluations"] == n_support * (600 - n_support)
    converged = LaRank(10.0, kernel="rbf").solve(train, random_state=0)
    errors = [
        np.mean(r.model.predict(both.X[600:]).argmax(axis=1) != truth) for r in (result, converged)
    ]
    assert errors[0] < errors[1] + 0.03
    assert errors[1] < 0.2


def test_what_the_history_counts():
    result = solve(class_data(), kernel="rbf", tol=1e-3)
    counted = ("kernel_evaluations", "process_new", "process_old", "optimize", "steps")
    for earlier, later in itertools.pairwise(result.history):
        assert all(earlier[name] <= later[name] for name in counted)
        assert earlier["dual"] <= later["dual"]
    last = result.history[-1]
    assert last["duality_gap"] == pytest.approx(last["objective"] - last["dual"])
    assert last["process_old"] > 0
    assert last["optimize"] % 10 in range(10)
    assert last["optimize"] > last["process_old"]
    support = result.model.support
    assert len(support) == last["support_patterns"]
    assert np.count_nonzero(result.model.dual_coef) == last["support_vectors"]
    cyclic = solve(class_data(), schedule="cyclic").history[-1]
    assert cyclic["visits"] > 0
    assert cyclic["process_new"] == cyclic["optimize"] == 0


def test_shrinking_passes_over_patterns_without_a_gap():
    result = solve(class_data(n=300, noise=0.1), schedule="cyclic", tol=1e-4)
    assert result.status == "converged"
    assert result.history[0]["visits"] == 300
    assert all(row["visits"] <= 300 * row["n_iter"] for row in result.history)


def test_stopped_after_an_epoch_it_returns_the_model_so_far():
    data = class_data(n=200)
    for kernel in ("linear", "rbf"):
        for schedule in ("adaptive", "cyclic"):
            solver = LaRank(kernel=kernel, schedule=schedule, tol=1e-9)
            result = solver.solve(data, random_state=0, callback=lambda progress: True)
            assert (result.status, result.n_iter) == ("stopped", 1)
            accuracy = result.model.predict(data.X).argmax(axis=1) == data.relevance.argmax(axis=1)
            assert accuracy.mean() > 0.4


def test_the_cache_keeps_within_its_memory():
    data = class_data(n=150)
    small = solve(data, 10.0, kernel="rbf", tol=1e-3, cache_mb=0.03)
    large = solve(data, 10.0, kernel="rbf", tol=1e-3)
    assert abs(small.objective - large.objective) <= small.duality_gap + large.duality_gap
    used = [result.history[-1]["kernel_evaluations"] for result in (small, large)]
    assert used[0] > 2 * used[1]
    assert used[1] + large.history[-1]["certificate_evaluations"] < 2 * 150**2


def test_kernels_agree():
    for data in (label_data(4), query_data(4)):
        rbf = solve(data, kernel="rbf", gamma=0.3)
        mine = solve(data, kernel=lambda A, B: rbf_kernel(A, B, gamma=0.3))
        assert mine.objective == pytest.approx(rbf.objective, rel=1e-6)
        poly = solve(data, kernel="poly", degree=1, gamma=1.0)
        assert poly.objective == pytest.approx(solve(data).objective, rel=1e-6)
        csr = solve(in_kind(data, "csr64"), kernel="rbf", gamma=0.3)
        assert csr.objective == pytest.approx(rbf.objective, rel=1e-6)
        with pytest.raises(DataError, match="shape"):
            solve(data, kernel=lambda A, B: np.zeros(3))


def test_wide_data_need_memory_for_one_weight_matrix():
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 40_000), density=1e-3, format="csr", rng=rng)
    data = LabelRankingData.from_arrays(X, rng.integers(0, 20, 60))
    data.require_pairs()
    tracemalloc.start()
    try:
        model = solve(data, tol=1e-2, schedule="cyclic").model
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * model.coef.nbytes


def test_epochs_release_the_gil():
    """Another thread counts on while a long epoch runs."""
    data, counted = class_data(n=5_000, d=40), []
    running = threading.Event()

    def count():
        running.set()
        while running.is_set():
            counted.append(1)

    thread = threading.Thread(target=count)
    solver = LaRank(schedule="cyclic", tol=0.9)
    thread.start()
    try:
        running.wait()
        before = len(counted)
        solver.solve(data, random_state=0)
        assert len(counted) > before + 10
    finally:
        running.clear()
        thread.join()


@pytest.mark.parametrize(
    "check",
    [
        check
        for solver in (LaRank(schedule="cyclic"), LaRank(kernel="rbf", gamma=0.5))
        for check in contract_checks(solver)
    ],
    ids=lambda check: f"{check.case.solver.kernel}-{check}",
)
def test_the_contract_holds_for_other_parameters(check):
    check()


def test_the_ranker_takes_it():
    data = class_data(seed=5, n=300, noise=0.2)
    y = np.array(["a", "b", "c", "d"])[data.relevance.argmax(axis=1)]
    ranker = rankplug.LabelRanker(LaRank(100.0, kernel="rbf"), random_state=0)
    assert ranker.fit(data.X[:200], y[:200]).score(data.X[200:], y[200:]) > 0.7
    assert set(ranker.classify(data.X)) <= {"a", "b", "c", "d"}
    queries = query_data()
    by_query = rankplug.Ranker(LaRank(kernel="rbf"), random_state=0)
    by_query.fit(queries.X, queries.relevance, qid=queries.qid)
    assert by_query.predict(queries.X).shape == (33,)


def test_what_is_worth_tuning():
    pytest.importorskip("optuna")
    for data in (label_data(), query_data()):
        space = LaRank(kernel="rbf", margin="graded").tuning_space(data)
        assert set(space) == {"C", "gamma"}
        least = solve(data, space["C"].low, kernel="rbf", margin="graded")
        assert np.ptp(least.model.predict(data.X)) < 0.7
        assert set(LaRank.search_space(data)) == set(LaRank.search_space()) == {"C"}


def test_huge_features_are_an_error():
    y = [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(DataError, match="scale"):
        solve(LabelRankingData.from_arrays(np.eye(2) * 1e200, y))
    with pytest.raises(DataError, match="scale"):
        solve(RankingData.from_arrays(np.eye(2) * 1e200, [0, 1]), kernel="poly", gamma=1.0)


# Structured outputs.


def test_the_example_of_structured_outputs():
    results = doctest.testmod(structured_outputs)
    assert results.attempted > 8
    assert results.failed == 0


class Classes:
    """Classes as structured outputs: the joint kernel is that of the rows, or 0."""

    def __init__(self, X, k):
        self.X, self.k = X, k

    def classes(self, i):
        return range(self.k)

    def joint_kernel(self, i, y, j, z):
        return float(self.X[i] @ self.X[j]) if y == z else 0.0


class CostlyClasses(Classes):
    def margin(self, i, right, y):
        return abs(right - y)


@by_schedule
def test_structured_outputs_that_are_classes(schedule):
    data = class_data(n=20, d=3, k=3)
    y = data.relevance.argmax(axis=1)
    solver = LaRank(0.5, tol=1e-6, schedule=schedule, epochs=3000)
    model = structured_outputs.solve_structured(
        Classes(data.X, 3), range(20), y, solver, random_state=0
    )
    expected = solve(data, 0.5)
    assert model.result.objective == pytest.approx(expected.objective, rel=1e-5)
    scores = [[model.score(i, r) for r in range(3)] for i in range(20)]
    np.testing.assert_allclose(scores, expected.model.predict(data.X), atol=3e-3)
    assert [model.predict(i) for i in range(20)] == np.argmax(scores, axis=1).tolist()
    graded = LabelRankingData.from_arrays(data.X, -abs(np.arange(3) - y[:, None]).astype(float))
    costly = structured_outputs.solve_structured(
        CostlyClasses(data.X, 3), range(20), y, solver, random_state=0
    )
    scores = np.array([[costly.score(i, r) for r in range(3)] for i in range(20)])
    violations = scores - scores[np.arange(20), y][:, None] - graded.relevance
    norm = 0.0
    for (i, r), a in zip(costly.support, costly.dual_coef, strict=True):
        norm += a * scores[i, r]
    loss = np.maximum(0.0, violations).max(axis=1).sum()
    assert costly.result.objective == pytest.approx(0.5 * norm + 0.5 * loss, rel=1e-8)
    assert costly.result.duality_gap <= 1e-6 * costly.result.objective


def test_structured_outputs_that_make_no_sense():
    output = Classes(np.eye(3), 3)
    call = structured_outputs.solve_structured
    with pytest.raises(DataError, match="2 patterns but 1"):
        call(output, [0, 1], [0])
    with pytest.raises(DataError, match="pattern 1: its right output 7"):
        call(output, [0, 1], [0, 7])
    with pytest.raises(DataError, match="NaN"):
        call(Classes(np.eye(3) * np.nan, 3), [0, 1], [0, 1])
    with pytest.raises(ParameterError, match="C="):
        call(output, [0, 1], [0, 1], LaRank(C=-1.0))


# The cache of kernel rows, which sopopo uses too.


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1e-3, 2e-3, 1.0]))
def test_cached_rows_are_kernels(seed, megabytes):
    """Whatever is added, fetched and removed, kept rows hold the kernels of the columns in use."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 2))
    K = X @ X.T
    cache = KernelCache(Kernel("linear"), X, megabytes, least=4, grows=True)
    for _ in range(12):
        outside = rng.permutation(np.flatnonzero(cache.column < 0))[: rng.integers(1, 5)]
        action = rng.integers(4)
        if action == 0 and len(outside):
            before = cache.samples.copy()
            n_beside = cache.column[cache.place >= 0].max(initial=-1) + 1
            beside = {"keep": True} if rng.integers(2) else {"keep": False, "n_beside": n_beside}
            values = cache.extend(outside, **beside)
            np.testing.assert_allclose(values, K[np.ix_(outside, before[: values.shape[1]])])
        elif action == 1 and cache.n_columns:
            chosen = rng.permutation(cache.samples)[: rng.integers(1, 5)]
            places = cache.fetch(chosen)
            np.testing.assert_array_equal(places, cache.place[chosen])
        elif action == 2 and cache.n_columns:
            cache.remove(rng.permutation(cache.samples)[: rng.integers(1, 5)])
        elif action == 3 and cache.n_columns:
            chosen = rng.permutation(cache.samples)[: rng.integers(1, 5)]
            first = rng.integers(cache.n_columns - len(chosen) + 1)
            cache.move_columns(chosen, first)
            np.testing.assert_array_equal(cache.column[chosen], first + np.arange(len(chosen)))
        samples = cache.samples
        np.testing.assert_array_equal(cache.column[samples], np.arange(cache.n_columns))
        kept = np.flatnonzero(cache.place >= 0)
        assert len(kept) <= cache.capacity
        assert len(set(cache.place[kept])) == len(kept)
        np.testing.assert_allclose(
            cache.rows[np.ix_(cache.place[kept], np.arange(cache.n_columns))],
            K[np.ix_(kept, samples)],
        )


def test_the_rows_used_last_are_kept():
    X = np.arange(10.0)[:, None]
    cache = KernelCache(Kernel("linear"), X, 1e-6, least=3)
    assert cache.capacity == 3
    cache.fetch(np.array([0, 1, 2]))
    cache.fetch(np.array([0]))
    cache.fetch(np.array([5, 6]))
    assert set(np.flatnonzero(cache.place >= 0)) == {0, 5, 6}
    assert cache.n_evaluations == 5 * 10
