"""Boosted trees of XGBoost and LightGBM behind rankplug's interface."""

from rankplug_plugins.boosting.lightgbm_model import LightGBMModel
from rankplug_plugins.boosting.lightgbm_solvers import LightGBMAllPairs, LightGBMLambdarank
from rankplug_plugins.boosting.linear_start import LinearThenBoost, LinearThenTreesModel
from rankplug_plugins.boosting.xgboost_model import XGBoostModel
from rankplug_plugins.boosting.xgboost_solvers import (
    XGBoostAllPairs,
    XGBoostNdcg,
    XGBoostPairwise,
)

__all__ = [
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
