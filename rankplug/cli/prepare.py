"""``rankplug prepare``: turn files of any size into a folder that is opened instead of read."""

from __future__ import annotations

import argparse
from typing import Any

from rankplug.cli.shared import add_notation_arguments, add_qid_argument, command_parser, notation

_HELP = """\
The files are read once, in bounded memory. The folder stands for them wherever a command or a
recipe takes a file; it opens in milliseconds, and features stay on disk until they are used.
The rows of a query are brought together, whichever files they stand in.

If the command is interrupted, even killed, the same command goes on where it ended; what is done
is kept in .DIR.partial beside DIR until then. DIR appears whole or not at all.

With --scale, features are scaled as by 'scale' in a recipe; models that a recipe trains on the
folder take features that are not scaled.

examples:
  rankplug prepare train.txt.gz -o train --dtype float32
  rankplug prepare part-*.parquet -o train --label grade --qid query --scale standard
  rankplug prepare --check train

"""


def add_prepare(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "turn files of any size into a folder that is opened instead of read"
    parser = command_parser(commands, common, "prepare", text, _HELP)
    parser.add_argument(
        "data",
        nargs="+",
        metavar="DATA",
        help="svmlight text, CSV, Parquet or Arrow; text may be compressed",
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="folder to make")
    parser.add_argument(
        "--check",
        action="store_true",
        help="instead, read all of the prepared folders DATA and compare them with their digests",
    )
    parser.add_argument(
        "--dtype",
        choices=["float32", "float64"],
        help="of the features (default: float64, or float32 where all columns are)",
    )
    parser.add_argument(
        "--scale",
        choices=["none", "standard", "minmax", "maxabs"],
        default="none",
        help="scale each feature (default: none; sparse features: maxabs only)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--dense", action="store_true", help="keep all zeros")
    form.add_argument(
        "--sparse",
        action="store_true",
        help="keep no zeros (default: dense if half of the values or more are written)",
    )
    parser.add_argument(
        "--format",
        choices=["svmlight", "csv", "parquet", "arrow"],
        help="of the files (default: found out)",
    )
    parser.add_argument(
        "--label", metavar="COLUMN", help="column of the relevance (default: label)"
    )
    add_qid_argument(parser)
    parser.add_argument("--weight", metavar="COLUMN", help="column of the query weights")
    parser.add_argument(
        "--document-weight", metavar="COLUMN", help="column of a weight for each row"
    )
    parser.add_argument(
        "--feature",
        action="append",
        metavar="COLUMN",
        help="column of a feature; may be repeated (default: all other columns)",
    )
    parser.add_argument(
        "--n-features",
        type=int,
        metavar="N",
        help="number of features of svmlight text (default: the largest index)",
    )
    add_notation_arguments(parser)
    parser.add_argument(
        "--shard-mb",
        type=int,
        default=128,
        metavar="MB",
        help="about how large the parts for distributed training are (default: 128)",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a prepared folder of other data"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bars")
    parser.set_defaults(command=_prepare)


def _prepare(args: argparse.Namespace) -> int:
    from rankplug.exceptions import ParameterError
    from rankplug.io import PreparedFolder, prepare, verify_prepared

    folders: list[PreparedFolder]
    if args.check:
        if args.output is not None:
            raise ParameterError("--check makes no folder: leave out -o")
        folders = [verify_prepared(path, progress=not args.quiet) for path in args.data]
    elif args.output is None:
        raise ParameterError("name the folder to make: -o DIR")
    else:
        folder = prepare(
            args.data,
            args.output,
            format=args.format,
            label=args.label,
            qid=args.qid,
            weight=args.weight,
            document_weight=args.document_weight,
            features=args.feature,
            n_features=args.n_features,
            **notation(args),
            dense=True if args.dense else False if args.sparse else None,
            dtype=args.dtype,
            scale=args.scale,
            shard_bytes=args.shard_mb * 2**20,
            overwrite=args.overwrite,
            progress=not args.quiet,
        )
        folders = [folder]
    for folder in folders:
        print(_summary(folder))
    return 0


def _summary(folder: Any) -> str:
    manifest = folder.manifest
    size = sum(file.stat().st_size for file in folder.path.iterdir())
    scaled = "" if manifest.scale == "none" else f", scaled ({manifest.scale})"
    return (
        f"{folder.path}: {manifest.n_queries:,} queries, {manifest.n_samples:,} rows, "
        f"{manifest.n_features:,} features, {manifest.layout} {manifest.dtype}{scaled}, "
        f"{len(folder.shards)} shards, {size / 1e6:,.1f} MB"
    )
