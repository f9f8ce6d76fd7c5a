"""Batches of rows of a file of any size, for a trained model to score."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankplug.data import columns_of_features, tables
from rankplug.exceptions import DataError, ParameterError, nearest
from rankplug.io.columns import DEFAULT_LABEL, find_query_column, require_single, table_of
from rankplug.io.companions import Companions, tell_companions
from rankplug.io.files import InputFile, Notation, refuse_unfit, require_format
from rankplug.io.prepared import PreparedFolder, is_folder, open_prepared
from rankplug.io.shortage import names_shortage_of_batches
from rankplug.io.svmlight import svmlight_batches
from rankplug.io.table_files import Roles
from rankplug.parameters import Integer, check_parameters


@dataclass(frozen=True)
class Batch:
    """Some rows of a file.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features), or Arrow table
        A table if columns are free, or lists.
    qid : ndarray of shape (n_rows,) or None
        Query ids, as text if the file is text.
    fraction : float
        How much of the file has been read, from 0 to 1.
    kept : pyarrow.Table or None
        Columns that are passed on.
    """

    X: Any
    qid: NDArray[Any] | None
    fraction: float
    kept: Any = None


@names_shortage_of_batches
def read_batches(
    path: str | os.PathLike[str],
    *,
    n_features: int,
    feature_names: Sequence[str] | None = None,
    qid: str | None = None,
    query_column: str | None = None,
    zero_based: bool | None = None,
    usually_zero_based: bool = False,
    separator: str | None = None,
    decimal: Literal[".", ","] | None = None,
    ids: Sequence[str] | None = None,
    id_columns: Sequence[str] = (),
    batch_rows: int = 10_000,
    format: str | None = None,  # noqa: A002
    free: Collection[str] = (),
) -> Iterator[Batch]:
    """Read a file in order, in memory for one batch.

    Parameters
    ----------
    path : path
        svmlight text, CSV, Parquet or Arrow; text may be compressed, and its queries may be those
        of a companion. Relevance is not needed in tables and not looked at in text. Or a prepared
        folder, whose rows are in its own order, and not scaled any more if they were.
    n_features : int
        Number of features.
    feature_names : sequence of str, optional
        Columns of a table that hold the features; others are ignored. If omitted, these are
        ``f0``, ``f1``, ..., or else all columns but "label" and the query ids.
    qid : str, optional
        Column of a table that holds the query ids.
    query_column : str, optional
        Holds them, if it is there and `qid` is omitted; else "qid" does if there is one.
    zero_based : bool, optional
        Whether the indices of svmlight text begin at 0.
    usually_zero_based : bool
        Whether they do where that is omitted.
    separator, decimal : str, optional
        Of CSV, as for `rankplug.read_data`.
    ids : sequence of str, optional
        Columns of a table to pass on.
    id_columns : sequence of str
        Are passed on, if they are there and `ids` is omitted.
    batch_rows : int
        Rows, or lines of svmlight text, to read at a time.
    format : str, optional
        One of `rankplug.io.FORMATS`; found out from the file if omitted.
    free : collection of str
        Features that may hold anything, such as text; the others are numbers.

    Raises
    ------
    DataError, ParameterError
        As `rankplug.read_data`; what is wrong in one batch is reported when it is reached.
    """
    rules = {"batch_rows": Integer(1, most=2**31 - 1)}
    check_parameters("reading batches", rules, {"batch_rows": batch_rows})
    notation = Notation(zero_based, separator, decimal).check()
    if is_folder(path):
        notation.refuse_unfit("prepared")
        refuse_unfit("prepared", format=format, qid=qid, id=ids)
        yield from _read_folder(open_prepared(path), n_features, feature_names, batch_rows)
        return
    require_format(format)
    file = InputFile(path, notation)
    with file.open() as stream:
        format_ = format or file.recognise(stream)
        notation.refuse_unfit(format_)
        beside = replace(Companions.of(file, format_), weights_file=None)
        tell_companions([beside], format_)
        n_rows = 0
        if format_ == "svmlight":
            if zero_based is None:
                file.notation = replace(notation, zero_based=usually_zero_based)
            if qid is not None or ids is not None:
                raise ParameterError(
                    f"{file}: qid and id are for tables, svmlight text names no columns"
                )
            for X, written in svmlight_batches(file, stream, n_features, batch_rows):
                queries = beside.ids(n_rows, X.shape[0], written)
                n_rows += X.shape[0]
                yield Batch(X, queries, file.fraction_read())
            beside.require_end(n_rows)
            return
        table = table_of(file, stream, format_)
        there = table.column_names()
        roles = _choose_columns(file, there, n_features, feature_names, qid, query_column, free)
        kept = [name for name in id_columns if name in there] if ids is None else ids
        _require(file, kept, there)
        roles = replace(roles, kept=tuple(dict.fromkeys(kept)))
        require_single(file, roles.columns, there)
        plain = not roles.free and roles.features == tuple(feature_names or roles.features)
        for rows, fraction in table.batches(roles, batch_rows):
            written = None if roles.ids is None else tables.column(rows, roles.ids)
            queries = beside.ids(n_rows, rows.num_rows, written)
            n_rows += rows.num_rows
            X = tables.to_matrix(rows, roles.features) if plain else rows
            yield Batch(X, queries, fraction, rows.select(list(roles.kept)) if kept else None)
        beside.require_end(n_rows)


def _read_folder(
    folder: PreparedFolder, n_features: int, names: Sequence[str] | None, n_rows: int
) -> Iterator[Batch]:
    data = folder.data()
    columns = None
    if names is not None and data.feature_names is not None and tuple(names) != data.feature_names:
        _require(folder.path, names, list(data.feature_names))
        columns = [data.feature_names.index(name) for name in names]
    elif data.n_features != n_features:
        raise DataError(f"{folder.path} holds {data.n_features} features, the model {n_features}")
    for start in range(0, data.n_samples, n_rows):
        rows = slice(start, start + n_rows)
        X = data.X[rows] if data.scaling is None else data.scaling.undo(data.X[rows])
        stop = start + X.shape[0]
        query = np.searchsorted(data.query_ptr, np.arange(start, stop), side="right") - 1
        chosen = X if columns is None else X[:, columns]
        yield Batch(chosen, data.query_ids[query], stop / data.n_samples)


def _choose_columns(
    file: InputFile,
    there: list[str],
    n_features: int,
    feature_names: Sequence[str] | None,
    qid: str | None,
    usual: str | None,
    free: Collection[str],
) -> Roles:
    """The columns of the features, and that of the query ids."""
    qid = find_query_column(there, qid, feature_names, usual)
    _require(file, [] if qid is None else [qid], there)
    given = feature_names or _find_unnamed(file, there, n_features, qid)
    names = columns_of_features(given, there)
    _require(file, names, there)
    return Roles(names, ids=qid, free=tuple(name for name in names if name in free))


def _require(file: object, names: Sequence[str], there: list[str]) -> None:
    missing = [name for name in names if name not in there]
    if missing:
        listed = ", ".join(map(repr, missing))
        raise DataError(f"{file}: no column {listed}{nearest(missing[0], there)}")


def _find_unnamed(file: InputFile, there: list[str], n_features: int, qid: str | None) -> list[str]:
    """The columns of features that the model has no names for."""
    numbered = [f"f{j}" for j in range(n_features)]
    if set(numbered) <= set(there):
        return numbered
    taken = (qid, DEFAULT_LABEL)
    others = [name for name in there if name not in taken and not tables.is_unnamed(name)]
    if len(others) != n_features:
        raise DataError(
            f"{file}: {len(others)} columns beside query id and label, but the model has "
            f"{n_features} features without names: name its columns f0 ... f{n_features - 1}"
        )
    return others
