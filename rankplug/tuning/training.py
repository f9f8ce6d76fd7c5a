"""A fold of a trial: training, with one C or along a path, and scores of the held-out queries."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from rankplug.metrics.evaluation import Measured
from rankplug.models import Model
from rankplug.solver import Solver, SolverResult, iterate_path
from rankplug.system.interruption import stopped_by
from rankplug.tuning.problem import Problem

__all__ = ["Stopped", "Trained", "Trainer", "train_here"]


class Stopped(Exception):  # noqa: N818 - no error, but the end
    """The study was told to stop while a candidate was being trained."""


@dataclass(frozen=True)
class Trained:
    """What came of training on a fold.

    Attributes
    ----------
    measured : Measured
        The metric of the held-out queries.
    seconds : float
    n_passes : float
        Full passes over the fold's training features.
    size : float
        Bytes of the saved model's files; 0 if the problem has no such cost.
    converged : bool
        Whether it ended before the solver's iteration limit.
    """

    measured: Measured
    seconds: float
    n_passes: float
    size: float
    converged: bool


Trainer: TypeAlias = Callable[
    [Problem, int, Solver, Sequence[float] | None, Callable[[], bool]], Generator[Trained]
]
"""Trains a solver on a fold, given by its number, or solves a path of C there, and yields a
`Trained` for each C (one alone without a path). Once the last argument, which is asked again and
again, returns true, it raises `Stopped`.
"""


def train_here(
    problem: Problem,
    number: int,
    solver: Solver,
    Cs: Sequence[float] | None,
    stopping: Callable[[], bool],
) -> Generator[Trained]:
    """The `Trainer` that works in this process."""
    fold = problem.folds[number]
    with closing(_results(problem, number, solver, Cs)) as results:
        for _ in Cs or (None,):
            started = time.perf_counter()
            with stopped_by(stopping):
                result = next(results, None)
            seconds = time.perf_counter() - started
            if result is None or result.interrupted or stopping():
                raise Stopped
            yield Trained(
                measured=problem.measure(fold.held_out, result.model.predict(fold.held_out.X)),
                seconds=seconds,
                n_passes=result.n_passes,
                size=_saved_size(result.model) if "size" in problem.costs else 0.0,
                converged=result.status != "max_iter",
            )


def _results(
    problem: Problem, number: int, solver: Solver, Cs: Sequence[float] | None
) -> Generator[SolverResult]:
    fold, seed = problem.folds[number], problem.seed
    if Cs is not None:
        yield from iterate_path(solver, fold.train, Cs, random_state=seed)
    else:
        yield solver.solve(fold.train, valid=fold.held_out, random_state=seed)


def _saved_size(model: Model) -> int:
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        return sum(file.stat().st_size for file in Path(folder, "model").iterdir())
