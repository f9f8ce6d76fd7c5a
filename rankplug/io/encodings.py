"""Text in other encodings, or with other line ends, as a stream of UTF-8 with newlines."""

from __future__ import annotations

import codecs
import io
from collections.abc import Generator
from typing import BinaryIO, cast

from typing_extensions import override

from rankplug.exceptions import DataError
from rankplug.io.compression import START_BYTES, DerivedStream, refuse_foreign

LONGEST_LINE = 1 << 25
"""Bytes that a line of text may have: some million values. Memory is for a few such lines."""

_BLOCK = 1 << 18
# The longer marks first: that of UTF-16 is how the one of UTF-32 begins.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def plain_text(stream: BinaryIO, name: str) -> BinaryIO:
    """Text as a stream of UTF-8 with line ends that every reader knows; mostly the stream itself.

    A byte order mark of UTF-8 stays where it is.

    Raises
    ------
    DataError
        If it is no text, or text in an encoding that does not say which.
    """
    start = stream.read(START_BYTES)
    stream.seek(0)
    encoding = next((name for mark, name in _MARKS if start.startswith(mark)), None)
    if encoding is not None:
        stream = _buffered(_Decoded(stream, encoding, name))
    else:
        refuse_foreign(start, name)
        if b"\x00" in start.strip(b"\x00"):  # one of zeros only is a line without an end
            raise _no_text(start, name)
    if _has_old_line_ends(stream):
        stream.seek(0)
        return _buffered(_WithNewlines(stream))
    stream.seek(0)
    return stream


def _buffered(stream: DerivedStream) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(stream, _BLOCK))


def _no_text(start: bytes, name: str) -> DataError:
    for encoding, zeros in (("UTF-16LE", start[1::2]), ("UTF-16BE", start[::2])):
        if 2 * zeros.count(0) > len(zeros):
            return DataError(
                f"{name} looks like {encoding} text without a byte order mark: save it as UTF-8 "
                f"(iconv -f {encoding} -t UTF-8)"
            )
    return DataError(
        f"{name} is no text: it holds bytes that are 0, and is no Parquet or Arrow file"
    )


def _has_old_line_ends(stream: BinaryIO) -> bool:
    """Whether the first line ends in a carriage return alone, as on a Macintosh before 2001."""
    n_bytes = 0
    after_return = False
    while n_bytes < LONGEST_LINE and (block := stream.read(START_BYTES)):
        if after_return:
            return block[:1] != b"\n"
        place = min((at for at in (block.find(b"\r"), block.find(b"\n")) if at >= 0), default=-1)
        if place >= 0:
            if block[place : place + 1] == b"\n":
                return False
            if place + 1 < len(block):
                return block[place + 1 : place + 2] != b"\n"
            after_return = True
        n_bytes += len(block)
    return after_return


class _Decoded(DerivedStream):
    """Text of an encoding with a byte order mark, as UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str, name: str) -> None:
        self._stream = stream
        self._encoding = encoding
        self._name = name
        super().__init__()

    @override
    def _derive(self) -> Generator[bytes]:
        self._stream.seek(0)
        decoder = codecs.getincrementaldecoder(self._encoding)()
        try:
            while block := self._stream.read(_BLOCK):
                yield decoder.decode(block).encode()
            yield decoder.decode(b"", final=True).encode()
        except UnicodeError as error:
            kind = self._encoding.upper()
            raise DataError(
                f"{self._name} is not valid {kind} text, as its byte order mark says "
                f"({getattr(error, 'reason', error)}): save it as UTF-8"
            ) from None


class _WithNewlines(DerivedStream):
    """Text in which carriage returns are line ends."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        super().__init__()

    @override
    def _derive(self) -> Generator[bytes]:
        self._stream.seek(0)
        kept = b""  # a return that a newline may follow
        while block := self._stream.read(_BLOCK):
            block = kept + block
            kept = b"\r" if block.endswith(b"\r") else b""
            yield with_newlines(block[: len(block) - len(kept)])
        if kept:
            yield b"\n"


def with_newlines(text: bytes) -> bytes:
    r"""Text whose lines end in \n, whatever they ended in."""
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in text else text
