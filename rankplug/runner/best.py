"""The parameters that tuning found, as a recipe that is ready to run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from rankplug.io.files import replacing
from rankplug.metrics import parse_metric
from rankplug.recipe import Recipe
from rankplug.report import Outcome

__all__ = ["BEST", "best_recipe", "best_tuned", "write_best"]

BEST = "best.yaml"


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
