"""MLflow's database: whole after any number of first commands, and after any that was killed."""

import os
import shutil
import signal
import sqlite3
import stat
import tempfile
import time

import pytest
from mlflow import MlflowClient

from rankplug import cli
from rankplug.mlflow import database
from tests.forks import COMMAND, Fork

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")

RECIPE = """\
name: small
data: {dataset: digits-retrieval}
metrics: [ndcg@10]
sanity: false
solvers:
  - {solver: tree-tron, params: {C: 0.01}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    (tmp_path / "small.yaml").write_text(RECIPE)
    return tmp_path


def start(*arguments):
    return Fork(COMMAND, *arguments, merge=True)


def parents(database):
    """The runs of recipes in a database, which are whole."""
    client = MlflowClient(tracking_uri=f"sqlite:///{database}")
    experiment = client.get_experiment_by_name("rankplug")
    runs = client.search_runs([experiment.experiment_id], "attributes.status = 'FINISHED'")
    return [run for run in runs if "mlflow.parentRunId" not in run.data.tags]


def test_two_first_commands_at_once(folder):
    both = [start("run", "small.yaml", "--quiet") for _ in range(2)]
    told = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], "\n".join(told)
    assert len(parents(folder / "rankplug-output" / "mlflow.db")) == 2
    assert len(list(folder.glob("rankplug-output/small-*/report.html"))) == 2
    assert not list(folder.glob("rankplug-output/.*"))


def test_two_runs_into_one_folder(folder):
    both = [start("run", "small.yaml", "--quiet", "--output", "o") for _ in range(2)]
    told = [process.communicate(timeout=300)[0] for process in both]
    assert sorted(process.returncode for process in both) == [0, 2], "\n".join(told)
    refused = told[[process.returncode for process in both].index(2)]
    assert "another run is at work in o: wait for it" in refused or "holds the report" in refused
    assert len(parents(folder / "o" / "mlflow.db")) == 1


def kill_when(process, begun, seconds):
    """Kill a process so long after something has begun."""
    for _ in range(1200):
        if begun() or process.poll() is not None:
            break
        time.sleep(0.05)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()


REPEATS = [pytest.param(seconds, marks=pytest.mark.long) for seconds in (0.0, 0.7, 1.5)]


@pytest.mark.parametrize("seconds", [0.4, *REPEATS])
def test_a_command_that_is_killed_in_its_first_seconds(seconds, folder):
    output = folder / "o"
    first = start("run", "small.yaml", "--quiet", "--output", "o")
    kill_when(first, lambda: output.is_dir() and any(output.iterdir()), seconds)
    again = start("run", "small.yaml", "--quiet", "--output", "o", "--resume")
    told = again.communicate(timeout=300)[0]
    assert again.returncode == 0, told
    assert len(parents(output / "mlflow.db")) >= 1


MLFLOW = "import sys, mlflow; mlflow.MlflowClient(tracking_uri=sys.argv[1]).search_experiments()"


@pytest.mark.parametrize("seconds", [0.4, *REPEATS])
def test_what_mlflow_left_half_made_is_made_again(seconds, folder):
    file = folder / "o" / "mlflow.db"
    file.parent.mkdir()
    process = Fork(MLFLOW, f"sqlite:///{file}", merge=True)
    kill_when(process, lambda: file.exists() and file.stat().st_size, seconds)
    assert cli.main(["run", "small.yaml", "--quiet", "--output", "o"]) == 0
    assert len(parents(file)) == 1


def test_a_half_migrated_database_with_runs_is_left_alone_and_named(folder, empty_store, capsys):
    (folder / "o").mkdir()
    file = shutil.copy(empty_store, folder / "o" / "mlflow.db")
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE _alembic_tmp_runs (run_uuid TEXT)")
    database.close()
    before = file.read_bytes()
    assert cli.main(["run", "small.yaml", "--quiet", "--output", "o"]) == 2
    message = capsys.readouterr().err
    assert "mlflow.db is half migrated: a process that changed its tables was killed" in message
    assert "start the server" not in message
    assert file.read_bytes() == before


def test_the_tables_of_another_program_are_left_alone(folder):
    (folder / "o").mkdir()
    with sqlite3.connect(folder / "o" / "mlflow.db") as database:
        database.execute("CREATE TABLE notes (text TEXT)")
    database.close()
    assert cli.main(["run", "small.yaml", "--quiet", "--output", "o"]) == 0
    with sqlite3.connect(folder / "o" / "mlflow.db") as database:
        assert database.execute("SELECT count(*) FROM notes").fetchone() == (0,)
    database.close()


def test_locks_lie_in_a_folder_of_the_users_own(folder, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    locks = folder / f"rankplug-{os.getuid()}"
    locks.symlink_to(folder / "elsewhere")
    assert cli.main(["run", "small.yaml", "--quiet", "--output", "o"]) == 2
    assert f"{locks} is not a folder of yours: remove it" in capsys.readouterr().err
    assert not (folder / "elsewhere").exists()
    locks.unlink()
    database.ensure_database(f"sqlite:///{folder}/mlflow.db")
    assert stat.S_IMODE(locks.stat().st_mode) == 0o700
    assert [file.suffix for file in locks.iterdir()] == [".lock"]
