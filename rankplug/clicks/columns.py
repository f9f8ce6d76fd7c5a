"""Columns of logs of clicks and of their documents: read from tables and files, and checked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import Categories, RankingData, real_vector, tables
from rankplug.exceptions import DataError
from rankplug.io import read_table

LAST_POSITION = 10_000
"""Of documents in a list: there are arrays of this length, and a larger number is no position."""

_EXACT_FLOATS = 2.0**53  # beyond it, neighbouring integers are one float64


@dataclass(frozen=True, eq=False)
class Impressions:
    """The rows of a log: query and document as they are written, and the checked other columns."""

    table: Any
    roles: tuple[str, ...]
    query: NDArray[Any]
    document: NDArray[Any]
    position: NDArray[np.int64]
    click: NDArray[np.bool_]
    session: NDArray[np.int64] | None
    randomised: NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False)
class Candidates:
    """Documents of queries with their features, and where each one's row is."""

    data: RankingData
    ids: NDArray[Any]

    def row_of(self, shown: Impressions) -> NDArray[np.int64]:
        """The row of each document that was shown; raises `DataError` if one has none."""
        query, known_query = _alike(shown.query, self.data.qid)
        document, known = _alike(shown.document, self.ids)
        wanted = _keys(query, document)
        row: NDArray[np.int64] = _keys(known_query, known).get_indexer(wanted)
        unknown = np.flatnonzero(row < 0)
        if unknown.size:
            at = unknown[0]
            raise DataError(
                f"{len(wanted[unknown].unique()):,} documents of the log are unknown, such as "
                f"{shown.document[at]!s} of query {shown.query[at]!s} at row {at}: the table of "
                "documents needs a row for each of them"
            )
        return row


def read_impressions(
    log: Any,
    *,
    query: str,
    document: str,
    position: str,
    click: str,
    session: str | None,
    randomised: str | None,
) -> Impressions:
    """The columns of a log; raises `DataError` about the first value that cannot be right."""
    table = _opened(log, "the log")
    roles = tuple(
        name for name in (query, document, position, click, session, randomised) if name is not None
    )
    if len(set(roles)) < len(roles):
        raise DataError(f"a column is named for two purposes: {', '.join(roles)}")
    named = dict(zip(roles, tables.columns(table, roles), strict=True))
    if not len(named[query]):
        raise DataError("the log has no rows")
    queries, lists = _ids(named[query], query), None
    places = _positions(named[position], position)
    if session is not None:
        lists = _codes(_ids(named[session], session), queries)
        _require_one_at_a_position(lists, places, named, query, position, session)
    return Impressions(
        table,
        roles,
        queries,
        _ids(named[document], document),
        places,
        _truths(named[click], click),
        lists,
        None if randomised is None else _truths(named[randomised], randomised),
    )


def read_candidates(
    documents: Any,
    shown: Impressions,
    query: str,
    document: str,
    features: Sequence[str] | None,
    categories: Categories | None = None,
) -> Candidates:
    """The documents of all queries, of a table of their own or of the log.

    Raises
    ------
    DataError
        If there are no features, or a document has different ones.
    """
    if documents is None:
        table, others = shown.table, shown.roles
        queries, ids = shown.query, shown.document
    else:
        table, others = _opened(documents, "the table of documents"), (query, document)
        queries, ids = (
            _ids(values, name)
            for values, name in zip(tables.columns(table, others), others, strict=True)
        )
    what = "the log" if documents is None else "the table of documents"
    names = _feature_names(table, others, features, what)
    keys = _keys(queries, ids)
    first = np.flatnonzero(~keys.duplicated())
    unique = keys[first]
    representative = first[unique.get_indexer(keys)]
    if len(first) < len(keys):
        _require_same_features(table, names, representative, queries, ids)
    data = RankingData.from_arrays(
        _taken(table, names, first), np.zeros(len(first)), queries[first], categories=categories
    ).with_facts(query_column=query, id_columns=(document,))
    taken = ids[first]
    return Candidates(data, taken if data.order is None else taken[data.order])


def _opened(source: Any, what: str) -> Any:
    """A table, or that of a file or several."""
    if isinstance(source, str | os.PathLike):
        return read_table(source)
    if isinstance(source, list | tuple):
        import pyarrow as pa

        if not source:
            raise DataError(f"{what} has no files")
        parts = [read_table(path) for path in source]
        try:
            return pa.concat_tables(parts, promote_options="default")
        except pa.ArrowException as error:
            raise DataError(f"the files of {what} do not have the same columns: {error}") from None
    if hasattr(source, "dask"):
        raise DataError(f"{what} is on a cluster: pass its rows, .compute()")
    source = tables.collected(source)
    if not tables.is_table(source):
        raise DataError(
            f"{what} must be a table of pandas, polars or Arrow, or the path of a file, not a "
            f"{type(source).__name__}"
        )
    return source


def _ids(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Ids as whole numbers or as text; raises `DataError` if they cannot be told apart."""
    import pandas as pd

    missing = np.flatnonzero(pd.isna(values))
    if missing.size:
        raise DataError(f"column {name!r} is missing at row {missing[0]}")
    kind = pd.api.types.infer_dtype(values)
    if kind.startswith("mixed"):
        raise DataError(
            f"column {name!r} mixes values of several types: make them all integers or all text"
        )
    if kind in ("integer", "floating"):
        if kind == "floating" and np.abs(values).max() >= _EXACT_FLOATS:
            raise DataError(
                f"column {name!r} holds floating-point ids of 2^53 or more, where different ids "
                "become equal: make them integers or text"
            )
        if np.all(values == np.floor(values)) and values.max() < 2**63:
            return values.astype(np.int64)
    return values.astype(np.str_).astype(object)


def _alike(one: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ids that can be compared: all as text if some are."""
    if (one.dtype.kind == "i") == (other.dtype.kind == "i"):
        return one, other
    return one.astype(np.str_).astype(object), other.astype(np.str_).astype(object)


def _keys(first: NDArray[Any], second: NDArray[Any]) -> Any:
    """Pairs of ids, which can be looked up."""
    import pandas as pd

    return pd.MultiIndex.from_arrays([first, second])


def _codes(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.int64]:
    """The number of each pair of ids, in order of first appearance."""
    import pandas as pd

    (one, _), (other, known) = pd.factorize(first), pd.factorize(second)
    return pd.factorize(one.astype(np.int64) * len(known) + other)[0].astype(np.int64)


def _positions(values: NDArray[Any], name: str) -> NDArray[np.int64]:
    numbers = real_vector(tables.numbers_or_same(values), f"column {name!r}", len(values))
    wrong = np.flatnonzero((numbers < 1) | (numbers > LAST_POSITION) | (numbers % 1 != 0))
    if wrong.size:
        hint = "; positions are counted from 1, so add 1" if numbers.min() == 0 else ""
        raise DataError(
            f"column {name!r} holds {numbers[wrong[0]]:g} at row {wrong[0]}, which is no position: "
            f"it must be a whole number from 1 to {LAST_POSITION:,}{hint}"
        )
    return numbers.astype(np.int64)


def _truths(values: NDArray[Any], name: str) -> NDArray[np.bool_]:
    numbers = real_vector(tables.numbers_or_same(values), f"column {name!r}", len(values))
    wrong = np.flatnonzero((numbers != 0) & (numbers != 1))
    if wrong.size:
        raise DataError(
            f"column {name!r} holds {numbers[wrong[0]]:g} at row {wrong[0]}: it must be 0 or 1"
        )
    return numbers.astype(np.bool_)


def _require_one_at_a_position(
    lists: NDArray[np.int64],
    position: NDArray[np.int64],
    named: dict[str, NDArray[Any]],
    query: str,
    position_name: str,
    session: str,
) -> None:
    place = lists * (LAST_POSITION + 1) + position
    order = np.argsort(place, kind="stable")
    twice = np.flatnonzero(place[order][1:] == place[order][:-1])
    if twice.size:
        first, second = order[twice[0]], order[twice[0] + 1]
        raise DataError(
            f"session {named[session][first]!s}, query {named[query][first]!s} has two rows at "
            f"{position_name} {position[first]}: rows {first} and {second}; if the session asked "
            "the query twice, give each list an id of its own"
        )


def _feature_names(
    table: Any, others: Sequence[str], features: Sequence[str] | None, what: str
) -> tuple[str, ...]:
    there = tables.column_names(table)
    if features is None:
        names = tables.named_beside(others, there, what)
    else:
        names = tables.listed(features)
        tables.require_present(names, there)
        if both := [name for name in names if name in others]:
            raise DataError(f"features: {', '.join(both)} holds something else")
    if not names:
        raise DataError(
            "there are no columns of features: the log needs some, or a table of documents beside "
            "it"
        )
    tables.require_single(names, there)
    return names


def _require_same_features(
    table: Any,
    names: Sequence[str],
    representative: NDArray[np.int64],
    queries: NDArray[Any],
    ids: NDArray[Any],
) -> None:
    """Raise `DataError` if rows of the same document have different features."""
    import pandas as pd

    for name in names:
        values = tables.column(table, name)
        codes, _ = pd.factorize(values)  # missing values are equal
        wrong = np.flatnonzero(codes != codes[representative])
        if wrong.size:
            row, other = wrong[0], representative[wrong[0]]
            raise DataError(
                f"feature {name!r} of document {ids[row]!s} of query {queries[row]!s} has "
                f"different values, {values[other]!s} at row {other} and {values[row]!s} at row "
                f"{row}: a document of a query has one row of features; if it is none, name those "
                "that are"
            )


def _taken(table: Any, names: Sequence[str], rows: NDArray[np.int64]) -> Any:
    """Some columns and rows, by the library of the table."""
    if hasattr(table, "iloc"):
        positions = {str(name): j for j, name in enumerate(table.columns)}
        return table.iloc[rows, [positions[name] for name in names]]
    chosen = table.select(list(names))
    return chosen.take(rows) if hasattr(chosen, "column_names") else chosen[rows]
