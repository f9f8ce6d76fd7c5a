"""NumPy files (.npy) whose header has a fixed length, so that it can be written last.

Rows can then be appended to a file before their number is known, and a file is checked, without
reading it, by its length and by the one header that it may have.
"""

from __future__ import annotations

from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import DataError

__all__ = ["HEADER_BYTES", "header", "map_array", "write_array"]

HEADER_BYTES = 128


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
