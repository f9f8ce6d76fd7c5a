"""Evaluation: from labels and scores to values per query, their means and confidence intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug.data import PreferenceData, RankingData, group_queries, real_array
from rankplug.exceptions import DataError
from rankplug.metrics.base import Metric
from rankplug.metrics.blocks import Ragged, split_into_blocks
from rankplug.metrics.names import Metrics, parse_metrics
from rankplug.parameters import Integer, Real, check_parameters

_INTERVAL = {"level": Real(0, 1), "n_resamples": Integer(1), "seed": Integer(0)}
_CELLS = 1 << 22  # numbers of a batch of resamples: 32 MB


class Measured(NamedTuple):
    """A metric's value for each query, and how much each counts in the mean.

    Values are NaN where the metric is undefined and its `empty` is "skip".
    """

    values: NDArray[np.float64]
    weights: NDArray[np.float64]

    def mean(self) -> float:
        """The weighted mean of the values that are defined, NaN if none is."""
        return weighted_mean(self.values, self.weights)


def weighted_mean(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """The mean of the values that are defined (not NaN); NaN if these weigh nothing."""
    defined = ~np.isnan(values)
    total = weights[defined].sum()
    return float(values[defined] @ weights[defined] / total) if total else np.nan


def mean_of_defined(
    values: NDArray[np.float64], weights: NDArray[np.float64], undefined: str
) -> float:
    """The weighted mean of the values that are defined.

    Raises
    ------
    DataError
        If a weight is negative; or, in the words of `undefined`, if no value counts.
    """
    if np.any(weights < 0):
        raise DataError(f"sample_weight is negative at row {np.flatnonzero(weights < 0)[0]}")
    mean = weighted_mean(values, weights)
    if np.isnan(mean):
        raise DataError(f"{undefined}, or only where sample_weight is zero")
    return mean


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

    Returns
    -------
    dict of float64 ndarray of shape (n_samples,)

    Raises
    ------
    DataError, UnknownNameError, ParameterError
        As `per_query`.
    """
    measured = measure_instances(relevance, scores, metrics)
    return {name: result.values for name, result in measured.items()}


def evaluate_labels(relevance: ArrayLike, scores: ArrayLike, metrics: Metrics) -> dict[str, float]:
    """The mean of each metric over the instances of label ranking.

    Parameters and errors are those of `per_instance`; the mean is as that of `evaluate`.
    """
    measured = measure_instances(relevance, scores, metrics)
    return {name: result.mean() for name, result in measured.items()}


def confidence_interval(
    measured: Measured, *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """The interval of one metric's mean; see `confidence_intervals`.

    Examples
    --------
    >>> import numpy as np
    >>> confidence_interval(Measured(np.full(9, 0.25), np.ones(9)))
    (0.25, 0.25)
    """
    ((low, high),) = confidence_intervals(
        [measured], level=level, n_resamples=n_resamples, seed=seed
    )
    return float(low), float(high)


def confidence_intervals(
    measured: Sequence[Measured], *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> NDArray[np.float64]:
    """Percentile bootstrap intervals of the means of metrics.

    Whole queries are drawn with replacement, each with its weight, since documents of a query
    are not independent of each other [1]_. Metrics that are defined for the same queries share
    the draws.

    Parameters
    ----------
    measured : sequence of Measured
        What `measure_queries` or `measure_instances` found for each metric.
    level : float in (0, 1)
    n_resamples : int
    seed : int
        The same seed gives the same intervals.

    Returns
    -------
    float64 ndarray of shape (n_metrics, 2)
        Low and high; NaN where the metric is defined for fewer than two queries.

    Raises
    ------
    ParameterError
        If an argument has a value it cannot have.

    References
    ----------
    .. [1] Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    arguments = {"level": level, "n_resamples": n_resamples, "seed": seed}
    check_parameters("confidence interval", _INTERVAL, arguments)
    tail = (1 - level) / 2
    intervals = np.full((len(measured), 2), np.nan)
    counted = [~np.isnan(one.values) & (one.weights > 0) for one in measured]
    together: dict[bytes, list[int]] = {}
    for number, queries in enumerate(counted):
        if np.count_nonzero(queries) > 1:
            together.setdefault(queries.tobytes(), []).append(number)
    for numbers in together.values():
        queries = counted[numbers[0]]
        values = np.stack([measured[i].values[queries] for i in numbers], axis=1)
        weights = np.stack([measured[i].weights[queries] for i in numbers], axis=1)
        means = _resampled_means(values, weights, n_resamples, seed)
        intervals[numbers] = np.quantile(means, [tail, 1 - tail], axis=0).T
        # The mean of equal values is that value, without errors of rounding.
        constant = np.all(values == values[0], axis=0)
        intervals[np.asarray(numbers)[constant]] = values[0, constant, np.newaxis]
    return intervals


def _resampled_means(
    values: NDArray[np.float64], weights: NDArray[np.float64], n_resamples: int, seed: int
) -> NDArray[np.float64]:
    """Weighted means of each column in resamples of the rows, (n_resamples, n_columns)."""
    n = len(values)
    rng = np.random.default_rng(seed)
    batch = max(1, _CELLS // n)
    means = np.empty((n_resamples, values.shape[1]))
    for start in range(0, n_resamples, batch):
        rows = min(batch, n_resamples - start)
        cells = rng.integers(0, n, (rows, n)) + n * np.arange(rows)[:, np.newaxis]
        drawn = np.bincount(cells.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)
        means[start : start + rows] = (drawn @ (values * weights)) / (drawn @ weights)
    return means


def measure_queries(
    y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None, metrics: Metrics
) -> dict[str, Measured]:
    """Values and weights of each metric; parameters and errors are those of `per_query`."""
    relevance, score = _vector(y, "relevance y"), _vector(scores, "scores")
    _require_equal_lengths(relevance, score)
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

    `scores` have the shape of ``data.relevance``; errors are those of `per_query`.
    """
    if isinstance(data, RankingData):
        score = _vector(scores, "scores")
        _require_equal_lengths(data.relevance, score)
        return _measure(data.relevance, score, data.query_ptr, metrics)
    return measure_instances(data.relevance, scores, metrics)


def _measure(
    relevance: NDArray[np.float64],
    scores: NDArray[np.float64],
    query_ptr: NDArray[np.int64],
    metrics: Metrics,
) -> dict[str, Measured]:
    return measure_blocks(relevance, scores, query_ptr, parse_metrics(metrics))


def measure_blocks(
    relevance: NDArray[np.float64],
    scores: NDArray[np.float64],
    query_ptr: NDArray[np.int64],
    metrics: Mapping[str, Metric],
    unranked: Ragged | None = None,
) -> dict[str, Measured]:
    """Values and weights of each metric, by name, for rows that stand query by query.

    `unranked` is the relevance of documents that queries have beside their rows.
    """
    labels = relevance if unranked is None else np.concatenate((relevance, unranked.values, [0.0]))
    _check_labels(labels, metrics.values())
    n_queries = len(query_ptr) - 1
    measured = {name: Measured(np.empty(n_queries), np.empty(n_queries)) for name in metrics}
    for block in split_into_blocks(scores, relevance, query_ptr, unranked):
        for name, metric in metrics.items():
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


def _require_equal_lengths(relevance: NDArray[Any], scores: NDArray[Any]) -> None:
    if len(relevance) != len(scores):
        raise DataError(
            f"lengths differ: y has {len(relevance)} values, scores has {len(scores)}; "
            "give one of each per row"
        )
    if not len(relevance):
        raise DataError("no rows: there is nothing to evaluate")


def _vector(values: ArrayLike, what: str) -> NDArray[np.float64]:
    array = real_array(values, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.ravel()
    if array.ndim != 1:
        raise DataError(f"{what} has {array.ndim} dimensions; it needs one")
    return array
