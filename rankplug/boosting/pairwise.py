"""Losses of all preference pairs as objectives of boosted trees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug._fast.pairs import ActivePairs, Queries
from rankplug.boosting.library_data import Call, QueryFunction, read_call
from rankplug.data import RankingData
from rankplug.parameters import Choice, Integer, Real, check_parameters
from rankplug.shards import DocumentPairs, PairWeighting, weigh_pairs

Vector: TypeAlias = NDArray[np.float64]
PairWeight: TypeAlias = Literal["sum", "query-mean", "uniform", "gain", "relevance"]
SumOrMean: TypeAlias = Literal["sum", "query-mean"]


@dataclass(frozen=True)
class PairCounts:
    """What pairs count, in the words of the objectives of boosted trees.

    Parameters
    ----------
    pair_weight : "uniform", "gain", "relevance", "sum" or "query-mean"
        1, the difference of the gains ``2^y - 1`` of both rows, or that of their relevance y.
        "sum" and "query-mean" are "uniform" with that `reduction`.
    reduction : "sum" or "query-mean"
        Whether a query counts as much as its pairs do together, or queries count alike.
    document_pairs : "preferred" or "product"
        Of weights of rows, a pair takes that of its preferred one, or the product of both.
    """

    pair_weight: PairWeight = "sum"
    reduction: SumOrMean = "sum"
    document_pairs: DocumentPairs = "preferred"

    @property
    def is_mean(self) -> bool:
        """Whether queries count alike."""
        return "query-mean" in (self.pair_weight, self.reduction)

    @property
    def weighting(self) -> PairWeighting:
        """What single pairs count."""
        if self.pair_weight == "sum" or self.pair_weight == "query-mean":
            return PairWeighting("uniform", self.document_pairs)
        return PairWeighting(self.pair_weight, self.document_pairs)

    def check(self, owner: str) -> None:
        """Raise `ParameterError` for other values."""
        kinds = {
            "pair_weight": Choice(("sum", "query-mean", "uniform", "gain", "relevance")),
            "reduction": Choice(("sum", "query-mean")),
            "document_pairs": Choice(("preferred", "product")),
        }
        check_parameters(owner, kinds, vars(self))


class PairwiseObjective(QueryFunction, ABC):
    """The gradient and the diagonal of the Hessian of a loss of all pairs, by the scores.

        loss(s) = sum over queries q of c_q sum over pairs (i, j) of q, y_i > y_j,
                  of c_ij h(s_i - s_j)

    An instance is the function that a library wants: ``f(scores, data_set)`` for ``train`` of
    XGBoost and LightGBM, ``f(labels, scores, sample_weight, group)`` for their scikit-learn
    wrappers. No pair is ever listed: a call costs O(n log k) for n rows of k levels.
    """

    def __init__(
        self,
        qid: ArrayLike | None,
        group: ArrayLike | None,
        pair_weight: PairWeight,
        reduction: SumOrMean = "sum",
        document_pairs: DocumentPairs = "preferred",
        document_weight: ArrayLike | None = None,
        relevance: ArrayLike | None = None,
    ) -> None:
        super().__init__(qid, group)
        self.counts = PairCounts(pair_weight, reduction, document_pairs)
        self.counts.check(type(self).__name__)
        self.pair_weight = pair_weight
        self.document_weight = document_weight
        self.relevance = relevance
        self._known: _KnownPairs | None = None

    def __call__(
        self, first: Any, second: Any, sample_weight: Any = None, group: Any = None
    ) -> tuple[Vector, Vector]:
        """Gradient and Hessian diagonal, in the order of the rows.

        Raises
        ------
        DataError
            If the data set does not fit `qid`, or its labels or weights are not valid.
        """
        call = read_call(first, second, sample_weight, group)
        if self._known is None or not self._known.are_of(call):
            self._known = self._pairs_of(call)
        data = self._known.data
        scores = call.scores if data.order is None else call.scores[data.order]
        gradient, hessian = self._derivatives(self._known.pairs, scores)
        hessian *= self._known.row_weight
        return data.restore(gradient), data.restore(hessian)

    @abstractmethod
    def _derivatives(self, pairs: ActivePairs, scores: Vector) -> tuple[Vector, Vector]:
        """The gradient, and the Hessian's diagonal as if every ``c_q`` were 1."""

    def _pairs_of(self, call: Call) -> _KnownPairs:
        # Features are required but play no part here.
        data = RankingData.from_arrays(
            np.zeros((len(call.labels), 1)),
            call.labels if self.relevance is None else self.relevance,
            self.queries_of(call),
            sample_weight=call.row_weight,
            document_weight=self.document_weight,
        )
        weight, weighting = data.weights, self.counts.weighting
        if self.counts.is_mean:
            total = weigh_pairs(data, weighting)
            weight = weight / np.where(total > 0, total, 1.0)
        factors = weighting.factors(data.relevance, data.document_weight)
        pairs = ActivePairs(Queries(data.query_ptr, data.relevance, weight, **factors.given))
        return _KnownPairs(call, data, pairs, weight[data.row_query])

    def __getstate__(self) -> dict[str, Any]:
        """The state of copies: without the pairs, which they find again."""
        return {**vars(self), "_known": None}


@dataclass(frozen=True, eq=False)
class _KnownPairs:
    """The pairs of the data set last seen: the same in every round but for the scores."""

    call: Call
    data: RankingData
    pairs: ActivePairs
    row_weight: Vector

    def are_of(self, call: Call) -> bool:
        """Whether a call is about the same labels, weights and queries."""
        parts = ("labels", "weight", "group")
        pairs: Any = ((getattr(self.call, part), getattr(call, part)) for part in parts)
        return all(np.array_equal(known, new) for known, new in pairs)  # None equals None only


class PairwiseSquaredHinge(PairwiseObjective):
    """The squared hinge of all pairs, exactly, as an objective of boosted trees.

        loss(s) = sum over queries q of c_q sum over pairs (i, j), y_i > y_j,
                  of c_ij max(0, margin - (s_i - s_j))^2

    With l+ and l- the numbers of the row's pairs with ``s_i - s_j < margin`` that it should
    win and lose, and S the sum of its partners' scores in them, all weighed by ``c_ij``,

        g_i = 2 c_q ((l+ + l-) s_i - S - margin (l+ - l-)),    h_i = 2 c_q (l+ + l-),

    the gradient and the diagonal of the generalised Hessian, in O(n log k) time for n rows of k
    levels of relevance [1]_. It is an ``obj`` of `xgboost.train` and an ``objective`` of
    `lightgbm.train`, `lightgbm.LGBMRanker` and `xgboost.XGBRegressor`.

    Parameters
    ----------
    qid : array-like of shape (n_rows,), optional
        Query of each row, integers or strings in any order, for one data set. By default, the
        queries are those of the data set; all its rows are one query if it has none.
    group : array-like of shape (n_queries,), optional
        Sizes of consecutive queries, instead of `qid`.
    margin : float > 0
        By how much the better row of a pair should win.
    pair_weight : "sum", "query-mean", "uniform", "gain" or "relevance"
        ``c_ij``: 1, the difference of the gains ``2^y - 1`` of both rows, or that of their
        relevance y. "sum" and "query-mean" are "uniform" with that `reduction`.
    reduction : "sum" or "query-mean"
        "sum": ``c_q`` is the query's weight, so a query counts as much as it has pairs.
        "query-mean": the weight divided by what the query's pairs count, so that queries count
        alike; second derivatives are then small (they add up to at most 4 in a query), and so
        must be what they are compared with: ``min_child_weight``, ``reg_lambda``,
        ``min_sum_hessian_in_leaf``.
    document_weight : array-like of shape (n_rows,), optional
        Weights of rows, for one data set: ``c_ij`` is multiplied by that of the preferred row, or
        by the product of both.
    document_pairs : "preferred" or "product"
    relevance : array-like of shape (n_rows,), optional
        Of which gains are made, for one data set, instead of its labels, which may be but levels.

    Raises
    ------
    ParameterError
        If a parameter has a value it cannot have, or both `qid` and `group` are given.

    Notes
    -----
    Weights are the data set's, of queries or of rows; those of rows must be constant within a
    query. Labels are any real numbers, but both libraries keep them as float32: values that
    differ by less than one part in 10^7 are ties. Scores matter by their differences only, so
    start from 0 (``base_score=0`` in XGBoost). `lightgbm.LGBMRanker` evaluates its own NDCG
    unless ``metric="None"``, and so refuses real labels and queries of more than 10,000 rows.

    References
    ----------
    .. [1] Lee and Lin, Large-scale linear rankSVM, Neural Computation 26 (2014).
    """

    def __init__(
        self,
        qid: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
        margin: float = 1.0,
        pair_weight: PairWeight = "sum",
        **weights: Any,
    ) -> None:
        super().__init__(qid, group, pair_weight, **weights)
        check_parameters(type(self).__name__, {"margin": Real(0)}, {"margin": margin})
        self.margin = float(margin)

    def _derivatives(self, pairs: ActivePairs, scores: Vector) -> tuple[Vector, Vector]:
        half_gradient = np.empty(len(scores))
        pairs.update(scores, self.margin)
        pairs.squared_hinge(scores, half_gradient)
        return 2.0 * half_gradient, 2.0 * pairs.count


class PairwiseLogistic(PairwiseObjective):
    """The logistic loss of all pairs, up to a bounded error, as an objective of boosted trees.

        loss(s) = sum over queries q of c_q sum over pairs (i, j), y_i > y_j,
                  of c_ij log(1 + exp(-(s_i - s_j)))

    The derivative of a pair's loss, ``-1 / (1 + exp(s_i - s_j))``, is replaced by a piecewise
    linear function of ``s_i - s_j``, which differs from it by `max_error` at most
    (0.003 for 16 knots); so the gradient of a row errs by at most that, times ``c_q``, for each
    of its pairs. The second derivative is that of the piecewise linear function.

    Parameters
    ----------
    qid, group, pair_weight, reduction, document_weight, document_pairs, relevance
        See `PairwiseSquaredHinge`, whose notes and errors apply here too.
    n_knots : int from 4 to 1000
        Pieces of the derivative. Time grows with it, the error falls with its square: a call
        costs `n_knots` times one of `PairwiseSquaredHinge`.

    Attributes
    ----------
    max_error : float
        How far the derivative of a pair's loss is from ``-1 / (1 + exp(t))`` at most.
    """

    def __init__(
        self,
        qid: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
        pair_weight: PairWeight = "sum",
        n_knots: int = 16,
        **weights: Any,
    ) -> None:
        super().__init__(qid, group, pair_weight, **weights)
        check_parameters(type(self).__name__, {"n_knots": Integer(4, 1000)}, {"n_knots": n_knots})
        self.n_knots = n_knots
        self._knots, self._bends, self.max_error = _piecewise_linear_sigmoid(n_knots)

    def _derivatives(self, pairs: ActivePairs, scores: Vector) -> tuple[Vector, Vector]:
        # sigmoid(-t) is a sum of hinges, so the loss is a sum of squared hinges of other margins.
        gradient, hessian = np.zeros((2, len(scores)))
        half_gradient = np.empty(len(scores))
        for margin, bend in zip(self._knots, self._bends, strict=True):
            pairs.update(scores, float(margin))
            pairs.squared_hinge(scores, half_gradient)
            gradient += bend * half_gradient
            hessian += bend * pairs.count
        return gradient, np.maximum(hessian, 0.0)  # bends sum to 0 up to rounding


def _piecewise_linear_sigmoid(n_knots: int) -> tuple[Vector, Vector, float]:
    """Knots b, bends a and the largest error of ``1 / (1 + exp(t)) ~ sum a_k max(0, b_k - t)``.

    The error between two knots grows with the square of their distance and the curvature, so
    they stand where each has an equal share of the integral of the root of the curvature.
    """
    # Where the sigmoid is 1 and 0 up to 2e-9, in steps far finer than any distance of knots.
    t = np.linspace(-20.0, 20.0, 40_001)
    value = 1.0 / (1.0 + np.exp(t))
    root = np.sqrt(np.abs(value * (1.0 - value) * (1.0 - 2.0 * value)))
    share = np.cumsum(root) / root.sum()
    knots = np.interp((np.arange(n_knots) + 0.5) / n_knots, share, t)
    heights = 1.0 / (1.0 + np.exp(knots))
    heights[[0, -1]] = 1.0, 0.0
    slopes = np.concatenate(([0.0], -np.diff(heights) / np.diff(knots), [0.0]))
    bends = slopes[:-1] - slopes[1:]
    error = np.abs(np.interp(t, knots, heights) - value).max()
    return knots, bends, float(error)


# Named as functions, too: a library that is given an objective calls it.
pairwise_squared_hinge = PairwiseSquaredHinge
pairwise_logistic = PairwiseLogistic
