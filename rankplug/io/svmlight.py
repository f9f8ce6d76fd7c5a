"""LETOR/svmlight text: ``relevance [qid:ID] index:value ... [# comment]``, a line a row.

Blocks of lines are parsed as a whole. Where that fails, their lines are read one by one, which
either finds the lines at fault or accepts what is unusual but right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from rankplug.data import Matrix, RankingData
from rankplug.data.arrays import index_type
from rankplug.exceptions import DataError
from rankplug.io.companions import Companions
from rankplug.io.encodings import LONGEST_LINE, with_newlines
from rankplug.io.files import InputFile
from rankplug.io.svmlight_rows import ParsedRows, parse_block, parse_lines
from rankplug.io.table_files import written_ids

_BLOCK = 1 << 22  # bytes, beside which the cost of a call is small; memory is for one block
MOST_FEATURES = 2**31 - 1
"""Of text, read or prepared: indices of 32 bits take half the memory, and are what solvers want."""
DENSE_ABOVE = 0.5
"""Share of written values from which features are kept as an array.

It takes 8 bytes a cell, CSR 12 bytes a value; and working with it is faster.
"""


@dataclass(frozen=True)
class TextPosition:
    """A place between two lines of a file.

    Attributes
    ----------
    offset : int
        Bytes of (decompressed) text before it.
    line : int
        Number of the next line, from 1.
    has_ids : bool or None
        Whether the rows before it have query ids; None if there are no rows.
    """

    offset: int = 0
    line: int = 1
    has_ids: bool | None = None

    def after(self, n_bytes: int, lines: bytes, has_ids: bool | None) -> TextPosition:
        """The place behind a block of lines, of so many bytes in the file."""
        return TextPosition(self.offset + n_bytes, self.line + lines.count(b"\n"), has_ids)


def read_svmlight(
    files: Sequence[InputFile],
    companions: Sequence[Companions],
    *,
    n_features: int | None,
    dense: bool | None,
    dtype: DTypeLike,
) -> tuple[Matrix, NDArray[np.float64], NDArray[Any] | None, NDArray[np.float64] | None]:
    """Features, relevance, query ids and weights of files, one after the other; None: not told.

    Parameters
    ----------
    files : sequence of InputFile
    companions : sequence of Companions
        Of each file.
    n_features : int, optional
        Columns of the matrix; the largest index if omitted.
    dense : bool, optional
        None means dense if at least half of the values are written in the files. A sparse
        matrix does not keep the zeros that are.
    dtype : float32 or float64
    """
    parts = []
    for file in files:
        blocks = [rows for rows, _ in svmlight_blocks(file, n_features, dtype, TextPosition())]
        parts.append(ParsedRows.concatenate(blocks))
    without = [str(f) for f, rows in zip(files, parts, strict=True) if not rows.has_query_ids]
    if without and len(without) < len(files):
        raise DataError(
            f"{', '.join(without)}: no qid, but other files have them: give every file query ids"
        )
    weights = []
    for number, (beside, part) in enumerate(zip(companions, parts, strict=True)):
        n_rows = len(part.relevance)
        ids = beside.ids(0, n_rows, part.id_texts() if beside.sizes_file else None)
        if ids is not None and not part.has_query_ids:
            parts[number] = part.with_ids(ids)
        weights.append(beside.weights(0, n_rows))
        beside.require_end(n_rows)
    rows = ParsedRows.concatenate(parts)
    width = int(rows.indices.max(initial=0)) if n_features is None else n_features
    if width == 0:
        raise DataError(f"{', '.join(map(str, files))}: no features, only relevance and ids")
    if width > MOST_FEATURES:
        where = ", ".join(map(str, files))
        raise DataError(f"{where}: feature {width} is too large: renumber the features")
    ids = written_ids(rows.ids) if rows.has_query_ids else None
    told = [weight for weight in weights if weight is not None]
    weight = np.concatenate(told) if told else None
    return to_matrix(rows, width, dense), rows.relevance, ids, weight


def svmlight_batches(
    file: InputFile, stream: BinaryIO, n_features: int, n_lines: int
) -> Iterator[tuple[Matrix, NDArray[Any] | None]]:
    """Features and query ids (as text; None if there are none) of so many lines at a time.

    Parameters
    ----------
    file : InputFile
        Named by messages.
    stream : BinaryIO
        Its content, read from the beginning.
    n_features, n_lines : int
    """
    stream.seek(0)
    blocks = iter(lambda: _read_lines(file, stream, n_lines), b"")
    for rows, _ in _parse_blocks(file, blocks, TextPosition(), n_features, np.float64):
        yield to_matrix(rows, n_features, None), rows.id_texts()


def svmlight_blocks(
    file: InputFile, n_features: int | None, dtype: DTypeLike, start: TextPosition
) -> Iterator[tuple[ParsedRows, TextPosition]]:
    """ParsedRows of a file, a block at a time, and where the block ends; from such an end on."""
    with file.open() as stream:
        stream.seek(start.offset)
        yield from _parse_blocks(file, _read_blocks(file, stream), start, n_features, dtype)


def _parse_blocks(
    file: InputFile,
    blocks: Iterable[bytes],
    position: TextPosition,
    n_features: int | None,
    dtype: DTypeLike,
) -> Iterator[tuple[ParsedRows, TextPosition]]:
    """The blocks that hold rows; what is wrong in one is reported when it is reached."""
    for block in blocks:
        text = with_newlines(block)
        rows = _parse_block_or_lines(file, text, position.line, n_features, dtype)
        if len(rows.relevance):
            has_ids = position.has_ids
            if has_ids not in (None, rows.has_query_ids):
                change = "there is a qid" if rows.has_query_ids else "there is no qid"
                raise DataError(
                    f"{file}: from line {position.line} on {change}, unlike before: give a qid to "
                    "all lines or to none"
                )
            position = position.after(len(block), text, rows.has_query_ids)
            yield rows, position
        else:
            position = position.after(len(block), text, position.has_ids)
    if position.has_ids is None:
        raise DataError(f"{file} holds no rows: it is empty, or has blank and comment lines only")


def _parse_block_or_lines(
    file: InputFile, block: bytes, line: int, n_features: int | None, dtype: DTypeLike
) -> ParsedRows:
    try:
        rows = parse_block(block, n_features, dtype, bool(file.notation.zero_based))
        if rows.has_all_query_ids or not rows.has_query_ids:
            return rows
    except ValueError:  # Arrow's errors of parsing among them
        pass
    return parse_lines(file, enumerate(BytesIO(block), start=line), n_features, dtype)


def write_svmlight(data: RankingData, stream: BinaryIO) -> None:
    """Write data as text whose values are read back bit by bit; sparse zeros are left out."""
    ids = [str(value) for value in data.query_ids]
    wrong = [value for value in ids if not re.fullmatch(r"[^\s#]+", value, re.ASCII)]
    if wrong:
        raise DataError(f"query id {wrong[0]!r} is empty or holds a blank or #: write CSV instead")
    for what, weight in (("query", data.query_weight), ("document", data.document_weight)):
        if weight is not None:
            raise DataError(
                f"svmlight files cannot hold {what} weights: write CSV or Parquet instead"
            )
    for q, query_id in enumerate(ids):
        for row in range(data.query_ptr[q], data.query_ptr[q + 1]):
            indices, values = _elements(data.X, row)
            features = "".join(f" {j}:{_digits(v)}" for j, v in zip(indices, values, strict=True))
            line = f"{_digits(float(data.relevance[row]))} qid:{query_id}{features}\n"
            stream.write(line.encode())


def _read_blocks(file: InputFile, stream: BinaryIO) -> Iterator[bytes]:
    block = stream.read(_BLOCK)
    yield block + file.read_line(stream)  # one block even of an empty file
    while block := stream.read(_BLOCK):
        yield block + file.read_line(stream)


def _read_lines(file: InputFile, stream: BinaryIO, n_lines: int) -> bytes:
    """So many lines, or fewer if they are long."""
    lines: list[bytes] = []
    n_bytes = 0
    while len(lines) < n_lines and n_bytes < LONGEST_LINE and (line := file.read_line(stream)):
        lines.append(line)
        n_bytes += len(line)
    return b"".join(lines)


def to_matrix(rows: ParsedRows, n_features: int, dense: bool | None) -> Matrix:
    """The features; `dense` as for `read_svmlight`."""
    shape = (len(rows.counts), n_features)
    n_values = len(rows.values)
    if dense is None:
        dense = n_values >= DENSE_ABOVE * shape[0] * shape[1]
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


def _elements(X: Matrix, row: int) -> tuple[Sequence[int], list[float]]:
    if isinstance(X, np.ndarray):
        return range(1, X.shape[1] + 1), X[row].tolist()
    inside = slice(X.indptr[row], X.indptr[row + 1])
    return (X.indices[inside] + 1).tolist(), X.data[inside].tolist()


def _digits(value: float) -> str:
    return repr(value).removesuffix(".0")
