"""Metrics as scorers of scikit-learn, for its searches, cross-validations and inspections."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from rankplug.data import RankingData, read_preferences, real_vector, tables
from rankplug.exceptions import DataError
from rankplug.metrics.base import Metric
from rankplug.metrics.evaluation import Measured, mean_of_defined, measure_data, measure_instances
from rankplug.metrics.names import METRICS, parse_metric
from rankplug.parameters import Optional

_USUAL_CUTOFF = 10
_NOT_CHANGED = object()


class RankingScorer:
    """A metric as a scorer: ``scorer(estimator, X, y)`` is a number, the greater, the better.

    Metrics to be made small, such as ``top1_error``, are multiplied by -1.

    The estimator's ``predict`` gives a score for each row, as that of `Ranker`, of XGBRanker and of
    regressors; or for each label, as that of `LabelRanker`. The queries of the rows are those of
    the scorer itself, else those that scikit-learn passes on (once
    ``sklearn.set_config(enable_metadata_routing=True)`` is on), else a column ``qid`` of the table
    `X`. Without any it is an error, unless a ranker was trained on one query.

    Parameters
    ----------
    metric : Metric
    qid : array-like of shape (n_samples,), optional
        The queries of the rows of every `X` that is scored.
    """

    def __init__(self, metric: Metric, qid: ArrayLike | None = None) -> None:
        self.metric = metric
        self.qid = qid
        self._requests: dict[str, Any] = {"qid": True, "sample_weight": True}

    def __repr__(self) -> str:
        return f"get_scorer({str(self.metric)!r}{'' if self.qid is None else ', qid=...'})"

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The mean of the metric over the queries of `X`, or its rows if they rank labels.

        Parameters
        ----------
        estimator : fitted estimator
        X : features as the estimator takes them
        y : array-like of shape (n_samples,)
            Relevance; for label rankers what their ``fit`` takes.
        qid : array-like of shape (n_samples,), optional
        sample_weight : array-like of shape (n_samples,), optional
            Constant within a query: the weight of the query in the mean.

        Raises
        ------
        DataError
            If queries are missing, lengths differ, or the metric is undefined for all queries.
        """
        scores = np.asarray(estimator.predict(X), dtype=np.float64)
        last = _last_step(estimator)
        if scores.ndim == 2 and scores.shape[1] > 1:
            values, weights = self._measure_rows(last, scores, y, sample_weight)
        else:
            queries = self._queries(last, X, qid)
            values, weights = self._measure_queries(scores.ravel(), y, queries, sample_weight)
        undefined = f"{self.metric} is undefined: it has no value for any query"
        mean = mean_of_defined(values, weights, undefined)
        return mean if self.metric.greater_is_better else -mean

    def set_score_request(
        self, *, qid: Any = _NOT_CHANGED, sample_weight: Any = _NOT_CHANGED
    ) -> Self:
        """What scikit-learn passes on, as of its own scorers: True, False, None, or another name.

        Both are asked for from the start.
        """
        for name, request in (("qid", qid), ("sample_weight", sample_weight)):
            if request is not _NOT_CHANGED:
                self._requests[name] = request
        return self

    def get_metadata_routing(self) -> Any:
        """The request, as scikit-learn asks for it."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=type(self).__name__)
        for name, alias in self._requests.items():
            request.score.add_request(param=name, alias=alias)
        return request

    def _accept_sample_weight(self) -> bool:
        """Asked by scikit-learn, where several scorers are called together."""
        return True

    def _queries(self, last: Any, X: Any, qid: ArrayLike | None) -> Any:
        if self.qid is not None:
            return self.qid
        if qid is not None:
            return qid
        known = getattr(last, "feature_names_in_", ())
        _, column = tables.without_query_column(X, given=False, known=[str(name) for name in known])
        if column is not None:
            return column
        model = getattr(last, "model_", None)
        if model is not None and getattr(model, "query_column", "") is None:
            return None
        raise DataError(
            f"{self!r} needs the queries: pass X as a table with a column 'qid', which "
            "scikit-learn's searches and cross-validations carry along; or pass qid=... to them "
            "after sklearn.set_config(enable_metadata_routing=True); or, where the rows stay as "
            f"they are, make get_scorer({str(self.metric)!r}, qid=...)"
        )

    def _measure_queries(
        self, scores: Any, y: Any, qid: Any, sample_weight: ArrayLike | None
    ) -> Measured:
        # Of the data, only relevance, queries and their weights count here.
        placeholder = np.zeros((len(scores), 1))
        data = RankingData.from_arrays(placeholder, y, qid, sample_weight=sample_weight)
        scores = scores if data.order is None else scores[data.order]
        values, weights = measure_data(data, scores, self.metric)[str(self.metric)]
        return Measured(values, weights * data.weights)

    def _measure_rows(
        self, last: Any, scores: Any, y: Any, sample_weight: ArrayLike | None
    ) -> Measured:
        known = getattr(last, "labels_", getattr(last, "classes_", None))
        known = np.arange(scores.shape[1]) if known is None else np.asarray(known)
        ranks, orders = getattr(last, "ranks_", False), getattr(last, "orders_", None)
        relevance = read_preferences(y, known=known, ranks=ranks, orders=orders).relevance
        values, weights = measure_instances(relevance, scores, self.metric)[str(self.metric)]
        if sample_weight is not None:
            weights = weights * real_vector(sample_weight, "sample_weight", len(scores))
        return Measured(values, weights)


def get_scorer(metric: str | Metric, *, qid: ArrayLike | None = None) -> RankingScorer:
    """The scorer of a metric, as ``scoring`` of `GridSearchCV`, `cross_validate` and others.

    Parameters
    ----------
    metric : str or Metric
        Such as ``"ndcg@10"``; see `rankplug.metrics`.
    qid : array-like of shape (n_samples,), optional
        The queries of the rows, for tools that leave the rows as they are and know no queries, such
        as `permutation_importance`. Searches and cross-validations take them from a column
        ``qid``, or by metadata routing.

    Raises
    ------
    UnknownNameError, ParameterError
        If the metric's name or an option is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from rankplug import Ranker
    >>> from sklearn.inspection import permutation_importance
    >>> from sklearn.model_selection import cross_val_score
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y, qid = X[:, 0] > 0, np.repeat(np.arange(6), 10)
    >>> ranker = Ranker().fit(X, y, qid=qid)
    >>> scorer = get_scorer("ndcg@5", qid=qid)
    >>> scorer
    get_scorer('ndcg@5', qid=...)
    >>> found = permutation_importance(ranker, X, y, scoring=scorer, random_state=0)
    >>> bool(found.importances_mean[0] > found.importances_mean[1])
    True
    """
    return RankingScorer(parse_metric(metric), qid)


def get_scorer_names() -> list[str]:
    """The names that `get_scorer` takes, with a cutoff of 10 where one is needed or common.

    Examples
    --------
    >>> [name for name in get_scorer_names() if name.startswith("ndcg")]
    ['ndcg', 'ndcg@10']
    """
    names = []
    for name, metric in METRICS.items():
        cutoff = metric.parameters.get("k")
        if cutoff is None or isinstance(cutoff, Optional):
            names.append(name)
        if cutoff is not None:
            names.append(f"{name}@{_USUAL_CUTOFF}")
    return sorted(names)


def _last_step(estimator: Any) -> Any:
    """The estimator that predicts in the end, within searches and pipelines."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif getattr(estimator, "steps", None):
            estimator = estimator.steps[-1][1]
        else:
            return estimator
