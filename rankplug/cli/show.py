"""``rankplug show``: the rankings of a model, or of two, as a page to look at and to turn."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    notation,
)

if TYPE_CHECKING:
    from rankplug.models import Model
    from rankplug.report import Documents, Entrant

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
    parser.add_argument(
        "--label",
        metavar="COLUMN",
        help="column of the relevance (default: label, if there is one)",
    )
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
    documents, entrants = _read(args, dict(zip(_short(names), models, strict=True)))
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


def _read(args: argparse.Namespace, models: dict[str, Model]) -> tuple[Documents, list[Entrant]]:
    """The documents of the file, and the models with their scores."""
    from rankplug.io.files import InputFile, Notation

    if Path(args.data).is_dir():
        return _read_data(args, models)
    format_ = InputFile(args.data, Notation(**notation(args)).check()).find_format()
    return (_read_data if format_ == "svmlight" else _read_table)(args, models)


def _read_data(
    args: argparse.Namespace, models: dict[str, Model]
) -> tuple[Documents, list[Entrant]]:
    """Of svmlight text and prepared folders, which have labels and no other columns."""
    from rankplug.exceptions import ParameterError
    from rankplug.io import read_data
    from rankplug.models import predict_data
    from rankplug.report import Documents, Entrant, features_of

    if args.display:
        raise ParameterError(f"--display: {args.data} has no columns to show")
    model = next(iter(models.values()))
    options: dict[str, Any] = {}
    if not Path(args.data).is_dir():
        zero_based = model.zero_based if args.zero_based is None else args.zero_based
        options = {"n_features": model.n_features, "zero_based": zero_based}
    data = read_data(args.data, **options)
    entrants = [
        Entrant(name, predict_data(model, data), model=model, features=features_of(data, model))
        for name, model in models.items()
    ]
    return Documents.of(data), entrants


def _read_table(
    args: argparse.Namespace, models: dict[str, Model]
) -> tuple[Documents, list[Entrant]]:
    """Of tables, of which each model takes the columns that it knows."""
    import numpy as np

    from rankplug.data import group_queries, take_rows
    from rankplug.exceptions import DataError
    from rankplug.report import Documents, Entrant

    entrants, documents = [], None
    for name, model in models.items():
        X, qid, kept = _read_columns(args, model)
        ptr, ids, order = group_queries(qid, X.shape[0])
        rows = np.arange(X.shape[0]) if order is None else order
        X = X.take(rows) if hasattr(X, "schema") else take_rows(X, rows)
        if documents is None:
            relevance, shown = _relevance_and_shown(args, kept)
            relevance = None if relevance is None else relevance[rows]
            shown = None if shown is None else shown.take(rows)
            documents = Documents(ids, ptr, relevance, rows, shown)
        elif not np.array_equal(documents.query_ids, ids):
            raise DataError(
                f"{args.data}: the models know different query columns: name it by --qid"
            )
        take = X.take if hasattr(X, "schema") else X.__getitem__
        entrants.append(Entrant(name, model.predict(X), model=model, features=take))
    assert documents is not None
    return documents, entrants


def _read_columns(args: argparse.Namespace, model: Model) -> tuple[Any, Any, Any]:
    """A model's features, the queries, and the columns beside them; None if there are none."""
    import numpy as np
    import pyarrow as pa

    from rankplug.data import stack_rows
    from rankplug.io.columns import DEFAULT_LABEL
    from rankplug.io.predictions import read_batches_for
    from rankplug.models.answers import Form, require_queries

    beside = (*(args.display or model.id_columns), args.label or DEFAULT_LABEL)
    options = {"qid": args.qid, "id_columns": tuple(dict.fromkeys(beside)), **notation(args)}
    batches = list(read_batches_for(model, args.data, **options))
    require_queries(model, Form("rank"), batches[0].qid)
    parts = [batch.X for batch in batches]
    X = pa.concat_tables(parts) if hasattr(parts[0], "schema") else stack_rows(parts)
    ids = [batch.qid for batch in batches if batch.qid is not None]
    kept = [batch.kept for batch in batches if batch.kept is not None]
    joined = pa.concat_tables(kept) if kept else None
    return X, np.concatenate(ids) if ids else None, joined


def _relevance_and_shown(args: argparse.Namespace, kept: Any) -> tuple[Any, Any]:
    """The relevance as numbers, and the other columns; what was asked for must be there."""
    from rankplug.data import real_vector, tables
    from rankplug.exceptions import DataError
    from rankplug.io.columns import DEFAULT_LABEL

    names = [] if kept is None else kept.column_names
    for name in (*(args.display or ()), *filter(None, [args.label])):
        if name not in names:
            raise DataError(f"{args.data}: no column {name!r}")
    label, relevance = args.label or DEFAULT_LABEL, None
    if label in names:
        (column,) = tables.to_matrix(_as_numbers(args, kept, label), [label]).T
        relevance = real_vector(column, f"relevance {label}", len(column))
    chosen = [name for name in names if name != label or name in (args.display or ())]
    return relevance, kept.select(chosen) if chosen else None


def _as_numbers(args: argparse.Namespace, kept: Any, label: str) -> Any:
    """The column of the relevance, which text files hold as text."""
    import pyarrow as pa

    from rankplug.exceptions import DataError

    try:
        return pa.table({label: kept.column(label).cast(pa.float64())})
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{args.data}, column {label!r}: relevance must be numbers: {error}"
        ) from None
