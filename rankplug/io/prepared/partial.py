"""The folder in which a preparation is worked on, and how it becomes the prepared folder."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rankplug.exceptions import DataError, ParameterError
from rankplug.io.prepared.journal import STATE
from rankplug.io.prepared.manifest import MANIFEST

__all__ = ["clear", "partial_folder", "partial_of", "publish", "remove", "require_replaceable"]

_LOCK = "lock"
_FIRST_FILES = {_LOCK, f"{STATE}.tmp"}


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
    if folder.exists() and not own and not (folder / STATE).is_file():
        raise ParameterError(f"{folder} is needed for work, but is something else: move it away")
    descriptor = _locked(folder, target)
    try:
        yield folder
    finally:
        os.close(descriptor)


def clear(folder: Path) -> None:
    """Remove all that is in a partial folder, but for the lock.

    The state, by which such a folder is known, goes last.
    """
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name == STATE):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _LOCK:
            entry.unlink()


def remove(folder: Path) -> None:
    """Remove a partial folder; if that is cut short, it can still be told for what it is."""
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


def _locked(folder: Path, target: Path) -> int:
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
