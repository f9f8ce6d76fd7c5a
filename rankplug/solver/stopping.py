"""Early stopping: the validation data's metric says which model is returned, and when it is enough.

Not every iteration is looked at, so that the looks are a bounded part of the work: each of the
first twenty is, and later those whose number is a twentieth above that of the last look. The pace
depends on nothing but these numbers, so that a run ends the same way on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import DataError, ParameterError, RankplugError
from rankplug.metrics import Metric, measure_data, parse_metric
from rankplug.models import Model
from rankplug.parameters import Parameter

_PACE = 20  # looks up to twice an iteration's number, about


class MetricName(Parameter):
    """The name of a metric."""

    def accepts(self, value: Any) -> bool:
        """Whether there is such a metric."""
        try:
            return isinstance(value, str) and parse_metric(value) is not None
        except RankplugError:
            return False

    def __str__(self) -> str:
        return "the name of a metric, such as 'ndcg@10'"


class Candidate(NamedTuple):
    """A model that an iteration has reached, with the objective there, if it is known.

    `make` is called if the model is asked for.
    """

    make: Callable[[], Model]
    objective: float | None = None


class Best(NamedTuple):
    """The best model so far; `value` is its metric."""

    n_iter: int
    value: float
    model: Model
    objective: float | None


@dataclass
class EarlyStopping:
    """Watches the metric of validation data, and keeps the best model.

    Attributes
    ----------
    data : RankingData or LabelRankingData
    metric : Metric
    patience : int
        Looks without a better value after which it `is_over`.
    best : Best or None
        Of equal values the first one; None before the first look.
    """

    data: RankingData | LabelRankingData
    metric: Metric
    patience: int
    best: Best | None = None
    _next: int = 0
    _n_worse: int = 0

    def is_due(self, n_iter: int) -> bool:
        """Whether the model of this iteration is to be looked at."""
        return n_iter >= self._next

    @property
    def is_over(self) -> bool:
        """Whether the last looks have found nothing better."""
        return self._n_worse >= self.patience

    def look(self, n_iter: int, model: Model, objective: float | None) -> dict[str, float]:
        """Measure a model and keep it if it is the best; its value by the name for histories."""
        self._next = n_iter + 1 + n_iter // _PACE
        value, self._n_worse = self.measure(model), self._n_worse + 1
        if self.best is None or self._gain(value) > 0.0:
            self.best, self._n_worse = Best(n_iter, value, model, objective), 0
        return {f"valid_{self.metric.log_name}": value}

    def prefers(self, model: Model) -> bool:
        """Whether the best model is better than this one, where the solver ended."""
        return self.best is not None and self._gain(self.measure(model)) < 0.0

    def measure(self, model: Model) -> float:
        """The metric of the validation data.

        Raises
        ------
        DataError
            If it is undefined for all of them.
        """
        scores = model.predict(self.data.X)
        value = measure_data(self.data, scores, self.metric)[str(self.metric)].mean()
        if math.isnan(value):
            raise DataError(
                f"{self.metric} is undefined for every query of the validation data: take another "
                "eval_metric or other validation data"
            )
        return float(value)

    def _gain(self, value: float) -> float:
        assert self.best is not None
        return (value - self.best.value) * (1.0 if self.metric.greater_is_better else -1.0)


def require_validation(
    rounds: int, valid: RankingData | LabelRankingData | None
) -> RankingData | LabelRankingData:
    """The validation data, which `early_stopping_rounds` needs.

    Raises
    ------
    ParameterError
        If there are none.
    DataError
        If they have no preference pair.
    """
    if valid is None:
        raise ParameterError(
            f"early_stopping_rounds={rounds} needs validation data: pass valid to solve (eval_set "
            "to fit), or set early_stopping_rounds=None"
        )
    try:
        valid.require_pairs()
    except DataError as error:
        raise DataError(f"validation data: {error}") from None
    return valid
