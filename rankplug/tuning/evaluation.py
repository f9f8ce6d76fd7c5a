"""The quality of a candidate on held-out queries, fold by fold, for one C or for a path."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from rankplug.metrics.evaluation import Measured
from rankplug.solver import Solver
from rankplug.tuning.problem import Problem
from rankplug.tuning.records import PathStep, TrialStep
from rankplug.tuning.training import Trained, Trainer, train_here

__all__ = ["Candidate", "Evaluation"]

_SCORES_PER_FOLD = 500


@dataclass
class Candidate:
    """What is known of a solver with one value of C."""

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
    """Trains a solver on each fold, or solves its C path there, and scores the held-out queries.

    Parameters
    ----------
    solver : Solver
    problem : Problem
    Cs : sequence of float or None
        The path; None trains with the solver's own parameters.
    stopping : callable
        Asked again and again, also by the solver; once it is true, `steps` raises `Stopped`.
    trainer : Trainer
        Where the work is done.

    Attributes
    ----------
    candidates : list of Candidate
        One for each C of the path; one alone without a path.
    n_unconverged : int
        Trainings that ended at the iteration limit.
    """

    def __init__(
        self,
        solver: Solver,
        problem: Problem,
        Cs: Sequence[float] | None,
        stopping: Callable[[], bool],
        trainer: Trainer = train_here,
    ) -> None:
        self._solver = solver
        self._problem = problem
        self._Cs = Cs
        self._stopping = stopping
        self._trainer = trainer
        self.candidates = [Candidate(C) for C in Cs or (None,)]
        self.n_unconverged = 0

    def steps(self) -> Iterator[TrialStep]:
        """Train; a step for each fold, or for each C of each fold."""
        for number in range(len(self._problem.folds)):
            trained = self._trainer(self._problem, number, self._solver, self._Cs, self._stopping)
            with closing(trained):
                for candidate in self.candidates:
                    yield self._step(number, candidate, next(trained))

    @property
    def best(self) -> Candidate:
        """The C with the best value, the lowest of equals, among those scored on most folds."""
        most = max(len(candidate.measured) for candidate in self.candidates)
        sign = 1 if self._problem.metric.greater_is_better else -1

        def quality(candidate: Candidate) -> float:
            return -math.inf if math.isnan(candidate.value) else sign * candidate.value

        return max((c for c in self.candidates if len(c.measured) == most), key=quality)

    @property
    def seconds(self) -> float:
        """Training time so far."""
        return sum(candidate.seconds for candidate in self.candidates)

    @property
    def n_passes(self) -> float:
        """Passes over training features so far."""
        return sum(candidate.n_passes for candidate in self.candidates)

    def path(self) -> tuple[PathStep, ...]:
        """The values of C that were scored; none without a path."""
        return tuple(
            PathStep(candidate.C, candidate.value, candidate.seconds, candidate.n_passes)
            for candidate in self.candidates
            if candidate.C is not None and candidate.measured
        )

    def values(self) -> list[float]:
        """The objectives of the best C: the metric, then the costs."""
        n_folds = len(self._problem.folds)
        costs = {"seconds": self.best.seconds / n_folds, "size": self.best.size / n_folds}
        return [self.best.value, *(costs[name] for name in self._problem.costs)]

    def _step(self, number: int, candidate: Candidate, trained: Trained) -> TrialStep:
        candidate.measured.append(trained.measured)
        candidate.seconds += trained.seconds
        candidate.n_passes += trained.n_passes
        candidate.size += trained.size
        self.n_unconverged += not trained.converged
        return TrialStep(
            fold=number,
            n_folds=len(self._problem.folds),
            value=candidate.fold_values[-1],
            so_far=candidate.value,
            seconds=trained.seconds,
            n_passes=trained.n_passes,
            C=candidate.C,
            ends_fold=candidate is self.candidates[-1],
        )
