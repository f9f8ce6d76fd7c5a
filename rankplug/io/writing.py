"""Writing files: data that `read_data` reads back, and tables piece by piece."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from scipy import sparse

from rankplug.data import RankingData
from rankplug.exceptions import DataError, ParameterError
from rankplug.io.columns import DEFAULT_LABEL, DEFAULT_QID
from rankplug.io.files import format_to_write, replacing, text_suffix
from rankplug.io.svmlight import write_svmlight

_WEIGHT = "weight"
_DOCUMENT_WEIGHT = "document_weight"


def write_data(data: RankingData, path: str | os.PathLike[str]) -> None:
    """Write data to a file, whole or not at all; an earlier file of that name is replaced.

    Rows stand in the order of `data`, queries together. All numbers are read back as they were,
    bit by bit. Tables get the columns "label", "qid", "weight" and "document_weight" (if there are
    weights of queries, and of rows) and one a
    feature, called f1, f2, ... if features have no names.

    Parameters
    ----------
    data : RankingData
    path : path
        Its end says the format: .txt, .svm, .letor, ... for svmlight text, .csv, .tsv,
        .parquet, .arrow, .feather; text formats with .gz, .bz2 or .xz are compressed.

    Raises
    ------
    ParameterError
        If the name does not end in a known way.
    DataError
        If the format cannot hold the data: names or ids with blanks, sparse tables.
    """
    path = Path(path)
    if format_to_write(path) == "svmlight":
        with replacing(path) as stream:
            write_svmlight(data, stream)
        return
    table = _table(data)
    with table_writer(path) as write:
        write(table)


def _table(data: RankingData) -> Any:
    import pyarrow as pa

    if sparse.issparse(data.X):
        raise DataError("sparse features cannot be written as a table: write svmlight text")
    names = data.feature_names or [f"f{j + 1}" for j in range(data.n_features)]
    columns = {DEFAULT_LABEL: data.relevance, DEFAULT_QID: data.qid}
    weights = {_WEIGHT: data.row_weight, _DOCUMENT_WEIGHT: data.document_weight}
    columns |= {name: values for name, values in weights.items() if values is not None}
    taken = sorted(set(names) & set(columns))
    if taken:
        raise DataError(f"features called {', '.join(taken)}: these names have another meaning")
    columns.update((name, data.X[:, j]) for j, name in enumerate(names))
    return pa.table(columns)


@contextmanager
def table_writer(path: Path) -> Iterator[Callable[[Any], None]]:
    """A function that appends an Arrow table to the file; all must have the same columns.

    The end of the name says the format: .csv, .tsv (with .gz, .bz2 or .xz compressed), .parquet,
    .arrow and so on. An earlier file is replaced when the block ends without an error.

    Raises
    ------
    ParameterError
        If the name does not end in a known way.
    """
    format_ = format_to_write(path)
    if format_ == "svmlight":
        raise ParameterError(f"{path}: name a table to write: .csv, .tsv, .parquet or .arrow")
    writer: Any = None

    def write(table: Any) -> None:
        nonlocal writer
        if writer is None:
            writer = _open_writer(format_, stream, table.schema, path)
        writer.write_table(table)

    with replacing(path) as stream:
        try:
            yield write
        finally:
            if writer is not None:
                writer.close()


def _open_writer(format_: str, stream: BinaryIO, schema: Any, path: Path) -> Any:
    if format_ == "csv":
        from pyarrow import csv

        delimiter = "\t" if text_suffix(path) == ".tsv" else ","
        options = csv.WriteOptions(delimiter=delimiter, quoting_style="needed")
        return csv.CSVWriter(stream, schema, write_options=options)
    if format_ == "parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(stream, schema)
    from pyarrow import ipc

    return ipc.new_file(stream, schema)
