"""Prediction of files batch by batch, for files that need not fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from rankplug.exceptions import DataError
from rankplug.io.batches import Batch, read_batches
from rankplug.io.writing import table_writer
from rankplug.models import Model
from rankplug.models.answers import Form, answer, label_names

__all__ = ["predict_file"]

_SCORES = Form()


class _Scored(NamedTuple):
    """Consecutive rows of the file: the number of the first, their scores and query ids."""

    row: int
    scores: NDArray[np.float64]
    qid: NDArray[Any] | None

    def part(self, start: int, stop: int | None = None) -> _Scored:
        qid = None if self.qid is None else self.qid[start:stop]
        return _Scored(self.row + start, self.scores[start:stop], qid)


def predict_file(
    model: Model,
    data: str | Path,
    out: str | Path,
    *,
    form: Form = _SCORES,
    qid: str | None = None,
    batch_rows: int = 10_000,
    progress: bool = True,
) -> int:
    """Score the rows of a file and write a table, in memory for one batch of features.

    Ranks need whole queries: the scores (not the features) of a query that crosses batches are
    kept until it ends. Without query ids the whole file is one query.

    Parameters
    ----------
    model : Model
    data : path
        svmlight text, CSV, Parquet or Arrow, see `rankplug.io.batches.read_batches`.
    out : path
        .csv, .tsv, .parquet or .arrow; appears whole or not at all.
    form : Form
        Output "score": a row for each of `data`, with its ``qid`` (if there is one) and
        ``score``, or the scores of the labels. "rank": the same with the rank. "top_k": the best
        rows of each query, or the best labels of each row, with ``row``, counted from 0.
    qid : str, optional
        Column of a table that holds the query ids, "qid" if omitted and there is one.
    batch_rows : int
        Rows to read at a time.
    progress : bool
        Show a bar if standard error is a terminal.

    Returns
    -------
    int
        The number of rows that were scored.

    Raises
    ------
    DataError
        If the data are not valid, or ranks are wanted and a query's rows do not stand together.
    ParameterError
        If `out` does not say what to write.
    """
    import pyarrow as pa

    batches = read_batches(
        data,
        n_features=model.n_features,
        feature_names=model.feature_names,
        qid=qid,
        batch_rows=batch_rows,
    )
    with table_writer(Path(out)) as write, closing(_Bar(progress)) as bar:
        for frame in _frames(model, _score(model, batches, bar), form):
            write(pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata())
    return bar.rows


class _Bar:
    """A bar of the fraction of the file that was read, with the number of rows."""

    def __init__(self, shown: bool) -> None:
        self.rows = 0
        form = "{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
        self._bar = tqdm(total=1.0, bar_format=form, disable=None if shown else True)

    def move(self, fraction: float, rows: int) -> None:
        """Show that rows were scored and how much of the file was read."""
        self.rows += rows
        self._bar.set_postfix_str(f"{self.rows:,} rows", refresh=False)
        self._bar.update(fraction - self._bar.n)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


def _score(model: Model, batches: Iterable[Batch], bar: _Bar) -> Iterator[_Scored]:
    row = 0
    for batch in batches:
        try:
            scores = model.predict(batch.X)
        except DataError as error:
            raise DataError(f"in the rows from {row} on: {error}" if row else str(error)) from None
        yield _Scored(row, scores, batch.qid)
        row += len(scores)
        bar.move(batch.fraction, len(scores))


def _frames(model: Model, scored: Iterable[_Scored], form: Form) -> Iterator[pd.DataFrame]:
    labels = label_names(model)
    if form.output == "score":
        for rows in scored:
            yield _score_frame(rows, labels)
        return
    for rows in scored if labels is not None else _whole_queries(scored):
        frame = answer(rows.scores, form, rows.qid, labels)
        yield frame if form.output == "rank" else frame.assign(row=frame["row"] + rows.row)


def _score_frame(rows: _Scored, labels: NDArray[Any] | None) -> pd.DataFrame:
    if labels is not None:
        return pd.DataFrame(rows.scores, columns=labels.astype(str))
    ids = {} if rows.qid is None else {"qid": rows.qid}
    return pd.DataFrame({**ids, "score": rows.scores})


def _whole_queries(scored: Iterable[_Scored]) -> Iterator[_Scored]:
    """The same rows, cut between queries only."""
    seen: set[Any] = set()
    kept: list[_Scored] = []  # the query that may go on in the next batch
    for rows in scored:
        start = 0 if rows.qid is None else _start_of_last_query(rows.qid)
        if start or (kept and rows.qid is not None and rows.qid[0] != kept[0].qid[0]):  # type: ignore[index]
            yield _check_whole(_join([*kept, rows.part(0, start)]), seen)
            kept = []
        kept.append(rows.part(start))
    if kept:
        yield _check_whole(_join(kept), seen)


def _start_of_last_query(qid: NDArray[Any]) -> int:
    changes = np.flatnonzero(qid[1:] != qid[:-1])
    return int(changes[-1]) + 1 if len(changes) else 0


def _join(parts: list[_Scored]) -> _Scored:
    scores = np.concatenate([part.scores for part in parts])
    ids = [part.qid for part in parts if part.qid is not None]
    return _Scored(parts[0].row, scores, np.concatenate(ids) if ids else None)


def _check_whole(rows: _Scored, seen: set[Any]) -> _Scored:
    """The rows, if none of their queries has come before."""
    if rows.qid is None:
        return rows
    heads = np.concatenate(([0], np.flatnonzero(rows.qid[1:] != rows.qid[:-1]) + 1))
    for head, query in zip(heads, rows.qid[heads].tolist(), strict=True):
        if query in seen:
            raise DataError(
                f"row {rows.row + head}: query {query!r} goes on after other queries, so its ranks "
                "cannot be told batch by batch: sort the file by query, or ask for scores"
            )
        seen.add(query)
    return rows
