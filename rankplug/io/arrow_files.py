"""Parquet files and Arrow files (IPC, which Feather is)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rankplug.data import tables
from rankplug.data.queries import integers_or_strings
from rankplug.exceptions import DataError
from rankplug.io.files import InputFile, is_plain, problems
from rankplug.io.table_files import Roles, TableFile
from rankplug.system.cores import physical_memory

_COPY_BYTES = 1 << 20


class ArrowFile(TableFile):
    """An open Parquet or Arrow file (as the format says); its columns keep their types."""

    def __init__(self, file: InputFile, stream: BinaryIO, format_: str) -> None:
        super().__init__(file, stream)
        self.format = format_

    @override
    def column_names(self) -> list[str]:
        names: list[str] = self._schema().names
        return names

    @override
    def read(self, roles: Roles) -> tuple[Any, NDArray[Any] | None]:
        needed = list(roles.columns)
        with self._open() as opened:
            if self.format == "parquet":
                self._require_memory(opened.metadata.num_rows * len(needed))
                table = opened.read(needed)
            else:
                table = opened.read_all().select(needed)
        if table.num_rows == 0:
            raise DataError(f"{self.file} holds no rows")
        self._check(table, roles)
        ids = None if roles.ids is None else tables.column(table, roles.ids)
        if ids is not None and ids.dtype == object and not isinstance(ids[0], str):
            integers_or_strings(ids, f"{self.file}, column {roles.ids!r}:")  # raises
        return table, ids

    @override
    def whole(self) -> Any:
        with self._open() as opened:
            if self.format == "parquet":
                metadata = opened.metadata
                self._require_memory(metadata.num_rows * metadata.num_columns)
                table = opened.read()
            else:
                table = opened.read_all()
        if table.num_rows == 0:
            raise DataError(f"{self.file} holds no rows")
        return table

    @override
    def batches(self, roles: Roles, n_rows: int, first_row: int = 0) -> Iterator[tuple[Any, float]]:
        import pyarrow as pa

        needed = list(roles.columns)
        row = 0
        with self._open(mapped=True) as opened:
            found = _record_batches(opened, self.format, needed, n_rows, first_row)
            for batch, row, fraction in found:
                for start in range(max(0, first_row - row), batch.num_rows, n_rows):
                    table = pa.Table.from_batches([batch.slice(start, n_rows)]).select(needed)
                    self._check(table, roles, first_row=row + start)
                    yield table, fraction
                row += batch.num_rows
        if row == first_row == 0:
            raise DataError(f"{self.file} holds no rows")

    @override
    def without_rows(self, roles: Roles) -> Any:
        return self._schema().empty_table().select(list(roles.columns))

    def _schema(self) -> Any:
        with self._open() as opened:
            return opened.schema_arrow if self.format == "parquet" else opened.schema

    @contextmanager
    def _open(self, *, mapped: bool = False) -> Iterator[Any]:
        """The file for Arrow to read; `mapped`, a batch of any size takes no memory."""
        import pyarrow as pa
        from pyarrow import ipc, parquet

        try:
            with self._source(mapped and self.format == "arrow") as source:
                if self.format == "parquet":
                    # A buffered file stays in memory as a whole, also when it is read in batches.
                    yield parquet.ParquetFile(source, pre_buffer=False)
                else:
                    # No threads: where none can be started, Arrow ends the process.
                    options = ipc.IpcReadOptions(use_threads=False)
                    yield ipc.open_file(source, options=options)
        except MemoryError:  # one of Arrow's among them
            raise
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise DataError(f"{self.file} is not a valid {self.format} file: {error}") from None

    def _source(self, mapped: bool) -> Any:
        """The file as Arrow opens it (see `InputFile.arrow_source`), in memory if compressed."""
        import pyarrow as pa

        if is_plain(self.stream):
            name = os.fsencode(self.file.path)
            if mapped:
                with suppress(OSError):  # where addresses are short, it is read instead
                    return pa.memory_map(name)
            return pa.OSFile(name)
        self.stream.seek(0)
        content = pa.BufferOutputStream()
        while block := self.stream.read(_COPY_BYTES):
            self._require_memory((content.tell() + len(block)) // 8)
            content.write(block)
        return pa.BufferReader(content.getvalue())

    def _check(self, table: Any, roles: Roles, first_row: int = 0) -> None:
        """Raise `DataError` if a value is missing or no number; the file's rows count from 0."""
        partial, ids = roles.partial_numbers, roles.ids
        found = [
            f"column {name!r}{what}"
            for name in roles.numbers
            if (what := _find_wrong_number(table, name, name in partial, first_row))
        ]
        if ids is not None and table.column(ids).null_count:
            row = first_row + int(np.argmax(table.column(ids).is_null().to_numpy()))
            found.append(
                f"column {ids!r}, row {row}: missing, so the row belongs nowhere: fill it in"
            )
        if found:
            raise problems(self.file, found)

    def _require_memory(self, n_values: int) -> None:
        """Refuse what memory cannot hold, before it is expanded: a column may be one number."""
        memory = physical_memory()
        if n_values * 8 > memory:
            raise DataError(
                f"{self.file} holds {n_values:,} values, which take more than the {memory:,} bytes "
                "of memory here: prepare it with 'rankplug prepare'"
            )


def _record_batches(
    opened: Any, format_: str, needed: list[str], n_rows: int, first_row: int
) -> Iterator[tuple[Any, int, float]]:
    """Batches that hold `first_row` or later ones, their first rows, and how much is read."""
    row = 0
    if format_ == "parquet":
        groups: list[int] = []
        for number in range(opened.num_row_groups):
            size = opened.metadata.row_group(number).num_rows
            if groups or row + size > first_row:
                groups.append(number)
            else:
                row += size
        for batch in opened.iter_batches(n_rows, row_groups=groups, columns=needed):
            yield batch, row, (row + batch.num_rows) / opened.metadata.num_rows
            row += batch.num_rows
    else:
        for number in range(opened.num_record_batches):
            batch = opened.get_batch(number)
            yield batch, row, (number + 1) / opened.num_record_batches
            row += batch.num_rows


def _find_wrong_number(table: Any, name: str, may_be_missing: bool, first_row: int) -> str | None:
    import pyarrow as pa

    kind = table.schema.field(name).type
    if pa.types.is_dictionary(kind) or pa.types.is_nested(kind):
        return None  # categories and lists, which are read as features elsewhere
    values = tables.numbers_or_same(tables.column(table, name))
    if values.dtype.kind not in "fiub":
        return f" holds {kind}, not numbers: encode them as numbers or leave the column out"
    wrong = np.isinf(values) if may_be_missing else ~np.isfinite(values)
    if not wrong.any():
        return None
    row = int(np.argmax(wrong))
    return f", row {first_row + row}: {values[row]}: fill in missing values, clip infinite ones"
