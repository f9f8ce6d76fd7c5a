"""``rankplug explain``: why a row stands above another, or what moves rows in their queries."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rankplug.cli.documents import add_label_argument, read_documents
from rankplug.cli.models import (
    add_log_argument,
    add_model_arguments,
    open_model,
    parse_count,
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
    from rankplug.explain import Explanation
    from rankplug.models import Model

_HELP = """\
examples:
  rankplug explain out/model test.csv                        what moves rows within queries
  rankplug explain out/model test.csv --metric ndcg@10       and what the metric owes to it
  rankplug explain out/model test.csv --query q17            what sets its rows apart
  rankplug explain out/model test.csv --above 31 --below 40  why one stands above the other

Rows are counted from 0 in the file, as those of 'rankplug predict --output top_k'. Contributions
of linear, additive and boosted models are exact, those of others sampled, with their error. They
are what the features add to scores, less what they add on average in the query.
"""


def add_explain(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command's parser."""
    text = "say why a row stands above another, or what moves rows in their queries"
    parser = command_parser(commands, common, "explain", text, _HELP)
    add_model_arguments(parser)
    add_data_argument(parser)
    parser.add_argument("--query", metavar="ID", help="the query to explain")
    parser.add_argument("--above", type=int, metavar="ROW", help="a row, and with --below ...")
    parser.add_argument("--below", type=int, metavar="ROW", help="... another of the same query")
    parser.add_argument(
        "--top", type=parse_count, metavar="N", help="features to show (default: some)"
    )
    parser.add_argument(
        "--metric", metavar="M", help="of all rows also by how much it falls without each feature"
    )
    add_label_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_log_argument(parser, "the whole table")
    add_qid_argument(parser, "that of the training, or qid")
    add_notation_arguments(parser, "as in the model's training, else from 1")
    parser.set_defaults(command=_explain, display=None)


def _explain(args: argparse.Namespace) -> int:
    from rankplug.exceptions import ParameterError
    from rankplug.explain import explain_query

    if (args.above is None) != (args.below is None):
        raise ParameterError("--above and --below go together: the two rows to compare")
    model = open_model(args)
    if args.query is None and args.above is None:
        _show(_explain_model(model, args), args)
        return 0
    if args.metric is not None:
        raise ParameterError(
            "--metric measures all queries: leave out --query, --above and --below"
        )
    query = _query_of(model, args) if args.query is None else args.query
    X, _, rows = _read_rows(model, args, query)
    of_query = explain_query(model, X, rows=rows)
    if args.above is not None:
        _show(of_query.pair(args.above, args.below), args)
    else:
        _show(of_query, args)
    return 0


def _explain_model(model: Model, args: argparse.Namespace) -> Explanation:
    from rankplug.explain import explain_model

    if args.metric is None:
        X, qid, _ = _read_rows(model, args, None)
        return explain_model(model, X, qid=qid)
    import numpy as np

    from rankplug.exceptions import DataError

    documents, (entrant,) = read_documents(args, {args.model: model})
    if documents.relevance is None:
        raise DataError(f"{args.data}: --metric needs the relevance: name its column with --label")
    assert entrant.features is not None
    X = entrant.features(np.arange(len(documents.rows)))
    y, qid = documents.relevance, documents.row_query
    return explain_model(model, X, qid=qid, y=y, metric=args.metric)


def _show(explanation: Explanation, args: argparse.Namespace) -> None:
    if args.json:
        print(explanation.table(args.top).to_json(orient="records", indent=2))
    else:
        print(explanation.to_text(args.top))
    if args.log_to:
        import rankplug.mlflow

        use_tracking_store(args.tracking_uri)
        parts = [args.query] if args.above is None else [args.above, args.below]
        name = "_".join(["explanation", *(str(part) for part in parts if part is not None)])
        logged = rankplug.mlflow.log_explanation(explanation, args.log_to, f"{name}.json")
        # JSON is read by programs.
        print(f"logged to run {args.log_to}: {logged}", file=sys.stderr if args.json else None)


def _read_rows(model: Model, args: argparse.Namespace, query: str | None) -> tuple[Any, Any, Any]:
    """Features, queries and numbers of the rows of a query, or of all."""
    import numpy as np

    from rankplug.exceptions import DataError

    parts, ids, rows = [], [], []
    for start, X, qid in _batches(model, args):
        texts = _texts(qid, X.shape[0])
        chosen = np.arange(len(texts)) if query is None else np.flatnonzero(texts == query)
        if len(chosen):
            parts.append(X.take(chosen) if hasattr(X, "schema") else X[chosen])
            ids.append(texts[chosen])
            rows.append(start + chosen)
    if not parts:
        raise DataError(f"{args.data}: no row is of query {query!r}")
    return _joined(parts), np.concatenate(ids), np.concatenate(rows)


def _query_of(model: Model, args: argparse.Namespace) -> str:
    """The query of the row ``--above``."""
    from rankplug.exceptions import DataError

    n_rows = 0
    for start, X, qid in _batches(model, args):
        n_rows = start + X.shape[0]
        if start <= args.above < n_rows:
            return str(_texts(qid, X.shape[0])[args.above - start])
    raise DataError(f"{args.data}: no row {args.above}, as there are {n_rows}, counted from 0")


def _batches(model: Model, args: argparse.Namespace) -> Iterator[tuple[int, Any, Any]]:
    """The number of the first row, the features and the queries of each batch."""
    from rankplug.io.predictions import read_batches_for
    from rankplug.models.answers import Form, require_queries

    n_rows = 0
    for batch in read_batches_for(model, args.data, qid=args.qid, **notation(args)):
        require_queries(model, Form("rank"), batch.qid)
        yield n_rows, batch.X, batch.qid
        n_rows += batch.X.shape[0]


def _texts(qid: Any, n_rows: int) -> Any:
    """Query ids as they are written; without any all rows are of query 0."""
    import numpy as np

    return np.full(n_rows, "0") if qid is None else np.asarray(qid).astype(str)


def _joined(parts: list[Any]) -> Any:
    """The rows of arrays, sparse matrices or Arrow tables."""
    if hasattr(parts[0], "schema"):
        import pyarrow as pa

        return pa.concat_tables(parts)
    from rankplug.data import stack_rows

    return stack_rows(parts)
