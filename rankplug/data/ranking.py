"""Ranking data: checked once, grouped by query once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankplug.data import tables
from rankplug.data.arrays import (
    Matrix,
    as_matrix,
    expand_group,
    group_queries,
    integers_or_strings,
    n_stored,
    real_array,
    real_vector,
    row_slice,
)
from rankplug.data.scaling import Scaling
from rankplug.exceptions import DataError

__all__ = [
    "LARGEST_GRADE",
    "LabelRankingData",
    "Matrix",
    "RankingData",
    "as_matrix",
    "group_queries",
    "n_stored",
    "no_pairs",
    "no_pairs_count",
]

_ROWS_AT_ONCE = 2**20

LARGEST_GRADE = 31
"""Of relevance whose gain is ``2^y - 1``, as in XGBoost."""


@dataclass(frozen=True, eq=False)
class RankingData:
    """Documents with graded relevance, the rows of a query next to each other.

    Made by `from_arrays`; the constructor itself checks nothing.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features), float32 or float64
        Features; dense ones are C-contiguous, sparse ones canonical CSR.
    relevance : float64 ndarray of shape (n_samples,)
        The higher, the better; any real number.
    query_ptr : int64 ndarray of shape (n_queries + 1,)
        Rows ``query_ptr[q]:query_ptr[q + 1]`` belong to query ``q``.
    query_ids : ndarray of shape (n_queries,)
        The caller's ids, in order of first appearance.
    query_weight : float64 ndarray of shape (n_queries,) or None
        How much the pairs of each query count; None means 1 each.
    feature_names : tuple of str or None
    order : int64 ndarray of shape (n_samples,) or None
        Row ``i`` here was the caller's row ``order[i]``; None if nothing moved.
    scaling : Scaling or None
        How `X` was scaled when the data were prepared on disk; None if it holds the features as
        they were given.
    """

    X: Matrix
    relevance: NDArray[np.float64]
    query_ptr: NDArray[np.int64]
    query_ids: NDArray[Any]
    query_weight: NDArray[np.float64] | None = None
    feature_names: tuple[str, ...] | None = None
    order: NDArray[np.int64] | None = None
    scaling: Scaling | None = None

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> RankingData:
        """Check the arrays and bring the rows of every query together.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Relevance, any finite real numbers.
        qid : array-like of shape (n_samples,), optional
            Query ids, integers or strings in any order; all rows are one query if omitted.
        group : array-like of shape (n_queries,), optional
            Query sizes of consecutive rows, instead of `qid`.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative weights that are constant within a query: pairs take their query's.
        feature_names : sequence of str, optional
            Taken from the table's columns where `X` is a table.

        Raises
        ------
        DataError
            If lengths differ, values are missing or infinite, or weights vary in a query.
        """
        matrix, names = as_matrix(X, feature_names)
        n_samples = matrix.shape[0]
        relevance = real_vector(y, "relevance y", n_samples)
        if qid is not None and group is not None:
            raise DataError("both qid and group are given: pass one of them")
        if group is not None:
            qid = expand_group(group, n_samples)
        query_ptr, query_ids, order = group_queries(qid, n_samples)
        if order is not None:
            matrix, relevance = matrix[order], relevance[order]
        weight = None
        if sample_weight is not None:
            per_row = real_vector(sample_weight, "sample_weight", n_samples)
            weight = _query_weight(
                per_row if order is None else per_row[order], query_ptr, query_ids
            )
        return cls(matrix, relevance, query_ptr, query_ids, weight, names, order)

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of `X`."""
        return int(self.X.shape[1])

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.query_ptr) - 1

    @cached_property
    def qid(self) -> NDArray[Any]:
        """The query id of every row, in the order of the rows here."""
        return np.repeat(self.query_ids, np.diff(self.query_ptr))

    @cached_property
    def pair_counts(self) -> NDArray[np.int64]:
        """Number of pairs ``y_i > y_j`` of each query."""
        # Part by part, so that little memory is taken beyond that of the rows.
        starts = np.arange(0, self.n_samples, _ROWS_AT_ONCE)
        cuts = np.unique(np.append(np.searchsorted(self.query_ptr, starts), self.n_queries))
        ptr = self.query_ptr
        parts = [
            _pair_counts(self.relevance[ptr[b] : ptr[e]], ptr[b : e + 1] - ptr[b])
            for b, e in pairwise(cuts)
        ]
        return np.concatenate(parts)

    @property
    def row_weight(self) -> NDArray[np.float64] | None:
        """The weight of the query of each row, of shape (n_samples,); None where none is given."""
        if self.query_weight is None:
            return None
        return np.repeat(self.query_weight, np.diff(self.query_ptr))

    @property
    def is_graded(self) -> bool:
        """Whether the relevance is grades, integers from 0 to 31, whose gain is ``2^y - 1``."""
        y = self.relevance
        return bool(np.all((y >= 0) & (y <= LARGEST_GRADE) & (y == np.floor(y))))

    def linear_gains(self) -> NDArray[np.float64]:
        """The gain of relevance that is no grade: ``y - min(y)`` of its query.

        Returns
        -------
        float64 ndarray of shape (n_samples,)

        Raises
        ------
        DataError
            If a difference overflows.
        """
        y = self.relevance
        lowest = np.minimum.reduceat(y, self.query_ptr[:-1])
        with np.errstate(over="ignore"):
            gain: NDArray[np.float64] = y - np.repeat(lowest, np.diff(self.query_ptr))
        if not np.isfinite(gain).all():
            raise DataError(
                f"relevance from {y.min():g} to {y.max():g} is too wide: differences overflow; "
                "scale it"
            )
        return gain

    def require_pairs(self) -> None:
        """Raise `DataError` if no query of positive weight has two rows of different relevance."""
        same_query = np.ones(max(self.n_samples - 1, 0), dtype=bool)
        boundaries = self.query_ptr[1:-1] - 1
        same_query[boundaries[boundaries >= 0]] = False
        pairs = same_query & (self.relevance[1:] != self.relevance[:-1])
        if not pairs.any():
            raise no_pairs(self.n_samples, self.n_queries)
        weight = self.row_weight
        if weight is not None and not weight[1:][pairs].any():
            raise no_pairs_count()

    def __sizeof__(self) -> int:
        """Bytes of the arrays in memory; those that are mapped from a file take none."""
        X: Any = self.X
        features = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
        others = (self.relevance, self.query_ptr, self.query_ids, self.query_weight, self.order)
        return sum(
            array.nbytes
            for array in (*features, *others)
            if array is not None and not isinstance(array, np.memmap)
        )

    def restore(self, values: NDArray[Any]) -> NDArray[Any]:
        """Per-row values in the caller's row order."""
        if self.order is None:
            return values
        restored = np.empty_like(values)
        restored[self.order] = values
        return restored

    def take_queries(self, queries: ArrayLike) -> RankingData:
        """The data of some queries, given by their positions, in that order.

        Features of consecutive queries are not copied.

        Raises
        ------
        DataError
            If there is no such query or none is chosen.
        """
        chosen = np.asarray(queries)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or len(chosen) == 0:
            raise DataError("queries must be a non-empty list of positions (integers)")
        outside = chosen[(chosen < 0) | (chosen >= self.n_queries)]
        if outside.size:
            raise DataError(f"no query at position {outside[0]}: there are {self.n_queries}")
        sizes = np.diff(self.query_ptr)[chosen]
        query_ptr = np.concatenate(([0], np.cumsum(sizes)))
        rows = np.repeat(self.query_ptr[chosen] - query_ptr[:-1], sizes) + np.arange(query_ptr[-1])
        if np.all(np.diff(chosen) == 1):
            run = slice(self.query_ptr[chosen[0]], self.query_ptr[chosen[-1] + 1])
            X = row_slice(self.X, run)
        else:
            X = self.X[rows]
        return RankingData(
            X,
            self.relevance[rows],
            query_ptr,
            self.query_ids[chosen],
            None if self.query_weight is None else self.query_weight[chosen],
            self.feature_names,
            scaling=self.scaling,
        )


@dataclass(frozen=True, eq=False)
class LabelRankingData:
    """Instances, each with a relevance for every label.

    Made by `from_arrays`; the constructor itself checks nothing.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features), float32 or float64
    relevance : float64 ndarray of shape (n_samples, n_labels)
        The higher, the better; NaN means that the label is not compared for the instance.
    labels : ndarray of shape (n_labels,)
        Names of the labels; class values for multiclass data, else 0, 1, ...
    feature_names : tuple of str or None
    """

    X: Matrix
    relevance: NDArray[np.float64]
    labels: NDArray[Any]
    feature_names: tuple[str, ...] | None = None

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        Y: Any,
        *,
        labels: Sequence[Any] | NDArray[Any] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> LabelRankingData:
        """Check the arrays.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
        Y : array-like of shape (n_samples, n_labels) or (n_samples,)
            Relevance of each label (NaN: not compared), or one class per instance, which
            makes that class relevant (1) and every other one not (0).
        labels : sequence, optional
            Names of the columns of a two-dimensional `Y`.
        feature_names : sequence of str, optional

        Raises
        ------
        DataError
            If lengths differ or values are infinite.
        """
        matrix, names = as_matrix(X, feature_names)
        n_samples = matrix.shape[0]
        if tables.is_table(Y):
            labels = tables.column_names(Y) if labels is None else labels
            Y = tables.to_matrix(Y)
        values = np.asarray(Y)
        if values.ndim == 1:
            relevance, label_array = _one_hot(values)
        elif values.ndim == 2:
            relevance = real_array(values, "relevance Y", allow_nan=True)
            label_array = np.arange(values.shape[1]) if labels is None else np.asarray(labels)
        else:
            raise DataError(f"relevance Y has {values.ndim} dimensions; it needs one or two")
        if relevance.shape[0] != n_samples:
            raise DataError(f"X has {n_samples} rows but Y has {relevance.shape[0]}")
        if len(label_array) != relevance.shape[1]:
            raise DataError(
                f"Y has {relevance.shape[1]} columns but {len(label_array)} labels are named"
            )
        return cls(matrix, relevance, label_array, names)

    @property
    def n_samples(self) -> int:
        """Number of instances."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of `X`."""
        return int(self.X.shape[1])

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.relevance.shape[1])

    @cached_property
    def pair_counts(self) -> NDArray[np.int64]:
        """Number of pairs of labels of different relevance, of each instance."""
        ordered = np.sort(self.relevance, axis=1)  # NaN last
        position = np.arange(self.n_labels)
        compared = ~np.isnan(ordered)
        new_run = np.ones(ordered.shape, dtype=bool)
        new_run[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        run_start = np.maximum.accumulate(np.where(new_run, position, 0), axis=1)
        # A label beats those that stand before the run of its equals.
        counts: NDArray[np.int64] = np.where(compared, run_start, 0).sum(axis=1)
        return counts

    def require_pairs(self) -> None:
        """Raise `DataError` if no instance has two labels of different relevance."""
        filled = self.relevance
        high = np.where(np.isnan(filled), -np.inf, filled).max(axis=1, initial=-np.inf)
        low = np.where(np.isnan(filled), np.inf, filled).min(axis=1, initial=np.inf)
        if not np.any(high > low):
            raise DataError(
                f"no preference pair: for each of the {self.n_samples} instances all labels have "
                "the same relevance, so there is nothing to learn; check Y"
            )


def no_pairs(n_samples: int, n_queries: int) -> DataError:
    """The error that there is nothing to learn from in so many samples and queries."""
    return DataError(
        f"no preference pair in {n_samples} samples of {n_queries} queries: the rows of a query "
        "all have the same relevance, so there is nothing to learn; check the labels and the "
        "query ids"
    )


def no_pairs_count() -> DataError:
    """The error that what could be learnt from has no weight."""
    return DataError(
        "no preference pair counts: sample_weight is zero for every query that has one"
    )


def _pair_counts(relevance: NDArray[np.float64], query_ptr: NDArray[np.int64]) -> NDArray[np.int64]:
    sizes = np.diff(query_ptr)
    query = np.repeat(np.arange(len(sizes)), sizes)
    by_level = np.lexsort((relevance, query))
    new_run = np.ones(len(relevance), dtype=bool)
    same_query = query[by_level[1:]] == query[by_level[:-1]]
    same_level = relevance[by_level[1:]] == relevance[by_level[:-1]]
    new_run[1:] = ~(same_query & same_level)
    starts = np.flatnonzero(new_run)
    runs = np.diff(np.append(starts, len(relevance)))
    tied = np.zeros(len(sizes), dtype=np.int64)
    np.add.at(tied, query[by_level[starts]], runs * (runs - 1) // 2)
    result: NDArray[np.int64] = sizes * (sizes - 1) // 2 - tied
    return result


def _query_weight(
    weight: NDArray[np.float64], query_ptr: NDArray[np.int64], query_ids: NDArray[Any]
) -> NDArray[np.float64]:
    if np.any(weight < 0):
        raise DataError(f"sample_weight is negative at row {np.flatnonzero(weight < 0)[0]}")
    first = weight[query_ptr[:-1]]
    varying = np.flatnonzero(weight != np.repeat(first, np.diff(query_ptr)))
    if varying.size:
        query = int(np.searchsorted(query_ptr, varying[0], side="right")) - 1
        raise DataError(
            f"sample_weight varies within query {query_ids[query]}: it must be constant within "
            "a query, because a pair of rows takes the weight of its query"
        )
    return first


def _one_hot(classes: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[Any]]:
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise DataError(f"class is missing (NaN) at row {np.flatnonzero(~np.isfinite(classes))[0]}")
    if classes.dtype.kind in "OT":
        classes = integers_or_strings(classes.astype(object), "class")
    if classes.dtype.kind not in "iufbU":
        raise DataError(
            f"classes must be integers, floats, booleans or strings, not of type {classes.dtype}"
        )
    labels, inverse = np.unique(classes, return_inverse=True)
    relevance = np.zeros((len(classes), len(labels)))
    relevance[np.arange(len(classes)), inverse] = 1.0
    return relevance, labels
