"""What the commands that run a recipe have in common."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankplug.cli.dask import tuning_on
from rankplug.cli.parsers import command_parser
from rankplug.cli.status import FAILED, INTERRUPTED

if TYPE_CHECKING:
    from rankplug.mlflow.provenance import Repetition
    from rankplug.mlflow.tracking import MlflowObserver
    from rankplug.recipe import Recipe
    from rankplug.report import Report
    from rankplug.runner import Observer

__all__ = ["EXIT_STATUS", "add_command", "carry_out", "list_recipes", "load", "status_of"]

EXIT_STATUS = """\
exit status: 0 all solvers ran, 1 some failed, 2 a mistake in recipe, data or options,
130 interrupted, 143 terminated; in every case the report holds what was finished.
"""


def add_command(
    commands: Any, common: argparse.ArgumentParser, name: str, text: str, epilog: str
) -> argparse.ArgumentParser:
    """A parser with the options that all these commands have."""
    parser = command_parser(commands, common, name, text, epilog)
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
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the tuning studies in DIR, by default the latest such folder",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bars")
    parser.set_defaults(repetition=None, dask=None)
    return parser


def list_recipes() -> str:
    """The recipes that come with rankplug, a line each."""
    from rankplug.recipe.packaged import packaged_recipes, summary

    recipes = packaged_recipes()
    width = max(map(len, recipes))
    return "\n".join(f"  {name:{width}}  {summary(file)}" for name, file in recipes.items())


def load(args: argparse.Namespace, more: Iterable[str] = ()) -> Recipe:
    """The recipe of the command line, with what `more` sets beside ``--set``."""
    # OpenMP's waiting threads otherwise take the processors from those that work: on a busy
    # machine XGBoost is several times slower. It is read when the library is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if args.recipe.startswith("runs:/"):
        return _repetition(args).recipe([*args.set, *more])
    from rankplug.recipe.loader import load_recipe

    return load_recipe(args.recipe, [*args.set, *more])


def _repetition(args: argparse.Namespace) -> Repetition:
    """The run that is to be repeated; the new one goes to the same store."""
    from rankplug.mlflow.provenance import Repetition
    from rankplug.mlflow.store import resolve_tracking_uri

    if args.repetition is None:
        args.tracking_uri = resolve_tracking_uri(Path("rankplug-output"), args.tracking_uri)
        args.repetition = Repetition.of(args.recipe, args.tracking_uri)
    return args.repetition  # type: ignore[no-any-return]


def carry_out(
    recipe: Recipe, args: argparse.Namespace, kind: str = ""
) -> tuple[Report, Path, MlflowObserver]:
    """Run the recipe, tracked, and print the table; also returns the folder of the files.

    `kind` is a part of the name of the default folder.
    """
    from rankplug.report import to_text
    from rankplug.runner import default_output, latest_output, run

    if args.output:
        output = Path(args.output)
    else:
        output = (latest_output if args.resume else default_output)(recipe, kind)
    # After the recipe, so that its mistakes show before MLflow has loaded.
    from rankplug.mlflow.store import resolve_tracking_uri
    from rankplug.mlflow.tracking import MlflowObserver

    # Runs in default folders share a database: MLflow shows them side by side.
    home = output if args.output else output.parent
    observer = MlflowObserver(output, resolve_tracking_uri(home, args.tracking_uri))
    observers: list[Observer] = [observer]
    if args.repetition is not None:
        observer.tags |= args.repetition.tag
        observers.append(args.repetition)
    with tuning_on(args.dask) as search, warnings.catch_warnings():
        warnings.showwarning = _show_warning
        report = run(
            recipe,
            observer=observers,
            progress=not args.quiet,
            output=output,
            resume=args.resume,
            search=search,
        )
    print(to_text(report))
    print(f"report: {output / 'report.html'}")
    print(f"runs:   {_how_to_see(observer.tracking_uri)}")
    return report, output, observer


def status_of(report: Report) -> int:
    """The exit status."""
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
