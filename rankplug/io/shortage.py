"""Memory that runs out while files are read: errors that name the file and what to do."""

from __future__ import annotations

import errno
import functools
import resource
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from rankplug.exceptions import DataError

P = ParamSpec("P")
R = TypeVar("R")

_THREADS = 4  # that Arrow starts to read a file
_PREPARE = "prepare it with 'rankplug prepare', which takes little memory, and read the folder"
_FEWER_ROWS = "read fewer rows at a time (batch_rows, --batch-rows)"
_KEPT = "give the process more; the same call goes on with what is done"


class ShortageError(DataError, MemoryError):
    """There is not enough memory for a file; also for those who look for a `MemoryError`."""


def names_shortage(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a reader, whose first argument is the path, to name it when memory runs out."""
    return _naming(function, _PREPARE)


def names_shortage_of_preparation(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a preparation in the same way."""
    return _naming(function, _KEPT)


def _naming(function: Callable[P, R], remedy: str) -> Callable[P, R]:
    @functools.wraps(function)
    def read(*args: P.args, **kwargs: P.kwargs) -> R:
        with _in_words(next(iter((*args, *kwargs.values())), None), remedy):
            return function(*args, **kwargs)

    return read


def names_shortage_of_batches(function: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """Decorate a reader of batches in the same way; what is done with them is not its concern."""

    @functools.wraps(function)
    def read(*args: P.args, **kwargs: P.kwargs) -> Generator[R]:
        with _in_words(next(iter((*args, *kwargs.values())), None), _FEWER_ROWS):
            yield from function(*args, **kwargs)

    return read


@functools.cache
def require_threads() -> None:
    """Raise `MemoryError` where no threads can be started: Arrow ends the process then.

    Their stacks, which the C library keeps, are those that Arrow's threads get, and keep.
    """
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    done = threading.Event()
    threads = [threading.Thread(target=done.wait, daemon=True) for _ in range(_THREADS)]
    started = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
    except RuntimeError as error:
        raise MemoryError(str(error)) from None
    finally:
        done.set()
        for thread in started:
            thread.join()


def is_shortage(error: OSError) -> bool:
    """Whether it says that memory has run out, as when a file cannot be mapped."""
    # Arrow's errors have no number.
    return error.errno == errno.ENOMEM or "Cannot allocate memory" in str(error)


@contextmanager
def _in_words(path: Any, remedy: str) -> Iterator[None]:
    try:
        yield
    except ShortageError:
        raise
    except MemoryError as error:
        raise _shortage(path, remedy) from error
    except OSError as error:
        if not is_shortage(error):
            raise
        raise _shortage(path, remedy) from error


def _shortage(path: Any, remedy: str) -> ShortageError:
    listed = path if isinstance(path, str) or not hasattr(path, "__iter__") else [*map(str, path)]
    where = ", ".join(listed) if isinstance(listed, list) else str(listed)
    return ShortageError(f"{where}: there is not enough memory: {remedy}")
