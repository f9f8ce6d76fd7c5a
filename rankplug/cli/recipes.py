"""Commands that run a recipe: ``rankplug run``, ``train``, ``tune`` and ``compare``."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankplug.cli.running import add_role_arguments, exit_status, load, run_recipe
from rankplug.cli.shared import command_parser

if TYPE_CHECKING:
    from rankplug.mlflow.tracking import MlflowObserver
    from rankplug.recipe import Recipe
    from rankplug.tuning import TuneResult

_PATIENCE = 30.0  # seconds in which a Dask scheduler must have answered
_EXIT_STATUS = """\
exit status: 0 all solvers ran, 1 some failed, 2 a mistake in recipe, data or options,
3 all ran, but not everything could be logged to MLflow ('rankplug track DIR' sends what a
server did not take), 130 interrupted, 143 terminated; in every case the report holds what
was finished.
"""

_RUN_HELP = """\
recipes that come with rankplug:
{recipes}
schema of a recipe: python -m pydoc rankplug.recipe

examples:
  rankplug run searches.csv --label grade --qid query_id
  rankplug run quickstart
  rankplug run letor --set data.train=train.txt --set data.valid=vali.txt --set data.test=test.txt
  rankplug run my.yaml --set solvers.tree-tron.params.C=0.1 --set "metrics=[ndcg@5, map]"
  rankplug run quickstart --set tune.n_trials=20

"""


def add_run(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    epilog = _RUN_HELP.format(recipes=_list_recipes())
    text = "train and compare the solvers of a recipe"
    parser = _add_command(commands, common, "run", text, epilog, recipe_required=False)
    parser.set_defaults(command=_run)


def _run(args: argparse.Namespace) -> int:
    if args.recipe is None:
        print(f"recipes that come with rankplug:\n{_list_recipes()}\n\nrankplug run NAME runs one.")
        return 0
    report, _, observer = run_recipe(load(args), args)
    return exit_status(report, observer)


_TRAIN_HELP = """\
The solver is trained on the recipe's training set and measured on its test set; the model goes to
DIR/model, as an MLflow model that 'rankplug predict', 'rankplug evaluate' and MLflow itself load.

examples:
  rankplug train quickstart --solver tree-tron --output out
  rankplug predict out/model test.txt -o scores.csv
  rankplug train quickstart --solver tree-tron --register digits

"""


def add_train(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "train one solver of a recipe and keep its model"
    parser = _add_command(commands, common, "train", text, _TRAIN_HELP)
    parser.add_argument(
        "--solver", metavar="NAME", help="which of the recipe's solvers (default: the first)"
    )
    _add_register_argument(parser, "the model")
    parser.set_defaults(command=_train)


def _train(args: argparse.Namespace) -> int:
    recipe = load(args)
    recipe = _select_solvers(recipe, [args.solver or recipe.solvers[0].name])
    if args.output and not args.resume:
        from rankplug.runner import require_free

        require_free(Path(args.output, "model"))
    report, output, observer = run_recipe(recipe, args, "train")
    (outcome,) = report.outcomes
    if outcome.result is not None:
        from rankplug.mlflow.models_folder import put_model

        folder = output / "model"
        put_model(outcome.result.model, folder, replaces=args.resume)
        print(f"model:  {folder}")
        if args.register:
            print(f"        {_register(observer, outcome.name, args.register)}")
    return exit_status(report, observer)


_TRIALS = 30  # about ten for each of the two or three parameters that solvers have
_TUNE_HELP = f"""\
Every solver gets the same budget: that of the recipe's section 'tune', else {_TRIALS} trials. The
report shows what each spent and how it does on the test set with the best parameters, and
best.yaml in DIR is the recipe with these. A run that was killed goes on with --resume.

examples:
  rankplug tune quickstart
  rankplug tune quickstart --solver tree-tron --timeout 60 --output out
  rankplug tune quickstart --resume --n-trials 60
  rankplug tune quickstart --register digits

"""


def add_tune(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "find the best parameters of the solvers of a recipe"
    parser = _add_command(commands, common, "tune", text, _TUNE_HELP)
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
    _add_register_argument(parser, "the model of the best solver")
    parser.set_defaults(command=_tune)


def _tune(args: argparse.Namespace) -> int:
    recipe = _select_solvers(load(args, _tune_settings(args)), args.solver)
    with tune_on(args.dask) as search:
        report, output, observer = run_recipe(recipe, args, "tune", search)
    from rankplug.runner import BEST, best_tuned

    print(f"best:   rankplug run {shlex.quote(str(output / BEST))}")
    winner = best_tuned(report.outcomes)
    if args.register and winner is not None:
        print(f"model:  {_register(observer, winner, args.register)}: {winner}")
    return exit_status(report, observer)


def _register(observer: MlflowObserver, name: str, model: str) -> str:
    """Register a solver's model; returns where it is."""
    version = observer.register(name, model)
    number = "when 'rankplug track' has sent it" if version is None else f"version {version}"
    return f"models:/{model}@champion, {number}"


def _tune_settings(args: argparse.Namespace) -> list[str]:
    """The options as ``--set`` takes them, so that they are checked alike."""
    options = {
        "n_trials": args.n_trials,
        "timeout": args.timeout,
        "storage": json.dumps(args.storage) if args.storage else None,
    }
    settings = [f"tune.{key}={value}" for key, value in options.items() if value is not None]
    if args.n_trials is None and args.timeout is None and load(args).tune is None:
        settings.append(f"tune.n_trials={_TRIALS}")
    return settings


def _select_solvers(recipe: Recipe, names: list[str] | None) -> Recipe:
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


_MOST_SEEDS = 1000  # as a recipe may have
_FOLDS = 5  # the default of scikit-learn's cross-validation
_COMPARE_HELP = f"""\
Each solver is trained several times and compared with the baseline, query by query: difference
of the means with its interval, randomisation test, wins and losses. By default, unless the recipe
has a section 'compare', that is done in {_FOLDS} folds over all of the data; a query is never
divided, and label ranking is divided by instance.

examples:
  rankplug compare quickstart
  rankplug compare quickstart --baseline tree-tron --folds 10
  rankplug compare web_search --seeds 3 --set tune.n_trials=20

"""


def add_compare(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "compare the solvers of a recipe with a baseline, with intervals and tests"
    parser = _add_command(commands, common, "compare", text, _COMPARE_HELP)
    parser.add_argument("--baseline", metavar="NAME", help="solver to compare the others with")
    repeats = parser.add_mutually_exclusive_group()
    repeats.add_argument("--folds", metavar="N", help="test every query once, in N folds")
    repeats.add_argument(
        "--seeds", metavar="N", type=int, help="use the recipe's splits, with N different seeds"
    )
    parser.set_defaults(command=_compare)


def _compare(args: argparse.Namespace) -> int:
    from rankplug.exceptions import RecipeError

    settings = [] if args.baseline is None else [f"baseline={json.dumps(args.baseline)}"]
    recipe = load(args, settings)
    if recipe.baseline is None:
        raise RecipeError("no baseline to compare with: --baseline NAME, or the key 'baseline'")
    if args.seeds is not None:
        if args.seeds > _MOST_SEEDS:
            raise RecipeError(f"--seeds {args.seeds}: at most {_MOST_SEEDS}")
        seeds = list(range(recipe.seed, recipe.seed + args.seeds))
        settings.append(f"compare={{seeds: {seeds}}}")
    elif args.folds is not None or recipe.compare is None:
        settings.append(f"compare={{folds: {args.folds or _FOLDS}}}")
    report, _, observer = run_recipe(load(args, settings), args, "compare")
    return exit_status(report, observer)


def _add_command(
    commands: Any,
    common: argparse.ArgumentParser,
    name: str,
    text: str,
    epilog: str,
    *,
    recipe_required: bool = True,
) -> argparse.ArgumentParser:
    """Add a command with the arguments that all these commands have."""
    parser = command_parser(commands, common, name, text, epilog + _EXIT_STATUS)
    recipe = "a YAML file, the name of a recipe that comes along, or a file of data, from which a "
    recipe += "recipe is made"
    if recipe_required:
        parser.add_argument("recipe", help=recipe)
    else:
        parser.add_argument("recipe", nargs="?", help=f"{recipe}; without it, recipes are listed")
    add_role_arguments(parser)
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
    parser.set_defaults(repetition=None, start=None)
    return parser


def _add_register_argument(parser: argparse.ArgumentParser, model: str) -> None:
    parser.add_argument(
        "--register",
        metavar="NAME",
        help=f"register {model} in MLflow, with the alias 'champion' (default: do not)",
    )


def _list_recipes() -> str:
    """The recipes that come with rankplug, a line each."""
    from rankplug_recipes import packaged_recipes, summary

    recipes = packaged_recipes()
    width = max(map(len, recipes))
    return "\n".join(f"  {name:{width}}  {summary(file)}" for name, file in recipes.items())


@contextmanager
def tune_on(address: str | None) -> Iterator[Callable[..., TuneResult] | None]:
    """`rankplug.tune` with its trials on the Dask cluster of a scheduler; None without an address.

    Raises
    ------
    ClusterError
        If no scheduler answers there.
    ParameterError
        If Dask is not installed.
    """
    if address is None:
        yield None
        return
    from rankplug.exceptions import ClusterError, ParameterError

    try:
        from distributed import Client

        from rankplug.dask import tune as tune_there
    except ImportError as error:
        raise ParameterError(f"--dask: {error}") from None
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(f"--dask {address}: no Dask scheduler answers there ({error})") from None
    with client:
        yield partial(tune_there, client=client)
