"""`Ranker`: any solver as a scikit-learn estimator for query-document data."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rankplug.data import QueryWeight, RankingData, Task, rank_in_queries, tables
from rankplug.estimators.answers import split_columns, table_of_rows
from rankplug.estimators.base import SolverEstimator, model_to_go_on_from
from rankplug.estimators.watching import make_callback, validation_sets
from rankplug.exceptions import DataError, DataWarning, ParameterError, warn_caller
from rankplug.explain import (
    ModelExplanation,
    PairExplanation,
    QueryExplanation,
    explain_model,
    explain_query,
)
from rankplug.metrics import Ndcg, mean_of_defined, measure_data
from rankplug.parameters import Integer
from rankplug.solver import Solver

NO_RELEVANT_ROW = "the score is undefined: no query has a relevant row"


class Ranker(SolverEstimator):
    """Learns to order the rows (documents) of each query.

    Parameters
    ----------
    solver : str or Solver, default="tree-tron"
    random_state : int, RandomState or None, default=None
    **solver_params
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
        (
            *(
                "qid",
                "group",
                "sample_weight",
                "document_weight",
                "query_weight",
                "eval_set",
                "eval_qid",
            ),
            *("init", "callbacks", "verbose"),
        ),
        True,
    )
    __metadata_request__partial_fit = dict.fromkeys(
        ("qid", "group", "sample_weight", "callbacks", "verbose"), True
    )
    __metadata_request__score = {"qid": True, "sample_weight": True}

    def __init__(
        self,
        solver: str | Solver = "tree-tron",
        random_state: int | np.random.RandomState | None = None,
        **solver_params: Any,
    ) -> None:
        super().__init__(solver, random_state, **solver_params)

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        document_weight: ArrayLike | None = None,
        query_weight: QueryWeight | None = None,
        eval_set: Any = None,
        eval_qid: Any = None,
        init: Any = None,
        callbacks: Any = None,
        verbose: bool | int = False,
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
        document_weight : array-like of shape (n_samples,), optional
            How much the pairs of each row count, which may differ within a query, see
            `RankingData.from_arrays`; solvers that cannot use it refuse it.
        query_weight : "inverse-idcg", optional
            Weights of queries that are made of their relevance: one over the DCG of their best
            order, as NDCG divides by it.
        eval_set : (X, y) or [(X, y), ...], optional
            Validation data, measured each iteration in `evals_result_`. Solvers that stop early do
            it by the last of several.
        eval_qid : array-like, or [array-like, ...] with ``[(X, y), ...]``, optional
            Query ids of the validation data.
        init : Model, SolverResult, fitted ranker, str or Path, optional
            An earlier model, or its folder, from which to go on: linear solvers start at its
            weights, "sopopo", "larank" and "a2dm2" at dual variables made of its scores; boosted
            trees are added to its trees (`n_estimators` more, in a model that holds all). The
            other solvers refuse it.
        callbacks : list of callable, optional
            Each is called after each iteration with a `rankplug.solver.Progress`, whose ``str`` is
            a line that tells it; training stops where one returns True. Their errors come through.
        verbose : bool or int, default=False
            Print a line each iteration, or every so many.

        Raises
        ------
        DataError, ParameterError
            If the data or the solver's parameters are not valid.
        """
        solver, init = self._new_solver(), model_to_go_on_from(init)
        callback, sets = make_callback(callbacks, verbose), validation_sets(eval_set, eval_qid)
        weights = {
            "sample_weight": sample_weight,
            "document_weight": document_weight,
            "query_weight": query_weight,
        }
        data = self._data(X, y, qid, group=group, **weights)
        if qid is None and group is None and not (has_queries(X) or solver.tags.one_query):
            _warn_of_one_query(data)
        self.n_queries_in_ = data.n_queries
        if data.n_queries > 1:
            _warn_of_unknown_queries(sets)
        held_out = [self._data(*one, like=data) for one in sets]
        return self._train(solver, data, held_out, init=init, callback=callback)

    @available_if(SolverEstimator._online_solver)  # type: ignore[untyped-decorator]
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        callbacks: Any = None,
        verbose: bool | int = False,
    ) -> Self:
        """Learn from new queries alone, on top of what was learnt before.

        Only rankers of online solvers ("larank") have it. The model of earlier calls, of `fit`, or
        of `from_model` stays a part of the new one, and the rows of earlier calls are not needed:
        each call solves ``min 1/2 |w - w_before|^2 + C sum of losses of the new rows``, by default
        in one epoch. That is the paper's online algorithm, whose earlier dual variables stay as
        they are. Parameters and errors are those of `fit`; the columns must be those of the first
        call.
        """
        solver, callback = self._online_solver(), make_callback(callbacks, verbose)
        model = getattr(self, "model_", None)
        weights = {"sample_weight": sample_weight}
        data = self._data(X, y, qid, like=model, group=group, **weights)
        if qid is None and group is None and not has_queries(X):
            _warn_of_one_query(data)
        self.n_queries_in_ = data.n_queries
        return self._train(solver, data, [], init=model, callback=callback)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Scores of the rows of `X`, in their order; higher is better.

        As `SolverEstimator.predict`, but that a table may have its queries in a column ``qid``.
        """
        if self._is_plain(X):
            return self.model_.predict(X)
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
            Query of each row; if omitted, a table's column ``qid``, else one query, with a
            `DataWarning` if training had several.

        Returns
        -------
        int64 ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        features, column = tables.without_query_column(X, qid is not None, self._names())
        qid = column if qid is None else qid
        scores = self.predict(features)
        if qid is None and self.model_.query_column is not None and len(scores) > 1:
            warn_caller(
                f"neither qid nor a column 'qid' is given: all {len(scores)} rows are ranked as "
                "one query, although training had several; if they are one, pass "
                "qid=[0] * len(X)",
                DataWarning,
            )
        ranks, _ = rank_in_queries(scores, qid)
        return ranks

    def top_k(self, X: Any, qid: ArrayLike | None = None, k: int = 10) -> Any:
        """The `k` best rows of each query, best first, as a table.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
            A table may have columns beside the features of the training, if these have names.
        qid : array-like of shape (n_samples,), optional
            Query of each row; if omitted, the column that held the queries in training, or
            ``qid``.
        k : int, default=10

        Returns
        -------
        DataFrame of pandas or polars, or Arrow Table
            Of the kind of `X`, of pandas for arrays. First the query, 0 if there is none, under
            its column's name or ``qid``; then the columns of `X` that are no features; then
            ``rank``, 1 = best in its query, and ``score``. Queries come in order of first
            appearance, rows of equal scores in the order in which they are given. A pandas
            DataFrame keeps its index; otherwise ``row`` is the position in `X`, from 0.

        Raises
        ------
        DataError
            If `X` does not fit, or the queries are missing although training had several.

        Examples
        --------
        >>> import pandas as pd
        >>> films = pd.DataFrame(
        ...     {"user": [1, 1, 1, 2, 2], "title": list("abcde"), "stars": [3.0, 5, 4, 1, 2]},
        ...     index=[10, 11, 12, 13, 14],
        ... )
        >>> ranker = Ranker().fit(films[["stars"]], [0, 2, 1, 0, 1], qid=films["user"])
        >>> ranker.top_k(films, k=1).round(3)
            user title  rank  score
        11     1     b     1  4.286
        14     2     e     1  1.714
        """
        from rankplug.models.answers import parse_form

        check_is_fitted(self)
        k = parse_form({"k": k}).k
        X, features, others, qid, name = self._with_queries(X, qid, "top_k")
        scores = self.predict(features)
        ranks, best_first = rank_in_queries(scores, qid)
        rows = best_first[ranks[best_first] <= k]
        ids = np.zeros(len(scores), dtype=np.int64) if qid is None else np.asarray(qid)
        return table_of_rows(
            X,
            rows,
            [one for one in others if one != name],
            {name: ids.reshape(len(scores))[rows]},
            {"rank": ranks[rows], "score": scores[rows]},
        )

    def explain(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        query: Any = None,
        above: int | None = None,
        below: int | None = None,
        metric: str = "ndcg@10",
    ) -> PairExplanation | QueryExplanation | ModelExplanation:
        """Why one row stands above another, what moves the rows of a query, or those of all.

        Contributions of features are exact for linear, additive and boosted models, and sampled
        for others, with their error; see `rankplug.models.find_contributions`.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
            A table may have columns beside the features of the training, if these have names.
        y : array-like of shape (n_samples,), optional
            Relevance, for what each feature is worth to `metric`.
        qid : array-like of shape (n_samples,), optional
            Query of each row, as for `top_k`.
        query : optional
            The query to explain.
        above, below : int, optional
            Positions in `X` of two rows of one query.
        metric : str, default="ndcg@10"

        Returns
        -------
        PairExplanation
            If two rows are given: differences by feature, which add up to that of the scores.
        QueryExplanation
            If a query is given: contributions of its rows less their means.
        ModelExplanation
            Otherwise: how far each feature moves rows within their queries.

        Raises
        ------
        DataError
            If `X` does not fit, queries are missing, or there is no such query.
        ParameterError
            If one row is given, or two of different queries.

        Examples
        --------
        >>> X, y = [[1.0, 5.0], [2.0, 1.0], [0.0, 3.0]], [1, 2, 0]
        >>> why = Ranker().fit(X, y, qid=[7, 7, 7]).explain(X, above=1, below=2)
        >>> bool(abs(why.differences.sum() - why.difference) < 1e-12)
        True
        """
        check_is_fitted(self)
        _, features, _, qid, _ = self._with_queries(X, qid, "explain")
        rows = self.model_.check_rows(features)
        n_rows = rows.shape[0]
        ids = np.zeros(n_rows, dtype=np.int64) if qid is None else np.asarray(qid)
        if (above is None) != (below is None):
            raise ParameterError("above and below go together: the two rows to compare")
        if above is None and query is None:
            return explain_model(self.model_, rows, qid=qid, y=y, metric=metric)
        if above is not None and query is None:
            if not Integer(0, n_rows - 1).accepts(above):
                raise ParameterError(f"above={above!r} must be a position of the {n_rows} rows")
            query = ids[above]
        found = np.flatnonzero(ids == query)
        if not len(found):
            raise DataError(f"no row is of query {query!r}")
        of_query = explain_query(self.model_, rows[found], rows=found)
        return of_query if above is None or below is None else of_query.pair(above, below)

    def _with_queries(
        self, X: Any, qid: ArrayLike | None, what: str
    ) -> tuple[Any, Any, list[str], Any, str]:
        """The table, its features and other columns, and the queries with their column's name."""
        X, qid = tables.collected(X), tables.collected(qid)
        features, others = split_columns(X, self.model_.feature_names)
        if qid is not None and tables.QUERY_COLUMN in others:
            tables.without_query_column(X, given=True, known=self._names())
        name = tables.name_of(qid)
        if qid is None:
            known = (self.model_.query_column, tables.QUERY_COLUMN)
            name = next((one for one in known if one in others), None)
            if name is None and self.model_.query_column is not None:
                raise DataError(
                    f"{what} needs the queries, as training had several: pass qid=..., or X as a "
                    f"table with a column {self.model_.query_column!r} (qid=[0] * len(X) if all "
                    "rows are one)"
                )
            qid = None if name is None else tables.column(X, name)
        return X, features, others, qid, name or tables.QUERY_COLUMN

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
        if qid is None and not has_queries(X) and self.model_.query_column is not None:
            raise DataError(
                "score needs the queries, as fit had some: pass qid=..., or X as a table with a "
                "column 'qid', which scikit-learn's searches and cross-validations carry along. "
                "Otherwise these pass qid on only after "
                "sklearn.set_config(enable_metadata_routing=True)"
            )
        self._require_target(y)
        X, qid = tables.collected(X), tables.collected(qid)
        X, column = tables.without_query_column(X, qid is not None, self._names())
        scores = self.predict(X)
        # Of the data, only relevance and queries count here.
        placeholder = np.zeros((len(scores), 1))
        data = RankingData.from_arrays(
            placeholder, y, column if qid is None else qid, sample_weight=sample_weight
        )
        scores = scores if data.order is None else scores[data.order]
        values = ndcg_of_queries(data, scores, graded=data.is_graded)
        return mean_of_defined(values, data.weights, NO_RELEVANT_ROW)

    def export(self, file: str | os.PathLike[str], to: str) -> list[str]:
        """Write the trained model in the format of another system; see `Model.export`."""
        check_is_fitted(self)
        return self.model_.export(file, to)

    def _data(
        self, X: Any, y: Any, qid: ArrayLike | None, *, like: Any = None, **given: Any
    ) -> RankingData:
        """The checked data; `given` are other arguments of `RankingData.from_arrays`.

        Features are learnt anew, unless they are to be like those of data or a model.
        """
        reset = like is None
        self._require_target(y)
        told = qid is not None or given.get("group") is not None
        X, column = tables.without_query_column(X, told, None if reset else self._names())
        features = self._features(X, reset=reset)
        qid = column if qid is None else qid
        data = RankingData.from_arrays(features, y, qid, **self._reading(like), **given)
        return data if self._names() is not None else data.with_facts(feature_names=None)


def _warn_of_one_query(data: RankingData) -> None:
    warn_caller(
        f"neither qid nor group is given: all {data.n_samples} rows are ranked as one query. If "
        "they belong to several, pass qid=... or a table with a column 'qid'; if they are one, say "
        f"so by group=[{data.n_samples}]",
        DataWarning,
    )


def _warn_of_unknown_queries(sets: list[tuple[Any, Any, Any]]) -> None:
    """Warn of validation sets without queries, where training has some."""
    unknown = [
        f"eval_set[{number}]"
        for number, (X, _, qid) in enumerate(sets)
        if qid is None and not has_queries(X)
    ]
    if unknown:
        warn_caller(
            f"neither eval_qid nor a column 'qid' says the queries of {', '.join(unknown)}: all "
            "its rows are ranked as one query, although training has several; pass eval_qid=...",
            DataWarning,
        )


def has_queries(X: Any) -> bool:
    """Whether `X` is a table with a column of queries."""
    return tables.is_table(X) and tables.QUERY_COLUMN in tables.column_names(X)


def ndcg_of_queries(
    data: RankingData, scores: NDArray[np.float64], *, graded: bool
) -> NDArray[np.float64]:
    """NDCG@10 of each query with the gain that suits the relevance, NaN if nothing is relevant."""
    if graded:
        return measure_data(data, scores, Ndcg(10))["ndcg@10"].values
    gains, ndcg = data.with_facts(relevance=data.linear_gains()), Ndcg(10, gain="linear")
    return measure_data(gains, scores, ndcg)[str(ndcg)].values
