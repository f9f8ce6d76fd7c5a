"""The process that ``rankplug serve`` becomes: MLflow's application behind uvicorn.

``python -m rankplug.mlflow.server --host H --port P --workers N``. SIGINT and SIGTERM end it with
130 and 143, when all requests that it has taken are answered; a second one ends it at once. They
are blocked until somebody waits for them, so that none comes while modules are imported.

With several workers the first process binds the address and waits for signals; workers, which it
starts with the number of the socket, accept connections from it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType

import uvicorn

_APPLICATION = "mlflow.pyfunc.scoring_server.app:app"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_FAILED = 1
# Seconds: those who have connected are still accepted, and then have the time to send.
_LAST_CALL, _LAST_WORDS = 0.1, 0.5
_LONGEST_QUEUE = 5.0  # seconds in which the queue of those who connect must have been empty
_SO_ATTACH_FILTER, _BPF_RETURN = 26, 0x06  # of Linux
_POLL = 0.5  # seconds from one look at the workers to the next
_GLANCE = 0.05  # seconds after which nobody notices that a signal was not seen at once


class GracefulServer(uvicorn.Server):
    """A server that ends when it has answered whoever was connected before the signal.

    Parameters
    ----------
    config : uvicorn.Config
    parent : int
        The process that started it; when that is gone, the server ends, too.
    """

    def __init__(self, config: uvicorn.Config, parent: int | None = None) -> None:
        super().__init__(config)
        self._parent = parent
        self.came: int | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are handled by `handle`, from the beginning of the process to its end."""
        yield

    def handle(self, number: int, _: FrameType | None = None) -> None:
        """End; at once if told a second time, or if nobody was let in yet."""
        if not self.started:
            os._exit(128 + number)
        self.force_exit = self.came is not None
        self.should_exit = True
        self.came = self.came or number

    async def on_tick(self, counter: int) -> bool:
        """Whether to end."""
        orphaned = self._parent is not None and os.getppid() != self._parent
        return await super().on_tick(counter) or orphaned

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer all who are connected; uvicorn would reset those who have not sent yet."""
        headers = self.server_state.default_headers
        self.server_state.default_headers = [*headers, (b"connection", b"close")]
        for server in self.servers:
            _close_door(server)
        await asyncio.sleep(0.0 if self.force_exit else _LAST_CALL)
        end = asyncio.get_running_loop().time() + _LONGEST_QUEUE
        for server in self.servers:
            while _is_queue(server) and asyncio.get_running_loop().time() < end:
                await asyncio.sleep(0)
            server.close()
        for one in sockets or ():
            one.close()
        await asyncio.sleep(0.0 if self.force_exit else _LAST_WORDS)
        await super().shutdown(sockets)


def _close_door(server: asyncio.Server) -> None:
    """Let nobody connect any more, where the system can do so before the socket is closed.

    Whoever connects between the last look at the queue and the end of the socket would be sent away
    with a request that was taken. Linux drops packets for which a filter returns 0.
    """
    if sys.platform != "linux":
        return
    drop = ctypes.create_string_buffer(struct.pack("HBBI", _BPF_RETURN, 0, 0, 0))
    program = struct.pack("HP", 1, ctypes.addressof(drop))
    for one in server.sockets:
        with contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def _is_queue(server: asyncio.Server) -> bool:
    """Whether somebody has connected and was not let in yet."""
    numbers = [one.fileno() for one in server.sockets]
    return bool(select.select(numbers, [], [], 0)[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal comes; returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--socket", type=int, help="number of a bound socket")
    args = parser.parse_args(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    config = uvicorn.Config(_APPLICATION, host=args.host, port=args.port)
    try:
        return _supervise(config, args) if args.workers > 1 else _serve(config, args.socket)
    except SystemExit:  # uvicorn's, which has said why
        return _FAILED


def _serve(config: uvicorn.Config, number: int | None) -> int:
    """Be a server, or a worker with a socket."""
    sockets = None if number is None else [socket.socket(fileno=number)]
    server = GracefulServer(config, None if number is None else os.getppid())
    for one in _SIGNALS:
        signal.signal(one, server.handle)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    server.run(sockets)
    return 0 if server.came is None else 128 + server.came


def _supervise(config: uvicorn.Config, args: argparse.Namespace) -> int:
    """Keep workers at work until a signal comes, and wait until they have ended."""
    listening = config.bind_socket()
    command = [sys.executable, "-m", "rankplug.mlflow.server", "--socket", str(listening.fileno())]

    def start() -> subprocess.Popen[bytes]:
        # In a group of its own, so that Ctrl-C in a terminal comes to this process alone.
        return subprocess.Popen(command, pass_fds=[listening.fileno()], process_group=0)

    workers = [start() for _ in range(args.workers)]
    status = None
    while status is None:
        came = _wait_for_signal(_POLL)
        if came is not None:
            status = 128 + came
            break
        for place, worker in enumerate(workers):
            if worker.poll() == _FAILED:  # as the next one would
                status = _FAILED
            elif worker.poll() is not None:
                workers[place] = start()
    listening.close()
    _end(workers)
    return status


def _end(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    """Tell workers to end, again when a signal comes again, and wait for them."""
    while running := [worker for worker in workers if worker.poll() is None]:
        for worker in running:
            worker.send_signal(signal.SIGTERM)
        while any(worker.poll() is None for worker in running):
            if _wait_for_signal(_LAST_CALL) is not None:
                break


def _wait_for_signal(seconds: float) -> int | None:
    """The number of a signal that comes in this time; macOS has no `signal.sigtimedwait`."""
    end = time.monotonic() + seconds
    while not (came := signal.sigpending() & {*_SIGNALS}):
        if time.monotonic() >= end:
            return None
        time.sleep(_GLANCE)
    return signal.sigwait(came)


if __name__ == "__main__":
    sys.exit(main())
