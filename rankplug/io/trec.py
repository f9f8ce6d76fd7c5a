"""Runs and relevance judgements (qrels) in the text formats of TREC.

A line of a run is ``query Q0 document rank score tag``, a line of qrels ``query iteration document
relevance``, fields between blanks or tabs. As in trec_eval the order of a run is that of its
scores: the ranks are written, and not read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from rankplug.data import id_texts, tables
from rankplug.exceptions import DataError
from rankplug.io.files import ENOUGH_PROBLEMS, InputFile, problems, replacing, text_suffix

if TYPE_CHECKING:
    import pandas as pd

_RUN = ("query", "Q0", "document", "rank", "score", "tag")
_QRELS = ("query", "iteration", "document", "relevance")

_KEY = ["query_id", "doc_id"]
_TAG = "rankplug"

DOCUMENT_COLUMNS = ("doc_id", "docid", "docno", "did", "document_id", "document")
"""What columns of documents' ids are often called."""


def read_run(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The rows of a run, in the order of the file.

    Parameters
    ----------
    path : path
        May be compressed.

    Returns
    -------
    DataFrame
        ``query_id`` and ``doc_id``, texts, and ``score``, as `ir_measures` has them.

    Raises
    ------
    DataError
        If a line has other fields, a score is no finite number, or a document stands twice in a
        query.
    """
    return _read(path, _RUN, "score", np.float64)


def read_qrels(path: str | os.PathLike[str]) -> pd.DataFrame:
    """The judgements of qrels, in the order of the file.

    Parameters
    ----------
    path : path
        May be compressed.

    Returns
    -------
    DataFrame
        ``query_id`` and ``doc_id``, texts, and ``relevance``, an integer; 0 and less is not
        relevant.

    Raises
    ------
    DataError
        If a line has other fields, a relevance is no whole number, or a document is judged twice
        for a query.
    """
    return _read(path, _QRELS, "relevance", np.int64)


def write_run(run: Any, path: str | os.PathLike[str], tag: str = _TAG) -> None:
    """Write a run, whole or not at all; an earlier file of that name is replaced.

    Queries stand in the order in which they first appear, the documents of each from the highest
    score to the lowest (of equal ones, by falling id, as trec_eval reads them). Scores are read
    back as they were, bit by bit, if they are below 1e300.

    Parameters
    ----------
    run : pandas, polars or Arrow table
        ``query_id``, ``doc_id`` and ``score``.
    path : path
        Compressed if it ends in .gz, .bz2 or .xz.
    tag : str
        The name of the run, without blanks.

    Raises
    ------
    DataError
        If a column or an id is missing, an id or the tag holds blanks or is empty, a score is no
        finite number, or a document stands twice in a query.
    """
    frame = _checked(run, "score")
    _require_word([tag], "tag")
    with replacing(Path(path)) as stream:
        append_run(frame, stream, tag)


def write_qrels(qrels: Any, path: str | os.PathLike[str]) -> None:
    """Write judgements, whole or not at all; an earlier file of that name is replaced.

    Parameters
    ----------
    qrels : pandas, polars or Arrow table
        ``query_id``, ``doc_id`` and ``relevance``.
    path : path
        Compressed if it ends in .gz, .bz2 or .xz.

    Raises
    ------
    DataError
        If a column or an id is missing, an id holds blanks or is empty, a relevance is no whole
        number, or a document is judged twice for a query.
    """
    frame = _checked(qrels, "relevance")
    rows = zip(frame["query_id"], frame["doc_id"], frame["relevance"], strict=True)
    with replacing(Path(path)) as stream:
        stream.writelines(f"{query} 0 {doc} {grade:d}\n".encode() for query, doc, grade in rows)


def is_run(path: Path) -> bool:
    """Whether a file's name asks for a run: it ends in .run, or .run.gz and the like."""
    return text_suffix(path) == ".run"


@contextmanager
def run_writer(path: Path) -> Iterator[Callable[[Any, Any], None]]:
    """A function that appends whole queries to a run, which appears when the block ends.

    It takes the output of a prediction, with ``qid`` and ``score``, and an Arrow table of the same
    rows whose first column names the documents.
    """
    n_rows = 0
    with replacing(path) as stream:

        def write(output: pd.DataFrame, documents: Any) -> None:
            nonlocal n_rows
            if documents is None or not documents.num_columns:
                raise DataError(
                    f"{path}: a run names documents: predict a table, and name the column of their "
                    "ids with --id (ids of predict_file), or call it doc_id"
                )
            if "qid" not in output or "score" not in output:
                raise DataError(
                    f"{path}: a run ranks the documents of queries: name the column of the query "
                    "ids with --qid, and take a model that ranks documents"
                )
            name, column = documents.column_names[0], documents.column(0).to_pylist()
            ids = id_texts(column, f"{path}: the document's id, column {name!r},", n_rows)
            n_rows += len(ids)
            columns: dict[str, Any] = {"query_id": output["qid"].to_numpy(), "doc_id": ids}
            frame = output[["score"]].reset_index(drop=True).assign(**columns)
            append_run(_checked(frame, "score"), stream)

        yield write


def append_run(run: pd.DataFrame, stream: BinaryIO, tag: str = _TAG) -> None:
    """Write the lines of whole queries; ids must be texts without blanks, scores finite."""
    query, _ = _codes(run["query_id"])
    document = _codes(run["doc_id"], sort=True)[0]
    score = run["score"].to_numpy(dtype=np.float64)
    order = np.lexsort((-document, -score, query))
    starts = np.flatnonzero(np.diff(query[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order))) + 1
    rows = zip(
        run["query_id"].to_numpy()[order],
        run["doc_id"].to_numpy()[order],
        rank.tolist(),
        score[order].tolist(),
        strict=True,
    )
    stream.writelines(
        f"{query} Q0 {doc} {place} {value!r} {tag}\n".encode() for query, doc, place, value in rows
    )


def _codes(values: Any, *, sort: bool = False) -> tuple[Any, Any]:
    import pandas as pd

    return pd.factorize(values, sort=sort)


def _read(
    path: str | os.PathLike[str], fields: tuple[str, ...], value: str, dtype: Any
) -> pd.DataFrame:
    import pandas as pd

    file = InputFile(path)
    with file.open() as stream:
        lines = _Lines(file, fields)
        columns = [list(column) for column in zip(*lines.read(stream), strict=True)]
    if not columns:
        raise DataError(f"{file} is empty: it needs lines {' '.join(fields)!r}")
    numbers = lines.numbers(columns[2], dtype)
    frame = pd.DataFrame({"query_id": columns[0], "doc_id": columns[1], value: numbers})
    twice = frame.duplicated(_KEY).to_numpy()
    if twice.any():
        row = int(np.flatnonzero(twice)[0])
        query, doc = frame.loc[row, "query_id"], frame.loc[row, "doc_id"]
        raise DataError(f"{file}, line {lines.line_of(row)}: {_says_twice(query, doc)}")
    return frame


def _says_twice(query: Any, document: Any) -> str:
    return f"document {document!r} stands twice in query {query!r}"


class _Lines:
    """The lines of a file of TREC, and where each row stood."""

    def __init__(self, file: InputFile, fields: tuple[str, ...]) -> None:
        self._file = file
        self._fields = fields
        self._blank: list[int] = []  # rows read before each blank line

    def read(self, stream: BinaryIO) -> Iterator[tuple[str, str, str]]:
        """Query, document and value of each line."""
        value = -2 if len(self._fields) == len(_RUN) else -1
        wrong: list[str] = []
        n_rows = 0
        for number, line in enumerate(iter(lambda: self._file.read_line(stream), b""), start=1):
            try:
                words = line.decode("utf-8-sig" if number == 1 else "utf-8").split()
            except UnicodeDecodeError:
                wrong.append(f"line {number}: it is not UTF-8")
                continue
            if not words:
                self._blank.append(n_rows)
            elif len(words) != len(self._fields):
                wrong.append(
                    f"line {number}: {len(words)} fields instead of the {len(self._fields)} of "
                    f"{' '.join(self._fields)!r}: {' '.join(words)[:60]!r}"
                )
                if len(wrong) >= ENOUGH_PROBLEMS:
                    break
            else:
                n_rows += 1
                yield words[0], words[2], words[value]
        if wrong:
            raise problems(self._file, wrong[:ENOUGH_PROBLEMS])

    def line_of(self, row: int) -> int:
        """The number of the line on which a row stood, counted from 1."""
        return row + 1 + sum(before <= row for before in self._blank)

    def numbers(self, texts: list[str], dtype: Any) -> Any:
        """The values; raises `DataError` that names the lines of those that are none."""
        try:
            numbers = np.array(texts, dtype=dtype)
        except (ValueError, OverflowError):
            numbers = None
        if numbers is not None and np.isfinite(numbers).all():
            return numbers
        kind = "a finite number" if dtype is np.float64 else "a whole number"
        wrong = [
            f"line {self.line_of(row)}: {self._fields[-2 if dtype is np.float64 else -1]} "
            f"{text!r} is not {kind}"
            for row, text in enumerate(texts)
            if not _is_number(text, dtype)
        ]
        raise problems(self._file, wrong[:ENOUGH_PROBLEMS])


def _is_number(text: str, dtype: Any) -> bool:
    try:
        return bool(np.isfinite(np.array([text], dtype=dtype)).all())
    except (ValueError, OverflowError):
        return False


def _checked(frame: Any, value: str) -> Any:
    """The three columns, ids as texts; raises `DataError` if they cannot be written."""
    frame = tables.collected(frame)
    there = tables.column_names(frame) if tables.is_table(frame) else []
    missing = [name for name in (*_KEY, value) if name not in there]
    if missing:
        raise DataError(f"no column {', '.join(missing)}: name them query_id, doc_id and {value}")
    chosen = tables.frame_of(frame, [*_KEY, value])
    chosen = chosen.assign(**{name: id_texts(chosen[name].tolist(), name) for name in _KEY})
    for name in _KEY:
        _require_word(chosen[name].unique(), name)
    numbers = chosen[value].to_numpy()
    fits = numbers.dtype.kind in ("iuf" if value == "score" else "iu")
    if not fits or not np.isfinite(numbers).all():
        kind = "finite numbers" if value == "score" else "integers"
        raise DataError(f"column {value}: it must hold {kind}")
    twice = chosen.duplicated(_KEY).to_numpy()
    if twice.any():
        first = chosen.iloc[int(np.flatnonzero(twice)[0])]
        raise DataError(_says_twice(first["query_id"], first["doc_id"]))
    return chosen


def _require_word(values: Iterable[Any], what: str) -> None:
    for value in values:
        if len(str(value).split()) != 1 or str(value).split()[0] != str(value):
            raise DataError(f"{what} {value!r}: TREC's files need words without blanks")
