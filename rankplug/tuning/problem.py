"""What candidates are compared on: data, folds and a metric."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import RankingData, ScaleName
from rankplug.exceptions import DataError
from rankplug.metrics import Metric
from rankplug.metrics.evaluation import Measured, measure_instances, measure_queries
from rankplug.solver import Data
from rankplug.tuning.folds import Fold, make_folds
from rankplug.tuning.records import Cost

__all__ = ["Problem"]


@dataclass(frozen=True, eq=False)
class Problem:
    """What candidates are compared on; see `rankplug.tune`.

    A pickled one is as large as its data: the folds, which are copies, are made again.
    """

    data: Data
    valid: Data | None
    n_folds: int
    scale: ScaleName
    metric: Metric
    costs: tuple[Cost, ...]
    seed: int

    @cached_property
    def folds(self) -> tuple[Fold, ...]:
        """The parts to train on and to be scored by; `make_folds` says what it raises."""
        return make_folds(self.data, self.valid, self.n_folds, self.seed, self.scale)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "folds"}

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
        if isinstance(data, RankingData):
            return measure_queries(data.relevance, scores, data.qid, name)[name]
        return measure_instances(data.relevance, scores, name)[name]
