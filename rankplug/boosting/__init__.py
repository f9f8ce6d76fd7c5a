"""Objectives, metrics and data of rankplug for those who call XGBoost and LightGBM themselves.

The solvers that call these libraries, such as "xgboost-pairwise", are the plugin
`rankplug_plugins.boosting`, which is built on this package.

>>> import numpy as np
>>> import xgboost
>>> from rankplug.boosting import ndcg_metric, pairwise_squared_hinge
>>> X = np.random.default_rng(0).normal(size=(60, 3))
>>> data = xgboost.QuantileDMatrix(X, label=X[:, 0] > 0, group=[20, 40])
>>> booster = xgboost.train(
...     {"base_score": 0.0, "nthread": 1, "disable_default_eval_metric": True},
...     data,
...     num_boost_round=5,
...     obj=pairwise_squared_hinge(),
...     evals=[(data, "train")],
...     custom_metric=ndcg_metric(10),
...     verbose_eval=False,
... )

======================================  =====================================================
`xgboost.train`                         ``obj=``, ``custom_metric=``
`xgboost.XGBRegressor`                  ``objective=``, ``eval_metric=``, made with ``qid``
`lightgbm.train`                        ``params={"objective": ...}``, ``feval=``
`lightgbm.LGBMRanker`, `LGBMRegressor`  ``objective=``; ``fit(eval_metric=)``
======================================  =====================================================

`xgboost.XGBRanker` refuses functions as objectives. CatBoost hands a function runs of rows
without their groups, so that no loss of pairs can be written for it.
"""

from rankplug.boosting.library_data import ranking_data
from rankplug.boosting.metrics import RankingMetric, ndcg_metric, ranking_metric
from rankplug.boosting.pairwise import (
    PairCounts,
    PairWeight,
    PairwiseLogistic,
    PairwiseObjective,
    PairwiseSquaredHinge,
    SumOrMean,
    pairwise_logistic,
    pairwise_squared_hinge,
)

__all__ = [
    "PairCounts",
    "PairWeight",
    "PairwiseLogistic",
    "PairwiseObjective",
    "PairwiseSquaredHinge",
    "RankingMetric",
    "SumOrMean",
    "ndcg_metric",
    "pairwise_logistic",
    "pairwise_squared_hinge",
    "ranking_data",
    "ranking_metric",
]
