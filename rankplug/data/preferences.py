"""Preferences between labels as people write them: relevance, ranks, classes, orders of names."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankplug.data import tables
from rankplug.data.arrays import plain_array, real_array, refuse_masked
from rankplug.data.queries import integers_or_strings
from rankplug.exceptions import DataError, DataWarning, warn_caller

_BETTER, _EQUAL = ">", "="

Places = list[list[Any]]
"""An order: the names on each place, the best first; several are equally good."""


class Preferences(NamedTuple):
    """What `read_preferences` finds.

    Attributes
    ----------
    relevance : float64 ndarray of shape (n_samples, n_labels)
        The higher, the better; NaN: not compared.
    labels : ndarray of shape (n_labels,)
    are_classes : bool
        Whether each row has one class, which is preferred to every other.
    """

    relevance: NDArray[np.float64]
    labels: NDArray[Any]
    are_classes: bool = False


def read_preferences(
    Y: Any,
    labels: Sequence[Any] | NDArray[Any] | None = None,
    *,
    known: NDArray[Any] | None = None,
    ranks: bool | None = None,
    orders: bool | None = None,
) -> Preferences:
    """The relevance of each label for each row.

    Parameters
    ----------
    Y : array-like, table, or list of lists of names
        Of shape (n_samples, n_labels): relevance, NaN for labels that are not compared, or ranks.
        Of shape (n_samples,): classes, or orders such as ``"a>b=c>d"``. Of shape (n_samples,
        n_places): the names on the first place, the second, and so on. Labels that an order does
        not name are not compared, and places may be empty.
    labels : sequence, optional
        Names of the columns of relevance or ranks.
    known : ndarray of shape (n_labels,), optional
        The labels of the training, which those of `Y` must be.
    ranks : bool, optional
        Whether numbers are ranks from 1, the best.
    orders : bool, optional
        Whether `Y` holds orders of names. If it is not said, texts that all have the form ``a>b``
        do, and columns of texts; a `DataWarning` tells where only some have it.

    Raises
    ------
    DataError
        If values are missing, of different kinds, no ranks, or labels that are not `known`.
    """
    Y = tables.collected(Y)
    read = _read_orders(Y, orders)
    if read is not None:
        labels = known if labels is None else np.asarray(labels)
        return _preferences_of_orders(read, labels)
    if tables.is_table(Y):
        by_name = known is not None and known.dtype.kind == "U"
        labels = tables.column_names(Y) if labels is None and known is None else labels
        Y = tables.to_matrix(Y, known.tolist() if by_name and known is not None else None)
    values = plain_array(Y, "relevance Y")
    if values.ndim == 1:
        if ranks and known is None:
            raise DataError("ranks=True needs a Y with a column for each label, not classes")
        return _preferences_of_classes(values, known)
    if values.ndim != 2:
        raise DataError(f"relevance Y has {values.ndim} dimensions; it needs one or two")
    relevance = real_array(values, "relevance Y", allow_nan=True)
    if ranks:
        relevance = relevance_of_ranks(relevance, "Y", range(relevance.shape[1]))
    elif ranks is None and _look_like_ranks(relevance):
        warn_caller(
            f"each row of Y holds the numbers from 1 to {relevance.shape[1]}, as ranks do, "
            f"and is taken as relevance: {relevance.shape[1]} is the best; if 1 is, pass "
            "ranks=True, else ranks=False",
            DataWarning,
        )
    named = known if labels is None else labels
    names = np.arange(values.shape[1]) if named is None else np.asarray(named)
    if len(names) != relevance.shape[1]:
        raise DataError(f"Y has {relevance.shape[1]} columns but {len(names)} labels are named")
    return Preferences(relevance, names)


def relevance_of_ranks(
    ranks: NDArray[np.float64], what: str, names: Sequence[Any]
) -> NDArray[np.float64]:
    """The relevance of ranks of shape (n_samples, n_labels) from 1, the best; NaN stays.

    Raises
    ------
    DataError
        If a rank is not between 1 and the number of labels.
    """
    n_labels = ranks.shape[1]
    wrong = np.argwhere((ranks < 1) | (ranks > n_labels))
    if wrong.size:
        row, label = wrong[0]
        raise DataError(
            f"{what}, row {row}, column {names[label]!r}: {ranks[row, label]:g} is not a rank "
            f"from 1 to {n_labels}; leave out ranks=True if the columns hold relevance"
        )
    relevance: NDArray[np.float64] = n_labels - ranks
    return relevance


def _look_like_ranks(values: NDArray[np.float64]) -> bool:
    """Whether each row is a permutation of 1, 2, ..., k."""
    k = values.shape[1]
    return k > 1 and bool(np.all(np.sort(values, axis=1) == np.arange(1.0, k + 1)))


def _preferences_of_classes(classes: NDArray[Any], known: NDArray[Any] | None) -> Preferences:
    if known is not None:
        given = classes.tolist()
        position = {label: j for j, label in enumerate(known.tolist())}
        unknown = sorted({repr(label) for label in given if label not in position})
        if unknown:
            raise DataError(f"Y has classes that training had not: {', '.join(unknown)}")
        chosen = np.array([position[label] for label in given], dtype=np.int64)
        return Preferences(np.eye(len(position))[chosen], known, are_classes=True)
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise DataError(f"class is missing (NaN) at row {np.flatnonzero(~np.isfinite(classes))[0]}")
    if classes.dtype.kind in "OT":
        classes = integers_or_strings(classes.astype(object), "class")
    if classes.dtype.kind not in "iufbU":
        raise DataError(
            f"classes must be integers, floats, booleans or strings, not of type {classes.dtype}"
        )
    labels, inverse = np.unique(classes, return_inverse=True)
    relevance = np.zeros((len(classes), len(labels)))
    relevance[np.arange(len(classes)), inverse] = 1.0
    return Preferences(relevance, labels, are_classes=True)


# ------------------------------------------------------------------- orders of names


class _Orders(NamedTuple):
    """The different orders that occur, and which of them each row has."""

    distinct: list[Places]
    of_row: NDArray[np.int64]

    def first_row(self, number: int) -> int:
        """The first row that has the order of that number."""
        return int(np.flatnonzero(self.of_row == number)[0])


def _read_orders(Y: Any, orders: bool | None) -> _Orders | None:
    """The order of each row; None if `Y` holds none."""
    if orders is False:
        return None
    refuse_masked(Y, "relevance Y")
    rows = _rows_of_objects(Y, any_kind=orders is True)
    if rows is None:
        return None
    if not isinstance(rows, list):
        return _read_texts(rows.tolist(), orders)
    found, of_row = _number_distinct(tuple(filter(_is_given, row)) for row in rows)
    every = [name for names in found for name in names]
    if not orders and not (every and all(isinstance(name, str) for name in every)):
        return None
    if not orders and all(map(_is_numeric, every)):  # relevance that was read as text
        return None
    return _Orders([[[name] for name in names] for names in found], of_row)


def _number_distinct(values: Iterable[Hashable]) -> tuple[list[Any], NDArray[np.int64]]:
    """The different values in order of appearance, and the number of each value among them."""
    numbered: dict[Any, int] = {}
    try:
        of_each = [numbered.setdefault(value, len(numbered)) for value in values]
    except TypeError:
        raise DataError("the names in Y must be texts or numbers, not lists or tables") from None
    return list(numbered), np.array(of_each, dtype=np.int64)


def _rows_of_objects(Y: Any, *, any_kind: bool) -> list[list[Any]] | NDArray[Any] | None:
    """Rows as lists, or one column as an array of objects; None if only numbers can be in it."""
    if tables.is_table(Y):
        columns = tables.columns(Y, tables.column_names(Y))
        if not (any_kind or any(column.dtype.kind in "OUT" for column in columns)):
            return None
        if len(columns) == 1:
            return columns[0].astype(object)
        return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    if isinstance(Y, list | tuple) and (rows := _rows_of_lists(Y, any_kind=any_kind)) is not None:
        return rows
    try:
        values = np.asarray(Y)
    except ValueError:  # told where it is read as numbers
        return None
    if values.ndim not in (1, 2) or not (values.dtype.kind in "OUT" or any_kind):
        return None
    if values.ndim == 1 or values.shape[1] == 1:
        return values.ravel().astype(object)
    return values.tolist()  # type: ignore[no-any-return]


def _rows_of_lists(Y: Sequence[Any], *, any_kind: bool) -> list[list[Any]] | NDArray[Any] | None:
    """The same of lists in which there is a text, beside which NumPy would make text of numbers."""
    if not (Y and all(isinstance(row, list | tuple) for row in Y)):
        return _objects(Y) if any(isinstance(text, str) for text in Y) else None
    rows = [list(row) for row in Y]
    if not (any_kind or any(isinstance(name, str) for row in rows for name in row)):
        return None
    return _objects(row[0] for row in rows) if all(len(row) == 1 for row in rows) else rows


def _read_texts(texts: list[Any], orders: bool | None) -> _Orders | None:
    """The orders of texts such as ``a>b=c``; None if they are classes."""
    # What is neither a text nor missing is a value of its own.
    keys = (
        text if isinstance(text, str) else None if tables.is_missing(text) else (row,)
        for row, text in enumerate(texts)
    )
    found, of_row = _number_distinct(keys)
    read = [[] if key is None else _split(key) if isinstance(key, str) else None for key in found]
    if orders is None:
        regular = [number for number, places in enumerate(read) if places and len(places) > 1]
        names = {name for number in regular for tied in read[number] or () for name in tied}
        if not regular:
            return None
        if not all(
            places is not None and all(name in names for tied in places for name in tied)
            for places in read
        ):
            warn_caller(
                f"{np.isin(of_row, regular).sum()} of {len(texts)} classes of Y look like orders, "
                f"such as {found[regular[0]]!r}: pass orders=True if they are, else orders=False",
                DataWarning,
            )
            return None
    result = _Orders([places or [] for places in read], of_row)
    for number, places in enumerate(read):
        if places is None:
            row = result.first_row(number)
            raise DataError(
                f"Y, row {row}: {texts[row]!r} is no order: write the names from the best on, as "
                "in 'a>b=c>d'"
            )
    return result


def _split(text: str) -> Places | None:
    """The places of a text; None if a name is missing between its signs."""
    if not text.strip():
        return []
    places = [[name.strip() for name in part.split(_EQUAL)] for part in text.split(_BETTER)]
    return places if all(name for place in places for name in place) else None


def _is_given(name: Any) -> bool:
    """Whether a place is not empty."""
    return bool(name.strip()) if isinstance(name, str) else not tables.is_missing(name)


def _is_numeric(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _preferences_of_orders(orders: _Orders, known: NDArray[Any] | None) -> Preferences:
    names = _tidy_names([name for _, _, name in _named(orders.distinct)])
    labels = np.unique(names) if known is None else known
    position = {label: j for j, label in enumerate(labels.tolist())}
    unknown = sorted({repr(name) for name in names.tolist() if name not in position})
    if unknown:
        raise DataError(f"Y has labels that training had not: {', '.join(unknown)}")
    relevance = np.full((len(orders.distinct), len(labels)), np.nan)
    for (number, place, _), name in zip(_named(orders.distinct), names.tolist(), strict=True):
        if not np.isnan(relevance[number, position[name]]):
            row = orders.first_row(number)
            raise DataError(f"Y, row {row}: {name!r} occurs twice in the order")
        relevance[number, position[name]] = len(labels) - place
    return Preferences(relevance[orders.of_row], labels)


def _named(orders: list[Places]) -> Iterator[tuple[int, int, Any]]:
    """Number of the order, place from 1 and name of everything that is named."""
    for number, places in enumerate(orders):
        for place, names in enumerate(places, 1):
            for name in names:
                yield number, place, name


def _tidy_names(names: list[Any]) -> NDArray[Any]:
    """Names of one kind without blanks around them; numbers that holes have made floats, whole."""
    if not names:
        raise DataError("Y names no label: there is no order in any row")
    tidy = [name.strip() if isinstance(name, str) else name for name in names]
    if all(isinstance(name, numbers.Real) and float(name).is_integer() for name in tidy):
        tidy = [int(name) for name in tidy]
    return integers_or_strings(_objects(tidy), "the names in Y")


def _objects(values: Iterable[Any]) -> NDArray[Any]:
    """One-dimensional, whatever the values are."""
    several = list(values)
    array = np.empty(len(several), dtype=object)
    array[:] = several
    return array
