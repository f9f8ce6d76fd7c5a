import time
import warnings

import numpy as np
import pytest
from scipy import sparse

from rankplug.data import LabelRankingData, RankingData, fit_scaling
from rankplug.exceptions import ConvergenceWarning, DataError
from rankplug.models import LabelLinearModel, LinearModel, Model, saved_size
from rankplug.report import LearningPoint, costs
from rankplug.report.costs import learning_curve, measure, seconds_to_share, training_costs
from rankplug.solver import Solver, SolverResult, SolverTags

PREDICTIONS = ["predict_us_1", "predict_us_100", "predict_us_10000"]
MEGABYTE = 1 << 20

linux_only = pytest.mark.skipif(
    costs._start_of_peak() is None, reason="the system does not tell peaks of memory"
)


def ranking_data(n_queries=6, size=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, 3))
    y = np.clip(np.round(X[:, 0] + 1), 0, 3)
    return RankingData.from_arrays(X, y, np.repeat(np.arange(n_queries), size))


class Learner(Solver):
    """Its model knows the truth after `needed` iterations and knows nothing before."""

    name = "learner"
    tags = SolverTags(("query-document",), "none", "none", validation=True)

    def __init__(self, needed=5, max_iter=20, tol=0.0):
        self.needed = needed
        self.max_iter = max_iter
        self.tol = tol

    def _solve(self, data, init, monitor, rng, valid=None):
        n_iter = min(self.max_iter, 12)
        weight = 1.0 if n_iter >= self.needed else -1.0
        status = "converged" if n_iter == 12 else "max_iter"
        model = LinearModel([weight, 0.0, 0.0])
        return SolverResult(model, status, None, None, n_iter, float(n_iter))


class Endless(Learner):
    name = "endless"
    iteration_limit = "rounds_that_it_does_not_have"


class Unsavable(LinearModel):
    def _write(self, folder):
        raise DataError("a function of your own cannot be saved")


def test_time_of_the_block_is_wall_and_processor_time():
    with training_costs() as waiting:
        time.sleep(0.05)
    with training_costs() as working:
        sum(i * i for i in range(300_000))
    assert waiting["train_seconds"] >= 0.05
    assert waiting["train_cpu_seconds"] < waiting["train_seconds"]
    assert working["train_cpu_seconds"] > 0


@linux_only
def test_memory_is_the_highest_of_the_block_every_time():
    for _ in range(2):
        with training_costs() as found:
            block = np.ones(40 * MEGABYTE, dtype=np.uint8)
            del block
        assert 38 * MEGABYTE < found["train_peak_bytes"] < 80 * MEGABYTE


@linux_only
def test_small_pieces_that_were_freed_before_count_again():
    for _ in range(2):
        with training_costs() as found:
            pieces = [np.ones(1000) for _ in range(4000)]
            del pieces
        assert found["train_peak_bytes"] > 20 * MEGABYTE


@linux_only
def test_what_was_there_before_does_not_count():
    block = np.ones(40 * MEGABYTE, dtype=np.uint8)
    with training_costs() as found:
        block[0] = 2
    assert found["train_peak_bytes"] < 20 * MEGABYTE


def test_where_the_system_is_silent_memory_is_left_out(monkeypatch):
    monkeypatch.setattr(costs, "_start_of_peak", lambda: None)
    with training_costs() as found:
        pass
    assert set(found) == {"train_seconds", "train_cpu_seconds"}


def test_an_error_in_the_block_passes_and_leaves_nothing():
    with pytest.raises(ZeroDivisionError), training_costs() as found:
        _ = 1 / 0
    assert found == {}


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_size_and_speed_of_a_model(form):
    dense = ranking_data()
    data = RankingData.from_arrays(form(dense.X), dense.relevance, dense.qid)
    found = measure(LinearModel([1.0, 2.0, 3.0]), data)
    assert list(found) == ["model_bytes", *PREDICTIONS]
    assert all(value > 0 for value in found.values())
    # The call itself is most of the work for one row.
    assert found["predict_us_1"] > found["predict_us_10000"]


def test_the_size_is_that_of_the_files(tmp_path):
    model = LinearModel(np.arange(1000.0))
    model.save(tmp_path / "model")
    size = sum(file.stat().st_size for file in (tmp_path / "model").iterdir())
    assert saved_size(model) == size


def test_label_ranking_is_measured_too():
    data = LabelRankingData.from_arrays(np.eye(4), [0, 1, 2, 1])
    assert set(PREDICTIONS) <= set(measure(LabelLinearModel(np.ones((3, 4))), data))


def test_a_model_that_cannot_be_saved_has_no_size():
    found = measure(Unsavable([1.0, 2.0, 3.0]), ranking_data())
    assert list(found) == PREDICTIONS


def test_batches_that_would_not_fit_the_memory_are_left_out(monkeypatch):
    monkeypatch.setattr(costs, "_MOST_CELLS", 300)
    found = measure(LinearModel([1.0, 2.0, 3.0]), ranking_data())
    assert list(found) == ["model_bytes", *PREDICTIONS[:2]]


def test_a_slow_model_is_called_once(monkeypatch):
    calls = []

    class Slow(LinearModel):
        def _predict(self, X):
            calls.append(X.shape[0])
            return super()._predict(X)

    monkeypatch.setattr(costs, "_SECONDS_PER_BATCH", 0.0)
    measure(Slow([1.0, 2.0, 3.0]), ranking_data())
    assert calls == [1, 100, 10_000]


def test_the_learning_curve_has_doubling_points_up_to_the_end():
    data = ranking_data()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        curve = learning_curve(Learner(), data, data, "ndcg@10")
    assert [point.n_iter for point in curve] == [1, 2, 4, 8, 12]
    assert [point.quality > 0.99 for point in curve] == [False, False, False, True, True]
    assert seconds_to_share(curve, "ndcg@10") == curve[3].seconds


def test_the_last_point_is_the_training_as_it_was_asked_for():
    data = ranking_data()
    curve = learning_curve(Learner(max_iter=6), data, data, "ndcg@10")
    assert [point.n_iter for point in curve] == [1, 2, 4, 6]


def test_the_curve_scores_unscaled_features():
    data = ranking_data()
    scaling = fit_scaling(data.X, "standard")
    scaled = learning_curve(Learner(), scaling.of(data), data, "ndcg@10", scaling=scaling)
    plain = learning_curve(Learner(), data, data, "ndcg@10")
    assert [one.quality for one in scaled] == pytest.approx([one.quality for one in plain])


def test_a_solver_without_iterations_has_no_curve():
    data = ranking_data()
    assert learning_curve(Endless(), data, data, "ndcg@10") == ()
    assert seconds_to_share((), "ndcg@10") is None
    assert seconds_to_share((), "top1_error") is None


def test_99_percent_of_an_error_are_a_little_more_of_it():
    curve = tuple(LearningPoint(i, float(i), q) for i, q in enumerate([0.9, 0.202, 0.2], 1))
    assert seconds_to_share(curve, "top1_error") == 2.0
    assert seconds_to_share(curve, "ndcg@10", share=0.5) == 1.0


def test_a_negative_quality_has_no_shares():
    curve = (LearningPoint(1, 1.0, -0.5), LearningPoint(2, 2.0, -0.2))
    assert seconds_to_share(curve, "kendall_tau") is None


def test_models_that_do_not_tell_have_no_importances():
    assert isinstance(LinearModel([1.0]), Model)
    assert LinearModel([1.0]).feature_importances() is None
