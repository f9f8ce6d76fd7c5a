"""Signals that end a program: SIGINT and SIGTERM become a `KeyboardInterrupt` that cannot be lost.

Python drops what is raised while it calls back for a weak reference, as each import does, or runs a
``__del__``. So the handler leaves a mark, too, and loops look at it (`raise_if_lost`).

Nothing of others is imported here: a command handles signals before it imports what takes time.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, TypeAlias

_on_its_way: int | None = None  # the signal of an exception that nobody has caught yet

_Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | None


class Terminated(KeyboardInterrupt):
    """SIGTERM, where it is to end a loop as Ctrl-C does."""


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """SIGINT and SIGTERM go to a handler, each unless it is ignored or somebody else's.

    To be used in the main thread, the only one that may set handlers. What the handler raises by
    `interrupt` is raised at the end at the latest, though it was lost on the way.
    """
    usual: dict[signal.Signals, _Handler] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }
    ours = [number for number, before in usual.items() if signal.getsignal(number) is before]
    for number in ours:
        signal.signal(number, handler)
    try:
        yield
        if ours:
            raise_if_lost()
    finally:
        for number in ours:
            if signal.getsignal(number) == handler:
                signal.signal(number, usual[number])
        if ours:
            forget_interrupt()


def interrupt(number: int, _: FrameType | None = None) -> NoReturn:
    """Raise `KeyboardInterrupt`, for SIGTERM `Terminated`, and leave a mark: a handler of signals.

    Loops find the mark by `raise_if_lost` when Python has dropped the exception.
    """
    global _on_its_way
    _on_its_way = number
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def raise_if_lost() -> bool:
    """Raise an `interrupt` again that has not ended the loop around; False if there was none."""
    if _on_its_way is not None:
        interrupt(_on_its_way)
    return False


def forget_interrupt() -> None:
    """To be called by whoever catches an `interrupt` and goes on."""
    global _on_its_way
    _on_its_way = None


@contextmanager
def deferred(*, once: bool = False) -> Iterator[None]:
    """Signals come when the block has ended: for foreign code that loses what handlers raise.

    Or that leaves something open then: an exception within SQLAlchemy may leave its database
    locked, until the exception itself is forgotten. With `once`, which is for code that may wait
    for others, only the first signal is late.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}

    def remember(number: int, frame: FrameType | None) -> None:
        if once and came:
            handlers[number](number, frame)
        came.append(number)

    for number in (int(signal.SIGINT), int(signal.SIGTERM)):
        handler = signal.getsignal(number)
        if callable(handler):
            handlers[number] = handler
            signal.signal(number, remember)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)
