"""How servers end: with the status that the documentation says, and with every request answered."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import rankplug.mlflow
from rankplug.models import LinearModel

HANG = 120  # seconds that no test needs
BODY = json.dumps({"dataframe_records": [{"a": 1, "b": 2, "c": 3}] * 20}).encode()
HEAD = b"Host: here\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
REQUEST = b"POST /invocations HTTP/1.1\r\n" + HEAD + BODY


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "saved"
    rankplug.mlflow.save_model(LinearModel([1.0, -2.0, 0.3], ["a", "b", "c"]), folder)
    return folder


@pytest.fixture
def serve(model):
    """Starts a server in a session of its own; gives the process and its port."""
    started = []

    def start(workers):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = ["rankplug", "serve", str(model), "--port", str(port), "--workers", str(workers)]
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process, port

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def ask(port):
    """What becomes of a request, and None if nobody takes it."""
    try:
        client = socket.create_connection(("127.0.0.1", port), timeout=HANG)
    except OSError:
        return None
    with client:
        try:
            client.sendall(REQUEST)
            answer = b""
            while b"}" not in answer:
                piece = client.recv(65536)
                if not piece:
                    break
                answer += piece
            return answer[:12].decode()
        except OSError as error:
            return type(error).__name__


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_signal_under_load_drops_no_request_and_is_the_status(workers, serve):
    # SIGINT goes to all processes in the foreground, as from a terminal; SIGTERM to the first.
    number = (signal.SIGTERM, signal.SIGINT)[workers - 1]
    process, port = serve(workers)
    deadline = time.monotonic() + HANG
    while ask(port) is None:
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    answers = []

    def keep_asking():
        while (answer := ask(port)) is not None:
            answers.append(answer)

    clients = [threading.Thread(target=keep_asking) for _ in range(8)]
    for client in clients:
        client.start()
    while len(answers) < 20:
        time.sleep(0.05)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    for client in clients:
        client.join(HANG)
    log, _ = process.communicate(timeout=HANG)
    assert process.returncode == 128 + number, log
    assert set(answers) == {"HTTP/1.1 200"}, Counter(answers)
    assert "Traceback" not in log


@pytest.mark.parametrize("seconds", [0.0, 1.5])
def test_a_signal_while_workers_start_leaves_no_traceback(seconds, serve):
    process, _ = serve(2)
    command = Path(f"/proc/{process.pid}/cmdline")
    while command.exists() and "rankplug.mlflow.server" not in command.read_text():
        time.sleep(0.05)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    log, _ = process.communicate(timeout=HANG)
    assert process.returncode == 130, log
    assert "Traceback" not in log


def test_a_server_that_cannot_listen_fails(serve):
    first, _ = serve(1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = subprocess.Popen(
            [*first.args[:6], str(taken.getsockname()[1]), *first.args[7:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        log, _ = process.communicate(timeout=HANG)
    assert process.returncode == 1, log
    assert "address already in use" in log


def test_signals_are_waited_for_where_the_system_has_no_timed_wait(monkeypatch):
    from rankplug.mlflow import server

    monkeypatch.delattr(signal, "sigtimedwait", raising=False)  # as on macOS
    before = signal.pthread_sigmask(signal.SIG_BLOCK, server._SIGNALS)
    try:
        assert server._wait_for_signal(0.01) is None
        signal.raise_signal(signal.SIGTERM)  # of this thread, which has blocked it
        assert server._wait_for_signal(HANG) == signal.SIGTERM
        assert server._wait_for_signal(0.01) is None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
