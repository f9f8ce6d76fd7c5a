"""Columns of data frames, whoever made them: pandas, polars or Arrow."""

from __future__ import annotations

import math
import numbers
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import DataError, DataWarning, nearest, warn_caller

if TYPE_CHECKING:
    import pandas as pd

QUERY_COLUMN = "qid"
"""The column of a table of features that holds the queries, as XGBRanker has it."""

# An index that pandas wrote along, and what it is called when the table is read and written again.
_UNNAMED = re.compile(r"|Unnamed: \d+([._]\w+)*|__index_level_\d+__")
_FEW_VALUES = 1 << 16  # of a request: it takes longer to ask for columns than to read them
_ROWS_AT_ONCE = 4096  # of all columns: they fit into the processor's cache


def is_table(data: Any) -> bool:
    """Whether `data` is a pandas, polars or Arrow table (tested without importing any)."""
    return (
        is_lazy(data)
        or hasattr(data, "column_names")
        or (
            hasattr(data, "columns") and hasattr(data, "__getitem__") and not hasattr(data, "tocsr")
        )
    )


def is_lazy(data: Any) -> bool:
    """Whether `data` is a LazyFrame of polars, a query whose rows are not there yet."""
    return hasattr(data, "collect_schema") and not hasattr(data, "get_column")


def collected(data: Any) -> Any:
    """A lazy table with its rows; whatever else it is as it is.

    A query may give its rows in another order each time, so it is to be collected once.
    """
    return data.collect() if is_lazy(data) else data


def column_names(table: Any) -> list[str]:
    """The names of the columns, in order."""
    if is_lazy(table):
        return list(table.collect_schema().names())
    names = table.column_names if hasattr(table, "column_names") else table.columns
    return [str(name) for name in names]


def listed(names: str | Iterable[str]) -> tuple[str, ...]:
    """Several names; a text is one of them, not its letters."""
    return (names,) if isinstance(names, str) else tuple(names)


def is_unnamed(name: str) -> bool:
    """Whether a column has no name of its own, as an index that was written along."""
    return _UNNAMED.fullmatch(name) is not None


def warn_of_unnamed(what: Any, names: Iterable[str]) -> None:
    """Say which columns are no features because they have no names."""
    warn_caller(
        f"{what}: column {', '.join(map(repr, names))} has no name, as an index that "
        "was written along, and is no feature; name it with features=[...] if it is one",
        DataWarning,
    )


def named_beside(others: Collection[Any], there: Iterable[str], what: Any) -> tuple[str, ...]:
    """The columns beside others, but for those without a name, of which it warns."""
    beside = [name for name in there if name not in others]
    unnamed = [name for name in beside if is_unnamed(name)]
    if unnamed:
        warn_of_unnamed(what, unnamed)
    return tuple(name for name in beside if name not in unnamed)


def name_of(values: Any) -> str | None:
    """The name of a column of pandas or polars; None for what has none."""
    name = getattr(values, "name", None)
    return name if isinstance(name, str) and name else None


def without_query_column(
    X: Any, given: bool, known: Sequence[str] | None = None
) -> tuple[Any, NDArray[Any] | None]:
    """A table without its column ``qid``, and that column; other features as they are, and None.

    Parameters
    ----------
    X : features of any kind
    given : bool
        Whether the queries are told in another way.
    known : sequence of str, optional
        The features that a model was trained on: ``qid`` may be one of them.

    Raises
    ------
    DataError
        If the queries are told twice.
    """
    X = collected(X)
    if not is_table(X) or QUERY_COLUMN not in column_names(X) or QUERY_COLUMN in (known or ()):
        return X, None
    if given:
        raise DataError(
            f"X has a column {QUERY_COLUMN!r}, which holds the queries, and they are given beside "
            "it, too: leave out one of them, or rename the column if it is a feature"
        )
    names = column_names(X)
    features = [j for j, name in enumerate(names) if name != QUERY_COLUMN]
    # By position in pandas, whose names may be of any type.
    rest = X.iloc[:, features] if hasattr(X, "iloc") else X.select([names[j] for j in features])
    return rest, column(X, QUERY_COLUMN)


def column(table: Any, name: str) -> NDArray[Any]:
    """One column as a NumPy array; raises `DataError` if there is no such column."""
    return columns(table, [name])[0]


def columns(table: Any, chosen: Sequence[str]) -> list[NDArray[Any]]:
    """Several columns; the table's names are listed once, which can take longer than reading."""
    table = collected(table)
    names = column_names(table)
    positions = {name: j for j, name in enumerate(names)}
    require_present(chosen, names)
    if len(positions) < len(names):
        require_single(chosen, names)
    return [read_column(table, name, positions[name]) for name in chosen]


def require_present(chosen: Iterable[str], names: Collection[str]) -> None:
    """Raise `DataError` if a table with columns of these names lacks one."""
    known = set(names)
    for name in chosen:
        if name not in known:
            raise DataError(f"no column {name!r}{nearest(str(name), names)}")


def require_single(chosen: Iterable[str], names: Collection[str]) -> None:
    """Raise `DataError` if a table with columns of these names has one of them more than once."""
    counts = Counter(names)
    for name in chosen:
        if counts[name] > 1:
            raise DataError(f"column {name!r} occurs {counts[name]} times: rename one of them")


def frame_of(table: Any, names: Sequence[str]) -> pd.DataFrame:
    """Columns of any table as a pandas DataFrame; errors are those of `columns`."""
    import pandas as pd

    return pd.DataFrame(dict(zip(names, columns(table, names), strict=True)))


def read_column(table: Any, name: str, position: int) -> NDArray[Any]:
    """The column of that name, at that position, as a NumPy array."""
    if hasattr(table, "iloc"):
        return np.asarray(table.iloc[:, position])
    if hasattr(table, "column_names"):  # Arrow: by position, a RecordBatch has zero-copy only
        return np.asarray(table.column(position).to_numpy(zero_copy_only=False))
    return np.asarray(table.get_column(name).to_numpy())


def small_matrix(table: Any, positions: Sequence[int]) -> NDArray[np.float64] | None:
    """Columns of a small pandas DataFrame of numbers, which alone are read faster together.

    None for another table, or where pandas makes something else of them than float64.
    """
    if not hasattr(table, "iloc") or len(table) * len(positions) > _FEW_VALUES:
        return None
    if len(positions) < table.shape[1] or any(j != place for place, j in enumerate(positions)):
        table = table.iloc[:, list(positions)]
    values = table.to_numpy()
    return np.array(values, order="C") if values.dtype == np.float64 else None


def to_matrix(table: Any, names: Sequence[str] | None = None) -> NDArray[Any]:
    """The named columns (all of them by default) as a C-contiguous float matrix.

    The result is float32 when every column is float32 or float16, else float64; missing values
    become NaN.

    Raises
    ------
    DataError
        If a column is missing or not numeric; all of them are named.
    """
    table = collected(table)
    known = column_names(table)
    chosen = known if names is None else list(names)
    _require_columns(table, chosen)
    if names is None:
        found = [read_column(table, name, j) for j, name in enumerate(known)]
    else:
        found = columns(table, chosen)
    arrays = [numbers_or_same(values) for values in found]
    _require_numbers(zip(chosen, arrays, strict=True))
    return side_by_side(arrays)


def _require_numbers(columns: Iterable[tuple[str, NDArray[Any]]]) -> None:
    wrong = [f"{name} ({kind_of(values)})" for name, values in columns if not holds_numbers(values)]
    if wrong:
        raise not_numbers(wrong)


def not_numbers(columns: Sequence[str]) -> DataError:
    """The error that these columns, each with what it holds, are no features."""
    return DataError(
        f"feature columns that are not numbers: {', '.join(columns)}; "
        "encode them as numbers or leave them out"
    )


def columns_or_numbers(
    table: Any, names: Sequence[str], numeric: Collection[str]
) -> list[NDArray[Any]]:
    """The named columns, those of `numeric` as numbers, the others as they are.

    Raises
    ------
    DataError
        As `to_matrix`.
    """
    _require_columns(table, names)
    arrays = [numbers_or_same(values) for values in columns(table, names)]
    named = zip(names, arrays, strict=True)
    _require_numbers((name, values) for name, values in named if name in numeric)
    return arrays


def _require_columns(table: Any, names: Sequence[str]) -> None:
    missing = set(names) - set(column_names(table))
    if missing:
        raise DataError(
            f"missing feature columns: {', '.join(name for name in names if name in missing)}"
        )


def kind_of(values: NDArray[Any]) -> str:
    """What a column that is not numeric holds: the type of its first odd value, or its dtype."""
    if values.ndim > 1:
        return "list"
    if values.dtype.kind in "OT":
        odd = next((type(value).__name__ for value in values if not is_number(value)), "object")
        return {"str": "text", "ndarray": "list"}.get(odd, odd)
    return "text" if values.dtype.kind == "U" else str(values.dtype)


def holds_numbers(values: NDArray[Any]) -> bool:
    """Whether a column has one number in each row."""
    return values.ndim == 1 and values.dtype.kind in "fiub"


def is_number(value: Any) -> bool:
    """Whether `value` is a real number, or missing."""
    return isinstance(value, numbers.Real | Decimal | np.bool_) or is_missing(value)


def is_missing(value: Any) -> bool:
    """Whether `value` is None, NaN, NaT or ``pandas.NA``."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA is neither equal to itself nor different
        return True
    except ValueError:  # an array: a value of its own, or several
        return False


def numbers_or_same(values: NDArray[Any]) -> NDArray[Any]:
    """Objects that are all real numbers or missing as float64 with NaN; else `values` itself."""
    if values.dtype != object:
        return values
    if not all(is_number(value) for value in values.flat):
        return values
    converted = [np.nan if is_missing(value) else _float(value) for value in values.flat]
    return np.array(converted, dtype=np.float64).reshape(values.shape)


def _float(value: Any) -> float:
    """The number; infinity for integers beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def side_by_side(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Columns of numbers as a matrix, float32 if all of them are that or float16."""
    small = bool(columns) and all(v.dtype in (np.float32, np.float16) for v in columns)
    n_rows = len(columns[0]) if columns else 0
    matrix = np.empty((n_rows, len(columns)), dtype=np.float32 if small else np.float64)
    # A few rows at a time, so that the part being filled stays in the processor's cache.
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        for j, values in enumerate(columns):
            matrix[rows, j] = values[rows]
    return matrix
