"""rankplug's metrics as evaluation functions of XGBoost and LightGBM."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import ArrayLike

from rankplug.boosting.library_data import QueryFunction, read_call
from rankplug.exceptions import DataError, ParameterError
from rankplug.metrics import Metric, Ndcg, evaluate, parse_metric

_NOT_GIVEN = object()


class RankingMetric(QueryFunction):
    """A metric of rankplug as an evaluation function of boosted trees, for early stopping.

    It is a ``custom_metric`` of `xgboost.train`, a ``feval`` of `lightgbm.train`, and an
    ``eval_metric`` of `lightgbm.LGBMRanker.fit`, and of `xgboost.XGBRegressor` if made with `qid`.

    Parameters
    ----------
    metric : str or Metric
        Such as ``"ndcg@10"``; see `rankplug.metrics`.
    qid : array-like of shape (n_rows,), optional
        Query of each row, integers or strings in any order, for one data set. By default, the
        queries are those of each data set; all its rows are one query if it has none.
    group : array-like of shape (n_queries,), optional
        Sizes of consecutive queries, instead of `qid`.

    Attributes
    ----------
    metric : Metric
    greater_is_better : bool

    Raises
    ------
    UnknownNameError, ParameterError
        If the metric's name or an option is wrong, or both `qid` and `group` are given.

    Notes
    -----
    The value is the one of rankplug's reports: a mean over queries without weights, ties at
    their expected value, and queries for which the metric is undefined left out, where XGBoost
    counts them 1. XGBoost rounds it to six digits. Its `EarlyStopping` takes a metric it does
    not know as an error to be made small: pass it ``maximize=f.greater_is_better``.
    `xgboost.XGBRanker` calls metrics query by query and weighs the values by the queries' sizes,
    so it is refused.
    """

    def __init__(
        self, metric: str | Metric, qid: ArrayLike | None = None, *, group: ArrayLike | None = None
    ) -> None:
        super().__init__(qid, group)
        self.metric = parse_metric(metric)
        self.greater_is_better = self.metric.greater_is_better
        self.__name__ = str(self.metric)

    def __call__(
        self, first: Any, second: Any, sample_weight: Any = None, group: Any = _NOT_GIVEN
    ) -> Any:
        """The value, with its name and direction where the library asks for them.

        Raises
        ------
        DataError
            If the data set does not fit `qid`, the metric has no meaning for its labels, or is
            undefined for all of its queries.
        ParameterError
            If an XGBoost wrapper calls, which tells no queries, and none were given before.
        """
        by_xgboost_wrapper = group is _NOT_GIVEN and not hasattr(second, "get_label")
        if by_xgboost_wrapper and self.qid is None:
            raise ParameterError(
                f"{self.__name__}: XGBoost's scikit-learn wrappers do not tell metrics the queries "
                "of the rows: use xgboost.train, or XGBRegressor with a metric made with qid"
            )
        call = read_call(first, second, None, None if group is _NOT_GIVEN else group)
        means = evaluate(call.labels, call.scores, self.queries_of(call), self.metric)
        value = means[self.__name__]
        if math.isnan(value):
            raise DataError(
                f"{self.__name__} is undefined for every query of the data set: use another metric "
                "or other validation data"
            )
        if by_xgboost_wrapper:
            return value
        if hasattr(second, "get_label") and not hasattr(second, "get_init_score"):
            return self.__name__, value  # to xgboost.train
        return self.__name__, value, self.greater_is_better


# Named as a function, too: a library that is given a metric calls it.
ranking_metric = RankingMetric


def ndcg_metric(
    k: int | None = 10,
    qid: ArrayLike | None = None,
    *,
    group: ArrayLike | None = None,
    **options: Any,
) -> RankingMetric:
    """NDCG@k as an evaluation function; see `RankingMetric`.

    Parameters
    ----------
    k : int, optional
        The cutoff; None counts all rows of a query.
    qid, group
        See `RankingMetric`.
    **options
        Those of `rankplug.metrics.Ndcg`: ``gain``, ``discount``, ``ties``, ``empty``.
    """
    return RankingMetric(Ndcg(k=k, **options), qid, group=group)
