"""Logged models behind MLflow's scoring server: every payload form, and no bad request is a 500."""

import http.client
import inspect
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow.exceptions import MlflowException
from mlflow.pyfunc import scoring_server

import rankplug.mlflow
from rankplug import LabelRanker, Ranker, cli, load_model, make_solver
from rankplug.mlflow import requests, serving
from rankplug.models import LinearModel
from tests.forks import COMMAND, Fork

# MLflow's own use of SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")

MODEL = LinearModel([1.0, -2.0, 0.3], ["a", "b", "c"])
ROWS = [[1.5, 2.0, 3.0], [0.0, 1.0, 5.0], [4.0, 0.0, 0.0], [4.0, 0.0, 0.0]]
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"]).assign(qid=["x", "y", "x", "x"])
SCORES = MODEL.predict(ROWS).tolist()
SPLIT = FRAME.to_dict("split", index=False)
RECORDS = FRAME.to_dict("records")
COLUMNS = FRAME.to_dict("list")
JSON, CSV = "application/json", "text/csv"

GOOD = {
    "dataframe_split": {"dataframe_split": SPLIT},
    "dataframe_records": {"dataframe_records": RECORDS},
    "instances": {"instances": RECORDS},
    "inputs": {"inputs": COLUMNS},
    "records as inputs": {"inputs": RECORDS},
    "no query ids": {"inputs": {name: COLUMNS[name] for name in "cba"}},
    "integer query ids": {"inputs": {**COLUMNS, "qid": [1, 2, 1, 1]}},
    "more columns": {"inputs": {**COLUMNS, "note": ["p", "q", "r", "s"]}},
}


def with_rows(**changes):
    return {"inputs": {**COLUMNS, **changes}}


def asking(**params):
    return {"dataframe_split": SPLIT, "params": params}


# Body, type of content, and what the answer must say.
BAD = {
    "empty": ("", JSON, "not valid JSON"),
    "broken": ('{"inputs": {"a": [1', JSON, "not valid JSON"),
    "too deep": ("[" * 100_000, JSON, "not valid JSON"),
    "too long a number": ('{"inputs": ' + "1" * 5000 + "}", JSON, "not valid JSON"),
    "not UTF-8": (b'{"inputs": "\xff"}', JSON, "not valid JSON"),
    "null": ("null", JSON, "must be a JSON object with one of dataframe_records"),
    "a list": ([1], JSON, "must be a JSON object"),
    "no data": ({}, JSON, "exactly one of dataframe_records, dataframe_split, inputs, instances"),
    "two forms": ({"inputs": COLUMNS, "instances": RECORDS}, JSON, "exactly one of"),
    "unknown key": (asking() | {"parms": {}}, JSON, "'parms'; did you mean 'params'?"),
    "a chat": ({"messages": []}, JSON, "unknown keys: 'messages'"),
    "NaN": ('{"inputs": {"a": [NaN], "b": [1], "c": [1]}}', JSON, "X contains NaN at row 0"),
    "null value": (with_rows(b=[1, None, 2, 3]), JSON, "NaN at row 1, column 1 (b)"),
    "infinite": ('{"inputs": {"a": [1e999], "b": [1], "c": [1]}}', JSON, "contains infinity"),
    "too large": (with_rows(a=[1e308] * 4, b=[-1e308] * 4), JSON, "not finite"),
    "text": (with_rows(a=list("pqrs")), JSON, "columns that are not numbers: a (text)"),
    "a column is missing": ({"inputs": {"b": [1.0]}}, JSON, "missing inputs ['a', 'c']"),
    "short column": (with_rows(a=[1]), JSON, "must be of the same length"),
    "no rows": ({"dataframe_split": {**SPLIT, "data": []}}, JSON, "X has no rows"),
    "no columns": ({"inputs": {}}, JSON, "missing inputs ['a', 'b', 'c']"),
    "no records": ({"dataframe_records": []}, JSON, "missing inputs"),
    "short row": ({"dataframe_split": {**SPLIT, "data": [[1]]}}, JSON, "4 columns passed"),
    "objects as columns": ({"dataframe_split": {"columns": [{}], "data": [[1]]}}, JSON, "unhash"),
    "unknown parameter": (asking(outptu="rank"), JSON, "'outptu'; did you mean 'output'?"),
    "unknown output": (asking(output="best"), JSON, "must be one of score, rank, top_k"),
    "k = 0": (asking(output="top_k", k=0), JSON, "k=0 must be an integer of at least 1"),
    "k is text": (asking(k="3"), JSON, "Invalid parameters found"),
    "params is a list": ({"inputs": COLUMNS, "params": [1]}, JSON, "must be a dictionary"),
    "missing query id": (
        {
            "dataframe_records": [*RECORDS, {**RECORDS[0], "qid": None}],
            "params": {"output": "rank"},
        },
        JSON,
        "qid is missing (None or NaN) at row 4",
    ),
    "empty CSV": ("", CSV, "No columns to parse"),
    "text in CSV": ("a,b,c\n1,x,3\n", CSV, "columns that are not numbers: b (text)"),
    "CSV without rows": ("a,b,c\n", CSV, "X has no rows"),
    "no Parquet": (b"PAR1", "application/vnd.apache.parquet", "Parquet"),
    "plain text": ("a", "text/plain", "only supports the following content types"),
    "no type": ("a", None, "no Content-Type: send one of text/csv, application/json"),
    "Latin-1": ({"inputs": COLUMNS}, f"{JSON}; charset=latin-1", "only supports UTF-8"),
}


@pytest.fixture(scope="module")
def registry(empty_store, tmp_path_factory):
    """A registry in SQLite whose model ``web`` has a champion."""
    folder = tmp_path_factory.mktemp("registry")
    shutil.copy(empty_store, folder)
    uri = f"sqlite:///{folder}/mlflow.db"
    rankplug.mlflow.save_model(MODEL, folder / "saved")
    client = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
    client.create_registered_model("web")
    version = client.create_model_version("web", str(folder / "saved"))
    client.set_registered_model_alias("web", "champion", version.version)
    return uri


@contextmanager
def serving_process(command, uri, **more):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")},
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "MLFLOW_TRACKING_URI": uri,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        **more,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", *command, "--port", str(port)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    log = []
    try:
        wait_until_ready(process, port)
        yield port, log
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        log += process.communicate(timeout=60)[0].splitlines()


def wait_until_ready(process, port):
    for _ in range(600):
        try:
            if send(port, "GET", "/ping")[0] == 200:
                return
        except OSError:
            time.sleep(0.2)
        if process.poll() is not None:
            pytest.fail(f"the server has ended:\n{process.stdout.read()}")
    pytest.fail("the server is not ready after two minutes")


def send(port, method, path, body=None, content_type=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        headers = {} if content_type is None else {"Content-Type": content_type}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def encoded(body):
    text = json.dumps(body) if isinstance(body, dict | list) else body
    return text if isinstance(text, bytes) else text.encode()


def test_a_served_champion_answers_every_form_and_refuses_every_bad_request(registry):
    command = ["mlflow", "models", "serve", "-m", "models:/web@champion", "--env-manager", "local"]
    with serving_process(command, registry) as (port, _):

        def answer(body, content_type=JSON):
            status, text = send(port, "POST", "/invocations", encoded(body), content_type)
            assert status == 200, text
            return json.loads(text)["predictions"]

        for name, body in GOOD.items():
            assert answer(body) == SCORES, name
        assert answer(FRAME.to_csv(index=False), CSV) == SCORES
        assert answer(FRAME.to_parquet(), "application/vnd.apache.parquet") == SCORES
        whole = FRAME.round(0).astype(dict.fromkeys("abc", int))
        expected = MODEL.predict(whole[["a", "b", "c"]]).tolist()
        assert answer(whole.to_csv(index=False), CSV) == expected
        assert answer({"dataframe_records": whole.to_dict("records")}) == expected
        assert answer(asking(output="rank")) == [
            {"qid": qid, "score": score, "rank": rank}
            for qid, score, rank in zip("xyxx", SCORES, [3, 1, 1, 2], strict=True)
        ]
        assert answer(asking(output="top_k", k=1)) == [
            {"qid": "x", "row": 2, "score": SCORES[2], "rank": 1},
            {"qid": "y", "row": 1, "score": SCORES[1], "rank": 1},
        ]
        for name, (body, content_type, message) in BAD.items():
            status, text = send(port, "POST", "/invocations", encoded(body), content_type)
            assert 400 <= status < 500, f"{name}: {status} {text}"
            assert message in readable(text), f"{name}: {text}"
        assert send(port, "GET", "/invocations")[0] == 405
        assert answer(GOOD["inputs"]) == SCORES  # it still answers


def readable(text):
    try:
        return json.loads(text)["message"]
    except ValueError:
        return text


def test_a_served_model_ranks_by_the_column_of_its_training(tmp_path):
    frame = FRAME.rename(columns={"qid": "user"})
    ranker = Ranker().fit(frame[["a", "b", "c"]], [0, 1, 2, 1], qid=frame["user"])
    rankplug.mlflow.save_model(ranker, tmp_path / "saved")
    with serving_process(["rankplug", "serve", str(tmp_path / "saved")], "") as (port, _):

        def top(records):
            body = {"dataframe_records": records, "params": {"output": "top_k", "k": 1}}
            status, text = send(port, "POST", "/invocations", encoded(body), JSON)
            return status, json.loads(text)

        status, answer = top(frame.to_dict("records"))
        assert (status, [one["qid"] for one in answer["predictions"]]) == (200, ["x", "y"])
        status, answer = top(frame.drop(columns="user").to_dict("records"))
        assert status == 400
        assert "needs the queries, as the model was trained on several" in answer["message"]


SERVERS = {
    "rankplug": ["rankplug", "serve", "models:/web@champion"],
    "mlflow": ["mlflow", "models", "serve", "-m", "models:/web@champion", "--env-manager", "local"],
}


@pytest.mark.parametrize("command", SERVERS.values(), ids=SERVERS)
def test_a_server_bounds_requests_and_is_not_troubled_by_clients_that_hang_up(registry, command):
    body = encoded({"dataframe_records": RECORDS})
    long = body + b" " * (1_800_000 - len(body))
    with serving_process(command, registry, RANKPLUG_MAX_REQUEST_MB="1") as (port, log):
        assert send(port, "POST", "/invocations", body + b" " * 900_000, JSON)[0] == 200
        status, text = send(port, "POST", "/invocations", long, JSON)
        assert (status, text) == (413, TOO_LONG)
        # Chunks without an end: the answer comes, or the server closes, after the first megabyte.
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            assert send_until_closed(client, b"10000\r\n" + b" " * 65536 + b"\r\n") < 50_000_000
        for part in (b"", b"1000\r\n" + b" " * 4096 + b"\r\n", b"7fffffff\r\n  "):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + part)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert send(port, "POST", "/invocations", body, JSON)[0] == 200
    assert not [line for line in log if "Traceback" in line or "ERROR" in line], "\n".join(log)


TOO_LONG = (
    "Invalid input: the request is longer than 1,000,000 bytes: send fewer rows at a time, or "
    "start the server with a larger RANKPLUG_MAX_REQUEST_MB."
)
HEAD = b"POST /invocations HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"


def send_until_closed(client, piece):
    """How many bytes the server lets the client send, at most 100 MB."""
    sent = 0
    try:
        while sent < 100_000_000:
            client.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    return sent


# The same without a process, for more requests


@pytest.fixture(scope="module", params=["named", "open"])
def invocations(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "saved"
    names = ["a", "b", "c"] if request.param == "named" else None
    rankplug.mlflow.save_model(LinearModel(MODEL.coef, names), folder)
    model = mlflow.pyfunc.load_model(str(folder))
    guarded = serving._guard(inspect.unwrap(scoring_server.invocations), scoring_server)
    schema = model.metadata.get_input_schema()
    return lambda body, content_type=JSON: guarded(body, content_type, model, schema)


def test_labels_are_answered_by_their_names(tmp_path):
    table = FRAME[["a", "b", "c"]]
    ranker = LabelRanker(random_state=0).fit(table, ["x>y>z", "z>y", "y>x>z", "y>x"])
    rankplug.mlflow.save_model(ranker, tmp_path / "saved")
    model = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    guarded = serving._guard(inspect.unwrap(scoring_server.invocations), scoring_server)
    asked = {"inputs": table.to_dict("list"), "params": {"output": "top_k", "k": 3}}
    answer = guarded(encoded(asked), JSON, model, model.metadata.get_input_schema())
    best = pd.DataFrame(json.loads(answer.response)["predictions"])
    assert best["label"].tolist() == ranker.predict_order(table).ravel().tolist()
    assert best["row"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("invocations", ["open"], indirect=True)
def test_columns_by_position_and_arrays_where_features_have_no_names(invocations):
    by_position = [name for name in GOOD if name not in ("no query ids", "more columns")]
    arrays = [{key: ROWS} for key in ("instances", "inputs")]
    for body in [*(GOOD[name] for name in by_position), *arrays]:
        assert json.loads(invocations(encoded(body)).response)["predictions"] == SCORES


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
    st.lists(st.floats(), max_size=3),
)
TABLES = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["a", "b", "c", "qid", "columns", "data", "index"]), inner
        )
    ),
    max_leaves=12,
)
REQUESTS = st.dictionaries(
    st.sampled_from(["dataframe_split", "dataframe_records", "instances", "inputs"]),
    TABLES,
    min_size=1,
    max_size=1,
).flatmap(
    lambda request: (
        st.just(request)
        | st.fixed_dictionaries(
            {"output": st.sampled_from(["rank", "top_k"]), "k": st.integers(-1, 3)}
        ).map(lambda params: {**request, "params": params})
    )
)


@pytest.mark.filterwarnings("ignore")  # pandas', about what is nonsense
@settings(max_examples=100)
@given(request=REQUESTS)
def test_any_json_is_answered_or_refused(request, invocations):
    try:
        status, message = invocations(json.dumps(request).encode()).status, ""
    except MlflowException as error:
        status, message = error.get_http_status_code(), error.message
    assert status in (200, 400)
    assert "unexpected error" not in message


# Requests of numbers are answered without MLflow's frames: as they would be with them


def both_ways(invocations, request, monkeypatch):
    """The answer without frames, whether it is that, and the one of MLflow's way; or errors."""
    answers, quick = [], []

    def predict_numbers(*arguments):
        quick.append(requests.predict_numbers(*arguments))
        return quick[-1]

    for way in (predict_numbers, lambda *_: None):
        monkeypatch.setattr(serving, "predict_numbers", way)
        try:
            answers.append(invocations(json.dumps(request).encode()).response)
        except MlflowException as error:
            answers.append((error.get_http_status_code(), error.message))
    return answers[0], quick[0] is not None if quick else False, answers[1]


@pytest.mark.parametrize("params", [None, {}, {"output": "rank"}, {"output": "top_k", "k": 2}])
@pytest.mark.parametrize("name", [*GOOD, "integers"])
def test_good_requests_are_answered_alike(invocations, name, params, request, monkeypatch):
    integers = {"inputs": [[1, 2, 3], [-4, 5, 2**53]]}
    asked = {**GOOD.get(name, integers), **({} if params is None else {"params": params})}
    found, quick, expected = both_ways(invocations, asked, monkeypatch)
    assert found == expected
    named = request.node.callspec.params["invocations"] == "named"
    assert quick == (named != (name == "integers"))  # arrays for features without names


@pytest.mark.parametrize(
    "asked",
    [
        {"inputs": COLUMNS, "params": [1]},
        {"inputs": COLUMNS, "params": {"output": "top_k", "k": "3"}},
        {"inputs": COLUMNS, "params": {"output": "best"}},
        {"inputs": {**COLUMNS, "qid": ["x", 1, "x", "x"]}, "params": {"output": "rank"}},
        {"inputs": {**COLUMNS, "a": [1, 2, 3, 2**53 + 2], "b": [1] * 4, "c": [1] * 4}},
        {"inputs": [[1, 2, 3], [4, 5, -(2**53) - 2]]},
    ],
    ids=str,
)
def test_unusual_requests_are_left_to_mlflow(invocations, asked, monkeypatch):
    found, quick, expected = both_ways(invocations, asked, monkeypatch)
    assert found == expected
    assert not quick


NUMBERS = st.one_of(
    st.floats(-1e6, 1e6), st.integers(-9, 9), st.integers(), st.floats(), st.booleans(), st.none()
)
IDS = st.sampled_from(["x", "y", 1, 2, 2**70, 1.5, None, True, "1"])


@st.composite
def nearly_good(draw):
    """Requests whose rows are mostly of few and finite numbers, in each of the formats."""
    values = draw(st.sampled_from([st.floats(-9, 9), st.integers(-9, 9), NUMBERS]))
    ids = draw(st.sampled_from([st.just("x"), st.integers(0, 1), IDS]))
    columns = draw(st.permutations(["a", "b", "c", "qid", "note"]))
    columns = [name for name in columns if name in "abc" or draw(st.booleans())]
    of = {"qid": ids, "note": VALUES}
    n = draw(st.integers(0, 3))
    rows = [[draw(of.get(name, values)) for name in columns] for _ in range(n)]
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    form = draw(st.sampled_from(["split", "records", "dict", "array"]))
    split = {"columns": columns, "data": rows}
    data = {
        "split": {"dataframe_split": split},
        "records": {draw(st.sampled_from(["dataframe_records", "instances", "inputs"])): records},
        "dict": {"inputs": {name: [row[name] for row in records] for name in columns}},
        "array": {"inputs": [[row[name] for name in "abc"] for row in records]},
    }[form]
    params = draw(st.sampled_from([None, {}, {"output": "rank"}, {"output": "top_k", "k": 1}]))
    return data if params is None else {**data, "params": params}


@pytest.mark.filterwarnings("ignore")  # pandas', about what is nonsense
@settings(max_examples=150)
@given(asked=nearly_good())
def test_other_requests_are_answered_and_refused_alike(asked, invocations):
    with pytest.MonkeyPatch.context() as monkeypatch:
        found, _, expected = both_ways(invocations, asked, monkeypatch)
    assert found == expected


@pytest.mark.parametrize("kind", ["trees", "labels", "categories", "missing"])
def test_models_of_other_kinds_answer_alike(kind, tmp_path, monkeypatch):
    table, y = FRAME[["a", "b", "c"]], [2, 0, 1, 0]
    if kind == "labels":
        model = LabelRanker(random_state=0).fit(table, ["x>y>z", "z>y", "y>x>z", "y>x"])
    else:
        if kind == "categories":
            table = table.assign(c=pd.Categorical([1, 2, 2, 1]))
        solver = make_solver("xgboost-pairwise", n_estimators=3)
        model = Ranker(solver).fit(table, y, qid=["x", "x", "y", "y"])
    rankplug.mlflow.save_model(model, tmp_path / "saved")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    guarded = serving._guard(inspect.unwrap(scoring_server.invocations), scoring_server)
    schema = loaded.metadata.get_input_schema()
    columns = {name: list(values) for name, values in table.items()}
    if kind == "missing":
        columns["a"][1] = None
    for params in ({}, {"output": "top_k", "k": 2}):
        asked = {"inputs": columns, "params": params}
        found, quick, expected = both_ways(
            lambda body: guarded(body, JSON, loaded, schema), asked, monkeypatch
        )
        assert found == expected
        assert quick == (kind in ("trees", "labels") and (kind == "labels" or not params))


# rankplug serve


def served(arguments, monkeypatch):
    """What the command becomes, instead of it."""
    became = []
    monkeypatch.setattr(os, "execve", lambda *arguments: became.append(arguments))
    cli.main(["serve", *map(str, arguments)])
    ((program, command, environment),) = became
    assert program == sys.executable
    return command, environment


def test_serve_sets_workers_threads_and_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    rankplug.mlflow.save_model(MODEL, tmp_path / "a model")
    options = "--host 0.0.0.0 --port 81 --workers 3 --threads 2 --timeout 9 --tracking-uri file"
    command, environment = served([tmp_path / "a model", *options.split()], monkeypatch)
    server = "rankplug.mlflow.server --host 0.0.0.0 --port 81 --workers 3"
    assert command == [sys.executable, "-m", *server.split()]
    expected = {
        "__pyfunc_model_path__": (tmp_path / "a model").as_uri(),
        "MLFLOW_SCORING_SERVER_REQUEST_TIMEOUT": "9",
        "MLFLOW_TRACKING_URI": "file",
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
        "OMP_NUM_THREADS": "2",
        "OPENBLAS_NUM_THREADS": "2",
        "MKL_NUM_THREADS": "2",
        "OMP_WAIT_POLICY": "PASSIVE",
    }
    assert {key: environment.get(key) for key in expected} == expected


def test_serve_shares_the_processors_among_its_workers(tmp_path, monkeypatch):
    monkeypatch.setattr("rankplug.system.cores.available_cores", lambda: 8)
    rankplug.mlflow.save_model(MODEL, tmp_path / "saved")
    for workers, threads in {1: "8", 3: "2", 20: "1"}.items():
        _, environment = served([tmp_path / "saved", "--workers", workers], monkeypatch)
        assert environment["OMP_NUM_THREADS"] == threads


@pytest.mark.parametrize("damage", ["missing", "altered"])
def test_serve_refuses_what_it_cannot_load(damage, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "saved"
    if damage == "altered":
        rankplug.mlflow.save_model(MODEL, folder)
        (folder / "model" / "arrays.npz").write_bytes(b"")
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("served"))
    assert cli.main(["serve", str(folder)]) == 2
    message = {"missing": "cannot be served", "altered": "altered or truncated"}[damage]
    assert message in capsys.readouterr().err


def test_serve_refuses_numbers_below_one(capsys):
    with pytest.raises(SystemExit):
        cli.main(["serve", "models:/web@champion", "--workers", "0"])
    assert "--workers: must be at least 1" in capsys.readouterr().err


def searches():
    """A table as people have it: text, dates, truth values, holes, ids and a grade."""
    rng = np.random.default_rng(0)
    n = 300 * 15
    bm25, price = rng.normal(8, 3, n).round(3), rng.lognormal(3, 1, n).round(2)
    in_stock, rating = rng.random(n) < 0.8, rng.uniform(1, 5, n).round(1)
    utility = bm25 / 3 - np.log(price) + in_stock + rating / 2 + rng.normal(size=n)
    return pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(1000, 1300), 15),
            "doc_id": [f"d{number:05d}" for number in rng.permutation(n)],
            "title": [f'red "shoes", no {number % 97}' for number in range(n)],
            "clicks": rng.poisson(5, n),
            "price": price,
            "published": pd.date_range("2020-01-01", periods=n, freq="5h").strftime("%Y-%m-%d"),
            "bm25": bm25,
            "in_stock": in_stock,
            "rating": np.where(rng.random(n) < 0.15, np.nan, rating),
            "grade": np.searchsorted(np.quantile(utility, [0.5, 0.75, 0.9, 0.97]), utility),
        }
    )


def test_from_one_file_to_a_served_model_in_four_commands(tmp_path, empty_store):
    """Run, serve, ask with JSON, ask with CSV: with the columns of the file as they are."""
    frame = searches()
    frame.to_csv(tmp_path / "searches.csv", index=False)
    (tmp_path / "rankplug-output").mkdir()
    shutil.copy(empty_store, tmp_path / "rankplug-output" / "mlflow.db")
    command = ["run", "searches.csv", "--label", "grade", "--qid", "query_id"]
    environment = {key: value for key, value in os.environ.items() if "MLFLOW_T" not in key}
    ran = Fork(COMMAND, *command, cwd=tmp_path, env=environment).result()
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[1] == "features: clicks, price, bm25, in_stock, rating"
    (serve,) = [line.split() for line in lines if line.startswith("        rankplug serve ")]
    folder = tmp_path / serve[-1]
    model = load_model(folder / "model")
    assert (model.query_column, model.id_columns) == ("query_id", ("doc_id",))
    shown = frame.head(30).drop(columns="grade")
    expected = model.predict(shown).tolist()
    for other in folder.parent.iterdir():  # trees with holes as they are, linear ones filled in
        scores = mlflow.pyfunc.load_model(str(other)).predict(shown)
        assert scores.tolist() == load_model(other / "model").predict(shown).tolist()
    with serving_process([*serve[:2], str(folder)], "") as (port, log):

        def answer(body, content_type):
            status, text = send(port, "POST", "/invocations", encoded(body), content_type)
            assert status == 200, text
            return json.loads(text)["predictions"]

        records = json.loads(shown.to_json(orient="records"))
        assert None in [record["rating"] for record in records]
        assert answer({"dataframe_records": records}, JSON) == expected
        assert answer(shown.to_csv(index=False), CSV) == expected
        ranked = answer({"dataframe_records": records, "params": {"output": "rank"}}, JSON)
    assert [one["qid"] for one in ranked] == shown["query_id"].tolist()
    assert sorted(one["rank"] for one in ranked[:15]) == list(range(1, 16))
    assert not any("Traceback" in line for line in log)
