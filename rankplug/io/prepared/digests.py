"""Digests of arrays and parts of them, read once from beginning to end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path

import numpy as np

from rankplug.exceptions import DataError
from rankplug.io.prepared.npy import HEADER_BYTES

__all__ = ["Digests"]

_BLOCK_BYTES = 1 << 20


class Digests:
    """SHA-256 of the elements of arrays; the headers are left out.

    Parameters
    ----------
    folder : Path
    types : mapping
        Type and shape of each array.

    Attributes
    ----------
    tell : callable
        Is told how many bytes were read so far.
    """

    def __init__(self, folder: Path, types: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
        self.tell: Callable[[int], object] = int
        self._folder = folder
        self._types = types
        self._done = 0

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(prod(shape) * np.dtype(dtype).itemsize for dtype, shape in self._types.values())

    def whole(self, name: str) -> str:
        """The digest of an array."""
        return self.part(name, 0, prod(self._types[name][1]))

    def part(self, name: str, begin: int, end: int) -> str:
        """The digest of some elements of an array."""
        size = np.dtype(self._types[name][0]).itemsize
        hasher = hashlib.sha256()
        file = self._folder / f"{name}.npy"
        left = (end - begin) * size
        try:
            with file.open("rb", buffering=0) as stream:
                stream.seek(HEADER_BYTES + begin * size)
                while left and (block := stream.read(min(_BLOCK_BYTES, left))):
                    hasher.update(block)
                    left -= len(block)
                    self._done += len(block)
                    self.tell(self._done)
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error.strerror}") from None
        return hasher.hexdigest()
