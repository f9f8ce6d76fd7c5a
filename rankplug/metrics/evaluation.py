"""From labels and scores to values per query and their means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug.data import PreferenceData, RankingData, group_queries, real_array
from rankplug.exceptions import DataError
from rankplug.metrics.base import Metric
from rankplug.metrics.blocks import split_into_blocks
from rankplug.metrics.names import parse_metric

__all__ = [
    "Measured",
    "evaluate",
    "evaluate_labels",
    "measure_data",
    "measure_instances",
    "measure_queries",
    "per_instance",
    "per_query",
]

Metrics: TypeAlias = str | Metric | Iterable[str | Metric]


class Measured(NamedTuple):
    """A metric's value for each query, and how much each counts in the mean.

    Values are NaN where the metric is undefined and its `empty` is "skip".
    """

    values: NDArray[np.float64]
    weights: NDArray[np.float64]

    def mean(self) -> float:
        """The weighted mean of the values that are defined, NaN if none is."""
        defined = ~np.isnan(self.values)
        total = self.weights[defined].sum()
        return float(self.values[defined] @ self.weights[defined] / total) if total else np.nan


def per_query(
    y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None, metrics: Metrics
) -> dict[str, NDArray[np.float64]]:
    """The value of each metric for each query.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Relevance: finite, higher is better.
    scores : array-like of shape (n_samples,)
        Finite, higher is ranked first.
    qid : array-like of shape (n_samples,) or None
        Query ids, integers or strings in any order; None makes all rows one query.
    metrics : str, Metric or iterable of them
        See `rankplug.metrics` for the names.

    Returns
    -------
    dict of float64 ndarray of shape (n_queries,)
        By the names given; queries in order of first appearance. NaN where the metric is
        undefined for a query and its `empty` is "skip".

    Raises
    ------
    DataError
        If lengths differ, values are missing or infinite, or a metric has no meaning for these
        labels.
    UnknownNameError, ParameterError
        If a metric's name or option is wrong.
    """
    measured = measure_queries(y, scores, qid, metrics)
    return {name: result.values for name, result in measured.items()}


def evaluate(
    y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None, metrics: Metrics
) -> dict[str, float]:
    """The mean of each metric over the queries, of pairwise accuracy over all their pairs.

    Parameters and errors are those of `per_query`. The mean is NaN if the metric is undefined
    for every query.
    """
    measured = measure_queries(y, scores, qid, metrics)
    return {name: result.mean() for name, result in measured.items()}


def per_instance(
    relevance: ArrayLike, scores: ArrayLike, metrics: Metrics
) -> dict[str, NDArray[np.float64]]:
    """The value of each metric for each instance of label ranking.

    An instance is a query whose documents are its labels, so that every metric applies.

    Parameters
    ----------
    relevance : array-like of shape (n_samples, n_labels)
        Relevance of each label; NaN: not compared, as if the label were not there.
    scores : array-like of shape (n_samples, n_labels)
        Finite, higher is ranked first.
    metrics : str, Metric or iterable of them
        See `rankplug.metrics` for the names.

    Returns
    -------
    dict of float64 ndarray of shape (n_samples,)
        NaN where the metric is undefined for an instance and its `empty` is "skip".

    Raises
    ------
    DataError
        If shapes differ, values are infinite, a score is missing, or a metric has no meaning
        for such relevance.
    UnknownNameError, ParameterError
        If a metric's name or option is wrong.
    """
    measured = measure_instances(relevance, scores, metrics)
    return {name: result.values for name, result in measured.items()}


def evaluate_labels(relevance: ArrayLike, scores: ArrayLike, metrics: Metrics) -> dict[str, float]:
    """The mean of each metric over the instances of label ranking.

    Parameters and errors are those of `per_instance`. The mean is NaN if the metric is
    undefined for every instance.
    """
    measured = measure_instances(relevance, scores, metrics)
    return {name: result.mean() for name, result in measured.items()}


def measure_queries(
    y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None, metrics: Metrics
) -> dict[str, Measured]:
    """Values and weights of each metric; parameters and errors are those of `per_query`."""
    relevance, score = _vector(y, "relevance y"), _vector(scores, "scores")
    if len(relevance) != len(score):
        raise DataError(
            f"lengths differ: y has {len(relevance)} values, scores has {len(score)}; "
            "give one of each per row"
        )
    if not len(relevance):
        raise DataError("no rows: there is nothing to evaluate")
    query_ptr, _, order = group_queries(qid, len(relevance))
    if order is not None:
        relevance, score = relevance[order], score[order]
    return _measure(relevance, score, query_ptr, metrics)


def measure_instances(
    relevance: ArrayLike, scores: ArrayLike, metrics: Metrics
) -> dict[str, Measured]:
    """Values and weights of each metric; parameters and errors are those of `per_instance`."""
    labels = real_array(relevance, "relevance", allow_nan=True)
    score = real_array(scores, "scores")
    if labels.shape != score.shape or labels.ndim != 2:
        raise DataError(
            f"relevance has shape {labels.shape}, scores has shape {score.shape}: "
            "both must have (n_samples, n_labels)"
        )
    compared = ~np.isnan(labels)
    if not compared.any():
        raise DataError("no relevance (nothing but NaN): there is nothing to evaluate")
    query_ptr = np.concatenate(([0], np.cumsum(compared.sum(axis=1))))
    return _measure(labels[compared], score[compared], query_ptr, metrics)


def measure_data(data: PreferenceData, scores: ArrayLike, metrics: Metrics) -> dict[str, Measured]:
    """Values and weights of each metric for the examples of data of either task.

    Parameters
    ----------
    data : RankingData or LabelRankingData
    scores : array-like of the shape of ``data.relevance``
    metrics : str, Metric or iterable of them

    Raises
    ------
    DataError, UnknownNameError, ParameterError
        As `per_query` and `per_instance`.
    """
    if isinstance(data, RankingData):
        return measure_queries(data.relevance, scores, data.qid, metrics)
    return measure_instances(data.relevance, scores, metrics)


def _measure(
    relevance: NDArray[np.float64],
    scores: NDArray[np.float64],
    query_ptr: NDArray[np.int64],
    metrics: Metrics,
) -> dict[str, Measured]:
    chosen = _by_name(metrics)
    _check_labels(relevance, chosen.values())
    n_queries = len(query_ptr) - 1
    measured = {name: Measured(np.empty(n_queries), np.empty(n_queries)) for name in chosen}
    for block in split_into_blocks(scores, relevance, query_ptr):
        for name, metric in chosen.items():
            measured[name].values[block.queries] = metric.per_query(block)
            measured[name].weights[block.queries] = metric.weight(block)
    return measured


def _check_labels(relevance: NDArray[np.float64], metrics: Iterable[Metric]) -> None:
    wrong = []
    for metric in metrics:
        try:
            metric.check(relevance)
        except DataError as error:
            wrong.append(str(error))
    if wrong:
        raise DataError("; ".join(wrong))


def _by_name(metrics: Metrics) -> dict[str, Metric]:
    several = [metrics] if isinstance(metrics, str | Metric) else metrics
    return {str(metric): parse_metric(metric) for metric in several}


def _vector(values: ArrayLike, what: str) -> NDArray[np.float64]:
    array = real_array(values, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.ravel()
    if array.ndim != 1:
        raise DataError(f"{what} has {array.ndim} dimensions; it needs one")
    return array
