"""Working memory of shards: a few large blocks, of memory or of a mapped temporary file.

Many arrays of some hundred kilobytes are pages that the system has to find one by one; blocks of
many megabytes get huge ones where the system has them.

Features may be mapped from a file that is larger than memory. Solvers do not copy them, and one
thread reads them from one end to the other, so that the system fetches what comes next from disk
while it works on what is there. Several threads, each in a shard of its own, would break that
order; so one at a time fetches the next shard, while the others work on theirs
(`rankplug.shards.composed.FetchedRows`). ``benchmarks/mapped.py`` compares this with reading the
file and no more. What solvers keep for each row then lies in a temporary file (`MappedMemory`), so
that the system can write it out when memory is short.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from rankplug.data import Matrix
from rankplug.exceptions import DataError

Allocate: TypeAlias = Callable[..., NDArray[Any]]
"""Makes an array of a shape, as `numpy.zeros` does."""

_ALIGNMENT = 64
"""Bytes: a line of the cache, and the widest vector of a processor."""
_SMALLEST_BLOCK = 2**26
"""Bytes: 32 huge pages of 2 MB. Blocks double from here, so that there are few of them."""
_LARGEST_BLOCK = 2**30
"""Bytes: no more than that is left unused at the end, which in a mapped file is room on disk."""


class Memory:
    """Makes arrays of zeros; a block is freed with the last of its arrays."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._block: Any = None
        self._used = self._size = self._total = 0

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """As `numpy.zeros`."""
        n_elements = int(np.prod(shape, dtype=np.int64))
        n_bytes = n_elements * np.dtype(dtype).itemsize
        with self._lock:
            if self._block is None or self._used + n_bytes > self._size:
                self._grow(n_bytes)
            start = self._used
            self._used += -(-n_bytes // _ALIGNMENT) * _ALIGNMENT
            block = self._block
        return np.frombuffer(block, dtype, n_elements, start).reshape(shape)

    def _grow(self, n_bytes: int) -> None:
        """A new block, as large as all before it: there should be few."""
        self._size = max(n_bytes, min(max(self._total, _SMALLEST_BLOCK), _LARGEST_BLOCK))
        self._total += self._size
        self._used = 0
        self._block = self._new_block(self._size)

    def _new_block(self, size: int) -> Any:
        """A buffer of so many zeros, which need no memory before they are written to."""
        return np.zeros(size, dtype=np.uint8)


def is_mapped(X: Matrix) -> bool:
    """Whether the features, or the values of sparse ones, lie in a mapped file."""
    owner: Any = X.data if sparse.issparse(X) else X
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return isinstance(owner, mmap.mmap)


class MappedMemory(Memory):
    """Makes arrays in unnamed temporary files, in the folder of `tempfile.gettempdir`.

    A file is gone when its last array is; it is never seen in the folder. `zeros` raises
    `DataError` if the folder has no room for it.
    """

    def _new_block(self, size: int) -> Any:
        """A mapped file of so many zeros."""
        try:
            with tempfile.TemporaryFile() as file:
                # Room that is only found missing when it is written to would end the process.
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                else:
                    file.truncate(size)
                return mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise DataError(
                f"no {size / 2**20:.0f} MB of working memory in {tempfile.gettempdir()}: {error}; "
                "free some room or set the environment variable TMPDIR to another folder"
            ) from None
