"""The command line: ``rankplug run`` and ``rankplug solvers``.

Whatever is slow to import is imported by the command that needs it.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rankplug import __version__

__all__ = ["main"]

_FAILED, _MISTAKE, _INTERRUPTED = 1, 2, 130

_RUN_HELP = """\
recipes that come with rankplug: quickstart, label_ranking, letor, top_ranking, web_search
schema of a recipe: python -m pydoc rankplug.recipe

examples:
  rankplug run quickstart
  rankplug run letor --set data.train=train.txt --set data.valid=vali.txt --set data.test=test.txt
  rankplug run my.yaml --set solvers.tree-tron.params.C=0.1 --set "metrics=[ndcg@5, map]"

exit status: 0 all solvers ran, 1 some failed, 2 a mistake in recipe, data or options,
130 interrupted; in every case the report holds what was finished.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    args = _parser().parse_args(arguments)
    if args.debug:
        logging.basicConfig()
        logging.getLogger("rankplug").setLevel(logging.DEBUG)
    try:
        status: int = args.command(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has left, as head does; Python must not try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    except Exception as error:
        from rankplug.exceptions import RankplugError

        if args.debug or not isinstance(error, RankplugError):
            raise
        print(f"error: {error}", file=sys.stderr)
        return _MISTAKE
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rankplug", description="Train, compare and track rankers.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"rankplug {__version__}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands, common)
    _add_solvers(commands, common)
    return parser


def _add_run(commands: Any, common: argparse.ArgumentParser) -> None:
    text = "train and compare the solvers of a recipe"
    parser = commands.add_parser(
        "run",
        help=text,
        description=text.capitalize() + ".",
        epilog=_RUN_HELP,
        parents=[common],
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recipe", help="a YAML file, or the name of a recipe that comes along")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a dotted key of the recipe to a YAML value; may be repeated",
    )
    parser.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="MLflow tracking store (default: MLFLOW_TRACKING_URI, else mlflow.db in DIR, or in "
        "rankplug-output)",
    )
    parser.add_argument(
        "--output", metavar="DIR", help="folder for the report (default: rankplug-output/NAME-TIME)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bars")
    parser.set_defaults(command=_run)


def _add_solvers(commands: Any, common: argparse.ArgumentParser) -> None:
    text = "list the solvers that are installed"
    parser = commands.add_parser(
        "solvers", help=text, description=text.capitalize() + ".", parents=[common]
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(command=_solvers)


def _run(args: argparse.Namespace) -> int:
    # OpenMP's waiting threads otherwise take the processors from those that work: on a busy
    # machine XGBoost is several times slower. It is read when the library is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from rankplug.recipe_loader import load_recipe
    from rankplug.runner import default_output, run

    recipe = load_recipe(args.recipe, args.set)
    output = Path(args.output) if args.output else default_output(recipe)
    # After the recipe, so that its mistakes show before MLflow has loaded.
    from rankplug.mlflow.store import resolve_tracking_uri
    from rankplug.mlflow.tracking import MlflowObserver

    # Runs in default folders share a database: MLflow shows them side by side.
    home = output if args.output else output.parent
    observer = MlflowObserver(output, resolve_tracking_uri(home, args.tracking_uri))
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        report = run(recipe, observer=observer, progress=not args.quiet, output=output)
    print(report.to_text())
    print(f"report: {output / 'report.html'}")
    print(f"runs:   {_how_to_see(observer.tracking_uri)}")
    if report.interrupted:
        return _INTERRUPTED
    return _FAILED if report.failed else 0


def _how_to_see(tracking_uri: str) -> str:
    """A tracking server shows its runs itself, any other store needs one."""
    if tracking_uri.startswith("http"):
        return tracking_uri
    return f"mlflow ui --backend-store-uri {shlex.quote(tracking_uri)}"


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning in one line, above the progress bar if there is one."""
    from tqdm import tqdm

    tqdm.write(f"warning: {message}", file=sys.stderr)


def _solvers(args: argparse.Namespace) -> int:
    from rankplug.registry import list_solvers
    from rankplug.report import text_table

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
