"""LightGBM's lambdarank."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.rivals.base import Fitted, Rival
from rankplug.data import RankingData


def _refuses(data: RankingData) -> str | None:
    y, sizes = data.relevance, np.diff(data.query_ptr)
    if not np.all((y >= 0) & (y <= 30) & (y == np.floor(y))):
        return "takes integer relevance 0 to 30 only"
    return "takes at most 10,000 rows a query" if sizes.max() > 10_000 else None


def _known(X: Any) -> Any:
    return X if isinstance(X, np.ndarray) else sparse.csr_matrix(X)


def _prepare(data: RankingData) -> tuple[Any, Any, Any]:
    return _known(data.X), data.relevance, np.diff(data.query_ptr)


def _fit(prepared: Any, *, trees: int, rate: float) -> Fitted:
    import lightgbm

    X, y, group = prepared
    settings = {
        "objective": "lambdarank",
        "learning_rate": rate,
        "num_threads": 1,
        "deterministic": True,
        "seed": 0,
        "verbosity": -1,
    }
    booster: Any = lightgbm.train(settings, lightgbm.Dataset(X, y, group=group), trees)
    return Fitted(lambda features: booster.predict(_known(features), num_threads=1))


RIVAL = Rival("lightgbm-lambdarank", "lightgbm", "lightgbm", None, _fit, _prepare, _refuses)
