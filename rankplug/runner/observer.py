"""Whoever wants to know how a run goes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rankplug.recipe import Recipe
from rankplug.report import Outcome, Report
from rankplug.runner.splits import Splits
from rankplug.solver import Progress, Solver
from rankplug.tuning import TuneObserver

__all__ = ["Observer", "Observers"]


class Observer:
    """Is told how a run goes; every method may be overridden, none has to be.

    A run ends with `run_finished` or, if anything but a solver goes wrong, `run_failed`. What is
    repeated is told by its `part`: "fold 1", "seed 7", or "" where nothing is repeated.
    """

    def run_started(self, recipe: Recipe, splits: Splits) -> None:
        """The data are loaded; `splits` has "train", maybe "valid", and "test"."""

    def solver_started(self, name: str, solver: Solver) -> None:
        """A solver's turn begins; `name` is the label, unique in the recipe."""

    def tuning_started(self, name: str, part: str) -> Iterable[TuneObserver]:
        """The solver is going to be tuned; returns who is told of the trials."""
        return ()

    def training_started(self, name: str, part: str, solver: Solver) -> None:
        """Training begins; `solver` has the parameters that tuning found."""

    def progress(self, name: str, progress: Progress) -> None:
        """An iteration has ended."""

    def solver_finished(self, outcome: Outcome) -> None:
        """The solver's turn ended, well or not (see ``outcome.status``)."""

    def run_finished(self, report: Report, output: Path) -> None:
        """All is done and the report's files are in `output`."""

    def run_failed(self, error: BaseException) -> None:
        """The run cannot go on."""


class Observers(Observer):
    """Tells several observers, in order."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = tuple(observers)

    def run_started(self, recipe: Recipe, splits: Splits) -> None:
        """Tell all."""
        for one in self._observers:
            one.run_started(recipe, splits)

    def solver_started(self, name: str, solver: Solver) -> None:
        """Tell all."""
        for one in self._observers:
            one.solver_started(name, solver)

    def tuning_started(self, name: str, part: str) -> Iterable[TuneObserver]:
        """Tell all; returns all who want to be told of the trials."""
        return [told for one in self._observers for told in one.tuning_started(name, part)]

    def training_started(self, name: str, part: str, solver: Solver) -> None:
        """Tell all."""
        for one in self._observers:
            one.training_started(name, part, solver)

    def progress(self, name: str, progress: Progress) -> None:
        """Tell all."""
        for one in self._observers:
            one.progress(name, progress)

    def solver_finished(self, outcome: Outcome) -> None:
        """Tell all."""
        for one in self._observers:
            one.solver_finished(outcome)

    def run_finished(self, report: Report, output: Path) -> None:
        """Tell all."""
        for one in self._observers:
            one.run_finished(report, output)

    def run_failed(self, error: BaseException) -> None:
        """Tell all."""
        for one in self._observers:
            one.run_failed(error)
