"""``rankplug show``: the rankings of a model, or of two, as a page to look at and to turn."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rankplug.cli.documents import add_label_argument, read_documents
from rankplug.cli.models import (
    add_log_argument,
    add_model_arguments,
    naming,
    open_model,
    use_tracking_store,
)
from rankplug.cli.shared import (
    add_data_argument,
    add_notation_arguments,
    add_qid_argument,
    command_parser,
)

_HELP = """\
examples:
  rankplug show out/model test.csv                                  rankings.html
  rankplug show out/model test.csv --against models:/web@champion   two models, side by side
  rankplug show out/model test.csv --display title --display price -o page.html

The page is one file that needs no network. Weights and curves of linear and additive models can be
turned on it: lists and NDCG follow, and what it writes down is a model for 'rankplug predict'.
"""


def add_show(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "write a page with the rankings of a model or two, and why they are so"
    parser = command_parser(commands, common, "show", text, _HELP)
    add_model_arguments(parser)
    add_data_argument(parser)
    parser.add_argument("--against", metavar="MODEL", help="a second model")
    parser.add_argument(
        "-o", "--out", default="rankings.html", metavar="PAGE", help="file to write (%(default)s)"
    )
    parser.add_argument(
        "--display",
        action="append",
        metavar="COLUMN",
        help="column that describes a document, such as a title; may be repeated (default: those "
        "that name it, as the model knows them)",
    )
    add_label_argument(parser)
    add_log_argument(parser, "the page")
    add_qid_argument(parser, "that of the training, or qid")
    add_notation_arguments(parser, "as in the model's training, else from 1")
    parser.set_defaults(command=_show)


def _show(args: argparse.Namespace) -> int:
    from rankplug.exceptions import DataError
    from rankplug.io.files import replacing
    from rankplug.report import show_rankings

    names = [args.model] if args.against is None else [args.model, args.against]
    models = [open_model(naming(args, name)) for name in names]
    if any(model.n_labels is not None for model in models):
        raise DataError("rankings of documents can be shown, but the model orders labels")
    documents, entrants = read_documents(args, dict(zip(_short(names), models, strict=True)))
    saved = {one.name: _lasting(name) for one, name in zip(entrants, names, strict=True)}
    title = f"{' and '.join(one.name for one in entrants)}: {Path(args.data).name}"
    page = show_rankings(title, documents, entrants, saved)
    with replacing(Path(args.out)) as stream:
        stream.write(page.encode())
    print(f"{len(documents.query_ids):,} queries: {args.out}")
    if args.log_to:
        from rankplug.mlflow.explanations import log_page

        use_tracking_store(args.tracking_uri)
        print(f"logged to run {args.log_to}: {log_page(Path(args.out), args.log_to)}")
    return 0


def _short(names: list[str]) -> list[str]:
    """The last parts of the models' names, or all of them if these are alike."""
    last = [Path(name).name or name for name in names]
    return last if len(set(last)) == len(names) else names


def _lasting(name: str) -> str:
    """A name of the model that holds wherever an adjustment is saved."""
    return str(Path(name).absolute()) if Path(name).exists() else name
