"""From a recipe to a report: every solver trained on the same data, every one scored alike."""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import RankingData
from rankplug.exceptions import ParameterError, RankplugError
from rankplug.metrics import evaluate, evaluate_labels, per_instance, per_query
from rankplug.recipe import Entry, Recipe
from rankplug.registry import make_solver
from rankplug.report import Outcome, Report
from rankplug.report_files import REPORT_FILES, write_report
from rankplug.scaling import ScaledModel, fit_scaling
from rankplug.solver import Data, Progress, Solver
from rankplug.splits import Splits, describe, load_splits, query_ids

__all__ = ["Observer", "Outcome", "ProgressBars", "default_output", "run"]

_log = logging.getLogger(__name__)


class Observer:
    """Is told how a run goes; every method may be overridden, none has to be.

    A run ends with `run_finished` or, if anything but a solver goes wrong, `run_failed`.
    """

    def run_started(self, recipe: Recipe, splits: Splits) -> None:
        """The data are loaded; `splits` has "train", maybe "valid", and "test"."""

    def solver_started(self, name: str, solver: Solver) -> None:
        """Training begins; `name` is the label, unique in the recipe."""

    def progress(self, name: str, progress: Progress) -> None:
        """An iteration has ended."""

    def solver_finished(self, outcome: Outcome, solver: Solver, splits: Splits) -> None:
        """Training and scoring ended, well or not (see ``outcome.status``)."""

    def run_finished(self, report: Report, output: Path) -> None:
        """All is done and the report's files are in `output`."""

    def run_failed(self, error: BaseException) -> None:
        """The run cannot go on."""


class ProgressBars(Observer):
    """A bar on the terminal for each solver, with the numbers of its last iteration."""

    def __init__(self) -> None:
        self._bar: Any = None

    def solver_started(self, name: str, solver: Solver) -> None:
        """Open the bar; it is hidden when the output is no terminal."""
        from tqdm import tqdm

        most = solver.get_params(deep=False).get(solver.iteration_limit)
        self._bar = tqdm(desc=name, total=most, unit="it", disable=None, leave=True)

    def progress(self, name: str, progress: Progress) -> None:
        """Move the bar to the iteration."""
        self._bar.set_postfix(
            {key: f"{value:.5g}" for key, value in progress.values.items()}, refresh=False
        )
        self._bar.update(progress.n_iter - self._bar.n)

    def solver_finished(self, outcome: Outcome, solver: Solver, splits: Splits) -> None:
        """Close the bar; a solver that needed fewer iterations than allowed ends it full."""
        if outcome.result is not None:
            self._bar.total = self._bar.n
        self._bar.set_postfix_str(outcome.status)
        self._bar.close()


def run(
    recipe: Recipe,
    *,
    observer: Observer | Iterable[Observer] = (),
    progress: bool = True,
    output: str | Path | None = None,
) -> Report:
    """Train and score every solver of a recipe, and write the report's files.

    A solver that fails becomes an outcome with the status "failed"; the others still run.
    When the user interrupts a solver (Ctrl-C), its outcome is "stopped", the rest is left out,
    and the report has `interrupted` set.

    Parameters
    ----------
    recipe : Recipe
    observer : Observer or several of them
    progress : bool
        Show a progress bar for each solver if standard error is a terminal.
    output : path, optional
        Folder for the report's files; `default_output` if left out.

    Raises
    ------
    DataError
        If the data cannot be read, or scaled, or the splits do not fit each other.
    ParameterError
        If the folder holds a report already or cannot be written.
    """
    folder = default_output(recipe) if output is None else Path(output)
    _require_no_report(folder)
    splits = load_splits(recipe)
    observers = [observer] if isinstance(observer, Observer) else list(observer)
    if progress:
        # First, so that a bar is closed before the others begin to write.
        observers.insert(0, ProgressBars())
    trainer = _Trainer(recipe, splits, observers)
    _make_folder(folder)
    try:
        for one in observers:
            one.run_started(recipe, splits)
        report = _compete(trainer, recipe, splits, observers, folder)
        for one in observers:
            one.run_finished(report, folder)
    except BaseException as error:
        for one in observers:
            one.run_failed(error)
        raise
    return report


def default_output(recipe: Recipe) -> Path:
    """``rankplug-output/NAME-DATE-TIME``, a folder that does not exist yet."""
    stem = f"{recipe.name}-{datetime.now():%Y%m%d-%H%M%S}"
    parent = Path("rankplug-output")
    names = (stem if number == 1 else f"{stem}-{number}" for number in itertools.count(1))
    return next(parent / name for name in names if not (parent / name).exists())


def _require_no_report(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"output: {folder} is a file; name a folder")
    there = [name for name in REPORT_FILES if (folder / name).exists()]
    if there:
        raise ParameterError(
            f"output: {folder} holds the report of an earlier run ({', '.join(there)}), which is "
            "not overwritten: name another folder"
        )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError(f"output: {folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise ParameterError(f"output: {folder} cannot be written to: name another folder")


def _compete(
    trainer: _Trainer,
    recipe: Recipe,
    splits: Splits,
    observers: Sequence[Observer],
    folder: Path,
) -> Report:
    """Run the solvers in turn and write the report, also of a part of them."""
    outcomes: list[Outcome] = []
    try:
        for entry in recipe.solvers:
            solver = make_solver(entry.solver, **entry.params)
            for one in observers:
                one.solver_started(entry.name, solver)
            outcomes.append(trainer.outcome(entry, solver))
            for one in observers:
                one.solver_finished(outcomes[-1], solver, splits)
            if outcomes[-1].interrupted:
                break
    finally:
        report = Report(
            name=recipe.name,
            metrics=recipe.metrics,
            outcomes=tuple(outcomes),
            recipe=recipe.to_yaml(),
            splits={split: describe(data) for split, data in splits.items()},
            query_ids=query_ids(splits["test"]),
            baseline=recipe.baseline,
        )
        write_report(report, folder)
    return report


class _Trainer:
    """Trains each solver on the same scaled data; models take the data as they are."""

    def __init__(self, recipe: Recipe, splits: Splits, observers: Sequence[Observer]) -> None:
        self._recipe = recipe
        self._splits = splits
        self._observers = observers
        self._scaling = fit_scaling(splits["train"].X, recipe.scale)
        self._train = self._scaled("train")
        self._valid = self._scaled("valid")

    def outcome(self, entry: Entry, solver: Solver) -> Outcome:
        """Train and score one solver, whatever happens."""
        outcome = Outcome(entry.name, entry.solver, solver.get_params(deep=False), "failed")
        try:
            trained = self._trained(outcome, solver)
            return _scored(trained, self._recipe.metrics, self._splits)
        except KeyboardInterrupt:
            return replace(outcome, status="stopped", error="interrupted by the user")
        except RankplugError as error:
            return replace(outcome, error=str(error))
        except Exception as error:
            _log.debug("%s failed", entry.name, exc_info=True)
            return replace(outcome, error=f"{type(error).__name__}: {error}".rstrip(": "))

    def _trained(self, outcome: Outcome, solver: Solver) -> Outcome:
        def tell(progress: Progress) -> None:
            for one in self._observers:
                one.progress(outcome.name, progress)

        wall, processor = time.perf_counter(), time.process_time()
        result = solver.solve(
            self._train, valid=self._valid, callback=tell, random_state=self._recipe.seed
        )
        seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - processor
        if self._scaling is not None:
            result = replace(result, model=ScaledModel(result.model, self._scaling))
        return replace(
            outcome,
            status=result.status,
            result=result,
            train_seconds=seconds,
            train_cpu_seconds=cpu_seconds,
        )

    def _scaled(self, split: str) -> Any:
        data = self._splits.get(split)
        return data if data is None or self._scaling is None else self._scaling.of(data)


def _scored(outcome: Outcome, metrics: Sequence[str], splits: Splits) -> Outcome:
    assert outcome.result is not None
    model = outcome.result.model
    means = {}
    for split, data in splits.items():
        started = time.perf_counter()
        scores = model.predict(data.X)
        seconds = time.perf_counter() - started
        means[split], values = _evaluate(data, scores, metrics)
    # The test set is the last of the splits.
    return replace(outcome, metrics=means, per_query=values, predict_seconds=seconds)


def _evaluate(
    data: Data, scores: NDArray[np.float64], metrics: Sequence[str]
) -> tuple[dict[str, float], dict[str, NDArray[np.float64]]]:
    if isinstance(data, RankingData):
        arguments = data.relevance, scores, data.qid, metrics
        return evaluate(*arguments), per_query(*arguments)
    labels = data.relevance, scores, metrics
    return evaluate_labels(*labels), per_instance(*labels)
