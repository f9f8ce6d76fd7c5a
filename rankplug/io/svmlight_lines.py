"""LETOR/svmlight text line by line: slow, accepts all that is right, names all that is not."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import DTypeLike

from rankplug.io.files import ENOUGH_PROBLEMS, InputFile, problems
from rankplug.io.rows import LARGEST_INDEX, Rows

__all__ = ["parse_file", "parse_lines"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MOST_DIGITS = 100


class _LineError(ValueError):
    """What is wrong in a line."""


def parse_file(file: InputFile, n_features: int | None, dtype: DTypeLike) -> Rows:
    """Parse a file; parameters and errors are those of `parse_lines`."""
    with file.open() as stream:
        return parse_lines(file, enumerate(stream, start=1), n_features, dtype)


def parse_lines(
    file: InputFile,
    lines: Iterable[tuple[int, bytes]],
    n_features: int | None,
    dtype: DTypeLike,
) -> Rows:
    """Parse numbered lines of a file; `n_features` is the largest index there may be.

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
                raise _LineError(_mixed(query_id, first[0]))
            features = tokens[1:] if query_id is None else tokens[2:]
            _add_features(features, n_features, indices, values)
            ids.append(query_id)
            counts.append(len(features))
        except _LineError as error:
            found.append(f"line {number}: {error}")
            if len(found) == ENOUGH_PROBLEMS:
                break
    if found:
        raise problems(file, found)
    with np.errstate(over="ignore"):  # told as infinite values later
        narrowed = np.array(values, dtype=dtype)
    return Rows(
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


def _mixed(query_id: str | None, first_line: int) -> str:
    this, first = ("no qid", "one") if query_id is None else ("a qid", "none")
    return f"{this}, but line {first_line} has {first}: give a qid to all lines or to none"


def _add_features(
    tokens: list[bytes], n_features: int | None, indices: array[int], values: array[float]
) -> None:
    previous = 0
    for token in tokens:
        index_text, colon, value_text = token.partition(b":")
        if not colon:
            raise _LineError(f"{_text(token)!r} is not of the form index:value")
        index = _index(index_text, token)
        if index <= previous:
            raise _LineError(_not_ascending(index, previous))
        if n_features is not None and index > n_features:
            raise _LineError(
                f"feature {index} is unseen in training, where there are {n_features} features: "
                "leave it out, or read the training data with a larger n_features"
            )
        value = _number(value_text)
        if value is None:
            raise _LineError(f"feature {index}: {_text(value_text)!r} is not a number")
        if not math.isfinite(value):
            raise _LineError(
                f"feature {index} is {value}: fill in or leave out missing values and clip "
                "infinite ones"
            )
        indices.append(index)
        values.append(value)
        previous = index


def _index(text: bytes, token: bytes) -> int:
    if text == b"qid":
        raise _LineError(f"{_text(token)!r}: the qid stands once, right after the relevance")
    if not text.removeprefix(b"-").isdigit():
        raise _LineError(f"{_text(token)!r}: the index before the colon must be a whole number")
    # Python itself refuses to read thousands of digits.
    index = int(text) if len(text) < _MOST_DIGITS else LARGEST_INDEX + 1
    if index > LARGEST_INDEX:
        raise _LineError(f"feature index {_text(text)} is too large")
    return index


def _not_ascending(index: int, previous: int) -> str:
    if index == previous and index > 0:
        return f"feature {index} occurs twice: keep one of its values"
    if index <= 0:
        return f"feature index {index}: indices begin at 1, so shift all of them"
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
