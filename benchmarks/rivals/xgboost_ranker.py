"""XGBoost as its users call it: XGBRanker, zeros of dense features being values."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.rivals.base import Fitted, Rival
from rankplug.data import RankingData


def _prepare(data: RankingData) -> tuple[Any, Any, Any]:
    return data.X, data.relevance, np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))


def _fit(prepared: Any, *, objective: str, trees: int, rate: float) -> Fitted:
    from xgboost import XGBRanker

    X, y, qid = prepared
    ranker = XGBRanker(
        objective=objective, n_estimators=trees, learning_rate=rate, n_jobs=1, random_state=0
    ).fit(X, y, qid=qid)
    return Fitted(ranker.predict)


def _refuses_ndcg(data: RankingData) -> str | None:
    y = data.relevance
    fits = np.all((y >= 0) & (y <= 31) & (y == np.floor(y)))
    return None if fits else "takes integer relevance 0 to 31 only"


PAIRWISE = Rival(
    "xgboost-pairwise",
    "xgboost",
    "xgboost",
    None,
    partial(_fit, objective="rank:pairwise"),
    _prepare,
)
NDCG = Rival(
    "xgboost-ndcg",
    "xgboost",
    "xgboost",
    None,
    partial(_fit, objective="rank:ndcg"),
    _prepare,
    _refuses_ndcg,
)
