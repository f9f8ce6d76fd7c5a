"""Events of a run, and the observers that receive them, such as progress bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rankplug.recipe import Recipe
from rankplug.report import Outcome, Report
from rankplug.runner.splits import Splits
from rankplug.solver import Progress, Solver
from rankplug.system.bars import open_bar
from rankplug.tuning import TuneObserver, TuneProgress


class Observer:
    """Receives the events of a run; every method may be overridden, none has to be.

    First comes `data_loaded`, then `run_started`. A run ends with `run_finished` or, if anything
    but a solver goes wrong, `run_failed`. What is repeated is named by its `part`: "fold 1",
    "seed 7", or "" where nothing is repeated.
    """

    def data_loaded(self, lines: Sequence[str]) -> None:
        """The data are read; `lines` say what is used of them where the recipe left that open."""

    def run_started(self, recipe: Recipe, splits: Splits) -> None:
        """The data are loaded; `splits` has "train", maybe "valid", and "test"."""

    def solver_started(self, name: str, solver: Solver) -> None:
        """A solver's turn begins; `name` is the label, unique in the recipe."""

    def tuning_started(self, name: str, part: str) -> Iterable[TuneObserver]:
        """The solver is going to be tuned; returns the observers of its trials."""
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


class DataLines(Observer):
    """Prints what is used of the data.

    Parameters
    ----------
    before : sequence of str
        Lines that were known before the run.
    """

    def __init__(self, before: Sequence[str] = ()) -> None:
        self._before = tuple(before)

    def data_loaded(self, lines: Sequence[str]) -> None:
        """Print the lines, and an empty one."""
        if said := (*self._before, *lines):
            print("\n".join(said), end="\n\n", flush=True)


class ProgressBars(Observer):
    """A bar for each training, with the numbers of its last iteration.

    Nothing is shown when standard error is neither a terminal nor a notebook's.
    """

    def __init__(self) -> None:
        self._bar: Any = None

    def tuning_started(self, name: str, part: str) -> Iterable[TuneObserver]:
        """A bar of trials."""
        return (TuneProgress(),)

    def training_started(self, name: str, part: str, solver: Solver) -> None:
        """Open a bar."""
        self._close()
        most = solver.get_params(deep=False).get(solver.iteration_limit)
        self._open(", ".join(filter(None, (name, part))), most)

    def progress(self, name: str, progress: Progress) -> None:
        """Move the bar to the iteration."""
        self._bar.set_postfix(
            {key: f"{value:.5g}" for key, value in progress.values.items()}, refresh=False
        )
        self._bar.update(progress.n_iter - self._bar.n)

    def solver_finished(self, outcome: Outcome) -> None:
        """Show the status; a solver that needed fewer iterations than allowed ends full."""
        if self._bar is None:
            self._open(outcome.name)
        self._bar.set_postfix_str(outcome.status)
        self._close()

    def _open(self, title: str, total: int | None = None) -> None:
        self._bar = open_bar(desc=title, total=total)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.total = self._bar.n
            self._bar.close()
            self._bar = None
