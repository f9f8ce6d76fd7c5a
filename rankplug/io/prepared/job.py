"""A preparation at work: its arguments, the state it can go on from, and its hidden folder.

Files of the folder only grow. Now and then their lengths are saved together with what else is
known at that moment; whatever was written after that is cut off when the work goes on.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rankplug.data import ScaleName
from rankplug.exceptions import DataError, ParameterError
from rankplug.io.companions import Companions
from rankplug.io.files import InputFile
from rankplug.io.prepared.inputs import Position
from rankplug.io.prepared.manifest import MANIFEST
from rankplug.io.prepared.npy import Bar, GrowingFiles
from rankplug.io.svmlight import TextPosition

_STATE = "state.json"
_LOCK = "lock"
_NOT_IN_THE_FIRST = (
    "zero_based",
    "separator",
    "decimal",
    "document_weight",
)  # arguments that 0.1 did not have
_FIRST_FILES = {_LOCK, f"{_STATE}.tmp"}


@dataclass(frozen=True)
class Arguments:
    """The arguments of `rankplug.prepare` that its result depends on."""

    format: str
    label: str | None
    qid: str | None
    weight: str | None
    features: tuple[str, ...] | None
    n_features: int | None
    dense: bool | None
    dtype: Literal["float32", "float64"] | None
    scale: ScaleName
    shard_bytes: int
    zero_based: bool = False
    separator: str | None = None
    decimal: Literal[".", ","] | None = None
    document_weight: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The arguments as JSON has them; of those that 0.1 did not know, only what is given."""
        written = {**asdict(self), "features": self.features and list(self.features)}
        return {
            key: value for key, value in written.items() if value or key not in _NOT_IN_THE_FIRST
        }


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
    missing : bool
        Whether a feature of the rows read so far is missing (NaN).
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
    missing: bool = False
    arranged: int = 0
    folder: Literal["rows", "arranged"] = "rows"
    sizes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> State:
        """The state that `asdict` has made JSON of; raises `KeyError` or `TypeError`."""
        position = state["position"]
        return cls(
            state["phase"],
            Position(**{**position, "text": TextPosition(**position["text"])}),
            tuple((dense, columns, rows) for dense, columns, rows in state["parts"]),
            state.get("missing", False),
            state["arranged"],
            state["folder"],
            state["sizes"],
        )


@dataclass(frozen=True)
class Job:
    """A preparation, and its saved state.

    Attributes
    ----------
    folder : Path
        The partial folder.
    arguments : Arguments
    files : sequence of InputFile
    sources : tuple of mapping
        What the files were when the work began.
    progress : bool
        Whether to show bars.
    """

    folder: Path
    arguments: Arguments
    files: Sequence[InputFile]
    sources: tuple[dict[str, Any], ...]
    progress: bool

    @property
    def has_state(self) -> bool:
        """Whether any state was ever saved, of this job or another."""
        return (self.folder / _STATE).exists()

    @property
    def has_saved_rows(self) -> bool:
        """Whether there is anything that work can go on with."""
        state = self.load()
        return state is not None and state.position.all_rows > 0

    def load(self) -> State | None:
        """The state to go on from; None if there is none, or not of this job."""
        try:
            saved = json.loads((self.folder / _STATE).read_text(encoding="utf-8"))
            if saved["request"] != self._request:
                return None
            state = State.from_json(saved["state"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        # Something that was saved may be lost when a machine fails.
        files = [(self.folder / name, size) for name, size in state.sizes.items()]
        whole = all(file.exists() and file.stat().st_size >= size for file, size in files)
        return state if whole else None

    def save(self, state: State, files: GrowingFiles | None = None) -> State:
        """Save the state, and the files that it speaks of, so that work can go on from here.

        Whatever happens, it is that state or the one before that can be loaded.
        """
        if files is not None:
            state = replace(state, sizes=files.sync())
        text = json.dumps({"request": self._request, "state": asdict(state)})
        temporary = self.folder / f"{_STATE}.tmp"
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(self.folder / _STATE)
        return state

    def bar(self, name: str, unit: str, total: int, start: int = 0) -> Bar:
        """A progress bar of a pass."""
        return Bar(name, unit, total, start=start, shown=self.progress)

    @property
    def _request(self) -> dict[str, Any]:
        """What is to be prepared and how; another request has another state."""
        return {"sources": list(self.sources), "arguments": self.arguments.as_json()}


def sources_of(files: Sequence[InputFile], format_: str) -> tuple[dict[str, Any], ...]:
    """Path, size and time of change of files, then of their companions.

    Raises
    ------
    DataError
        If one is missing.
    """
    companions = (path for file in files for path in Companions.of(file, format_).paths)
    found = []
    for path in (*(file.path for file in files), *companions):
        try:
            status = path.stat()
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from None
        found.append(
            {"path": str(path.absolute()), "size": status.st_size, "mtime_ns": status.st_mtime_ns}
        )
    return tuple(found)


# --- the folder in which it works, and how that becomes the prepared folder ---


def partial_of(target: Path) -> Path:
    """Where work on a folder is kept: a hidden one beside it."""
    return target.with_name(f".{target.name}.partial")


@contextmanager
def partial_folder(target: Path) -> Iterator[Path]:
    """The partial folder of a target, made if need be; no other process uses it meanwhile.

    Raises
    ------
    DataError
        If another process works on it.
    ParameterError
        If it holds something else.
    """
    folder = partial_of(target)
    own = folder.is_dir() and {entry.name for entry in folder.iterdir()} <= _FIRST_FILES
    if folder.exists() and not own and not (folder / _STATE).is_file():
        raise ParameterError(f"{folder} is needed for work, but is something else: move it away")
    descriptor = _lock(folder, target)
    try:
        yield folder
    finally:
        os.close(descriptor)


def clear(folder: Path) -> None:
    """Remove all that is in a partial folder, but for the lock.

    The state, by which such a folder is known, goes last.
    """
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name == _STATE):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _LOCK:
            entry.unlink()


def remove(folder: Path) -> None:
    """Remove a partial folder; if that is cut short, it is still known for what it is."""
    clear(folder)
    shutil.rmtree(folder)


def require_replaceable(target: Path, *, overwrite: bool) -> None:
    """Raise `ParameterError` if something stands where the prepared folder is to appear."""
    if not target.exists() and not target.is_symlink():
        return
    if target.is_dir() and not any(target.iterdir()):
        return
    if not (target.is_dir() and (target / MANIFEST).is_file()):
        raise ParameterError(f"{target} exists and is no prepared folder: name another one")
    if not overwrite:
        raise ParameterError(
            f"{target} holds data that were prepared from other files, or otherwise: name another "
            "folder, or overwrite it (overwrite=True, --overwrite)"
        )


def publish(folder: Path, target: Path) -> None:
    """Give a complete folder its place; whatever happens, what stands there is complete."""
    _sync_folder(folder)
    replaced = target.with_name(f".{target.name}.replaced")
    if target.is_dir() and any(target.iterdir()):
        shutil.rmtree(replaced, ignore_errors=True)
        target.rename(replaced)
    folder.rename(target)
    _sync_folder(target.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def _lock(folder: Path, target: Path) -> int:
    """A descriptor that holds the lock on a folder; it ends with the process."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), (folder / _LOCK).stat()):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise DataError(f"another process is preparing {target}: wait for it") from None
        except FileNotFoundError:
            pass
        os.close(descriptor)  # the other process was done with the folder just now


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
