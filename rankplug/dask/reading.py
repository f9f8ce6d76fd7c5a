"""Partitions of rows, checked on the workers; queries cut by the borders between them.

1. `read_partition` makes ranking data of the rows, on a worker; `ends_of` says where it begins and
   ends.
2. `find_crossings` finds the queries with rows in several partitions, from these ends.
3. `assemble` puts partitions and such queries together, on a worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankplug.data import RankingData
from rankplug.exceptions import DataError


@dataclass(frozen=True)
class Refusal:
    """Why the rows of a partition are refused."""

    reason: str


class Columns(NamedTuple):
    """The features of a partition."""

    number: int
    names: tuple[str, ...] | None
    categories: dict[int, tuple[Any, ...]]

    @classmethod
    def of(cls, data: RankingData) -> Columns:
        """Those of these data."""
        return cls(data.n_features, data.feature_names, dict(data.categories))

    def __str__(self) -> str:
        shown = "" if self.names is None else f" ({', '.join(self.names[:5])}, ...)"
        return f"{self.number} features{shown}"


@dataclass(frozen=True)
class Ends:
    """What of a partition says whether its queries may go on in others."""

    number: int  # of the partition, as the caller cut them
    lowest: Any  # query ids, in the order of numbers or of strings
    highest: Any
    first: Any  # query ids of the first and the last row
    last: Any
    n_rows: int
    n_queries: int
    kind: str  # of the type of ids, in the words of NumPy
    columns: Columns


@dataclass(frozen=True)
class Crossing:
    """A query with rows in several partitions, given by their positions in a list."""

    query: Any
    partitions: tuple[int, ...]


def read_partition(
    number: int,
    X: Any,
    y: Any,
    qid: Any,
    sample_weight: Any,
    document_weight: Any = None,
    *,
    stand_together: bool = False,
) -> RankingData | Refusal | None:
    """A task: check the rows of a partition; None if it has none.

    With `stand_together`, rows of a query that do not are refused, too.
    """
    if X.shape[0] == 0 and len(y) == 0:
        return None
    try:
        weights = {"sample_weight": sample_weight, "document_weight": document_weight}
        for name, values in {"y": y, "qid": qid, **weights}.items():
            _require_same_order(name, values, X)
        data = RankingData.from_arrays(X, y, qid, **weights)
    except DataError as error:
        return Refusal(f"partition {number}: {error}")
    if stand_together and data.order is not None:
        return Refusal(
            f"partition {number}: sample_weight has one value a query, but the rows of a query do "
            "not stand together: give one for each row"
        )
    return data if data.order is None else data.with_facts(order=None)


def _require_same_order(name: str, values: Any, X: Any) -> None:
    """Raise `DataError` if a frame's labels are those of `X` in another order."""
    own, other = getattr(X, "index", None), getattr(values, "index", None)
    if own is None or other is None or len(own) != len(other) or own.equals(other):
        return
    try:
        moved = own.sort_values().equals(other.sort_values())
    except TypeError:  # labels of several types have no order: they are not compared
        return
    if moved:
        raise DataError(
            f"the rows of {name} are not in the order of those of X: their index has the same "
            "labels in another order; take both from one DataFrame, after it was shuffled or sorted"
        )


def ends_of(number: int, data: RankingData | Refusal | None) -> Ends | Refusal | None:
    """A task: the ends of a partition."""
    if not isinstance(data, RankingData):
        return data
    ids = np.sort(data.query_ids)
    first, last = data.query_ids[[0, -1]]
    return Ends(
        number, ids[0], ids[-1], first, last, data.n_samples, len(ids), ids.dtype.kind,
        Columns.of(data),
    )  # fmt: skip


def ids_of(data: RankingData) -> NDArray[Any]:
    """A task: the ids of a partition's queries."""
    return data.query_ids


def take_query(data: RankingData, query: Any) -> RankingData:
    """A task: the rows of one query."""
    return data.take(np.flatnonzero(data.query_ids == query))


def _without_queries(data: RankingData, queries: Sequence[Any]) -> RankingData | None:
    """The rows of all other queries; None if there are none."""
    kept = np.flatnonzero(~np.isin(data.query_ids, np.array(queries)))
    if len(kept) == data.n_queries:
        return data
    return data.take(kept) if len(kept) else None


def assemble(
    parts: Sequence[RankingData], given_up: Sequence[Any], taken: Sequence[RankingData]
) -> RankingData | None:
    """A task: several partitions as one, without some queries, and with rows from elsewhere.

    None if nothing is left.
    """
    own = [_without_queries(part, given_up) for part in parts] if given_up else parts
    together = [part for part in (*own, *taken) if part is not None]
    if len(together) <= 1:
        return together[0] if together else None
    rows = RankingData.stack(together)
    data = RankingData.from_arrays(
        rows.X,
        rows.relevance,
        rows.qid,
        sample_weight=rows.row_weight,
        document_weight=rows.document_weight,
        feature_names=rows.feature_names,
        categories=rows.categories,
    )
    return data.with_facts(order=None)


def require_same_columns(columns: Mapping[int, Columns]) -> None:
    """Raise `DataError` if partitions do not have the same features, in the same order."""
    first = next(iter(columns.values()))
    for number, one in columns.items():
        if one[:2] != first[:2]:
            raise DataError(
                f"partition {number} has {one}, the first one {first}: give all partitions the "
                "same columns in the same order"
            )
        if one.categories != first.categories:
            raise DataError(
                f"partition {number} has other categories than the first one: make them known to "
                "all, by df.categorize()"
            )


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


def first_queries(ends: Sequence[Ends]) -> list[int]:
    """How many queries there are before the first one of each partition, and in all.

    Only borders cut queries.
    """
    sizes = [one.n_queries for one in ends]
    cut = [False, *(a.last == b.first for a, b in pairwise(ends))]
    before = np.cumsum([0, *sizes])[:-1] - np.cumsum(cut)
    return [*before.tolist(), int(before[-1]) + sizes[-1]]


def weigh(data: RankingData, weights: NDArray[np.float64]) -> RankingData:
    """A task: the rows with these weights of their queries."""
    return data.with_facts(query_weight=weights)


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
