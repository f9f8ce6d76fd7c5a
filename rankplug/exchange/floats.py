"""Thresholds of floating-point numbers: from single to double precision and back, exactly.

Trees compare features in single or double precision, by "at most" or "less than", and often
behind a scaling. Each such split is "at most" another threshold in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LARGEST = float(np.finfo(np.float64).max)
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def floor_float32(values: Any) -> NDArray[np.float32]:
    """The largest numbers of single precision that are at most these."""
    wide = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
        down = np.nextafter(narrow, np.float32(-np.inf))
    return np.where(narrow.astype(np.float64) > wide, down, narrow)


def widen(values: Any) -> Floats:
    """Thresholds t so that ``x <= t`` in double precision is ``float32(x) <= value``.

    Parameters
    ----------
    values : array of float32 or float64
    """
    low = floor_float32(values)
    with np.errstate(over="ignore"):
        high = np.nextafter(low, np.float32(np.inf))
    # Between both, rounding goes to the nearer one, and from the middle to the even one.
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (low.astype(np.float64) + high.astype(np.float64))
    even = (low.view(np.int32) & 1) == 0
    found = np.where(even, middle, np.nextafter(middle, -np.inf))
    return np.where(np.isfinite(low) & np.isfinite(high), found, np.where(low > 0, np.inf, -np.inf))


def less_than_float32(values: Floats) -> NDArray[np.float32]:
    """Thresholds t so that ``float32(x) < t`` in single precision is ``x <= value``.

    Never infinite: numbers of that size are no features.
    """
    with np.errstate(over="ignore"):
        above = np.nextafter(floor_float32(values), np.float32(np.inf))
    return np.clip(above, -np.float32(LARGEST_FLOAT32), np.float32(LARGEST_FLOAT32))


def finite(values: Floats) -> Floats:
    """Infinite thresholds as the largest numbers, which serve as well and can be written."""
    return np.clip(values, -LARGEST, LARGEST)


def pull_back(thresholds: Floats, function: Callable[[Floats], Floats]) -> Floats:
    """Thresholds t so that ``x <= t`` is ``function(x) <= threshold``.

    Parameters
    ----------
    thresholds : float64 ndarray of shape (n,)
    function : callable
        Of n numbers, one for each threshold; none decreases.

    Notes
    -----
    The order of floating-point numbers is that of the integers that their bits spell, with those
    of negative ones mirrored, so 64 halvings find the last number that goes left, whatever the
    function rounds.
    """

    def holds(keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(function(_number(keys)) <= thresholds)

    low = np.full(len(thresholds), _key(-LARGEST))
    high = np.full(len(thresholds), _key(LARGEST))
    none, every = ~holds(low), holds(high)
    for _ in range(65):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        inside = holds(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.where(every, np.inf, np.where(none, -np.inf, _number(low)))


def _key(value: float) -> int:
    bits = int(np.float64(value).view(np.int64))
    return bits if bits >= 0 else int(np.iinfo(np.int64).min) - bits


def _number(keys: NDArray[np.int64]) -> Floats:
    smallest = np.iinfo(np.int64).min
    with np.errstate(over="ignore"):
        bits = np.where(keys >= 0, keys, smallest - keys)
    return np.asarray(bits.astype(np.int64).view(np.float64))
