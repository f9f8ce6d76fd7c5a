"""Logs of clicks on the command line: their options, and the weighed clicks that they name."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankplug.clicks import WeightedClicks
    from rankplug.models import Model

_COLUMNS = ("document", "position", "click", "session", "randomised")
CLICK_OPTIONS = (*_COLUMNS, "clip")
"""What goes with ``--propensities``."""


def add_click_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a log of clicks."""
    group = parser.add_argument_group("logs of clicks")
    group.add_argument(
        "--propensities",
        metavar="P",
        help="interventions, em, randomised, none, or numbers with commas between",
    )
    for name in _COLUMNS:
        default = "" if name in ("session", "randomised") else f" (default: {name})"
        group.add_argument(f"--{name}", metavar="COLUMN", help=f"its column{default}")
    group.add_argument("--clip", type=float, metavar="P", help="propensities below count as this")


def weigh_log(model: Model, args: argparse.Namespace) -> WeightedClicks:
    """The weighed clicks of the log that the arguments name, with the features of a model.

    Raises
    ------
    DataError
        If the file is no such log.
    ParameterError
        If the model does not know the names of its features.
    """
    from rankplug.clicks import ClickLog, weigh_clicks
    from rankplug.exceptions import ParameterError
    from rankplug.io import read_table

    if model.feature_names is None:
        raise ParameterError(
            "the model does not know the names of its features, by which they are found in a log: "
            "train it on a table"
        )
    said = {name: getattr(args, name) for name in _COLUMNS}
    log = ClickLog.from_table(
        read_table(args.data, separator=args.separator, decimal=args.decimal),
        query=args.qid or model.query_column or "qid",
        like=model,
        **{name: column for name, column in said.items() if column is not None},
    )
    return weigh_clicks(log, _propensities(args.propensities), clip=args.clip)


def _propensities(text: str) -> Any:
    """Numbers, or the name of a method."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return text
