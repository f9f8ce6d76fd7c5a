"""``rankplug tune``: find the parameters of a recipe's solvers."""

from __future__ import annotations

import argparse
import json
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rankplug.cli.recipe_runs import EXIT_STATUS, add_command, carry_out, load, status_of

if TYPE_CHECKING:
    from rankplug.recipe import Recipe

__all__ = ["add", "chosen"]

_TRIALS = 30
_HELP = f"""\
Every solver gets the same budget: that of the recipe's section 'tune', else {_TRIALS} trials. The
report shows what each spent and how it does on the test set with the best parameters, and
best.yaml in DIR is the recipe with these. A run that was killed goes on with --resume.

examples:
  rankplug tune quickstart
  rankplug tune quickstart --solver tree-tron --timeout 60 --output out
  rankplug tune quickstart --resume --n-trials 60
  rankplug tune quickstart --register digits

"""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "find the best parameters of the solvers of a recipe"
    parser = add_command(commands, common, "tune", text, _HELP + EXIT_STATUS)
    parser.add_argument("recipe", help="a YAML file, or the name of a recipe that comes along")
    parser.add_argument(
        "--solver",
        action="append",
        metavar="NAME",
        help="tune this one only; may be repeated (default: all)",
    )
    parser.add_argument("--n-trials", metavar="N", help="trials of each solver, in all")
    parser.add_argument("--timeout", metavar="SECONDS", help="time for each solver")
    parser.add_argument(
        "--storage", metavar="URL", help="database for the studies (default: a file in DIR)"
    )
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="run the trials on the Dask cluster of this scheduler, such as tcp://10.0.0.1:8786",
    )
    parser.add_argument(
        "--register",
        metavar="NAME",
        help="register the model of the best solver in MLflow, with the alias 'champion'",
    )
    parser.set_defaults(command=_tune)


def _tune(args: argparse.Namespace) -> int:
    recipe = chosen(load(args, _wished(args)), args.solver)
    report, output, observer = carry_out(recipe, args, "tune")
    from rankplug.runner import BEST, best_tuned

    print(f"best:   rankplug run {shlex.quote(str(output / BEST))}")
    winner = best_tuned(report.outcomes)
    if args.register is not None and winner is not None:
        version = observer.register(winner, args.register)
        print(f"model:  models:/{args.register}@champion, version {version}: {winner}")
    return status_of(report)


def _wished(args: argparse.Namespace) -> list[str]:
    """The options as assignments, so that they are checked alike."""
    options = {
        "n_trials": args.n_trials,
        "timeout": args.timeout,
        "storage": json.dumps(args.storage) if args.storage else None,
    }
    wished = [f"tune.{key}={value}" for key, value in options.items() if value is not None]
    if args.n_trials is None and args.timeout is None and load(args).tune is None:
        wished.append(f"tune.n_trials={_TRIALS}")
    return wished


def chosen(recipe: Recipe, names: list[str] | None) -> Recipe:
    """The recipe with these solvers only, trained and tested once."""
    from rankplug.exceptions import UnknownNameError

    known = [entry.name for entry in recipe.solvers]
    for name in names or ():
        if name not in known:
            raise UnknownNameError("solver of the recipe", name, known)
    kept = known if names is None else names
    return replace(
        recipe,
        solvers=tuple(entry for entry in recipe.solvers if entry.name in kept),
        baseline=recipe.baseline if recipe.baseline in kept else None,
        sanity=False,
        compare=None,
    )
