"""Files beside a text file that hold its queries and weights, as LightGBM and XGBoost have them.

``train.txt.query`` (LightGBM) or ``train.txt.group`` (XGBoost) holds the number of rows of each
query, ``train.txt.weight`` the weight of each row, or of each query: a number a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import DataError, DataWarning, warn_caller
from rankplug.io.compression import SUFFIXES
from rankplug.io.files import ENOUGH_PROBLEMS, InputFile, problems

_SIZES = (".query", ".group")
_WEIGHTS = (".weight",)
_UNUSED = {
    ".init": "initial scores",
    ".base_margin": "initial scores",
    ".position": "positions",
    ".init_score": "initial scores",
}
_TEXT = ("svmlight", "csv")


@dataclass
class Companions:
    """The companions of a text file, read when they are used.

    Attributes
    ----------
    file : InputFile
    sizes_file, weights_file : Path or None
    offset : int
        Number of queries that the files before this one have in their companions.
    """

    file: InputFile
    sizes_file: Path | None = None
    weights_file: Path | None = None
    offset: int = 0
    _last: tuple[Any, int] | None = field(default=None, init=False)

    @classmethod
    def of(cls, file: InputFile, format_: str) -> Companions:
        """Those that are there."""
        if format_ not in _TEXT:
            return cls(file)
        sizes = _beside(file.path, _SIZES)
        if len(sizes) > 1:
            raise DataError(
                f"{file}: its queries are in {' and in '.join(map(str, sizes))}: keep one of them"
            )
        return cls(file, next(iter(sizes), None), next(iter(_beside(file.path, _WEIGHTS)), None))

    @property
    def paths(self) -> list[Path]:
        """The files that are used."""
        return [path for path in (self.sizes_file, self.weights_file) if path is not None]

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The row behind the last one of each query."""
        assert self.sizes_file is not None
        values = _read_numbers(self.sizes_file, "a number of rows", whole=True)
        return np.cumsum(values.astype(np.int64))

    @property
    def n_queries(self) -> int:
        """Number of queries; 0 if no companion says where they are."""
        return 0 if self.sizes_file is None else len(self.ends)

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        assert self.weights_file is not None
        return _read_numbers(self.weights_file, "a weight", whole=False)

    def ids(self, start: int, n_rows: int, written: NDArray[Any] | None) -> NDArray[Any] | None:
        """The query ids of some rows as text; those that are written in the file, if they are.

        Raises
        ------
        DataError
            If the companion knows of fewer rows, or of other queries.
        """
        if self.sizes_file is None:
            return written
        if start + n_rows > self._n_rows:
            raise self._wrong_sum(f"holds more: row {self._n_rows}, counting from 0, has no query")
        numbers = np.searchsorted(self.ends, np.arange(start, start + n_rows), side="right")
        if written is None:
            return (numbers + self.offset).astype(np.str_)
        self._require_alike(start, written, numbers)
        return written

    def weights(self, start: int, n_rows: int) -> NDArray[np.float64] | None:
        """The weights of some rows; raises `DataError` if the companion has none for them."""
        if self.weights_file is None:
            return None
        values = self._weights
        if self.n_queries == len(values) != self._n_rows:
            numbers = np.searchsorted(self.ends, np.arange(start, start + n_rows), side="right")
            return values[numbers]
        if start + n_rows > len(values):
            raise self._wrong_number(f"more than {start + n_rows - 1:,}")
        return values[start : start + n_rows]

    def require_end(self, n_rows: int) -> None:
        """Raise `DataError` unless the file ends after so many rows, as the companions say."""
        if self.sizes_file is not None and self._n_rows != n_rows:
            raise self._wrong_sum(f"holds {n_rows:,}")
        if self.weights_file is not None and len(self._weights) not in (n_rows, self.n_queries):
            raise self._wrong_number(f"{n_rows:,}")

    @property
    def _n_rows(self) -> int:
        return int(self.ends[-1]) if self.n_queries else 0

    def _wrong_sum(self, what: str) -> DataError:
        return DataError(
            f"{self.sizes_file}, line {len(self.ends)}: the sizes of the queries add up to "
            f"{self._n_rows:,} rows by there, but {self.file} {what}: correct the file, or move it "
            "away if it belongs to other data"
        )

    def _wrong_number(self, n_rows: str) -> DataError:
        queries = f" and {self.n_queries:,} queries" if self.n_queries else ""
        return DataError(
            f"{self.weights_file}, line {len(self._weights)}: ends after {len(self._weights):,} "
            f"weights, but {self.file} holds {n_rows} rows{queries}: give one for each row"
        )

    def _require_alike(self, start: int, written: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        """Raise `DataError` if another query begins in one of both, but not in the other."""
        changes = written[1:] != written[:-1]
        other = numbers[1:] != numbers[:-1]
        wrong = np.flatnonzero(changes != other)
        first = start + 1
        if self._last is not None:
            before = (written[0] != self._last[0]) != (numbers[0] != self._last[1])
            if before:
                wrong, first = np.array([0]), start
        if wrong.size:
            raise DataError(
                f"{self.file} and {self.sizes_file} disagree on the queries: at row "
                f"{first + wrong[0]}, counting from 0, only one of them begins another query: "
                "leave out the ids, or move the companion away"
            )
        self._last = (written[-1], int(numbers[-1]))


def find_companions(files: Sequence[InputFile], format_: str) -> list[Companions]:
    """The companions of files that are read as one, whose queries are numbered on.

    A `DataWarning` says which of them are used, and which are not.

    Raises
    ------
    DataError
        If only some of the files have them.
    """
    found = [Companions.of(file, format_) for file in files]
    for kind in ("sizes_file", "weights_file"):
        having = [getattr(one, kind) for one in found if getattr(one, kind) is not None]
        without = [str(one.file) for one in found if getattr(one, kind) is None]
        if having and without:
            raise DataError(
                f"{having[0]} belongs to one of the files, but there is none beside "
                f"{', '.join(without)}: give each file one, or none"
            )
    offset = 0
    for one in found:
        one.offset = offset
        offset += one.n_queries
    tell_companions(found, format_)
    return found


def tell_companions(companions: Sequence[Companions], format_: str) -> None:
    """Say which files are used and which are not."""
    sizes = [str(one.sizes_file) for one in companions if one.sizes_file is not None]
    weights = [str(one.weights_file) for one in companions if one.weights_file is not None]
    told = [f"the queries are those of {', '.join(sizes)}"] if sizes else []
    told += [f"the weights are those of {', '.join(weights)}"] if weights else []
    if format_ in _TEXT:
        for one in companions:
            for suffix, what in _UNUSED.items():
                told += [
                    f"{path} ({what}) is not used" for path in _beside(one.file.path, (suffix,))
                ]
    if told:
        warn_caller("; ".join(told), DataWarning)


def refuse_companions(files: Sequence[InputFile], format_: str) -> None:
    """Say that label ranking, which knows no queries, uses none of them."""
    found = [path for file in files for path in Companions.of(file, format_).paths]
    if found:
        warn_caller(
            f"{', '.join(map(str, found))}: not used, as instances of label ranking have neither "
            "queries nor weights",
            DataWarning,
        )


def _beside(path: Path, suffixes: Sequence[str]) -> list[Path]:
    """The companions with such an end, of the file as it is or as it would be decompressed."""
    names = [path.name, *([path.stem] if path.suffix.lower() in SUFFIXES else [])]
    places = [path.with_name(name + suffix) for suffix in suffixes for name in names]
    return [place for place in places if place.is_file()]


def _read_numbers(path: Path, what: str, *, whole: bool) -> NDArray[np.float64]:
    """The numbers of a file, one a line; blank lines count for nothing."""
    import pyarrow as pa
    from pyarrow import csv

    with InputFile(path).open() as stream:
        content = stream.read()
    try:
        column = csv.read_csv(
            pa.py_buffer(content.strip() + b"\n"),
            csv.ReadOptions(column_names=["value"], use_threads=False),
            csv.ParseOptions(quote_char=False),
            csv.ConvertOptions(column_types={"value": pa.float64()}, null_values=[]),
        )
        values = column.column("value").to_numpy()
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        values = None
    if values is not None and len(values) and _are_right(values, whole):
        return np.require(values, requirements="W")
    return np.array(_by_line(path, content, what, whole=whole), dtype=np.float64)


def _are_right(values: NDArray[np.float64], whole: bool) -> bool:
    right = np.isfinite(values) & (values >= 0) & (values < 2**53)
    return bool(right.all() and (not whole or np.all(values == np.floor(values))))


def _by_line(path: Path, content: bytes, what: str, *, whole: bool) -> list[float]:
    found, values = [], []
    for number, line in enumerate(content.splitlines(), start=1):
        text = line.removeprefix(b"\xef\xbb\xbf").strip()
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = np.nan
        if b"_" in text or not _are_right(np.array([value]), whole):
            shown = text[:40].decode(errors="replace")
            found.append(f"line {number}: {shown!r} is not {what}")
            if len(found) == ENOUGH_PROBLEMS:
                break
        values.append(value)
    if found:
        raise problems(path, found)
    if not values:
        raise DataError(f"{path} is empty: {what} is needed on each line")
    return values
