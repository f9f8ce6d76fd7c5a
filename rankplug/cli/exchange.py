"""``rankplug export`` and ``import``: models in the formats of other systems."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rankplug.cli.models import add_model_arguments, open_model
from rankplug.cli.shared import command_parser

_EXPORT_HELP = """\
formats:
  elasticsearch-ltr, opensearch-ltr, solr-ltr   models of linear terms, or of trees
  vespa                                         a ranking expression
  vespa-xgboost, vespa-lightgbm                 trees for xgboost() and lightgbm()
  ranklib, liblinear, svmrank                   model files of these programs
  xgboost, lightgbm                             trees, as these libraries read them
  onnx                                          a graph for onnxruntime
  sql, python                                   an expression, a function

What the format cannot say, or who uses the file should know, is printed.

examples:
  rankplug export out/models/tree-tron -o ranker.json --to elasticsearch-ltr
  rankplug export models:/search@champion -o ranker.onnx --to onnx
"""

_IMPORT_HELP = """\
formats: liblinear, svmrank, xgboost, lightgbm

The model can then be evaluated, compared, served and logged as any other. Files are checked as
saved models are; nothing in them is executed.

examples:
  rankplug import ranker.ubj --from xgboost -o ranker
  rankplug import model.txt --from liblinear --names features.txt -o ranker
"""


def add_export(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "write a model in the format of another system"
    parser = command_parser(commands, common, "export", text, _EXPORT_HELP)
    add_model_arguments(parser)
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="file to write")
    parser.add_argument("--to", required=True, metavar="FORMAT", help="one of those below")
    parser.set_defaults(command=_export)


def _export(args: argparse.Namespace) -> int:
    model = open_model(args)
    from rankplug.exchange import export

    notes = export(model, args.out, args.to)
    print(f"{args.to}: {args.out}")
    _print_notes(notes)
    return 0


def add_import(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "make a model of another system's model file"
    parser = command_parser(commands, common, "import", text, _IMPORT_HELP)
    parser.add_argument("file", metavar="FILE", help="model file")
    parser.add_argument(
        "--from", required=True, metavar="FORMAT", dest="format", help="one of those below"
    )
    parser.add_argument("-o", "--out", required=True, metavar="DIR", help="folder to make")
    parser.add_argument(
        "--names", metavar="FILE", help="text file with the names of the features, one a line"
    )
    parser.set_defaults(command=_import)


def _import(args: argparse.Namespace) -> int:
    from rankplug.exchange import import_model

    names = None if args.names is None else _read_names(Path(args.names))
    model, notes = import_model(args.file, args.format, feature_names=names)
    model.save(args.out)
    print(f"a model of kind {model.kind} of {model.n_features:,} features: {args.out}")
    _print_notes(notes)
    return 0


def _read_names(path: Path) -> list[str]:
    from rankplug.exceptions import DataError

    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{path} is no text in UTF-8") from None


def _print_notes(notes: list[str]) -> None:
    for note in notes:
        print(f"note: {note}")
