"""`RankingData`: documents with graded relevance, checked once, grouped by query once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankplug.data import tables
from rankplug.data.arrays import (
    Matrix,
    check_features,
    concatenate_ranges,
    real_vector,
    stack_rows,
    take_rows,
)
from rankplug.data.base import PreferenceData, Task
from rankplug.data.categories import Categories
from rankplug.data.pair_counts import count_pairs, require_pairs
from rankplug.data.queries import expand_group, group_queries
from rankplug.data.row_weights import (
    QueryWeight,
    check_query_weight,
    document_weights,
    inverse_idcg,
    query_weights,
    stack_document_weights,
)
from rankplug.data.scaling import Scaling
from rankplug.exceptions import DataError

_ROWS_AT_ONCE = 2**20

LARGEST_GRADE = 31
"""Of relevance whose gain is ``2^y - 1``, as in XGBoost."""


def are_grades(relevance: NDArray[np.float64]) -> bool:
    """Whether relevance is grades, integers from 0 to 31, whose gain is ``2^y - 1``.

    Parameters
    ----------
    relevance : float64 ndarray of any shape
    """
    y = relevance
    return bool(np.all((y >= 0) & (y <= LARGEST_GRADE) & (y == np.floor(y))))


@dataclass(frozen=True, eq=False, repr=False)
class RankingData(PreferenceData):
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
    query_column : str or None
        Name of the column that held the query ids, where they were in a column with a name.
    id_columns : tuple of str
        Columns beside the features that name the rows, such as a document's id: models remember
        them, so that they stand beside their predictions.
    zero_based : bool
        Whether the indices of the svmlight text that they were read from begin at 0.
    document_weight : float64 ndarray of shape (n_samples,) or None
        How much the pairs of each row count, beside what those of its query do; None means 1 each.
    shown : pyarrow.Table or None
        Columns that describe the rows to people, such as a title; reports show them.
    """

    task: ClassVar[Task] = "query-document"
    unit: ClassVar[str] = "queries"

    X: Matrix
    relevance: NDArray[np.float64]
    query_ptr: NDArray[np.int64]
    query_ids: NDArray[Any]
    query_weight: NDArray[np.float64] | None = None
    feature_names: tuple[str, ...] | None = None
    order: NDArray[np.int64] | None = None
    scaling: Scaling | None = None
    query_column: str | None = None
    id_columns: tuple[str, ...] = ()
    zero_based: bool = False
    categories: Categories = field(default_factory=dict)
    document_weight: NDArray[np.float64] | None = None
    shown: Any = None

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        document_weight: ArrayLike | None = None,
        query_weight: QueryWeight | None = None,
        feature_names: Sequence[str] | None = None,
        categories: Categories | None = None,
        category_numbers: bool = False,
    ) -> RankingData:
        """Check the arrays and bring the rows of every query together.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
            Features; they may be missing (NaN, or null in a table), for solvers that take that. A
            table's column ``qid`` holds the queries if they are not given otherwise.
        y : array-like of shape (n_samples,)
            Relevance, any finite real numbers.
        qid : array-like of shape (n_samples,), optional
            Query ids, integers or strings in any order; all rows are one query if omitted.
        group : array-like of shape (n_queries,), optional
            Query sizes of consecutive rows, instead of `qid`.
        sample_weight : array-like of shape (n_samples,) or (n_queries,), optional
            Non-negative weights of rows, constant within a query: pairs take their query's. Or
            one for each query, where the rows of a query stand together.
        document_weight : array-like of shape (n_samples,), optional
            Non-negative weights of rows, which may differ within a query: what the pairs of a row
            count, such as one over the chance that its position was looked at. Solvers say how
            a pair takes them, or refuse them.
        query_weight : "inverse-idcg", optional
            Weights of queries that are made of their relevance, see `weigh_queries`.
        feature_names : sequence of str, optional
            Taken from the table's columns where `X` is a table.
        categories : mapping of int to tuple, optional
            By the number of a feature, its categories: known ones, of which an array holds the
            codes 1, 2, .... If omitted, the categories of a table's columns are learnt.
        category_numbers : bool, default=False
            Whether columns of categories that are numbers are categories, too, or numbers.

        Raises
        ------
        DataError
            If lengths differ, values are infinite, or missing where they are no features, or
            weights vary in a query.
        """
        X, query_column = tables.without_query_column(X, qid is not None or group is not None)
        matrix, names, has_missing, found = check_features(
            X, feature_names, categories, category_numbers=category_numbers
        )
        n_samples = matrix.shape[0]
        name = tables.name_of(qid) if query_column is None else tables.QUERY_COLUMN
        qid = query_column if qid is None else qid
        relevance = real_vector(y, "relevance y", n_samples)
        if qid is not None and group is not None:
            raise DataError("both qid and group are given: pass one of them")
        if group is not None:
            qid = expand_group(group, n_samples)
        query_ptr, query_ids, order = group_queries(qid, n_samples)
        if order is not None:
            matrix, relevance = matrix[order], relevance[order]
        of_rows = None
        if document_weight is not None:
            of_rows = document_weights(document_weight, n_samples, order)
        weight = None
        if sample_weight is not None:
            weight = query_weights(sample_weight, query_ptr, query_ids, order)
        data = cls(
            matrix, relevance, query_ptr, query_ids, weight, names, order,
            query_column=name, categories=found, document_weight=of_rows,
        )  # fmt: skip
        data = data.noting_missing(has_missing)
        return data if query_weight is None else data.weigh_queries(query_weight)

    def weigh_queries(self, name: QueryWeight) -> RankingData:
        """These data with weights of queries that are made of their relevance.

        Parameters
        ----------
        name : "inverse-idcg"
            One over the DCG of the query's best order, times the weights that there are. Gains are
            those of `Ranker.score`: ``2^y - 1`` of grades, else `linear_gains`.
        """
        check_query_weight(name)
        gain = np.exp2(self.relevance) - 1.0 if self.is_graded else self.linear_gains()
        return self.with_facts(query_weight=self.weights * inverse_idcg(gain, self.query_ptr))

    @property
    def weighs_documents(self) -> bool:
        """Whether rows have weights of their own."""
        return self.document_weight is not None

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.query_ptr) - 1

    @property
    def n_examples(self) -> int:
        """Number of queries."""
        return self.n_queries

    @property
    def example_ids(self) -> NDArray[Any]:
        """The caller's ids of the queries."""
        return self.query_ids

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of each query, of shape (n_queries,)."""
        return np.diff(self.query_ptr)

    @property
    def weights(self) -> NDArray[np.float64]:
        """How much the pairs of each query count, of shape (n_queries,)."""
        return np.ones(self.n_queries) if self.query_weight is None else self.query_weight

    @property
    def row_query(self) -> NDArray[np.int64]:
        """The position of the query of each row, of shape (n_samples,)."""
        return np.repeat(np.arange(self.n_queries), self.sizes)

    @property
    def structure(self) -> tuple[NDArray[Any], ...]:
        """Where the queries start and, if they are given, the weights of queries and rows."""
        given = (self.query_ptr, self.query_weight, self.document_weight)
        return tuple(array for array in given if array is not None)

    @cached_property
    def qid(self) -> NDArray[Any]:
        """The query id of every row, in the order of the rows here."""
        return np.repeat(self.query_ids, self.sizes)

    @cached_property
    def pair_counts(self) -> NDArray[np.int64]:
        """Number of pairs ``y_i > y_j`` of each query."""
        # Part by part, so that little memory is taken beyond that of the rows.
        starts = np.arange(0, self.n_samples, _ROWS_AT_ONCE)
        cuts = np.unique(np.append(np.searchsorted(self.query_ptr, starts), self.n_queries))
        ptr = self.query_ptr
        parts = [
            count_pairs(self.relevance[ptr[b] : ptr[e]], ptr[b : e + 1] - ptr[b])
            for b, e in pairwise(cuts)
        ]
        return np.concatenate(parts)

    @property
    def row_weight(self) -> NDArray[np.float64] | None:
        """The weight of the query of each row, of shape (n_samples,); None where none is given."""
        if self.query_weight is None:
            return None
        return np.repeat(self.query_weight, self.sizes)

    @property
    def is_graded(self) -> bool:
        """Whether the relevance is grades, integers from 0 to 31, whose gain is ``2^y - 1``."""
        return are_grades(self.relevance)

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
            gain: NDArray[np.float64] = y - np.repeat(lowest, self.sizes)
        if not np.isfinite(gain).all():
            raise DataError(
                f"relevance from {y.min():g} to {y.max():g} is too wide: differences overflow; "
                "scale it"
            )
        return gain

    def require_pairs(self) -> None:
        """Raise `DataError` if no query of positive weight has two rows of different relevance."""
        require_pairs(self)

    def __sizeof__(self) -> int:
        """Bytes of the arrays in memory; those that are mapped from a file take none."""
        X: Any = self.X
        features = (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)
        others = (self.relevance, *self.structure, self.query_ids, self.order)
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

    def take(self, examples: ArrayLike) -> RankingData:
        """The data of some queries, in the given order."""
        chosen = self._positions(examples)
        sizes = self.sizes[chosen]
        query_ptr = np.concatenate(([0], np.cumsum(sizes)))
        rows = concatenate_ranges(self.query_ptr[chosen], sizes)
        taken = RankingData(
            take_rows(self.X, rows),
            self.relevance[rows],
            query_ptr,
            self.query_ids[chosen],
            None if self.query_weight is None else self.query_weight[chosen],
            self.feature_names,
            scaling=self.scaling,
            query_column=self.query_column,
            id_columns=self.id_columns,
            zero_based=self.zero_based,
            categories=self.categories,
            document_weight=None if self.document_weight is None else self.document_weight[rows],
            shown=None if self.shown is None else self.shown.take(rows),
        )
        return taken if self.has_missing else taken.noting_missing(False)

    take_queries = take

    @classmethod
    def stack(cls, parts: Sequence[RankingData]) -> RankingData:
        """The queries of several data sets, one after the other; their ids are left as they are."""
        sizes = np.concatenate([part.sizes for part in parts])
        weighted = any(part.query_weight is not None for part in parts)
        stacked = cls(
            stack_rows([part.X for part in parts]),
            np.concatenate([part.relevance for part in parts]),
            np.concatenate(([0], np.cumsum(sizes))),
            np.concatenate([part.query_ids for part in parts]),
            np.concatenate([part.weights for part in parts]) if weighted else None,
            parts[0].feature_names,
            scaling=parts[0].scaling,
            query_column=parts[0].query_column,
            id_columns=parts[0].id_columns,
            zero_based=parts[0].zero_based,
            categories=cls._same_categories(parts),
            document_weight=stack_document_weights(
                [(p.n_samples, p.document_weight) for p in parts]
            ),
            shown=_stack_shown([part.shown for part in parts]),
        )
        return stacked._noting_parts(parts)


def _stack_shown(tables_: Sequence[Any]) -> Any:
    """The rows of all tables, in the columns that all of them have."""
    if any(one is None for one in tables_):
        return None
    import pyarrow as pa

    names = [n for n in tables_[0].column_names if all(n in one.column_names for one in tables_)]
    texts = pa.schema([(name, pa.string()) for name in names])
    return pa.concat_tables([one.select(names).cast(texts) for one in tables_])
