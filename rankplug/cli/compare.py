"""``rankplug compare``: whether differences between solvers are more than chance."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rankplug.cli.recipe_runs import EXIT_STATUS, add_command, carry_out, load, status_of

__all__ = ["add"]

_FOLDS = 5
_HELP = f"""\
Each solver is trained several times and compared with the baseline, query by query: difference
of the means with its interval, randomisation test, wins and losses. By default, unless the recipe
has a section 'compare', that is done in {_FOLDS} folds over all of the data; a query is never
divided, and label ranking is divided by instance.

examples:
  rankplug compare quickstart
  rankplug compare quickstart --baseline tree-tron --folds 10
  rankplug compare web_search --seeds 3 --set tune.n_trials=20

"""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "compare the solvers of a recipe with a baseline, with intervals and tests"
    parser = add_command(commands, common, "compare", text, _HELP + EXIT_STATUS)
    parser.add_argument("recipe", help="a YAML file, or the name of a recipe that comes along")
    parser.add_argument("--baseline", metavar="NAME", help="solver to compare the others with")
    repeats = parser.add_mutually_exclusive_group()
    repeats.add_argument("--folds", metavar="N", help="test every query once, in N folds")
    repeats.add_argument(
        "--seeds", metavar="N", type=int, help="use the recipe's splits, with N different seeds"
    )
    parser.set_defaults(command=_compare)


def _compare(args: argparse.Namespace) -> int:
    from rankplug.exceptions import RecipeError

    wished = [] if args.baseline is None else [f"baseline={json.dumps(args.baseline)}"]
    recipe = load(args, wished)
    if recipe.baseline is None:
        raise RecipeError("no baseline to compare with: --baseline NAME, or the key 'baseline'")
    if args.seeds is not None:
        seeds = list(range(recipe.seed, recipe.seed + args.seeds))
        wished.append(f"compare={{seeds: {seeds}}}")
    elif args.folds is not None or recipe.compare is None:
        wished.append(f"compare={{folds: {args.folds or _FOLDS}}}")
    return status_of(carry_out(load(args, wished), args, "compare")[0])
