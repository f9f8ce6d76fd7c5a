"""Neighbouring pieces of data as one partition: each partition costs a task a pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankplug.data import even_spans

__all__ = ["PARTITIONS_PER_THREAD", "equal_runs"]

PARTITIONS_PER_THREAD = 2
"""Most partitions for each thread of a cluster; more than one balance what workers have to do."""


def equal_runs(rows: Sequence[int], most: int) -> list[range]:
    """Runs of neighbours of about equally many rows, at most so many of them.

    Examples
    --------
    >>> equal_runs([5, 5, 10], most=2)
    [range(0, 2), range(2, 3)]
    """
    if len(rows) <= most:
        return [range(i, i + 1) for i in range(len(rows))]
    return [range(*span) for span in even_spans(np.cumsum([0, *rows]), max(most, 1))]
