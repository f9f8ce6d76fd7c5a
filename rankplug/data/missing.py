"""Missing values of features: how many there are in which column, in numbers and in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rankplug.data.arrays import Matrix, row_blocks

_BLOCK_ELEMENTS = 1 << 21  # of features at once: they may be mapped, and larger than memory
_MOST_NAMED = 8  # columns, so that a message stays readable


def count_missing(X: Matrix) -> NDArray[np.int64]:
    """Number of NaN in each column of `X`, of shape (n_columns,)."""
    counts = np.zeros(X.shape[1], dtype=np.int64)
    for rows in row_blocks(X, _BLOCK_ELEMENTS):
        block = X[rows]
        if isinstance(block, np.ndarray):
            counts += np.isnan(block).sum(axis=0)
        else:
            columns = block.indices[np.isnan(block.data)]
            counts += np.bincount(columns, minlength=len(counts))
    return counts


def describe_missing(counts: NDArray[np.int64], names: Sequence[str] | None) -> str:
    """Missing values by column in words.

    Examples
    --------
    >>> describe_missing(np.array([0, 2, 1]), ["price", "rating", "age"])
    '3 missing values (NaN): rating (2), age (1)'
    """
    there = np.flatnonzero(counts)
    listed = [
        f"{f'column {j}' if names is None else names[j]} ({counts[j]:,})"
        for j in there[:_MOST_NAMED].tolist()
    ]
    more = len(there) - len(listed)
    total = int(counts.sum())
    values = "value" if total == 1 else "values"
    rest = f" and {more} more columns" if more else ""
    return f"{total:,} missing {values} (NaN): {', '.join(listed)}{rest}"
