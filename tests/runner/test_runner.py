import csv
import math
import warnings
from pathlib import Path

import numpy as np
import pytest

from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import DataError, ParameterError, UnknownNameError
from rankplug.metrics import evaluate, per_query
from rankplug.models import LabelLinearModel, LinearModel
from rankplug.recipe import Dataset, Entry, Recipe
from rankplug.report import REPORT_FILES, Outcome
from rankplug.runner import (
    Observer,
    ProgressBars,
    data_digest,
    default_output,
    experiment,
    run,
    turn,
)
from rankplug.runner.experiment import SANITY_SOLVERS, competitors
from rankplug.solver import Progress, Solver, SolverResult, SolverTags, make_solver, solver_class

ERRORS = {
    "data": DataError("labels must be integers"),
    "bug": ZeroDivisionError("by zero"),
    "memory": MemoryError(),
    "Ctrl-C": KeyboardInterrupt(),
}


class Given(Solver):
    """Its model is what it is told."""

    name = "given"
    tags = SolverTags(("query-document", "label-ranking"), "none", "none", validation=True)

    def __init__(self, weight=1.0, error=None):
        self.weight = weight
        self.error = error

    def _solve(self, data, init, monitor, rng, valid=None):
        self.seen = {"train": data, "valid": valid, "draw": rng.integers(1000)}
        monitor.report(1, objective=2.0)
        monitor.report(2, objective=1.0)
        if self.error is not None:
            raise ERRORS[self.error]
        coef = np.zeros(data.n_features)
        coef[0] = self.weight
        if isinstance(data, LabelRankingData):
            model = LabelLinearModel(np.outer(np.arange(data.n_labels), coef))
        else:
            model = LinearModel(coef)
        return SolverResult(model, "converged", 1.0, 0.0, 2, 2.0)


class Recorder(Observer):
    """Remembers what it was told."""

    def __init__(self):
        self.told = []

    def run_started(self, recipe, splits):
        self.told.append(("run_started", recipe.name, list(splits)))

    def solver_started(self, name, solver):
        self.told.append(("solver_started", name, solver.weight))

    def training_started(self, name, part, solver):
        self.told.append(("training_started", name, part))

    def progress(self, name, progress):
        self.told.append(("progress", name, progress.n_iter))

    def solver_finished(self, outcome):
        self.told.append(("solver_finished", outcome.name, outcome.status))

    def run_finished(self, report, output):
        written = {file.name for file in output.iterdir()}
        self.told.append(("run_finished", len(report.outcomes), set(REPORT_FILES) <= written))

    def run_failed(self, error):
        self.told.append(("run_failed", type(error).__name__))


def ranking_data(seed, n_queries=4, size=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, 2))
    y = np.clip(np.round(X[:, 0] + 1), 0, 3)
    return RankingData.from_arrays(X, y, np.repeat([f"q{i}" for i in range(n_queries)], size))


def recipe(*entries, **values):
    known = {"metrics": ("ndcg@10", "pairwise_accuracy"), "seed": 7, "sanity": False}
    return Recipe("demo", Dataset("none"), solvers=entries, **{**known, **values})


@pytest.fixture
def splits(monkeypatch):
    """Small data, and solvers that need no registry."""
    data = {split: ranking_data(seed) for seed, split in enumerate(("train", "valid", "test"))}
    monkeypatch.setattr(experiment, "load_splits", lambda recipe: data)
    monkeypatch.setattr(experiment, "make_solver", lambda name, **params: Given(**params))
    monkeypatch.setattr(turn, "measure", lambda model, data: {"model_bytes": 1.0})
    monkeypatch.setitem(REPORT_FILES, "report.html", lambda report: "<!DOCTYPE html>")  # slow
    return data


GOOD, BAD = Entry("given", "good", {"weight": 2.0}), Entry("given", "bad", {"weight": -1.0})


def failing(error, name="fails"):
    return Entry("given", name, {"error": error})


def test_every_solver_is_scored_on_every_split_by_our_metrics(splits, tmp_path):
    report = run(recipe(GOOD, BAD), output=tmp_path / "out")
    assert [outcome.name for outcome in report.outcomes] == ["good", "bad"]
    for outcome, weight in zip(report.outcomes, (2.0, -1.0), strict=True):
        assert outcome.solver == "given"
        assert outcome.params == {"weight": weight, "error": None}
        assert outcome.status == "converged"
        assert outcome.error is None
        assert outcome.result.model.coef.tolist() == [weight, 0.0]
        for split, data in splits.items():
            scores = data.X[:, 0] * weight
            assert outcome.metrics[split] == evaluate(
                data.relevance, scores, data.qid, ["ndcg@10", "pairwise_accuracy"]
            )
        test = splits["test"]
        expected = per_query(test.relevance, test.X[:, 0] * weight, test.qid, "ndcg@10")
        np.testing.assert_array_equal(outcome.per_query["ndcg@10"], expected["ndcg@10"])
        assert outcome.train_seconds >= 0
        assert outcome.train_cpu_seconds >= 0
        assert outcome.predict_seconds >= 0
    assert report.winners("ndcg@10") == {"good"}
    assert report.query_ids.tolist() == ["q0", "q1", "q2", "q3"]
    assert report.splits["test"] == "4 queries, 20 rows, 2 features"


def test_the_solver_gets_validation_data_and_the_seed(splits, tmp_path):
    made = []

    class Watch(Observer):
        def solver_started(self, name, solver):
            made.append(solver)

    run(recipe(GOOD, GOOD), observer=Watch(), output=tmp_path / "out")
    assert made[0] is not made[1]
    assert made[0].seen["train"] is splits["train"]
    assert made[0].seen["valid"] is splits["valid"]
    expected = np.random.default_rng(7).integers(1000)
    assert [solver.seen["draw"] for solver in made] == [expected, expected]


def test_recipes_stop_early_by_validation_data(splits, monkeypatch, tmp_path):
    monkeypatch.setattr(experiment, "make_solver", make_solver)
    entry = Entry("tree-tron", "early", {"early_stopping_rounds": 1, "tol": 1e-9})
    (outcome,) = run(recipe(entry), output=tmp_path / "out").outcomes
    curve = [row["valid_ndcg_at_10"] for row in outcome.result.history]
    assert outcome.metrics["valid"]["ndcg@10"] >= max(curve)
    del splits["valid"]
    (outcome,) = run(recipe(entry), output=tmp_path / "other").outcomes
    assert "needs validation data" in outcome.error


def test_a_recipe_without_validation_data_runs(splits, tmp_path):
    del splits["valid"]
    (outcome,) = run(recipe(GOOD), output=tmp_path / "out").outcomes
    assert set(outcome.metrics) == {"train", "test"}


def test_label_ranking_is_scored_by_instance(splits, tmp_path):
    X = np.array([[1.0, 0.0], [-1.0, 0.0]])
    data = LabelRankingData.from_arrays(X, [[0, 1, 2], [2, 1, math.nan]])
    splits.clear()
    splits.update(train=data, test=data)
    report = run(recipe(GOOD, metrics=("kendall_tau", "top1_error")), output=tmp_path / "out")
    (outcome,) = report.outcomes
    assert outcome.metrics["test"] == {"kendall_tau": 1.0, "top1_error": 0.0}
    assert outcome.per_query["kendall_tau"].tolist() == [1.0, 1.0]
    assert report.query_ids.tolist() == [0, 1]
    assert report.splits["test"] == "2 instances, 3 labels, 2 features"


def test_observers_hear_of_everything_in_order(splits, tmp_path):
    first, second = Recorder(), Recorder()
    run(recipe(GOOD, BAD), observer=[first, second], output=tmp_path / "out")
    assert first.told == [
        ("run_started", "demo", ["train", "valid", "test"]),
        ("solver_started", "good", 2.0),
        ("training_started", "good", ""),
        ("progress", "good", 1),
        ("progress", "good", 2),
        ("solver_finished", "good", "converged"),
        ("solver_started", "bad", -1.0),
        ("training_started", "bad", ""),
        ("progress", "bad", 1),
        ("progress", "bad", 2),
        ("solver_finished", "bad", "converged"),
        ("run_finished", 2, True),
    ]
    assert second.told == first.told


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("data", "labels must be integers"),
        ("bug", "ZeroDivisionError: by zero"),
        ("memory", "MemoryError"),
    ],
)
def test_a_solver_that_fails_does_not_stop_the_others(splits, tmp_path, error, message):
    recorder = Recorder()
    report = run(recipe(failing(error), GOOD), observer=recorder, output=tmp_path / "out")
    broken, good = report.outcomes
    assert (broken.status, broken.error, broken.result) == ("failed", message, None)
    assert broken.metrics == {}
    assert good.status == "converged"
    assert report.failed == (broken,)
    assert not report.interrupted
    assert ("solver_finished", "fails", "failed") in recorder.told
    assert recorder.told[-1] == ("run_finished", 2, True)


def test_wrong_parameter_values_are_a_failure_of_that_solver(monkeypatch, splits, tmp_path):
    monkeypatch.setattr(experiment, "make_solver", make_solver)
    entry = Entry("tree-tron", "tree-tron", {"C": -1.0})
    (outcome,) = run(recipe(entry), output=tmp_path / "out").outcomes
    assert outcome.status == "failed"
    assert "C=-1.0" in outcome.error


def test_an_interrupted_run_keeps_what_was_finished(splits, tmp_path):
    recorder = Recorder()
    entries = GOOD, failing("Ctrl-C", "cut"), BAD
    report = run(recipe(*entries), observer=recorder, output=tmp_path / "out")
    assert report.interrupted
    assert [outcome.status for outcome in report.outcomes] == ["converged", "stopped"]
    assert recorder.told[-1] == ("run_finished", 2, True)
    rows = list(csv.DictReader((tmp_path / "out" / "results.csv").open()))
    assert [(row["name"], row["status"]) for row in rows] == [
        ("good", "converged"),
        ("cut", "stopped"),
    ]
    assert float(rows[0]["test ndcg@10"]) == report.outcomes[0].score("ndcg@10")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_observer_that_fails_ends_the_run_but_not_the_results(splits, tmp_path, error):
    class Broken(Observer):
        def solver_finished(self, outcome):
            raise error

    recorder = Recorder()
    with pytest.raises(error):
        run(recipe(GOOD, BAD), observer=[recorder, Broken()], output=tmp_path / "out")
    assert recorder.told[-1] == ("run_failed", error.__name__)
    rows = list(csv.DictReader((tmp_path / "out" / "results.csv").open()))
    assert [row["name"] for row in rows] == ["good"]


def test_an_observer_that_cannot_start_ends_the_run(splits, tmp_path):
    class Broken(Observer):
        def run_started(self, recipe, splits):
            raise ParameterError("no such server")

    with pytest.raises(ParameterError, match="no such server"):
        run(recipe(GOOD), observer=Broken(), output=tmp_path / "out")
    assert not (tmp_path / "out" / "results.csv").exists()


def test_the_output_folder_has_the_report(splits, tmp_path):
    resolved = recipe(GOOD, BAD)
    run(resolved, output=tmp_path / "deep" / "out")
    folder = tmp_path / "deep" / "out"
    assert {file.name for file in folder.iterdir()} == set(REPORT_FILES)
    assert (folder / "recipe.yaml").read_text() == resolved.to_yaml()
    assert "**" in (folder / "report.md").read_text()
    rows = list(csv.DictReader((folder / "per_query.csv").open()))
    assert len(rows) == 2 * 4


def test_an_earlier_report_is_not_overwritten(splits, tmp_path):
    run(recipe(GOOD), output=tmp_path / "out")
    before = (tmp_path / "out" / "results.csv").read_bytes()
    with pytest.raises(ParameterError, match=r"earlier run .*results\.csv"):
        run(recipe(BAD), output=tmp_path / "out")
    assert (tmp_path / "out" / "results.csv").read_bytes() == before


def test_other_files_in_the_output_folder_do_not_matter(splits, tmp_path):
    (tmp_path / "mlflow.db").touch()
    run(recipe(GOOD), output=tmp_path)
    assert (tmp_path / "results.csv").exists()


def test_an_output_that_is_a_file_is_refused(splits, tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(ParameterError, match="is a file"):
        run(recipe(GOOD), output=tmp_path / "out")
    with pytest.raises(ParameterError, match="cannot be made"):
        run(recipe(GOOD), output=tmp_path / "out" / "deeper")


def test_an_output_that_cannot_be_written_to_is_found_before_training(
    splits, tmp_path, monkeypatch
):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    recorder = Recorder()
    with pytest.raises(ParameterError, match="cannot be written to"):
        run(recipe(GOOD), observer=recorder, output=tmp_path)
    assert recorder.told == []


def test_data_that_cannot_be_read_leave_no_folder(splits, monkeypatch, tmp_path):
    def load(recipe):
        raise DataError("no such file")

    monkeypatch.setattr(experiment, "load_splits", load)
    recorder = Recorder()
    with pytest.raises(DataError, match="no such file"):
        run(recipe(GOOD), observer=recorder, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert recorder.told == []


def test_the_default_folder_is_new_each_time(splits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(3):
        run(recipe(GOOD))
    folders = list((tmp_path / "rankplug-output").iterdir())
    assert len(folders) == 3
    assert all(folder.name.startswith("demo-") for folder in folders)
    assert default_output(recipe(GOOD)).parent == Path("rankplug-output")
    assert not default_output(recipe(GOOD)).exists()


# Costs, sanity, digests


def test_costs_stand_beside_quality(splits, tmp_path):
    (outcome,) = run(recipe(GOOD), output=tmp_path / "out").outcomes
    assert outcome.costs["model_bytes"] == 1.0
    assert outcome.costs["train_seconds"] == outcome.train_seconds
    assert outcome.learning_curve == ()


def test_a_learning_curve_is_measured_on_demand(splits, tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "make_solver", make_solver)
    entry = Entry("tree-tron", "tree-tron", {"C": 1.0})
    (outcome,) = run(recipe(entry, learning_curve=True), output=tmp_path / "out").outcomes
    qualities = [point.quality for point in outcome.learning_curve]
    assert len(qualities) > 1
    assert qualities[-1] == pytest.approx(outcome.score("ndcg@10"))
    assert outcome.costs["seconds_to_99"] in [point.seconds for point in outcome.learning_curve]


def test_sanity_rankers_take_part_unless_declined():
    labels = LabelRankingData.from_arrays(np.eye(3), [0, 1, 2])
    mine = recipe(GOOD, sanity=True)
    names = [entry.name for entry in competitors(mine, ranking_data(0))]
    assert names == ["good", *SANITY_SOLVERS]
    assert competitors(recipe(GOOD), ranking_data(0)) == (GOOD,)
    for entry in competitors(mine, labels)[1:]:
        assert "label-ranking" in solver_class(entry.solver).tags.tasks


def test_sanity_rankers_are_not_added_twice_nor_needed(monkeypatch):
    own = Entry("constant", "nothing"), Entry("given", "single-feature")
    names = [entry.name for entry in competitors(recipe(*own, sanity=True), ranking_data(0))]
    assert names == ["nothing", "single-feature"]

    def missing(name):
        raise UnknownNameError("solver", name, [])

    monkeypatch.setattr(experiment, "solver_class", missing)
    assert competitors(recipe(GOOD, sanity=True), ranking_data(0)) == (GOOD,)


def test_equal_runs_have_equal_digests(splits, tmp_path):
    first, again, other = (
        run(recipe(entry), output=tmp_path / name).digests
        for name, entry in (("a", GOOD), ("b", GOOD), ("c", BAD))
    )
    assert first == again
    assert {"recipe", "train data", "test data", "seed", "results", "rankplug"} <= set(first)
    changed = {key for key in first if first[key] != other[key]}
    assert changed == {"recipe", "results"}
    assert first["train data"] == data_digest(splits["train"])
    assert first["seed"] == "7"


class Terminal:
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


@pytest.mark.parametrize("most", [{}, {"max_iter": 100}])
def test_a_bar_shows_the_last_iteration_and_the_status(monkeypatch, splits, tmp_path, most):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(Given, "get_params", lambda self, deep=True: most)
    run(recipe(GOOD, failing("data")), output=tmp_path / "out")
    last = terminal.text.replace("\n", "\r").split("\r")
    assert any("good" in line and "2" in line and "converged" in line for line in last)
    assert any("fails" in line and "failed" in line for line in last)


@pytest.mark.parametrize("progress", [True, False])
def test_there_is_no_bar_without_a_terminal(splits, tmp_path, capsys, progress):
    run(recipe(GOOD), output=tmp_path / "out", progress=progress)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_a_bar_copes_with_numbers_of_any_kind(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    bars = ProgressBars()
    bars.training_started("x", "", Given())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bars.progress("x", Progress(1, 0.1, {"objective": math.nan, "n": 3, "big": 1e300}))
        assert str(bars._bar).endswith("objective=nan, n=3, big=1e+300]")
        bars.progress("x", Progress(5, 0.2, {}))
        assert bars._bar.n == 5
        bars.solver_finished(Outcome("x", "given", {}, "failed"))
