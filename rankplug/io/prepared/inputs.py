"""Input of a preparation: files read a piece at a time, from any place where a piece ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankplug.data import Matrix, as_matrix, read_features, tables
from rankplug.data.queries import query_id_vector
from rankplug.data.row_weights import document_weights
from rankplug.exceptions import DataError
from rankplug.io.columns import open_table, require_one_weight
from rankplug.io.companions import find_companions
from rankplug.io.files import InputFile
from rankplug.io.svmlight import DENSE_ABOVE, TextPosition, svmlight_blocks, to_matrix
from rankplug.io.table_files import Roles

_CELLS_AT_ONCE = 1 << 20  # of a table: 8 MB as float64, of which a few copies are in memory

_ROWS_TO_KNOW = 1000  # in which a list of a column tells how long all are


@dataclass(frozen=True)
class Position:
    """How far the input was read.

    Attributes
    ----------
    file : int
        Number of the file, from 0.
    rows : int
        Rows of this file before the position.
    text : TextPosition
        The place in this file, if it is svmlight text.
    all_rows, all_written, width : int
        Rows and written values of all files before the position, and the largest index in them.
    has_ids : bool or None
        Whether these rows have query ids; None if there are no rows.
    """

    file: int = 0
    rows: int = 0
    text: TextPosition = field(default_factory=TextPosition)
    all_rows: int = 0
    all_written: int = 0
    width: int = 0
    has_ids: bool | None = None

    @property
    def looks_dense(self) -> bool:
        """Whether so many values are written that they are better kept as an array."""
        return self.all_written >= DENSE_ABOVE * self.all_rows * self.width

    def after(self, n_rows: int, n_written: int, **known: Any) -> Position:
        """The place behind some more rows, and what else is known there."""
        rows, all_rows = self.rows + n_rows, self.all_rows + n_rows
        written = self.all_written + n_written
        return replace(self, rows=rows, all_rows=all_rows, all_written=written, **known)


class Piece(NamedTuple):
    """Consecutive rows, with as many features as are known so far, and a weight for each row.

    `end` is the place behind them, `read` how much of the file was read, from 0 to 1.
    """

    X: Matrix
    relevance: NDArray[np.float64]
    ids: NDArray[Any] | None
    weight: NDArray[np.float64] | None
    end: Position
    read: float
    document_weight: NDArray[np.float64] | None = None


class Input(ABC):
    """Files of one format.

    Parameters
    ----------
    files : sequence of InputFile
    dtype : numpy.dtype
        Of the features.
    dense : bool or None
        None: as it turns out.
    """

    written_ids = True
    """Whether query ids are text in which plain integers count as integers."""
    feature_names: tuple[str, ...] | None = None
    n_features: int | None = None

    def __init__(
        self, files: Sequence[InputFile], format_: str, dtype: np.dtype[Any], dense: bool | None
    ) -> None:
        self.files = files
        self.companions = find_companions(files, format_)
        self.dtype = dtype
        self.dense = dense

    @property
    def weighted(self) -> bool:
        """Whether there are weights in companions of the files."""
        return any(one.weights_file is not None for one in self.companions)

    def pieces(self, start: Position) -> Iterator[Piece]:
        """The rows from some position on.

        Raises
        ------
        DataError
            As `rankplug.read_data`; what is wrong in one piece is reported when it is reached.
        """
        position = start
        for number in range(start.file, len(self.files)):
            if number > start.file:
                position = replace(position, file=number, rows=0, text=TextPosition())
            for piece in self._of_file(self.files[number], position):
                position = piece.end
                _require_no_infinity(self.files[number], piece)
                yield piece
            self.companions[number].require_end(position.rows)

    @abstractmethod
    def _of_file(self, file: InputFile, start: Position) -> Iterator[Piece]:
        """The rows of one file."""


class TextInput(Input):
    """svmlight text."""

    def __init__(
        self,
        files: Sequence[InputFile],
        dtype: np.dtype[Any],
        dense: bool | None,
        n_features: int | None,
    ) -> None:
        super().__init__(files, "svmlight", dtype, dense)
        self.n_features = n_features

    def _of_file(self, file: InputFile, start: Position) -> Iterator[Piece]:
        position = start
        for rows, end in svmlight_blocks(file, self.n_features, self.dtype, start.text):
            if position.has_ids not in (None, rows.has_query_ids):
                this, others = ("a", "no") if rows.has_query_ids else ("no", "a")
                raise DataError(
                    f"{file}: {this} qid, but the files before have {others} qid: give every file "
                    "query ids"
                )
            width = self.n_features or max(position.width, int(rows.indices.max(initial=0)))
            known = {"text": end, "width": width, "has_ids": rows.has_query_ids}
            beside, place = self.companions[start.file], (position.rows, len(rows.counts))
            ids, weight = beside.ids(*place, rows.id_texts()), beside.weights(*place)
            position = position.after(len(rows.counts), len(rows.values), **known)
            dense = position.looks_dense if self.dense is None else self.dense
            X = to_matrix(rows, max(position.width, 1), dense)
            yield Piece(X, rows.relevance, ids, weight, position, file.fraction_read())


class TableInput(Input):
    """CSV, Parquet or Arrow files with the same columns."""

    feature_names: tuple[str, ...]

    def __init__(
        self,
        files: Sequence[InputFile],
        dtype: np.dtype[Any] | None,
        dense: bool | None,
        format_: str,
        roles: Roles,
    ) -> None:
        empty = []
        for file in files:
            with open_table(file, format_) as table:
                empty += [typed] if (typed := table.without_rows(roles)) is not None else []
        if dtype is None:
            found = [tables.to_matrix(table, roles.features).dtype for table in empty]
            dtype = np.result_type(*found) if found else np.dtype(np.float64)
        super().__init__(files, format_, dtype, dense is not False)
        require_one_weight(roles, self.companions[0])
        self.format = format_
        self.roles = roles
        self.written_ids = format_ == "csv"
        self.feature_names = self._names(empty[0].schema) if empty else roles.features
        self.n_features = len(self.feature_names)
        self._id_type: np.dtype[Any] | None = None
        if empty and roles.ids is not None:
            ids = np.concatenate([tables.column(table, roles.ids) for table in empty])
            self._id_type = ids.dtype

    def _names(self, schema: Any) -> tuple[str, ...]:
        """The names of the features, several of a column of lists, as its first rows have them."""
        import pyarrow as pa

        lists = {
            name for name in self.roles.features if pa.types.is_nested(schema.field(name).type)
        }
        if not lists:
            return self.roles.features
        with open_table(self.files[0], self.format) as opened:
            table, _ = next(opened.batches(self.roles, _ROWS_TO_KNOW))
        names: list[str] = []
        for name in self.roles.features:
            with _naming(self.files[0]):
                names += read_features(table.select([name])).names if name in lists else [name]
        return tuple(names)

    def _of_file(self, file: InputFile, start: Position) -> Iterator[Piece]:
        position = start
        weight, with_ids = self.roles.weight, self.roles.ids is not None
        names = self.feature_names
        n_rows = max(1, _CELLS_AT_ONCE // (len(self.roles.numbers) + len(names)))
        with open_table(file, self.format) as opened:
            for table, fraction in opened.batches(self.roles, n_rows, start.rows):
                with _naming(file):
                    features = read_features(table, names, {}).matrix
                    if names != self.roles.features:  # lists, whose values were not looked at
                        as_matrix(features, names, allow_missing=True)
                beside, place = self.companions[start.file], (position.rows, table.num_rows)
                ids = beside.ids(*place, self._ids(file, table, position.rows))
                told = beside.weights(*place)
                known = {"width": len(names), "has_ids": with_ids}
                position = position.after(table.num_rows, features.size, **known)
                yield Piece(
                    self._matrix(features),
                    tables.to_matrix(table, self.roles.relevance)[:, 0].astype(float, copy=False),
                    ids,
                    told
                    if weight is None
                    else tables.to_matrix(table, [weight])[:, 0].astype(float),
                    position,
                    fraction,
                    self._document_weight(file, table),
                )

    def _document_weight(self, file: InputFile, table: Any) -> NDArray[np.float64] | None:
        if self.roles.document_weight is None:
            return None
        weight = tables.to_matrix(table, [self.roles.document_weight])[:, 0]
        with _naming(file):
            return document_weights(weight, table.num_rows, None)

    def _matrix(self, features: NDArray[Any]) -> Matrix:
        from scipy import sparse

        with np.errstate(over="ignore"):
            features = features.astype(self.dtype, copy=False)
        return features if self.dense else sparse.csr_array(features)

    def _ids(self, file: InputFile, table: Any, first_row: int) -> NDArray[Any] | None:
        if self.roles.ids is None:
            return None
        ids = tables.column(table, self.roles.ids)
        if self._id_type is not None:
            ids = ids.astype(self._id_type, copy=False)
        try:
            return query_id_vector(ids, len(ids))
        except DataError as error:
            raise DataError(f"{file}, counting rows from {first_row}: {error}") from None


@contextmanager
def _naming(file: InputFile) -> Iterator[None]:
    """Errors of the block name the file."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{file} cannot be prepared: {error}") from None


def _require_no_infinity(file: InputFile, piece: Piece) -> None:
    """What was finite as it was read need not be so as float32."""
    values: Any = piece.X if isinstance(piece.X, np.ndarray) else piece.X.data
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)) or not np.isinf(values).any():
            return
    last = piece.end.rows
    raise DataError(
        f"{file}, rows {last - len(piece.relevance)} to {last - 1}: features too large for "
        "float32: scale or clip them, or leave out dtype"
    )
