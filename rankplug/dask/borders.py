"""Queries whose rows are in several partitions: found, and mended where only borders cut them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.dask.reading import Ends
from rankplug.exceptions import DataError

__all__ = ["Crossing", "find_crossings", "may_overlap", "require_one_kind"]


@dataclass(frozen=True)
class Crossing:
    """A query with rows in several partitions, given by their positions in a list."""

    query: Any
    partitions: tuple[int, ...]


def require_one_kind(ends: Sequence[Ends]) -> None:
    """Raise `DataError` if some partitions have integers and others strings as query ids."""
    for one in ends:
        if one.kind != ends[0].kind:
            examples = [f"{e.first.item()!r} in partition {e.number}" for e in (ends[0], one)]
            raise DataError(
                f"qid is of different types: {', '.join(examples)}; make them all integers or all "
                "strings"
            )


def may_overlap(ends: Sequence[Ends]) -> bool:
    """Whether partitions may share more queries than the lowest of one, highest of another.

    False where ids ascend from partition to partition, as they do when data are sorted by them.
    """
    ordered = sorted(ends, key=lambda one: (one.lowest, one.highest))
    return any(b.lowest < a.highest for a, b in pairwise(ordered))


def find_crossings(ids: Sequence[NDArray[Any]], ends: Sequence[Ends]) -> list[Crossing]:
    """The queries that border after border cuts.

    Parameters
    ----------
    ids : sequence of array
        The queries of each partition, or those that may be in another.
    ends : sequence of Ends

    Raises
    ------
    DataError
        If a query has rows in partitions that are not neighbours, or somewhere within them.
    """
    partition = np.repeat(np.arange(len(ids)), [len(part) for part in ids])
    together = np.concatenate(ids)
    order = np.argsort(together, kind="stable")
    queries, starts, counts = np.unique(together[order], return_index=True, return_counts=True)
    found = []
    for query, start, count in zip(
        queries[counts > 1], starts[counts > 1], counts[counts > 1], strict=True
    ):
        where = np.unique(partition[order[start : start + count]]).tolist()
        if len(where) > 1:
            _require_borders_only(query, where, ends)
            found.append(Crossing(query, tuple(where)))
    return found


def _require_borders_only(query: Any, where: Sequence[int], ends: Sequence[Ends]) -> None:
    for a, b in pairwise(where):
        if b != a + 1 or ends[a].last != query or ends[b].first != query:
            raise DataError(
                f"query {query} has rows in partitions {ends[a].number} and {ends[b].number}, and "
                "not only at the border between them: bring the rows of every query together, with "
                "df.shuffle('qid') or df.sort_values('qid') of a Dask DataFrame, or by sorting the "
                "rows by query before they are cut into partitions"
            )
