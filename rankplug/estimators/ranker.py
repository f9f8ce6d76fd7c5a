"""`Ranker`: any solver as a scikit-learn estimator for query-document data."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rankplug.data import RankingData, Task, rank_in_queries, tables
from rankplug.estimators.base import SolverEstimator, mean_of_defined, one_validation_set
from rankplug.exceptions import DataError, DataWarning, ParameterError
from rankplug.metrics import Ndcg, per_query
from rankplug.solver import Solver

NO_RELEVANT_ROW = "query has a relevant row"


class Ranker(SolverEstimator):
    """Learns to order the rows (documents) of each query.

    Parameters
    ----------
    solver : str or Solver, default="tree-tron"
    random_state : int, RandomState or None, default=None
        As those of `SolverEstimator`, whose attributes hold the trained model and the result.

    Attributes
    ----------
    n_queries_in_ : int
        Number of queries of the training data.

    Notes
    -----
    A table with a column ``qid`` carries its queries through ``GridSearchCV`` and
    ``cross_validate``. With ``sklearn.set_config(enable_metadata_routing=True)`` the arguments of
    `fit` and `score` pass through these and ``Pipeline`` without further requests.
    A pipeline does not transform the features in `eval_set`.

    Examples
    --------
    >>> from rankplug import Ranker
    >>> X = [[0.0], [1.0], [2.0], [0.0], [3.0]]
    >>> ranker = Ranker().fit(X, [0, 1, 2, 0, 1], qid=["a", "a", "a", "b", "b"])
    >>> ranker.rank(X, qid=["a", "a", "a", "b", "b"])
    array([3, 2, 1, 2, 1])
    """

    task: ClassVar[Task] = "query-document"

    __metadata_request__fit = dict.fromkeys(
        ("qid", "group", "sample_weight", "eval_set", "eval_qid"), True
    )
    __metadata_request__score = {"qid": True, "sample_weight": True}

    def __init__(
        self,
        solver: str | Solver = "tree-tron",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(solver, random_state)

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        eval_set: Any = None,
        eval_qid: Any = None,
    ) -> Self:
        """Train on the preference pairs of all queries.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Relevance, any real numbers; the higher, the better.
        qid : array-like of shape (n_samples,), optional
            Query of each row, integers or strings in any order. If it is omitted, a table's column
            ``qid`` says it; if there is none, all rows are one query, with a `DataWarning` unless
            the solver ranks all rows as a rule.
        group : array-like of shape (n_queries,), optional
            Sizes of consecutive queries, instead of `qid`.
        sample_weight : array-like of shape (n_samples,) or (n_queries,), optional
            Constant within a query: pairs take the weight of their query. Or one a query, where
            the rows of a query stand together.
        eval_set : (X, y) or [(X, y), ...], optional
            Validation data, for solvers that stop early by them (by the last of several); others
            leave them aside.
        eval_qid : array-like, or [array-like, ...] with ``[(X, y), ...]``, optional
            Query ids of the validation data.

        Raises
        ------
        DataError, ParameterError
            If the data or the solver's parameters are not valid.
        """
        solver = self._new_solver()
        data = self._data(X, y, qid, reset=True, group=group, sample_weight=sample_weight)
        if qid is None and group is None and not (has_queries(X) or solver.tags.one_query):
            warnings.warn(
                f"neither qid nor group is given: all {data.n_samples} rows are ranked as one "
                "query. If they belong to several, pass qid=... or a table with a column 'qid'; "
                f"if they are one, say so by group=[{data.n_samples}]",
                DataWarning,
                stacklevel=2,
            )
        self.n_queries_in_ = data.n_queries
        valid = None
        if eval_set is not None:
            valid = self._data(*one_validation_set(eval_set, eval_qid))
        elif eval_qid is not None:
            raise ParameterError("eval_qid is given without eval_set=(X, y)")
        return self._train(solver, data, valid)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Scores of the rows of `X`, in their order; higher is better.

        As `SolverEstimator.predict`, but that a table may have its queries in a column ``qid``.
        """
        check_is_fitted(self)
        features, _ = tables.without_query_column(X, given=False, known=self._names())
        return super().predict(features)

    def rank(self, X: Any, qid: ArrayLike | None = None) -> NDArray[np.int64]:
        """Rank of each row in its query, 1 = best, in the order of the rows of `X`.

        Rows with equal scores are ranked in the order in which they are given.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
        qid : array-like of shape (n_samples,), optional
            Query of each row; if omitted, a table's column ``qid``, else one query.

        Returns
        -------
        int64 ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        features, column = tables.without_query_column(X, qid is not None, self._names())
        ranks, _ = rank_in_queries(self.predict(features), column if qid is None else qid)
        return ranks

    def score(
        self,
        X: Any,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean NDCG@10 over the queries that have a relevant row, the higher, the better.

        Grades (integers from 0 to 31) have the gain ``2**y - 1``. Other relevance, such as real
        or negative utilities, has the linear gain ``y - min(y)`` of its query.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        qid : array-like of shape (n_samples,), optional
            Query of each row; if omitted, a table's column ``qid``. A ranker that was trained on
            several queries needs one of them.
        sample_weight : array-like of shape (n_samples,), optional
            Constant within a query: the weight of the query in the mean.

        Raises
        ------
        DataError
            If the data are not valid, the queries are missing, or none has a relevant row.
        """
        check_is_fitted(self)
        if qid is None and not has_queries(X) and self.n_queries_in_ > 1:
            raise DataError(
                "score needs the queries, as fit had some: pass qid=..., or X as a table with a "
                "column 'qid', which scikit-learn's searches and cross-validations carry along. "
                "Otherwise these pass qid on only after "
                "sklearn.set_config(enable_metadata_routing=True)"
            )
        data = self._data(X, y, qid, sample_weight=sample_weight)
        values = ndcg_of_queries(data, self.model_.predict(data.X), graded=data.is_graded)
        return mean_of_defined(values, data.weights, NO_RELEVANT_ROW)

    def _data(
        self, X: Any, y: Any, qid: ArrayLike | None, *, reset: bool = False, **given: Any
    ) -> RankingData:
        """The checked data; `given` are other arguments of `RankingData.from_arrays`."""
        self._require_target(y)
        told = qid is not None or given.get("group") is not None
        X, column = tables.without_query_column(X, told, None if reset else self._names())
        features = self._features(X, reset=reset)
        qid = column if qid is None else qid
        return RankingData.from_arrays(features, y, qid, feature_names=self._names(), **given)


def has_queries(X: Any) -> bool:
    """Whether `X` is a table with a column of queries."""
    return tables.is_table(X) and tables.QUERY_COLUMN in tables.column_names(X)


def ndcg_of_queries(
    data: RankingData, scores: NDArray[np.float64], *, graded: bool
) -> NDArray[np.float64]:
    """NDCG@10 of each query with the gain that suits the relevance, NaN if nothing is relevant."""
    y, ndcg = data.relevance, Ndcg(10)
    if not graded:
        y, ndcg = data.linear_gains(), Ndcg(10, gain="linear")
    return per_query(y, scores, data.qid, ndcg)[str(ndcg)]
