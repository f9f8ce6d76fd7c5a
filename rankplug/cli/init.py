"""``rankplug init``: write a recipe for a file of data, with a comment on each column."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from rankplug.cli.running import add_role_arguments, data_name, start_from
from rankplug.cli.shared import command_parser

_HELP = """\
The recipe names the columns of a table: relevance, query, features, ids of the rows, and, as
comments, those that are no features, with the reason. Read it, change it, and run it.

examples:
  rankplug init searches.csv --label grade --qid query_id
  rankplug run searches.yaml
"""


def add_init(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "write a recipe for a file of data, with a comment on each column"
    parser = command_parser(commands, common, "init", text, _HELP)
    parser.add_argument(
        "data",
        metavar="FILE",
        help="CSV, Parquet, Arrow or svmlight text, which may be compressed; or a prepared folder",
    )
    add_role_arguments(parser)
    parser.add_argument(
        "-o", "--out", metavar="RECIPE", help="file to write (default: NAME.yaml in this folder)"
    )
    parser.set_defaults(command=_init)


def _init(args: argparse.Namespace) -> int:
    from rankplug.exceptions import ParameterError

    out = Path(args.out or f"{data_name(args.data)}.yaml")
    exists = ParameterError(f"{out} exists, and is not overwritten: name another file with -o")
    if out.exists():
        raise exists
    start = start_from(args.data, out, args)
    try:
        with out.open("x", encoding="utf-8") as stream:
            stream.write(start.text)
    except FileExistsError:
        raise exists from None
    print("\n".join(start.lines))
    print(f"recipe:   {out}, to be read, changed and run: rankplug run {shlex.quote(str(out))}")
    return 0
