"""Attacks in processes that they may end: the next process goes on behind what ended the last."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def limit_memory(size: int) -> None:
    """Let this process take so many bytes beyond those that it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + size
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def attack_all(
    work: Callable[..., None], arguments: tuple[Any, ...], number: int, seconds: float
) -> Iterator[tuple[int, str]]:
    """The number of each of so many attacks, and what came of it, in a word, or ``word: more``.

    ``work(*arguments, first, last, pipe)`` sends ``(number, None)`` before an attack, in case that
    there will be no more, and ``(number, said)`` after it, which may take so many seconds.
    """
    context = multiprocessing.get_context("fork")
    first = 0
    while first < number:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(*arguments, first, number, theirs))
        process.start()
        theirs.close()
        at, said = first, None
        try:
            while ours.poll(seconds):
                at, said = ours.recv()
                if said is not None:
                    yield at, said
            yield at, "ENDLESS"
        except EOFError:
            process.join()
            if process.exitcode:
                yield at, f"SIGNAL or exit {process.exitcode}"
            elif said is not None:
                break
        finally:
            process.kill()
            process.join()
        first = at + 1


def is_harm(said: str) -> bool:
    """Whether it begins with a word in capitals, as what did harm does."""
    return said[:2].isupper()


def sum_up(what: str, counts: Counter[str], started: float) -> int:
    """Print the counts of words, and return how many did harm."""
    harm = sum(count for word, count in counts.items() if is_harm(word))
    print(f"{counts.total():,} {what}: {dict(counts)}")
    print(f"{harm} did harm; {time.monotonic() - started:.0f} s")
    return harm
