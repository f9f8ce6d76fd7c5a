"""Early stopping by rankplug's metrics, for the solvers of both libraries."""

from __future__ import annotations

from typing import Any

from rankplug.boosting import ranking_metric
from rankplug.exceptions import DataError, ParameterError, RankplugError
from rankplug.parameters import Parameter
from rankplug.solver import Data

__all__ = ["MetricName", "held_out", "log_name"]


class MetricName(Parameter):
    """The name of a metric of rankplug that is to be made large."""

    def accepts(self, value: Any) -> bool:
        """Whether there is such a metric."""
        try:
            return isinstance(value, str) and ranking_metric(value).greater_is_better
        except RankplugError:
            return False

    def __str__(self) -> str:
        return "the name of a metric that is better the greater, such as 'ndcg@10'"


def held_out(valid: Data | None, early_stopping_rounds: int | None) -> Data | None:
    """The validation data if they are to be used, checked."""
    if early_stopping_rounds is None:
        return None
    if valid is None:
        raise ParameterError(
            f"early_stopping_rounds={early_stopping_rounds} needs validation data: pass valid to "
            "solve (eval_set to fit), or set early_stopping_rounds=None"
        )
    try:
        valid.require_pairs()
    except DataError as error:
        raise DataError(f"validation data: {error}") from None
    return valid


def log_name(metric: str) -> str:
    """The name of a validation metric in the history: "@" is not allowed in logged ones."""
    return f"valid_{ranking_metric(metric).metric.log_name}"
