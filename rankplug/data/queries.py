"""Query ids: checked, of one kind, and the rows of each query brought together."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug.data import tables
from rankplug.data.arrays import plain_array
from rankplug.exceptions import DataError

_EXACT_FLOAT_INTEGERS = 2.0**53  # beyond it, neighbouring integers are one float64


def group_queries(
    qid: ArrayLike | None, n_samples: int
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64] | None]:
    """Find the queries: ``(query_ptr, query_ids, order)``.

    Queries come in order of first appearance and keep the order of their rows; `order` is
    None when every query's rows already stand together.

    Raises
    ------
    DataError
        If `qid` has the wrong length, missing values or ids that cannot be compared.
    """
    if qid is None:
        return np.array([0, n_samples]), np.zeros(1, dtype=np.int64), None
    ids = query_id_vector(qid, n_samples)
    heads = np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1))
    if len(np.unique(ids[heads])) == len(heads):
        return np.append(heads, n_samples), ids[heads], None
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    query = rank[inverse]
    order = np.argsort(query, kind="stable")
    query_ptr = np.concatenate(([0], np.cumsum(np.bincount(query))))
    return query_ptr, ids[np.sort(first)], order


def rank_in_queries(
    scores: NDArray[np.float64], qid: ArrayLike | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Order the rows of each query: ``(ranks, best_first)``.

    `ranks` holds the rank of each row in its query, 1 = best; `best_first` the rows, query by
    query in order of first appearance. Rows with equal scores keep their order.

    Raises
    ------
    DataError
        If `qid` has the wrong length, missing values or ids that cannot be compared.
    """
    query_ptr, _, order = group_queries(qid, len(scores))
    sizes = np.diff(query_ptr)
    query = np.repeat(np.arange(len(sizes)), sizes)
    if order is not None:
        query[order] = query.copy()
    ranks = np.empty(len(scores), dtype=np.int64)
    best_first = np.lexsort((-scores, query))
    ranks[best_first] = np.arange(len(scores)) - np.repeat(query_ptr[:-1], sizes) + 1
    return ranks, best_first


def expand_group(group: ArrayLike, n_samples: int) -> NDArray[np.int64]:
    """Query numbers of the rows from the sizes of consecutive queries."""
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or np.any(sizes < 0):
        raise DataError("group must be a one-dimensional array of query sizes (integers >= 0)")
    # As Python's integers, whose sum does not overflow.
    total = sum(sizes.tolist())
    if total != n_samples:
        raise DataError(f"group adds up to {total} rows but X has {n_samples}")
    return np.repeat(np.arange(len(sizes)), sizes)


def query_id_vector(qid: ArrayLike, n_samples: int) -> NDArray[Any]:
    """One query id for each row, of a type that can be compared; integers or strings as a rule.

    Raises
    ------
    DataError
        If the length is wrong, or ids are missing or cannot be compared.
    """
    ids = plain_array(qid, "qid")
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids.ravel()
    if ids.ndim != 1 or len(ids) != n_samples:
        raise DataError(f"X has {n_samples} rows but qid has shape {ids.shape}")
    if ids.dtype.kind == "f":
        ids = _float_query_ids(ids, qid)
    if ids.dtype.kind in "mM" and np.isnat(ids).any():
        raise DataError(f"qid is missing (NaT) at row {np.flatnonzero(np.isnat(ids))[0]}")
    if ids.dtype.kind in "OT":
        return integers_or_strings(ids.astype(object), "qid")
    if ids.dtype.kind not in "iufUSbMm":
        raise DataError(f"qid must hold integers or strings, not values of type {ids.dtype}")
    return ids


def _float_query_ids(ids: NDArray[Any], qid: ArrayLike) -> NDArray[Any]:
    if not np.isfinite(ids).all():
        raise DataError(f"qid is missing (NaN) at row {np.flatnonzero(~np.isfinite(ids))[0]}")
    if np.abs(ids).max(initial=0) < _EXACT_FLOAT_INTEGERS:
        return ids
    if not hasattr(qid, "dtype"):  # NumPy turned large Python integers into floats
        return np.asarray(qid, dtype=object)
    raise DataError(
        f"qid holds floating-point ids of 2^53 or more ({np.abs(ids).max():.17g}), where different "
        "ids become equal: pass integers or strings"
    )


def integers_or_strings(values: NDArray[Any], what: str) -> NDArray[Any]:
    """Objects as an array of their common kind: int64 (strings if too large) or str.

    Whole decimal numbers become integers; dates, times, periods, UUIDs and bytes their text.

    Raises
    ------
    DataError
        If a value is missing, or they are not all of one of these kinds.
    """
    missing = [row for row, value in enumerate(values) if tables.is_missing(value)]
    if missing:
        raise DataError(f"{what} is missing (None or NaN) at row {missing[0]}")
    kinds = {type(value) for value in values}
    if all(issubclass(kind, str) for kind in kinds):
        return values.astype(np.str_)
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        fits = all(-(2**63) <= int(value) < 2**63 for value in values)
        return values.astype(np.int64 if fits else np.str_)
    if all(issubclass(kind, Decimal) for kind in kinds):
        whole = all(value == value.to_integral_value() for value in values)
        return integers_or_strings(_objects(int(v) if whole else str(v) for v in values), what)
    if len(kinds) == 1 and all(issubclass(kind, date | UUID) or _is_period(kind) for kind in kinds):
        return _objects(str(value) for value in values).astype(np.str_)
    if kinds == {bytes}:
        return values.astype(np.bytes_)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise DataError(f"{what} mixes values of types {names}: make them all integers or all strings")


def id_texts(ids: Iterable[Any], what: str, first_row: int = 0) -> list[str]:
    """Ids as text has them; whole numbers that a hole in their column has made floats, as whole.

    Raises
    ------
    DataError
        If one is missing.
    """
    several = list(ids)
    missing = next((row for row, one in enumerate(several) if tables.is_missing(one)), None)
    if missing is not None:
        raise DataError(f"{what} is missing (None or NaN) at row {first_row + missing}: fill it in")
    return [
        str(int(one) if isinstance(one, float | Decimal) and one % 1 == 0 else one)
        for one in several
    ]


def _objects(values: Iterable[Any]) -> NDArray[Any]:
    return np.array(list(values), dtype=object)


def _is_period(kind: type) -> bool:
    """Whether it is pandas' Period, tested without importing pandas."""
    return kind.__name__ == "Period" and kind.__module__.partition(".")[0] == "pandas"
