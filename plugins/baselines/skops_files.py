"""A reader of the files in which version 0.1 saved regressors, those of skops.

Nothing in such a file becomes an object of its type: scikit-learn's objects are read as a `Part`,
their type's name and their attributes, and arrays as arrays. So no code but this sees what a
stranger wrote.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rankplug.system.files import parse_json
from rankplug_plugins.baselines.parts import Part


def read_skops(file: Path) -> Any:
    """What a file of skops's holds.

    Raises
    ------
    ValueError
        If it is none, or holds something that this reader does not know.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return _Reader(archive, file.stat().st_size).read()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (KeyError, TypeError, AttributeError, zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    except (NotImplementedError, RuntimeError, SyntaxError, OverflowError) as error:
        raise ValueError(str(error)) from None


class _Reader:
    """Reads the nodes of ``schema.json``, and the arrays in the files that they name."""

    def __init__(self, archive: zipfile.ZipFile, n_bytes: int) -> None:
        self.archive = archive
        self.n_bytes = n_bytes
        self.arrays: dict[str, NDArray[Any]] = {}
        self.known: dict[int, Any] = {}  # nodes that others refer to

    def read(self) -> Any:
        return self._value(parse_json(self._member("schema.json").read().decode()))

    def _value(self, node: Mapping[str, Any]) -> Any:
        loader = node["__loader__"]
        if loader == "CachedNode":
            return self.known[node["__id__"]]
        value = self._read_node(loader, node)
        if "__id__" in node:
            self.known[node["__id__"]] = value
        return value

    def _read_node(self, loader: str, node: Mapping[str, Any]) -> Any:
        name = f"{node['__module__']}.{node['__class__']}"
        if loader == "JsonNode":
            return json.loads(node["content"])
        if loader == "DictNode":
            return {key: self._value(part) for key, part in node["content"].items()}
        if loader in ("ListNode", "TupleNode"):
            return [self._value(part) for part in node["content"]]
        if loader == "NdArrayNode":
            return self._array(node)
        if loader in ("ObjectNode", "TreeNode") or name.startswith("sklearn."):
            content = node.get("content")
            state = self._value(content) if isinstance(content, dict) and content else {}
            return Part(name, state if isinstance(state, dict) else {})
        # Of no use to any prediction: types, random generators, functions.
        return Part(name, {})

    def _array(self, node: Mapping[str, Any]) -> NDArray[Any]:
        if node["type"] == "numpy":
            name = str(node["file"])
            if name not in self.arrays:
                with self._member(name) as stream:
                    self.arrays[name] = _read_npy(stream)
            return self.arrays[name]
        items = [self._value(part) for part in node["content"]]
        shape = tuple(self._value(node["shape"]))
        if len(shape) == 2:  # a list of rows
            if sum(map(len, items)) > self.n_bytes:
                raise ValueError("an array of objects is larger than the file")
            items = [item for row in items for item in row]
        if len(shape) not in (1, 2) or math.prod(shape) != len(items):
            raise ValueError(f"an array of objects of shape {shape}")
        array = np.empty(len(items), dtype=object)
        for place, item in enumerate(items):
            array[place] = item
        return array.reshape(shape)

    def _member(self, name: str) -> IO[bytes]:
        """A file of the archive; one that is compressed may expand to any size."""
        info = self.archive.getinfo(name)
        if info.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{name} is compressed")
        if info.file_size > self.n_bytes:
            raise ValueError(f"{name} is larger than the file")
        return self.archive.open(info)


def _read_npy(stream: IO[bytes]) -> NDArray[Any]:
    """An array of numbers or of records of numbers, no larger than what the stream holds."""
    content = stream.read()
    buffer = BytesIO(content)
    if np.lib.format.read_magic(buffer) != (1, 0):
        raise ValueError("no array of NumPy's format 1.0")
    try:
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(buffer)
    except Exception as error:  # whatever Python's parsers make of a strange header
        raise ValueError(f"no header of an array: {type(error).__name__}") from None
    if dtype.hasobject or dtype.itemsize == 0:
        raise ValueError(f"an array of type {dtype}")
    if any(size < 0 for size in shape) or len(shape) > 8:
        raise ValueError(f"an array of shape {shape}")
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes != len(content) - buffer.tell():
        raise ValueError(f"the file does not hold an array of shape {shape} and type {dtype}")
    flat = np.frombuffer(content, dtype, offset=buffer.tell())
    return flat.reshape(shape, order="F" if fortran else "C")
