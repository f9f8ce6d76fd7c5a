"""Prediction of files batch by batch, for files that need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankplug.data import tables
from rankplug.exceptions import DataError, ParameterError
from rankplug.io.batches import Batch, read_batches
from rankplug.io.prepared.npy import Bar
from rankplug.io.trec import DOCUMENT_COLUMNS, is_run, run_writer
from rankplug.io.writing import table_writer
from rankplug.models import Model
from rankplug.models.answers import Form, answer, label_names, require_queries

_SCORES = Form()


class _ScoredRows(NamedTuple):
    """Consecutive rows of the file: number of the first, scores, query ids, columns kept."""

    row: int
    scores: NDArray[np.float64]
    qid: NDArray[Any] | None
    kept: Any = None

    def part(self, start: int, stop: int | None = None) -> _ScoredRows:
        rows = slice(start, stop)
        qid = None if self.qid is None else self.qid[rows]
        n_rows = len(self.scores[rows])
        kept = None if self.kept is None else self.kept.slice(start, n_rows)
        return _ScoredRows(self.row + start, self.scores[rows], qid, kept)


def predict_file(
    model: Model,
    data: str | Path,
    out: str | Path,
    *,
    form: Form = _SCORES,
    qid: str | None = None,
    zero_based: bool | None = None,
    separator: str | None = None,
    decimal: Literal[".", ","] | None = None,
    ids: Sequence[str] | None = None,
    batch_rows: int = 10_000,
    progress: bool = True,
) -> int:
    """Score the rows of a file and write a table, in memory for one batch of features.

    Ranks need whole queries: the scores (not the features) of a query that crosses batches are
    kept until it ends. Without query ids the whole file is one query, if the model was trained
    on one.

    Parameters
    ----------
    model : Model
    data : path
        svmlight text, CSV, Parquet or Arrow, see `rankplug.io.batches.read_batches`.
    out : path
        .csv, .tsv, .parquet or .arrow, or .run for a run in TREC's format (perhaps .run.gz), which
        needs ids of queries and documents; appears whole or not at all.
    form : Form
        Output "score": a row for each of `data`, with its ``qid`` (if there is one) and
        ``score``, or the scores of the labels. "rank": the same with the rank. "top_k": the best
        rows of each query, or the best labels of each row, with ``row``, counted from 0.
    qid : str, optional
        Column of a table that holds the query ids; if omitted, that of the model's training, or
        else "qid", if there is one.
    zero_based : bool, optional
        Whether the indices of svmlight text begin at 0; as in the model's training if omitted.
    separator, decimal : str, optional
        Of CSV, as for `rankplug.read_data`.
    ids : sequence of str, optional
        Columns of a table, such as a document's id, that stand first in the output; if omitted,
        those that the model knows, if they are there. For a run the one of the documents' ids; if
        omitted, the first that the model knows, or ``doc_id``, ``docid`` or ``docno``.
    batch_rows : int
        Rows to read at a time.
    progress : bool
        Show a bar if standard error is a terminal or a notebook's.

    Returns
    -------
    int
        The number of rows that were scored.

    Raises
    ------
    DataError
        If the data are not valid, or ranks are wanted and a query's rows do not stand together,
        or there are no query ids although the model was trained on several queries.
    ParameterError
        If `out` does not say what to write, or is the file of the data.
    """
    import pyarrow as pa

    if form.output == "contributions":
        raise ParameterError("contributions are not written to files: rankplug explain shows them")
    makes_run, ids = is_run(Path(out)), None if ids is None else tables.listed(ids)
    if makes_run and ids is not None and len(ids) != 1:
        raise ParameterError(f"id: a run has one id for each document, not {', '.join(ids)}")
    if Path(out).exists() and Path(data).exists() and Path(out).samefile(data):
        raise ParameterError(f"{out}: predictions are not written over their data: name a new file")
    batches = read_batches_for(
        model,
        data,
        qid=qid,
        zero_based=zero_based,
        separator=separator,
        decimal=decimal,
        ids=ids,
        id_columns=(*model.id_columns, *(DOCUMENT_COLUMNS if makes_run else ())),
        batch_rows=batch_rows,
    )
    n_rows = 0
    writer: Any = run_writer if makes_run else table_writer
    with writer(Path(out)) as write, Bar("predicting", "row", shown=progress) as bar:

        def score() -> Iterator[_ScoredRows]:
            nonlocal n_rows
            for batch in batches:
                require_queries(model, form, batch.qid)
                try:
                    scores = model.predict(batch.X)
                except DataError as error:
                    where = f"in the rows from {n_rows} on: " if n_rows else ""
                    raise DataError(f"{where}{error}") from None
                yield _ScoredRows(n_rows, scores, batch.qid, batch.kept)
                n_rows += len(scores)
                bar.move_to(n_rows, total=round(n_rows / batch.fraction))

        for frame, kept in _frames(model, score(), form, whole=makes_run):
            if makes_run:
                write(frame, kept)
                continue
            table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
            write(table if kept is None else _beside(kept.replace_schema_metadata(), table, ids))
    return n_rows


def read_batches_for(model: Model, data: str | Path, **options: Any) -> Iterator[Batch]:
    """The rows of a file in the columns that a model takes; `options` as for `read_batches`."""
    names = model.feature_names
    options = {"id_columns": model.id_columns, **options}
    return read_batches(
        data,
        n_features=model.n_features,
        feature_names=names,
        query_column=model.query_column,
        usually_zero_based=model.zero_based,
        free={names[j] for j in model.free_features()} if names else (),
        **options,
    )


def _frames(
    model: Model, scored: Iterable[_ScoredRows], form: Form, *, whole: bool
) -> Iterator[tuple[pd.DataFrame, Any]]:
    """Rows of the output, and the columns that are kept of them."""
    labels = label_names(model)
    if form.output == "score":
        for rows in _whole_queries(scored) if whole else scored:
            yield _score_frame(rows, labels), rows.kept
        return
    for rows in scored if labels is not None else _whole_queries(scored):
        frame = answer(rows.scores, form, rows.qid, labels)
        if form.output == "rank":
            yield frame, rows.kept
        else:
            kept = None if rows.kept is None else rows.kept.take(frame["row"].to_numpy())
            yield frame.assign(row=frame["row"] + rows.row), kept


def _beside(kept: Any, table: Any, ids: Sequence[str] | None) -> Any:
    """The table with the columns that are kept before its own."""
    both = [name for name in kept.column_names if name in table.column_names]
    if both and ids is not None:
        raise ParameterError(
            f"id: the output has a column {both[0]!r} of its own: rename it in the data"
        )
    for name in reversed([name for name in kept.column_names if name not in both]):
        table = table.add_column(0, name, kept.column(name))
    return table


def _score_frame(rows: _ScoredRows, labels: NDArray[Any] | None) -> pd.DataFrame:
    if labels is not None:
        return pd.DataFrame(rows.scores, columns=labels.astype(str))
    ids = {} if rows.qid is None else {"qid": rows.qid}
    return pd.DataFrame({**ids, "score": rows.scores})


def _whole_queries(scored: Iterable[_ScoredRows]) -> Iterator[_ScoredRows]:
    """The same rows, cut between queries only."""
    seen: set[Any] = set()
    kept: list[_ScoredRows] = []  # the query that may go on in the next batch
    for rows in scored:
        start = 0 if rows.qid is None else int(_starts(rows.qid)[-1])
        if start or (kept and rows.qid is not None and rows.qid[0] != kept[0].qid[0]):  # type: ignore[index]
            yield _join([*kept, rows.part(0, start)], seen)
            kept = []
        kept.append(rows.part(start))
    if kept:
        yield _join(kept, seen)


def _starts(qid: NDArray[Any]) -> NDArray[np.int64]:
    """The rows at which another query begins."""
    return np.concatenate(([0], np.flatnonzero(qid[1:] != qid[:-1]) + 1))


def _join(parts: list[_ScoredRows], seen: set[Any]) -> _ScoredRows:
    """The rows of all parts, if none of their queries has come before."""
    row, scores = parts[0].row, np.concatenate([part.scores for part in parts])
    ids = [part.qid for part in parts if part.qid is not None]
    kept = None
    if parts[0].kept is not None:
        import pyarrow as pa

        kept = pa.concat_tables([part.kept for part in parts])
    if not ids:
        return _ScoredRows(row, scores, None, kept)
    qid = np.concatenate(ids)
    starts = _starts(qid)
    for start, query in zip(starts, qid[starts].tolist(), strict=True):
        if query in seen:
            raise DataError(
                f"row {row + start}: query {query!r} goes on after other queries, so its ranks "
                "cannot be told batch by batch: sort the file by query, or ask for scores"
            )
        seen.add(query)
    return _ScoredRows(row, scores, qid, kept)
