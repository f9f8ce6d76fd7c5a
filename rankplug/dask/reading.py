"""Reading Dask collections: pieces of rows, checked on the workers; queries cut by borders.

1. `pieces_of` cuts the collections of a caller at the same rows.
2. `read_partition` makes ranking data of each piece, on a worker; `ends_of` says where it begins
   and ends.
3. `find_crossings` finds the queries with rows in several partitions, from these ends.
4. `assemble` puts partitions and such queries together, on a worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from rankplug.data import RankingData
from rankplug.exceptions import DataError

__all__ = [
    "Crossing",
    "Ends",
    "Refusal",
    "assemble",
    "ends_of",
    "find_crossings",
    "ids_of",
    "may_overlap",
    "pieces_of",
    "read_partition",
    "require_one_kind",
    "take_query",
]


@dataclass(frozen=True)
class Refusal:
    """Why the rows of a partition are refused."""

    reason: str


@dataclass(frozen=True)
class Ends:
    """What of a partition says whether its queries may go on in others."""

    number: int  # of the partition, as the caller cut them
    lowest: Any  # query ids, in the order of numbers or of strings
    highest: Any
    first: Any  # query ids of the first and the last row
    last: Any
    n_rows: int
    kind: str  # of the type of ids, in the words of NumPy


@dataclass(frozen=True)
class Crossing:
    """A query with rows in several partitions, given by their positions in a list."""

    query: Any
    partitions: tuple[int, ...]


def pieces_of(
    X: Any, y: Any, qid: Any, sample_weight: Any
) -> list[tuple[Delayed, Delayed, Delayed | None, Delayed | None]]:
    """The partitions of `X` with the rows of the others that stand beside them.

    Raises
    ------
    DataError
        If something is not a Dask collection, or they are not cut at the same rows.
    """
    if not (dask.is_dask_collection(X) and getattr(X, "ndim", 0) == 2):
        raise DataError(
            f"X must be a two-dimensional Dask Array or a Dask DataFrame, not {_type_name(X)}: use "
            "dask.array.from_array or dask.dataframe.from_pandas, or rankplug.Ranker for data in "
            "this process"
        )
    rows = _row_chunks(X)
    features = _partitions(X)
    beside = {"y": y, "qid": qid, "sample_weight": sample_weight}
    parts = {
        name: [None] * len(features) if values is None else _cut_alike(name, values, rows, features)
        for name, values in beside.items()
    }
    if y is None:
        raise DataError("y is missing: pass the relevance of each row")
    if qid is None and len(features) > 1:
        raise DataError(
            f"qid is missing: without it all rows are one query, but X has {len(features)} "
            "partitions; pass the query of each row"
        )
    return list(zip(features, parts["y"], parts["qid"], parts["sample_weight"], strict=True))


def _cut_alike(name: str, values: Any, rows: Any, features: Sequence[Delayed]) -> list[Delayed]:
    if not dask.is_dask_collection(values) or not hasattr(values, "ndim"):
        raise DataError(
            f"{name} must be a Dask Array or Series as X is one, not {_type_name(values)}: the "
            "rows of all of them are needed in the same partitions"
        )
    if isinstance(values, da.Array):
        values = _flatten(name, values)
        if rows is not None and not _unknown(values) and values.chunks[0] != rows:
            if sum(values.chunks[0]) != sum(rows):
                raise DataError(
                    f"X has {sum(rows)} rows but {name} has {sum(values.chunks[0])} values"
                )
            values = values.rechunk((rows,))
    parts = _partitions(values)
    if len(parts) != len(features):
        raise DataError(
            f"X has {len(features)} partitions but {name} has {len(parts)}: cut them at the same "
            "rows, best by taking all of them from one DataFrame, or make chunk sizes known "
            "(array.compute_chunk_sizes()) and rechunk"
        )
    return parts


def _partitions(X: Any) -> list[Delayed]:
    """The partitions of a collection, each with all its columns."""
    if isinstance(X, da.Array):
        if X.ndim == 2 and X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        return list(X.to_delayed().ravel())
    return list(X.to_delayed())


def _flatten(name: str, values: da.Array) -> da.Array:
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    if values.ndim != 1:
        raise DataError(f"{name} has {values.ndim} dimensions; it needs one value per row of X")
    return values


def _row_chunks(X: Any) -> tuple[int, ...] | None:
    """Rows of each partition, None where Dask does not know."""
    if not isinstance(X, da.Array) or _unknown(X):
        return None
    return tuple(X.chunks[0])


def _unknown(array: da.Array) -> bool:
    return bool(np.isnan(array.chunks[0]).any())


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def read_partition(
    number: int, X: Any, y: Any, qid: Any, sample_weight: Any
) -> RankingData | Refusal | None:
    """A task: check the rows of a partition; None if it has none."""
    if X.shape[0] == 0 and len(y) == 0:
        return None
    try:
        data = RankingData.from_arrays(X, y, qid, sample_weight=sample_weight)
    except DataError as error:
        return Refusal(f"partition {number}: {error}")
    return data if data.order is None else replace(data, order=None)


def ends_of(number: int, data: RankingData | Refusal | None) -> Ends | Refusal | None:
    """A task: the ends of a partition."""
    if not isinstance(data, RankingData):
        return data
    ids = np.sort(data.query_ids)
    first, last = data.query_ids[[0, -1]]
    return Ends(number, ids[0], ids[-1], first, last, data.n_samples, ids.dtype.kind)


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
        feature_names=rows.feature_names,
    )
    return replace(data, order=None)


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
