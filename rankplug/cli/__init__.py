"""The command line: arguments in, exit status out.

Each command has a function ``add_NAME(commands, common)``, which adds its parser. Its module is
imported each time, so whatever is slow to import is imported by the function that runs the command.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from rankplug import __version__
from rankplug.cli.evaluate import add_evaluate
from rankplug.cli.init import add_init
from rankplug.cli.models import add_predict, add_serve, add_solvers
from rankplug.cli.prepare import add_prepare
from rankplug.cli.recipes import add_compare, add_run, add_train, add_tune
from rankplug.cli.shared import FAILED, INTERRUPTED, MISTAKE, Signals

__all__ = ["main"]

_COMMANDS = (
    add_init,
    add_run,
    add_train,
    add_tune,
    add_compare,
    add_evaluate,
    add_predict,
    add_prepare,
    add_serve,
    add_solvers,
)


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
    for add in _COMMANDS:
        add(commands, common)
    return parser
