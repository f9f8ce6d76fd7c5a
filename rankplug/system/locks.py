"""Locks of the operating system: they end with the process that holds them, however it ends."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rankplug.exceptions import RankplugError


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Wait for the lock on a file, which is made if need be, and hold it."""
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked_here(name: str) -> Iterator[None]:
    """Hold a lock that has no file of its own place, against processes of this machine."""
    with locked(private_file(name).with_suffix(".lock")):
        yield


@contextmanager
def claimed_here(name: str, *, shared: bool = False) -> Iterator[bool]:
    """Hold the lock of a name against processes of this machine; false if another holds it.

    Several may hold it that say `shared`.
    """
    file = private_file(name).with_suffix(".claim")
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


def private_file(name: str) -> Path:
    """A file of this user's own among the temporary ones, the same for the same name.

    Raises
    ------
    RankplugError
        If somebody else has taken the name of the folder for such files.
    """
    folder = Path(tempfile.gettempdir(), f"rankplug-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    made = folder.lstat()
    if not stat.S_ISDIR(made.st_mode) or made.st_uid != os.getuid():
        raise RankplugError(
            f"{folder} is not a folder of yours: remove it, or name another folder for temporary "
            "files in TMPDIR"
        )
    return folder / uuid.uuid5(uuid.NAMESPACE_URL, name).hex


class Workers:
    """The processes that work on the studies of a storage; each holds a lock on a file.

    Parameters
    ----------
    marks : Path
        Beginning of the names of these files.
    shared : bool
        Whether every process that can use the storage can see the files.
    """

    def __init__(self, marks: Path, *, shared: bool) -> None:
        self._marks = marks
        self._shared = shared

    @contextmanager
    def join(self) -> Iterator[str]:
        """Be one of them; gives the worker's name."""
        name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        file, unfinished = self._file(name), self._marks.with_name(f".{name}")
        with locked(unfinished):
            # It must not be seen before it is locked.
            unfinished.rename(file)
            try:
                yield name
            finally:
                file.unlink(missing_ok=True)

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Wait until no other worker of this machine is in such a block."""
        with locked_here(str(self._marks.absolute())):
            yield

    def alive(self, name: str) -> bool:
        """Whether that worker still runs; of another machine we may not know, and say yes."""
        file = self._file(name)
        if file.exists():
            return not _is_free(file)
        return not self._shared and not name.startswith(f"{socket.gethostname()}-")

    def sees(self, name: str) -> bool:
        """Whether that worker is another process, of which `alive` knows for certain."""
        host = f"{socket.gethostname()}-"
        own = name.startswith(f"{host}{os.getpid()}-")
        return not own and (self._shared or name.startswith(host))

    def others(self, name: str) -> bool:
        """Whether any worker but this one runs, as far as can be seen; forgets those that died."""
        files = set(self._marks.parent.glob(f"{self._marks.name}.*.worker")) - {self._file(name)}
        dead = [file for file in files if _is_free(file)]
        for file in dead:
            file.unlink(missing_ok=True)
        return len(dead) < len(files)

    def _file(self, name: str) -> Path:
        return self._marks.with_name(f"{self._marks.name}.{name}.worker")


def _is_free(file: Path) -> bool:
    with suppress(FileNotFoundError):
        descriptor = os.open(file, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
    return True
