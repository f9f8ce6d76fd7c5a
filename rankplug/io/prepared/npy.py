"""NumPy files (.npy) of a prepared folder: appended to, mapped, and digested.

Their header has a fixed length, so that it can be written last: rows are appended to a file before
their number is known, and a file is checked, without reading it, by its length and by the one
header that it may have.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import DataError
from rankplug.system.bars import open_bar
from rankplug.system.signals import raise_if_lost

HEADER_BYTES = 128  # what NumPy pads the header of an array with one or two axes to

# A kill costs so much work at most. Saving waits for the disk, so it must not be done too often.
_SAVE_BYTES = 1 << 26
_SAVE_SECONDS = 3.0

_DIGEST_BLOCK_BYTES = 1 << 20  # large enough to hide the cost of a call, small beside the rest

ArrayTypes: TypeAlias = Mapping[str, tuple[str, tuple[int, ...]]]
"""Type and shape of arrays by name."""


def header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The first `HEADER_BYTES` of a file; a shape that does not fit raises `DataError`."""
    stream = BytesIO()
    fields = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, fields)
    written = stream.getvalue()
    if len(written) != HEADER_BYTES:
        raise DataError(f"an array of shape {shape} and type {dtype} cannot be kept")
    return written


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write a whole array."""
    array = np.ascontiguousarray(array)
    with path.open("wb") as stream:
        stream.write(header(array.dtype.str, array.shape))
        stream.write(array.tobytes())


def map_array(path: Path, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """The array of a file, read-only and mapped (`np.memmap`) unless it is empty.

    Raises
    ------
    DataError
        If the file is missing, or is not of this type and shape.
    """
    expected = HEADER_BYTES + prod(shape) * np.dtype(dtype).itemsize
    try:
        with path.open("rb") as stream:
            start = stream.read(HEADER_BYTES)
            size = stream.seek(0, 2)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if size != expected:
        raise DataError(f"{path} is damaged: {size:,} bytes instead of {expected:,}")
    if start != header(dtype, shape):
        raise DataError(f"{path} is damaged: its header does not describe {shape} of {dtype}")
    if prod(shape) == 0:
        return np.empty(shape, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r", offset=HEADER_BYTES, shape=shape)


class GrowingFiles:
    """Files to append to; those named ``*.npy`` leave room for their header.

    Parameters
    ----------
    folder : Path
    sizes : mapping
        To which length to cut the files that are there.
    """

    def __init__(self, folder: Path, sizes: Mapping[str, int]) -> None:
        self._folder = folder
        self._sizes = dict(sizes)
        self._streams: dict[str, BinaryIO] = {}
        self._stack = ExitStack()
        self._unsaved = 0
        self._saved_at = time.monotonic()
        for name, size in sizes.items():
            os.truncate(folder / name, size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def append(self, name: str, content: NDArray[Any] | bytes) -> None:
        """Write an array, or bytes, to the end of a file."""
        stream = self._streams.get(name) or self._open(name)
        data = content if isinstance(content, bytes) else np.ascontiguousarray(content).data
        if len(data):
            _write_all(stream, memoryview(data).cast("B"))
        self._unsaved += len(content) if isinstance(content, bytes) else content.nbytes

    @property
    def should_be_saved(self) -> bool:
        """Whether so much was written, or so long ago, that its loss would be a pity."""
        seconds = time.monotonic() - self._saved_at
        return self._unsaved >= _SAVE_BYTES or (self._unsaved > 0 and seconds > _SAVE_SECONDS)

    def sync(self) -> dict[str, int]:
        """The sizes of all files, after all that was written has reached the disk."""
        for name, stream in self._streams.items():
            os.fsync(stream.fileno())
            self._sizes[name] = stream.tell()
        self._unsaved = 0
        self._saved_at = time.monotonic()
        return dict(self._sizes)

    def length(self, name: str) -> int:
        """Bytes of a file."""
        stream = self._streams.get(name)
        return self._sizes.get(name, 0) if stream is None else stream.tell()

    def n_elements(self, name: str, itemsize: int) -> int:
        """Elements of a file ``*.npy``."""
        return max(0, self.length(name) - HEADER_BYTES) // itemsize

    def _open(self, name: str) -> BinaryIO:
        file = self._folder / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
        stream: BinaryIO = self._stack.enter_context(file.open("r+b", buffering=0))
        stream.truncate(self._sizes.get(name, 0))
        if stream.seek(0, os.SEEK_END) == 0 and file.suffix == ".npy":
            _write_all(stream, memoryview(bytes(HEADER_BYTES)))
        self._streams[name] = stream
        return stream


def _write_all(stream: BinaryIO, data: memoryview) -> None:
    """Write without a buffer, of which a part may get lost when the disk is full."""
    while len(data):
        data = data[stream.write(data) :]


class Digests:
    """SHA-256 of the elements of arrays, read once from beginning to end; headers are left out.

    Parameters
    ----------
    folder : Path
    types : mapping
        Type and shape of each array.
    bar : Bar
        Shows the number of bytes that were read.
    """

    def __init__(self, folder: Path, types: ArrayTypes, bar: Bar) -> None:
        self._folder = folder
        self._types = types
        self._bar = bar
        self._done = 0

    @staticmethod
    def n_bytes(types: ArrayTypes) -> int:
        """Bytes of all arrays."""
        return sum(prod(shape) * np.dtype(dtype).itemsize for dtype, shape in types.values())

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
                while left and (block := stream.read(min(_DIGEST_BLOCK_BYTES, left))):
                    hasher.update(block)
                    left -= len(block)
                    self._done += len(block)
                    self._bar.move_to(self._done)
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error.strerror}") from None
        return hasher.hexdigest()


class Bar:
    """Progress bar of a pass over the data; shown by terminals and notebooks only."""

    def __init__(
        self, name: str, unit: str, total: int | None = None, *, start: int = 0, shown: bool = True
    ) -> None:
        self._bar = open_bar(
            desc=name, unit=unit, unit_scale=True, total=total, initial=start, shown=shown
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def move_to(self, done: int, total: int | None = None) -> None:
        """Show how much is done, of how much if that is only now known.

        Here a pass over a file ends by a signal whose exception was lost.
        """
        raise_if_lost()
        if total is not None:
            self._bar.total = total
        self._bar.update(done - self._bar.n)
