"""Ctrl-C and SIGTERM at the command line."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from rankplug.cli.status import INTERRUPTED, TERMINATED

__all__ = ["Signals"]

_STDERR = 2


class Signals:
    """Makes both signals a `KeyboardInterrupt`, so that the command can clean up, and tells so.

    Attributes
    ----------
    came : int or None
        The first signal.
    """

    def __init__(self) -> None:
        self.came: int | None = None

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle them, unless they are ignored or somebody else's."""
        main = threading.current_thread() is threading.main_thread()
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        usual = (signal.default_int_handler, signal.SIG_DFL)
        ours = [number for number, handler in before.items() if main and handler in usual]
        for number in ours:
            signal.signal(number, self._raise)
        try:
            yield
        finally:
            for number in ours:
                signal.signal(number, before[number])

    def status(self, status: int) -> int:
        """The exit status of a command that returned this one."""
        terminated = status == INTERRUPTED and self.came == signal.SIGTERM
        return TERMINATED if terminated else status

    def _raise(self, number: int, frame: FrameType | None) -> None:
        if self.came is None:
            self.came = number
            # Python's own stream may be in the middle of a line.
            with suppress(OSError):
                os.write(_STDERR, b"\ninterrupted: ending the command\n")
        raise KeyboardInterrupt
