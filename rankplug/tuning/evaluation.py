"""The quality of a candidate on held-out queries, fold by fold, for one C or for a path."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.metrics import Metric
from rankplug.metrics.evaluation import Measured, measure_instances, measure_queries
from rankplug.models import Model
from rankplug.solver import Data, Solver, SolverResult, iterate_path
from rankplug.tuning.folds import Fold
from rankplug.tuning.records import Cost, PathStep, TrialStep

__all__ = ["Candidate", "Evaluation", "Problem", "Stopped", "saved_size"]

_SCORES_PER_FOLD = 500


class Stopped(Exception):  # noqa: N818 - no error, but the end
    """The study was told to stop while a candidate was being trained."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What candidates are compared on."""

    folds: tuple[Fold, ...]
    metric: Metric
    costs: tuple[Cost, ...]
    seed: int

    def check_metric(self) -> None:
        """Raise `DataError` if the metric has no value for the held-out queries."""
        parts = [fold.held_out for fold in self.folds]
        values = [self.measure(part, _constant_scores(part)).values for part in parts]
        if np.isnan(np.concatenate(values)).all():
            raise DataError(
                f"{self.metric} is undefined for every held-out query: choose another metric, or "
                "check the relevance"
            )

    def measure(self, data: Data, scores: NDArray[np.float64]) -> Measured:
        """The metric of each query, and how much it counts."""
        name = str(self.metric)
        if isinstance(data, RankingData):
            return measure_queries(data.relevance, scores, data.qid, name)[name]
        return measure_instances(data.relevance, scores, name)[name]


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
        Asked again and again; once it is true, `steps` raises `Stopped`.

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
    ) -> None:
        self._solver = solver
        self._problem = problem
        self._Cs = Cs
        self._stopping = stopping
        self.candidates = [Candidate(C) for C in Cs or (None,)]
        self.n_unconverged = 0

    def steps(self) -> Iterator[TrialStep]:
        """Train; a step for each fold, or for each C of each fold."""
        for number, fold in enumerate(self._problem.folds):
            with closing(self._results(fold)) as results:
                for candidate in self.candidates:
                    started = time.perf_counter()
                    result = next(results)
                    seconds = time.perf_counter() - started
                    if self._stopping():
                        raise Stopped
                    yield self._step(number, candidate, result, seconds)

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

    def _results(self, fold: Fold) -> Generator[SolverResult]:
        seed = self._problem.seed
        if self._Cs is not None:
            yield from iterate_path(self._solver, fold.train, self._Cs, random_state=seed)
        else:
            yield self._solver.solve(
                fold.train,
                valid=fold.held_out,
                callback=lambda _: self._stopping(),
                random_state=seed,
            )

    def _step(
        self, number: int, candidate: Candidate, result: SolverResult, seconds: float
    ) -> TrialStep:
        fold = self._problem.folds[number]
        scores = result.model.predict(fold.held_out.X)
        candidate.measured.append(self._problem.measure(fold.held_out, scores))
        candidate.seconds += seconds
        candidate.n_passes += result.n_passes
        if "size" in self._problem.costs:
            candidate.size += saved_size(result.model)
        self.n_unconverged += result.status == "max_iter"
        return TrialStep(
            fold=number,
            n_folds=len(self._problem.folds),
            value=candidate.fold_values[-1],
            so_far=candidate.value,
            seconds=seconds,
            n_passes=result.n_passes,
            C=candidate.C,
            ends_fold=candidate is self.candidates[-1],
        )


def saved_size(model: Model) -> int:
    """Bytes of the files of the saved model."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        return sum(file.stat().st_size for file in Path(folder, "model").iterdir())


def _constant_scores(data: Data) -> NDArray[np.float64]:
    return np.zeros(data.relevance.shape)
