"""The parser of a command."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["command_parser"]


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
