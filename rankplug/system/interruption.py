"""Interruption of solvers: by Ctrl-C, by SIGTERM, or by the end of the loop around them.

Only a solver itself can hand out the model it has so far. So solvers ask, between pieces of work
of a fraction of a second, whether they are `interrupted`, and return what they have.

A solver that is called by itself stops so at the first SIGINT or SIGTERM (`interruptible`). Within
a loop over solvers, as in tuning, the loop is to end, not only the solver of the moment: there a
signal is a `KeyboardInterrupt` (`ending_loop`), and solvers in threads of the loop stop when it
says so (`stopped_by`). Python may lose such an exception; loops look for it (`raise_if_lost`).

A time limit is looked at after each iteration of a solver, and between the `pieces` of one. Work
that may take much longer than an iteration as a rule, a factorisation, also looks at it in between
(`check_in_time`), and so does the proof of what was reached (`raise_if_late`).
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import InterruptionWarning, warn_caller
from rankplug.system.signals import Terminated, handled_by, interrupt, raise_if_lost

TWICE_WITHIN = 10.0
"""Seconds after a caught signal in which the next one is left to Python."""

_GRACE = 0.5  # seconds: most passes over data end within them, and nobody waits for long
_WORK = 2**24  # multiplications and additions of compiled code in some hundredths of a second

_asked: ContextVar[Callable[[], bool] | None] = ContextVar("rankplug_asked", default=None)
_deadline: ContextVar[float] = ContextVar("rankplug_deadline", default=float("inf"))
_last_caught = float("-inf")


class Overdue(Exception):  # noqa: N818 - no error, but the end
    """A solver was interrupted so long ago, or is so late, that it gives up the work at hand."""


def interrupted() -> bool:
    """Whether the solver that runs here should return what it has.

    Only to be asked where that is possible: before the first question, when there is no model
    yet, a signal is left to Python.
    """
    asked = _asked.get()
    return asked is not None and asked()


def pieces(
    order: NDArray[np.int64], work: NDArray[np.float64] | float
) -> Iterator[NDArray[np.int64]]:
    """Consecutive parts of an order of visits, each quickly done; none after an interruption.

    After the end of the time limit only the first, so that something is done in any case.

    Parameters
    ----------
    order : int64 ndarray of shape (n_visits,)
    work : float, or float64 ndarray of shape (n_items,)
        About how many multiplications and additions the visit of each item takes.
    """
    done = np.cumsum(work[order] if isinstance(work, np.ndarray) else np.full(len(order), work))
    cuts = np.flatnonzero(np.diff(done // _WORK)) + 1
    for number, part in enumerate(np.split(order, cuts)):
        if interrupted() or (number > 0 and is_late()):
            return
        yield part


def raise_if_overdue() -> None:
    """Raise `Overdue` half a second after a signal, for passes over data that take longer."""
    asked = _asked.get()
    if isinstance(asked, _Catcher) and time.monotonic() - asked.caught_at > _GRACE:
        raise Overdue


def raise_if_late() -> None:
    """Raise `Overdue` as `raise_if_overdue`, or half a second after the end of the time limit."""
    raise_if_overdue()
    told_by_loop = not isinstance(_asked.get(), _Catcher) and interrupted()
    if told_by_loop or time.monotonic() - _deadline.get() > _GRACE:
        raise Overdue


@contextmanager
def within_time(seconds: float | None) -> Iterator[None]:
    """Long work within is late after so many seconds."""
    limit = float("inf") if seconds is None else time.monotonic() + seconds
    token = _deadline.set(min(_deadline.get(), limit))
    try:
        yield
    finally:
        _deadline.reset(token)


def is_late() -> bool:
    """Whether a time limit is over."""
    return time.monotonic() > _deadline.get()


def check_in_time() -> bool:
    """Whether there is a time limit, so that long work is to be done in parts.

    Raises
    ------
    Overdue
        If it is over.
    """
    if is_late():
        raise Overdue
    return _deadline.get() < float("inf")


@contextmanager
def stopped_by(condition: Callable[[], bool]) -> Iterator[None]:
    """Solvers within stop when the condition is true; signals are not theirs."""
    token = _asked.set(condition)
    try:
        yield
    finally:
        _asked.reset(token)


@contextmanager
def interruptible(name: str) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM ask the solver within to stop, and warn that it did.

    The next one, or one soon after a solver was stopped, has its usual effect, so that loops
    over solvers can be left. Signals for which the program has handlers of its own are left
    alone, and all of them outside of the main thread and in child processes of
    `multiprocessing`, whose parents count on their usual effect.
    """
    if _asked.get() is not None or not _may_handle_signals():
        yield
        return
    catcher = _Catcher()
    with stopped_by(catcher), handled_by(catcher.handle):
        yield
    if catcher.caught is not None:
        warn_caller(
            f"{name} was interrupted by {signal.Signals(catcher.caught).name} and returns what it "
            f"has so far; again within {TWICE_WITHIN:g} seconds ends the program, or the loop",
            InterruptionWarning,
        )


@contextmanager
def ending_loop() -> Iterator[None]:
    """A signal ends the loop over solvers within: SIGINT and SIGTERM as `KeyboardInterrupt`.

    When SIGTERM has ended it, and is nobody else's, it ends the process after all.
    """
    if not _may_handle_signals():
        with stopped_by(lambda: False):
            yield
        return
    terminated_by_us = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    try:
        with handled_by(interrupt), stopped_by(raise_if_lost):
            yield
    except Terminated:
        if terminated_by_us:
            _usual_effect(signal.SIGTERM)
        raise


class _Catcher:
    """Catches signals for a solver, once it has shown that it can be stopped."""

    def __init__(self) -> None:
        self.caught: int | None = None
        self.caught_at = float("inf")
        self._can_stop = False

    def __call__(self) -> bool:
        """Whether a signal was caught; one before the first question ends more than a solver."""
        raise_if_lost()
        self._can_stop = True
        return self.caught is not None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Catch a signal, or leave it to Python."""
        global _last_caught
        again = time.monotonic() - _last_caught < TWICE_WITHIN
        if again or self.caught is not None or not self._can_stop:
            _usual_effect(number)
        self.caught, self.caught_at = number, time.monotonic()
        _last_caught = self.caught_at


def _may_handle_signals() -> bool:
    main = threading.current_thread() is threading.main_thread()
    return main and multiprocessing.parent_process() is None


def _usual_effect(number: int) -> None:
    """What the signal does where nobody handles it."""
    if number == signal.SIGINT:
        interrupt(number)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
