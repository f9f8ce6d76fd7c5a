"""How far the mean of a metric could be off: bootstrap confidence intervals over queries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.metrics.evaluation import Measured
from rankplug.parameters import Integer, Real, check_parameters

__all__ = ["confidence_interval"]

_AT_ONCE = 100  # resamples: bounds the memory that many queries need


def confidence_interval(
    measured: Measured, *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """The percentile bootstrap interval of a metric's mean.

    Whole queries are drawn with replacement, each with its weight, since documents of a query
    are not independent of each other (Efron and Tibshirani, 1993, chapter 13).

    Parameters
    ----------
    measured : Measured
        What `measure_queries` or `measure_instances` found for the metric.
    level : float in (0, 1)
    n_resamples : int
    seed : int
        The same seed gives the same interval.

    Returns
    -------
    low, high : float
        NaN if the metric is defined for fewer than two queries.

    Raises
    ------
    ParameterError
        If an argument has a value it cannot have.

    Examples
    --------
    >>> import numpy as np
    >>> from rankplug.metrics.evaluation import Measured
    >>> confidence_interval(Measured(np.full(9, 0.25), np.ones(9)))
    (0.25, 0.25)
    """
    check_parameters(
        "confidence interval",
        {"level": Real(0, 1), "n_resamples": Integer(1), "seed": Integer(0)},
        {"level": level, "n_resamples": n_resamples, "seed": seed},
    )
    counted = ~np.isnan(measured.values) & (measured.weights > 0)
    values, weights = measured.values[counted], measured.weights[counted]
    if len(values) < 2:
        return np.nan, np.nan
    if np.all(values == values[0]):  # of which SciPy would warn
        return float(values[0]), float(values[0])
    from scipy.stats import bootstrap

    low, high = bootstrap(
        (values, weights),
        _weighted_mean,
        paired=True,
        confidence_level=level,
        n_resamples=n_resamples,
        batch=min(_AT_ONCE, n_resamples),
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(low), float(high)


def _weighted_mean(
    values: NDArray[np.float64], weights: NDArray[np.float64], axis: int
) -> NDArray[Any]:
    mean: NDArray[Any] = (values * weights).sum(axis) / weights.sum(axis)
    return mean
