"""Features mapped from a file, which may be larger than memory.

Solvers do not copy them, and one thread reads them from one end to the other, so that the system
fetches what comes next from disk while it works on what is there. Several threads, each in a shard
of its own, would break that order; so one at a time fetches the next shard, while the others work
on theirs (`rankplug.matrices.FetchedRows`). ``benchmarks/mapped.py`` compares this with reading the
file and no more.

What solvers keep for each row lies in a temporary file (`MappedMemory`), so that the system can
write it out when memory is short.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np

from rankplug.arrays import Matrix
from rankplug.exceptions import DataError
from rankplug.memory import Memory

__all__ = ["MappedMemory", "is_mapped"]


def is_mapped(X: Matrix) -> bool:
    """Whether the features, or the values of sparse ones, lie in a mapped file."""
    owner: Any = X if isinstance(X, np.ndarray) else X.data
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
