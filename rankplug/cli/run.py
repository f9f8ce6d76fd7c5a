"""``rankplug run``: train and compare the solvers of a recipe."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

from rankplug.cli.status import FAILED, INTERRUPTED

__all__ = ["add"]

_HELP = """\
recipes that come with rankplug: quickstart, label_ranking, letor, top_ranking, web_search
schema of a recipe: python -m pydoc rankplug.recipe

examples:
  rankplug run quickstart
  rankplug run letor --set data.train=train.txt --set data.valid=vali.txt --set data.test=test.txt
  rankplug run my.yaml --set solvers.tree-tron.params.C=0.1 --set "metrics=[ndcg@5, map]"

exit status: 0 all solvers ran, 1 some failed, 2 a mistake in recipe, data or options,
130 interrupted; in every case the report holds what was finished.
"""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "train and compare the solvers of a recipe"
    parser = commands.add_parser(
        "run",
        help=text,
        description=text.capitalize() + ".",
        epilog=_HELP,
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
        return INTERRUPTED
    return FAILED if report.failed else 0


def _how_to_see(tracking_uri: str) -> str:
    """A tracking server shows its runs itself, any other store needs one."""
    if tracking_uri.startswith("http"):
        return tracking_uri
    return f"mlflow ui --backend-store-uri {shlex.quote(tracking_uri)}"


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning in one line, above the progress bar if there is one."""
    from tqdm import tqdm

    tqdm.write(f"warning: {message}", file=sys.stderr)
