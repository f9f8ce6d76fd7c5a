"""What callers give as data: Dask collections, a prepared folder, or data on the cluster."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from distributed import Client

from rankplug.dask.data import ClusterData
from rankplug.dask.pieces import has_queries
from rankplug.exceptions import DataWarning, ParameterError
from rankplug.io import PreparedFolder

Given: TypeAlias = ClusterData | PreparedFolder | str | os.PathLike[str] | tuple[Any, ...]
"""All data in one argument: ``(X, y)``, ``(X, y, qid)`` or ``(X, y, qid, sample_weight)`` of Dask
collections, a prepared folder that every worker sees, or data on the cluster."""


def is_complete(X: Any) -> bool:
    """Whether relevance and queries come with `X`."""
    return isinstance(X, ClusterData | PreparedFolder | str | os.PathLike)


def lacks_queries(X: Any, qid: Any) -> bool:
    """Whether nobody says which rows are of one query."""
    return qid is None and not is_complete(X) and not has_queries(X)


def unpack(given: Any, what: str) -> tuple[Any, Any, Any, Any]:
    """``(X, y, qid, sample_weight)`` of data in one argument.

    Raises
    ------
    ParameterError
        If it is something else; the argument is called `what`.
    """
    if is_complete(given):
        return given, None, None, None
    if isinstance(given, tuple) and 2 <= len(given) <= 4:
        X, y, qid, sample_weight = (*given, None, None)[:4]
        return X, y, qid, sample_weight
    raise ParameterError(
        f"{what} must be (X, y, qid) or (X, y, qid, sample_weight) of Dask collections, (X, y) "
        "with a column 'qid' in X, a prepared folder, or a ClusterData"
    )


@contextmanager
def open_data(
    X: Any,
    y: Any,
    qid: Any,
    sample_weight: Any,
    document_weight: Any = None,
    *,
    client: Client | None,
    timeout: float | None,
) -> Iterator[ClusterData]:
    """The data, forgotten by the cluster at the end if they are not the caller's."""
    if is_complete(X) and any(one is not None for one in (y, qid, sample_weight, document_weight)):
        raise ParameterError("y, qid and sample_weight come with such X: leave them out")
    if isinstance(X, ClusterData):
        yield X
        return
    if is_complete(X):
        folder = X if isinstance(X, PreparedFolder) else Path(X)
        data = ClusterData.from_prepared(folder, client=client, timeout=timeout)
    else:
        data = ClusterData.from_collections(
            X, y, qid, sample_weight, document_weight, client=client, timeout=timeout
        )
    with data:
        yield data


def warn_of_one_query(n_samples: int, stacklevel: int) -> None:
    """Warn that so many rows are one query because nobody told the queries."""
    warnings.warn(
        f"qid is not given: all {n_samples} rows are ranked as one query. If they belong to "
        "several, pass qid=df['qid'] or a DataFrame with a column 'qid'; if they are one, say so "
        "by a qid that is constant, as in df.assign(qid=0)",
        DataWarning,
        stacklevel=stacklevel + 1,
    )
