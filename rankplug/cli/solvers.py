"""``rankplug solvers``: list the solvers that are installed."""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import asdict
from typing import Any

from rankplug.cli.shared import command_parser

__all__ = ["add_solvers"]


def add_solvers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "list the solvers that are installed"
    parser = command_parser(commands, common, "solvers", text)
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(command=_solvers)


def _solvers(args: argparse.Namespace) -> int:
    from rankplug.report import text_table
    from rankplug.solver import list_solvers

    with warnings.catch_warnings():
        # The table says which solvers are broken, and why.
        warnings.simplefilter("ignore")
        solvers = list_solvers()
    if args.json:
        print(json.dumps([asdict(solver) for solver in solvers], indent=2))
        return 0
    header = ["solver", "tasks", "available", "problem"]
    rows = [
        [
            one.name,
            ", ".join(one.tasks),
            "yes" if one.available else "no",
            one.reason or one.problem,
        ]
        for one in solvers
    ]
    print(text_table(header, rows, "<<<<"))
    return 0
