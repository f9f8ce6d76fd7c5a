"""What is told while a solver works, and by whom it is stopped."""

import logging

import numpy as np
import pytest

import rankplug
from rankplug.exceptions import DataError, ParameterError
from rankplug.metrics import evaluate
from rankplug.solver import Progress
from rankplug.testing import PairDirection, make_problem

BOOSTERS = ["xgboost-pairwise", "xgboost-all-pairs", "linear-then-boost", "lightgbm-lambdarank"]
LINEAR = ["tree-tron", "cutting-plane", "toppush", "a2dm2", "sopopo", "larank"]


def quick(name, **params):
    if name in BOOSTERS:
        params = {"n_estimators": 5, "n_threads": 1, **params}
    return rankplug.make_solver(name, **params)


@pytest.fixture(scope="module")
def data():
    return make_problem("query-document").data()


@pytest.fixture(scope="module")
def others():
    return {"yesterday": make_problem("query-document", seed=1).data()}


@pytest.mark.parametrize("name", BOOSTERS + LINEAR)
@pytest.mark.filterwarnings("ignore:.*(ranks nothing|before reaching)")
def test_watched_data_have_a_value_an_iteration_and_change_nothing(name, data, others):
    alone = quick(name).solve(data, random_state=0)
    seen = []
    result = quick(name).solve(
        data, watch={**others, "same": data}, random_state=0, callback=seen.append
    )
    np.testing.assert_array_equal(result.model.predict(data.X), alone.model.predict(data.X))
    assert result.evals.keys() == {"yesterday", "same"}
    for watched, of in (("yesterday", others["yesterday"]), ("same", data)):
        ((metric, values),) = result.evals[watched].items()
        assert metric == "ndcg@10"
        assert len(values) == len(result.history)
        assert values == tuple(one.evals[watched][metric] for one in seen)
        last = evaluate(of.relevance, result.model.predict(of.X), of.qid, metric)[metric]
        assert values[-1] == pytest.approx(last, abs=1e-6)
    assert alone.evals == {}


def test_a_solver_that_shows_no_models_on_the_way_has_the_last_value(data, others):
    result = rankplug.make_solver("pointwise").solve(data, watch=others, random_state=0)
    other = others["yesterday"]
    expected = evaluate(other.relevance, result.model.predict(other.X), other.qid, "ndcg@10")
    assert result.evals == {"yesterday": {"ndcg@10": (expected["ndcg@10"],)}}


@pytest.mark.parametrize("name", ["tree-tron", "xgboost-pairwise", "lightgbm-all-pairs"])
def test_labels_that_are_no_gains_are_watched_by_their_pairs(name):
    problem = make_problem("query-document")
    data = rankplug.RankingData.from_arrays(problem.X, problem.y - 7.5, problem.qid)
    result = rankplug.make_solver(name).solve(data, watch={"x": data}, random_state=0)
    assert result.evals["x"].keys() == {"pairwise_accuracy"}


@pytest.mark.parametrize("name", ["tree-tron", "xgboost-pairwise", "lightgbm-all-pairs"])
def test_where_the_metric_is_undefined_it_is_nan(name, data):
    nothing = rankplug.RankingData.from_arrays(data.X, np.zeros(data.n_samples), data.qid)
    result = rankplug.make_solver(name).solve(data, watch={"x": nothing}, random_state=0)
    assert np.isnan(result.evals["x"]["ndcg@10"]).all()
    assert len(result.evals["x"]["ndcg@10"]) == len(result.history)


@pytest.mark.parametrize("name", ["sopopo", "cutting-plane", "xgboost-pairwise"])
def test_labels_are_watched(name):
    data = make_problem("label-ranking").data()
    result = quick(name).solve(data, watch={"x": data}, random_state=0)
    (values,) = result.evals["x"].values()
    assert len(values) == len(result.history)
    assert values[-1] > 0.3


@pytest.mark.parametrize("name", ["xgboost-pairwise", "lightgbm-lambdarank"])
def test_the_data_that_stop_are_watched_once_and_stop_as_without(name, data, others):
    valid = others["yesterday"]
    solver = quick(name, n_estimators=60, early_stopping_rounds=3)
    alone = solver.solve(data, valid=valid, random_state=0)
    both = solver.solve(data, valid=valid, watch={"a": data, "b": valid}, random_state=0)
    assert alone.n_iter == both.n_iter < 60
    key = "valid_ndcg_at_10"
    assert [row[key] for row in alone.history] == [row[key] for row in both.history]
    np.testing.assert_allclose(
        both.evals["b"]["ndcg@10"], [row[key] for row in both.history], atol=1e-6
    )


def test_watched_data_must_fit(data, others):
    narrow = make_problem("label-ranking").data()
    with pytest.raises(DataError, match="must be of one kind"):
        rankplug.make_solver("tree-tron").solve(data, watch={"x": narrow})


@pytest.mark.parametrize("name", ["tree-tron", "sopopo", "xgboost-pairwise", "lightgbm-all-pairs"])
def test_errors_of_a_callback_come_through_as_they_are(name, data):
    class OwnError(Exception):
        pass

    # As the module of XGBoost's and LightGBM's own errors, which are translated.
    OwnError.__module__ = name.partition("-")[0]
    for error in (OwnError("mine"), FloatingPointError("mine"), ZeroDivisionError("mine")):

        def fail(_, error=error):
            raise error

        with pytest.raises(type(error), match=r"\Amine\Z") as caught:
            rankplug.make_solver(name).solve(data, callback=fail)
        assert caught.value is error


def test_the_log_has_a_line_an_iteration(data, others, caplog):
    solver = rankplug.make_solver("tree-tron")
    # Said here, as MLflow and others set the level of all loggers.
    with caplog.at_level(logging.WARNING, logger="rankplug"):
        solver.solve(data)
    assert not caplog.records
    with caplog.at_level(logging.INFO, logger="rankplug"):
        result = solver.solve(data, watch=others)
    lines = [record.getMessage() for record in caplog.records if record.name == "rankplug"]
    assert len(lines) == len(result.history)
    assert lines[1].startswith("tree-tron: iteration 1 (0.")
    assert "objective " in lines[1]
    assert "yesterday ndcg@10 0." in lines[1]
    assert logging.getLogger("rankplug").handlers == []
    with caplog.at_level(logging.INFO, logger="rankplug"):
        caplog.clear()
        rankplug.path(solver, data, [0.1, 1.0])
    assert len(caplog.records) > 2


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.filterwarnings("ignore:.*(ranks nothing|before reaching)")
def test_a_callback_may_ask_for_the_model_of_the_moment(name, data):
    scores = []
    solver = rankplug.make_solver(name)
    result = solver.solve(
        data, random_state=0, callback=lambda p: scores.append(p.model().predict(data.X))
    )
    assert len(scores) == len(result.history)
    np.testing.assert_allclose(scores[-1], result.model.predict(data.X), rtol=1e-6, atol=1e-9)


def test_rows_without_a_model_have_no_value(data):
    class Late(PairDirection):
        def _solve(self, data, init, monitor, rng):
            monitor.report(0, looked_at=1.0)
            result = super()._solve(data, init, monitor, rng)
            monitor.report(2, model=lambda: result.model)
            return result

    values = Late().solve(data, watch={"x": data}).evals["x"]["ndcg@10"]
    assert np.isnan(values).tolist() == [True, True, False]


def test_progress_reads_as_a_line():
    progress = Progress(3, 0.126, {"objective": 12.0}, {"validation_0": {"ndcg@10": 0.5}})
    assert str(progress) == "iteration 3 (0.13 s): objective 12, validation_0 ndcg@10 0.5"
    assert str(Progress(1, 0.0, {})) == "iteration 1 (0.00 s): done"


def test_solvers_that_begin_anew_say_so(data):
    model = rankplug.make_solver("tree-tron").solve(data).model
    for name in ("toppush", "pointwise", "constant"):
        with pytest.raises(ParameterError, match=f"^{name} cannot start .* always begins anew"):
            rankplug.make_solver(name).solve(data, init=model)
