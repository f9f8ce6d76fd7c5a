"""Studies that outlive their processes."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import optuna
import pytest

import rankplug
from rankplug.exceptions import ParameterError
from rankplug.tuning import TuneObserver, tune
from rankplug.tuning.storage import Journal, _cut_off_half_a_line, end_trial

WORKER = """
import os, sys
import numpy as np
import rankplug
from rankplug.models import LinearModel
from rankplug.solver import SolverResult
from rankplug.tuning import TuneObserver, tune
from rankplug.tuning.storage import end_trial

rng = np.random.default_rng(0)
data = rankplug.RankingData.from_arrays(
    rng.normal(size=(60, 2)), rng.integers(0, 3, 60), np.repeat(np.arange(20), 3)
)


class Direction(rankplug.Solver):
    name = "direction"
    tags = rankplug.SolverTags(tasks=("query-document",), problem="", reference="")

    def __init__(self, angle=0.0):
        self.angle = angle

    def _solve(self, data, init, monitor, rng):
        model = LinearModel([np.cos(self.angle), np.sin(self.angle)])
        return SolverResult(model, "converged", None, None, 1, 1.0)


class Log(TuneObserver):
    def __init__(self, file):
        self.file = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def trial_finished(self, trial):
        os.write(self.file, f"{trial.number} {trial.state} {trial.value}\\n".encode())


def work(storage, log, n_trials):
    tune(
        Direction(), data, metric="map", folds=2, n_trials=n_trials, sampler="random",
        space={"angle": {"low": 0, "high": 3}}, storage=storage, resume=True, progress=False,
        observer=Log(log),
    )
"""

ONE_AT_A_TIME = """
tune(Direction(), data, metric="map", n_trials=2, space={"angle": [0.0, 1.0]}, progress=False)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        work(*sys.argv[1:3], int(sys.argv[3]))
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""

FOUR_AT_ONCE = """
work("sqlite:///warm.db", "warm.txt", 1)  # imports what the processes need
children = []
for _ in range(4):
    children.append(os.fork())
    if children[-1] == 0:
        work(*sys.argv[1:3], int(sys.argv[3]))
        os._exit(0)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def ended(study):
    return {trial.number: trial for trial in study.trials if trial.state.is_finished()}


def size(file):
    return file.stat().st_size if file.exists() else 0


def load_study(storage):
    return optuna.load_study(study_name="direction", storage=storage)


@contextmanager
def forking(storage, log, n_trials):
    """A process that runs the study in a child for each line it reads."""
    command = [sys.executable, "-c", WORKER + ONE_AT_A_TIME, str(storage), str(log), str(n_trials)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def test_kill_at_any_moment(tmp_path):
    kill_at_any_moment(tmp_path, most_kills=12, n_trials=60)


def kill_at_any_moment(tmp_path, most_kills, n_trials):
    """Kill a study again and again: no trial that has ended is lost, changed or repeated."""
    journal, log = tmp_path / "study.journal", tmp_path / "log.txt"
    moments = random.Random(0)
    n_kills, before = 0, {}
    with forking(journal, log, n_trials) as process:

        def run(n_bytes):
            """Run until the journal has grown by so many; the signal that ended the child."""
            until = size(journal) + n_bytes
            process.stdin.write("\n")
            process.stdin.flush()
            child = int(process.stdout.readline())
            while size(journal) < until:
                time.sleep(0.0005)
            if n_bytes >= 0:
                time.sleep(moments.uniform(0.0, 0.004))
                os.kill(child, signal.SIGKILL)
            return os.WTERMSIG(int(process.stdout.readline()))

        while n_kills < most_kills:
            assert run(moments.uniform(0, 6000)) == signal.SIGKILL, "it ended before the kill"
            n_kills += 1
            storage = optuna.storages.JournalStorage(
                optuna.storages.journal.JournalFileBackend(str(journal))
            )
            if not storage.get_all_studies():
                continue
            now = load_study(storage).trials
            running = [trial for trial in now if trial.state.name == "RUNNING"]
            assert len(running) <= 1
            for number, trial in before.items():
                assert now[number] == trial, "what has ended stays as it is"
            before = {trial.number: trial for trial in now if trial.state.is_finished()}
        assert before
        assert run(-1) == 0
    study = load_study(storage)
    states = [trial.state.name for trial in study.trials]
    assert states.count("COMPLETE") + states.count("PRUNED") == n_trials
    assert 0 < states.count("FAIL") <= n_kills
    assert len(states) == n_trials + states.count("FAIL")
    for number, trial in before.items():
        assert study.trials[number] == trial
    told = [line.split() for line in log.read_text().splitlines()]
    assert len({number for number, *_ in told}) == len(told), "a trial ended twice"
    for number, state, value in told:
        trial = study.trials[int(number)]
        assert trial.state.name == state.upper()
        assert value == ("None" if state == "pruned" else str(trial.value))
    assert not list(tmp_path.glob("*.worker"))


def test_processes_share_a_study(tmp_path):
    url, log, n_trials = f"sqlite:///{tmp_path}/study.db", tmp_path / "log.txt", 16
    command = [sys.executable, "-c", WORKER + FOUR_AT_ONCE, url, str(log), str(n_trials)]
    subprocess.run(command, check=True, timeout=240, cwd=tmp_path)
    study = load_study(url)
    numbers = [trial.number for trial in study.trials]
    assert numbers == list(range(len(numbers)))
    done = {number for number, trial in ended(study).items() if trial.state.name != "FAIL"}
    assert len(done) == n_trials
    told = [line.split() for line in log.read_text().splitlines()]
    assert sorted(int(number) for number, *_ in told) == sorted(done)
    workers = {
        trial.user_attrs["rankplug.worker"] for trial in study.trials if trial.number in done
    }
    assert len(workers) > 1
    angles = [study.trials[number].params["angle"] for number in done]
    assert len(set(angles)) == n_trials, "two processes drew the same"
    assert not list(tmp_path.glob("*.worker"))


SLOW_AND_QUICK = """
import time

def work_slowly(own, seconds):
    class Slow(Log):
        def step(self, number, step):
            os.close(os.open("begun", os.O_CREAT))
            time.sleep(seconds)

    while seconds == 0 and not os.path.exists("begun"):
        time.sleep(0.01)
    result = tune(
        Direction(), data, metric="map", folds=2, n_trials=n_trials, sampler="random",
        space={"angle": {"low": 0, "high": 3}}, storage=storage, resume=True, progress=False,
        observer=Slow(log), pruner=None,
    )
    with open(f"result{own}.txt", "w") as file:
        print(result.best.number, *sorted(trial.state for trial in result.trials), file=file)

storage, log, n_trials = sys.argv[1], sys.argv[2], int(sys.argv[3])
work(storage, log, 1)  # imports what the processes need
children = []
for own, seconds in enumerate((0.0, 0.0, 3.0 if len(sys.argv) > 4 else 0.6)):
    children.append(os.fork())
    if children[-1] == 0:
        work_slowly(own, seconds)
        os._exit(0)
if len(sys.argv) > 4:
    while not os.path.exists("begun"):
        time.sleep(0.01)
    time.sleep(1.0)
    os.kill(children.pop(), 9)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


@pytest.mark.parametrize(
    ("killed", "kind"),
    [
        (True, "journal"),
        (False, "sqlite"),
        pytest.param(True, "sqlite", marks=pytest.mark.long),
        pytest.param(False, "journal", marks=pytest.mark.long),
    ],
)
def test_processes_end_with_the_same_best_trial(tmp_path, kind, killed):
    storage = {"journal": "study.journal", "sqlite": "sqlite:///study.db"}[kind]
    n_trials = 9
    command = [sys.executable, "-c", WORKER + SLOW_AND_QUICK, storage, "log.txt", str(n_trials)]
    subprocess.run(command + ["kill"] * killed, check=True, timeout=240, cwd=tmp_path)
    results = [file.read_text().split() for file in sorted(tmp_path.glob("result*.txt"))]
    assert len(results) == 3 - killed
    assert all(result == results[0] for result in results)
    states = results[0][1:]
    assert states.count("complete") == n_trials
    assert states.count("killed") == len(states) - n_trials == killed
    assert not list(tmp_path.glob("*.worker"))


@pytest.mark.parametrize("state", ["COMPLETE", "FAIL", "PRUNED"])
def test_a_trial_that_another_process_ends_at_this_moment(state):
    class Raced(optuna.storages.InMemoryStorage):
        def set_trial_state_values(self, trial_id, state, values=None):
            if state.is_finished():
                super().set_trial_state_values(trial_id, optuna.trial.TrialState.FAIL)
            return super().set_trial_state_values(trial_id, state, values)

    study = optuna.create_study(storage=Raced())
    state = optuna.trial.TrialState[state]
    values = [1.0] if state.name == "COMPLETE" else None
    by_number, by_trial = study.ask().number, study.ask()
    for trial in (by_number, by_trial):
        assert end_trial(study, trial, values, state).state.name == "FAIL"
        assert end_trial(study, trial, values, state).state.name == "FAIL"


def ranking_data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 3))
    return rankplug.RankingData.from_arrays(X, rng.integers(0, 3, 120), np.repeat(np.arange(24), 5))


DATA = ranking_data()


def quick(storage, solver="tree-tron", data=DATA, **options):
    defaults = {"n_trials": 3, "folds": 2, "progress": False, "storage": storage}
    return tune(solver, data, **{**defaults, **options})


@pytest.mark.parametrize("kind", ["folder", "journal", "sqlite", "object"])
def test_a_study_goes_on(tmp_path, kind):
    storage = {
        "folder": tmp_path / "new" / "folder",
        "journal": tmp_path / "my.journal",
        "sqlite": f"sqlite:///{tmp_path}/new/study.db",
        "object": optuna.storages.InMemoryStorage(),
    }[kind]
    first = quick(storage)
    with pytest.raises(ParameterError, match=r"'tree-tron' exists in .* resume=True"):
        quick(storage)
    more = quick(storage, resume=True, n_trials=5)
    assert more.trials[:3] == first.trials
    assert len(more.trials) == 5
    assert quick(storage, resume=True, n_trials=5).trials == more.trials
    whole = quick(None, n_trials=5)
    assert [trial.params for trial in whole.trials] == [trial.params for trial in more.trials]


def test_studies_of_several_solvers_share_a_storage(tmp_path):
    quick(tmp_path)
    quick(tmp_path, "cutting-plane")
    quick(tmp_path, study_name="again")
    assert (tmp_path / "study.journal").is_file()
    for name in ("tree-tron", "cutting-plane"):
        assert quick(tmp_path, name, resume=True).best_solver.name == name


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"metric": "map"}, "metric was 'ndcg@10' and is 'map'"),
        ({"folds": 3}, "folds was 2 and is 3"),
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"scale": "maxabs"}, "scale was 'none' and is 'maxabs'"),
        ({"data": ranking_data(1)}, "data was"),
        ({"space": {"C": [1.0, 2.0]}}, r"space was None and is \{'C': \[1.0, 2.0\]\}"),
        ({"path": True}, "path was False and is True"),
        ({"solver": rankplug.make_solver("tree-tron", tol=1e-5)}, "params was"),
    ],
)
def test_a_study_goes_on_with_the_same_setup_only(tmp_path, changed, message):
    quick(tmp_path)
    with pytest.raises(ParameterError, match=message):
        quick(tmp_path, resume=True, **changed)


def test_what_does_not_change_results_may_change(tmp_path):
    quick(tmp_path)
    solver = rankplug.make_solver("tree-tron", n_threads=2)
    result = quick(tmp_path, solver, resume=True, n_trials=4, sampler="random", pruner=None)
    assert len(result.trials) == 4


def test_half_a_line_at_the_end_of_the_journal(tmp_path):
    quick(tmp_path)
    with open(tmp_path / "study.journal", "ab") as journal:
        journal.write(b'{"op_code": 5, "wor')
    assert len(quick(tmp_path, resume=True, n_trials=4).trials) == 4


def test_trials_of_living_processes_are_left_alone(tmp_path):
    class Second(TuneObserver):
        """Works on the same study while the first trial of another process is running."""

        def step(self, number, step):
            if number == 0 and step.fold == 0:
                self.result = quick(tmp_path, resume=True, n_trials=2)

    second = Second()
    result = quick(tmp_path, observer=second)
    assert [trial.state for trial in second.result.trials] == ["running", "complete"]
    assert [trial.state for trial in result.trials] == ["complete"] * 3


def test_a_trial_without_worker_was_killed_right_after_it_began(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    quick(url, n_trials=1)
    optuna.load_study(study_name="tree-tron", storage=url).ask()
    result = quick(url, resume=True)
    assert [trial.state for trial in result.trials] == [
        "complete",
        "killed",
        "complete",
        "complete",
    ]


def test_grid_points_of_killed_trials_are_tried_again(tmp_path):
    class Killed(TuneObserver):
        def step(self, number, step):
            if number == 1:
                raise KeyboardInterrupt

    options = {
        "sampler": "grid",
        "n_trials": None,
        "space": {"C": [0.1, 1.0, 10.0]},
        "pruner": None,
    }
    with pytest.raises(KeyboardInterrupt):
        quick(tmp_path, observer=Killed(), **options)
    result = quick(tmp_path, resume=True, **options)
    complete = [trial.params["C"] for trial in result.trials if trial.state == "complete"]
    assert sorted(complete) == [0.1, 1.0, 10.0]
    assert len(result.trials) == 4


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize("place", [1, 4, 8, 11])
def test_a_signal_while_a_journal_is_locked_leaves_it_open(place, tmp_path, monkeypatch):
    """What is written last of an interrupted study would wait for its own lock for ever."""
    locked = []

    def interrupt(journal):
        _cut_off_half_a_line(journal)
        locked.append(journal)
        if len(locked) == place:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("rankplug.tuning.storage._cut_off_half_a_line", interrupt)
    with pytest.raises(KeyboardInterrupt) as raised:
        quick(tmp_path)
    result = quick(tmp_path, resume=True)  # while the traceback keeps all that was open
    assert [one.state for one in result.trials].count("complete") == 3, raised


def test_a_trial_syncs_its_journal_twice(tmp_path, monkeypatch):
    """When it begins and when it ends: a disk takes milliseconds for it, whatever is written."""
    synced, counts = [], []
    monkeypatch.setattr(os, "fsync", synced.append)
    ended = lambda *_: counts.append(len(synced))  # noqa: E731
    result = quick(tmp_path, folds=5, pruner=None, callbacks=ended)
    assert np.diff(counts).tolist() == [2, 2]
    frozen = result.study.get_trials()[2]
    assert list(frozen.intermediate_values) == [0, 1, 2, 3, 4]
    assert frozen.user_attrs["rankplug.worker"]


def test_records_held_back_are_read_behind_those_of_others(tmp_path):
    one, other = (Journal(tmp_path / "study.journal") for _ in range(2))
    other.append_logs([{"n": 0}])
    with one.together():
        one.append_logs([{"n": (1,)}])
        assert list(one.read_logs(0)) == [{"n": 0}, {"n": [1]}]
        assert list(one.read_logs(1)) == [{"n": [1]}]
        assert list(other.read_logs(0)) == [{"n": 0}]
    other.append_logs([{"n": 2}])
    for journal in (one, other):
        assert [list(journal.read_logs(start)) for start in (2, 3)] == [[{"n": 2}], []]
        assert len(list(journal.read_logs(0))) == 3


def test_a_journal_that_could_not_be_written_is_not_gone_on_with(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "study.journal")

    def write():
        with journal.together():
            journal.append_logs([{"n": 0}])

    def fail(_):
        raise OSError("no space")

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="no space"):
            write()
    for call in (lambda: journal.append_logs([{}]), lambda: list(journal.read_logs(0))):
        with pytest.raises(OSError, match="no space"):
            call()


def test_passwords_are_not_shown():
    with pytest.raises(ParameterError, match=r"nosuchdb://me:\*\*\*@host/x cannot be opened"):
        quick("nosuchdb://me:secret@host/x")
