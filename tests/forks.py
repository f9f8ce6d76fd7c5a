"""Programs in forks of one process that has loaded the libraries, which takes seconds each time."""

import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading

COMMAND = """
import sys
from rankplug.__main__ import main
sys.exit(main())
"""

# Reads programs from the socket it is given, each with where to write and where to say how it
# ended. A program runs at the end of this text, so that its process ends as any of Python's.
PARENT = """
import gc, json, os, socket, sys

import alembic.command, git, jinja2, matplotlib.pyplot, mlflow.store.tracking.sqlalchemy_store
import optuna, sklearn.linear_model, sklearn.preprocessing
import rankplug.cli, rankplug.mlflow.study, rankplug.mlflow.tracking, rankplug.report
import rankplug.runner
import rankplug_plugins.cutting_plane, rankplug_plugins.tree_tron

def serve(requests):
    while True:
        message, descriptors, *_ = socket.recv_fds(requests, 1 << 20, 3)
        if not message:
            return None
        if os.fork() == 0:  # waits for the program
            requests.close()
            out, errors, told = descriptors
            program = os.fork()
            if program == 0:
                os.close(told)
                os.dup2(out, 1)
                os.dup2(errors, 2)
                os.close(out)
                os.close(errors)
                return json.loads(message)
            os.close(out)
            os.close(errors)
            os.write(told, b"%d\\n" % program)
            ended = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
            os.write(told, b"%d\\n" % ended)
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

gc.freeze()
request = serve(socket.socket(fileno=int(sys.argv[1])))
if request is not None:
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["-c", *request["arguments"]]
    exec(request["code"], {"__name__": "__main__"})
"""


@functools.cache
def _requests():
    """The socket of the process that forks, which ends when this one does and closes it."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-c", PARENT, str(theirs.fileno())]
        environment = {**os.environ, "MPLBACKEND": "agg"}
        nothing = subprocess.DEVNULL
        _requests.process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=nothing, env=environment
        )
    return ours


class Fork:
    """A program in a fork: what tests use of `subprocess.Popen`, with text."""

    def __init__(self, code, *arguments, cwd=".", env=None, merge=False):
        request = {
            "code": code,
            "arguments": list(map(str, arguments)),
            "cwd": os.path.abspath(cwd),
            "env": dict(os.environ if env is None else env),
        }
        out, out_end = os.pipe()
        errors, errors_end = (None, os.dup(out_end)) if merge else os.pipe()
        told, told_end = os.pipe()
        ends = [out_end, errors_end, told_end]
        socket.send_fds(_requests(), [json.dumps(request).encode()], ends)
        for end in ends:
            os.close(end)
        self.stdout = os.fdopen(out)
        self.stderr = None if merge else os.fdopen(errors)
        self._told = os.fdopen(told, "rb", buffering=0)  # a line is read, and no more
        self.pid = int(self._told.readline())
        self.returncode = None

    def wait(self, timeout=None):
        """The status, when it has ended."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork", timeout)
            self.returncode = int(self._told.readline())
            self._told.close()
        return self.returncode

    def poll(self):
        """The status, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def communicate(self, timeout=None):
        """What it writes to its end."""
        streams = [stream for stream in (self.stdout, self.stderr) if stream is not None]
        texts = {}

        def read(stream):
            with stream:
                texts[stream] = stream.read()

        threads = [threading.Thread(target=read, args=(one,), daemon=True) for one in streams]
        for thread in threads:
            thread.start()
        self.wait(timeout)
        for thread in threads:
            thread.join(timeout)
        return texts[self.stdout], texts.get(self.stderr)

    def send_signal(self, number):
        """Send it a signal, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """End it."""
        self.send_signal(signal.SIGKILL)

    def result(self, timeout=None):
        """Its status and text when it has ended, as those of `subprocess.run`."""
        out, errors = self.communicate(timeout)
        return subprocess.CompletedProcess("a fork", self.returncode, out, errors)
