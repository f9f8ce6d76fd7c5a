"""``rankplug predict``: score or rank the rows of a file with a saved or registered model."""

from __future__ import annotations

import argparse
from typing import Any

from rankplug.cli.models import add_model_arguments, open_model
from rankplug.cli.parsers import command_parser

__all__ = ["add"]

_HELP = """\
examples:
  rankplug predict models:/search@champion test.txt.gz -o scores.csv
  rankplug predict out/model test.parquet -o best.parquet --output top_k --k 5

The file is read in batches, so it may be larger than memory. With --output rank or top_k the rows
of a query must stand together. The output file appears whole or not at all.
"""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "score or rank the rows of a file with a model"
    parser = command_parser(commands, common, "predict", text, _HELP)
    add_model_arguments(parser)
    parser.add_argument(
        "data",
        metavar="DATA",
        help="svmlight text, CSV, Parquet or Arrow, text may be compressed; or a prepared folder",
    )
    parser.add_argument(
        "-o", "--out", required=True, metavar="OUT", help="file to write: .csv, .parquet, ..."
    )
    parser.add_argument(
        "--output",
        choices=["score", "rank", "top_k"],
        default="score",
        help="scores of the rows, also their ranks in their queries, or only the best rows "
        "(default: score)",
    )
    parser.add_argument(
        "--k", type=int, default=10, help="how many rows of a query are the best (default: 10)"
    )
    parser.add_argument(
        "--qid", metavar="COLUMN", help="column of the query ids (default: qid, if there is one)"
    )
    parser.add_argument(
        "--batch-rows",
        type=int,
        default=10_000,
        metavar="N",
        help="rows to read at a time (default: 10000)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(command=_predict)


def _predict(args: argparse.Namespace) -> int:
    model = open_model(args)
    from rankplug.io.predictions import predict_file
    from rankplug.models.answers import requested

    rows = predict_file(
        model,
        args.data,
        args.out,
        form=requested({"output": args.output, "k": args.k}),
        qid=args.qid,
        batch_rows=args.batch_rows,
        progress=not args.quiet,
    )
    print(f"{rows:,} rows scored: {args.out}")
    return 0
