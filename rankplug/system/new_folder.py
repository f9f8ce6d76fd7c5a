"""A folder that appears complete or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["new_folder"]


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
