"""Files as documents with labels and columns that describe them, for commands that show models."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankplug.cli.shared import notation

if TYPE_CHECKING:
    from rankplug.models import Model
    from rankplug.report import Documents, Entrant


def add_label_argument(parser: argparse.ArgumentParser) -> None:
    """Add the column of the relevance."""
    parser.add_argument(
        "--label",
        metavar="COLUMN",
        help="column of the relevance (default: label, if there is one)",
    )


def read_documents(
    args: argparse.Namespace, models: dict[str, Model]
) -> tuple[Documents, list[Entrant]]:
    """The documents of the file, and the models, by name, with their scores.

    Columns that describe the documents are those of ``args.display``, or the models' ids.
    """
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
