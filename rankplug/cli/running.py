"""Recipes of the command line: loaded, or made for a file of data, and run with tracking."""

from __future__ import annotations

import argparse
import gc
import json
import os
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rankplug.cli.shared import (
    FAILED,
    INTERRUPTED,
    UNTRACKED,
    add_notation_arguments,
    notation,
    show_warning,
)

if TYPE_CHECKING:
    from rankplug.mlflow.provenance import Repetition
    from rankplug.mlflow.tracking import MlflowObserver
    from rankplug.recipe import Recipe, Start
    from rankplug.report import Report
    from rankplug.runner import Observer
    from rankplug.tuning import TuneResult

_ROLES = ("label", "qid", "weight", "document_weight")


def load(args: argparse.Namespace, more: Iterable[str] = ()) -> Recipe:
    """The recipe of the command line, with what `more` sets beside ``--set``."""
    # OpenMP's waiting threads otherwise take the processors from those that work: on a busy
    # machine XGBoost is several times slower. It is read when the library is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    given = {role: getattr(args, role) for role in _ROLES} | notation(args)
    named = [f"data.{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    if args.recipe.startswith("runs:/"):
        return _repetition(args).recipe([*named, *args.set, *more])
    from rankplug.recipe import is_data, load_recipe, parse_recipe

    if not is_data(args.recipe):
        return load_recipe(args.recipe, [*named, *args.set, *more])
    if args.start is None:
        args.start = start_from(args.recipe, Path("recipe.yaml"), args)
    place, name = f"(recipe for {args.recipe})", data_name(args.recipe)
    return parse_recipe(args.start.text, name, place, Path.cwd(), [*args.set, *more])


def add_role_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the columns of the data with a role."""
    parser.add_argument(
        "--label", metavar="COLUMN", help="column of the relevance (default: label)"
    )
    parser.add_argument("--qid", metavar="COLUMN", help="column of the query ids (default: qid)")
    parser.add_argument("--weight", metavar="COLUMN", help="column of the query weights")
    parser.add_argument(
        "--document-weight", metavar="COLUMN", help="column of a weight for each row"
    )
    add_notation_arguments(parser)


def data_name(path: str) -> str:
    """What a recipe for a file is called: the file's name without endings."""
    return Path(path).absolute().name.lstrip(".").partition(".")[0] or "data"


def start_from(data: str, recipe: Path, args: argparse.Namespace) -> Start:
    """The recipe for a file of data, with what the command line says of it."""
    from rankplug.io.files import Notation
    from rankplug.recipe import first_recipe

    roles = {role: getattr(args, role) for role in _ROLES}
    return first_recipe(data, recipe, **roles, notation=Notation(**notation(args)).check())


def _repetition(args: argparse.Namespace) -> Repetition:
    """The run that is to be repeated; the new one goes to the same store."""
    from rankplug.mlflow.provenance import Repetition
    from rankplug.mlflow.store import resolve_tracking_uri

    if args.repetition is None:
        args.tracking_uri = resolve_tracking_uri(Path("rankplug-output"), args.tracking_uri)
        args.repetition = Repetition.of(args.recipe, args.tracking_uri)
    return args.repetition  # type: ignore[no-any-return]


def run_recipe(
    recipe: Recipe,
    args: argparse.Namespace,
    kind: str = "",
    search: Callable[..., TuneResult] | None = None,
) -> tuple[Report, Path, MlflowObserver]:
    """Run the recipe, tracked, and print the table; also returns the folder of the files.

    `kind` is a part of the name of the default folder.
    """
    from rankplug.recipe import OneFile
    from rankplug.report import to_text
    from rankplug.runner import DataLines, latest_output, new_output, run, where_to_look

    folder: AbstractContextManager[Path]
    if args.output:
        folder = nullcontext(Path(args.output))
    elif args.resume:
        folder = nullcontext(latest_output(recipe, kind))
    else:
        folder = new_output(recipe, kind)
    # After the recipe, so that its mistakes show before MLflow has loaded.
    from rankplug.mlflow.store import resolve_tracking_uri
    from rankplug.mlflow.tracking import MlflowObserver

    with folder as output, warnings.catch_warnings():
        # Runs in default folders share a database: MLflow shows them side by side.
        home = output if args.output else output.parent
        tracking_uri = resolve_tracking_uri(home, args.tracking_uri)
        observer = MlflowObserver(output, tracking_uri, spool=True)
        observers: list[Observer] = [DataLines(args.start.lines if args.start else ())]
        models = None
        if isinstance(recipe.data, OneFile):
            from rankplug.mlflow.models_folder import ModelsFolder

            models = ModelsFolder(output, resume=args.resume)
            observers.append(models)  # before MLflow's, as it may refuse the folder
        observers.append(observer)
        if args.repetition is not None:
            observer.tags |= args.repetition.tag
            observers.append(args.repetition)
        warnings.showwarning = show_warning
        # What is loaded by now stays: each training begins with a collection of garbage, which
        # would walk the half a million objects of the libraries every time.
        gc.freeze()
        report = run(
            recipe,
            observer=observers,
            progress=not args.quiet,
            output=output,
            resume=args.resume,
            search=search,
        )
    print(to_text(report))
    saved = () if models is None else models.lines()
    print("\n".join(where_to_look(recipe, output, observer.tracking_uri, saved)))
    return report, output, observer


def exit_status(report: Report, observer: MlflowObserver) -> int:
    """The exit status."""
    if report.interrupted:
        return INTERRUPTED
    if report.failed:
        return FAILED
    return 0 if observer.is_complete else UNTRACKED
