"""Solvers that train the boosted trees of XGBoost, LightGBM and CatBoost, and their models.

Their losses of all pairs and their early stopping by rankplug's metrics come from
`rankplug.boosting`, which serves those who call the libraries themselves.
"""

from rankplug_plugins.boosting.catboost_solvers import CatBoost
from rankplug_plugins.boosting.lightgbm_model import LightGBMModel
from rankplug_plugins.boosting.lightgbm_solvers import LightGBMAllPairs, LightGBMLambdarank
from rankplug_plugins.boosting.linear_start import LinearThenBoost, LinearThenTreesModel
from rankplug_plugins.boosting.xgboost_model import XGBoostModel
from rankplug_plugins.boosting.xgboost_solvers import XGBoostAllPairs, XGBoostNdcg, XGBoostPairwise

__all__ = [
    "CatBoost",
    "LightGBMAllPairs",
    "LightGBMLambdarank",
    "LightGBMModel",
    "LinearThenBoost",
    "LinearThenTreesModel",
    "XGBoostAllPairs",
    "XGBoostModel",
    "XGBoostNdcg",
    "XGBoostPairwise",
]
