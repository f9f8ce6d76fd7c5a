"""Ctrl-C whose exception Python drops, as in the callback of a weak reference."""

import json
import os
import signal
import weakref

import numpy as np
import pytest

import rankplug
from rankplug.cli.shared import Signals
from rankplug.models import LinearModel
from rankplug.system.interruption import ending_loop, interrupted
from rankplug.tuning import TuneObserver, tune
from tests.forks import Fork
from tests.processes import SMALL

HANG = 120  # seconds that no test needs


class Thing:
    """Something that weak references may refer to."""


def lose(number):
    """Send this process a signal whose exception is lost."""
    thing = Thing()
    _ = weakref.ref(thing, lambda _: signal.raise_signal(number))
    del thing


lost = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
both = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


class Counting(rankplug.Solver):
    """Loses a signal in its first training, and counts its trainings."""

    name = "counting"
    tags = rankplug.SolverTags(tasks=("query-document",), problem="", reference="")
    trained = 0

    def __init__(self, C=1.0, asks=False):
        self.C = C
        self.asks = asks

    def _solve(self, data, init, monitor, rng):
        type(self).trained += 1
        if type(self).trained == 1:
            lose(signal.SIGINT)
        if self.asks:
            interrupted()
            type(self).trained += 100  # not to be reached
        return rankplug.SolverResult(
            LinearModel(np.ones(data.n_features)), "converged", None, None, 1, 1.0
        )


@pytest.fixture
def counting(monkeypatch):
    monkeypatch.setattr(Counting, "trained", 0)
    return Counting


def ranking_data():
    rng = np.random.default_rng(0)
    return rankplug.RankingData.from_arrays(
        rng.normal(size=(60, 3)), rng.integers(0, 3, 60), np.repeat(np.arange(12), 5)
    )


@lost
@both
def test_a_command_ends_though_it_was_lost(number, capfd):
    signals = Signals()
    with pytest.raises(KeyboardInterrupt), signals.handled():
        lose(number)
    assert signals.came == number
    assert capfd.readouterr().err.count("interrupted: ending the command") == 1


@lost
def test_a_solver_that_asks_within_a_loop_ends(counting):
    with pytest.raises(KeyboardInterrupt), ending_loop():
        counting(asks=True).solve(ranking_data())
    assert counting.trained == 1


@lost
@pytest.mark.parametrize(("n_jobs", "trained"), [(1, 0), (1, 1), (2, 1)])
def test_tuning_ends(counting, n_jobs, trained):
    class Lose(TuneObserver):
        """In the main thread, the only one that handles signals."""

        def study_started(self, info, earlier):
            if trained:
                lose(signal.SIGINT)

    counting.trained = trained
    with pytest.raises(KeyboardInterrupt):
        tune(
            counting(),
            ranking_data(),
            space={"C": [1.0, 2.0]},
            n_trials=50,
            folds=2,
            n_jobs=n_jobs,
            observer=Lose(),
            progress=False,
        )
    assert counting.trained == 1


@lost
def test_a_signal_lost_before_a_solver_has_a_model_ends_the_program(counting):
    with pytest.raises(KeyboardInterrupt):
        counting(asks=True).solve(ranking_data())
    assert counting.trained == 1


COMMAND = """
import json, signal, sys, weakref
from rankplug.cli import main
from rankplug.solver import Monitor

class Thing: pass

report, counted = Monitor.report, []

def reporting(self, n_iter, **values):
    counted.append(n_iter)
    if len(counted) == 2:
        thing = Thing()
        reference = weakref.ref(thing, lambda _: signal.raise_signal(int(sys.argv[1])))
        del thing
    return report(self, n_iter, **values)

Monitor.report = reporting
status = main(sys.argv[2:])
print(json.dumps(len(counted)))
sys.exit(status)
"""

FILES = """
import json, signal, sys, weakref
from rankplug.cli import main
from rankplug.io.prepared.npy import Bar

class Thing: pass

move_to, counted = Bar.move_to, []

def moving(self, *arguments, **options):
    counted.append(arguments)
    if len(counted) == 1:
        thing = Thing()
        reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
        del thing
    return move_to(self, *arguments, **options)

Bar.move_to = moving
status = main(sys.argv[1:])
print(json.dumps(len(counted)))
sys.exit(status)
"""

RECIPE = (
    SMALL
    + """\
solvers:
  - solver: tree-tron
    params: {tol: 1e-300, max_iter: 1000000}
  - solver: cutting-plane
    params: {tol: 1e-300, max_iter: 1000000}
"""
)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_command_does_not_train_on(tmp_path, number, status, empty_store):
    (tmp_path / "small.yaml").write_text(RECIPE)
    (tmp_path / "mlflow.db").write_bytes(empty_store.read_bytes())
    environment = {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db"}
    arguments = ["run", "small.yaml", "--output", "out"]
    number = str(int(number))
    ended = Fork(COMMAND, number, *arguments, cwd=tmp_path, env=environment).result(HANG)
    assert ended.returncode == status, ended.stderr
    assert "interrupted: ending the command" in ended.stderr
    assert "interrupted by the user" in ended.stdout
    assert json.loads(ended.stdout.splitlines()[-1]) <= 3


def test_preparing_files_ends(tmp_path):
    (tmp_path / "rows.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.25\n" * 50)
    arguments = ["prepare", "rows.txt", "-o", "prepared"]
    ended = Fork(FILES, *arguments, cwd=tmp_path).result(HANG)
    assert ended.returncode == 130, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == 1
    assert not (tmp_path / "prepared").exists()
