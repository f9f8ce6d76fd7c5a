"""Frames of any library as Arrow tables, and as Parquet files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from rankplug.data import tables
from rankplug.exceptions import DataError


def arrow_table(frame: Any) -> Any:
    """A frame of pandas or polars as an Arrow table; Arrow's own as it is.

    A column of pandas whose values are of several kinds becomes text.

    Raises
    ------
    DataError
        If it is no table, or has no rows.
    """
    import pyarrow as pa

    if hasattr(frame, "dask"):
        raise DataError("data are on a cluster: use rankplug.dask.compare, or data.compute()")
    frame = tables.collected(frame)
    if not tables.is_table(frame):
        raise DataError(
            f"data must be a table of pandas, polars or Arrow, or the path of a file, not a "
            f"{type(frame).__name__}"
        )
    if isinstance(frame, pa.RecordBatch):
        table = pa.Table.from_batches([frame])
    elif isinstance(frame, pa.Table):
        table = frame
    elif hasattr(frame, "to_arrow"):
        table = frame.to_arrow()
    else:
        names = tables.column_names(frame)
        columns = [_arrow_column(frame.iloc[:, at]) for at in range(len(names))]
        table = pa.table(columns, names=names)
    if table.num_rows == 0:
        raise DataError("the table has no rows")
    return table


def write_frame(table: Any, path: Path) -> None:
    """Write an Arrow table as a new Parquet file; of one that fails nothing is left.

    Raises
    ------
    FileExistsError
        If there is such a file.
    """
    from pyarrow import parquet

    with path.open("xb") as stream:
        try:
            parquet.write_table(table, stream)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _arrow_column(column: Any) -> Any:
    import pyarrow as pa

    for values in (column, np.asarray(column)):  # pandas' sparse columns are none of Arrow's
        with suppress(pa.ArrowException, TypeError, ValueError):
            return pa.array(values, from_pandas=True)
    texts = [None if tables.is_missing(value) else str(value) for value in column]
    return pa.array(texts, pa.string())
