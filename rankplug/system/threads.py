"""Threads: a team that shares the items of a job, and BLAS kept to as many as are meant."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from threading import Lock
from types import TracebackType
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")


class Team:
    """So many threads, of which the caller's is one; a context, at whose end the others end.

    The caller begins at once and does all by itself that is done before another thread wakes up:
    that takes some ten microseconds, as long as a small job takes in all. So teams may also be
    used by their own threads, which need not wait for one that is free.
    """

    def __init__(self, n_threads: int) -> None:
        self._n_others = n_threads - 1
        self._pool = ThreadPoolExecutor(self._n_others) if self._n_others > 0 else None

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def _start(self, work: Callable[[], None]) -> Future[None]:
        assert self._pool is not None
        return self._pool.submit(copy_context().run, work)

    def map(self, function: Callable[..., T], *arguments: Iterable[Any]) -> list[T]:
        """As the built-in `map`, with the context variables of the caller in each thread.

        What an item raises is raised when those that others were at are done; the rest is dropped.
        """
        items = list(zip(*arguments, strict=True))
        results: list[Any] = [None] * len(items)
        left = deque(range(len(items)))

        def work() -> None:
            try:
                while left:
                    try:
                        i = left.popleft()
                    except IndexError:  # another thread was faster
                        return
                    results[i] = function(*items[i])
            except BaseException:
                left.clear()
                raise

        others = [self._start(work) for _ in range(min(self._n_others, len(items) - 1))]
        try:
            work()
        finally:
            errors = [other.exception() for other in others if not other.cancel()]
        for error in errors:
            if error is not None:
                raise error
        return results


_meant: dict[object, int] = {}  # threads of BLAS, of all contexts that have not ended, by age
_before: list[int] = []  # those that its libraries had
_changing = Lock()


@contextmanager
def blas_threads(n_threads: int) -> Iterator[None]:
    """Products and factorisations within take so many threads, in the whole process.

    Else BLAS starts as many as there are cores, which look for work for a while after each call
    and take the time of a `Team`. Where contexts overlap, in threads or one within the other, the
    latest one counts; when all have ended, there are as many as before.
    """
    context = object()
    with _changing:
        if not _meant:
            _before[:] = [library.num_threads for library in _blas()]
        _meant[context] = n_threads
        _set_latest()
    try:
        yield
    finally:
        with _changing:
            _meant.pop(context, None)  # which a process that was forked meanwhile has forgotten
            _set_latest()


def _set_latest() -> None:
    latest = list(_meant.values())[-1:] * len(_before) or _before
    for library, n_threads in zip(_blas(), latest, strict=True):
        library.set_num_threads(n_threads)


def _begin_anew() -> None:
    """In a forked process, where no thread goes on with what others of its parent were doing."""
    global _changing
    _changing = Lock()
    if _meant:
        _meant.clear()
        _set_latest()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@cache
def _blas() -> list[Any]:
    """The libraries of NumPy and SciPy."""
    import scipy.linalg  # noqa: F401 - loads its own

    controllers: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return controllers
