"""`TopProblem`: ranking at the top, positives above the highest negatives of their query.

    (11)  P(w) = lam/2 |w|^2 + sum over positives i of p_i max(0, 1 + t_q(i)(w) - w.x_i)^2

``t_q`` is the mean of the `top_k` highest scores of the negatives of query q: by default the
highest score itself. The weights p_i have sum 1, so that ``P(0) = 1``: ``1/m`` each for m
positives of one query. Dual, with a number a_i for each positive and b_j for each negative:

    D(a, b) = sum_i a_i - sum_i a_i^2 / (4 p_i) - 1/(2 lam) |X+' a - X-' b|^2
    a, b >= 0,   sum of a = sum of b in each query,   b_j <= (sum of b in its query) / top_k

If, in every query, some weighted mean of the positives lies in the convex hull of the negatives,
then no direction ranks the positives higher and w = 0 may be optimal, whatever lam.

References
----------
.. [1] Li, Jin and Zhou, "Top rank optimization in linear time", NIPS 2014 (one query, top_k=1).
.. [2] Kadkhodaie, Christakopoulou, Sanjabi and Banerjee, "Accelerated alternating direction
   method of multipliers", KDD 2015, equation (11).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug._fast import passes
from rankplug.data import Matrix, RankingData, even_spans, far_origin, row_slice
from rankplug.exceptions import DataError
from rankplug.objectives.top_losses import TOP_LOSSES, TopLoss, TopLossName
from rankplug.shards import Vector
from rankplug.system.interruption import raise_if_overdue

Scope: TypeAlias = Literal["per-query", "global"]

_PART_ELEMENTS = 2**19
"""Elements of the features, 4 MB of float64: what `Rows.blocks` may copy, and how much is done
before an interruption is noticed. Parts of 2**17 take 5 % longer, of 2**15 17 % (60,000 rows x
136)."""


class Rows:
    """The rows of X at some positions, and products with them that copy none.

    Rows are read in ascending order, part by part. Vectors and sums are float64 whatever the
    features are.

    Parameters
    ----------
    X : dense or CSR features
    index : int64 array of shape (n_rows,), ascending
    origin : float64 array of shape (n_columns,), optional
        What is subtracted from every row; for dense features only.
    """

    def __init__(self, X: Matrix, index: NDArray[np.int64], origin: Vector | None = None) -> None:
        self.X, self.index, self.origin = X, index, origin
        self.n_rows, self.n_columns = len(index), int(X.shape[1])
        self._parts = [_Part(X, index, b, e) for b, e in _spans(X, index)]

    def take(self, places: NDArray[np.int64]) -> Rows:
        """The rows at some ascending places among these."""
        return Rows(self.X, self.index[places], self.origin)

    def dot(self, v: Vector) -> Vector:
        """``X v``, X being these rows."""
        z = np.empty(self.n_rows)
        for part in self._visit():
            part.dot(v, z[part.span])
        if self.origin is not None:
            z -= self.origin @ v
        return z

    def transposed_dot(self, u: Vector) -> Vector:
        """``X' u``; rows where u is 0 are not read."""
        g = np.zeros(self.n_columns)
        for part in self._visit():
            part.add_transposed_dot(u[part.span], g)
        if self.origin is not None:
            g -= u.sum() * self.origin
        return g

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """All rows in float64, dense or CSR as X is: which of these rows, and the block of them.

        Blocks are of bounded size, and not to be changed: one may be a part of X itself.
        """
        for part in self._visit():
            yield part.span, self._shift(part.values())

    def gather(self) -> Any:
        """All rows as one float64 matrix."""
        return self._shift(_float64(self.X[self.index]))

    def _shift(self, values: Any) -> Any:
        return values if self.origin is None else values - self.origin

    def _visit(self) -> Iterator[_Part]:
        for part in self._parts:
            raise_if_overdue()
            yield part


class _Part:
    """Some of the rows, and the consecutive rows X from the first to the last of them."""

    def __init__(self, X: Matrix, index: NDArray[np.int64], b: int, e: int) -> None:
        self.span = slice(b, e)
        self._index = index[b:e]
        self._first, stop = int(index[b]), int(index[e - 1]) + 1
        self.X = row_slice(X, slice(self._first, stop))
        self._all = stop - self._first == e - b

    @property
    def _rows(self) -> NDArray[np.int64] | None:
        """The rows of `X` that are meant; None for all."""
        return None if self._all else self._index - self._first

    def dot(self, v: Vector, z: Vector) -> None:
        if isinstance(self.X, np.ndarray):
            passes.dense_dot(self.X, v, z, self._rows)
        else:
            passes.sparse_dot(self.X.indptr, self.X.indices, self.X.data, v, z, self._rows)

    def add_transposed_dot(self, u: Vector, g: Vector) -> None:
        if isinstance(self.X, np.ndarray):
            product = np.empty_like(g)
            passes.dense_transposed_dot(self.X, u, product, self._rows)
            g += product
        else:
            X = self.X
            passes.sparse_transposed_dot(X.indptr, X.indices, X.data, u, g, self._rows)

    def values(self) -> Any:
        return _float64(self.X if self._all else self.X[self._rows])


def _float64(X: Matrix) -> Any:
    if isinstance(X, np.ndarray):
        return np.asarray(X, dtype=np.float64)
    return sparse.csr_array(X, dtype=np.float64)


def _spans(X: Matrix, index: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Runs of the chosen rows with about equally many elements."""
    sizes = X.shape[1] if isinstance(X, np.ndarray) else X.indptr[index + 1] - X.indptr[index]
    starts = np.concatenate(([0], np.cumsum(np.broadcast_to(sizes, len(index)), dtype=np.int64)))
    return even_spans(starts, min(len(index), int(starts[-1]) // _PART_ELEMENTS + 1))


@dataclass(frozen=True, eq=False)
class TopProblem:
    """Positives and negatives of every query that has both; all rows are one query if global.

    Attributes
    ----------
    rows : Rows
        Positives and negatives, those of a query next to each other. Columns far from 0 are moved
        there, which changes no difference of scores and keeps their digits.
    pos_places, neg_places : int64 arrays of shapes (m,) and (n,)
        Which of the rows are positives and which negatives.
    pos_ptr, neg_ptr : int64 arrays of shape (n_queries + 1,)
        Where the positives and the negatives of each query start among their kind.
    weight : float64 array of shape (m,)
        ``p_i``, of sum 1.
    top_k : int64 array of shape (n_queries,)
        How many of the highest negatives count; at most as many as there are.
    loss : TopLoss
        Of a positive, by its score and the top of its query.
    """

    rows: Rows
    pos_places: NDArray[np.int64]
    neg_places: NDArray[np.int64]
    pos_ptr: NDArray[np.int64]
    neg_ptr: NDArray[np.int64]
    weight: Vector
    top_k: NDArray[np.int64]
    loss: TopLoss = field(default=TOP_LOSSES["squared-hinge"])

    @property
    def n_queries(self) -> int:
        """Number of queries with both kinds."""
        return len(self.top_k)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.rows.n_columns

    @cached_property
    def positives(self) -> Rows:
        """``X+``."""
        return self.rows.take(self.pos_places)

    @cached_property
    def negatives(self) -> Rows:
        """``X-``."""
        return self.rows.take(self.neg_places)

    def of_positives(self, per_query: NDArray[Any]) -> NDArray[Any]:
        """A number of each query, repeated for its positives."""
        return np.repeat(per_query, np.diff(self.pos_ptr))

    def of_negatives(self, per_query: NDArray[Any]) -> NDArray[Any]:
        """A number of each query, repeated for its negatives."""
        return np.repeat(per_query, np.diff(self.neg_ptr))

    def sum_positives(self, values: Vector) -> Vector:
        """Sums over the positives of each query."""
        sums: Vector = np.add.reduceat(values, self.pos_ptr[:-1])
        return sums

    def sum_negatives(self, values: Vector) -> Vector:
        """Sums over the negatives of each query."""
        sums: Vector = np.add.reduceat(values, self.neg_ptr[:-1])
        return sums

    def tops(self, neg_scores: Vector) -> Vector:
        """``t_q``: mean of the highest scores of the negatives of each query."""
        tops: Vector = np.maximum.reduceat(neg_scores, self.neg_ptr[:-1])
        for q in np.flatnonzero(self.top_k > 1):
            own = neg_scores[self.neg_ptr[q] : self.neg_ptr[q + 1]]
            place = len(own) - int(self.top_k[q])
            tops[q] = np.partition(own, place)[place:].mean()
        return tops

    def value(self, lam: float, w: Vector, pos_scores: Vector, neg_scores: Vector) -> float:
        """``P(w)``, given the scores at w."""
        r = self.arguments(self.tops(neg_scores), pos_scores)
        return 0.5 * lam * float(w @ w) + self.loss.total(self.weight, r)

    def arguments(self, t: Vector, pos_scores: Vector) -> Vector:
        """What the loss of each positive is a function of."""
        return self.loss.offset + self.of_positives(t) - pos_scores

    def value_at(self, lam: float, w: Vector) -> float:
        """``P(w)``; one pass over the features."""
        return self.value(lam, w, *self.scores(w))

    def scores(self, w: Vector) -> tuple[Vector, Vector]:
        """``X+ w`` and ``X- w``; one pass over the features."""
        scores = self.rows.dot(w)
        return scores[self.pos_places], scores[self.neg_places]

    def combination(self, a: Vector, b: Vector) -> Vector:
        """``X+' a - X-' b``; one pass over the features."""
        coefficient = np.empty(self.rows.n_rows)
        coefficient[self.pos_places] = a
        coefficient[self.neg_places] = -b
        return self.rows.transposed_dot(coefficient)

    def matching_scale(self, a: Vector, b: Vector) -> Vector:
        """What b has to be multiplied by in each query to have the sum of a."""
        sums, own = self.sum_positives(a), self.sum_negatives(b)
        return np.divide(sums, own, where=own > 0, out=np.zeros_like(own))

    def dual_value(self, lam: float, a: Vector, combined: Vector) -> float:
        """The highest D on the ray through (a, b), given ``combined = X+' a - X-' b``.

        It is a certified lower bound of the minimum of P if (a, b) is feasible.
        """
        return self.loss.dual_value(lam, self.weight, a, combined)

    def lower_bound(self, lam: float, a: Vector, b: Vector) -> float:
        """A certified lower bound of the minimum of P; one pass over the features.

        Parameters
        ----------
        lam : float
        a, b : float64 arrays of shapes (m,) and (n,), not negative
            b is rescaled in each query; it has to keep the cap of `top_k`.
        """
        scale = self.matching_scale(a, b)
        a = np.where(self.of_positives(scale) > 0, a, 0.0)
        return self.dual_value(lam, a, self.combination(a, b * self.of_negatives(scale)))


def make_top_problem(
    data: RankingData,
    threshold: float | None,
    scope: Scope,
    top_k: int = 1,
    loss: TopLossName = "squared-hinge",
) -> TopProblem:
    """Split the rows into positives and negatives; leave out queries that have one kind only.

    Queries of one relevance or of weight zero are left out in either scope.

    Parameters
    ----------
    data : RankingData
    threshold : float or None
        Rows of higher relevance are positive. None: the lowest relevance of what is not left out.
    scope : "per-query" or "global"
        Positives against the negatives of their own query (``p_i = weight of the query / its
        positives``), or of all queries together (``p_i = weight of the query``), both divided by
        their sum.
    top_k : int
        Lowered to the number of negatives that there are.
    loss : "squared-hinge", "logistic" or "exponential"

    Raises
    ------
    DataError
        If there is no query with both kinds.
    """
    query_weight, query = data.weights, data.row_query
    counted = (query_weight > 0) & (data.pair_counts > 0)
    if threshold is None:
        threshold = float(data.relevance[counted[query]].min())
    positive = data.relevance > threshold
    n_pos = np.bincount(query[positive], minlength=data.n_queries)
    n_neg = np.bincount(query[~positive], minlength=data.n_queries)
    if scope == "per-query":
        counted &= (n_pos > 0) & (n_neg > 0)
    n_pos, n_neg = n_pos[counted], n_neg[counted]
    if n_pos.sum() == 0 or n_neg.sum() == 0:
        raise _one_kind_only(data, threshold, scope)
    rows = np.flatnonzero(counted[query])
    pos_places, neg_places = np.flatnonzero(positive[rows]), np.flatnonzero(~positive[rows])
    weight = query_weight[query[rows[pos_places]]]
    if scope == "per-query":
        weight = weight / np.repeat(n_pos, n_pos)
    else:
        n_pos, n_neg = np.array([len(pos_places)]), np.array([len(neg_places)])
    return TopProblem(
        Rows(data.X, rows, far_origin(data.X)),
        pos_places,
        neg_places,
        np.concatenate(([0], np.cumsum(n_pos))),
        np.concatenate(([0], np.cumsum(n_neg))),
        weight / weight.sum(),
        np.minimum(top_k, n_neg),
        TOP_LOSSES[loss],
    )


def _one_kind_only(data: RankingData, threshold: float, scope: Scope) -> DataError:
    where = "no query has both" if scope == "per-query" else "there are not both"
    low, high = data.relevance.min(), data.relevance.max()
    return DataError(
        f"{where} positives (relevance > {threshold:g}) and negatives: relevance goes from "
        f"{low:g} to {high:g} in {data.n_queries} queries; choose another threshold"
        + (" or scope='global'" if scope == "per-query" else "")
    )
