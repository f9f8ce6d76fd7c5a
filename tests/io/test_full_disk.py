"""No room to write: a clear error, nothing half-written, and earlier results as they were."""

import errno
import os
import resource
import shutil
import signal
from contextlib import contextmanager

import numpy as np
import pytest

import rankplug
from rankplug import cli
from rankplug.exceptions import TuningError
from rankplug.io.files import replacing
from rankplug.models import LinearModel, load_model
from rankplug.tuning import tune


@contextmanager
def files_of_at_most(n_bytes):
    """The system refuses larger files to this process, whoever it is, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def content(folder):
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz", "table.csv.xz"])
def test_an_earlier_file_stays(tmp_path, name):
    (tmp_path / name).write_bytes(b"before")

    def write():
        with replacing(tmp_path / name) as stream:
            stream.write(np.random.default_rng(0).bytes(100_000))

    with files_of_at_most(10_000), pytest.raises(OSError, match=name) as caught:
        write()
    assert caught.value.errno == errno.EFBIG
    assert content(tmp_path) == {name: b"before"}


def test_a_model_is_not_half_saved(tmp_path):
    LinearModel(np.ones(10)).save(tmp_path / "old")
    before = content(tmp_path)
    with files_of_at_most(10_000), pytest.raises(OSError, match=r"File too large: .* '.*new'"):
        LinearModel(np.random.default_rng(0).normal(size=100_000)).save(tmp_path / "new")
    assert content(tmp_path) == before
    assert os.listdir(tmp_path) == ["old"]
    assert load_model(tmp_path / "old").n_features == 10


@pytest.mark.parametrize("solver", ["xgboost-pairwise", "lightgbm-lambdarank", "pointwise"])
@pytest.mark.parametrize("n_bytes", [0, 100, 1500])
def test_trees_are_not_half_saved(tmp_path, solver, n_bytes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 5)), rng.integers(0, 2, 60)
    data = rankplug.RankingData.from_arrays(X, y, np.repeat(np.arange(6), 10))
    forest = {"regressor": "random-forest"} if solver == "pointwise" else {}
    chosen = rankplug.make_solver(solver, n_estimators=5, n_threads=1, **forest)
    model = chosen.solve(data, random_state=0).model
    with files_of_at_most(n_bytes), pytest.raises(OSError, match=r"cannot be written to: .*new"):
        model.save(tmp_path / "new")
    assert os.listdir(tmp_path) == []


def test_a_file_in_the_way_of_a_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="file"):
        LinearModel([1.0]).save(tmp_path / "file" / "model")
    with pytest.raises(FileExistsError, match="exists already"):
        LinearModel([1.0]).save(tmp_path / "file")
    assert content(tmp_path) == {"file": b"mine"}


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_a_study_keeps_its_trials_and_goes_on(tmp_path, kind):
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(60, 3)), rng.integers(0, 3, 60), np.repeat(np.arange(12), 5)
    data = rankplug.RankingData.from_arrays(X, y, qid)
    file = tmp_path / f"study.{'journal' if kind == 'journal' else 'db'}"
    storage = file if kind == "journal" else f"sqlite:///{file}"
    options = {"folds": 2, "progress": False, "storage": storage, "resume": True}
    first = tune("tree-tron", data, n_trials=2, **options)
    with (
        files_of_at_most(file.stat().st_size + 2000),
        pytest.raises(TuningError, match=r"cannot be written .* go on by resume=True"),
    ):
        tune("tree-tron", data, n_trials=200, **options)
    more = tune("tree-tron", data, n_trials=8, **options)
    assert more.trials[:2] == first.trials
    assert more.counts["complete"] + more.counts.get("pruned", 0) == 8


def test_the_command_says_so_in_one_line(tmp_path, capsys):
    LinearModel(np.ones(2)).save(tmp_path / "model")
    rows = "".join(f"{i % 3} qid:{i // 10} 1:{i * 0.7} 2:{i * 0.3}\n" for i in range(5000))
    (tmp_path / "test.txt").write_text(rows)
    (tmp_path / "scores.csv").write_text("before")
    arguments = [
        "predict",
        tmp_path / "model",
        tmp_path / "test.txt",
        "-o",
        tmp_path / "scores.csv",
    ]
    with files_of_at_most(10_000):
        status = cli.main(list(map(str, arguments)))
    assert status == 1
    _, err = capsys.readouterr()
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "scores.csv" in err
    assert (tmp_path / "scores.csv").read_text() == "before"
    shutil.rmtree(tmp_path / "model")
    assert sorted(os.listdir(tmp_path)) == ["scores.csv", "test.txt"]
