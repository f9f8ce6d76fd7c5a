"""Shared parts of the commands: parsers, common arguments, exit statuses and signals."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType
from typing import Any

from rankplug.system.signals import handled_by, interrupt

# The last two are 128 plus the number of the signal, as in a shell.
FAILED, MISTAKE, UNTRACKED, INTERRUPTED, TERMINATED = 1, 2, 3, 130, 143

_STDERR = 2


def command_parser(
    commands: Any, common: argparse.ArgumentParser, name: str, text: str, epilog: str | None = None
) -> argparse.ArgumentParser:
    """Add a command; `text`, in small letters and without a full stop, says what it does."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=epilog,
        parents=[common],
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_data_argument(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add the data that a model is applied to."""
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="?" if optional else None,
        help="svmlight text, CSV, Parquet or Arrow, text may be compressed; or a prepared folder",
    )


def add_qid_argument(
    parser: argparse.ArgumentParser, default: str = "qid, if there is one"
) -> None:
    """Add the column of the query ids."""
    parser.add_argument(
        "--qid", metavar="COLUMN", help=f"column of the query ids (default: {default})"
    )


def add_notation_arguments(parser: argparse.ArgumentParser, default: str = "from 1") -> None:
    """Add how values are written in text; `default` says where indices begin if it is not said."""
    parser.add_argument(
        "--zero-based",
        action=argparse.BooleanOptionalAction,
        help=f"indices of svmlight text begin at 0, not at 1 (default: {default})",
    )
    parser.add_argument(
        "--separator",
        metavar="CHAR",
        type=lambda text: "\t" if text == "\\t" else text,
        help="character between the cells of CSV (default: found in the header)",
    )
    parser.add_argument(
        "--decimal",
        choices=[".", ","],
        metavar="CHAR",
        help="decimal mark of CSV, '.' or ',' (default: '.')",
    )


def notation(args: argparse.Namespace) -> dict[str, Any]:
    """What is said of how values are written."""
    return {name: getattr(args, name) for name in ("zero_based", "separator", "decimal")}


def has_output() -> bool:
    """Whether there is a standard output; other streams that are closed become empty ones.

    A file that is opened otherwise takes the number of a closed stream, and then what libraries
    print.
    """
    if sys.stdout is None:
        return False
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    return True


def drop_output() -> None:
    """Write what is left of the output or, if it cannot be written, let Python not try again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning in one line, above the progress bar if there is one."""
    from tqdm import tqdm

    tqdm.write(f"warning: {message}", file=sys.stderr)


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
        with handled_by(self._interrupt) if main else nullcontext():
            yield

    def status(self, status: int) -> int:
        """The exit status of a command that returned this one."""
        terminated = status == INTERRUPTED and self.came == signal.SIGTERM
        return TERMINATED if terminated else status

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.came is None:
            self.came = number
            # Python's own stream may be in the middle of a line.
            with suppress(OSError):
                os.write(_STDERR, b"\ninterrupted: ending the command\n")
        interrupt(number)
