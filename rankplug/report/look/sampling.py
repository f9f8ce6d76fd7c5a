"""Which queries and documents a page shows, where all of them would make it too large."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankplug.data import rank_in_queries
from rankplug.report.look.entrants import Documents, Entrant

_SEED = 0


class Sample(NamedTuple):
    """The positions of the queries, and in words why these."""

    queries: NDArray[np.int64]
    about: str


def sample_queries(documents: Documents, entrants: list[Entrant], most: int) -> Sample:
    """All queries; of too many a third where the others do worst against the first, a third best.

    A single entrant is taken by its own values. The rest is drawn at random.
    """
    n = len(documents.query_ids)
    if n <= most:
        return Sample(np.arange(n), "1 query" if n == 1 else f"All {n:,} queries")
    values = [one.values for one in entrants if one.values is not None]
    third = most // 3 if values else 0
    margin = np.mean(values[1:], axis=0) - values[0] if len(values) > 1 else np.array(values[:1])
    margin = np.ravel(margin) if third else np.zeros(n)
    known = np.flatnonzero(~np.isnan(margin))
    by_margin = known[np.argsort(margin[known], kind="stable")]
    worst, best = by_margin[:third], by_margin[len(by_margin) - third :]
    chosen = np.union1d(worst, best)
    others = np.setdiff1d(np.arange(n), chosen)
    n_others = min(most - len(chosen), len(others))
    drawn = np.random.default_rng(_SEED).choice(others, n_others, replace=False)
    about = f"{len(chosen) + n_others:,} of {n:,} queries"
    if not third:
        return Sample(drawn, f"{about}, drawn at random")
    if len(values) > 1:
        name = entrants[0].name
        extremes = f"{third} where {name} wins most, {third} where it loses most"
    else:
        extremes = f"{third} of the lowest values, {third} of the highest"
    about = f"{about}: {extremes}, {n_others} at random"
    return Sample(np.union1d(chosen, drawn), about)


def sample_documents(
    documents: Documents, ranks: list[NDArray[np.int64]], query: int, most: int
) -> NDArray[np.int64]:
    """The rows of a query that stand highest in one of the rankings, or in the ideal one.

    Parameters
    ----------
    documents : Documents
    ranks : list of int64 ndarray of shape (n_rows of the query,)
        Of each entrant, 1 the best.
    query : int
        Its position.
    most : int
        Rows.
    """
    begin, end = documents.query_ptr[query : query + 2]
    if end - begin <= most:
        return np.arange(begin, end)
    lists = [*ranks]
    if documents.relevance is not None:
        lists.append(rank_in_queries(documents.relevance[begin:end], None)[0])
    highest = np.min(lists, axis=0)
    return np.asarray(begin + np.sort(np.argsort(highest, kind="stable")[:most]))
