"""Early stopping by validation data, which is one for all solvers that show their iterations."""

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

import rankplug
from rankplug import LabelRanker, Ranker
from rankplug.data import RankingData
from rankplug.exceptions import DataError, ParameterError
from rankplug.metrics import evaluate, parse_metric
from rankplug.models import load_model
from rankplug.objectives import make_top_problem
from rankplug.solver import make_solver
from rankplug.solver.stopping import EarlyStopping
from rankplug.testing import make_problem

SOLVERS = ["tree-tron", "cutting-plane", "toppush", "a2dm2", "sopopo", "larank"]

pytestmark = pytest.mark.filterwarnings("ignore:.*(ranks nothing|before reaching)")


@pytest.fixture(scope="module")
def data():
    return make_problem("query-document").data()


@pytest.fixture(scope="module")
def valid():
    return make_problem("query-document", seed=1).data()


def value_of(model, data, metric):
    return evaluate(data.relevance, model.predict(data.X), data.qid, metric)[metric]


@pytest.mark.parametrize("name", SOLVERS)
def test_the_best_model_that_was_seen_is_returned(name, data, valid):
    metric, key = "ndcg@3", "valid_ndcg_at_3"
    solver = make_solver(name, tol=1e-9, early_stopping_rounds=2, eval_metric=metric)
    models = {}

    def keep(progress):
        models[progress.n_iter] = progress.model()

    result = solver.solve(data, valid=valid, random_state=0, callback=keep)
    seen = {row["n_iter"]: row[key] for row in result.history if key in row}
    for n_iter, value in seen.items():
        assert value == value_of(models[n_iter], valid, metric)
    found = value_of(result.model, valid, metric)
    assert found >= max(seen.values())
    least = make_solver(name, tol=1e-9).solve(data, random_state=0)
    assert result.objective >= least.objective * (1 - 1e-9)
    assert result.objective - result.duality_gap <= least.objective * (1 + 1e-9)
    if result.best_iter is not None:
        assert result.best_iter == min(n for n, value in seen.items() if value == found)
        np.testing.assert_array_equal(
            result.model.predict(data.X), models[result.best_iter].predict(data.X)
        )
    # Watching the same data, measured anyhow, changes nothing.
    same = solver.solve(data, valid=valid, watch={"v": valid}, random_state=0)
    np.testing.assert_array_equal(same.model.predict(data.X), result.model.predict(data.X))
    steps = [row["n_iter"] for row in same.history]
    measured = dict(zip(steps, same.evals["v"][metric], strict=True))
    assert seen.items() <= measured.items()


@pytest.mark.parametrize("name", ["toppush", "a2dm2"])
def test_where_the_optimum_ranks_nothing_an_iterate_ranks(name):
    """A mean of the positives among the negatives: w = 0 is the optimum for every lam."""
    rng = np.random.default_rng(0)
    y = np.repeat([0.0, 1.0], [900, 100])
    X = rng.normal(size=(1000, 8)) + 1.2 * y[:, None] * (np.arange(8) < 3)
    parts = [
        RankingData.from_arrays(X[part], y[part], np.zeros(500))
        for part in np.arange(1000).reshape(500, 2).T
    ]
    with pytest.warns(UserWarning, match="the optimum is w = 0"):
        least = make_solver(name).solve(parts[0])
    assert least.objective == pytest.approx(1.0, abs=1e-4)
    solver = make_solver(name, early_stopping_rounds=10, eval_metric="pos@top")
    result = solver.solve(parts[0], valid=parts[1])
    assert value_of(result.model, parts[1], "pos@top") >= 0.06
    assert value_of(least.model, parts[1], "pos@top") <= 0.02
    assert result.status == "stopped"
    assert result.best_iter < result.n_iter
    # Of problem (11), and so is the gap.
    value = make_top_problem(parts[0], None, "per-query").value_at(0.01, result.model.coef)
    assert result.objective == pytest.approx(value)
    assert result.objective - result.duality_gap <= least.objective


@pytest.mark.parametrize("name", ["toppush", "a2dm2"])
@pytest.mark.parametrize(("file", "most"), [("a9a", 40), ("ijcnn1.train", 55)])
def test_positives_on_top_of_public_sets(data_folder, name, file, most):
    """Where the optimum is w = 0, which puts none on top, iterates put `most` and more there."""
    X, y = load_svmlight_file(str(data_folder / "libsvm_binary" / f"{file}.txt.gz"))
    order = np.random.default_rng(0).permutation(len(y))
    cut = 2 * len(y) // 3
    train, valid = (
        RankingData.from_arrays(X[rows], (y[rows] > 0) * 1.0, np.zeros(len(rows)))
        for rows in (np.sort(order[:cut]), np.sort(order[cut:]))
    )
    solver = make_solver(name, early_stopping_rounds=20, eval_metric="pos@top")
    result = solver.solve(train, valid=valid)
    n_positives = int(valid.relevance.sum())
    assert n_positives * value_of(result.model, valid, "pos@top") >= most
    assert result.objective - result.duality_gap == pytest.approx(1.0, abs=1e-2)


def test_the_estimator_takes_it_and_the_model_is_saved(data, valid, tmp_path):
    ranker = Ranker("cutting-plane", early_stopping_rounds=1, eval_metric="map", C=10.0)
    args = {"qid": data.qid, "eval_set": (valid.X, valid.relevance), "eval_qid": valid.qid}
    ranker.fit(data.X, data.relevance, **args)
    curve = [row["valid_map"] for row in ranker.result_.history if "valid_map" in row]
    assert value_of(ranker.model_, valid, "map") >= max(curve)
    assert ranker.evals_result_["validation_0"]["map"][: len(curve)] == curve
    ranker.model_.save(tmp_path / "model")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model").predict(data.X), ranker.predict(data.X)
    )


def test_metrics_that_are_better_small_and_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = np.argmax(X @ rng.normal(size=(4, 3)) + 0.5 * rng.normal(size=(90, 3)), axis=1)
    for name in ("larank", "sopopo", "tree-tron"):
        solver = make_solver(name, early_stopping_rounds=3, eval_metric="top1_error", tol=1e-8)
        ranker = LabelRanker(solver, random_state=0)
        ranker.fit(X[:60], y[:60], eval_set=(X[60:], y[60:]))
        curve = [row.get("valid_top1_error", 1.0) for row in ranker.result_.history]
        error = 1.0 - ranker.score(X[60:], y[60:])
        assert error <= min(curve) + 1e-12
        assert len(ranker.result_.history) < 100


def test_models_on_the_way_stay_as_they_were():
    """What a callback keeps as a checkpoint is no view of weights that go on."""
    data = make_problem("label-ranking").data()
    for name in SOLVERS:
        if name in ("toppush", "a2dm2"):
            continue
        kept = []
        solver = make_solver(name, tol=1e-6)
        solver.solve(
            data,
            random_state=0,
            callback=lambda p, kept=kept: kept.append((m := p.model(), m.predict(data.X))),
        )
        for model, scores in kept:
            np.testing.assert_array_equal(model.predict(data.X), scores)


def test_what_hinders_it_is_said(data, valid):
    solver = make_solver("toppush", early_stopping_rounds=2)
    with pytest.raises(ParameterError, match="needs validation data: pass valid to solve"):
        solver.solve(data)
    silent = RankingData.from_arrays(data.X, np.ones(data.n_samples), data.qid)
    with pytest.raises(DataError, match="validation data: no preference pair"):
        solver.solve(data, valid=silent)
    missing = RankingData.from_arrays(np.full(data.X.shape, np.nan), data.relevance, data.qid)
    with pytest.raises(DataError, match="takes no missing values, but the validation data hold"):
        solver.solve(data, valid=missing)
    low = RankingData.from_arrays(data.X, np.minimum(data.relevance, 2) - 2.0, data.qid)
    with pytest.raises(DataError, match=r"map is undefined for every query of the validation"):
        make_solver("tree-tron", early_stopping_rounds=2, eval_metric="map").solve(data, valid=low)
    with pytest.raises(ParameterError, match=r"eval_metric='nDGC' .*the name of a metric"):
        make_solver("sopopo", eval_metric="nDGC").solve(data)
    tron = make_solver("tree-tron", early_stopping_rounds=2)
    with pytest.raises(ParameterError, match="a C path has no validation data: set early"):
        rankplug.path(tron, data, [0.1, 1.0])
    with pytest.raises(ParameterError, match="path: tree-tron with early_stopping_rounds"):
        rankplug.tune(tron, data, valid=valid, n_trials=1, path=True)


def test_the_pace_of_looks(valid):
    """All of the first twenty iterations, then a twentieth more; of ties the first."""

    class Fixed:
        def predict(self, X):
            return np.arange(X.shape[0], dtype=float)

    stopping = EarlyStopping(valid, parse_metric("ndcg@10"), 1000)
    looked = []
    for n_iter in range(10_000):
        if stopping.is_due(n_iter):
            stopping.look(n_iter, Fixed(), None)
            looked.append(n_iter)
    assert looked[:22] == [*range(21), 22]
    assert len(looked) < 160
    assert stopping.best.n_iter == 0
    assert not stopping.is_over
    assert not stopping.prefers(Fixed())


def test_a_solver_within_another_one_stops_early(data, valid):
    inner = {"tree-tron": {"early_stopping_rounds": 1, "tol": 1e-8, "C": 10.0}}
    mapped = make_solver("mapped", map="identity", solver=inner)
    result = mapped.solve(data, valid=valid, random_state=0)
    assert any("valid_ndcg_at_10" in row for row in result.history)
    linear = make_solver("tree-tron", **inner["tree-tron"])
    boosted = make_solver("linear-then-boost", linear=linear, n_estimators=2, n_threads=1)
    assert boosted.solve(data, valid=valid, random_state=0).n_iter == 2
