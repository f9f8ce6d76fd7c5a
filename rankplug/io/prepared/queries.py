"""Queries of a preparation: a log of the rows of each, and the order that brings these together."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import concatenate_ranges
from rankplug.exceptions import DataError
from rankplug.io.prepared.npy import GrowingFiles
from rankplug.io.table_files import written_ids

_IDS = "ids.jsonl"
_RUNS = "runs"
_RUN = np.dtype([("query", "<i8"), ("rows", "<i8"), ("weight", "<f8")])


class QueryLog:
    """Notes runs of rows of one query; in memory for the ids of the queries.

    Parameters
    ----------
    folder : Path
    files : GrowingFiles
        Where the notes are, of which those that were saved are taken up.
    """

    def __init__(self, folder: Path, files: GrowingFiles) -> None:
        self._files = files
        known = _read_ids(folder, files.length(_IDS))
        self._numbers = {key: number for number, (_, key) in enumerate(known)}

    def add(self, ids: NDArray[Any] | None, weight: NDArray[np.float64] | None, n: int) -> None:
        """Note the next `n` rows; raises `DataError` if weights vary in a query."""
        ids = np.zeros(n, dtype=np.int64) if ids is None else ids
        heads = np.concatenate(([0], np.flatnonzero(ids[1:] != ids[:-1]) + 1))
        runs = np.zeros(len(heads), dtype=_RUN)
        runs["query"] = self._numbers_of(ids[heads])
        runs["rows"] = np.diff(np.append(heads, n))
        if weight is not None:
            runs["weight"] = weight[heads]
            _require_weights(weight, np.repeat(runs["weight"], runs["rows"]), ids)
        self._files.append(_RUNS, runs)

    def _numbers_of(self, ids: NDArray[Any]) -> list[int]:
        known = len(self._numbers)
        # Python values that JSON keeps as they are.
        keys: list[Any] = (ids.view(np.int64) if ids.dtype.kind in "mM" else ids).tolist()
        if ids.dtype.kind == "S":
            keys = [key.decode("latin-1") for key in keys]
        numbers = [self._numbers.setdefault(key, len(self._numbers)) for key in keys]
        new = [key for key, number in zip(keys, numbers, strict=True) if number >= known]
        if new:
            kind = {"U": "<U", "S": "|S"}.get(ids.dtype.kind, ids.dtype.str)
            lines = (json.dumps([kind, key]) for key in dict.fromkeys(new))
            self._files.append(_IDS, "".join(f"{line}\n" for line in lines).encode())
        return numbers


@dataclass(frozen=True)
class Order:
    """The rows brought together by query, as runs of rows of the input.

    Attributes
    ----------
    starts, lengths : int64 ndarray of shape (n_runs,)
        Runs of rows of the input, in their new order.
    query_ptr : int64 ndarray of shape (n_queries + 1,)
    query_ids : ndarray of shape (n_queries,)
    query_weight : float64 ndarray of shape (n_queries,)
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    query_ptr: NDArray[np.int64]
    query_ids: NDArray[Any]
    query_weight: NDArray[np.float64]

    @property
    def moves(self) -> bool:
        """Whether any row changes its place."""
        return bool(np.any(self.starts[1:] != self.starts[:-1] + self.lengths[:-1]))

    def rows(self, begin: int, end: int) -> NDArray[np.int64]:
        """The rows of the input that come to stand from `begin` to `end`."""
        first = int(np.searchsorted(self._ends, begin, side="right"))
        runs = slice(first, int(np.searchsorted(self._ends, end)) + 1)
        before = int(self._ends[first] - self.lengths[first])
        rows = concatenate_ranges(self.starts[runs], self.lengths[runs])
        return rows[begin - before : end - before]

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum(self.lengths)


def read_order(folder: Path, *, written: bool) -> Order:
    """The order of all rows that a `QueryLog` has noted.

    Parameters
    ----------
    folder : Path
    written : bool
        Ids are text, in which plain integers count as integers if all are.
    """
    runs = np.fromfile(folder / _RUNS, dtype=_RUN)
    query, lengths = runs["query"], runs["rows"]
    starts = np.cumsum(lengths) - lengths
    order = np.argsort(query, kind="stable")
    ids = _query_ids(folder, written)
    heads = np.searchsorted(query[order], np.arange(len(ids)))
    weight = runs["weight"][order]
    varying = np.flatnonzero(weight != weight[heads][query[order]])
    if varying.size:
        raise _varies(ids[query[order][varying[0]]])
    sizes = np.zeros(len(ids), dtype=np.int64)
    np.add.at(sizes, query, lengths)
    query_ptr = np.concatenate(([0], np.cumsum(sizes)))
    return Order(starts[order], lengths[order], query_ptr, ids, weight[heads])


def _query_ids(folder: Path, written: bool) -> NDArray[Any]:
    import pyarrow as pa

    found = _read_ids(folder, -1)
    kinds = {kind for kind, _ in found}
    keys = [key for _, key in found]
    if len(kinds) > 1:
        raise DataError(
            "qid mixes integers and strings over the files: make them all integers or all strings"
        )
    (kind,) = kinds
    if kind == "<U":
        return written_ids(pa.array(keys, pa.string())) if written else np.array(keys)
    if kind == "|S":
        return np.array([key.encode("latin-1") for key in keys])
    if np.dtype(kind).kind in "mM":
        return np.array(keys, dtype=np.int64).view(kind)
    return np.array(keys, dtype=kind)


def _read_ids(folder: Path, n_bytes: int) -> list[tuple[str, Any]]:
    """Types and values of the ids."""
    if n_bytes == 0:
        return []
    with (folder / _IDS).open("rb") as stream:
        return [(kind, key) for kind, key in map(json.loads, stream.read(n_bytes).splitlines())]


def _require_weights(
    weight: NDArray[np.float64], of_run: NDArray[np.float64], ids: NDArray[Any]
) -> None:
    if np.any(weight < 0):
        query = ids[np.argmax(weight < 0)]
        raise DataError(f"the weight of query {query} is negative")
    varying = np.flatnonzero(weight != of_run)
    if varying.size:
        raise _varies(ids[varying[0]])


def _varies(query: Any) -> DataError:
    return DataError(
        f"the weight varies within query {query}: it must be constant within a query, because a "
        "pair of rows takes the weight of its query"
    )
