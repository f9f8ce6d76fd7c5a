"""What the targets share: files in memory, and how often to look closely."""

from __future__ import annotations

import zlib
from io import BytesIO

from rankplug.io.files import InputFile

SEPARATOR = b"\n%%"
"""Begins each further part of an input that stands for several files."""


class _MemoryPath:
    """As much of a path as reading needs."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name, self.content = name, content
        self.stem, _, suffix = name.partition(".")
        self.suffix = f".{suffix}"

    def __str__(self) -> str:
        return self.name

    def open(self, mode: str) -> BytesIO:
        return BytesIO(self.content)


def memory_file(name: str, content: bytes) -> InputFile:
    """A file that is read without the operating system, which takes longer than the reading."""
    file = InputFile(name)
    file.path = _MemoryPath(name, content)
    return file


def one_in(n: int, data: bytes) -> bool:
    """Whether to do what takes long: for one input in so many, always the same ones."""
    return zlib.crc32(data) % n == 0
