"""Bars on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rankplug.report import Outcome
from rankplug.runner.observer import Observer
from rankplug.solver import Progress, Solver
from rankplug.tuning import TuneObserver, TuneProgress

__all__ = ["ProgressBars"]


class ProgressBars(Observer):
    """A bar for each training, with the numbers of its last iteration.

    Nothing is shown when the output is no terminal.
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
        self._open(", ".join(filter(None, (name, part))), most, "it")

    def progress(self, name: str, progress: Progress) -> None:
        """Move the bar to the iteration."""
        self._bar.set_postfix(
            {key: f"{value:.5g}" for key, value in progress.values.items()}, refresh=False
        )
        self._bar.update(progress.n_iter - self._bar.n)

    def solver_finished(self, outcome: Outcome) -> None:
        """Show the status; a solver that needed fewer iterations than allowed ends full."""
        if self._bar is None:
            self._open(outcome.name, None, "it")
        self._bar.set_postfix_str(outcome.status)
        self._close()

    def _open(self, title: str, total: int | None, unit: str) -> None:
        from tqdm import tqdm

        self._bar = tqdm(desc=title, total=total, unit=unit, disable=None, leave=True)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.total = self._bar.n
            self._bar.close()
            self._bar = None
