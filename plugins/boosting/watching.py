"""What a library measures after each round: data that are watched, and those that end training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from rankplug.boosting import RankingMetric, ranking_metric
from rankplug.exceptions import DataError
from rankplug.solver import Data, Monitor

STOPPING = "valid"
"""The library's name of the data whose metric ends the training."""


class Watch:
    """A metric function of XGBoost and LightGBM that keeps the values of the watched data.

    Parameters
    ----------
    monitor : Monitor
        It knows the watched data.
    valid : RankingData, LabelRankingData or None
        The data that end the training, which may be watched, too.
    metric : str
        Theirs.
    tells_queries : bool
        Whether the metric learns the queries from the library.

    Attributes
    ----------
    values : dict
        The last values of the watched data, as `Monitor.report` takes them.
    """

    def __init__(
        self, monitor: Monitor, valid: Data | None, metric: str, *, tells_queries: bool
    ) -> None:
        self.values: dict[str, dict[str, float]] = {}
        self._monitor, self._valid, self._metric = monitor, valid, metric
        self._tells_queries = tells_queries
        self._of: dict[int, tuple[str | None, RankingMetric]] = {}
        # Named as XGBoost and LightGBM ask for a function's name.
        self.__name__ = ranking_metric(metric).__name__

    def sets(self) -> Iterator[tuple[str, Data]]:
        """The data to measure, each once, under the library's names."""
        if self._valid is not None:
            yield STOPPING, self._valid
        for number, data in enumerate(self._monitor.watched.values()):
            if data is not self._valid:
                yield f"watched{number}", data

    def add(self, matrix: Any, data: Data) -> Any:
        """Remember which of the data the library's matrix holds; returns the matrix."""
        named = (name for name, one in self._monitor.watched.items() if one is data)
        metric = self._metric if data is self._valid else self._monitor.metric_of(data)
        qid = None if self._tells_queries else data.row_query
        self._of[id(matrix)] = next(named, None), ranking_metric(metric, qid)
        return matrix

    def __call__(self, scores: Any, matrix: Any) -> Any:
        """The value as the library wants it; NaN where nothing but watching is hindered."""
        name, metric = self._of[id(matrix)]
        try:
            found = metric(scores, matrix)
        except DataError:
            if name is None or self._monitor.watched[name] is self._valid:
                raise
            found = (metric.__name__, math.nan, metric.greater_is_better)
            found = found[:2] if self._tells_queries else found
        if name is not None:
            self.values[name] = {found[0]: float(found[1])}
        return found
