"""``rankplug train``: train one solver of a recipe and keep its model."""

from __future__ import annotations

import argparse
from typing import Any

from rankplug.cli.recipe_runs import EXIT_STATUS, add_command, carry_out, load, status_of
from rankplug.cli.tune import chosen

__all__ = ["add"]

_HELP = """\
The solver is trained on the recipe's training set and measured on its test set; the model goes to
DIR/model, as an MLflow model that 'rankplug predict', 'rankplug evaluate' and MLflow itself load.

examples:
  rankplug train quickstart --solver tree-tron --output out
  rankplug predict out/model test.txt -o scores.csv
  rankplug train quickstart --solver tree-tron --register digits

"""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "train one solver of a recipe and keep its model"
    parser = add_command(commands, common, "train", text, _HELP + EXIT_STATUS)
    parser.add_argument("recipe", help="a YAML file, or the name of a recipe that comes along")
    parser.add_argument(
        "--solver", metavar="NAME", help="which of the recipe's solvers (default: the first)"
    )
    parser.add_argument(
        "--register",
        metavar="NAME",
        help="register the model in MLflow, with the alias 'champion'",
    )
    parser.set_defaults(command=_train)


def _train(args: argparse.Namespace) -> int:
    recipe = load(args)
    recipe = chosen(recipe, [args.solver or recipe.solvers[0].name])
    report, output, observer = carry_out(recipe, args, "train")
    (outcome,) = report.outcomes
    if outcome.result is not None:
        from rankplug.mlflow import save_model

        folder = output / "model"
        save_model(outcome.result.model, folder)
        print(f"model:  {folder}")
        if args.register is not None:
            version = observer.register(outcome.name, args.register)
            print(f"        models:/{args.register}@champion, version {version}")
    return status_of(report)
