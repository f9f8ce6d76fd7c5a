"""Parsed rows of LETOR/svmlight text, and query ids as they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_INDEX", "Rows", "written_ids"]

LARGEST_INDEX = 2**62
"""Of a feature: sums of two of them still fit 64 bits."""


@dataclass(frozen=True)
class Rows:
    """Rows of text.

    Attributes
    ----------
    relevance : float64 ndarray of shape (n_rows,)
    ids : pyarrow.ChunkedArray of n_rows strings
        Query ids as they are written; null where there is none.
    counts : int64 ndarray of shape (n_rows,)
        Number of values of each row.
    indices : int32 or int64 ndarray of shape (n_values,)
        Feature indices, from 1.
    values : float ndarray of shape (n_values,)
    """

    relevance: NDArray[np.float64]
    ids: Any
    counts: NDArray[np.int64]
    indices: NDArray[np.signedinteger[Any]]
    values: NDArray[Any]

    @classmethod
    def concatenate(cls, parts: Sequence[Rows]) -> Rows:
        """All rows, one part after the other."""
        import pyarrow as pa

        return cls(
            np.concatenate([part.relevance for part in parts]),
            pa.chunked_array([chunk for part in parts for chunk in part.ids.chunks], pa.string()),
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.values for part in parts]),
        )

    @property
    def has_query_ids(self) -> bool:
        """Whether there is a row with a query id."""
        return bool(self.ids.null_count < len(self.ids))

    @property
    def has_all_query_ids(self) -> bool:
        """Whether there is no row without a query id."""
        return bool(self.ids.null_count == 0)

    def id_texts(self) -> NDArray[np.str_] | None:
        """The query ids as text; None if there are none."""
        return np.array(self.ids.to_pylist(), dtype=np.str_) if self.has_query_ids else None


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
