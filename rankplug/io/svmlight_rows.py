"""Parsers of LETOR/svmlight text: whole blocks at once, and strictly line by line.

`parse_block` is fast and gives up at whatever is unusual or wrong. `parse_lines` is slow, accepts
all that is right, and names the lines that are not. Both return `ParsedRows`.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankplug.data.arrays import index_type
from rankplug.io.files import ENOUGH_PROBLEMS, InputFile, problems

_LARGEST_INDEX = 2**62  # of a feature: sums of two of them still fit 64 bits

_HEAD = re.compile(rb"[ \t]*([^\s:]+)(?:[ \t]+qid:(\S+))?(?=\s|$)")
_BLANKS_TO_NEWLINES = bytes.maketrans(b" \t\r", b"\n\n\n")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MOST_DIGITS = 100  # Python itself refuses to read thousands of digits


@dataclass(frozen=True)
class ParsedRows:
    """Rows of text; their values stand one row after the other.

    Attributes
    ----------
    relevance : float64 ndarray of shape (n_rows,)
    ids : pyarrow.ChunkedArray of n_rows strings
        Query ids as they are written; null where there is none.
    counts : int64 ndarray of shape (n_rows,)
        Number of values of each row.
    indices : int32 or int64 ndarray of shape (n_values,)
        Feature indices, from 1.
    values : float ndarray of shape (n_values,)
    """

    relevance: NDArray[np.float64]
    ids: Any
    counts: NDArray[np.int64]
    indices: NDArray[np.signedinteger[Any]]
    values: NDArray[Any]

    @classmethod
    def concatenate(cls, parts: Sequence[ParsedRows]) -> ParsedRows:
        """All rows, one part after the other."""
        import pyarrow as pa

        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.relevance for part in parts]),
            pa.chunked_array([chunk for part in parts for chunk in part.ids.chunks], pa.string()),
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.values for part in parts]),
        )

    @property
    def has_query_ids(self) -> bool:
        """Whether there is a row with a query id."""
        return bool(self.ids.null_count < len(self.ids))

    @property
    def has_all_query_ids(self) -> bool:
        """Whether there is no row without a query id."""
        return bool(self.ids.null_count == 0)

    def with_ids(self, ids: NDArray[np.str_]) -> ParsedRows:
        """The rows with other query ids."""
        import pyarrow as pa

        return replace(self, ids=pa.chunked_array([pa.array(ids.tolist(), pa.string())]))

    def id_texts(self) -> NDArray[np.str_] | None:
        """The query ids as text; None if there are none."""
        return np.array(self.ids.to_pylist(), dtype=np.str_) if self.has_query_ids else None


def parse_block(
    block: bytes, n_features: int | None, dtype: DTypeLike, zero_based: bool = False
) -> ParsedRows:
    """Parse whole lines by Arrow's CSV parser; `n_features` is the number there may be.

    Raises
    ------
    ValueError
        If the lines are in any way irregular or wrong.
    """
    import pyarrow as pa

    if b"#" in block:
        block = re.sub(rb"#[^\n]*", b"", block)
    relevance, ids, counts, features = [], [], [], []
    for line in block.split(b"\n"):
        head = _HEAD.match(line)
        if head is not None:
            relevance.append(head[1])
            ids.append(head[2])
            features.append(line[head.end() :])
            counts.append(line.count(b":", head.end()))
        elif line.strip():
            raise ValueError("a line without relevance")
    indices, values = _parse_features(b" ".join(features), dtype, int(zero_based))
    rows = ParsedRows(
        np.array(pa.array(relevance, pa.string()).cast(pa.float64())),
        pa.chunked_array([pa.array(ids, pa.string())]),
        np.array(counts, dtype=np.int64),
        indices,
        values,
    )
    if not _is_valid(rows, n_features):
        raise ValueError("wrong indices or values")
    return rows


def _parse_features(
    text: bytes, dtype: DTypeLike, shift: int
) -> tuple[NDArray[np.signedinteger[Any]], NDArray[Any]]:
    import pyarrow as pa
    from pyarrow import csv

    records = text.translate(_BLANKS_TO_NEWLINES).strip(b"\n")
    if not records:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=dtype)
    # In Arrow's own memory: a thread of Arrow may be the last to let go of it, see `arrow_source`.
    copy = pa.allocate_buffer(len(records))
    np.frombuffer(copy, np.uint8)[:] = np.frombuffer(records, np.uint8)
    table = csv.read_csv(
        pa.BufferReader(copy),
        csv.ReadOptions(column_names=["index", "value"]),
        csv.ParseOptions(delimiter=":", quote_char=False),
        csv.ConvertOptions(
            column_types={"index": pa.int64(), "value": pa.float64()}, null_values=[]
        ),
    )
    indices, values = table.column("index").to_numpy(), table.column("value").to_numpy()
    small = index_type(int(indices.max()) + shift)
    with np.errstate(over="ignore"):  # reported as infinite values later
        indices, values = np.require(indices, small, "W"), np.require(values, dtype, "W")
    if shift:
        indices += small(shift)
    return indices, values


def _is_valid(rows: ParsedRows, n_features: int | None) -> bool:
    """Whether indices ascend from 1 (or more) in each row, none is unseen, and all is finite."""
    ascending = np.diff(rows.indices, prepend=0) > 0
    starts = np.cumsum(rows.counts) - rows.counts
    starts = starts[rows.counts > 0]
    ascending[starts] = rows.indices[starts] > 0
    within = rows.indices.max(initial=0) <= (_LARGEST_INDEX if n_features is None else n_features)
    finite = np.isfinite(rows.relevance).all() and not np.isinf(rows.values).any()
    return bool(ascending.all() and within and finite)


# --- line by line ---


class _LineError(ValueError):
    """What is wrong in a line."""


def parse_lines(
    file: InputFile, lines: Iterable[tuple[int, bytes]], n_features: int | None, dtype: DTypeLike
) -> ParsedRows:
    """Parse numbered lines of a file; `n_features` is the number there may be.

    Raises
    ------
    DataError
        Naming the first lines that are wrong, and what to do about them.
    """
    import pyarrow as pa

    relevance, values = array("d"), array("d")
    counts, indices = array("q"), array("q")
    ids: list[str | None] = []
    first: tuple[int, bool] | None = None  # line number, and whether it has a query id
    found: list[str] = []
    for number, line in lines:
        tokens = line.removeprefix(_BYTE_ORDER_MARK).partition(b"#")[0].split()
        if not tokens:
            continue
        try:
            relevance.append(_relevance(tokens[0]))
            query_id = _query_id(tokens)
            first = first or (number, query_id is not None)
            if first[1] != (query_id is not None):
                raise _LineError(_mixed_ids(query_id, first[0]))
            features = tokens[1:] if query_id is None else tokens[2:]
            _add_features(
                features, n_features, 0 if file.notation.zero_based else 1, indices, values
            )
            ids.append(query_id)
            counts.append(len(features))
        except _LineError as error:
            found.append(f"line {number}: {error}")
            if len(found) == ENOUGH_PROBLEMS:
                break
    if found:
        raise problems(file, found)
    with np.errstate(over="ignore"):  # reported as infinite values later
        narrowed = np.array(values, dtype=dtype)
    return ParsedRows(
        np.array(relevance, dtype=np.float64),
        pa.chunked_array([pa.array(ids, pa.string())]),
        np.array(counts, dtype=np.int64),
        np.array(indices, dtype=np.int64),
        narrowed,
    )


def _relevance(token: bytes) -> float:
    if b":" in token:
        raise _LineError(
            f"begins with {_text(token)!r}, not with a relevance: "
            "a line reads 'relevance qid:ID index:value ...'"
        )
    value = _number(token)
    if value is None:
        raise _LineError(
            f"the relevance {_text(token)!r} is not a number: "
            "a line reads 'relevance qid:ID index:value ...'"
        )
    if not math.isfinite(value):
        raise _LineError(f"the relevance is {value}: give a finite number or drop the line")
    return value


def _query_id(tokens: list[bytes]) -> str | None:
    if len(tokens) < 2 or not tokens[1].startswith(b"qid:"):
        return None
    try:
        query_id = tokens[1][4:].decode()
    except UnicodeDecodeError:
        raise _LineError("the query id is not UTF-8 text: save the file as UTF-8") from None
    if not query_id:
        raise _LineError("nothing after 'qid:': write the query id there, without a blank")
    return query_id


def _mixed_ids(query_id: str | None, first_line: int) -> str:
    this, first = ("no qid", "one") if query_id is None else ("a qid", "none")
    return f"{this}, but line {first_line} has {first}: give a qid to all lines or to none"


def _add_features(
    tokens: list[bytes],
    n_features: int | None,
    first: int,
    indices: array[int],
    values: array[float],
) -> None:
    """Append features, whose indices are written from `first` on and kept from 1 on."""
    previous = first - 1
    for token in tokens:
        index_text, colon, value_text = token.partition(b":")
        if not colon:
            raise _LineError(f"{_text(token)!r} is not of the form index:value")
        index = _index(index_text, token)
        if index <= previous:
            raise _LineError(_not_ascending(index, previous, first))
        if n_features is not None and index - first >= n_features:
            raise _LineError(
                f"feature {index} is unseen in training, where there are {n_features} features: "
                "leave it out, or read the training data with a larger n_features"
            )
        value = _number(value_text)
        if value is None:
            raise _LineError(f"feature {index}: {_text(value_text)!r} is not a number")
        if math.isinf(value):
            raise _LineError(f"feature {index} is {value}: clip infinite values")
        indices.append(index - first + 1)
        values.append(value)
        previous = index


def _index(text: bytes, token: bytes) -> int:
    if text == b"qid":
        raise _LineError(f"{_text(token)!r}: the qid stands once, right after the relevance")
    if not text.removeprefix(b"-").isdigit():
        raise _LineError(f"{_text(token)!r}: the index before the colon must be a whole number")
    index = int(text) if len(text) < _MOST_DIGITS else _LARGEST_INDEX + 1
    if index > _LARGEST_INDEX:
        raise _LineError(f"feature index {_text(text)} is too large")
    return index


def _not_ascending(index: int, previous: int, first: int) -> str:
    if index == previous and index >= first:
        return f"feature {index} occurs twice: keep one of its values"
    if index < first:
        option = ", or say zero_based=True (--zero-based)" if index == 0 else ""
        return f"feature index {index}: indices begin at {first}, so shift all of them{option}"
    return f"feature {index} comes after feature {previous}: sort the features by index"


def _number(text: bytes) -> float | None:
    if b"_" in text:  # which Python allows between digits
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _text(token: bytes) -> str:
    text = token.decode(errors="replace")
    return text if len(text) <= 40 else text[:40] + "..."
