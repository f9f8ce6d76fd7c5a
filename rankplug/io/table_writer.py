"""Tables written piece by piece, to a file that appears whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from rankplug.exceptions import ParameterError
from rankplug.io.files import format_to_write, replacing

__all__ = ["table_writer"]


@contextmanager
def table_writer(path: Path) -> Iterator[Callable[[Any], None]]:
    """A function that appends an Arrow table to the file; all must have the same columns.

    The end of the name says the format: .csv, .tsv (with .gz, .bz2 or .xz compressed), .parquet,
    .arrow and so on. An earlier file is replaced when the block ends without an error.

    Raises
    ------
    ParameterError
        If the name does not end in a known way.
    """
    format_ = format_to_write(path)
    if format_ == "svmlight":
        raise ParameterError(f"{path}: name a table to write: .csv, .tsv, .parquet or .arrow")
    writer: Any = None

    def write(table: Any) -> None:
        nonlocal writer
        if writer is None:
            writer = _open(format_, stream, table.schema, path)
        writer.write_table(table)

    with replacing(path) as stream:
        try:
            yield write
        finally:
            if writer is not None:
                writer.close()


def _open(format_: str, stream: BinaryIO, schema: Any, path: Path) -> Any:
    if format_ == "csv":
        from pyarrow import csv

        delimiter = "\t" if ".tsv" in path.suffixes else ","
        options = csv.WriteOptions(delimiter=delimiter, quoting_style="needed")
        return csv.CSVWriter(stream, schema, write_options=options)
    if format_ == "parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(stream, schema)
    from pyarrow import ipc

    return ipc.new_file(stream, schema)
