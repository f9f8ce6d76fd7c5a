"""The command line, a module for each command.

A command's module offers ``add(commands, common)``, which adds its parser. It is imported each
time, so whatever is slow to import is imported by the function that runs the command.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from rankplug import __version__
from rankplug.cli import compare, evaluate, predict, prepare, run, serve, solvers, train, tune
from rankplug.cli.signals import Signals
from rankplug.cli.status import FAILED, INTERRUPTED, MISTAKE

__all__ = ["main"]

_COMMANDS = (run, train, tune, compare, evaluate, predict, prepare, serve, solvers)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    args = _parser().parse_args(arguments)
    if args.debug:
        logging.basicConfig()
        logging.getLogger("rankplug").setLevel(logging.DEBUG)
    signals = Signals()
    try:
        with signals.handled():
            status: int = args.command(args)
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has left, as head does; Python must not try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        if signals.came is None:
            print("interrupted", file=sys.stderr)
        return signals.status(INTERRUPTED)
    except Exception as error:
        from rankplug.exceptions import RankplugError

        if args.debug or not isinstance(error, RankplugError | OSError):
            raise
        print(f"error: {error}", file=sys.stderr)
        return MISTAKE if isinstance(error, RankplugError) else FAILED
    return signals.status(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rankplug", description="Train, compare and track rankers.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"rankplug {__version__}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add(commands, common)
    return parser
