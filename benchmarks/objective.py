"""The one exact objective by which all linear rankSVMs are compared, in NumPy only.

It shares no code with the solvers: pairs are split by relevance, as in merge sort, and each
half is counted by sorting and prefix sums, O(l log^2 l) for a query of l rows.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rankplug.data import RankingData

Loss = Literal["squared-hinge", "hinge"]

_BRUTE_FORCE = 256


def objective(data: RankingData, coef: NDArray[np.float64], C: float, loss: Loss) -> float:
    """1/2 |coef|^2 + C sum over pairs of max(0, 1 - (s_i - s_j)), squared or not."""
    scores = data.X @ coef
    total = 0.0
    for start, end in zip(data.query_ptr, data.query_ptr[1:], strict=False):
        order = np.argsort(data.relevance[start:end], kind="stable")
        s = scores[start:end][order] - scores[start:end].mean()
        total += _pairs(data.relevance[start:end][order], s, loss)
    return 0.5 * float(coef @ coef) + C * total


def _pairs(y: NDArray[np.float64], s: NDArray[np.float64], loss: Loss) -> float:
    """Loss of all pairs of rows sorted by ascending relevance."""
    if len(y) == 0 or y[0] == y[-1]:
        return 0.0
    if len(y) <= _BRUTE_FORCE:
        violation = np.maximum(0.0, 1.0 - (s[:, None] - s[None, :]))[y[:, None] > y[None, :]]
        return float((violation**2).sum() if loss == "squared-hinge" else violation.sum())
    middle = _boundary(y)
    between = _two_levels(s[middle:], s[:middle], loss)
    return between + _pairs(y[:middle], s[:middle], loss) + _pairs(y[middle:], s[middle:], loss)


def _boundary(y: NDArray[np.float64]) -> int:
    """The change of level nearest to the middle."""
    value = y[len(y) // 2]
    left, right = np.searchsorted(y, value), np.searchsorted(y, value, side="right")
    candidates = [int(b) for b in (left, right) if 0 < b < len(y)]
    return min(candidates, key=lambda b: abs(b - len(y) // 2))


def _two_levels(high: NDArray[np.float64], low: NDArray[np.float64], loss: Loss) -> float:
    """Sum over all high and low of max(0, t - high), t = 1 + low, squared or not."""
    high = np.sort(high)
    t = 1.0 + low
    count = np.searchsorted(high, t)
    first = np.concatenate(([0.0], np.cumsum(high)))[count]
    if loss == "hinge":
        return float((count * t - first).sum())
    second = np.concatenate(([0.0], np.cumsum(high**2)))[count]
    return float((count * t**2 - 2 * t * first + second).sum())
