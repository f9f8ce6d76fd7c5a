"""Recipes with a section `tune`: runs, interruptions, the command."""

import csv
import signal
import subprocess
import sys
import time
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest

from rankplug import cli
from rankplug.data import RankingData
from rankplug.metrics import evaluate
from rankplug.models import LinearModel
from rankplug.recipe import Compare, Dataset, Entry, Recipe, Tune
from rankplug.recipe.loader import load_recipe
from rankplug.report import REPORT_FILES
from rankplug.runner import Observer, best_tuned, experiment, run, turn
from rankplug.solver import Solver, SolverResult, SolverTags
from rankplug.tuning import TuneObserver


class Angle(Solver):
    """Its model is a direction, which is all that is tuned."""

    name = "angle"
    tags = SolverTags(("query-document",), "none", "none")
    interrupt_after = None
    n_solved = 0

    def __init__(self, angle=0.0, length=1.0):
        self.angle = angle
        self.length = length

    def tuning_space(self, data=None):
        return {"angle": optuna.distributions.FloatDistribution(0.0, 6.0)}

    def _solve(self, data, init, monitor, rng):
        Angle.n_solved += 1
        if Angle.n_solved == Angle.interrupt_after:
            raise KeyboardInterrupt
        monitor.report(1, objective=0.0)
        coef = self.length * np.array([np.cos(self.angle), np.sin(self.angle)])
        return SolverResult(LinearModel(coef), "converged", 0.0, None, 1, 1.0)


class Fixed(Angle):
    """Has nothing to tune."""

    name = "fixed"

    def tuning_space(self, data=None):
        return {}


def ranking_data(seed, n_queries=12, size=8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * size, 2))
    y = np.clip(np.round(X @ [1.0, 1.0] + 1), 0, 3)
    return RankingData.from_arrays(X, y, np.repeat(np.arange(n_queries) + 100 * seed, size))


SPLITS = {split: ranking_data(seed) for seed, split in enumerate(("train", "valid", "test"))}
SOLVERS = {"angle": Angle, "fixed": Fixed}
RECIPE = Recipe(
    "demo",
    Dataset("none"),
    metrics=("ndcg@10", "pairwise_accuracy"),
    solvers=(Entry("angle", "first"), Entry("angle", "second", {"length": 2.0, "angle": 5.0})),
    seed=1,
    sanity=False,
    tune=Tune(n_trials=8),
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small data, solvers that need no registry, and nothing slow."""
    monkeypatch.setattr(experiment, "load_splits", lambda recipe: SPLITS)
    monkeypatch.setattr(experiment, "make_solver", lambda name, **params: SOLVERS[name](**params))
    monkeypatch.setattr(turn, "measure", lambda model, data: {})
    monkeypatch.setitem(REPORT_FILES, "report.html", lambda report: "<!DOCTYPE html>")
    monkeypatch.setattr(Angle, "n_solved", 0)
    monkeypatch.setattr(Angle, "interrupt_after", None)


def quality(angle, split, metric):
    data = SPLITS[split]
    scores = data.X @ [np.cos(angle), np.sin(angle)]
    return evaluate(data.relevance, scores, data.qid, [metric])[metric]


def finished_trials(journal, study):
    from rankplug.tuning.storage import open_storage

    return optuna.load_study(study_name=study, storage=open_storage(journal).storage).trials


def trials_so_far(journal, study):
    """Of a run that may not have begun the study, or the journal."""
    try:
        return finished_trials(journal, study) if journal.exists() else []
    except KeyError:
        return []


# Runs


def test_every_solver_is_tuned_by_the_validation_set_and_trained_with_the_best(tmp_path):
    report = run(RECIPE, output=tmp_path)
    for outcome in report.outcomes:
        summary = outcome.tuning
        assert (summary.n_trials, summary.n_pruned, summary.n_failed) == (8, 0, 0)
        assert summary.metric == "ndcg@10"
        values = [value for _, _, value, _ in summary.history]
        assert [number for number, *_ in summary.history] == list(range(8))
        for _, _, value, params in summary.history:
            assert value == pytest.approx(quality(params["angle"], "valid", "ndcg@10"))
        assert summary.best_value == max(values)
        assert outcome.params["angle"] == summary.best_params["angle"]
        expected = quality(outcome.params["angle"], "test", "ndcg@10")
        assert outcome.score("ndcg@10") == pytest.approx(expected)
    first, second = report.outcomes
    assert (first.params["length"], second.params["length"]) == (1.0, 2.0)
    assert first.tuning.best_params == second.tuning.best_params  # same seed, same trials
    assert len(finished_trials(tmp_path / "study.journal", "first")) == 8
    assert {"study.journal", "best.yaml", *REPORT_FILES} <= {one.name for one in tmp_path.iterdir()}


def test_the_best_parameters_are_a_recipe(tmp_path, monkeypatch):
    recipe = replace(
        RECIPE,
        data=Dataset("wine"),
        metrics=("kendall_tau",),
        solvers=(
            Entry("tree-tron", "tuned", {"tol": 1e-4}, {"C": [0.01, 1.0], "reduction": "mean"}),
            Entry("tree-tron", "held", {"C": 3.0}, {"C": 0.5}),
        ),
        tune=Tune(n_trials=2, sampler="grid"),
    )
    monkeypatch.undo()
    monkeypatch.setattr(turn, "measure", lambda model, data: {})
    monkeypatch.setitem(REPORT_FILES, "report.html", lambda report: "<!DOCTYPE html>")
    tuned = run(recipe, output=tmp_path / "tuned")
    best = load_recipe(tmp_path / "tuned" / "best.yaml")
    assert best.tune is None
    entries = {entry.name: entry for entry in best.solvers}
    C = tuned.outcomes[0].tuning.best_params["C"]
    assert entries["tuned"].params == {"tol": 1e-4, "reduction": "mean", "C": C}
    assert entries["held"].params == {"C": 0.5}
    assert tuned.outcomes[1].tuning is None
    again = run(best, output=tmp_path / "again")
    for before, after in zip(tuned.outcomes, again.outcomes, strict=True):
        assert after.metrics == before.metrics
    assert not (tmp_path / "again" / "best.yaml").exists()


def test_what_has_nothing_to_tune_is_trained_as_it_is(tmp_path):
    recipe = replace(RECIPE, solvers=(Entry("fixed", "fixed", {"angle": 1.0}),))
    (outcome,) = run(recipe, output=tmp_path).outcomes
    assert outcome.tuning is None
    assert outcome.params["angle"] == 1.0
    assert outcome.status == "converged"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Tune(n_trials=3), {"n_trials": 3, "timeout": None, "valid": True, "path": False}),
        (Tune(timeout=2.0, folds=4), {"timeout": 2.0, "valid": False, "folds": 4}),
        (Tune(n_trials=1, pruner="none", sampler="qmc"), {"pruner": None, "sampler": "qmc"}),
        (Tune(n_trials=1, metric="map", seed=9), {"metric": "map", "seed": 9}),
        (Tune(n_trials=1, costs=("size",)), {"costs": ("size",), "metric": "ndcg@10", "seed": 1}),
    ],
)
def test_the_recipe_says_how_to_tune(tmp_path, monkeypatch, settings, expected):
    calls = []

    def tune(solver, data, **settings):
        calls.append({**settings, "valid": settings["valid"] is not None, "data": data})
        return types.SimpleNamespace(best_solver=solver)

    monkeypatch.setattr(turn, "tune", tune)
    run(replace(RECIPE, tune=settings), output=tmp_path)
    assert len(calls) == 2
    for call in calls:
        assert {key: call[key] for key in expected} == expected
        assert call["data"] is SPLITS["train"]
        assert call["storage"] == tmp_path / "study.journal"


def test_a_path_is_solved_where_the_solver_can(tmp_path, monkeypatch):
    class Warm(Angle):
        name = "warm"
        tags = SolverTags(("query-document",), "none", "none", warm_start=True)

        def __init__(self, angle=0.0, length=1.0, C=1.0):
            super().__init__(angle, length)
            self.C = C

        def tuning_space(self, data=None):
            return {"C": optuna.distributions.FloatDistribution(1e-3, 1.0, log=True)}

    monkeypatch.setitem(SOLVERS, "warm", Warm)
    solvers = Entry("warm", "warm"), Entry("angle", "cold")
    recipe = replace(RECIPE, solvers=solvers, tune=Tune(n_trials=3, path=True))
    warm, cold = run(recipe, output=tmp_path).outcomes
    assert (warm.tuning.n_trials, cold.tuning.n_trials) == (1, 3)
    assert set(warm.tuning.best_params) == {"C"}


def test_several_objectives_are_in_the_report(tmp_path):
    recipe = replace(RECIPE, tune=Tune(n_trials=4, costs=("seconds",)))
    report = run(recipe, output=tmp_path)
    assert [one.name for one in report.pareto] == ["first", "second"]
    assert report.pareto[0].objectives == ("ndcg@10", "seconds")
    assert report.pareto[0].maximise == (True, False)
    assert len(report.pareto[0].trials) == 4
    assert all(len(values) == 2 for _, values, _ in report.pareto[0].trials)


def test_each_fold_is_tuned_on_its_own_training_part(tmp_path):
    told = []

    class Watch(Observer):
        def tuning_started(self, name, part):
            told.append((name, part))
            return [Trials()]

    class Trials(TuneObserver):
        def trial_finished(self, trial):
            told.append(trial.number)

    recipe = replace(
        RECIPE, solvers=RECIPE.solvers[:1], tune=Tune(n_trials=2), compare=Compare(folds=3)
    )
    (outcome,) = run(recipe, observer=Watch(), output=tmp_path).outcomes
    assert told == [
        ("first", f"fold {k}") if i == 0 else i - 1 for k in (1, 2, 3) for i in range(3)
    ]
    assert outcome.tuning.n_trials == 6
    assert [number for number, *_ in outcome.tuning.history] == list(range(6))
    seconds = [seconds for _, seconds, _, _ in outcome.tuning.history]
    assert seconds == sorted(seconds)
    assert not (tmp_path / "best.yaml").exists()
    for fold in (1, 2, 3):
        assert len(finished_trials(tmp_path / "study.journal", f"first fold {fold}")) == 2


def test_seeds_are_tuned_once(tmp_path):
    recipe = replace(RECIPE, compare=Compare(seeds=(0, 1)), tune=Tune(n_trials=2))
    report = run(recipe, output=tmp_path)
    assert [outcome.tuning.n_trials for outcome in report.outcomes] == [2, 2]
    assert Angle.n_solved == 2 * (2 + 2)


def test_a_solver_whose_trials_all_fail_is_a_failure(tmp_path):
    recipe = replace(RECIPE, solvers=(Entry("angle", "bad", {"length": "long"}), *RECIPE.solvers))
    bad, *good = run(recipe, output=tmp_path).outcomes
    assert bad.status == "failed"
    assert bad.tuning.n_failed == 8
    assert np.isnan(bad.tuning.best_value)
    assert [outcome.status for outcome in good] == ["converged", "converged"]


def test_the_best_solver_is_that_of_tuning(tmp_path):
    report = run(replace(RECIPE, tune=Tune(n_trials=2, metric="top1_error")), output=tmp_path)
    first, second = report.outcomes
    better = replace(second, tuning=replace(second.tuning, best_value=-1.0))
    assert best_tuned([first, better]) == "second"
    assert best_tuned([replace(first, tuning=None)]) is None


# Interruptions


def test_an_interruption_keeps_what_tuning_has_reached_and_can_be_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(Angle, "interrupt_after", 8 + 1 + 6)
    report = run(RECIPE, output=tmp_path)
    assert report.interrupted
    first, second = report.outcomes
    assert (first.status, second.status) == ("converged", "stopped")
    assert second.tuning.n_trials == 6  # the one in flight is among them
    assert second.tuning.n_failed == 1
    assert "angle" in second.tuning.best_params
    monkeypatch.setattr(Angle, "interrupt_after", None)
    monkeypatch.setattr(Angle, "n_solved", 0)
    report = run(RECIPE, output=tmp_path, resume=True)
    assert Angle.n_solved == 1 + 3 + 1
    assert [outcome.status for outcome in report.outcomes] == ["converged", "converged"]
    states = [trial.state.name for trial in finished_trials(tmp_path / "study.journal", "second")]
    assert (states.count("COMPLETE"), states.count("FAIL")) == (8, 1)


def test_an_earlier_study_is_not_gone_on_with_unasked(tmp_path):
    run(RECIPE, output=tmp_path)
    for name in REPORT_FILES:
        (tmp_path / name).unlink()
    report = run(RECIPE, output=tmp_path)
    assert [outcome.status for outcome in report.outcomes] == ["failed", "failed"]
    assert "'first' exists in" in report.outcomes[0].error


PROGRAM = """
from rankplug.recipe.loader import load_recipe
from rankplug.report import REPORT_FILES
from rankplug.runner import run
del REPORT_FILES["report.html"]
run(load_recipe("demo.yaml"), output="out", resume=True, progress=False)
"""


def test_a_killed_run_resumes(tmp_path):
    """A real process, killed in the middle of a study, and another that goes on."""
    (tmp_path / "demo.yaml").write_text(
        "data: {dataset: wine}\nmetrics: [kendall_tau]\nsanity: false\n"
        "tune: {n_trials: 30, folds: 5}\nsolvers: [{solver: tree-tron}]\n"
    )
    command = [sys.executable, "-c", PROGRAM]
    journal = tmp_path / "out" / "study.journal"
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            if len(trials_so_far(journal, "tree-tron")) >= 3:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.05)
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "out" / "results.csv").exists()
    before = [trial.number for trial in finished_trials(journal, "tree-tron")]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    trials = finished_trials(journal, "tree-tron")
    assert [trial.number for trial in trials][: len(before)] == before
    states = [trial.state.name for trial in trials]
    assert states.count("RUNNING") == 0
    assert len(states) - states.count("FAIL") == 30
    assert states.count("FAIL") <= 1
    (row,) = csv.DictReader((tmp_path / "out" / "results.csv").open())
    assert row["status"] == "converged"


# The command


class Tracker(Observer):
    """Stands in for the MLflow observer."""

    registered = []

    is_complete = True

    def __init__(self, output, tracking_uri, *, spool=False):
        self.tracking_uri = tracking_uri
        self.tags = {}

    def register(self, name, model):
        self.registered.append((name, model))
        return 7


@pytest.fixture
def command(tmp_path, monkeypatch):
    """``rankplug tune`` of a recipe in the working directory, without tracking."""
    store, tracking = types.ModuleType("store"), types.ModuleType("tracking")
    store.resolve_tracking_uri = lambda folder, uri: "http://here"
    tracking.MlflowObserver = Tracker
    monkeypatch.undo()
    monkeypatch.setattr(turn, "measure", lambda model, data: {})
    monkeypatch.setitem(REPORT_FILES, "report.html", lambda report: "<!DOCTYPE html>")
    monkeypatch.setitem(sys.modules, "rankplug.mlflow", types.ModuleType("rankplug.mlflow"))
    monkeypatch.setitem(sys.modules, "rankplug.mlflow.store", store)
    monkeypatch.setitem(sys.modules, "rankplug.mlflow.tracking", tracking)
    monkeypatch.setattr(Tracker, "registered", [])
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.chdir(tmp_path)
    Path("demo.yaml").write_text(
        "data: {dataset: wine}\nmetrics: [kendall_tau]\nbaseline: strong\n"
        "solvers:\n- {solver: tree-tron, name: weak, space: {C: {low: 1e-9, high: 1e-8}}}\n"
        "- {solver: tree-tron, name: strong, space: {C: {low: 1e-3, high: 1}}}\n"
    )
    return lambda *options: cli.main(["tune", "demo.yaml", *options])


def test_the_best_parameters_are_shown_and_written(command, capsys):
    assert command("--n-trials", "2", "--output", "out dir", "--register", "wines") == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[lines.index("Tuning") :]
    (strong,) = (line.split() for line in table if line.startswith("strong"))
    assert strong[1:4] == ["2", "0", "0"]
    assert strong[-1].startswith("C=0.")
    assert "best:   rankplug run 'out dir/best.yaml'" in lines
    assert lines[-1] == "model:  models:/wines@champion, version 7: strong"
    assert Tracker.registered == [("strong", "wines")]
    assert cli.main(["run", "out dir/best.yaml", "--output", "again"]) == 0


def test_one_solver_can_be_tuned_and_resumed_in_the_latest_folder(command):
    assert command("--solver", "strong", "--n-trials", "2") == 0
    (folder,) = Path("rankplug-output").iterdir()
    assert folder.name.startswith("demo-tune-")
    rows = list(csv.DictReader((folder / "results.csv").open()))
    assert [row["name"] for row in rows] == ["strong"]
    assert command("--solver", "strong", "--n-trials", "3", "--resume") == 0
    assert len(list(Path("rankplug-output").iterdir())) == 1
    assert len(finished_trials(folder / "study.journal", "strong")) == 3


def test_without_a_budget_there_are_thirty_trials(command):
    assert command("--solver", "weak", "--output", "out") == 0
    assert len(finished_trials(Path("out/study.journal"), "weak")) == 30


def test_studies_can_be_kept_elsewhere(command):
    options = "--solver", "weak", "--n-trials", "1", "--storage", "sqlite:///studies.db"
    assert command(*options, "--output", "a") == 0
    assert not Path("a/study.journal").exists()
    assert command(*options, "--output", "b") == 1
    assert command(*options, "--output", "c", "--resume") == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--solver", "stron"], "unknown solver of the recipe 'stron'; did you mean 'strong'?"),
        (["--n-trials", "0"], "--set tune.n_trials: must be an integer >= 1, not the number 0"),
        (["--timeout", "soon"], "--set tune.timeout: must be a number > 0, not the text 'soon'"),
        (["--resume"], "resume: no folder rankplug-output/demo-tune-... has a study.journal"),
    ],
)
def test_a_mistake_is_one_message(command, capsys, options, message):
    assert command(*options) == 2
    assert message in capsys.readouterr().err
    assert [file.name for file in Path().iterdir()] == ["demo.yaml"]


def test_an_interruption_ends_with_its_status(command, capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(turn, "tune", interrupt)
    assert command("--output", "out") == 130
    assert "the run was interrupted" in capsys.readouterr().out
    assert Path("out/best.yaml").exists()
