"""Runs whose tracking server does not answer: nothing is lost, and nothing is logged twice."""

import json
import shutil
import signal
import socket
import time

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from tracking_servers import Server, contents, lose, run_command, start_command, versions

from rankplug.cli import main
from rankplug.mlflow.database import TrackingError
from rankplug.mlflow.spool import Spool, Where
from rankplug.mlflow.spooling import SpoolingClient
from rankplug.mlflow.steps import Delivery
from rankplug.mlflow.tracking import MlflowObserver

HANG = 300  # seconds that no test needs, on a machine that is busy
TUNE = ["tune", "small.yaml", "--quiet", "--output"]


@pytest.fixture(scope="module")
def server(tmp_path_factory, empty_store):
    server = Server(tmp_path_factory.mktemp("server"), empty_store).start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def undisturbed(server, tmp_path_factory):
    """What the server holds after a command that nothing disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    arguments = [*TUNE, "out", "--tracking-uri", server.uri, "--register", "undisturbed"]
    done = run_command(folder, *arguments, MLFLOW_EXPERIMENT_NAME="undisturbed")
    assert done.returncode == 0, done.stderr
    assert not (folder / "out" / "mlflow-unsent").exists()
    assert versions(server.uri, "undisturbed") == (1, "1")
    return contents(server.uri, "undisturbed")


def test_a_server_that_never_answers_costs_seconds_and_no_results(server, undisturbed, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        arguments = [*TUNE, "out", "--tracking-uri", uri, "--register", "silent"]
        process = start_command(
            tmp_path, *arguments, MLFLOW_EXPERIMENT_NAME="silent", MLFLOW_HTTP_REQUEST_TIMEOUT="3"
        )
        connection, _ = silent.accept()
        asked = time.monotonic()
        line = process.stderr.readline()
        waited = time.monotonic() - asked
        out, told = process.communicate(timeout=HANG)
        connection.close()
    assert "has not answered for 5 seconds; waiting for it" in line
    assert 2 < waited < 20
    assert process.returncode == 3, told
    assert f"the tracking server at {uri} does not answer (read timed out)" in told
    assert "rankplug track out' sends them when the server answers" in told
    assert "models:/silent@champion, when 'rankplug track' has sent it" in out
    assert (tmp_path / "out" / "report.md").is_file()
    assert (tmp_path / "out" / "best.yaml").is_file()
    sent = run_command(tmp_path, "track", "out", "--tracking-uri", server.uri)
    assert sent.returncode == 0, sent.stderr
    assert sent.stdout.startswith(f"sent to {server.uri}: ")
    assert contents(server.uri, "silent") == undisturbed
    assert versions(server.uri, "silent") == (1, "1")
    assert not (tmp_path / "out" / "mlflow-unsent").exists()
    again = run_command(tmp_path, "track", "out", "--tracking-uri", server.uri)
    assert again.returncode == 0
    assert again.stdout.startswith("nothing to send")
    assert contents(server.uri, "silent") == undisturbed


@pytest.mark.parametrize("n_good", [11, pytest.param(50, marks=pytest.mark.long)])
def test_an_answer_that_is_lost_and_a_spool_that_is_half_sent(
    n_good, server, undisturbed, tmp_path
):
    assert lose(server, tmp_path, n_good) == 3
    assert contents(server.uri, f"lost-{n_good}") == undisturbed
    assert versions(server.uri, f"lost-{n_good}") == (1, "1")


def test_a_server_that_is_killed_in_the_middle_and_started_again(
    undisturbed, tmp_path, empty_store
):
    server = Server(tmp_path, empty_store).start()
    try:
        # It is back while the command runs.
        arguments = [*TUNE, "back", "--tracking-uri", server.uri]
        events = f"{{80: [('kill', {server.process.pid})], 200: [('wait_for', 'is-back')]}}"
        process = start_command(tmp_path, *arguments, events=events, MLFLOW_EXPERIMENT_NAME="back")
        server.process.wait(timeout=HANG)
        server.start()
        (tmp_path / "is-back").touch()
        _, told = process.communicate(timeout=HANG)
        assert process.returncode == 0, told
        assert "does not answer (connection refused); what is logged is kept in back" in told
        assert "answers again: what was kept is sent" in told
        assert not (tmp_path / "back" / "mlflow-unsent").exists()
        assert contents(server.uri, "back") == undisturbed
        # The command is killed after it, and the next one sends what both have to say.
        arguments = [*TUNE, "both", "--tracking-uri", server.uri, "--resume"]
        events = f"{{80: [('kill', {server.process.pid})], 230: [('die',)]}}"
        done = run_command(tmp_path, *arguments, events=events, MLFLOW_EXPERIMENT_NAME="both")
        assert done.returncode == -signal.SIGKILL
        server.process.wait(timeout=HANG)
        refused = run_command(tmp_path, "track", "both")
        assert refused.returncode == 3
        assert "calls are left: connection refused" in refused.stderr
        server.start()
        done = run_command(tmp_path, *arguments, MLFLOW_EXPERIMENT_NAME="both")
        assert done.returncode == 0, done.stderr
        assert "calls that an earlier command for both kept are sent" in done.stderr
        runs, _ = contents(server.uri, "both")
        assert "RUNNING" not in {status for _, status, *_ in runs}
        names = [path[-1] for path, *_ in runs]
        assert names.count("trial 0") == names.count("trial 1") == 2, "one for each solver"
    finally:
        server.kill()


def test_a_database_that_cannot_be_written_to_any_more(tmp_path, empty_store):
    (tmp_path / "mlflow.db").write_bytes(empty_store.read_bytes())
    command = ["run", "small.yaml", "--output", "out", "--quiet"]
    done = run_command(
        tmp_path,
        *command,
        "--tracking-uri",
        f"sqlite:///{tmp_path}/mlflow.db",
        events="{80: [('spoil', 'mlflow.db')]}",
    )
    assert done.returncode == 3, done.stderr
    assert "is incomplete" in done.stderr
    assert (tmp_path / "out" / "report.md").is_file()


@pytest.fixture
def kept(tmp_path):
    """An output folder with a step that was not sent."""
    spool = tmp_path / "out" / "mlflow-unsent" / "one"
    spool.mkdir(parents=True)
    where = {"tracking_uri": "http://127.0.0.1:9", "experiment_id": None}
    where |= {"experiment_name": None, "run_id": None}
    (spool / "where.json").write_text(json.dumps(where))
    (spool / "progress.json").write_text('{"sent": 0, "ids": {}, "left": [], "refused": {}}')
    step = {"call": "log_file", "run": "a", "file": "x", "copy_": "0" * 32}
    (spool / "steps.jsonl").write_text(json.dumps(step) + "\n")
    return spool


def test_what_is_kept_may_come_from_strangers(kept, server, capsys):
    output = str(kept.parents[1])
    command = ["track", output, "--tracking-uri", server.uri]
    good = (kept / "steps.jsonl").read_text()
    for old, new, message in [
        ('"x"', '"../../../../../etc/passwd"', "log_file.file: String should match"),
        ('"x"', '"/etc/passwd"', "log_file.file: String should match"),
        ("0" * 32, "../" * 10 + "00", "log_file.copy_: String should match"),
        ("log_file", "system", "Input tag 'system' found"),
        ('"run"', '"runs"', "log_file.run: Field required"),
        ("{", "[", "line 1: "),
    ]:
        (kept / "steps.jsonl").write_text(good.replace(old, new, 1))
        assert main(command) == 3
        assert message in capsys.readouterr().err
    (kept / "steps.jsonl").write_text(good)
    (kept / ("0" * 32)).symlink_to("/etc")
    assert main(command) == 3
    assert "is a link, which is not followed: remove it" in capsys.readouterr().err
    (kept / ("0" * 32)).unlink()
    (kept / "steps.jsonl").write_text(good[:-1])  # killed as it was written
    assert main(command) == 0
    assert not kept.parent.exists()


def test_a_link_in_place_of_the_folder_of_spools_is_not_followed(tmp_path, capsys):
    strangers = tmp_path / "strangers"
    for name in ("photos", "letters"):
        (strangers / name).mkdir(parents=True)
        (strangers / name / "progress.json").write_text("mine")
    before = sorted(strangers.rglob("*"))
    output = tmp_path / "out"
    output.mkdir()
    (output / "mlflow-unsent").symlink_to(strangers)
    assert main(["track", str(output)]) == 3
    told = capsys.readouterr()
    assert f"{output / 'mlflow-unsent'} is a link, which is not followed: remove it" in told.err
    assert sorted(strangers.rglob("*")) == before
    where = Where(tracking_uri="http://x", experiment_id=None, experiment_name=None, run_id=None)
    with pytest.raises(TrackingError, match="is a link, which is not followed"):
        Spool.create(output, where, Delivery(None))
    assert sorted(strangers.rglob("*")) == before


def test_of_a_spool_that_was_killed_as_it_was_made_only_its_own_files_go(tmp_path, capsys):
    spools = tmp_path / "out" / "mlflow-unsent"
    half, others = spools / "half", spools / "others"
    for folder in (half, others):
        folder.mkdir(parents=True)
        (folder / "progress.json").write_text("{}")
    (half / f".where.json.{'0' * 32}.tmp").write_text('{"tracking_uri"')
    (others / "diary").mkdir()
    (others / "diary" / "today.txt").write_text("dear diary")
    assert main(["track", str(tmp_path / "out")]) == 3
    assert f"{others} lacks the file where.json" in capsys.readouterr().err
    assert not half.exists()
    assert (others / "progress.json").read_text() == "{}"
    assert (others / "diary" / "today.txt").read_text() == "dear diary"
    shutil.rmtree(others)
    assert main(["track", str(tmp_path / "out")]) == 0
    assert not spools.exists()


def test_what_is_refused_is_not_lost(kept, server, capsys):
    output = str(kept.parents[1])
    step = {"call": "log_batch", "run": "a", "tags": {"b": "c"}}
    (kept / "steps.jsonl").write_text(json.dumps(step) + "\n")
    for _ in range(2):
        assert main(["track", output, "--tracking-uri", server.uri]) == 3
        told = capsys.readouterr()
        assert f"error: refused by {server.uri}: log_batch: RESOURCE_DOES_NOT_EXIST" in told.err
        assert "what is refused stays in" in told.err
        assert kept.exists()
    (kept / "steps.jsonl").write_text(
        '{"call": "create_run", "run": "a", "experiment": "unsent-experiment", "name": "late", '
        '"start_time": 1, "tags": {}}\n' + json.dumps(step) + "\n"
    )
    database = f"sqlite:///{kept.parents[1]}/mlflow.db"  # of one's own, in place of the server
    assert main(["track", output, "--tracking-uri", database]) == 0
    assert not kept.parent.exists()
    runs, _ = contents(database, "rankplug")
    assert [(path, status) for path, status, *_ in runs] == [(("late",), "KILLED")]


def test_a_place_that_cannot_be_used_is_said_and_nothing_is_lost(kept, tmp_path, capsys):
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    (tmp_path / "text.db").write_text("no database, though it is called so\n" * 99)
    for uri, message in [
        (f"sqlite:///{tmp_path}/text.db", "file is not a database"),
        ("nonsense://x", "nonsense"),
        (f"sqlite:///{tmp_path}/text.db/mlflow.db", "File exists"),
    ]:
        assert main(["track", str(tmp_path / "out"), "--tracking-uri", uri]) == 3
        told = capsys.readouterr()
        assert told.err.startswith("error: 1 calls are left: ")
        assert message in told.err
        assert "Traceback" not in told.err
        assert {path.name: path.read_bytes() for path in kept.iterdir()} == before


def test_a_folder_that_is_none(tmp_path, capsys):
    assert main(["track", str(tmp_path / "none")]) == 2
    assert "no such folder: name the output folder of a command" in capsys.readouterr().err


def test_every_refusal_is_told_and_the_last_warning_says_why(tmp_path, empty_store, monkeypatch):
    told, refuse = [], {"a"}
    uri = f"sqlite:///{shutil.copy(empty_store, tmp_path / 'mlflow.db')}"
    client = SpoolingClient(uri, tmp_path, told.append)
    run = client.create_run("0").info.run_id
    log_batch = MlflowClient.log_batch
    observer = MlflowObserver(tmp_path, uri)
    observer._spooling = client

    def silent(*_, **__):
        raise ConnectionError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "search_experiments", silent)
        client.fall(ConnectionError("gone"))
        client.set_tag(run, "c", "1")
        with pytest.warns(RuntimeWarning, match="1 calls are kept in .*: 'rankplug track"):
            observer._finish()  # nothing is refused

    def picky(self, run_id, metrics=(), params=(), tags=(), **kwargs):
        for tag in tags:
            if tag.key in refuse:
                raise MlflowException(f"no {tag.key}", INVALID_PARAMETER_VALUE)
        return log_batch(self, run_id, metrics, params, tags, **kwargs)

    monkeypatch.setattr(MlflowClient, "log_batch", picky)
    for key in "ab":
        refuse.clear()
        refuse.add(key)
        client.fall(ConnectionError("gone"))
        client.set_tag(run, key, "1")
        assert not client.settle()
        assert f"the tracking server refuses what was kept: log_batch: no {key}" in told
    assert client.refused == ["log_batch: no b"]
    with pytest.warns(RuntimeWarning, match=r"1 of them as the server refuses .*\(.*: no b\)"):
        observer._finish()
    with pytest.warns(RuntimeWarning, match="kept is sent: log_batch: no b"):
        observer._send_earlier()
