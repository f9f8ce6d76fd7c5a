"""What features do in a model: how much each moves documents in their queries, and is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankplug.data import group_queries
from rankplug.exceptions import ParameterError
from rankplug.explain.base import Explanation, feature_names_of
from rankplug.metrics import Measured, confidence_interval, per_query
from rankplug.models import Model, find_contributions, linear_weights

if TYPE_CHECKING:
    import pandas as pd

_BLOCK_ELEMENTS = 1 << 22  # of contributions at once: 32 MB of float64


@dataclass(frozen=True, eq=False)
class ModelExplanation(Explanation):
    """How much each feature counts, looked at in three ways.

    Attributes
    ----------
    feature_names : tuple of str
    movement : float64 ndarray of shape (n_features,)
        Mean over the documents of the absolute contribution, less its mean over the query: how
        far the feature moves documents within queries. What is the same for all documents of a
        query moves none, however important it looks.
    importance : float64 ndarray of shape (n_features,) or None
        What the model itself tells: total gain of trees, absolute weights of linear models.
    method : str
        How contributions were found; see `rankplug.models.Contributions`.
    loss : float64 ndarray of shape (n_features, 3) or None
        By how much the metric falls if the feature's values are exchanged at random among the
        documents of each query: mean, and 95 % interval over the queries.
    metric : str or None
    """

    feature_names: tuple[str, ...]
    movement: NDArray[np.float64]
    importance: NDArray[np.float64] | None
    method: str
    loss: NDArray[np.float64] | None = None
    metric: str | None = None

    def table(self, top: int | None = None) -> pd.DataFrame:
        """A row for each feature, those first that move documents most.

        Columns ``feature``, ``movement``, ``importance`` if the model tells it, and, if relevance
        was given, ``loss`` with its interval ``low`` to ``high``.
        """
        import pandas as pd

        columns: dict[str, Any] = {
            "feature": np.array(self.feature_names, dtype=object),
            "movement": self.movement,
        }
        if self.importance is not None:
            columns["importance"] = self.importance
        if self.loss is not None:
            columns |= dict(zip(("loss", "low", "high"), self.loss.T, strict=True))
        order = np.argsort(-self.movement, kind="stable")[:top]
        return pd.DataFrame({name: values[order] for name, values in columns.items()})

    @property
    def summary(self) -> str:
        """What movement and loss are."""
        more = "" if self.metric is None else f"; loss: of {self.metric}, exchanged within queries"
        return f"movement: mean absolute contribution within queries ({self.method}){more}"


def explain_model(
    model: Model,
    X: Any,
    *,
    qid: ArrayLike | None = None,
    y: ArrayLike | None = None,
    metric: str = "ndcg@10",
    n_repeats: int = 5,
    random_state: int = 0,
) -> ModelExplanation:
    """How far each feature moves documents within their queries, and what it is worth.

    Parameters
    ----------
    model : Model
    X : array, sparse matrix or table of shape (n_samples, n_features)
    qid : array-like of shape (n_samples,), optional
        All rows are one query if omitted.
    y : array-like of shape (n_samples,), optional
        Relevance; with it the metric's loss is measured for each feature, at ``n_repeats``
        predictions of all rows a feature.
    metric : str, default="ndcg@10"
    n_repeats : int, default=5
        Random exchanges of a feature's values, over which a query's loss is averaged.
    random_state : int, default=0

    Returns
    -------
    ModelExplanation

    Raises
    ------
    DataError
        If `X`, `y` or `qid` do not fit, or the model ranks labels.
    """
    rows = model.check_rows(X)
    ptr, _, order = group_queries(qid, rows.shape[0])
    order = np.arange(rows.shape[0]) if order is None else order
    movement, method = _movement(model, rows, ptr, order)
    loss = None
    if y is not None:
        ids = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
        relevance = np.asarray(y)[order]
        rng = np.random.default_rng(random_state)
        loss = _losses(model, rows[order], relevance, ids, metric, n_repeats, rng)
    return ModelExplanation(
        feature_names_of(model),
        movement,
        _usual_importance(model),
        method,
        loss,
        None if y is None else metric,
    )


def _usual_importance(model: Model) -> NDArray[np.float64] | None:
    try:
        return np.abs(linear_weights(model))
    except ParameterError:
        return model.feature_importances()


def _movement(
    model: Model, rows: Any, ptr: NDArray[np.int64], order: NDArray[np.int64]
) -> tuple[NDArray[np.float64], str]:
    """Mean absolute contributions less their query's means, and how they were found."""
    total, method = np.zeros(model.n_features), ""
    most = max(1, _BLOCK_ELEMENTS // model.n_features)
    begin = 0
    while begin < len(ptr) - 1:
        # Whole queries, at least one.
        end = max(begin + 1, int(np.searchsorted(ptr, ptr[begin] + most, side="right")) - 1)
        found = find_contributions(model, rows[order[ptr[begin] : ptr[end]]])
        sizes, starts = np.diff(ptr[begin : end + 1]), ptr[begin:end] - ptr[begin]
        means = np.add.reduceat(found.values, starts, axis=0) / sizes[:, None]
        total += np.abs(found.values - np.repeat(means, sizes, axis=0)).sum(axis=0)
        begin, method = end, found.method
    return total / ptr[-1], method


def _losses(
    model: Model,
    rows: Any,
    relevance: NDArray[Any],
    ids: NDArray[np.int64],
    metric: str,
    n_repeats: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """By how much the metric falls without each feature: mean, and the ends of its interval."""

    def measure(X: Any) -> NDArray[np.float64]:
        (values,) = per_query(relevance, model.predict(X), ids, metric).values()
        return values

    whole = measure(rows)
    found = np.empty((model.n_features, 3))
    for j in range(model.n_features):
        orders = [np.lexsort((rng.random(len(ids)), ids)) for _ in range(n_repeats)]
        without = np.mean([measure(_exchange(rows, j, order)) for order in orders], axis=0)
        fall = Measured(whole - without, np.ones(len(whole)))
        found[j] = fall.mean(), *confidence_interval(fall)
    return found


def _exchange(rows: Any, feature: int, order: NDArray[np.int64]) -> Any:
    """The rows, but one feature's values in another order."""
    if sparse.issparse(rows):
        columns = sparse.csc_array(rows, copy=True)
        stored = slice(*columns.indptr[feature : feature + 2])
        columns.indices[stored] = np.argsort(order)[columns.indices[stored]]
        return sparse.csr_array(columns)
    if isinstance(rows, np.ndarray):
        rows = rows.copy()
        rows[:, feature] = rows[order, feature]
        return rows
    return rows.exchanged(feature, order)
