"""The forms in which a logged model answers: scores, ranks, or the best k."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankplug.data import rank_in_queries
from rankplug.exceptions import ParameterError, nearest

__all__ = ["Form", "label_ranks", "ranks", "requested", "top_k", "top_k_labels"]

Output = Literal["score", "rank", "top_k"]


class Form(NamedTuple):
    """What is asked for; `k` counts for "top_k" only."""

    output: Output = "score"
    k: int = 10


def requested(params: Mapping[str, Any]) -> Form:
    """The form that the parameters of ``predict`` ask for.

    Raises
    ------
    ParameterError
        If a parameter is unknown or has a value it cannot have; all of them are named.
    """
    wrong = [
        f"unknown parameter {name!r}{nearest(str(name), Form._fields)}"
        for name in params
        if name not in Form._fields
    ]
    form = Form(**{name: value for name, value in params.items() if name in Form._fields})
    if form.output not in get_args(Output):
        wrong.append(f"output={form.output!r} must be one of {', '.join(get_args(Output))}")
    if not isinstance(form.k, int | np.integer) or isinstance(form.k, bool) or form.k < 1:
        wrong.append(f"k={form.k!r} must be an integer of at least 1")
    if wrong:
        raise ParameterError("; ".join(wrong))
    return form


def ranks(scores: NDArray[np.float64], qid: NDArray[Any] | None) -> pd.DataFrame:
    """Columns qid, score and rank (1 = best in its query), in the order of the rows."""
    rank, _ = rank_in_queries(scores, qid)
    return pd.DataFrame({"qid": _ids(qid, len(scores)), "score": scores, "rank": rank})


def top_k(scores: NDArray[np.float64], qid: NDArray[Any] | None, k: int) -> pd.DataFrame:
    """The `k` best rows of each query, best first: columns qid, row, score and rank.

    `row` counts the rows of the input from 0; queries come in order of first appearance.
    """
    rank, best_first = rank_in_queries(scores, qid)
    row = best_first[rank[best_first] <= k]
    ids = _ids(qid, len(scores))
    return pd.DataFrame({"qid": ids[row], "row": row, "score": scores[row], "rank": rank[row]})


def label_ranks(scores: NDArray[np.float64], labels: NDArray[Any]) -> pd.DataFrame:
    """The rank of each label (1 = best), a column for each label, in the order of the rows."""
    best_first = np.argsort(-scores, axis=1, kind="stable")
    return pd.DataFrame(np.argsort(best_first, axis=1) + 1, columns=[str(one) for one in labels])


def top_k_labels(scores: NDArray[np.float64], labels: NDArray[Any], k: int) -> pd.DataFrame:
    """The `k` best labels of each row, best first: columns row, label, score and rank."""
    best_first = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    n_rows, n_best = best_first.shape
    return pd.DataFrame(
        {
            "row": np.repeat(np.arange(n_rows), n_best),
            "label": labels[best_first.ravel()],
            "score": np.take_along_axis(scores, best_first, axis=1).ravel(),
            "rank": np.tile(np.arange(1, n_best + 1), n_rows),
        }
    )


def _ids(qid: NDArray[Any] | None, n_rows: int) -> NDArray[Any]:
    """Without query ids all rows are one query, 0."""
    return np.zeros(n_rows, dtype=np.int64) if qid is None else qid
