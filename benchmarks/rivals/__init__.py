"""One adapter per rival; `RIVALS` has those that are installed."""

from benchmarks.rivals import (
    dlib_rank,
    liblinear,
    lightgbm_lambdarank,
    linear_svc,
    tree_tron,
    xgboost_ranker,
)
from benchmarks.rivals.base import Fitted, Rival

__all__ = ["RIVALS", "Fitted", "Rival"]

_ALL = (
    tree_tron.RIVAL,
    linear_svc.RIVAL,
    liblinear.RIVAL,
    dlib_rank.RIVAL,
    xgboost_ranker.PAIRWISE,
    xgboost_ranker.NDCG,
    lightgbm_lambdarank.RIVAL,
)

RIVALS = {rival.name: rival for rival in _ALL if rival.is_installed()}
