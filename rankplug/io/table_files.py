"""Base class of open table files, the roles of their columns, and ids that are written as text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rankplug.io.files import InputFile


@dataclass(frozen=True)
class Roles:
    """Names of columns by what they hold.

    `features`, `relevance` and both weights hold numbers, `ids` (of queries or classes) numbers or
    text, and columns that are `kept` are passed on, whatever they hold. Features may be missing
    and, with `partial`, relevance. Those that are `free` may hold anything, and are read as they
    are.
    """

    features: tuple[str, ...]
    relevance: tuple[str, ...] = ()
    ids: str | None = None
    weight: str | None = None
    partial: bool = False
    kept: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    document_weight: str | None = None

    @property
    def complete_numbers(self) -> tuple[str, ...]:
        """Columns in which every value must be a finite number."""
        weights = (name for name in (self.weight, self.document_weight) if name is not None)
        return (*(() if self.partial else self.relevance), *weights)

    @property
    def partial_numbers(self) -> tuple[str, ...]:
        """Columns of numbers in which values may be missing."""
        numbers = (name for name in self.features if name not in self.free)
        return (*(self.relevance if self.partial else ()), *numbers)

    @property
    def numbers(self) -> tuple[str, ...]:
        """All columns of numbers."""
        return (*self.complete_numbers, *self.partial_numbers)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns."""
        ids = () if self.ids is None else (self.ids,)
        return tuple(dict.fromkeys((*self.numbers, *self.free, *ids, *self.kept)))


class TableFile(ABC):
    """An open file that holds a table, which is read whole, or some rows at a time.

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
    def read(self, roles: Roles) -> tuple[Any, NDArray[Any] | None]:
        """The Arrow table of the columns that have roles, and the ids.

        Raises
        ------
        DataError
            Naming lines or rows and columns of the first values that are missing or no numbers.
        """

    @abstractmethod
    def batches(self, roles: Roles, n_rows: int, first_row: int = 0) -> Iterator[tuple[Any, float]]:
        """Arrow tables of at most so many rows, and how much of the file was read by then.

        They begin with some row, counted from 0; what comes before is left unread where possible.
        Ids that are written as text stay text.

        Raises
        ------
        DataError
            As `read`; what is wrong in one batch is reported when it is reached.
        """

    @abstractmethod
    def whole(self) -> Any:
        """The Arrow table of all columns; of text, with the types that their values have.

        Raises
        ------
        DataError
            If the file is damaged or has no rows.
        """

    def without_rows(self, roles: Roles) -> Any:
        """A table of the columns without rows, for their types; None where text states none."""
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
