"""Columns of table files: their roles (features, relevance, query id, weight), and their values."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankplug.data import Categories, columns_of_features, read_features, recode, tables
from rankplug.exceptions import DataError, nearest
from rankplug.io.arrow_files import ArrowFile
from rankplug.io.companions import Companions
from rankplug.io.csv_files import CsvFile
from rankplug.io.files import InputFile, Notation, input_files
from rankplug.io.shortage import names_shortage
from rankplug.io.table_files import Roles, TableFile

DEFAULT_LABEL = "label"
DEFAULT_QID = "qid"


class Columns(NamedTuple):
    """The columns of some roles as arrays, what describes the features, and what is kept."""

    features: NDArray[Any]
    relevance: NDArray[np.float64]
    ids: NDArray[Any] | None
    weight: NDArray[np.float64] | None
    names: tuple[str, ...]
    categories: Categories
    kept: Any = None
    document_weight: NDArray[np.float64] | None = None


class Known(NamedTuple):
    """Features of other data, of which the same are to be read."""

    names: Sequence[str] | None = None
    categories: Categories | None = None


@contextmanager
def open_table(file: InputFile, format_: str) -> Iterator[TableFile]:
    """Open a file of a known format that holds a table."""
    with file.open() as stream:
        yield table_of(file, stream, format_)


def table_of(file: InputFile, stream: BinaryIO, format_: str) -> TableFile:
    """The table in a file that is open already."""
    if format_ == "csv":
        return CsvFile(file, stream)
    return ArrowFile(file, stream, format_)


@names_shortage
def read_table(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
    *,
    separator: str | None = None,
    decimal: Literal[".", ","] | None = None,
) -> Any:
    """All columns of a file as an Arrow table, whatever they hold.

    Parameters
    ----------
    path : path
        CSV, whose columns get the types that all their values have; Parquet or Arrow.
    format : "csv", "parquet" or "arrow", optional
        Found out from the content and the name if omitted.
    separator, decimal : str, optional
        Of CSV, as for `rankplug.read_data`.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    DataError
        If the file holds no table, is damaged, or has no rows.
    ParameterError
        If there is no such format, or an argument does not fit it.
    """
    notation = Notation(separator=separator, decimal=decimal)
    (file,), known = input_files(path, format, notation)
    if known == "svmlight":
        raise DataError(f"{file}: svmlight text has no columns")
    with open_table(file, known) as table:
        return table.whole()


def read_columns(
    files: Sequence[InputFile],
    format_: str,
    choose: Callable[[list[str]], Roles],
    dtype: DTypeLike | None,
    known: Known,
    companions: Sequence[Companions] | None = None,
) -> tuple[Roles, Columns]:
    """Columns of files, one file after the other, and their roles.

    Parameters
    ----------
    files : sequence of InputFile
    format_ : "csv", "parquet" or "arrow"
    choose : callable
        From the names of a file's columns to roles; raises `DataError` without the file's name.
    dtype : float32, float64 or None
        Of the features; None keeps float32 columns of Parquet and Arrow files.
    known : Known
        Those of data read before.
    companions : sequence of Companions, optional
        Of each file, whose ids are those of queries.
    """
    roles = common_roles(files, format_, choose)
    parts = [_read(file, format_, roles, dtype, known) for file in files]
    if companions is not None:
        pairs = zip(parts, companions, strict=True)
        parts = [_with_companions(part, roles, beside) for part, beside in pairs]
    return roles, parts[0] if len(parts) == 1 else _concatenate(files, parts)


def common_roles(
    files: Sequence[InputFile], format_: str, choose: Callable[[list[str]], Roles]
) -> Roles:
    """The roles that columns play in all files; raises `DataError` if they have other columns."""
    names = [_names(file, format_) for file in files]
    roles = [_choose(*one, choose) for one in zip(files, names, strict=True)]
    _tell_unnamed(files[0], names[0], roles[0])
    for file, other in zip(files, roles, strict=True):
        if set(other.features) != set(roles[0].features) or other.ids != roles[0].ids:
            differing = {*other.features, other.ids} ^ {*roles[0].features, roles[0].ids}
            listed = ", ".join(sorted(name for name in differing if name is not None))
            raise DataError(
                f"{files[0]} and {file} do not have the same columns: only one of them has "
                f"{listed}; name the features with features=[...]"
            )
    return roles[0]


def _tell_unnamed(file: InputFile, names: list[str], roles: Roles) -> None:
    """Say which columns are no features because they have no names."""
    left_out = [name for name in names if name not in roles.columns]
    # Where others are left out, too, the features were named.
    if left_out and all(map(tables.is_unnamed, left_out)):
        tables.warn_of_unnamed(file, left_out)


def query_roles(
    names: list[str],
    *,
    label: str | None,
    qid: str | None,
    weight: str | None,
    features: Sequence[str] | None,
    like: Sequence[str] | None,
    shown: Sequence[str] = (),
    document_weight: str | None = None,
) -> Roles:
    """Roles of the columns of query-document data; see `rankplug.read_data`."""
    label = label or DEFAULT_LABEL
    qid = find_query_column(names, qid, features)
    roles = [("label", label), ("qid", qid), ("weight", weight)]
    roles += [("document_weight", document_weight)]
    used = [name for _, name in roles if name is not None]
    wrong = [
        _unknown([name], names, f"{role}=...")
        for role, name in roles
        if name is not None and name not in names
    ]
    if len(set(used)) < len(used):
        several = "label, qid and weight" if document_weight is None else "label, qid and weights"
        wrong.append(f"{several} must be different columns")
    chosen, more = _features(names, set(used), features, like)
    missing = [name for name in shown if name not in names]
    wrong += [_unknown(missing, names, "shown=[...]")] if missing else []
    _raise_all(wrong + more)
    kept = tuple(dict.fromkeys(shown))
    return Roles(chosen, (label,), qid, weight, kept=kept, document_weight=document_weight)


def find_query_column(
    names: list[str], qid: str | None, features: Sequence[str] | None, usual: str | None = None
) -> str | None:
    """The column of the query ids: the one that is named, or else "qid", unless a feature is.

    Before "qid" comes the one that is usual, if it is there.
    """
    if qid is None and usual in names:
        return usual
    unnamed = qid is None and DEFAULT_QID in names and DEFAULT_QID not in (features or ())
    return DEFAULT_QID if unnamed else qid


def label_roles(
    names: list[str],
    *,
    labels: str | Sequence[str],
    features: Sequence[str] | None,
    like: Sequence[str] | None,
) -> Roles:
    """Roles of the columns of label-ranking data; see `rankplug.io.read_label_data`."""
    label_names = tables.listed(labels)
    missing = [name for name in label_names if name not in names]
    wrong = [_unknown(missing, names, "labels=...")] if missing else []
    if not label_names or len(set(label_names)) < len(label_names):
        wrong.append("labels must name at least one column, and none twice")
    chosen, more = _features(names, set(label_names), features, like)
    _raise_all(wrong + more)
    if isinstance(labels, str):
        return Roles(chosen, ids=labels)
    return Roles(chosen, label_names, partial=True)


def _features(
    names: list[str], used: set[str], features: Sequence[str] | None, like: Sequence[str] | None
) -> tuple[tuple[str, ...], list[str]]:
    """The feature columns, and what is wrong with them."""
    others = [name for name in names if name not in used and not tables.is_unnamed(name)]
    if features is None and like is None:
        return tuple(others), [] if others else ["no column is left for the features"]
    given = tables.listed(features or ())
    chosen = list(() if like is None else columns_of_features(like, names)) or list(given)
    missing = [name for name in chosen if name not in names]
    wrong = [_unknown(missing, names, "features=[...]")] if missing else []
    wrong += [f"column {name!r} has two roles" for name in chosen if name in used]
    if not chosen or len(set(chosen)) < len(chosen):
        wrong.append("features must name at least one column, and none twice")
    unseen = [] if like is None else [name for name in given or others if name not in chosen]
    if unseen:
        wrong.append(
            f"features unseen in training: {', '.join(unseen)}; drop these columns, or name the "
            "features with features=[...] as in training"
        )
    return tuple(chosen), wrong


def _unknown(missing: Sequence[str], names: list[str], argument: str) -> str:
    listed = ", ".join(repr(name) for name in missing)
    return f"no column {listed}{nearest(missing[0], names)}: name the right ones with {argument}"


def _raise_all(wrong: list[str]) -> None:
    if wrong:
        raise DataError("; ".join(wrong))


def _names(file: InputFile, format_: str) -> list[str]:
    with open_table(file, format_) as table:
        return table.column_names()


def _choose(file: InputFile, names: list[str], choose: Callable[[list[str]], Roles]) -> Roles:
    try:
        roles = choose(names)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None
    require_single(file, roles.columns, names)
    return roles


def require_single(file: InputFile, needed: Sequence[str], names: list[str]) -> None:
    """Raise `DataError` if a needed column is there more than once."""
    counts = Counter(names)
    twice = sorted({name for name in needed if counts[name] > 1})
    if twice:
        raise DataError(f"{file}: columns that occur more than once: {', '.join(twice)}")


def _read(
    file: InputFile, format_: str, roles: Roles, dtype: DTypeLike | None, known: Known
) -> Columns:
    with open_table(file, format_) as opened:
        table, ids = opened.read(roles)
    try:
        read = read_features(table, known.names or roles.features, known.categories)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None
    features = read.matrix
    weight, document_weight = (
        None if name is None else tables.to_matrix(table, [name])[:, 0]
        for name in (roles.weight, roles.document_weight)
    )
    if dtype is not None:
        with np.errstate(over="ignore"):  # reported as infinite values later
            features = features.astype(dtype, copy=False)
    return Columns(
        features,
        tables.to_matrix(table, roles.relevance).astype(np.float64, copy=False),
        ids,
        weight,
        tuple(read.names),
        read.categories,
        table.select(list(roles.kept)) if roles.kept else None,
        document_weight,
    )


def _with_companions(columns: Columns, roles: Roles, beside: Companions) -> Columns:
    """The columns with the queries and weights that stand in other files."""
    n_rows = len(columns.features)
    ids = beside.ids(0, n_rows, columns.ids)
    if ids is not None and columns.ids is None:
        ids = ids.astype(np.int64)
    weight = beside.weights(0, n_rows)
    require_one_weight(roles, beside)
    beside.require_end(n_rows)
    return columns._replace(ids=ids, weight=columns.weight if weight is None else weight)


def require_one_weight(roles: Roles, beside: Companions) -> None:
    """Raise `DataError` if a column and a companion tell the weights."""
    if roles.weight is not None and beside.weights_file is not None:
        raise DataError(
            f"{beside.file}: the weights are in the column {roles.weight!r} and in "
            f"{beside.weights_file}: leave out weight, or move the file away"
        )


def _concatenate(files: Sequence[InputFile], parts: Sequence[Columns]) -> Columns:
    """The rows of all files; a category of one of them is one of all."""
    first = parts[0]
    for file, part in zip(files, parts, strict=True):
        if part.names != first.names or part.categories.keys() != first.categories.keys():
            raise DataError(
                f"{files[0]} and {file} do not have the same features: lists must be of one "
                "length, and categories be categories, in all files"
            )
    together = {
        j: tuple(dict.fromkeys(one for part in parts for one in part.categories[j]))
        for j in first.categories
    }

    if first.kept is not None:
        import pyarrow as pa

        kept = pa.concat_tables([part.kept for part in parts], promote_options="permissive")

    def join(arrays: Sequence[Any]) -> Any:
        return None if arrays[0] is None else np.concatenate(arrays)

    return Columns(
        join([recode(part.features, part.categories, together) for part in parts]),
        join([part.relevance for part in parts]),
        join([part.ids for part in parts]),
        join([part.weight for part in parts]),
        first.names,
        together,
        None if first.kept is None else kept,
        join([part.document_weight for part in parts]),
    )
