"""Queries of similar size as padded matrices, so that metrics need no loop over queries."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_CELLS = 1 << 15
"""Most cells of a block of several queries: its matrices then stay in the cache."""


class Block:
    """Some queries, one a row, the documents of each from the highest score to the lowest.

    Attributes
    ----------
    queries : int64 ndarray of shape (n,)
        Which queries these are.
    valid : bool ndarray of shape (n, width)
        False for the padding at the end of rows shorter than the longest.
    scores, relevance : float64 ndarray of shape (n, width)
        Minus infinity in the padding. Rows of equal score keep the caller's order.
    unranked : float64 ndarray of shape (n, n_unranked)
        Relevance of documents of the query that were not ranked; minus infinity in the padding.
    """

    def __init__(
        self,
        queries: NDArray[np.int64],
        valid: NDArray[np.bool_],
        scores: NDArray[np.float64],
        relevance: NDArray[np.float64],
        unranked: NDArray[np.float64] | None = None,
    ) -> None:
        order = np.argsort(-scores, axis=1, kind="stable")
        self.queries = queries
        self.valid = valid
        self.unranked = np.empty((len(valid), 0)) if unranked is None else unranked
        self.scores = np.take_along_axis(scores, order, axis=1)
        self.relevance = np.take_along_axis(relevance, order, axis=1)

    @cached_property
    def positions(self) -> NDArray[np.float64]:
        """1, 2, ..., width."""
        return np.arange(1.0, self.valid.shape[1] + 1)

    @cached_property
    def ties(self) -> Runs:
        """The runs of equal score."""
        return Runs(_changes(self.scores))

    def runs(self, ties: str) -> Runs:
        """Rows whose order the scores leave open: `ties`, or none if ties go by input order."""
        return Runs(np.ones_like(self.valid)) if ties == "order" else self.ties

    @cached_property
    def pair_counts(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Of each query, the pairs of different relevance: all, ordered wrongly, tied in score."""
        # From the most relevant to the least, equal ones by falling score: a pair is ordered
        # wrongly if and only if the later document has a better (smaller) number.
        order = np.argsort(-self.relevance, axis=1, kind="stable")
        relevance = np.take_along_axis(self.relevance, order, axis=1)
        number = np.take_along_axis(self.ties.numbers, order, axis=1)
        new_level = _changes(relevance)
        same_level = Runs(new_level).pairs
        same_both = Runs(new_level | _changes(number)).pairs
        width = self.valid.shape[1]
        n_pairs = width * (width - 1) / 2 - same_level
        tied = self.ties.pairs - same_both
        # Padding is one level below all others, which makes pairs with every document.
        sizes = self.valid.sum(axis=1)
        n_pairs -= sizes * (width - sizes)
        return n_pairs, count_inversions(number), tied


class Runs:
    """A matrix whose rows are cut into runs of consecutive cells.

    Parameters
    ----------
    heads : bool ndarray of shape (n, width)
        Where runs begin; True in the first column.
    """

    def __init__(self, heads: NDArray[np.bool_]) -> None:
        self._heads = heads

    @cached_property
    def trivial(self) -> bool:
        """Whether every run is a single cell."""
        return bool(self._heads.all())

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.flatnonzero(self._heads)

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        return np.diff(self._starts, append=self._heads.size)

    def _spread(self, per_run: NDArray[Any]) -> NDArray[Any]:
        return np.repeat(per_run, self._lengths).reshape(self._heads.shape)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """At each cell, the number of its run."""
        return self._spread(np.arange(len(self._starts)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """At each cell, the length of its run."""
        return self._spread(self._lengths)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """At each cell, how many cells of its run stand before it."""
        offsets: NDArray[np.int64] = np.arange(self._heads.size).reshape(self._heads.shape)
        offsets -= self._spread(self._starts)
        return offsets

    @property
    def pairs(self) -> NDArray[np.float64]:
        """Of each row, the number of pairs of cells in the same run."""
        n_rows, width = self._heads.shape
        inside = self._lengths * (self._lengths - 1.0) / 2
        return np.bincount(self._starts // width, inside, n_rows).astype(np.float64, copy=False)

    def sum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """At each cell, the sum of `values` over its run."""
        if self.trivial:
            return values
        return self._spread(np.add.reduceat(values.ravel(), self._starts))

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """At each cell, the mean of `values` over its run."""
        if self.trivial:
            return values
        return self._spread(np.add.reduceat(values.ravel(), self._starts) / self._lengths)

    def before(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """At each cell, the sum of `values` over the cells of its row before its run."""
        until = np.cumsum(values, axis=1) - values
        return until if self.trivial else self._spread(until.ravel()[self._starts])

    def ascending(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values, those within a run in ascending order."""
        if self.trivial:
            return values
        flat = values.ravel()
        return flat[np.lexsort((flat, self.numbers.ravel()))].reshape(values.shape)


class Ragged(NamedTuple):
    """Values of all queries one after the other, and where each query begins."""

    values: NDArray[np.float64]
    starts: NDArray[np.int64]

    def padded(self, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        """The values of some queries, one a row; minus infinity behind the last."""
        return _padded(self.values, *_layout(self.starts, queries))


def _layout(
    starts: NDArray[np.int64], queries: NDArray[np.int64], least: int = 0
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which cells of the rows of some queries are taken, and the place of each one's value."""
    length = np.diff(starts)[queries][:, None]
    column = np.arange(max(least, length.max()))
    return column < length, starts[queries][:, None] + column


def _padded(
    values: NDArray[np.float64], valid: NDArray[np.bool_], place: NDArray[np.int64]
) -> NDArray[np.float64]:
    if not len(values):
        return np.full(valid.shape, -np.inf)
    # Padding reads any row that exists and is overwritten.
    return np.where(valid, values[np.minimum(place, len(values) - 1)], -np.inf)


def split_into_blocks(
    scores: NDArray[np.float64],
    relevance: NDArray[np.float64],
    query_ptr: NDArray[np.int64],
    unranked: Ragged | None = None,
) -> Iterator[Block]:
    """All queries in blocks, none less than half as long as the longest of its block."""
    sizes = np.diff(query_ptr)
    magnitude = np.frexp(np.maximum(sizes, 1))[1]
    by_size = np.argsort(sizes, kind="stable")
    for exponent in np.unique(magnitude):
        similar = by_size[magnitude[by_size] == exponent]
        step = max(1, _CELLS >> exponent)
        for first in range(0, len(similar), step):
            queries = similar[first : first + step]
            valid, place = _layout(query_ptr, queries, 1)
            yield Block(
                queries,
                valid,
                _padded(scores, valid, place),
                _padded(relevance, valid, place),
                None if unranked is None else unranked.padded(queries),
            )


def count_inversions(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of each row, the number of cells i < j with ``values[i] > values[j]``, in O(w log^2 w).

    Merge sort from the bottom up, all rows and all segments of a level at once: in the sorted
    union of two neighbouring segments, the cells of the right one that stand before the t-th of
    the left one (t = 0, 1, ...) are its position minus t.

    Examples
    --------
    >>> count_inversions(np.array([[3, 1, 2], [1, 1, 2]]))
    array([2., 0.])
    """
    n_rows, width = values.shape
    padded = 1 << (width - 1).bit_length()
    largest = int(values.max())
    # Half the bytes, sorted in half the time; the codes below are at most 2 * largest + 1.
    dtype = np.int32 if largest < 2**30 else np.int64
    keys = np.full((n_rows, padded), largest, dtype=dtype)
    keys[:, :width] = values
    inversions = np.zeros(n_rows)
    half = 1
    while half < padded:
        side = np.repeat(np.array([0, 1], dtype=dtype), half)
        codes = np.sort((keys.reshape(-1, 2 * half) << 1) | side, axis=1)
        from_left = ((codes & 1) ^ 1).astype(np.float64)
        before = from_left @ np.arange(2.0 * half) - half * (half - 1) / 2
        inversions += before.reshape(n_rows, -1).sum(axis=1)
        keys = codes >> 1
        half *= 2
    return inversions


def _changes(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a row of `values` takes another value than in the cell before."""
    heads = np.ones(values.shape, dtype=np.bool_)
    np.not_equal(values[:, 1:], values[:, :-1], out=heads[:, 1:])
    return heads
