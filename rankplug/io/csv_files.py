"""CSV files with a header, parsed by Arrow; on failure read again by the row to find the cells."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import DataError
from rankplug.io.files import ENOUGH_PROBLEMS, InputFile, problems
from rankplug.io.rows import written_ids

__all__ = ["batches", "column_names", "read"]

_BLOCK = 1 << 22
_DELIMITERS = ",\t;|"
_MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None")


def column_names(file: InputFile) -> list[str]:
    """The names in the header."""
    with _rows(file) as rows:
        header: list[str] | None = next((row for row in rows if row), None)
    if header is None:
        raise DataError(f"{file} is empty: a header and at least one row are needed")
    return header


def read(
    file: InputFile, complete: Sequence[str], partial: Sequence[str], ids: str | None
) -> tuple[Any, NDArray[Any] | None]:
    """The Arrow table of float64 columns, and the column of ids.

    Parameters
    ----------
    file : InputFile
    complete, partial : sequence of str
        Columns of numbers; in `partial` ones they may be missing.
    ids : str, optional
        Column of integers or text.

    Raises
    ------
    DataError
        Naming lines and columns of the first values that are missing or no numbers.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    options = _options(file, [*complete, *partial], ids)
    try:
        with file.open() as stream:
            table = arrow_csv.read_csv(stream, **options)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise _error(file, complete, partial, ids, str(error)) from None
    if table.num_rows == 0:
        raise _no_rows(file)
    if not _is_right(table, complete, partial, ids):
        raise _error(file, complete, partial, ids, "missing or infinite values")
    return table, None if ids is None else written_ids(table.column(ids))


def batches(
    file: InputFile, numbers: Sequence[str], ids: str | None, n_rows: int, first_row: int = 0
) -> Iterator[Any]:
    """Arrow tables of at most so many rows, from some row on (counted from 0), ids as text.

    Raises
    ------
    DataError
        As `read`; what is wrong in one batch is told when it is reached.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    read_options = arrow_csv.ReadOptions(block_size=_BLOCK)
    options = _options(file, numbers, ids)
    row = 0
    try:
        with file.open() as stream:
            for block in arrow_csv.open_csv(stream, read_options, **options):
                for start in range(max(0, first_row - row), block.num_rows, n_rows):
                    table = pa.Table.from_batches([block.slice(start, n_rows)])
                    if not _is_right(table, numbers, (), ids):
                        raise _error(file, numbers, (), ids, "missing or infinite values")
                    yield table
                row += block.num_rows
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise _error(file, numbers, (), ids, str(error)) from None
    if row == 0:
        raise _no_rows(file)


def _options(file: InputFile, numbers: Sequence[str], ids: str | None) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    types = {**dict.fromkeys(numbers, pa.float64()), **({} if ids is None else {ids: pa.string()})}
    return {
        "parse_options": arrow_csv.ParseOptions(
            delimiter=_delimiter(file), newlines_in_values=True
        ),
        "convert_options": arrow_csv.ConvertOptions(
            column_types=types, include_columns=list(types), null_values=_MISSING
        ),
    }


def _is_right(table: Any, complete: Sequence[str], partial: Sequence[str], ids: str | None) -> bool:
    """Whether no number is infinite, no id empty, and nothing missing that must not be."""
    from pyarrow import compute

    finite = all(np.isfinite(table.column(name).to_numpy()).all() for name in complete)
    finite &= not any(np.isinf(table.column(name).to_numpy()).any() for name in partial)
    named = ids is None or not compute.any(compute.equal(table.column(ids), "")).as_py()
    return bool(finite and named)


def _no_rows(file: InputFile) -> DataError:
    return DataError(f"{file} holds no rows below its header")


def _delimiter(file: InputFile) -> str:
    """The delimiter that occurs most often in the header, a comma if there is none."""
    with file.open() as stream:
        header = next((line for line in stream if line.strip()), b"").decode(errors="replace")
    return max(_DELIMITERS, key=header.count)


@contextmanager
def _rows(file: InputFile) -> Iterator[Any]:
    """A `csv.reader` of the file; it knows the number of the line it has come to."""
    delimiter = _delimiter(file)
    with file.open() as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            yield csv.reader(text, delimiter=delimiter, strict=True)
        except UnicodeDecodeError as error:
            raise DataError(f"{file} is not UTF-8 text: {error.reason}; save it as UTF-8") from None
        except csv.Error as error:
            raise DataError(
                f"{file} is not a valid CSV file: {error}; check its quotation marks"
            ) from None


def _error(
    file: InputFile, complete: Sequence[str], partial: Sequence[str], ids: str | None, reason: str
) -> DataError:
    found = []
    with _rows(file) as rows:
        header = next(row for row in rows if row)
        place = {name: header.index(name) for name in (*complete, *partial)}
        for row in rows:
            if row:
                wrong = _wrong_in_row(row, header, place, partial, ids)
                found += [f"line {rows.line_num}{what}" for what in wrong]
            if len(found) >= ENOUGH_PROBLEMS:
                break
    return problems(file, found) if found else DataError(f"{file} cannot be read: {reason}")


def _wrong_in_row(
    row: list[str],
    header: list[str],
    place: dict[str, int],
    partial: Sequence[str],
    ids: str | None,
) -> list[str]:
    if len(row) != len(header):
        return [f": {len(row)} values, but the header names {len(header)} columns"]
    wrong = []
    for name, j in place.items():
        what = _wrong_in_cell(row[j].strip(), name in partial)
        if what is not None:
            wrong.append(f", column {name!r}: {what}")
    if ids is not None and not row[header.index(ids)]:
        wrong.append(f", column {ids!r}: empty, so the row belongs nowhere: fill it in")
    return wrong


def _wrong_in_cell(text: str, may_be_missing: bool) -> str | None:
    if text in _MISSING:
        return None if may_be_missing else f"{text or 'empty'}: fill it in or drop the row"
    try:
        value = float(text)
    except ValueError:
        return f"{text!r} is not a number: encode it as one or leave the column out"
    if not math.isfinite(value):
        return f"{text} is not finite: fill in or clip such values, or drop the row"
    return None
