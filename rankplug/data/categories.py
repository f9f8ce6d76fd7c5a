"""Categories of table columns as codes, and lists of one length as columns of their own.

A category has a code from 1, so that 0, which may mean "missing" to trees, is none; a value that is
no category is missing, as NaN is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import tables
from rankplug.exceptions import DataError

Categories: TypeAlias = Mapping[int, tuple[Any, ...]]
"""By the number of a column, its categories in the order of their codes 1, 2, ..."""

_ELEMENT = re.compile(r"(.*)\[(\d+)\]", re.DOTALL)
# Of pandas, polars and Arrow, in which there are neither categories nor lists.
_PLAIN_TYPES = ("Int", "UInt", "Float", "int", "uint", "float", "bool", "Boolean", "double", "half")
_MOST_CATEGORIES = 2**24 - 2  # as many integers as float32 has, in which XGBoost keeps them


class TableFeatures(NamedTuple):
    """The features of a table: a matrix, a name for each column of it, and its categories."""

    matrix: NDArray[Any]
    names: list[str]
    categories: dict[int, tuple[Any, ...]]


def read_features(
    table: Any,
    names: Sequence[str] | None = None,
    known: Categories | None = None,
    *,
    numbers_too: bool = False,
) -> TableFeatures:
    """The columns of a table as features.

    Lists of k values each become k columns, ``name[0]`` to ``name[k - 1]``.

    Parameters
    ----------
    table : DataFrame of pandas or polars, or Arrow Table
    names : sequence of str, optional
        The columns, or the features (``name[0]``, ...), to take; all by default.
    known : mapping of int to tuple, optional
        The categories of these features. If it is given, even empty, no others are learnt, and
        whatever is none of them is missing.
    numbers_too : bool
        Whether categories that are numbers are learnt as categories; else they are numbers.

    Raises
    ------
    DataError
        If columns are missing, or hold something else; all of them are named.
    """
    there = tables.column_names(table)
    chosen = there if names is None else list(names)
    lists = _require_columns(table, there, chosen)
    position = {name: j for j, name in enumerate(there)}
    if names is None and known is None and not lists and not _has_categories(table):
        return TableFeatures(tables.to_matrix(table), chosen, {})
    if known is not None and not known and not lists:
        small = tables.small_matrix(table, [position[name] for name in chosen])
        if small is not None:
            return TableFeatures(small, chosen, {})
    by_name = {chosen[j]: values for j, values in (known or {}).items()}
    read, wrong = list[_Column](), dict[str, str]()
    elements: dict[str, NDArray[Any]] = {}
    for name in chosen:
        if name in lists:
            base, place = lists[name]
            if base not in elements:
                elements[base] = _list_column(table, base, _count(chosen, base), wrong)
            read.append(_Column(name, elements[base][:, place]))
        elif name in by_name:
            raw = _raw_column(table, name, position[name])
            read.append(
                _Column(name, encode_categories(_objects(raw), by_name[name]), by_name[name])
            )
        elif known is not None:
            values = tables.read_column(table, name, position[name])
            read.append(_Column(name, tables.numbers_or_same(values)))
        else:
            read += _learn_column(table, name, position[name], wrong, numbers_too=numbers_too)
    odd = [one for one in read if not tables.holds_numbers(one.values)]
    wrong |= {one.name: tables.kind_of(one.values) for one in odd}
    if wrong:
        named = sorted(wrong, key=lambda name: position[name])
        raise tables.not_numbers([f"{name} ({wrong[name]})" for name in named])
    categories = {j: one.categories for j, one in enumerate(read) if one.categories is not None}
    matrix = tables.side_by_side([one.values for one in read])
    return TableFeatures(matrix, [one.name for one in read], categories)


class _Column(NamedTuple):
    """A feature: its name, its values, and its categories if they are codes."""

    name: str
    values: NDArray[Any]
    categories: tuple[Any, ...] | None = None


def _learn_column(
    table: Any, name: str, position: int, wrong: dict[str, str], *, numbers_too: bool
) -> list[_Column]:
    """A column whose categories, or length of lists, are yet unknown."""
    raw = _raw_column(table, name, position)
    own = categories_of(raw, numbers_too=numbers_too)
    if own is not None:
        if len(own) > _MOST_CATEGORIES:
            raise DataError(f"column {name!r} has {len(own):,} categories, too many to learn")
        return [_Column(name, encode_categories(_objects(raw), own), own)]
    values = tables.numbers_or_same(tables.read_column(table, name, position))
    if not _is_list(values):
        return [_Column(name, values)]
    block = _list_column(table, name, None, wrong)
    return [_Column(f"{name}[{k}]", element) for k, element in enumerate(block.T)]


def list_columns(names: Iterable[str]) -> dict[str, int]:
    """The columns of lists of which these may be the elements, and how long the lists are."""
    counts: dict[str, int] = {}
    for name in names:
        match = _ELEMENT.fullmatch(name)
        if match is not None and int(match[2]) == counts.get(match[1], 0):
            counts[match[1]] = int(match[2]) + 1
    return counts


def columns_of_features(features: Sequence[str], there: Collection[str]) -> tuple[str, ...]:
    """The columns that hold features: those of their names, or of the lists that they stand in."""
    known, found = set(there), dict[str, None]()
    for name in features:
        match = None if name in known else _ELEMENT.fullmatch(name)
        found[name if match is None or match[1] not in known else match[1]] = None
    return tuple(found)


def encode_categories(
    values: Sequence[Any] | NDArray[Any], categories: Sequence[Any]
) -> NDArray[np.float64]:
    """The codes of values, NaN for what is missing or no category."""
    known = {one: code for code, one in enumerate(categories, 1)}
    codes = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        code = find_category(value, known)
        if code is not None:
            codes[row] = code
    return codes


def find_category(value: Any, known: Mapping[Any, Any]) -> Any:
    """What stands for a value among categories, None if it is none of them.

    In text, as CSV is, numbers and truth values are written in words, and text of digits may have
    been read as a number: they are looked for as the other, too.
    """
    try:
        if value in known:
            return known[value]
    except TypeError:  # a list or the like
        return None
    if isinstance(value, str):
        other: Any = {"true": True, "false": False}.get(value.lower())
        if other is None:
            try:
                other = float(value)
            except ValueError:
                return None
        return known.get(other)
    if isinstance(value, bool | np.bool_):
        return known.get(str(bool(value)))
    whole = tables.is_number(value) and not tables.is_missing(value) and value % 1 == 0
    return known.get(str(int(value))) if whole else None


def encode_objects(X: Any, categories: Categories) -> Any:
    """Objects with the codes of their categories; numbers are codes already, in lists, too."""
    array = X
    if not isinstance(X, np.ndarray):
        array = tables.numbers_or_same(np.asarray(X, dtype=object))
    if array.ndim != 2 or array.shape[1] <= max(categories) or array.dtype.kind in "fiub":
        return X
    encoded = array.astype(object)
    for j, values in categories.items():
        encoded[:, j] = encode_categories(array[:, j], values)
    return encoded


def require_codes(X: Any, categories: Categories) -> None:
    """Raise `DataError` if columns of an array or sparse matrix hold something else than codes."""
    columns: Any = X if isinstance(X, np.ndarray) else sparse.csc_array(X)
    for j, values in categories.items():
        if j < X.shape[1]:
            codes = columns[:, j] if columns is X else columns[:, [j]].toarray().ravel()
            codes = codes[~np.isnan(codes)]
            if np.any((codes < 1) | (codes > len(values)) | (codes % 1 != 0)):
                raise DataError(
                    f"column {j} holds categories, of which an array of numbers has the codes 1 to "
                    f"{len(values)}: give a table, or an array of objects, with the categories"
                )


def recode(X: Any, own: Categories, other: Categories) -> Any:
    """Features whose codes are those of other categories; a copy unless both are the same."""
    if dict(own) == dict(other):
        return X
    strangers = set(own) - set(other)
    if strangers:
        raise DataError(
            f"column {min(strangers)} holds categories, other than in the training: give the model "
            "the table itself"
        )
    if not (isinstance(X, np.ndarray) or sparse.issparse(X)):
        return X
    changed = X.copy()
    stored = changed if isinstance(changed, np.ndarray) else changed.data
    for j, values in other.items():
        if j not in own:
            raise DataError(f"column {j} holds no categories, other than in the training")
        if own[j] != values:
            place = np.concatenate(([np.nan], encode_categories(own[j], values)))
            at: Any = np.s_[:, j] if stored is changed else changed.indices == j
            stored[at] = place[np.nan_to_num(stored[at]).astype(np.int64)]
    return changed


def describe_categories(categories: Categories, names: Sequence[str] | None) -> str:
    """Columns and some of their categories in words."""
    words = []
    for j, values in list(categories.items())[:8]:
        shown = ", ".join(str(one) for one in values[:3]) + (", ..." if len(values) > 3 else "")
        words.append(f"{f'column {j}' if names is None else names[j]} ({shown})")
    return ", ".join(words) + (", ..." if len(categories) > 8 else "")


def check_categories(given: Any, n_features: int) -> dict[int, tuple[Any, ...]]:
    """Categories from JSON, ``[[column, [value, ...]], ...]``; raises `DataError` if wrong."""
    if given is None:
        return {}
    right = isinstance(given, list) and all(
        isinstance(one, list) and len(one) == 2 and type(one[0]) is int and isinstance(one[1], list)
        for one in given
    )
    if not right or not all(0 <= j < n_features for j, _ in given):
        raise DataError("the categories are damaged")
    found = {j: tuple(values) for j, values in given}
    for values in found.values():
        kinds = all(type(one) in (str, int, float, bool) for one in values)
        if not kinds or len(set(values)) < len(values):
            raise DataError("the categories are damaged")
    return found


def _require_columns(table: Any, there: list[str], chosen: list[str]) -> dict[str, tuple[str, int]]:
    """The columns of lists, and the places in them, of features that have no column of their own.

    Raises `DataError` if a column is missing, or there twice.
    """
    known, lists, missing = set(there), {}, []
    for name in chosen:
        if name in known:
            continue
        match = _ELEMENT.fullmatch(name)
        if match is not None and match[1] in known:
            lists[name] = (match[1], int(match[2]))
        else:
            missing.append(name)
    if missing:
        raise DataError(f"missing feature columns: {', '.join(missing)}")
    if len(known) < len(there):
        tables.columns(table, [name for name in chosen if name in known])  # raises for those twice
    return lists


def _count(chosen: Sequence[str], base: str) -> int:
    return sum(1 for name in chosen if (m := _ELEMENT.fullmatch(name)) and m[1] == base)


def _list_column(table: Any, name: str, length: int | None, wrong: dict[str, str]) -> NDArray[Any]:
    """A column of lists as an array of so many columns; what is wrong is added to the list."""
    values = tables.numbers_or_same(tables.column(table, name))
    block: NDArray[Any] | None = None
    if values.ndim == 2 and values.dtype.kind in "fiub":
        block = values
    else:
        rows = [None if tables.is_missing(one) else _numbers(one) for one in values]
        sizes = {one.shape for one in rows if one is not None}
        if len(sizes) == 1 and len(shape := next(iter(sizes))) == 1 and shape[0]:
            if all(one is None or one.dtype.kind in "fiub" for one in rows):
                block = np.full((len(rows), shape[0]), np.nan)
                for row, one in enumerate(rows):
                    if one is not None:
                        block[row] = one
            else:
                wrong[name] = "list of something else than numbers"
        else:
            wrong[name] = "lists of different lengths" if sizes else "list"
    if block is None:
        return np.zeros((len(values), length or 1))
    if length is not None and block.shape[1] != length:
        raise DataError(
            f"column {name!r} holds lists of {block.shape[1]} values, but the model was trained on "
            f"lists of {length}, or the first rows have them"
        )
    return block


def _numbers(value: Any) -> NDArray[Any]:
    try:
        return tables.numbers_or_same(np.asarray(value))
    except ValueError:  # lists of different lengths within it
        return np.empty((0, 0))


def _is_list(values: NDArray[Any]) -> bool:
    """Whether each value is a sequence of others."""
    if values.ndim > 1:
        return True
    if values.dtype != object:
        return False
    first = next((one for one in values if not tables.is_missing(one)), None)
    return isinstance(first, list | tuple | np.ndarray)


def _raw_column(table: Any, name: str, position: int) -> Any:
    """The column as the table itself keeps it."""
    if hasattr(table, "iloc"):
        return table.iloc[:, position]
    return table.column(position) if hasattr(table, "column_names") else table.get_column(name)


def _type_name(raw: Any) -> str:
    return str(raw.type if hasattr(raw, "type") else raw.dtype)


def _has_categories(table: Any) -> bool:
    types = table.schema.types if hasattr(table, "column_names") else table.dtypes
    return not all(str(one).startswith(_PLAIN_TYPES) for one in types)


def categories_of(raw: Any, *, numbers_too: bool = False) -> tuple[Any, ...] | None:
    """The categories of a column; None if it is none of categories, or these are numbers."""
    kind = _type_name(raw)
    if kind.startswith(("Categorical", "Enum")):  # polars, whose categories all columns share
        given = raw.dtype.categories if kind.startswith("Enum") else raw.unique(maintain_order=True)
        values = given.to_list()
    elif kind.startswith("dictionary"):
        values = _dictionary(raw)
    elif kind == "category":
        values = raw.cat.categories.tolist()
    else:
        return None
    values = [one for one in values if not tables.is_missing(one)]
    numbers = all(type(one) in (int, float, bool) for one in values)
    if numbers and not numbers_too:
        return None
    if not all(type(one) in (str, int, float, bool) for one in values):
        return None
    return tuple(dict.fromkeys(values))


def _dictionary(raw: Any) -> list[Any]:
    if hasattr(raw, "iloc"):  # pandas, of Arrow's types
        raw = raw.array.__arrow_array__()
    if hasattr(raw, "unify_dictionaries"):
        raw = raw.unify_dictionaries()
        return raw.chunk(0).dictionary.to_pylist() if raw.num_chunks else []
    return raw.dictionary.to_pylist()  # type: ignore[no-any-return]


def _objects(raw: Any) -> list[Any]:
    """The values of a column as Python has them."""
    return list(raw.to_pylist() if hasattr(raw, "to_pylist") else raw.to_list())
