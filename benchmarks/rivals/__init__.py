"""One adapter per rival; `RIVALS` has those whose package is installed."""

from importlib.util import find_spec

from benchmarks.rivals import dlib_rank, lightgbm_lambdarank, linear_svc, tree_tron, xgboost_ranker
from benchmarks.rivals.base import Fitted, Rival

__all__ = ["RIVALS", "Fitted", "Rival"]

_ALL = (
    tree_tron.RIVAL,
    linear_svc.RIVAL,
    dlib_rank.RIVAL,
    xgboost_ranker.PAIRWISE,
    xgboost_ranker.NDCG,
    lightgbm_lambdarank.RIVAL,
)

RIVALS = {rival.name: rival for rival in _ALL if find_spec(rival.module) is not None}
