"""Reading every byte of a prepared folder, to see whether it is as it was written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankplug.exceptions import DataError
from rankplug.io.prepared.digests import Digests
from rankplug.io.prepared.folder import PreparedFolder, open_prepared
from rankplug.io.prepared.progress import Bar

__all__ = ["verify_prepared"]


def verify_prepared(path: str | os.PathLike[str], *, progress: bool = True) -> PreparedFolder:
    """Read a prepared folder as a whole and compare it with the digests in its manifest.

    Parameters
    ----------
    path : path
    progress : bool
        Show a progress bar if standard error is a terminal.

    Raises
    ------
    DataError
        If anything is missing, damaged, or no valid data; names every array at fault.
    """
    folder = open_prepared(path)
    folder.data()  # types, shapes and sizes
    types = {name: (one.dtype, one.shape) for name, one in folder.manifest.arrays.items()}
    digests = Digests(folder.path, types)
    with Bar("checking", "B", digests.n_bytes, shown=progress) as bar:
        digests.tell = bar.move_to
        found = [*_other_digests(folder, digests), *_invalid(folder)]
    if found:
        raise DataError(f"{folder.path} is damaged: {'; '.join(found)}: prepare the data again")
    return folder


def _other_digests(folder: PreparedFolder, digests: Digests) -> Iterator[str]:
    for name, array in folder.manifest.arrays.items():
        if array.sha256 is not None and digests.whole(name) != array.sha256:
            yield f"{name}.npy is not as it was written"
    for number, shard in enumerate(folder.shards):
        for name, digest in shard.sha256.items():
            if digests.part(name, *shard.values) != digest:
                yield f"shard {number} of {name}.npy is not as it was written"


def _invalid(folder: PreparedFolder) -> Iterator[str]:
    """What may be wrong in a folder whose digests were made to fit."""
    for number in range(len(folder.shards)):
        data = folder.shard(number)
        X: Any = data.X
        values = X if isinstance(X, np.ndarray) else X.data
        if not (np.isfinite(values).all() and np.isfinite(data.relevance).all()):
            yield f"shard {number} holds values that are not finite"
        if values is not X and not _is_canonical(X):
            yield f"the indices of shard {number} are not those of a sparse matrix"


def _is_canonical(X: Any) -> bool:
    """Whether columns ascend within each row, and there are such columns."""
    row_ptr, columns = X.indptr, X.indices
    if np.any(row_ptr[1:] < row_ptr[:-1]) or not row_ptr[0] == 0 <= row_ptr[-1] == len(columns):
        return False
    if np.any((columns < 0) | (columns >= X.shape[1])):
        return False
    descending = columns[1:] <= columns[:-1]
    first_of_rows = row_ptr[1:-1]
    inner = (first_of_rows > 0) & (first_of_rows < len(columns))
    descending[first_of_rows[inner] - 1] = False
    return not descending.any()
