"""Tables of the best rows, of the caller's own kind, with what names the rows of the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankplug.data import columns_of_features, tables
from rankplug.exceptions import DataError


class Columns(NamedTuple):
    """A table's features, and the names of its other columns, which tell what the rows are."""

    features: Any
    others: list[str]


def split_columns(X: Any, names: Sequence[str] | None) -> Columns:
    """Part the features of a model, single or in lists, from the other columns of a table.

    Without the names of features, all columns are features but ``qid``; and what is no table has
    no others.

    Raises
    ------
    DataError
        If features are missing; all of them are named.
    """
    if not tables.is_table(X):
        return Columns(X, [])
    there = tables.column_names(X)
    if names is None:
        features, _ = tables.without_query_column(X, given=False)
        return Columns(features, [name for name in there if name == tables.QUERY_COLUMN])
    columns = columns_of_features(names, there)
    known, given = set(columns), set(there)
    missing = [name for name in columns if name not in given]
    if missing:
        raise DataError(f"missing feature columns: {', '.join(missing)}")
    return Columns(_select(X, columns), [name for name in there if name not in known])


def table_of_rows(
    X: Any,
    rows: NDArray[np.int64],
    others: Sequence[str],
    first: Mapping[str, NDArray[Any]],
    last: Mapping[str, NDArray[Any]],
) -> Any:
    """Rows of a table's other columns between new ones, in a table of the same kind.

    Parameters
    ----------
    X : table, array or sparse matrix
        A pandas DataFrame keeps its index. What has no index gets a column ``row``, the position
        in `X` from 0; for arrays and sparse matrices the table is a pandas DataFrame.
    rows : int64 ndarray of shape (n,)
        Positions in `X`; they may occur several times.
    others : sequence of str
        Columns of `X` to keep.
    first, last : mapping of str to ndarray of shape (n,)
        New columns.

    Raises
    ------
    DataError
        If `X` has a column of a new one's name.
    """
    indexed = hasattr(X, "iloc")
    before = dict(first) if indexed else {**first, "row": rows}
    for name in (*before, *last):
        if name in others:
            raise DataError(
                f"X has a column {name!r}, where the answer has its own: leave it out, or rename it"
            )
    kind = type(X).__module__.split(".")[0] if tables.is_table(X) else ""
    if kind == "polars":
        import polars

        kept = X.select(others)[rows] if others else polars.DataFrame()
        return polars.DataFrame({**before, **_series(kept), **last})
    if kind == "pyarrow":
        import pyarrow

        kept = {name: X.column(X.schema.get_field_index(name)).take(rows) for name in others}
        return pyarrow.table({**before, **kept, **last})
    if not indexed:
        import pandas as pd

        kept = {name: tables.column(X, name)[rows] for name in others}
        return pd.DataFrame({**before, **kept, **last})
    table = X.iloc[rows, [tables.column_names(X).index(name) for name in others]].copy()
    for position, (name, values) in enumerate(before.items()):
        table.insert(position, name, values)
    for name, values in last.items():
        table[name] = values
    return table


def _series(table: Any) -> dict[str, Any]:
    """The columns of a polars DataFrame by name."""
    return {column.name: column for column in table.get_columns()}


def _select(X: Any, names: Sequence[str]) -> Any:
    """Columns of a table in the order of the names."""
    if not hasattr(X, "iloc"):
        return X.select(list(names))
    # By position: pandas' names may be of any type.
    position = {name: j for j, name in enumerate(tables.column_names(X))}
    return X.iloc[:, [position[name] for name in names]]
