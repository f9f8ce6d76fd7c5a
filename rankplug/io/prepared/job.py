"""One preparation: what is asked for, where it is worked on, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rankplug.data import ScaleName
from rankplug.exceptions import DataError
from rankplug.io.files import InputFile
from rankplug.io.prepared.journal import GrowingFiles, Journal, State
from rankplug.io.prepared.progress import Bar

__all__ = ["Job", "Wish", "sources_of"]


@dataclass(frozen=True)
class Wish:
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

    def as_json(self) -> dict[str, Any]:
        """The arguments as JSON has them."""
        return {**asdict(self), "features": None if self.features is None else list(self.features)}


@dataclass(frozen=True)
class Job:
    """A preparation at work.

    Attributes
    ----------
    folder : Path
        The partial folder.
    wish : Wish
    files : sequence of InputFile
    sources : tuple of mapping
        What the files were when the work began.
    journal : Journal
    progress : bool
        Whether to show bars.
    """

    folder: Path
    wish: Wish
    files: Sequence[InputFile]
    sources: tuple[Mapping[str, Any], ...]
    journal: Journal
    progress: bool

    def save(self, files: GrowingFiles, state: State) -> State:
        """Save what is done, so that work can go on from here."""
        state = files.saved(state)
        self.journal.save(state)
        return state

    @property
    def has_saved_rows(self) -> bool:
        """Whether there is anything that work can go on with."""
        state = self.journal.load()
        return state is not None and state.position.all_rows > 0

    def bar(self, name: str, unit: str, total: int, start: int = 0) -> Bar:
        """A progress bar."""
        return Bar(name, unit, total, start=start, shown=self.progress)


def sources_of(files: Sequence[InputFile]) -> tuple[Mapping[str, Any], ...]:
    """Path, size and time of change of files; raises `DataError` if one is missing."""
    found = []
    for file in files:
        try:
            status = file.path.stat()
        except OSError as error:
            raise DataError(f"{file} cannot be read: {error.strerror}") from None
        path = str(file.path.absolute())
        found.append({"path": path, "size": status.st_size, "mtime_ns": status.st_mtime_ns})
    return tuple(found)
