"""Training and scoring of candidates: one fold in this process, and the results of a trial."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from rankplug.metrics import Measured
from rankplug.models import saved_size
from rankplug.solver import Solver, SolverResult, iterate_path
from rankplug.system.interruption import stopped_by
from rankplug.tuning.folds import TuningTask
from rankplug.tuning.records import PathStep, TrialStep

__all__ = ["Candidate", "Evaluation", "FoldResult", "Stopped", "Trainer", "train_here"]

# Kept of each fold for the test of the pruner: enough for its power, and little to store.
_SCORES_PER_FOLD = 500


class Stopped(Exception):  # noqa: N818 - no error, but the end
    """The study was told to stop while a candidate was being trained."""


@dataclass(frozen=True)
class FoldResult:
    """The result of training with one C on one fold.

    Attributes
    ----------
    measured : Measured
        The metric of the held-out queries.
    seconds : float
    n_passes : float
        Full passes over the fold's training features.
    size : float
        Bytes of the saved model's files; 0 if the task has no such cost.
    converged : bool
        Whether it ended before the solver's iteration limit.
    """

    measured: Measured
    seconds: float
    n_passes: float
    size: float
    converged: bool


Trainer: TypeAlias = Callable[
    [TuningTask, int, Solver, Sequence[float] | None, Callable[[], bool]], Generator[FoldResult]
]
"""Trains a solver on a fold, given by its number, or solves a path of C there, and yields a
`FoldResult` for each C (one alone without a path). Once the last argument, which is asked again and
again, returns true, it raises `Stopped`.
"""


def train_here(
    task: TuningTask,
    number: int,
    solver: Solver,
    Cs: Sequence[float] | None,
    stopping: Callable[[], bool],
) -> Generator[FoldResult]:
    """The `Trainer` that works in this process."""
    fold = task.folds[number]
    with closing(_solve(task, number, solver, Cs)) as results:
        for _ in Cs or (None,):
            started = time.perf_counter()
            with stopped_by(stopping):
                result = next(results, None)
            seconds = time.perf_counter() - started
            if result is None or result.interrupted or stopping():
                raise Stopped
            yield FoldResult(
                measured=task.measure(fold.held_out, result.model.predict(fold.held_out.X)),
                seconds=seconds,
                n_passes=result.n_passes,
                size=saved_size(result.model) if "size" in task.costs else 0.0,
                converged=result.status != "max_iter",
            )


def _solve(
    task: TuningTask, number: int, solver: Solver, Cs: Sequence[float] | None
) -> Generator[SolverResult]:
    fold, seed = task.folds[number], task.seed
    if Cs is not None:
        yield from iterate_path(solver, fold.train, Cs, random_state=seed)
    else:
        yield solver.solve(fold.train, valid=fold.held_out, random_state=seed)


@dataclass
class Candidate:
    """The results of a solver with one value of C on the folds so far."""

    C: float | None
    measured: list[Measured] = field(default_factory=list)
    seconds: float = 0.0
    n_passes: float = 0.0
    size: float = 0.0

    @property
    def value(self) -> float:
        """The metric over all held-out queries so far; NaN while it is undefined for them."""
        if not self.measured:
            return math.nan
        values = np.concatenate([fold.values for fold in self.measured])
        weights = np.concatenate([fold.weights for fold in self.measured])
        return Measured(values, weights).mean()

    @property
    def fold_values(self) -> tuple[float, ...]:
        """The metric of each fold."""
        return tuple(fold.mean() for fold in self.measured)

    def scores(self) -> dict[int, float]:
        """The defined values of single queries, of each fold up to 500 spread over it."""
        scores, start = {}, 0
        for fold in self.measured:
            stride = -(-len(fold.values) // _SCORES_PER_FOLD)
            for query in range(0, len(fold.values), stride):
                if not np.isnan(fold.values[query]):
                    scores[start + query] = float(fold.values[query])
            start += len(fold.values)
        return scores


class Evaluation:
    """The results of a trial so far.

    Parameters
    ----------
    task : TuningTask
    Cs : sequence of float or None
        The path; None if the solver's own parameters are all there is to train with.

    Attributes
    ----------
    candidates : list of Candidate
        One for each C of the path; one alone without a path.
    n_unconverged : int
        Trainings that ended at the iteration limit.
    """

    def __init__(self, task: TuningTask, Cs: Sequence[float] | None) -> None:
        self._task = task
        self.candidates = [Candidate(C) for C in Cs or (None,)]
        self.n_unconverged = 0

    @property
    def best(self) -> Candidate:
        """The C with the best value, the lowest of equals, among those scored on most folds."""
        most = max(len(candidate.measured) for candidate in self.candidates)
        sign = 1 if self._task.metric.greater_is_better else -1

        def quality(candidate: Candidate) -> float:
            return -math.inf if math.isnan(candidate.value) else sign * candidate.value

        return max((c for c in self.candidates if len(c.measured) == most), key=quality)

    def add(self, fold: int, candidate: Candidate, result: FoldResult) -> TrialStep:
        """Take in the result of a candidate on a fold."""
        candidate.measured.append(result.measured)
        candidate.seconds += result.seconds
        candidate.n_passes += result.n_passes
        candidate.size += result.size
        self.n_unconverged += not result.converged
        return TrialStep(
            fold=fold,
            n_folds=len(self._task.folds),
            value=candidate.fold_values[-1],
            so_far=candidate.value,
            seconds=result.seconds,
            n_passes=result.n_passes,
            C=candidate.C,
            ends_fold=candidate is self.candidates[-1],
        )

    def values(self) -> list[float]:
        """The objectives of the best C: the metric, then the costs."""
        n_folds = len(self._task.folds)
        costs = {"seconds": self.best.seconds / n_folds, "size": self.best.size / n_folds}
        return [self.best.value, *(costs[name] for name in self._task.costs)]

    def details(self) -> dict[str, Any]:
        """The fields of a `TrialRecord` that Optuna's trials do not have, as plain values."""
        return {
            "fold_values": self.best.fold_values,
            "path": [
                vars(PathStep(one.C, one.value, one.seconds, one.n_passes))
                for one in self.candidates
                if one.C is not None and one.measured
            ],
            "seconds": sum(one.seconds for one in self.candidates),
            "n_passes": sum(one.n_passes for one in self.candidates),
            "n_unconverged": self.n_unconverged,
        }
