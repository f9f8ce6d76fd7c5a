"""The output folder of a run, and the recipe with the best parameters that is written there."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from rankplug.exceptions import ParameterError
from rankplug.io.files import replacing
from rankplug.metrics import parse_metric
from rankplug.recipe import Recipe
from rankplug.report import REPORT_FILES, Outcome
from rankplug.tuning import JOURNAL

__all__ = [
    "BEST",
    "best_recipe",
    "best_tuned",
    "default_output",
    "latest_output",
    "make_folder",
    "require_no_report",
    "write_best",
]

HOME = Path("rankplug-output")
BEST = "best.yaml"


def default_output(recipe: Recipe, kind: str = "") -> Path:
    """``rankplug-output/NAME-KIND-DATE-TIME``, a folder that does not exist yet."""
    stem = f"{_prefix(recipe, kind)}{datetime.now():%Y%m%d-%H%M%S}"
    names = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    return next(HOME / name for name in names if not (HOME / name).exists())


def latest_output(recipe: Recipe, kind: str = "") -> Path:
    """The default folder of the recipe in which tuning was last at work.

    Raises
    ------
    ParameterError
        If there is none.
    """
    ours = re.compile(rf"{re.escape(_prefix(recipe, kind))}\d{{8}}-\d{{6}}(-\d+)?")
    journals = [
        journal for journal in HOME.glob(f"*/{JOURNAL}") if ours.fullmatch(journal.parent.name)
    ]
    if not journals:
        raise ParameterError(
            f"resume: no folder {HOME / _prefix(recipe, kind)}... has a {JOURNAL}: name the folder "
            "with --output"
        )
    return max(journals, key=lambda journal: journal.stat().st_mtime).parent


def _prefix(recipe: Recipe, kind: str) -> str:
    return f"{recipe.name}-{kind}-" if kind else f"{recipe.name}-"


def require_no_report(folder: Path) -> None:
    """Raise `ParameterError` if a report would be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"output: {folder} is a file; name a folder")
    there = [name for name in REPORT_FILES if (folder / name).exists()]
    if there:
        raise ParameterError(
            f"output: {folder} holds the report of an earlier run ({', '.join(there)}), which is "
            "not overwritten: name another folder"
        )


def make_folder(folder: Path) -> None:
    """Make the folder if need be; raise `ParameterError` if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"output: {folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise ParameterError(f"output: {folder} cannot be written to: name another folder")


def best_recipe(recipe: Recipe, outcomes: Iterable[Outcome]) -> Recipe:
    """The recipe with the best parameters of each outcome that was tuned, and without tuning."""
    found = {
        outcome.name: outcome.tuning.best_params
        for outcome in outcomes
        if outcome.tuning is not None
    }
    solvers = tuple(
        replace(entry, params={**entry.params, **entry.held, **found.get(entry.name, {})}, space={})
        for entry in recipe.solvers
    )
    return replace(recipe, solvers=solvers, tune=None)


def best_tuned(outcomes: Iterable[Outcome]) -> str | None:
    """Name of the solver with the best value in tuning, as the test set must not choose."""
    values = {
        outcome.name: (outcome.tuning.best_value, outcome.tuning.metric)
        for outcome in outcomes
        if outcome.tuning is not None and outcome.result is not None
    }

    def quality(name: str) -> float:
        value, metric = values[name]
        return value if parse_metric(metric).greater_is_better else -value

    return max(values, key=quality, default=None)


def write_best(recipe: Recipe, outcomes: Iterable[Outcome], folder: Path) -> None:
    """Write `best_recipe` into a folder, whole or not at all."""
    with replacing(folder / BEST) as stream:
        stream.write(best_recipe(recipe, outcomes).to_yaml().encode())
