"""The command line: arguments in, exit status out.

Each command has a function ``add_NAME(commands, common)``, which adds its parser. Its module is
imported each time, so whatever is slow to import is imported by the function that runs the command.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Any

from rankplug import __version__
from rankplug.cli.evaluate import add_evaluate
from rankplug.cli.exchange import add_export, add_import
from rankplug.cli.explain import add_explain
from rankplug.cli.init import add_init
from rankplug.cli.models import add_predict, add_serve, add_solvers
from rankplug.cli.prepare import add_prepare
from rankplug.cli.recipes import add_compare, add_run, add_train, add_tune
from rankplug.cli.shared import FAILED, INTERRUPTED, MISTAKE, Signals, drop_output, has_output
from rankplug.cli.show import add_show
from rankplug.cli.track import add_track

__all__ = ["main"]

_COMMANDS = (
    add_init,
    add_run,
    add_train,
    add_tune,
    add_compare,
    add_track,
    add_evaluate,
    add_explain,
    add_show,
    add_predict,
    add_prepare,
    add_serve,
    add_export,
    add_import,
    add_solvers,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    if not has_output():
        if sys.stderr is not None:
            closed = "standard output is closed: send it to a file, or to /dev/null"
            print(f"error: {closed}", file=sys.stderr)
        return FAILED
    signals = Signals()
    debug = False
    try:
        with signals.handled():
            args = _parse(arguments)
            debug = args.debug
            if debug:
                logging.basicConfig()
                logging.getLogger("rankplug").setLevel(logging.DEBUG)
            status: int = args.command(args)
            sys.stdout.flush()
    except BrokenPipeError:
        drop_output()  # whoever read it has left, as head does
        return FAILED
    except KeyboardInterrupt:
        if signals.came is None:
            print("interrupted", file=sys.stderr)
        return signals.status(INTERRUPTED)
    except Exception as error:
        if signals.came is not None and not debug:  # which other code has made an error of its own
            return signals.status(INTERRUPTED)
        return _status_of(error, debug)
    return signals.status(status)


def _status_of(error: Exception, debug: bool) -> int:
    """Say what is wrong; raised again if that is no error for users, or they asked for it."""
    from rankplug.exceptions import RankplugError

    if debug or not isinstance(error, RankplugError | OSError):
        raise error
    print(f"error: {error}", file=sys.stderr)
    if isinstance(error, OSError):
        drop_output()
    return MISTAKE if isinstance(error, RankplugError) else FAILED


class _Parser(argparse.ArgumentParser):
    """A parser whose help is written, or an error."""

    def _print_message(self, message: str, file: Any = None) -> None:
        if message:
            (file or sys.stderr).write(message)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    try:
        return _parser().parse_args(arguments)
    except SystemExit:
        sys.stdout.flush()  # where an error is one of writing the help
        raise


def _parser() -> argparse.ArgumentParser:
    about = "Train, compare and track rankers."
    parser = _Parser(prog="rankplug", description=about, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"rankplug {__version__}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in _COMMANDS:
        add(commands, common)
    return parser
