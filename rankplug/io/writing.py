"""`write_data`: data to files that `read_data` reads back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from scipy import sparse

from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.io.columns import DEFAULT_LABEL, DEFAULT_QID
from rankplug.io.files import format_to_write, replacing
from rankplug.io.svmlight import write_svmlight

__all__ = ["write_data"]

_WEIGHT = "weight"


def write_data(data: RankingData, path: str | os.PathLike[str]) -> None:
    """Write data to a file, whole or not at all; an earlier file of that name is replaced.

    Rows stand in the order of `data`, queries together. All numbers are read back as they were,
    bit by bit. Tables get the columns "label", "qid", "weight" (if there are weights) and one a
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
    format_ = format_to_write(path)
    table: Any = None if format_ == "svmlight" else _table(data)
    with replacing(path) as stream:
        if format_ == "svmlight":
            write_svmlight(data, stream)
        elif format_ == "csv":
            from pyarrow import csv

            delimiter = "\t" if ".tsv" in path.suffixes else ","
            csv.write_csv(table, stream, csv.WriteOptions(delimiter=delimiter))
        elif format_ == "parquet":
            from pyarrow import parquet

            parquet.write_table(table, stream)
        else:
            from pyarrow import ipc

            with ipc.new_file(stream, table.schema) as writer:
                writer.write_table(table)


def _table(data: RankingData) -> Any:
    import pyarrow as pa

    if sparse.issparse(data.X):
        raise DataError("sparse features cannot be written as a table: write svmlight text")
    names = data.feature_names or [f"f{j + 1}" for j in range(data.n_features)]
    columns = {DEFAULT_LABEL: data.relevance, DEFAULT_QID: data.qid}
    if (weight := data.row_weight) is not None:
        columns[_WEIGHT] = weight
    taken = sorted(set(names) & set(columns))
    if taken:
        raise DataError(f"features called {', '.join(taken)}: these names have another meaning")
    columns.update((name, data.X[:, j]) for j, name in enumerate(names))
    return pa.table(columns)
