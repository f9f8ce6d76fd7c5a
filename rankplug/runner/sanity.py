"""Rankers that learn next to nothing: what does not beat them has learned nothing."""

from __future__ import annotations

from collections.abc import Iterator

from rankplug.data import RankingData
from rankplug.exceptions import SolverUnavailableError, UnknownNameError
from rankplug.recipe import Entry, Recipe
from rankplug.report import SANITY_SOLVERS
from rankplug.solver import Data, solver_class

__all__ = ["competitors"]


def competitors(recipe: Recipe, data: Data) -> tuple[Entry, ...]:
    """The entries of a recipe and, unless it has or declines them, the sanity rankers."""
    return recipe.solvers + tuple(_sanity_entries(recipe, data)) * recipe.sanity


def _sanity_entries(recipe: Recipe, data: Data) -> Iterator[Entry]:
    task = "query-document" if isinstance(data, RankingData) else "label-ranking"
    taken = {text for entry in recipe.solvers for text in (entry.solver, entry.name)}
    for solver in SANITY_SOLVERS:
        try:
            tasks = solver_class(solver).tags.tasks
        except (SolverUnavailableError, UnknownNameError):
            continue
        if task in tasks and solver not in taken:
            yield Entry(solver, solver)
