"""LETOR/svmlight text: ``relevance [qid:ID] index:value ... [# comment]``, a line a row.

Whole blocks of lines are parsed by Arrow's CSV parser, one ``index:value`` a record. Where that
parser or a check fails, `rankplug.io.svmlight_lines` reads the file line by line instead, which
either finds the lines at fault or accepts what is unusual but right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from rankplug.arrays import Matrix, index_type
from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.io.files import InputFile
from rankplug.io.rows import Rows, written_ids
from rankplug.io.svmlight_lines import parse_file, parse_lines

__all__ = ["read_svmlight", "svmlight_batches", "write_svmlight"]

_BLOCK = 1 << 24
_DENSE_ABOVE = 0.5
_HEAD = re.compile(rb"[ \t]*([^\s:]+)(?:[ \t]+qid:(\S+))?(?=\s|$)")
_BLANKS_TO_NEWLINES = bytes.maketrans(b" \t\r", b"\n\n\n")


def read_svmlight(
    files: Sequence[InputFile],
    *,
    n_features: int | None,
    dense: bool | None,
    dtype: DTypeLike,
) -> tuple[Matrix, NDArray[np.float64], NDArray[Any] | None]:
    """Features, relevance and query ids (None if there are none) of files, one after the other.

    Parameters
    ----------
    files : sequence of InputFile
    n_features : int, optional
        Columns of the matrix; the largest index if omitted.
    dense : bool, optional
        None means dense if at least half of the values are written in the files. A sparse
        matrix does not keep the zeros that are.
    dtype : float32 or float64
    """
    parts = [_read_file(file, n_features, dtype) for file in files]
    _require_same_kind(files, parts)
    rows = parts[0] if len(parts) == 1 else Rows.concatenate(parts)
    width = int(rows.indices.max(initial=0)) if n_features is None else n_features
    if width == 0:
        raise DataError(f"{', '.join(map(str, files))}: no features, only relevance and ids")
    ids = written_ids(rows.ids) if rows.has_query_ids else None
    return _matrix(rows, width, dense), rows.relevance, ids


def svmlight_batches(
    file: InputFile, n_features: int, n_lines: int
) -> Iterator[tuple[Matrix, NDArray[Any] | None]]:
    """Features and query ids (as text; None if there are none) of so many lines at a time.

    Raises
    ------
    DataError
        As `read_svmlight`; what is wrong in one batch is told when it is reached.
    """
    first_has_ids = None
    with file.open() as stream:
        numbered = enumerate(stream, start=1)
        while lines := list(islice(numbered, n_lines)):
            rows = _parse_batch(file, lines, n_features)
            if len(rows.relevance) == 0:
                continue
            if first_has_ids is None:
                first_has_ids = rows.has_query_ids
            if rows.has_query_ids != first_has_ids:
                change = "there is a qid" if rows.has_query_ids else "there is no qid"
                raise DataError(
                    f"{file}: from line {lines[0][0]} on {change}, unlike before: give a qid to "
                    "all lines or to none"
                )
            ids = np.array(rows.ids.to_pylist(), dtype=np.str_) if first_has_ids else None
            yield _matrix(rows, n_features, None), ids
    if first_has_ids is None:
        raise _no_rows(file)


def _parse_batch(file: InputFile, lines: list[tuple[int, bytes]], n_features: int) -> Rows:
    try:
        block = _parse_block(b"".join(line for _, line in lines), n_features, np.float64)
        rows = Rows.concatenate([block])  # whose arrays can be written, unlike Arrow's
    except ValueError:  # as in `_read_fast`
        return parse_lines(file, lines, n_features, np.float64)
    if rows.has_query_ids and not rows.has_all_query_ids:
        return parse_lines(file, lines, n_features, np.float64)
    return rows


def write_svmlight(data: RankingData, stream: BinaryIO) -> None:
    """Write data as text whose values are read back bit by bit; sparse zeros are left out."""
    ids = [str(value) for value in data.query_ids]
    wrong = [value for value in ids if not re.fullmatch(r"[^\s#]+", value)]
    if wrong:
        raise DataError(f"query id {wrong[0]!r} is empty or holds a blank or #: write CSV instead")
    if data.query_weight is not None:
        raise DataError("svmlight files cannot hold query weights: write CSV or Parquet instead")
    for q, query_id in enumerate(ids):
        for row in range(data.query_ptr[q], data.query_ptr[q + 1]):
            indices, values = _row(data.X, row)
            features = "".join(f" {j}:{_digits(v)}" for j, v in zip(indices, values, strict=True))
            line = f"{_digits(float(data.relevance[row]))} qid:{query_id}{features}\n"
            stream.write(line.encode())


def _read_file(file: InputFile, n_features: int | None, dtype: DTypeLike) -> Rows:
    rows = _read_fast(file, n_features, dtype)
    if rows is None:
        rows = parse_file(file, n_features, dtype)
    if len(rows.relevance) == 0:
        raise _no_rows(file)
    return rows


def _no_rows(file: InputFile) -> DataError:
    return DataError(f"{file} holds no rows: it is empty, or has blank and comment lines only")


def _read_fast(file: InputFile, n_features: int | None, dtype: DTypeLike) -> Rows | None:
    """All rows, or None if anything is irregular or wrong."""
    try:
        with file.open() as stream:
            blocks = [_parse_block(block, n_features, dtype) for block in _blocks(stream)]
    except DataError:
        raise
    except ValueError:  # Arrow's errors of parsing among them
        return None
    rows = Rows.concatenate(blocks)
    return rows if rows.has_all_query_ids or not rows.has_query_ids else None


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    block = stream.read(_BLOCK)
    yield block + stream.readline()  # one block even of an empty file
    while block := stream.read(_BLOCK):
        yield block + stream.readline()


def _parse_block(block: bytes, n_features: int | None, dtype: DTypeLike) -> Rows:
    """Parse whole lines; raises ValueError if they are in any way irregular or wrong."""
    import pyarrow as pa

    if b"#" in block:
        block = re.sub(rb"#[^\n]*", b"", block)
    relevance, ids, counts, features = [], [], [], []
    for line in block.split(b"\n"):
        head = _HEAD.match(line)
        if head is not None:
            relevance.append(head[1])
            ids.append(head[2])
            features.append(line[head.end() :])
            counts.append(line.count(b":", head.end()))
        elif line.strip():
            raise ValueError("a line without relevance")
    indices, values = _parse_features(b" ".join(features), dtype)
    rows = Rows(
        pa.array(relevance, pa.string()).cast(pa.float64()).to_numpy(zero_copy_only=False),
        pa.chunked_array([pa.array(ids, pa.string())]),
        np.array(counts, dtype=np.int64),
        indices,
        values,
    )
    if not _is_right(rows, n_features):
        raise ValueError("wrong indices or values")
    return rows


def _parse_features(
    text: bytes, dtype: DTypeLike
) -> tuple[NDArray[np.signedinteger[Any]], NDArray[Any]]:
    import pyarrow as pa
    from pyarrow import csv

    records = text.translate(_BLANKS_TO_NEWLINES).strip(b"\n")
    if not records:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=dtype)
    table = csv.read_csv(
        pa.BufferReader(records),
        csv.ReadOptions(column_names=["index", "value"]),
        csv.ParseOptions(delimiter=":", quote_char=False),
        csv.ConvertOptions(
            column_types={"index": pa.int64(), "value": pa.float64()}, null_values=[]
        ),
    )
    indices, values = table.column("index").to_numpy(), table.column("value").to_numpy()
    small = index_type(int(indices.max()))
    return indices.astype(small, copy=False), values.astype(dtype, copy=False)


def _is_right(rows: Rows, n_features: int | None) -> bool:
    """Whether indices ascend from 1 (or more) in each row, none is unseen, and all is finite."""
    ascending = np.diff(rows.indices, prepend=0) > 0
    starts = np.cumsum(rows.counts) - rows.counts
    starts = starts[rows.counts > 0]
    ascending[starts] = rows.indices[starts] > 0
    within = n_features is None or rows.indices.max(initial=0) <= n_features
    finite = np.isfinite(rows.relevance).all() and np.isfinite(rows.values).all()
    return bool(ascending.all() and within and finite)


def _require_same_kind(files: Sequence[InputFile], parts: Sequence[Rows]) -> None:
    without = [str(f) for f, rows in zip(files, parts, strict=True) if not rows.has_query_ids]
    if without and len(without) < len(files):
        raise DataError(
            f"{', '.join(without)}: no qid, but other files have them: give every file query ids"
        )


def _matrix(rows: Rows, n_features: int, dense: bool | None) -> Matrix:
    shape = (len(rows.counts), n_features)
    n_values = len(rows.values)
    if dense is None:
        dense = n_values >= _DENSE_ABOVE * shape[0] * shape[1]
    if dense and n_values == shape[0] * shape[1]:
        return rows.values.reshape(shape)
    index = index_type(n_values, n_features)
    row_ptr = np.concatenate(([0], np.cumsum(rows.counts))).astype(index)
    columns = (rows.indices - 1).astype(index)
    matrix = sparse.csr_array((rows.values, columns, row_ptr), shape=shape)
    if dense:
        return matrix.toarray()
    matrix.eliminate_zeros()
    return matrix


def _row(X: Matrix, row: int) -> tuple[Sequence[int], list[float]]:
    if isinstance(X, np.ndarray):
        return range(1, X.shape[1] + 1), X[row].tolist()
    inside = slice(X.indptr[row], X.indptr[row + 1])
    return (X.indices[inside] + 1).tolist(), X.data[inside].tolist()


def _digits(value: float) -> str:
    return repr(value).removesuffix(".0")
