"""``rankplug run``: train and compare the solvers of a recipe."""

from __future__ import annotations

import argparse
from typing import Any

from rankplug.cli.recipe_runs import (
    EXIT_STATUS,
    add_command,
    carry_out,
    list_recipes,
    load,
    status_of,
)

__all__ = ["add"]

_HELP = """\
recipes that come with rankplug:
{recipes}
schema of a recipe: python -m pydoc rankplug.recipe

examples:
  rankplug run quickstart
  rankplug run letor --set data.train=train.txt --set data.valid=vali.txt --set data.test=test.txt
  rankplug run my.yaml --set solvers.tree-tron.params.C=0.1 --set "metrics=[ndcg@5, map]"
  rankplug run quickstart --set tune.n_trials=20

"""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    epilog = _HELP.format(recipes=list_recipes()) + EXIT_STATUS
    text = "train and compare the solvers of a recipe"
    parser = add_command(commands, common, "run", text, epilog)
    parser.add_argument(
        "recipe",
        nargs="?",
        help="a YAML file, or the name of a recipe that comes along; without it, these are listed",
    )
    parser.set_defaults(command=_run)


def _run(args: argparse.Namespace) -> int:
    if args.recipe is None:
        print(f"recipes that come with rankplug:\n{list_recipes()}\n\nrankplug run NAME runs one.")
        return 0
    return status_of(carry_out(load(args), args)[0])
