"""Files of data: their format and compression, and atomic writing of files."""

from __future__ import annotations

import difflib
import io
import lzma
import os
import re
import time
import uuid
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias, cast

from rankplug.exceptions import DataError, ParameterError, nearest
from rankplug.io.compression import OPENERS, SUFFIXES, Lent, decompress
from rankplug.io.encodings import LONGEST_LINE, plain_text
from rankplug.io.shortage import is_shortage, require_threads
from rankplug.parameters import Choice, Optional, check_parameters

FORMATS = ("svmlight", "csv", "parquet", "arrow")

Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""One file, or several that are read as one."""

_BINARY_FORMATS = {b"PAR1": "parquet", b"ARROW1": "arrow"}
_SUFFIXES = {
    "csv": (".csv", ".tsv"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "svmlight": (".txt", ".dat", ".letor", ".libsvm", ".svm", ".svmlight"),
}
_FORMAT_OF_SUFFIX = {suffix: name for name, suffixes in _SUFFIXES.items() for suffix in suffixes}
_MOST_SECONDS_LENT = 10.0  # a block is decompressed within a fraction of a second
# What Python and Arrow raise at content that is not what it says to be.
_DAMAGES = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, NotImplementedError)
_NO_SEPARATORS = "\"'\r\n\x00"
ENOUGH_PROBLEMS = 6
"""How many to look for: one more than an error message lists."""


@dataclass(frozen=True)
class Notation:
    """How values are written in text; None leaves it open.

    Attributes
    ----------
    zero_based : bool or None
        Whether the indices of svmlight text begin at 0; from 1 if left open.
    separator : str or None
        The character between the cells of CSV; found in the header if left open.
    decimal : "." or "," or None
        The decimal mark of CSV; a point if left open.
    """

    zero_based: bool | None = None
    separator: str | None = None
    decimal: Literal[".", ","] | None = None

    def check(self) -> Notation:
        """The notation itself; raises `ParameterError` if there is none like this."""
        rules = {
            "zero_based": Optional(Choice((True, False))),
            "decimal": Optional(Choice((".", ","))),
        }
        check_parameters("reading text", rules, {name: getattr(self, name) for name in rules})
        one = self.separator
        if one is None:
            return self
        if not isinstance(one, str) or len(one) != 1 or one in _NO_SEPARATORS or not one.isascii():
            raise ParameterError(
                f"separator={one!r} must be one character between the cells of CSV, such as ';'"
            )
        if one == (self.decimal or "."):
            raise ParameterError(f"separator={one!r} is the decimal mark, too: give another one")
        return self

    def refuse_unfit(self, format_: str) -> None:
        """Raise `ParameterError` if something is said that files of the format do not have."""
        if format_ != "svmlight":
            refuse_unfit(format_, zero_based=self.zero_based or None)
        if format_ != "csv":
            refuse_unfit(format_, separator=self.separator, decimal=self.decimal)


class InputFile:
    """A file to read; compression and format are found out from its content.

    Parameters
    ----------
    path : path
    notation : Notation, optional
        How its values are written, if it is text.
    """

    def __init__(self, path: str | os.PathLike[str], notation: Notation | None = None) -> None:
        self.path = Path(path)
        self.notation = notation or Notation()

    def __str__(self) -> str:
        return str(self.path)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The decompressed content.

        Raises
        ------
        DataError
            Also from within the block, if the file cannot be read to its end.
        """
        try:
            with self.path.open("rb") as self._raw:
                self._tell = self._raw.tell
                require_threads()
                content, inner = decompress(self._raw, str(self))
                self._name = self.path if inner is None else Path(inner)
                with content:
                    binary = _magic_format(content) is not None
                    with content if binary else plain_text(content, str(self)) as stream:
                        yield stream
        except FileNotFoundError:
            raise DataError(f"{self}: no such file{self._similar()}") from None
        except _DAMAGES as error:
            if isinstance(error, OSError) and is_shortage(error):
                raise
            if isinstance(error, OSError) and error.strerror:
                raise DataError(f"{self} cannot be read: {error.strerror}") from error
            raise DataError(
                f"{self} is damaged or incomplete ({error}): fetch or make it again"
            ) from None

    def find_format(self) -> str:
        """Open the file to `recognise` it."""
        with self.open() as stream:
            return self.recognise(stream)

    def recognise(self, stream: BinaryIO) -> str:
        """One of `FORMATS`, by the first bytes, else the suffix, else the first line."""
        if found := _magic_format(stream):
            return found
        by_suffix = _FORMAT_OF_SUFFIX.get(text_suffix(self._name), "svmlight")
        if by_suffix in ("parquet", "arrow"):
            raise DataError(f"{self} is not a {by_suffix} file: its first bytes say otherwise")
        if by_suffix == "csv":
            return "csv"
        stream.seek(0)
        lines = iter(lambda: self.read_line(stream), b"")
        line = next((line for line in lines if line.partition(b"#")[0].strip()), b"")
        separated = re.search(rb"[,;\t]", line.strip()) is not None
        return "csv" if separated and b":" not in line else "svmlight"

    def read_line(self, stream: BinaryIO) -> bytes:
        """The next line of the open file; raises `DataError` if it has no end."""
        line = stream.readline(LONGEST_LINE)
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            raise self.endless_line()
        return line

    def endless_line(self) -> DataError:
        """The error about a line that is too long."""
        return DataError(
            f"{self} holds a line of more than {LONGEST_LINE:,} bytes, the most that a row of text "
            "may have: is it text, with a line for each row?"
        )

    @contextmanager
    def arrow_source(self, stream: BinaryIO) -> Iterator[Callable[[], Any]]:
        """A function that opens the content of the file for Arrow, which reads it in order.

        Threads of Arrow read on after its reader is gone, and one that lets go of a Python object
        while the interpreter ends aborts the process. So Arrow opens the file itself. What Python
        decompresses is lent to it until the threads have let go of that, so keep no reference to
        what the function returns.
        """
        import pyarrow as pa

        if is_plain(stream):
            with pa.OSFile(os.fsencode(self.path)) as source:
                self._tell = source.tell
                yield lambda: source
            return
        stream.seek(0)
        lent = Lent(stream)
        returned = weakref.ref(lent)
        try:
            yield lambda: pa.PythonFile(returned(), "r")
        finally:
            del lent
            deadline = time.monotonic() + _MOST_SECONDS_LENT
            while returned() is not None and time.monotonic() < deadline:
                time.sleep(0.0005)

    def fraction_read(self) -> float:
        """How much of the file that is open has been read, from 0 to 1."""
        return self._tell() / max(os.fstat(self._raw.fileno()).st_size, 1)

    def _similar(self) -> str:
        if not self.path.parent.is_dir():
            return f" (nor is there a folder {self.path.parent})"
        siblings = [file.name for file in self.path.parent.iterdir() if file.is_file()]
        close = difflib.get_close_matches(self.path.name, siblings, n=1)
        return f"; did you mean {str(self.path.with_name(close[0]))!r}?" if close else ""


def _magic_format(stream: BinaryIO) -> str | None:
    """The binary format that the content begins like."""
    start = stream.read(8)
    stream.seek(0)
    return next((name for magic, name in _BINARY_FORMATS.items() if start.startswith(magic)), None)


def is_plain(stream: BinaryIO) -> bool:
    """Whether these are the bytes of the file itself, not decompressed ones."""
    return isinstance(getattr(stream, "raw", None), io.FileIO)


def require_format(format_: str | None) -> None:
    """Raise `ParameterError` for a format that there is not."""
    if format_ is not None and format_ not in FORMATS:
        raise ParameterError(f"unknown format {format_!r}{nearest(format_, FORMATS)}")


def input_files(
    path: Paths, format_: str | None, notation: Notation
) -> tuple[list[InputFile], str]:
    """The files and their common format, which is found out if `format_` is None."""
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not paths:
        raise ParameterError("no file to read: path is an empty list")
    require_format(format_)
    notation.check()
    files = [InputFile(one, notation) for one in paths]
    formats = [file.find_format() if format_ is None else format_ for file in files]
    if len(set(formats)) > 1:
        listed = ", ".join(f"{file} ({name})" for file, name in zip(files, formats, strict=True))
        raise DataError(f"files of different formats cannot be read together: {listed}")
    notation.refuse_unfit(formats[0])
    return files, formats[0]


def problems(where: object, found: Sequence[str]) -> DataError:
    """The error that lists the first things that are wrong in a file."""
    if len(found) == 1:
        return DataError(f"{where}, {found[0]}")
    shown = list(found[: ENOUGH_PROBLEMS - 1])
    if len(found) > len(shown):
        shown.append("and more")
    return DataError(f"{where} has several problems:" + "".join(f"\n  {line}" for line in shown))


def refuse_unfit(format_: str, **arguments: object) -> None:
    """Raise `ParameterError` if one of these is given, as files of the format take none."""
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise ParameterError(f"{', '.join(given)}: not for {format_} files, leave it out")


def has_data_suffix(path: Path) -> bool:
    """Whether the name, but for that of a compression, ends as those of data do."""
    return text_suffix(path) in _FORMAT_OF_SUFFIX


def format_to_write(path: Path) -> str:
    """The format that a file's name asks for."""
    suffix = text_suffix(path)
    if suffix not in _FORMAT_OF_SUFFIX:
        known = ", ".join(sorted(_FORMAT_OF_SUFFIX))
        raise ParameterError(
            f"{path}: the name must end in one of {known}; all but Parquet and Arrow also with "
            f"{', '.join(OPENERS)}"
        )
    format_ = _FORMAT_OF_SUFFIX[suffix]
    if format_ in ("parquet", "arrow") and path.suffix.lower() in OPENERS:
        raise ParameterError(f"{path}: {format_} files are compressed already, drop {path.suffix}")
    return format_


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A stream (compressed if the name says so) that becomes the file when the block ends.

    If the block fails, nothing is left behind and an earlier file stays as it was. Folders that
    do not exist are made.

    Raises
    ------
    OSError
        If there is no room, for example; it always names the file.
    ParameterError
        If the name asks for a compression that is not written.
    """
    suffix = path.suffix.lower()
    if suffix in SUFFIXES and suffix not in OPENERS:
        raise ParameterError(
            f"{path}: {suffix} files are read but not written, end the name in one of "
            f"{', '.join(OPENERS)}"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    opener = OPENERS.get(suffix, open)
    try:
        with cast(BinaryIO, opener(temporary, "wb")) as stream:
            yield stream
        temporary.replace(path)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # as when a disk is full
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def text_suffix(path: Path) -> str:
    """The end of a file's name, before that of a compression."""
    name = path.stem if path.suffix.lower() in SUFFIXES else path.name
    return Path(name).suffix.lower()
