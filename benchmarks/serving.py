"""Served models: latency and throughput beside plain XGBoost and a hand-written endpoint.

And a mixed load with nonsense, and the same models called in this process.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Row = dict[str, Any]

N_FEATURES = 46
NAMES = [f"x{j}" for j in range(N_FEATURES)]
REQUESTS = {1: 100, 100: 50, 1000: 20}
"""Requests a round, by their number of rows."""

_LINEAR, _TREES, _PLAIN = "rankplug linear", "rankplug trees", "mlflow.xgboost trees"
_UNNAMED = {"rankplug linear, unnamed": _LINEAR, "rankplug trees, unnamed": _TREES}
_WRITTEN = {".npy": "FastAPI linear", ".json": "FastAPI trees"}
_PERCENTS = (10, 50, 99)  # the first one as on a machine that does nothing else
_CALLS = 2000  # in this process, of some microseconds each

CLIENTS = 4
MIXED = 10_000
MALFORMED = (
    "",
    "{",
    "[1, 2]",
    '{"inputs": {}}',
    '{"dataframe_split": {"columns": ["x0"], "data": [[1]]}}',
    '{"dataframe_split": {"columns": ["x0"], "data": [[1, 2]]}}',
    '{"dataframe_records": [{"x0": null}]}',
    '{"dataframe_records": [], "params": {"output": "best"}}',
    '{"instances": [[NaN]], "unknown": 1}',
    '{"inputs": "text"}',
)


def serving(tiny: bool, rounds: int) -> Iterator[Row]:
    """`mlflow models serve`, and endpoints written by hand, which take ``inputs`` alone.

    One server at a time gets requests, on loopback.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ranker, models = _saved_models(Path(folder), tiny)
        yield from _in_process(ranker, models[_LINEAR], 50 if tiny else _CALLS, rounds)
        ports = {name: stack.enter_context(_server(path)) for name, path in models.items()}
        takers = {
            "dataframe_split": [_LINEAR, _TREES, _PLAIN],
            "inputs": [*_UNNAMED, *_WRITTEN.values()],
        }
        for payload, names in takers.items():
            asked = {name: ports[name] for name in names}
            for rows, number in REQUESTS.items():
                yield from _measured(asked, payload, rows, 3 if tiny else number, rounds)
        yield {"server": _LINEAR} | _mixed(ports[_LINEAR], 50 if tiny else MIXED)


def _saved_models(folder: Path, tiny: bool) -> tuple[Any, dict[str, Path]]:
    """A linear ranker without names of features, and the models: equal weights, equal trees."""
    import mlflow.xgboost
    from mlflow.models import infer_signature

    import rankplug.mlflow

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(2000, N_FEATURES)), columns=NAMES)
    relevance = np.clip(np.round(frame.to_numpy() @ rng.normal(size=N_FEATURES) / 4), 0, 4)
    qid = np.repeat(np.arange(100), 20)
    trees = rankplug.make_solver("xgboost-pairwise", n_estimators=3 if tiny else 100, n_threads=1)
    models: dict[str, Any] = {_LINEAR: "tree-tron", _TREES: trees}
    rankers: dict[str, Any] = {}
    paths = {}
    for name, known in {_LINEAR: _LINEAR, _TREES: _TREES, **_UNNAMED}.items():
        features = frame.to_numpy() if name in _UNNAMED else frame
        rankers[name] = rankplug.Ranker(models[known]).fit(features, relevance, qid=qid)
        paths[name] = folder / name
        rankplug.mlflow.save_model(rankers[name].model_, paths[name])
    booster = rankers[_TREES].model_.booster
    paths[_PLAIN] = folder / "plain"
    signature = infer_signature(frame, np.zeros(len(frame)))
    mlflow.xgboost.save_model(booster, folder / "plain", signature=signature)
    for suffix, name in _WRITTEN.items():
        paths[name] = folder / f"written{suffix}"
    np.save(folder / "written.npy", rankers[_LINEAR].coef_)
    booster.feature_names = None  # arrays have none
    booster.save_model(folder / "written.json")
    return rankers[next(iter(_UNNAMED))], paths


def _in_process(ranker: Any, path: Path, number: int, rounds: int) -> Iterator[Row]:
    """The linear model called as a library, by arrays and by frames, checks included."""
    import mlflow

    named, rng = mlflow.pyfunc.load_model(str(path)), np.random.default_rng(0)
    for rows in (1, 100):
        array = rng.normal(size=(rows, N_FEATURES))
        frame = pd.DataFrame(array, columns=NAMES)
        calls: dict[str, tuple[Callable[[Any], Any], Any]] = {
            "model.predict": (ranker.model_.predict, array),
            "Ranker.predict": (ranker.predict, array),
            "mlflow.pyfunc": (named.predict, array),
            "model.predict of a frame": (named.get_raw_model().predict, frame),
        }
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(rounds):
            for name, (call, given) in calls.items():
                for _ in range(number):
                    before = time.perf_counter()
                    call(given)
                    seconds[name].append(time.perf_counter() - before)
        for name, measured in seconds.items():
            p10, p50, p99 = 1e3 * np.percentile(measured, _PERCENTS)
            yield {
                "server": f"in process: {name}",
                "rows": rows,
                "requests": rounds * number,
                "p10_ms": p10,
                "p50_ms": p50,
                "p99_ms": p99,
                "n_threads": 1,
            }


@contextmanager
def _server(path: Path) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    served = ["mlflow", "models", "serve", "-m", str(path), "--env-manager", "local", "-p"]
    command = ["benchmarks.endpoint", str(path)] if path.suffix in _WRITTEN else served
    scripts = str(Path(sys.executable).parent)
    process = subprocess.Popen(
        [sys.executable, "-m", *command, str(port)],
        env={
            **os.environ,
            "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait_until_ready(process, port)
        yield port
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(600):
        if process.poll() is not None:
            break
        try:
            if _Client(port).status("GET", "/ping") == 200:
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the server at port {port} does not start")


class _Client:
    """A connection that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def status(self, method: str, path: str, body: str | None = None) -> int:
        headers = {"Content-Type": "application/json"}
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        response.read()
        return response.status

    def seconds(self, body: str) -> float:
        before = time.perf_counter()
        status = self.status("POST", "/invocations", body)
        if status != 200:
            raise RuntimeError(
                f"a good request to port {self._connection.port} was answered with {status}"
            )
        return time.perf_counter() - before


def _measured(
    ports: dict[str, int], payload: str, rows: int, number: int, rounds: int
) -> Iterator[Row]:
    """Servers take turns; one client for latencies, several at once for throughput."""
    body = _body(rows, np.random.default_rng(rows), payload=payload)
    latencies: dict[str, list[float]] = {name: [] for name in ports}
    busy = dict.fromkeys(ports, 0.0)
    for port in ports.values():
        _Client(port).seconds(body)
    for _ in range(rounds):
        for name, port in ports.items():
            client = _Client(port)
            latencies[name] += [client.seconds(body) for _ in range(number)]
            before = time.perf_counter()
            _spread(port, [body] * number)
            busy[name] += time.perf_counter() - before
    for name in ports:
        p10, p50, p99 = 1e3 * np.percentile(latencies[name], _PERCENTS)
        yield {
            "server": name,
            "payload": payload,
            "rows": rows,
            "requests": rounds * number,
            "p10_ms": p10,
            "p50_ms": p50,
            "p99_ms": p99,
            "clients": CLIENTS,
            "requests_per_s": rounds * number / busy[name],
            "rows_per_s": rounds * number * rows / busy[name],
            "n_threads": 1,
        }


def _mixed(port: int, number: int) -> Row:
    """Every tenth request is malformed; counts of the answers by hundreds of their status."""
    rng = np.random.default_rng(0)
    good = [_body(rows, rng, params) for rows in (1, 10, 100) for params in _params()]
    bodies = [
        MALFORMED[rng.integers(len(MALFORMED))] if i % 10 == 9 else good[rng.integers(len(good))]
        for i in range(number)
    ]
    before = time.perf_counter()
    statuses = Counter(status // 100 for status in _spread(port, bodies))
    return {
        "rows": "1, 10 or 100; a tenth malformed",
        "requests": number,
        "clients": CLIENTS,
        "requests_per_s": number / (time.perf_counter() - before),
        "answered_2xx": statuses[2],
        "refused_4xx": statuses[4],
        "failed_5xx": statuses[5],
        "n_threads": 1,
    }


def _spread(port: int, bodies: Sequence[str]) -> list[int]:
    """The statuses of requests by several clients at once."""

    def send(part: Sequence[str]) -> list[int]:
        client = _Client(port)
        return [client.status("POST", "/invocations", body) for body in part]

    with ThreadPoolExecutor(CLIENTS) as pool:
        parts = pool.map(send, [bodies[start::CLIENTS] for start in range(CLIENTS)])
        return [status for part in parts for status in part]


def _params() -> list[Row | None]:
    return [None, {"output": "rank"}, {"output": "top_k", "k": 3}]


def _body(
    rows: int, rng: np.random.Generator, params: Row | None = None, payload: str = "dataframe_split"
) -> str:
    data = rng.normal(size=(rows, N_FEATURES)).round(6).tolist()
    if payload == "inputs":
        return json.dumps({"inputs": data})
    table = {"columns": NAMES, "data": data}
    request: Row = {"dataframe_split": table}
    if params is not None:
        table["columns"] = [*NAMES, "qid"]
        table["data"] = [[*row, f"q{i // 10}"] for i, row in enumerate(data)]
        request["params"] = params
    return json.dumps(request)
