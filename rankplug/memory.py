"""Arrays made in a few large blocks of memory.

Many arrays of some hundred kilobytes are pages that the system has to find one by one; blocks of
many megabytes get huge ones where the system has them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["Allocate", "Memory"]

Allocate: TypeAlias = Callable[..., NDArray[Any]]
"""Makes an array of a shape, as `numpy.zeros` does."""

_ALIGNMENT = 64
_SMALLEST_BLOCK = 2**26
_LARGEST_BLOCK = 2**30


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
