"""Compressed files: streams of what they expand to, and formats that are known but not read."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import zipfile
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast

from typing_extensions import override

from rankplug.exceptions import DataError

START_BYTES = 4096
"""How much of a file tells what it is."""
# Text of data hardly compresses a hundredfold; what is made to fill a memory, a thousandfold (the
# most that gzip can) and more.
_MOST_EXPANSION = 250
_ALWAYS_EXPANDED = 1 << 30
_BLOCK = 1 << 18


class DerivedStream(io.RawIOBase):
    """Bytes that are made from a stream in order; to go back is to begin again."""

    def __init__(self) -> None:
        self._begin_again()

    def _begin_again(self) -> None:
        self._blocks = self._derive()
        self._block = memoryview(b"")
        self._position = 0
        self._error: Exception | None = None

    @abstractmethod
    def _derive(self) -> Generator[bytes]:
        """The bytes from the beginning, a block at a time."""

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as there is something; an error comes again and again."""
        while not self._block:
            if self._error is not None:
                raise self._error
            try:
                block = next(self._blocks, None)
            except Exception as error:
                self._error = error
                raise
            if block is None:
                return 0
            self._block = memoryview(block)
        n_bytes = min(len(buffer), len(self._block))
        buffer[:n_bytes] = self._block[:n_bytes]
        self._block = self._block[n_bytes:]
        self._position += n_bytes
        return n_bytes

    @override
    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_SET:
            raise io.UnsupportedOperation("only places counted from the beginning are found")
        if offset < self._position:
            self._begin_again()
        buffer = bytearray(_BLOCK)
        while self._position < offset:
            if not self.readinto(memoryview(buffer)[: offset - self._position]):
                break
        return self._position

    @override
    def tell(self) -> int:
        return self._position

    @override
    def close(self) -> None:
        # Or they would hold what is read until memory is looked through.
        self._blocks.close()
        self._error = None
        super().close()


class Lent:
    """A stream as Arrow reads it, which does not close it."""

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self.read, self.seek, self.tell = stream.read, stream.seek, stream.tell

    def close(self) -> None:
        """Leave the stream open."""


class _Expanding(DerivedStream):
    """Decompressed content of a file that must not become longer than `most` bytes.

    A few kilobytes can be made that expand to more than any machine holds.
    """

    def __init__(self, open_: Callable[[], Any], most: int, name: str) -> None:
        self._open = open_
        self._most = most
        self._name = name
        super().__init__()

    @override
    def _derive(self) -> Generator[bytes]:
        n_bytes = 0
        with _damage_in_one_kind(), self._open() as stream:
            while block := stream.read(_BLOCK):
                n_bytes += len(block)
                if n_bytes > self._most:
                    raise DataError(
                        f"{self._name} is not read, because it expands to more than "
                        f"{_MOST_EXPANSION} times its size and {_ALWAYS_EXPANDED:,} bytes: "
                        "decompress it first if you trust it"
                    )
                yield block


@contextmanager
def _damage_in_one_kind() -> Iterator[None]:
    """Python's readers of archives end in errors of many kinds at what was made to mislead them."""
    try:
        yield
    except DataError:
        raise
    except (ValueError, RuntimeError, struct.error, LookupError, ArithmeticError) as error:
        raise EOFError(str(error) or type(error).__name__) from None


class _Form(NamedTuple):
    """A form of compression: how files of it begin and end in name, and what opens them."""

    magic: bytes
    suffix: str
    open: Callable[..., Any]


def _open_zstd(file: Any, mode: str) -> Any:
    """The codec of Arrow, which every wheel of it has."""
    import pyarrow as pa

    if mode == "wb":
        return pa.CompressedOutputStream(pa.OSFile(os.fsencode(file), "wb"), "zstd")
    return _ArrowReader(pa.CompressedInputStream(pa.PythonFile(Lent(file), "r"), "zstd"))


class _ArrowReader:
    """A stream of Arrow whose errors are those of streams."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> _ArrowReader:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the file below open, as other readers do."""

    def read(self, size: int) -> bytes:
        import pyarrow as pa

        try:
            return cast(bytes, self._stream.read(size))
        except pa.ArrowException as error:
            raise EOFError(str(error)) from None


_FORMS = (
    _Form(b"\x1f\x8b", ".gz", gzip.open),
    _Form(b"BZh", ".bz2", bz2.open),
    _Form(b"\xfd7zXZ\x00", ".xz", lzma.open),
    _Form(b"\x28\xb5\x2f\xfd", ".zst", _open_zstd),
)
_READ_ONLY = (
    _Form(b"\x5d\x00\x00", ".lzma", lzma.open),
    # Frames that zstd skips, with which those begin that were compressed in parallel.
    *(_Form(bytes([0x50 + n, 0x2A, 0x4D, 0x18]), ".zst", _open_zstd) for n in range(16)),
)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
OPENERS: dict[str, Callable[..., Any]] = {form.suffix: form.open for form in _FORMS}
"""What writes a compressed file, by the end of its name."""
SUFFIXES = (*OPENERS, ".lzma", ".zip")
"""Ends of names that say nothing of the format within."""

_UNPACK = "unpack it and name the files in it"
_EXPORT = "save its table as CSV, or as Parquet"
_FOREIGN = (
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK),
    (b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (b"\x04\x22\x4d\x18", "compressed by LZ4", "decompress it, or compress it by zstd"),
    (b"\x1f\x9d", "compressed by compress", "decompress it, or compress it by gzip"),
    (b"LZIP\x01", "compressed by lzip", "decompress it, or compress it by xz"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook", _EXPORT),
    (b"SQLite format 3\x00", "an SQLite database", _EXPORT),
    (b"\x89HDF", "an HDF5 file", _EXPORT),
    (b"\x93NUMPY", "a NumPy array", "load it with numpy.load and pass the array"),
    (b"Obj\x01", "an Avro file", _EXPORT),
    (b"\x80\x04\x95", "a Python pickle", _EXPORT),
    (b"\x80\x05\x95", "a Python pickle", _EXPORT),
    (b"\x01\xab\xff\xff", "a binary file of XGBoost's", "give the text or table it was made from"),
    (b"______LightGBM_Binary", "a binary file of LightGBM's", "give the text it was made from"),
    (b"FEA1\x00", "a Feather file of version 1", "write it again, as version 2 or Parquet"),
    (b"\xff\xff\xff\xff", "a stream of Arrow's", "write it as an Arrow file or Parquet"),
    (b"%PDF-", "a PDF document", _EXPORT),
)
_TAR = 257  # the place of the mark of a tar archive


def decompress(raw: BinaryIO, name: str) -> tuple[BinaryIO, str | None]:
    """The content of an open file, which is the file itself if it is not compressed.

    Returns
    -------
    stream : BinaryIO
    inner : str or None
        The name of the file within, if it is in an archive.

    Raises
    ------
    DataError
        If it is an archive of several files, or a file of a known kind that is not read.
    """
    start = raw.read(16)
    n_bytes = raw.seek(0, os.SEEK_END)
    raw.seek(0)
    most = max(_ALWAYS_EXPANDED, _MOST_EXPANSION * n_bytes)
    if start.startswith(_ZIP):
        archive, member = _only_member(raw, name)
        return _expanding(lambda: archive.open(member), most, name), member.filename
    form = next((one for one in (*_FORMS, *_READ_ONLY) if start.startswith(one.magic)), None)
    if form is None:
        return raw, None

    def open_again() -> Any:
        raw.seek(0)
        return form.open(raw, "rb")

    return _expanding(open_again, most, name), None


def _expanding(open_: Callable[[], Any], most: int, name: str) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_Expanding(open_, most, name), _BLOCK))


def _only_member(raw: BinaryIO, name: str) -> tuple[zipfile.ZipFile, zipfile.ZipInfo]:
    with _damage_in_one_kind():
        archive = zipfile.ZipFile(raw)
    # Not by `is_dir`, for which a name that is empty, as in damaged files, is an IndexError.
    members = [one for one in archive.infolist() if not one.filename.endswith("/")]
    if any(one.filename == "[Content_Types].xml" for one in members):
        raise DataError(f"{name} is an Excel workbook: {_EXPORT}")
    members = [one for one in members if not _is_hidden(one.filename)]
    if len(members) != 1:
        listed = ", ".join(repr(one.filename) for one in members[:3])
        held = (
            f"{len(members)} files ({listed}{', ...' * (len(members) > 3)})"
            if members
            else ("no file")
        )
        raise DataError(f"{name} is a ZIP archive of {held}, not of one: {_UNPACK}")
    if members[0].flag_bits & 1:
        raise DataError(f"{name} is an encrypted ZIP archive: unpack it")
    return archive, members[0]


def _is_hidden(name: str) -> bool:
    """Whether it is what an operating system keeps beside the files."""
    return any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts)


def refuse_foreign(start: bytes, name: str) -> None:
    """Raise `DataError` if content begins like a file of a kind that is not read."""
    for magic, kind, remedy in _FOREIGN:
        plain = all(0x20 <= byte < 0x7F for byte in magic)
        if start.startswith(magic) and not (plain and b"\x00" not in start):
            raise DataError(f"{name} is {kind}: {remedy}")
    if start[_TAR : _TAR + 5] == b"ustar":
        raise DataError(f"{name} is a tar archive: {_UNPACK} (tar -xf)")
