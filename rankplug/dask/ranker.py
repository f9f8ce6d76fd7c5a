"""`Ranker`: `rankplug.Ranker` for rows on the workers of a Dask cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager
from operator import attrgetter
from typing import Any, ClassVar, Self

import dask.array as da
import numpy as np
import pandas as pd
from dask import is_dask_collection
from dask.delayed import delayed
from distributed import Client
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from rankplug.dask.data import ClusterData
from rankplug.dask.forms import lacks_queries, open_data, warn_of_one_query
from rankplug.data import RankingData, Task, columns_of_features, tables
from rankplug.estimators.base import SolverEstimator, model_to_go_on_from, with_parameters
from rankplug.estimators.ranker import NO_RELEVANT_ROW, ndcg_of_queries
from rankplug.estimators.watching import make_callback
from rankplug.exceptions import DataError
from rankplug.metrics import mean_of_defined
from rankplug.models import Model, predict_data, scaled_model
from rankplug.solver import Solver

_FITTED = ("model_", "result_", "n_queries_in_", "n_features_in_", "feature_names_in_")


class Ranker(SolverEstimator):
    """Learns to order the rows of each query, which stay where they are on a cluster.

    Rows are read into the memory of the workers once. Then every pass over them moves vectors of
    one number a feature, whatever the number of rows; a worker that is lost costs the reading of
    its rows. The trained model is that of `rankplug.Ranker`, up to rounding.

    Parameters
    ----------
    solver : str or Solver, default="tree-tron"
        A registered name or a solver, one of those tagged `distributed`, such as "tree-tron" and
        "cutting-plane".
    client : distributed.Client, optional
        By default the current one.
    random_state : int, RandomState or None, default=None
    timeout : float, optional
        Seconds in which the cluster must get something done: read one partition, or finish one
        pass over all rows. None: wait for ever.
    **solver_params
        Parameters of the solver, as of `rankplug.Ranker`.

    Attributes
    ----------
    model_ : Model
        It predicts, saves and loads without a cluster.
    result_ : SolverResult
    n_queries_in_ : int
        Number of queries of the training data.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if the training features had names.

    Examples
    --------
    >>> from distributed import Client
    >>> from rankplug.dask import Ranker
    >>> client = Client("tcp://scheduler:8786")  # doctest: +SKIP
    >>> ranker = Ranker(client=client).fit(df[features], df["y"], qid=df["qid"])  # doctest: +SKIP
    >>> scores = ranker.predict(other[features])  # doctest: +SKIP
    """

    task: ClassVar[Task] = "query-document"

    def __init__(
        self,
        solver: str | Solver = "tree-tron",
        client: Client | None = None,
        random_state: int | np.random.RandomState | None = None,
        timeout: float | None = 300.0,
        **solver_params: Any,
    ) -> None:
        self.solver = with_parameters(solver, solver_params)
        self.client = client
        self.random_state = random_state
        self.timeout = timeout

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        sample_weight: Any = None,
        document_weight: Any = None,
        init: Any = None,
        callbacks: Any = None,
        verbose: bool | int = False,
    ) -> Self:
        """Train on the preference pairs of all queries.

        If it fails, the ranker is not fitted, whatever it was before.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame, str, Path, PreparedFolder or ClusterData
            Features of shape (n_samples, n_features), or all data: a prepared folder that every
            worker sees under the same path, or data on the cluster, which are left there.
            Collections may come from anywhere, best all columns from one DataFrame: then they are
            read, joined or shuffled together, once. The index is not looked at, but where
            DataFrames differ in partitions and their divisions say how the rows belong together.
        y : Array or Series of shape (n_samples,)
            Relevance, any real numbers; the higher, the better.
        qid : Array or Series of shape (n_samples,)
            Query of each row, integers or strings. Rows of a query must be in one partition or
            on both sides of a border between partitions. If it is omitted, a DataFrame's column
            ``qid`` says it; if there is none and `X` has one partition, all rows are one query,
            with a `DataWarning`.
        sample_weight : Array or Series of shape (n_samples,), optional
            Constant within a query. With Dask Arrays it may be one a query, also an array in this
            process, where the rows of a query stand together.
        document_weight : Array or Series of shape (n_samples,), optional
            Of rows, as of `rankplug.Ranker.fit`.
        init, callbacks, verbose
            As of `rankplug.Ranker.fit`. XGBoost calls callbacks at the end only.

        Raises
        ------
        DataError, ParameterError
            If the data or the parameters are not valid, or the solver does not run on a cluster.
        ClusterError
            If the scheduler is lost or the time-out is over.
        """
        init, callback = model_to_go_on_from(init), make_callback(callbacks, verbose)
        for name in _FITTED:
            self.__dict__.pop(name, None)
        solver = self._new_solver()
        with self._open(X, y, qid, sample_weight, document_weight) as data:
            if lacks_queries(X, qid) and not solver.tags.one_query:
                warn_of_one_query(data.n_samples, stacklevel=2)
            result = solver.solve(
                data, init=init, callback=callback, random_state=self.random_state
            )
        self.result_ = result
        self.n_queries_in_ = data.n_queries
        self.model_ = scaled_model(result.model, data.scaling)
        self.n_features_in_ = data.n_features
        if data.feature_names is not None:
            self.feature_names_in_ = np.array(data.feature_names, dtype=object)
        return self

    def predict(self, X: Any) -> Any:
        """Scores of the rows of `X`, in their order; higher is better.

        Parameters
        ----------
        X : Dask Array or DataFrame, or an array or table in this process
            A table may have its queries in a column ``qid``.

        Returns
        -------
        dask.array.Array, dask.dataframe.Series or ndarray of shape (n_samples,)
            That of a Dask collection has its partitions (``df.assign(score=...)`` takes it), and
            is computed partition by partition, only when asked for.
        """
        check_is_fitted(self)
        if is_dask_collection(X):
            return _predict_lazily(self.model_, X)
        features, _ = tables.without_query_column(X, given=False, known=self._names())
        return super().predict(features)

    def score(self, X: Any, y: Any = None, *, qid: Any = None, sample_weight: Any = None) -> float:
        """Mean NDCG@10 over the queries that have a relevant row, as `rankplug.Ranker.score`.

        Parameters and errors are those of `fit`. A ranker that was trained on several queries
        needs those of `X`.
        """
        check_is_fitted(self)
        if self.model_.query_column is not None and lacks_queries(X, qid):
            raise DataError(
                "score needs the queries, as fit had some: pass qid=df['qid'], or X as a DataFrame "
                "with a column 'qid'"
            )
        with self._open(X, y, qid, sample_weight) as data:
            return _mean_ndcg(self.model_, data)

    def __sklearn_clone__(self) -> Ranker:
        # A client is a connection: it is shared, and cannot be copied.
        return type(self)(
            clone(self.solver, safe=False), self.client, self.random_state, self.timeout
        )

    def __getstate__(self) -> dict[str, Any]:
        # Elsewhere there is another client.
        return {**super().__getstate__(), "client": None}

    def _open(
        self, X: Any, y: Any, qid: Any, sample_weight: Any, document_weight: Any = None
    ) -> AbstractContextManager[ClusterData]:
        """The data, forgotten by the cluster at the end if they are not the caller's."""
        options = {"client": self.client, "timeout": self.timeout}
        return open_data(X, y, qid, sample_weight, document_weight, **options)


def _predict_lazily(model: Model, X: Any) -> Any:
    """Scores of the rows of a Dask Array or DataFrame, partition by partition, when computed.

    Returns
    -------
    dask.array.Array of shape (n_samples,), or dask.dataframe.Series with the index of `X`

    Raises
    ------
    DataError
        At once if the columns of `X` are not the model's; if values are not valid, when computed.
    """
    sent = delayed(model, pure=False)
    if isinstance(X, da.Array):
        _require_columns(model, X)
        blocks = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        return blocks.map_blocks(_score, sent, drop_axis=1, dtype=np.float64, meta=np.empty(0))
    names = model.feature_names
    if names is not None:
        names = columns_of_features(names, [str(name) for name in X.columns])
    if tables.QUERY_COLUMN not in (names or ()):
        X = X[[name for name in X.columns if str(name) != tables.QUERY_COLUMN]]
    _require_columns(model, X)
    if names is not None:  # files need not be read for other columns
        X = X[[name for name in X.columns if str(name) in names]]
    meta = pd.Series([], dtype=np.float64, name="score")
    # Enforced metadata are looked up by the scheduler, which cannot compute those of `from_map`.
    return X.map_partitions(_score_column, sent, meta=meta, enforce_metadata=False)


def _mean_ndcg(model: Model, data: ClusterData) -> float:
    """Mean NDCG@10 over the queries that have a relevant row; see `rankplug.Ranker.score`.

    Raises
    ------
    DataError
        If no query has a relevant row.
    """
    graded = all(data.map(attrgetter("is_graded")))
    sums = np.array(data.map(_ndcg_sums, model, graded)).T
    means = np.divide(sums[0], sums[1], out=np.full(len(sums[0]), np.nan), where=sums[1] > 0)
    return mean_of_defined(means, sums[1], NO_RELEVANT_ROW)


def _ndcg_sums(data: RankingData, model: Model, graded: bool) -> tuple[float, float]:
    """Sum of the values and of the weights of the queries whose NDCG is defined."""
    values = ndcg_of_queries(data, predict_data(model, data), graded=graded)
    defined = ~np.isnan(values)
    weights = data.weights[defined]
    return float(values[defined] @ weights), float(weights.sum())


def _require_columns(model: Model, X: Any) -> None:
    columns = getattr(X, "columns", None)
    if columns is not None and model.feature_names is not None:
        known = {str(name) for name in columns}
        needed = columns_of_features(model.feature_names, known)
        missing = [name for name in needed if name not in known]
        if missing:
            raise DataError(f"missing feature columns: {', '.join(missing)}")
    elif X.shape[1] != model.n_features:
        raise DataError(
            f"X has {X.shape[1]} features, but the model is expecting {model.n_features} "
            "features as input"
        )


def _score(X: Any, model: Model) -> NDArray[np.float64]:
    return model.predict(X) if X.shape[0] else np.empty(0)


def _score_column(X: pd.DataFrame, model: Model) -> pd.Series[float]:
    return pd.Series(_score(X, model), index=X.index, name="score")
