"""Universal Binary JSON as XGBoost writes it, read so strictly that forged files are refused."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

__all__ = ["parse_ubjson"]

_NUMBERS = {b"i": ">b", b"U": ">B", b"I": ">h", b"l": ">i", b"L": ">q", b"d": ">f", b"D": ">d"}
_CONSTANTS = {b"T": True, b"F": False, b"Z": None}
_DEEPEST = 20


def parse_ubjson(content: bytes) -> Any:
    """The value: dicts, lists, strings and numbers; arrays of one type become ndarrays.

    Raises
    ------
    ValueError
        If it is something else, is cut off, or something stands behind it.
    """
    reader = _Reader(content)
    value = reader.value(_DEEPEST)
    if reader.position != len(content):
        raise ValueError("something stands behind the end")
    return value


class _Reader:
    """A place in the bytes; nothing is allocated that they do not hold."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0

    def take(self, n_bytes: int) -> bytes:
        """The next bytes."""
        begin, end = self.position, self.position + n_bytes
        if not 0 <= n_bytes <= len(self.content) - begin:
            raise ValueError("cut off")
        self.position = end
        return self.content[begin:end]

    def skip(self, mark: bytes) -> bool:
        """Pass over a mark if it stands here."""
        found = self.content.startswith(mark, self.position)
        self.position += len(mark) * found
        return found

    def number(self, mark: bytes) -> Any:
        """A number of the type that the mark names."""
        kind = _NUMBERS[mark]
        return struct.unpack(kind, self.take(struct.calcsize(kind)))[0]

    def length(self) -> int:
        """A count."""
        if not self.skip(b"L"):
            raise ValueError("a length is missing")
        return int(self.number(b"L"))

    def text(self) -> str:
        """A string without its mark."""
        return self.take(self.length()).decode()

    def value(self, levels: int) -> Any:
        """A value of any type, with at most so many levels within."""
        mark = self.take(1)
        if mark in _NUMBERS:
            return self.number(mark)
        if mark in _CONSTANTS:
            return _CONSTANTS[mark]
        if mark == b"S":
            return self.text()
        if mark not in (b"{", b"[") or levels == 0:
            raise ValueError(f"no value begins with {mark!r}, or it is nested too deeply")
        return self.object(levels - 1) if mark == b"{" else self.array(levels - 1)

    def object(self, levels: int) -> dict[str, Any]:
        """A mapping up to its end."""
        items: dict[str, Any] = {}
        while not self.skip(b"}"):
            key = self.text()
            if key in items:
                raise ValueError(f"the key {key!r} occurs twice")
            items[key] = self.value(levels)
        return items

    def array(self, levels: int) -> Any:
        """A list, or numbers of one type."""
        if self.skip(b"$"):
            mark = self.take(1)
            if mark not in _NUMBERS or not self.skip(b"#"):
                raise ValueError("an array of an unknown type")
            kind = np.dtype(_NUMBERS[mark])
            content = self.take(self.length() * kind.itemsize)
            return np.frombuffer(content, kind).astype(kind.newbyteorder("="))
        if self.skip(b"#"):
            return [self.value(levels) for _ in range(self.length())]
        items = []
        while not self.skip(b"]"):
            items.append(self.value(levels))
        return items
