"""rankplug's own linear rankSVM."""

from __future__ import annotations

from typing import Any

import rankplug
from benchmarks.rivals.base import Fitted, Rival
from rankplug.data import RankingData


def _fit(data: RankingData, *, C: float, tol: float) -> Fitted:
    result = rankplug.make_solver("tree-tron", C=C, tol=tol, n_threads=1).solve(data)
    model: Any = result.model
    return Fitted(model.predict, model.coef, result.n_passes)


RIVAL = Rival("tree-tron", "rankplug", "rankplug", "squared-hinge", _fit, lambda data: data)
