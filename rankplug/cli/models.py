"""Commands for models, ``rankplug predict`` and ``serve``, and the list of solvers."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankplug.cli.shared import (
    add_data_argument,
    add_notation_arguments,
    add_qid_argument,
    command_parser,
    notation,
)

if TYPE_CHECKING:
    from rankplug.models import Model

_PREDICT_HELP = """\
examples:
  rankplug predict models:/search@champion test.txt.gz -o scores.csv
  rankplug predict out/model test.parquet -o best.parquet --output top_k --k 5
  rankplug predict out/model test.csv -o mine.run --qid query --id docno

The file is read in batches, so it may be larger than memory. With --output rank or top_k, and for
a run, the rows of a query must stand together. The output file appears whole or not at all. A run,
in TREC's format, is measured by 'rankplug evaluate --qrels Q --run mine.run'.
"""


def add_predict(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "score or rank the rows of a file with a model"
    parser = command_parser(commands, common, "predict", text, _PREDICT_HELP)
    add_model_arguments(parser)
    add_data_argument(parser)
    parser.add_argument(
        "-o", "--out", required=True, metavar="OUT", help="file to write: .csv, .parquet, .run, ..."
    )
    parser.add_argument(
        "--output",
        choices=["score", "rank", "top_k"],
        default="score",
        help="scores of the rows, also their ranks in their queries, or only the best rows "
        "(default: score)",
    )
    parser.add_argument(
        "--k", type=int, default=10, help="how many rows of a query are the best (default: 10)"
    )
    add_qid_argument(parser, "that of the training, or qid")
    parser.add_argument(
        "--id",
        action="append",
        metavar="COLUMN",
        help="column to write beside the predictions, such as a document's id; may be repeated "
        "(default: those that the model knows)",
    )
    add_notation_arguments(parser, "as in the model's training, else from 1")
    parser.add_argument(
        "--batch-rows",
        type=int,
        default=10_000,
        metavar="N",
        help="rows to read at a time (default: 10000)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(command=_predict)


def _predict(args: argparse.Namespace) -> int:
    model = open_model(args)
    from rankplug.io.predictions import predict_file
    from rankplug.models.answers import parse_form

    rows = predict_file(
        model,
        args.data,
        args.out,
        form=parse_form({"output": args.output, "k": args.k}),
        ids=args.id,
        qid=args.qid,
        **notation(args),
        batch_rows=args.batch_rows,
        progress=not args.quiet,
    )
    print(f"{rows:,} rows scored: {args.out}")
    return 0


_SERVE_HELP = """\
requests are those of `mlflow models serve`: POST /invocations, GET /ping, /version;
they may have 100 MB, or what the environment variable RANKPLUG_MAX_REQUEST_MB says

examples:
  rankplug serve models:/web@champion --port 8080 --workers 4
  curl localhost:8080/invocations -H 'Content-Type: application/json' -d '
    {"dataframe_records": [{"age": 1, "price": 2, "qid": "a"}, {"age": 3, "price": 1, "qid": "a"}],
     "params": {"output": "top_k", "k": 1}}'
"""

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def add_serve(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "answer HTTP requests with a logged model, by MLflow's scoring server"
    parser = command_parser(commands, common, "serve", text, _SERVE_HELP)
    parser.add_argument("uri", metavar="URI", help="a folder, models:/NAME@ALIAS or runs:/ID/NAME")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (%(default)s)")
    parser.add_argument("--port", type=_parse_port, default=5000, help="port (%(default)s)")
    parser.add_argument("--workers", type=parse_count, default=1, help="processes (%(default)s)")
    parser.add_argument(
        "--threads",
        type=parse_count,
        help="threads of each process (default: its share of processors)",
    )
    parser.add_argument(
        "--timeout", type=parse_count, default=60, help="seconds for a request (%(default)s)"
    )
    parser.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="MLflow store of models:/ and runs:/ (default: MLflow's)",
    )
    parser.set_defaults(command=_serve)


def parse_count(text: str) -> int:
    """A number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _parse_port(text: str) -> int:
    number = parse_count(text)
    if number > 65535:
        raise argparse.ArgumentTypeError("must be at most 65535")
    return number


def _serve(args: argparse.Namespace) -> int:
    """Become the server, so that signals reach it."""
    if args.tracking_uri:
        os.environ["MLFLOW_TRACKING_URI"] = args.tracking_uri
    from mlflow.pyfunc.scoring_server import get_cmd

    from rankplug.system.cores import available_cores

    folder = _fetch_model(args.uri)
    _, environment = get_cmd(folder, args.port, args.host, args.timeout, args.workers)
    threads = args.threads or max(1, available_cores() // args.workers)
    environment |= dict.fromkeys(_THREADS, str(threads))
    # Waiting OpenMP threads otherwise take the processors from those that work.
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    environment["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] = "false"
    sys.stdout.flush()
    command = [sys.executable, "-m", "rankplug.mlflow.server", "--host", args.host]
    command += ["--port", str(args.port), "--workers", str(args.workers)]
    # None is to come before the server can handle it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        os.execve(sys.executable, command, environment)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _fetch_model(uri: str) -> str:
    """The model's folder; what is wrong with it is an error here, once, not in each worker."""
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    from rankplug.exceptions import ParameterError
    from rankplug.mlflow import load_model
    from rankplug.mlflow.store import first_line

    try:
        folder = str(download_artifacts(artifact_uri=uri))
        load_model(folder)
    except (MlflowException, OSError) as error:
        raise ParameterError(f"{uri} cannot be served: {first_line(error)}") from error
    return folder


def add_model_arguments(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add the model and where it is registered."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?" if optional else None,
        help="a folder, models:/NAME@ALIAS, models:/NAME/VERSION, models:/ID or runs:/RUN_ID/NAME; "
        "or what 'rankplug show' has written of a model that was turned by hand",
    )
    parser.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="MLflow store to look in (default: MLFLOW_TRACKING_URI, else "
        "rankplug-output/mlflow.db if it exists, else MLflow's own default)",
    )


def use_tracking_store(tracking_uri: str | None) -> None:
    """Make MLflow look in the given store, else where ``rankplug run`` writes by default."""
    import mlflow

    from rankplug.mlflow.store import resolve_tracking_uri

    home = Path("rankplug-output")
    if tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or (home / "mlflow.db").exists():
        mlflow.set_tracking_uri(resolve_tracking_uri(home, tracking_uri))


def open_model(args: argparse.Namespace) -> Model:
    """The model that the arguments name; `ParameterError` if there is none."""
    from rankplug.exceptions import ParameterError
    from rankplug.models import load_model as load_saved_model
    from rankplug.models import read_adjustment

    if Path(args.model, "model.json").is_file():
        return load_saved_model(args.model)
    if Path(args.model).is_file():
        return read_adjustment(args.model, lambda base: open_model(naming(args, base)))

    from mlflow.exceptions import MlflowException

    import rankplug.mlflow
    from rankplug.mlflow.store import environment_defaults, first_line

    if ":/" not in args.model and not Path(args.model, "MLmodel").is_file():
        raise ParameterError(
            f"{args.model}: no such model: name a folder with a file MLmodel or model.json in it, "
            "a URI such as models:/NAME@champion, or a file that 'rankplug show' has written"
        )
    use_tracking_store(args.tracking_uri)
    try:
        with environment_defaults(MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR="false"):
            return rankplug.mlflow.load_model(args.model)
    except (MlflowException, OSError) as error:
        raise ParameterError(f"model {args.model}: {first_line(error)}") from error


def add_log_argument(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the run to which the result is logged."""
    parser.add_argument("--log-to", metavar="RUN_ID", help=f"MLflow run to log {what} to")


def naming(args: argparse.Namespace, model: str) -> argparse.Namespace:
    """The arguments, with another model."""
    return argparse.Namespace(**{**vars(args), "model": model})


def add_solvers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "list the solvers that are installed"
    parser = command_parser(commands, common, "solvers", text)
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(command=_solvers)


def _solvers(args: argparse.Namespace) -> int:
    from rankplug.report import text_table
    from rankplug.solver import list_solvers

    with warnings.catch_warnings():
        # The table says which solvers are broken, and why.
        warnings.simplefilter("ignore")
        solvers = list_solvers()
    if args.json:
        print(json.dumps([asdict(solver) for solver in solvers], indent=2))
        return 0
    header = ["solver", "tasks", "available", "problem"]
    rows = [
        [
            one.name,
            ", ".join(one.tasks),
            "yes" if one.available else "no",
            one.reason or one.problem,
        ]
        for one in solvers
    ]
    print(text_table(header, rows, "<<<<"))
    return 0
