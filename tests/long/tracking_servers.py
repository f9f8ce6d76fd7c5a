"""Tracking servers that fail, and what one holds in the end, as one list that can be compared.

``python -m tests.long.tracking_servers --every 3``: a command with a server that loses the answer
to request number n and then refuses all, for every third n; then ``rankplug track``. The server
must hold what it holds after a command that nothing disturbed.
"""

import argparse
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

from mlflow import MlflowClient

from tests.forks import Fork
from tests.processes import TUNED

SECONDS_TO_START = 90  # a machine may be busy
RECIPE = TUNED + "  - solver: cutting-plane\n"

# The command, with a report that is quick; functions below are called at report N of
# its solvers, for which the first argument, a dict, has a list of names with arguments.
COMMAND = """
import os, signal, subprocess, sys, time
from pathlib import Path
from urllib.request import urlopen
import rankplug.mlflow.spooling as spooling
from rankplug.cli import main
from rankplug.report import REPORT_FILES
from rankplug.solver import Monitor

REPORT_FILES["report.html"] = lambda report: "<!DOCTYPE html>"
spooling._FIRST_PAUSE = spooling._LONGEST_PAUSE = 0.5
spooling._TIMES_THE_PROBE = 0.0
report, count, events = Monitor.report, [0], eval(sys.argv[1])

def kill(group):
    os.killpg(group, signal.SIGKILL)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def spoil(file):
    Path(file).write_bytes(b"no database " * 999)

def wait_for(file):
    while not Path(file).exists():
        time.sleep(0.1)

def reporting(self, n_iter, **values):
    count[0] += 1
    for call, *args in events.get(count[0], ()):
        globals()[call](*args)
    return report(self, n_iter, **values)

Monitor.report = reporting
sys.exit(main(sys.argv[2:]))
"""


def environment(**more):
    """The environment of commands, in which nothing of the caller's MLflow is left."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
    return {**plain, "MPLBACKEND": "agg", "MLFLOW_DISABLE_TELEMETRY": "true", **more}


def start_command(folder, *arguments, events="{}", **variables):
    """Start a command of rankplug's in a folder that has the recipe."""
    recipe = Path(folder, "small.yaml")
    if not recipe.exists():
        recipe.write_text(RECIPE)
    return Fork(COMMAND, events, *arguments, cwd=folder, env=environment(**variables))


def run_command(folder, *arguments, **options):
    """Run a command to its end."""
    return start_command(folder, *arguments, **options).result()


class Server:
    """A server of MLflow's own, which can be killed and started again.

    Parameters
    ----------
    folder : Path
        Of its database and artifacts.
    database : Path, optional
        One to begin with: MLflow takes seconds to make one.
    """

    def __init__(self, folder, database=None):
        self.folder = Path(folder)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        if database is not None:
            (self.folder / "mlflow.db").write_bytes(Path(database).read_bytes())
        self.process = None

    def start(self):
        """Start it, and wait until it answers."""
        store = f"sqlite:///{self.folder}/mlflow.db"
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        options += ["--backend-store-uri", store, "--artifacts-destination", f"{self.folder}/files"]
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", *options],
                stdout=log,
                stderr=log,
                env=environment(MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false"),  # nine processes more
                start_new_session=True,
            )
        end = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError), urlopen(f"{self.uri}/health", timeout=5):
                return self
            time.sleep(0.2)
        raise RuntimeError((self.folder / "server.log").read_text()[-2000:])

    def kill(self):
        """Kill it, with its workers."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Losing(ThreadingHTTPServer):
    """A server before another: it loses the answer to request `n_good` + 1, and refuses the rest.

    Attributes
    ----------
    n_requests : int
        How many have come.
    """

    daemon_threads = True

    def __init__(self, port, n_good):
        super().__init__(("127.0.0.1", 0), _LosingHandler)
        self.port = port
        self.n_good = n_good
        self.n_requests = 0
        self.uri = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def handle_error(self, *_):
        """Clients see that a connection has ended."""


class _LosingHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _pass_on(self):
        server = self.server
        server.n_requests += 1
        number = server.n_requests
        if number <= server.n_good + 1:
            status, headers, answer = self._ask(self._body())
        if number > server.n_good:
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while length := int(self.rfile.readline(), 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _ask(self, body):
        behind = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        own = ("host", "transfer-encoding", "connection", "content-length")
        headers = {key: value for key, value in self.headers.items() if key.lower() not in own}
        behind.request(self.command, self.path, body, headers)
        response = behind.getresponse()
        return response.status, response.getheaders(), response.read()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815

    def log_message(self, *_):
        """Say nothing."""


# What is another in every run.
_PASSING = ("rankplug.process", "rankplug.output", "rankplug.key", "rankplug.study_id", "mlflow.")


def contents(uri, experiment):
    """Runs and models of an experiment: everything but ids, times and numbers that depend on them.

    Of metrics the steps are there, how often each came, and not the values: some are seconds.
    """
    client = MlflowClient(tracking_uri=uri)
    where = [client.get_experiment_by_name(experiment).experiment_id]
    runs = {run.info.run_id: run for run in client.search_runs(where)}

    def path(run):
        parent = run.data.tags.get("mlflow.parentRunId")
        return (*(path(runs[parent]) if parent else ()), run.info.run_name)

    def describe(run_id, run):
        tags = run.data.tags.items()
        return (
            path(run),
            run.info.status,
            sorted(run.data.params.items()),
            sorted((key, value) for key, value in tags if not key.startswith((*_PASSING, "env."))),
            [
                (name, sorted(one.step for one in client.get_metric_history(run_id, name)))
                for name in sorted(run.data.metrics)
            ],
            sorted(item.path for item in client.list_artifacts(run_id)),
            sorted(one.dataset.digest for one in run.inputs.dataset_inputs),
            len(run.outputs.model_outputs),
        )

    models = [
        (
            model.name,
            str(model.status),
            sorted(model.params.items()),
            sorted(item.path for item in client.list_logged_model_artifacts(model.model_id)),
            model.source_run_id in runs,
        )
        for model in client.search_logged_models(where)
    ]
    return sorted(describe(*item) for item in runs.items()), sorted(models)


def versions(uri, name):
    """How many versions a registered model has, and which is the champion."""
    client = MlflowClient(tracking_uri=uri)
    champion = client.get_model_version_by_alias(name, "champion").version
    return len(client.search_model_versions(f"name = '{name}'")), champion


def lose(server, folder, n_good):
    """Run a command whose server loses an answer, and send the rest; returns the first's status.

    Sending is disturbed in the same way, once.
    """
    name = f"lost-{n_good}"
    arguments = ["tune", "small.yaml", "--output", name, "--register", name, "--quiet"]
    with Losing(server.port, n_good) as losing:
        done = run_command(
            folder, *arguments, "--tracking-uri", losing.uri, MLFLOW_EXPERIMENT_NAME=name
        )
        losing.shutdown()
    if done.returncode == 3:
        with Losing(server.port, 20) as losing:
            run_command(folder, "track", name, "--tracking-uri", losing.uri)
            losing.shutdown()
        sent = run_command(folder, "track", name, "--tracking-uri", server.uri)
        if sent.returncode != 0:
            raise AssertionError(f"{name}: {sent.stdout}{sent.stderr}")
    return done.returncode


def main():
    """Lose one answer after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="answers from one to the next")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    args = parser.parse_args()
    n_lost = n_bad = 0
    with tempfile.TemporaryDirectory() as name:
        server = Server(name).start()
        try:
            lose(server, name, 10**9)
            right = contents(server.uri, "lost-1000000000")
            for number in range(args.first, 10**6, args.every):
                status = lose(server, name, number)
                if status == 0:  # the command asks fewer questions
                    break
                found = contents(server.uri, f"lost-{number}")
                is_right = status == 3 and found == right
                is_right &= versions(server.uri, f"lost-{number}") == (1, "1")
                n_lost, n_bad = n_lost + 1, n_bad + (not is_right)
                print(f"answer {number} lost: {'as if not' if is_right else 'WRONG'}", flush=True)
        finally:
            server.kill()
    print(f"{n_lost} answers lost, {n_bad} of them to harm")
    return min(n_bad, 1)


if __name__ == "__main__":
    sys.exit(main())
