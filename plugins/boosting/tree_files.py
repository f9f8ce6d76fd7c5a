"""What the checks of XGBoost's and of LightGBM's files have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["require", "require_depth"]

_DEEPEST = 4096
"""The libraries walk through trees by recursion."""


def require(right: bool, what: str) -> None:
    """Raise `ValueError`, which names a part of a file, unless that is right."""
    if not right:
        raise ValueError(f"{what} cannot be right")


def require_depth(left: NDArray[Any], right: NDArray[Any]) -> None:
    """Refuse trees that are too deep; children below 0 are leaves or none.

    Every node but the first must be the child of exactly one.
    """
    level, depth = np.array([0]), 0
    while len(level):
        level = np.concatenate((left[level], right[level]))
        level, depth = level[level >= 0], depth + 1
    require(depth <= _DEEPEST, "depth")
