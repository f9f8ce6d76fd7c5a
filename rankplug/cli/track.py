"""The command ``rankplug track``, which sends what a tracking server did not take."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

from rankplug.cli.shared import UNTRACKED, command_parser, show_warning

_TRACK_HELP = """\
When a tracking server does not answer, 'rankplug run', 'train', 'tune' and 'compare' go on, keep
what they would log in DIR/mlflow-unsent, and end with exit status 3. This command sends it: runs,
models, registrations. It may be interrupted and repeated; nothing is logged twice.

examples:
  rankplug track rankplug-output/quickstart-20261129-101500
  rankplug track out --tracking-uri http://another-server:5000

exit status: 0 all is sent, or there was nothing; 3 something is left, or was refused
"""


def add_track(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "send what a tracking server did not take to MLflow"
    parser = command_parser(commands, common, "track", text, _TRACK_HELP)
    parser.add_argument("output", metavar="DIR", help="output folder of the command")
    parser.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="another server (default: the one that did not answer)",
    )
    parser.set_defaults(command=_track)


def _track(args: argparse.Namespace) -> int:
    from rankplug.exceptions import ParameterError

    output = Path(args.output)
    if not output.is_dir():
        raise ParameterError(f"{output}: no such folder: name the output folder of a command")
    from rankplug.mlflow.spool import UNSENT
    from rankplug.mlflow.tracking import send_kept

    is_complete, is_empty = True, True
    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        for sent in send_kept(output, args.tracking_uri):
            is_empty = False
            if sent.n_sent:
                print(f"sent to {sent.tracking_uri}: {sent.n_sent} calls", flush=True)
            for refused in sent.refused:
                print(f"error: refused by {sent.tracking_uri}: {refused}", file=sys.stderr)
            if sent.refused:
                print(
                    f"what is refused stays in {output / UNSENT}: send it to the server that it "
                    "is for, or remove it",
                    file=sys.stderr,
                )
            if sent.reason is not None:
                left = "" if sent.n_left is None else f"{sent.n_left} calls are left: "
                print(f"error: {left}{sent.reason}", file=sys.stderr)
            is_complete &= sent.reason is None and not sent.refused
    if is_empty:
        print(f"nothing to send: {output} holds nothing that a server did not take")
    return 0 if is_complete else UNTRACKED
