"""CSV files with a header: parsed by Arrow, on failure row by row to find the cells at fault."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from rankplug.exceptions import DataError
from rankplug.io.encodings import LONGEST_LINE
from rankplug.io.files import ENOUGH_PROBLEMS, InputFile, problems
from rankplug.io.table_files import Roles, TableFile, written_ids

_BLOCK = 1 << 22  # bytes that Arrow parses at a time: a few thousand rows of a hundred columns
_DELIMITERS = ",\t;|"
_BOOLEANS = {"true", "True", "TRUE", "false", "False", "FALSE"}  # as Arrow reads them
_ROWS_TO_KNOW = 100  # in which a column must have a value that tells whether it holds booleans
_WITH_COMMA = {ord(","): ".", ord("."): "?"}
# Numbers that another decimal mark would make sense of.
_OTHER_MARK = {
    ".": re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?"),
    ",": re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?"),
}
_MISSING = (
    *("", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None"),
    "\\N",  # of MySQL and Hive
)


class CsvFile(TableFile):
    """An open CSV file; its delimiter is the one most frequent in the header, else a comma."""

    def __init__(self, file: InputFile, stream: BinaryIO) -> None:
        super().__init__(file, stream)
        stream.seek(0)
        lines = iter(lambda: file.read_line(stream), b"")
        header = next((line for line in lines if line.strip()), b"").decode(errors="replace")
        self._decimal = file.notation.decimal or "."
        possible = _DELIMITERS.replace(self._decimal, "")
        self._delimiter = file.notation.separator or max(possible, key=header.count)
        # A row must fit into a block; it is some times as long as the header.
        self._block = _BLOCK if 8 * len(header) < _BLOCK else LONGEST_LINE

    @override
    def column_names(self) -> list[str]:
        with self._rows(self.stream) as rows:
            for _, header in rows:
                return header
        raise DataError(f"{self.file} is empty: a header and at least one row are needed")

    @override
    def read(self, roles: Roles) -> tuple[Any, NDArray[Any] | None]:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        options = self._options(roles)
        try:
            with self.file.arrow_source(self.stream) as source:
                table = _to_numbers(arrow_csv.read_csv(source(), **options), roles)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise self._error(roles, str(error)) from None
        if table.num_rows == 0:
            raise self._no_rows()
        self._check(table, roles)
        return table, None if roles.ids is None else written_ids(table.column(roles.ids))

    @override
    def batches(self, roles: Roles, n_rows: int, first_row: int = 0) -> Iterator[tuple[Any, float]]:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        row = 0
        options = self._options(roles)
        try:
            with self.file.arrow_source(self.stream) as source:
                for block in arrow_csv.open_csv(source(), **options):
                    for start in range(max(0, first_row - row), block.num_rows, n_rows):
                        part = pa.Table.from_batches([block.slice(start, n_rows)])
                        table = _to_numbers(part, roles)
                        self._check(table, roles)
                        yield table, self.file.fraction_read()
                    row += block.num_rows
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise self._error(roles, str(error)) from None
        if row == 0:
            raise self._no_rows()

    @override
    def whole(self) -> Any:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        options = self._options(Roles(()))
        options["convert_options"] = arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(self.column_names(), pa.string()),
            null_values=_MISSING,
            strings_can_be_null=True,
        )
        try:
            with self.file.arrow_source(self.stream) as source:
                table = arrow_csv.read_csv(source(), **options)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise self._error(Roles(()), str(error)) from None
        if table.num_rows == 0:
            raise self._no_rows()
        columns = [_typed(column, self._decimal) for column in table.columns]
        return pa.table(columns, names=table.column_names)

    def _options(self, roles: Roles) -> dict[str, Any]:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        types = dict.fromkeys(roles.numbers, pa.float64())
        types.update(dict.fromkeys(self._boolean_columns(roles), pa.bool_()))
        types.update(dict.fromkeys(roles.free, pa.string()))
        if roles.ids is not None:
            types[roles.ids] = pa.string()
        types |= {name: pa.string() for name in roles.kept if name not in types}
        return {
            "read_options": arrow_csv.ReadOptions(block_size=self._block),
            "parse_options": arrow_csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True
            ),
            "convert_options": arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=_MISSING,
                decimal_point=self._decimal,
            ),
        }

    def _boolean_columns(self, roles: Roles) -> set[str]:
        """Columns of numbers whose first value is True or False, which count as 1 and 0."""
        numbers, first = set(roles.numbers), dict[str, str]()
        with self._rows(self.stream) as rows:
            _, header = next(rows)
            for _, row in islice(rows, _ROWS_TO_KNOW):
                for name, text in zip(header, row, strict=False):
                    if name in numbers and text not in _MISSING:
                        first.setdefault(name, text)
                if len(first) == len(numbers):
                    break
        return {name for name, text in first.items() if text in _BOOLEANS}

    def _no_rows(self) -> DataError:
        return DataError(f"{self.file} holds no rows below its header")

    @contextmanager
    def _rows(self, stream: BinaryIO) -> Iterator[Iterator[tuple[int, list[str]]]]:
        """The rows that are not empty, and the number of the last line of each."""
        stream.seek(0)
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        n_read = 0  # characters of a row

        def lines() -> Iterator[str]:
            nonlocal n_read
            while line := text.readline(LONGEST_LINE - n_read):
                n_read += len(line)
                if n_read == LONGEST_LINE:
                    raise self.file.endless_line()
                yield line

        def rows() -> Iterator[tuple[int, list[str]]]:
            nonlocal n_read
            reader = csv.reader(lines(), delimiter=self._delimiter, strict=True)
            for row in reader:
                n_read = 0
                if row:
                    yield reader.line_num, row

        try:
            yield rows()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.file} is not UTF-8 text: {error.reason}; save it as UTF-8"
            ) from None
        except csv.Error as error:
            raise DataError(
                f"{self.file} is not a valid CSV file: {error}; check its quotation marks"
            ) from None
        finally:
            text.detach()  # or it would close the stream

    def _check(self, table: Any, roles: Roles) -> None:
        """Raise `DataError` if a number is infinite, an id empty, or missing what must not be."""
        from pyarrow import compute

        valid = all(np.isfinite(table.column(n).to_numpy()).all() for n in roles.complete_numbers)
        valid &= not any(np.isinf(table.column(n).to_numpy()).any() for n in roles.partial_numbers)
        if roles.ids is not None:
            valid &= not compute.any(compute.equal(table.column(roles.ids), "")).as_py()
        if not valid:
            raise self._error(roles, "missing or infinite values")

    def _error(self, roles: Roles, reason: str) -> DataError:
        """What is wrong in which cells; Arrow may be reading the stream still."""
        found: list[str] = []
        booleans = self._boolean_columns(roles)
        with self.file.open() as stream, self._rows(stream) as rows:
            _, header = next(rows)
            for number, row in rows:
                wrong = _wrong_in_row(row, header, roles, booleans, self._decimal)
                found += [f"line {number}{what}" for what in wrong]
                if len(found) >= ENOUGH_PROBLEMS:
                    break
        if not found and "straddling" in reason:  # Arrow's word for a row that fills a block
            return DataError(
                f"{self.file} holds a row of more than {self._block:,} bytes, many times as long "
                "as the header: shorten its text, or check its quotation marks"
            )
        if not found:
            return DataError(f"{self.file} cannot be read: {reason}")
        return problems(self.file, found)


def _typed(texts: Any, decimal: str) -> Any:
    """Texts as what they all are: True and False, numbers, or times; else as they are."""
    import pyarrow as pa
    from pyarrow import compute

    if texts.null_count == len(texts):
        return pa.nulls(len(texts))
    if compute.all(compute.is_in(texts, value_set=pa.array([*_BOOLEANS, None]))).as_py():
        return compute.equal(compute.utf8_lower(texts), "true")
    trimmed = compute.utf8_trim_whitespace(texts)
    numbers = trimmed
    if decimal == ",":  # a point is no decimal mark then
        numbers = compute.replace_substring(compute.replace_substring(trimmed, ".", "?"), ",", ".")
    for kind, written in ((pa.float64(), numbers), (pa.timestamp("us"), trimmed)):
        try:
            return written.cast(kind)
        except pa.ArrowInvalid:
            continue
    return texts


def _to_numbers(table: Any, roles: Roles) -> Any:
    """The table with its booleans as numbers, and null where a free column has no value."""
    import pyarrow as pa
    from pyarrow import compute

    for name in roles.free:
        texts = table.column(name)
        missing = compute.is_in(texts, pa.array(_MISSING))
        texts = compute.if_else(missing, pa.scalar(None, pa.string()), texts)
        table = table.set_column(table.column_names.index(name), name, texts)
    if pa.bool_() not in table.schema.types:
        return table
    fields = [
        field.with_type(pa.float64()) if field.type == pa.bool_() else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _wrong_in_row(
    row: list[str], header: list[str], roles: Roles, booleans: set[str], decimal: str
) -> list[str]:
    if len(row) != len(header):
        return [f": {len(row)} values, but the header names {len(header)} columns"]
    wrong = []
    cells = dict(zip(header, row, strict=True))
    for name in roles.numbers:
        if name in booleans and cells[name] in _BOOLEANS:
            continue
        what = _wrong_in_cell(cells[name].strip(), name in roles.partial_numbers, decimal)
        if what is not None:
            wrong.append(f", column {name!r}: {what}")
    if roles.ids is not None and not cells[roles.ids]:
        wrong.append(f", column {roles.ids!r}: empty, so the row belongs nowhere: fill it in")
    return wrong


def _wrong_in_cell(text: str, may_be_missing: bool, decimal: str) -> str | None:
    if text in _MISSING:
        return None if may_be_missing else f"{text or 'empty'}: fill it in or drop the row"
    try:
        # As Arrow reads it: a point is no decimal mark where a comma is.
        value = float(text if decimal == "." else text.translate(_WITH_COMMA))
    except ValueError:
        if _OTHER_MARK[decimal].fullmatch(text):
            other = "," if decimal == "." else "."
            return (
                f"{text!r} is not a number with the decimal mark {decimal!r}: say "
                f"decimal={other!r} (--decimal {other})"
            )
        return f"{text!r} is not a number: encode it as one or leave the column out"
    if not math.isfinite(value):
        return f"{text} is not finite: fill in or clip such values, or drop the row"
    return None
