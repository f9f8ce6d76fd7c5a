"""``rankplug serve``: answer requests with a logged model."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from typing import Any

from rankplug.cli.parsers import command_parser

__all__ = ["add"]

_HELP = """\
requests are those of `mlflow models serve`: POST /invocations, GET /ping, /version;
they may have 100 MB, or what the environment variable RANKPLUG_MAX_REQUEST_MB says

examples:
  rankplug serve models:/web@champion --port 8080 --workers 4
  curl localhost:8080/invocations -H 'Content-Type: application/json' -d '
    {"dataframe_records": [{"age": 1, "price": 2, "qid": "a"}, {"age": 3, "price": 1, "qid": "a"}],
     "params": {"output": "top_k", "k": 1}}'
"""

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "answer HTTP requests with a logged model, by MLflow's scoring server"
    parser = command_parser(commands, common, "serve", text, _HELP)
    parser.add_argument("uri", metavar="URI", help="a folder, models:/NAME@ALIAS or runs:/ID/NAME")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (%(default)s)")
    parser.add_argument("--port", type=_port, default=5000, help="port (%(default)s)")
    parser.add_argument("--workers", type=_count, default=1, help="processes (%(default)s)")
    parser.add_argument(
        "--threads", type=_count, help="threads of each process (default: its share of processors)"
    )
    parser.add_argument(
        "--timeout", type=_count, default=60, help="seconds for a request (%(default)s)"
    )
    parser.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="MLflow store of models:/ and runs:/ (default: MLflow's)",
    )
    parser.set_defaults(command=_serve)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _port(text: str) -> int:
    number = _count(text)
    if number > 65535:
        raise argparse.ArgumentTypeError("must be at most 65535")
    return number


def _serve(args: argparse.Namespace) -> int:
    """Become the server, so that signals reach it."""
    if args.tracking_uri:
        os.environ["MLFLOW_TRACKING_URI"] = args.tracking_uri
    from mlflow.pyfunc.scoring_server import get_cmd

    from rankplug.system.cores import available_cores

    folder = _checked_model(args.uri)
    command, environment = get_cmd(folder, args.port, args.host, args.timeout, args.workers)
    threads = args.threads or max(1, available_cores() // args.workers)
    environment |= dict.fromkeys(_THREADS, str(threads))
    # Waiting OpenMP threads otherwise take the processors from those that work.
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    environment["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] = "false"
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", *shlex.split(command)], environment)


def _checked_model(uri: str) -> str:
    """The model's folder; what is wrong with it is told once, not by each worker."""
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    from rankplug.exceptions import ParameterError
    from rankplug.mlflow import load_model

    try:
        folder = str(download_artifacts(artifact_uri=uri))
        load_model(folder)
    except (MlflowException, OSError) as error:
        raise ParameterError(f"{uri} cannot be served: {str(error).splitlines()[0]}") from error
    return folder
