"""How good a ranking is, as numbers, tables and a plot, and all of that in an MLflow run."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Metric as LoggedMetric
from mlflow.models.evaluation import artifacts as _mlflow_artifacts
from mlflow.models.evaluation.base import EvaluationArtifact
from numpy.typing import NDArray

from rankplug.data import group_queries
from rankplug.exceptions import DataError, ParameterError, nearest
from rankplug.metrics import Ndcg, parse_metric
from rankplug.metrics.evaluation import Measured, measure_instances, measure_queries
from rankplug.metrics.intervals import confidence_interval
from rankplug.mlflow.evaluated import RankedRows
from rankplug.parameters import Integer, Real, check_parameters

__all__ = [
    "DEFAULT_METRICS",
    "Evaluation",
    "Settings",
    "evaluate_label_ranking",
    "evaluate_ranking",
]

DEFAULT_METRICS = ("ndcg@10", "mrr", "pairwise_accuracy")

_image: Any = _mlflow_artifacts.ImageEvaluationArtifact
_json: Any = _mlflow_artifacts.JsonEvaluationArtifact

_LIMITS = {"level": Real(0, 1), "n_resamples": Integer(1), "max_k": Integer(1), "seed": Integer(0)}


@dataclass(frozen=True)
class Settings:
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
    def of(cls, config: Mapping[str, Any]) -> Settings:
        """Check a configuration.

        Raises
        ------
        ParameterError, UnknownNameError
            If a key or value is wrong.
        """
        known = [field.name for field in fields(cls)]
        unknown = [f"unknown key {key!r}{nearest(str(key), known)}" for key in config]
        wrong = [what for key, what in zip(config, unknown, strict=True) if key not in known]
        if wrong:
            raise ParameterError(f"evaluator_config: {'; '.join(wrong)}")
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
class Evaluation:
    """What `evaluate_ranking` or `evaluate_label_ranking` found.

    Attributes
    ----------
    settings : Settings
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

    settings: Settings
    metrics: dict[str, float]
    intervals: dict[str, dict[str, float | None]]
    per_query: pd.DataFrame
    curve: Curve | None

    def log(
        self, client: MlflowClient, run_id: str, *, model_id: str | None = None
    ) -> dict[str, EvaluationArtifact]:
        """Log everything to a run; returns what MLflow calls evaluation artifacts.

        The metrics, the table ``per_query.json`` (shown by MLflow's pages, and read by
        `mlflow.load_table`), ``confidence_intervals.json`` and the plot ``ndcg_curve.png``.
        """
        prefix, now = self.settings.metric_prefix, round(1000 * time.time())
        logged = [
            LoggedMetric(name, value, now, 0, model_id=model_id)
            for name, value in self.metrics.items()
        ]
        client.log_batch(run_id, metrics=logged)
        root = client.get_run(run_id).info.artifact_uri

        table, intervals = f"{prefix}per_query.json", f"{prefix}confidence_intervals.json"
        client.log_table(run_id, self.per_query, table)
        client.log_text(run_id, json.dumps(self.intervals, indent=2), intervals)
        split = json.loads(self.per_query.to_json(orient="split", index=False))
        artifacts: dict[str, EvaluationArtifact] = {
            f"{prefix}per_query": _json(f"{root}/{table}", split),
            f"{prefix}confidence_intervals": _json(f"{root}/{intervals}", self.intervals),
        }
        if self.curve is not None:
            figure = f"{prefix}ndcg_curve.png"
            client.log_figure(run_id, plot(self.curve), figure)
            artifacts[f"{prefix}ndcg_curve"] = _image(f"{root}/{figure}")
        return artifacts


def evaluate_ranking(rows: RankedRows, settings: Settings) -> Evaluation:
    """Values by query, means, confidence intervals and the curve of ndcg@k.

    Raises
    ------
    DataError
        If lengths differ, values are missing, or a metric has no meaning for the labels.
    """
    measured = measure_queries(rows.relevance, rows.scores, rows.qid, settings.metrics)
    relevance = np.asarray(rows.relevance, dtype=np.float64)
    query_ptr, query_ids, _ = group_queries(rows.qid, len(relevance))
    sizes = np.diff(query_ptr)
    about = {"qid": query_ids.astype(str), "n_rows": sizes}
    curve = _curve(rows, relevance, int(sizes.max()), settings)
    return _evaluation(measured, about, curve, settings)


def evaluate_label_ranking(
    relevance: NDArray[np.float64], scores: NDArray[np.float64], settings: Settings
) -> Evaluation:
    """Values by instance, means and confidence intervals; both arrays (n_samples, n_labels).

    Raises
    ------
    DataError
        If shapes differ, scores are missing, or a metric has no meaning for the labels.
    """
    measured = measure_instances(relevance, scores, settings.metrics)
    about = {"row": np.arange(len(relevance)), "n_labels": (~np.isnan(relevance)).sum(axis=1)}
    return _evaluation(measured, about, None, settings)


def _evaluation(
    measured: Mapping[str, Measured],
    about: Mapping[str, NDArray[Any]],
    curve: Curve | None,
    settings: Settings,
) -> Evaluation:
    return Evaluation(
        settings,
        {_logged_name(name, settings): one.mean() for name, one in measured.items()},
        {name: _interval(one, settings) for name, one in measured.items()},
        pd.DataFrame({**about, **{name: one.values for name, one in measured.items()}}),
        curve,
    )


def plot(curve: Curve) -> Any:
    """The curve as a Matplotlib figure."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    k = np.arange(1, len(curve.mean) + 1)
    axes.fill_between(k, curve.low, curve.high, alpha=0.2, linewidth=0)
    axes.plot(k, curve.mean, marker="o", markersize=4)
    axes.set_xlabel("cutoff k")
    axes.set_ylabel(curve.label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    return figure


def _logged_name(name: str, settings: Settings) -> str:
    return settings.metric_prefix + parse_metric(name).log_name


def _interval(measured: Measured, settings: Settings) -> dict[str, float | None]:
    low, high = _bounds(measured, settings)
    numbers = {"value": measured.mean(), "low": low, "high": high, "level": settings.level}
    # JSON has no NaN.
    interval = {key: None if np.isnan(value) else value for key, value in numbers.items()}
    return {**interval, "n_queries": int(np.count_nonzero(~np.isnan(measured.values)))}


def _bounds(measured: Measured, settings: Settings) -> tuple[float, float]:
    return confidence_interval(
        measured, level=settings.level, n_resamples=settings.n_resamples, seed=settings.seed
    )


def _curve(
    rows: RankedRows, relevance: NDArray[np.float64], longest: int, settings: Settings
) -> Curve | None:
    ndcg = _ndcg_for(relevance, settings.metrics)
    if ndcg is None:
        return None
    metrics = [replace(ndcg, k=k) for k in range(1, min(settings.max_k, longest) + 1)]
    measured = measure_queries(relevance, rows.scores, rows.qid, metrics).values()
    band = np.array([[one.mean(), *_bounds(one, settings)] for one in measured])
    return Curve(str(metrics[0]).replace("@1", "@k", 1), *band.T)


def _ndcg_for(relevance: NDArray[np.float64], metrics: Sequence[str]) -> Ndcg | None:
    """The kind of NDCG that was asked for, else the first that suits the labels."""
    asked = [metric for metric in map(parse_metric, metrics) if isinstance(metric, Ndcg)]
    for ndcg in asked or (Ndcg(1), Ndcg(1, gain="linear")):
        try:
            ndcg.check(relevance)
        except DataError:
            continue
        return ndcg
    return None
