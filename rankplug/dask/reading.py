"""From rows to partitions of ranking data: what is done on a worker while data are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import Matrix, RankingData
from rankplug.exceptions import DataError

__all__ = [
    "Ends",
    "Refusal",
    "assemble",
    "ends_of",
    "ids_of",
    "read_partition",
    "take_query",
    "without_queries",
]


@dataclass(frozen=True)
class Refusal:
    """Why the rows of a partition are no ranking data."""

    reason: str


@dataclass(frozen=True)
class Ends:
    """What of a partition says whether its queries may go on in others.

    Attributes
    ----------
    number : int
        Of the partition, as the caller cut them.
    lowest, highest : query ids
        In the order of numbers or of strings.
    first, last : query ids
        Of the first and the last row.
    n_rows : int
    kind : str
        The kind of the ids' type in the words of NumPy.
    """

    number: int
    lowest: Any
    highest: Any
    first: Any
    last: Any
    n_rows: int
    kind: str


def read_partition(
    number: int, X: Any, y: Any, qid: Any, sample_weight: Any
) -> RankingData | Refusal | None:
    """A task: check the rows of a partition; None if it has none."""
    if X.shape[0] == 0 and len(y) == 0:
        return None
    try:
        data = RankingData.from_arrays(X, y, qid, sample_weight=sample_weight)
    except DataError as error:
        return Refusal(f"partition {number}: {error}")
    return data if data.order is None else replace(data, order=None)


def ends_of(number: int, data: RankingData | Refusal | None) -> Ends | Refusal | None:
    """A task: the ends of a partition."""
    if not isinstance(data, RankingData):
        return data
    ids = np.sort(data.query_ids)
    first, last = data.query_ids[[0, -1]]
    return Ends(number, ids[0], ids[-1], first, last, data.n_samples, ids.dtype.kind)


def ids_of(data: RankingData) -> NDArray[Any]:
    """A task: the ids of a partition's queries."""
    return data.query_ids


def take_query(data: RankingData, query: Any) -> RankingData:
    """A task: the rows of one query."""
    return data.take_queries(np.flatnonzero(data.query_ids == query))


def without_queries(data: RankingData, queries: Sequence[Any]) -> RankingData | None:
    """The rows of all other queries; None if there are none."""
    kept = np.flatnonzero(~np.isin(data.query_ids, np.array(queries)))
    if len(kept) == data.n_queries:
        return data
    return data.take_queries(kept) if len(kept) else None


def assemble(
    parts: Sequence[RankingData], given_up: Sequence[Any], taken: Sequence[RankingData]
) -> RankingData | None:
    """A task: several partitions as one, without some queries, and with rows from elsewhere.

    None if nothing is left.
    """
    own = [without_queries(part, given_up) for part in parts] if given_up else parts
    together = [part for part in (*own, *taken) if part is not None]
    if len(together) <= 1:
        return together[0] if together else None
    weights = [weight for part in together if (weight := part.row_weight) is not None]
    data = RankingData.from_arrays(
        _stacked([part.X for part in together]),
        np.concatenate([part.relevance for part in together]),
        np.concatenate([part.qid for part in together]),
        sample_weight=np.concatenate(weights) if weights else None,
        feature_names=together[0].feature_names,
    )
    return replace(data, order=None)


def _stacked(matrices: Sequence[Matrix]) -> Matrix:
    if any(sparse.issparse(matrix) for matrix in matrices):
        return sparse.csr_array(sparse.vstack(matrices, format="csr"))
    return np.concatenate(matrices)
