"""dlib's svm_rank_trainer: hinge loss, two levels only (``pip install dlib-bin``).

dlib minimises 1/2 |w|^2 + c times the mean over pairs, so c is C times their number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.rivals.base import Fitted, Rival
from rankplug.data import RankingData


def _refuses(data: RankingData) -> str | None:
    if len(np.unique(data.relevance)) > 2:
        return "takes two levels of relevance only"
    return "its dense trainer takes dense features only" if sparse.issparse(data.X) else None


def _prepare(data: RankingData) -> tuple[Any, int]:
    import dlib

    top = data.relevance.max()
    queries = dlib.ranking_pairs()
    for start, end in zip(data.query_ptr, data.query_ptr[1:], strict=False):
        pair = dlib.ranking_pair()
        for row, relevant in zip(data.X[start:end], data.relevance[start:end] == top, strict=True):
            (pair.relevant if relevant else pair.nonrelevant).append(dlib.vector(row.tolist()))
        if len(pair.relevant) and len(pair.nonrelevant):
            queries.append(pair)
    return queries, int(data.pair_counts.sum())


def _fit(prepared: Any, *, C: float, tol: float) -> Fitted:
    import dlib

    queries, n_pairs = prepared
    trainer = dlib.svm_rank_trainer()
    trainer.c = C * n_pairs
    trainer.epsilon = tol
    coef = np.array(trainer.train(queries).weights).ravel()
    return Fitted(lambda X: X @ coef, coef)


RIVAL = Rival("dlib-svm-rank", "dlib-bin", "dlib", "hinge", _fit, _prepare, _refuses)
