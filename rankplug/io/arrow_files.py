"""Parquet files and Arrow files (IPC, which Feather is)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug import tables
from rankplug.exceptions import DataError
from rankplug.io.files import InputFile, problems

__all__ = ["column_names", "read"]


def column_names(file: InputFile, format_: str) -> list[str]:
    """The names of the columns."""
    with _opened(file, format_) as opened:
        names: list[str] = (opened.schema_arrow if format_ == "parquet" else opened.schema).names
    return names


def read(
    file: InputFile,
    format_: str,
    complete: Sequence[str],
    partial: Sequence[str],
    ids: str | None,
) -> tuple[Any, NDArray[Any] | None]:
    """The Arrow table of some columns, and the column of ids.

    Parameters
    ----------
    file : InputFile
    format_ : "parquet" or "arrow"
    complete, partial : sequence of str
        Columns of numbers; in `partial` ones they may be missing.
    ids : str, optional
        Column of integers or text.

    Raises
    ------
    DataError
        Naming columns and rows of the first values that are missing or no numbers.
    """
    needed = [*complete, *partial, *([] if ids is None else [ids])]
    with _opened(file, format_) as opened:
        table = opened.read(needed) if format_ == "parquet" else opened.read_all().select(needed)
    if table.num_rows == 0:
        raise DataError(f"{file} holds no rows")
    found = [
        f"column {name!r}{what}"
        for name in (*complete, *partial)
        if (what := _wrong_in_numbers(table, name, name in partial))
    ]
    if ids is not None and table.column(ids).null_count:
        row = int(np.argmax(table.column(ids).is_null().to_numpy()))
        found.append(f"column {ids!r}, row {row}: missing, so the row belongs nowhere: fill it in")
    if found:
        raise problems(file, found)
    return table, None if ids is None else tables.column(table, ids)


@contextmanager
def _opened(file: InputFile, format_: str) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import ipc, parquet

    with file.open() as stream:
        try:
            yield parquet.ParquetFile(stream) if format_ == "parquet" else ipc.open_file(stream)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise DataError(f"{file} is not a valid {format_} file: {error}") from None


def _wrong_in_numbers(table: Any, name: str, may_be_missing: bool) -> str | None:
    values = tables.numbers_or_same(tables.column(table, name))
    if values.dtype.kind not in "fiub":
        kind = table.schema.field(name).type
        return f" holds {kind}, not numbers: encode them as numbers or leave the column out"
    wrong = np.isinf(values) if may_be_missing else ~np.isfinite(values)
    if not wrong.any():
        return None
    row = int(np.argmax(wrong))
    return f", row {row}: {values[row]}: fill in missing values, clip infinite ones"
