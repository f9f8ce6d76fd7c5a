"""XGBoost's pairwise ranker behind rankplug's interface."""

from rankplug_plugins.xgboost_pairwise.model import XGBoostModel
from rankplug_plugins.xgboost_pairwise.solver import XGBoostPairwise

__all__ = ["XGBoostModel", "XGBoostPairwise"]
