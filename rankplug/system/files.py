"""Files: folders that appear whole or not at all, and JSON and arrays that may come from anyone.

Nothing is unpickled, and nothing is believed that a file says of itself.
"""

from __future__ import annotations

import json
import math
import re
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import ModelFormatError

# What NumPy writes for arrays of numbers, truth values and text; its own reader evaluates more.
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_HEADER = re.compile(
    r"\{'descr': '([<>|][biufU]\d{1,9})', 'fortran_order': (True|False), "
    r"'shape': \(((?:\d{1,18}, ?)*\d{0,18})\), \} *\n"
)


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """A folder to write into, which becomes `path` if all goes well, and else is removed.

    Raises
    ------
    FileExistsError
        If `path` is a file or a folder with something in it, also if it becomes one meanwhile.
    """
    target = Path(path).absolute()
    _require_room(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as parent:
        folder = Path(parent, target.name)
        folder.mkdir()
        yield folder
        try:
            folder.replace(target)  # also of an empty folder
        except OSError:
            _require_room(target)  # of whoever was faster
            raise


def _require_room(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"{target} exists already: name a new folder to save the model")


def parse_json(text: str) -> Any:
    """The value of a JSON text, read strictly.

    Raises
    ------
    ValueError
        If it is not JSON, names a key twice, holds NaN or infinity, or is nested too deeply.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_refuse, parse_float=_finite
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def load_arrays(file: Path, *names: str) -> dict[str, NDArray[Any]]:
    """The named arrays of an npz file: numbers, truth values or text.

    Nothing is allocated that the file does not hold: members must be stored as they are, as
    `numpy.savez` does, not compressed.

    Raises
    ------
    ModelFormatError
        If the file is not of this kind, or an array is missing, there twice, or of another type.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            n_bytes = file.stat().st_size
            return {name: _member(archive, f"{name}.npy", n_bytes) for name in names}
    except (OSError, ValueError, RuntimeError, EOFError, struct.error, zipfile.BadZipFile) as error:
        raise ModelFormatError(f"{file} cannot be read: {error}") from None


def load_numbers(file: Path, *names: str) -> dict[str, NDArray[Any]]:
    """As `load_arrays`, but only finite floating-point numbers of at most 64 bits."""
    arrays = load_arrays(file, *names)
    for name, array in arrays.items():
        # Sums with numbers of 128 bits have as many, which neither SciPy nor tree libraries take.
        known = array.dtype.kind == "f" and array.dtype.itemsize <= np.float64().itemsize
        if not known or not np.isfinite(array).all():
            raise ModelFormatError(f"{file}: {name} must hold finite floating-point numbers")
    return arrays


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {max(keys, key=keys.count)!r} occurs twice")
    return result


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text} is too large")
    return value


def _member(archive: zipfile.ZipFile, name: str, archive_bytes: int) -> NDArray[Any]:
    found = [info for info in archive.infolist() if info.filename == name]
    if len(found) != 1:
        raise ValueError(f"{len(found)} members {name} instead of one")
    (info,) = found
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed, which saved models never are")
    if info.file_size > archive_bytes:
        raise ValueError(f"{name} is larger than the file")
    with archive.open(info) as stream:
        dtype, shape, order = _npy_header(stream, name)
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes != info.file_size - stream.tell():
            raise ValueError(f"{name} does not hold an array of shape {shape} and type {dtype}")
        content = bytearray(stream.read(n_bytes))
        if len(content) < n_bytes:
            raise ValueError(f"{name} is truncated")
    if not _holds_values(content, dtype):
        raise ValueError(f"{name} holds bytes that are no value of type {dtype}")
    return np.frombuffer(content, dtype=dtype).reshape(shape, order=order)


def _npy_header(stream: IO[bytes], name: str) -> tuple[np.dtype[Any], tuple[int, ...], Any]:
    if stream.read(len(_NPY_MAGIC)) != _NPY_MAGIC:
        raise ValueError(f"{name} is no array of NumPy's format 1.0")
    length = int.from_bytes(stream.read(2), "little")
    match = _NPY_HEADER.fullmatch(stream.read(length).decode("latin-1"))
    if match is None:
        raise ValueError(f"{name} is no array of numbers, truth values or text")
    descr, fortran, sizes = match.groups()
    try:
        dtype = np.dtype(descr)
    except TypeError:
        raise ValueError(f"{name} is of an unknown type {descr!r}") from None
    if dtype.itemsize == 0:
        raise ValueError(f"{name} is an array of nothing, {descr!r}")
    shape = tuple(int(size) for size in sizes.replace(" ", "").split(",") if size)
    return dtype, shape, "F" if fortran == "True" else "C"


def _holds_values(content: bytearray, dtype: np.dtype[Any]) -> bool:
    """Whether truth values are 0 or 1, and text consists of characters."""
    if dtype.kind == "b":
        return bool(np.all(np.frombuffer(content, np.uint8) <= 1))
    if dtype.kind != "U":
        return True
    codes = np.frombuffer(content, np.dtype(np.uint32).newbyteorder(dtype.byteorder))
    return bool(np.all((codes < 0xD800) | ((codes > 0xDFFF) & (codes <= 0x10FFFF))))
