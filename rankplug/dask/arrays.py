"""The partitions of a cluster's data as Dask Arrays, for libraries that take those."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.delayed import delayed
from distributed import Future
from numpy.typing import NDArray

from rankplug.data import RankingData

__all__ = ["ClusterArrays", "arrays_of"]


class ClusterArrays(NamedTuple):
    """Dask Arrays of the same rows in the same partitions.

    `qid` numbers the queries, ascending from row to row. `sample_weight` is None without weights.
    """

    X: da.Array
    y: da.Array
    qid: da.Array
    sample_weight: da.Array | None


def arrays_of(
    partitions: Sequence[Future], facts: Sequence[Any], n_features: int, weighted: bool
) -> ClusterArrays:
    """Arrays over the partitions, whose facts are given; dense features are not copied."""
    sizes = [one.n_samples for one in facts]
    before = np.cumsum([0, *(one.n_queries for one in facts)])[:-1].tolist()

    def array(functions: Iterable[Callable[[RankingData], Any]], shape: tuple[int, ...]) -> Any:
        blocks = [
            da.from_delayed(delayed(function)(part), (n, *shape), meta=np.empty((0, *shape)))
            for function, part, n in zip(functions, partitions, sizes, strict=True)
        ]
        return da.concatenate(blocks)

    n = len(sizes)
    return ClusterArrays(
        X=array([attrgetter("X")] * n, (n_features,)),
        y=array([attrgetter("relevance")] * n, ()),
        qid=array([partial(_query_numbers, before=one) for one in before], ()),
        sample_weight=array([attrgetter("row_weight")] * n, ()) if weighted else None,
    )


def _query_numbers(data: RankingData, before: int) -> NDArray[np.int64]:
    return before + np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
