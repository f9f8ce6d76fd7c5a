"""Base class of open table files (CSV, Parquet, Arrow), and query ids that are written as text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rankplug.io.files import InputFile

__all__ = ["TableFile", "written_ids"]


class TableFile(ABC):
    """An open file that holds a table, which is read whole, or some rows at a time.

    Columns of numbers are "complete", which is to say that every value must be a finite number,
    or "partial", where values may be missing. A column of ids holds integers or text.

    Parameters
    ----------
    file : InputFile
        Named by messages; read again from the beginning where the values at fault are looked for.
    stream : BinaryIO
        Its content.
    """

    def __init__(self, file: InputFile, stream: BinaryIO) -> None:
        self.file = file
        self.stream = stream

    @abstractmethod
    def column_names(self) -> list[str]:
        """The names of the columns."""

    @abstractmethod
    def read(
        self, complete: Sequence[str], partial: Sequence[str], ids: str | None
    ) -> tuple[Any, NDArray[Any] | None]:
        """The Arrow table of some columns of numbers, and the column of ids.

        Raises
        ------
        DataError
            Naming lines or rows and columns of the first values that are missing or no numbers.
        """

    @abstractmethod
    def batches(
        self, numbers: Sequence[str], ids: str | None, n_rows: int, first_row: int = 0
    ) -> Iterator[tuple[Any, float]]:
        """Arrow tables of at most so many rows, and how much of the file was read by then.

        They begin with some row, counted from 0; what comes before is left unread where possible.
        Ids that are written as text stay text.

        Raises
        ------
        DataError
            As `read`; what is wrong in one batch is reported when it is reached.
        """

    def columns_of_no_rows(self, names: Sequence[str]) -> Any:
        """A table of some columns without rows, for their types; None where text states none."""
        return None


def written_ids(texts: Any) -> NDArray[Any]:
    """Ids (Arrow strings) as int64 if each is a plain integer ("7", not "007"), else as str."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        integers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return np.array(texts.to_pylist(), dtype=np.str_)
    if compute.all(compute.equal(integers.cast(pa.string()), texts)).as_py():
        return np.asarray(integers.to_numpy())
    return np.array(texts.to_pylist(), dtype=np.str_)
