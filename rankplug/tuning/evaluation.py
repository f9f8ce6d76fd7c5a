"""The task of tuning, and candidates: folds of whole queries, trained on and scored one by one."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.data import ImputeName, ScaleName
from rankplug.exceptions import DataError, ParameterError
from rankplug.metrics import Measured, Metric, measure_data
from rankplug.models import ScaledParts, saved_size, scale_parts
from rankplug.parameters import Integer
from rankplug.solver import Data, Solver, SolverResult, iterate_path
from rankplug.system.interruption import stopped_by
from rankplug.tuning.records import Cost, PathStep, TrialStep

# Kept of each fold for the test of the pruner: enough for its power, and little to store.
_SCORES_PER_FOLD = 500
_SHORT = 1.0  # seconds: dashboards do not look more often


@dataclass(frozen=True, eq=False)
class Fold:
    """Two parts without a common query, both scaled as the first one asks for."""

    train: Data
    held_out: Data

    @classmethod
    def of(cls, parts: ScaledParts) -> Self:
        """A training set and its validation set."""
        assert parts.valid is not None
        return cls(parts.train, parts.valid)


@dataclass(frozen=True, eq=False)
class TuningTask:
    """What candidates are compared on; see `rankplug.tune`.

    A pickled one is as large as its data: what is scaled or cut into folds are copies, which are
    made again.
    """

    data: Data
    valid: Data | None
    n_folds: int
    scale: ScaleName
    metric: Metric
    costs: tuple[Cost, ...]
    seed: int
    impute: ImputeName = "none"

    @cached_property
    def whole(self) -> ScaledParts:
        """All of the data, scaled; `rankplug.models.scaling_for` says what it raises."""
        return scale_parts(self.data, self.valid, self.scale, self.impute)

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        """The one fold of `data` and `valid`, or `n_folds` of `data` alone (see `make_folds`)."""
        if self.valid is None:
            return make_folds(self.data, self.n_folds, self.seed, self.scale, self.impute)
        return (Fold.of(self.whole),)

    def __getstate__(self) -> dict[str, Any]:
        copies = ("whole", "folds")
        return {name: value for name, value in vars(self).items() if name not in copies}

    def setup(self) -> dict[str, Any]:
        """What has to be the same for trials to be comparable, as plain values."""
        return {
            "data": _digest(self.data),
            "valid": None if self.valid is None else _digest(self.valid),
            "folds": len(self.folds),
            "metric": str(self.metric),
            "costs": list(self.costs),
            "seed": self.seed,
            "scale": self.scale,
            **({} if self.impute == "none" else {"impute": self.impute}),  # 0.1 had none
        }

    def check_metric(self) -> None:
        """Raise `DataError` if the metric has no value for the held-out queries."""
        parts = [fold.held_out for fold in self.folds]
        values = [self.measure(part, np.zeros(part.relevance.shape)).values for part in parts]
        if np.isnan(np.concatenate(values)).all():
            raise DataError(
                f"{self.metric} is undefined for every held-out query: choose another metric, or "
                "check the relevance"
            )

    def measure(self, data: Data, scores: NDArray[np.float64]) -> Measured:
        """The metric of each query, and how much it counts."""
        name = str(self.metric)
        return measure_data(data, scores, name)[name]


def make_folds(
    data: Data, n_folds: int, seed: int, scale: ScaleName, impute: ImputeName = "none"
) -> tuple[Fold, ...]:
    """Divide the queries (of label ranking: the instances) at random into folds.

    Queries without a preference pair, which can neither be learnt from nor be scored by most
    metrics, are dealt out last, so that every fold has its share of the others.

    Raises
    ------
    DataError
        If fewer queries than folds have a preference pair.
    """
    if not Integer(2).accepts(n_folds):
        raise ParameterError(f"folds={n_folds!r} must be {Integer(2)}, or give valid data")
    useful = (data.pair_counts > 0) & (data.weights > 0)
    if useful.sum() < n_folds:
        raise DataError(
            f"{data.unit} cannot be split into {n_folds} folds: only {useful.sum()} of "
            f"{len(useful)} have a preference pair; ask for fewer folds or give valid data"
        )
    order = np.random.default_rng(seed).permutation(len(useful))
    order = np.concatenate([order[useful[order]], order[~useful[order]]])
    fold_of = np.empty(len(useful), dtype=np.int64)
    fold_of[order] = np.arange(len(useful)) % n_folds

    def fold(number: int) -> Fold:
        train = data.take(np.flatnonzero(fold_of != number))
        held_out = data.take(np.flatnonzero(fold_of == number))
        return Fold.of(scale_parts(train, held_out, scale, impute))

    return tuple(map(fold, range(n_folds)))


def _digest(data: Data) -> str:
    """A hash of features, relevance, queries and weights.

    Not `rankplug.runner.data_digest`: reports compare that one, stored studies this one.
    """
    X = data.X
    features = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    hashed = hashlib.blake2b(digest_size=16)
    for part in (*features, data.relevance, *data.structure):
        hashed.update(f"{part.dtype}{part.shape}".encode())
        hashed.update(np.ascontiguousarray(part).data)
    return hashed.hexdigest()


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
        scores: dict[int, float] = {}
        start = 0
        for fold in self.measured:
            queries = np.arange(0, len(fold.values), -(-len(fold.values) // _SCORES_PER_FOLD))
            queries = queries[~np.isnan(fold.values[queries])]
            values = fold.values[queries].tolist()
            scores.update(zip((start + queries).tolist(), values, strict=True))
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
    unreported : dict of int to float
        Values that the trial's storage does not have yet, by the number of the step.
    """

    def __init__(self, task: TuningTask, Cs: Sequence[float] | None) -> None:
        self._task = task
        self.candidates = [Candidate(C) for C in Cs or (None,)]
        self.n_unconverged = 0
        self.unreported: dict[int, float] = {}
        self._started = time.monotonic()

    def is_long(self) -> bool:
        """Whether somebody may be waiting to see what the trial has reached."""
        return time.monotonic() - self._started > _SHORT

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
