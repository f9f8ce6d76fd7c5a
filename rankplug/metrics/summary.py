"""Summaries of rankings: means of metrics with confidence intervals, by query, and NDCG curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug.data import group_queries
from rankplug.exceptions import ParameterError, nearest
from rankplug.metrics.evaluation import (
    Measured,
    confidence_intervals,
    measure_instances,
    measure_queries,
)
from rankplug.metrics.gain import Ndcg
from rankplug.metrics.names import parse_metric
from rankplug.parameters import Integer, Real, check_parameters

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_METRICS = ("ndcg@10", "mrr", "pairwise_accuracy")
DEFAULT_LABEL_METRICS = ("kendall_tau", "top1_error")

_LIMITS = {"level": Real(0, 1), "n_resamples": Integer(1), "max_k": Integer(1), "seed": Integer(0)}


@dataclass(frozen=True)
class RankedRows:
    """Rows with their relevance, scores and query ids (None: one query)."""

    relevance: ArrayLike
    scores: ArrayLike
    qid: ArrayLike | None


@dataclass(frozen=True)
class SummarySettings:
    """The keys of ``evaluator_config``, all optional.

    Attributes
    ----------
    qid : str, array-like or None
        Column of the query ids, ``"qid"`` by default; or the ids of all rows, for features
        without column names. None: all rows are one query.
    metrics : list of str
        Names of `rankplug.metrics`.
    metric_prefix : str
        Put before the names of metrics and artifacts, to tell several evaluations in a run apart.
    level : float
        Confidence level of the intervals.
    n_resamples : int
        Bootstrap resamples of the queries.
    max_k : int
        Largest cutoff k of the curve of ndcg@k.
    seed : int
        Of the bootstrap.
    """

    qid: Any = "qid"
    metrics: tuple[str, ...] = DEFAULT_METRICS
    metric_prefix: str = ""
    level: float = 0.95
    n_resamples: int = 1000
    max_k: int = 20
    seed: int = 0

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> SummarySettings:
        """Check a configuration.

        Raises
        ------
        ParameterError, UnknownNameError
            If a key or value is wrong.
        """
        known = [field.name for field in fields(cls)]
        unknown = [
            f"unknown key {key!r}{nearest(str(key), known)}" for key in config if key not in known
        ]
        if unknown:
            raise ParameterError(f"evaluator_config: {'; '.join(unknown)}")
        metrics = config.get("metrics", DEFAULT_METRICS)
        listed = [metrics] if isinstance(metrics, str) else metrics
        if not isinstance(listed, Sequence) or not listed:
            raise ParameterError(
                f"evaluator_config: metrics={metrics!r} must be a list of names such as 'ndcg@10'"
            )
        names = tuple(dict.fromkeys(str(parse_metric(one)) for one in listed))
        settings = cls(**{**config, "metrics": names})
        limited = {name: getattr(settings, name) for name in _LIMITS}
        check_parameters("evaluator_config", _LIMITS, limited)
        if not isinstance(settings.metric_prefix, str):
            raise ParameterError(
                f"evaluator_config: metric_prefix={settings.metric_prefix!r} must be text"
            )
        return settings


@dataclass(frozen=True)
class Curve:
    """The mean of ndcg@k for k = 1, 2, ..., with its confidence band."""

    label: str
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """What `summarize_ranking` or `summarize_label_ranking` found.

    Attributes
    ----------
    settings : SummarySettings
    metrics : dict of float
        Means by the names that MLflow takes, such as ``ndcg_at_10``, prefix included.
    intervals : dict of dict
        By metric name: ``value``, ``low``, ``high``, ``level`` and ``n_queries``, those for
        which the metric is defined. None where there is no value.
    per_query : DataFrame
        ``qid`` and ``n_rows`` (label ranking: ``row`` and ``n_labels``) and a column for each
        metric, NaN where it is undefined.
    curve : Curve or None
        None for label ranking, and if NDCG has no meaning for the relevance.
    """

    settings: SummarySettings
    metrics: dict[str, float]
    intervals: dict[str, dict[str, float | None]]
    per_query: pd.DataFrame
    curve: Curve | None


def summarize_ranking(rows: RankedRows, settings: SummarySettings) -> Summary:
    """Values by query, means, confidence intervals and the curve of ndcg@k.

    Raises
    ------
    DataError
        If lengths differ, values are missing, or a metric has no meaning for the labels.

    Examples
    --------
    >>> rows = RankedRows([1, 0, 0, 1], [0.9, 0.2, 0.8, 0.3], ["a", "a", "b", "b"])
    >>> summarize_ranking(rows, SummarySettings.of({"metrics": "mrr"})).intervals
    {'mrr': {'value': 0.75, 'low': 0.5, 'high': 1.0, 'level': 0.95, 'n_queries': 2}}
    """
    measured = measure_queries(rows.relevance, rows.scores, rows.qid, settings.metrics)
    relevance = np.asarray(rows.relevance, dtype=np.float64)
    query_ptr, query_ids, _ = group_queries(rows.qid, len(relevance))
    sizes = np.diff(query_ptr)
    about = {"qid": query_ids.astype(str), "n_rows": sizes}
    curve = _curve(rows, relevance, int(sizes.max()), settings)
    return _summarize(measured, about, curve, settings)


def summarize_label_ranking(
    relevance: NDArray[np.float64], scores: NDArray[np.float64], settings: SummarySettings
) -> Summary:
    """Values by instance, means and confidence intervals; both arrays (n_samples, n_labels).

    Raises
    ------
    DataError
        If shapes differ, scores are missing, or a metric has no meaning for the labels.
    """
    measured = measure_instances(relevance, scores, settings.metrics)
    about = {"row": np.arange(len(relevance)), "n_labels": (~np.isnan(relevance)).sum(axis=1)}
    return _summarize(measured, about, None, settings)


def _summarize(
    measured: Mapping[str, Measured],
    about: Mapping[str, NDArray[Any]],
    curve: Curve | None,
    settings: SummarySettings,
) -> Summary:
    import pandas as pd

    return Summary(
        settings,
        {
            settings.metric_prefix + parse_metric(name).log_name: one.mean()
            for name, one in measured.items()
        },
        summarize_measured(measured, settings),
        pd.DataFrame({**about, **{name: one.values for name, one in measured.items()}}),
        curve,
    )


def summarize_measured(
    measured: Mapping[str, Measured], settings: SummarySettings
) -> dict[str, dict[str, float | None]]:
    """The `Summary.intervals` of values by query."""
    bounds = _bounds(measured.values(), settings)
    return {
        name: _interval(one, low, high, settings.level)
        for (name, one), (low, high) in zip(measured.items(), bounds, strict=True)
    }


def _interval(measured: Measured, low: float, high: float, level: float) -> dict[str, float | None]:
    numbers = {"value": measured.mean(), "low": float(low), "high": float(high), "level": level}
    # JSON has no NaN.
    interval = {key: None if np.isnan(value) else value for key, value in numbers.items()}
    return {**interval, "n_queries": int(np.count_nonzero(~np.isnan(measured.values)))}


def _bounds(measured: Iterable[Measured], settings: SummarySettings) -> NDArray[np.float64]:
    return confidence_intervals(
        list(measured), level=settings.level, n_resamples=settings.n_resamples, seed=settings.seed
    )


def _curve(
    rows: RankedRows, relevance: NDArray[np.float64], longest: int, settings: SummarySettings
) -> Curve | None:
    # The kind that was asked for, else the first that suits the labels.
    asked = [one for one in map(parse_metric, settings.metrics) if isinstance(one, Ndcg)]
    possible = asked or (Ndcg(1), Ndcg(1, gain="linear"))
    ndcg = next((one for one in possible if one.suits(relevance)), None)
    if ndcg is None:
        return None
    metrics = [replace(ndcg, k=k) for k in range(1, min(settings.max_k, longest) + 1)]
    measured = measure_queries(relevance, rows.scores, rows.qid, metrics).values()
    mean = np.array([one.mean() for one in measured])
    low, high = _bounds(measured, settings).T
    return Curve(str(metrics[0]).replace("@1", "@k", 1), mean, low, high)
