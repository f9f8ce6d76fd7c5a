"""What is done of a preparation, saved so that it can go on after the process was killed.

Files only grow. Now and then their lengths are saved together with what else is known at that
moment; whatever was written after that is cut off when the work goes on.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

import numpy as np
from numpy.typing import NDArray

from rankplug.io.prepared.inputs import Position
from rankplug.io.prepared.npy import HEADER_BYTES
from rankplug.io.svmlight import TextPosition

__all__ = ["STATE", "GrowingFiles", "Journal", "State"]

STATE = "state.json"
_SAVE_BYTES = 1 << 26
_SAVE_SECONDS = 3.0


@dataclass(frozen=True)
class State:
    """What is done.

    Attributes
    ----------
    phase : "read", "arrange" or "seal"
        What is being done.
    position : Position
        How far the input was read.
    parts : tuple of (bool, int, int)
        Runs of rows kept alike: whether dense, the number of columns, and that of rows.
    arranged : int
        Rows that stand in their final place.
    folder : "rows" or "arranged"
        Which one becomes the prepared folder.
    sizes : mapping
        Bytes of each growing file.
    """

    phase: Literal["read", "arrange", "seal"] = "read"
    position: Position = field(default_factory=Position)
    parts: tuple[tuple[bool, int, int], ...] = ()
    arranged: int = 0
    folder: Literal["rows", "arranged"] = "rows"
    sizes: Mapping[str, int] = field(default_factory=dict)


class Journal:
    """The saved state of a preparation.

    Parameters
    ----------
    folder : Path
    request : mapping
        What is to be prepared and how, as JSON has it; another request has another state.
    """

    def __init__(self, folder: Path, request: Mapping[str, Any]) -> None:
        self._file = folder / STATE
        self._request = json.loads(json.dumps(request))

    @property
    def exists(self) -> bool:
        """Whether any state was ever saved."""
        return self._file.exists()

    def load(self) -> State | None:
        """The state to go on from; None if there is none, or not for this request."""
        try:
            saved = json.loads(self._file.read_text(encoding="utf-8"))
            if saved["request"] != self._request:
                return None
            state = saved["state"]
            position = state["position"]
            found = State(
                state["phase"],
                Position(**{**position, "text": TextPosition(**position["text"])}),
                tuple((dense, columns, rows) for dense, columns, rows in state["parts"]),
                state["arranged"],
                state["folder"],
                state["sizes"],
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if self._has_files(found) else None

    def save(self, state: State) -> None:
        """Save the state; it is that state or the one before, whatever happens."""
        text = json.dumps({"request": self._request, "state": asdict(state)})
        temporary = self._file.with_name(f"{STATE}.tmp")
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(self._file)

    def _has_files(self, state: State) -> bool:
        """Whether nothing that was saved was lost, as it may be when a machine fails."""
        folder = self._file.parent
        files = {name: folder / name for name in state.sizes}
        return all(
            file.exists() and file.stat().st_size >= state.sizes[name]
            for name, file in files.items()
        )


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
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = self._open(name)
        data = content if isinstance(content, bytes) else np.ascontiguousarray(content).data
        if len(data):
            _write_all(stream, memoryview(data).cast("B"))
        self._unsaved += len(content) if isinstance(content, bytes) else content.nbytes

    @property
    def should_be_saved(self) -> bool:
        """Whether so much was written, or so long ago, that its loss would be a pity."""
        seconds = time.monotonic() - self._saved_at
        return self._unsaved >= _SAVE_BYTES or (self._unsaved > 0 and seconds > _SAVE_SECONDS)

    def saved(self, state: State) -> State:
        """The state with the present sizes, after all that was written has reached the disk."""
        for name, stream in self._streams.items():
            os.fsync(stream.fileno())
            self._sizes[name] = stream.tell()
        self._unsaved = 0
        self._saved_at = time.monotonic()
        return replace(state, sizes=dict(self._sizes))

    def length(self, name: str) -> int:
        """Bytes of a file."""
        stream = self._streams.get(name)
        return self._sizes.get(name, 0) if stream is None else stream.tell()

    def _open(self, name: str) -> BinaryIO:
        file = self._folder / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
        stream: BinaryIO = self._stack.enter_context(file.open("r+b", buffering=0))
        stream.truncate(self._sizes.get(name, 0))
        if stream.seek(0, os.SEEK_END) == 0 and file.suffix == ".npy":
            _write_all(stream, memoryview(bytes(HEADER_BYTES)))
        return stream


def _write_all(stream: BinaryIO, data: memoryview) -> None:
    """Write without a buffer, of which a part may get lost when the disk is full."""
    while len(data):
        data = data[stream.write(data) :]
