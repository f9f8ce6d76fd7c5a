"""The task of tuning: data, folds of whole queries, the metric and the costs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankplug.data import ScaleName
from rankplug.exceptions import DataError, ParameterError
from rankplug.metrics import Measured, Metric, measure_data
from rankplug.models import ScaledParts, scale_parts
from rankplug.parameters import Integer
from rankplug.solver import Data
from rankplug.tuning.records import Cost

__all__ = ["Fold", "TuningTask", "make_folds"]


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

    @cached_property
    def whole(self) -> ScaledParts:
        """All of the data, scaled; `rankplug.models.scaling_for` says what it raises."""
        return scale_parts(self.data, self.valid, self.scale)

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        """The one fold of `data` and `valid`, or `n_folds` of `data` alone (see `make_folds`)."""
        if self.valid is None:
            return make_folds(self.data, self.n_folds, self.seed, self.scale)
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


def make_folds(data: Data, n_folds: int, seed: int, scale: ScaleName) -> tuple[Fold, ...]:
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
        return Fold.of(scale_parts(train, data.take(np.flatnonzero(fold_of == number)), scale))

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
