"""Forms of a model's answer: scores, ranks, the best k rows or labels, or contributions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rankplug.data import rank_in_queries
from rankplug.data.tables import QUERY_COLUMN
from rankplug.exceptions import DataError, ParameterError, nearest
from rankplug.models.base import Model
from rankplug.parameters import Integer

CONSTANT = "(constant)"
"""The column of what all scores have in common."""

Output = Literal["score", "rank", "top_k", "contributions"]

_OUTPUTS, _K = get_args(Output), Integer(1)


class Form(NamedTuple):
    """What is asked for; `k` counts for "top_k" only."""

    output: Output = "score"
    k: int = 10


def parse_form(params: Mapping[str, Any]) -> Form:
    """The form that the parameters of ``predict`` ask for.

    Raises
    ------
    ParameterError
        If a parameter is unknown or has a value it cannot have; all of them are named.
    """
    if not params:
        return Form()
    wrong = [
        f"unknown parameter {name!r}{nearest(str(name), Form._fields)}"
        for name in params
        if name not in Form._fields
    ]
    form = Form(**{name: value for name, value in params.items() if name in Form._fields})
    if form.output not in _OUTPUTS:
        wrong.append(f"output={form.output!r} must be one of {', '.join(_OUTPUTS)}")
    if not _K.accepts(form.k):
        wrong.append(f"k={form.k!r} must be an integer of at least 1")
    if wrong:
        raise ParameterError("; ".join(wrong))
    return form


def label_names(model: Model) -> NDArray[Any] | None:
    """The labels that a model ranks, numbers where they have no names; None if it ranks rows."""
    if model.n_labels is None:
        return None
    labels = getattr(model, "labels", None)
    return np.arange(model.n_labels) if labels is None else np.asarray(labels)


def require_queries(model: Model, form: Form, qid: NDArray[Any] | None) -> None:
    """Raise `DataError` if ranks are wanted of a model that needs to be told the queries."""
    if form.output in ("rank", "top_k") and qid is None and model.query_column is not None:
        other = "" if model.query_column == QUERY_COLUMN else f" or {QUERY_COLUMN!r}"
        raise DataError(
            f"output={form.output!r} needs the queries, as the model was trained on several: give "
            f"that of each row in a column {model.query_column!r}{other}; if all rows are one "
            "query, the same for all"
        )


def answer(
    scores: NDArray[np.float64],
    form: Form,
    qid: NDArray[Any] | None = None,
    labels: NDArray[Any] | None = None,
) -> pd.DataFrame:
    """Ranks or the best k of rows in their queries, or of labels if there are any."""
    if labels is not None:
        best_first = np.argsort(-scores, axis=1, kind="stable")
        if form.output == "rank":
            return _label_ranks(best_first, labels)
        return _top_k_labels(scores, best_first[:, : form.k], labels)
    return ranks(scores, qid) if form.output == "rank" else top_k(scores, qid, form.k)


def contributions(model: Model, X: Any) -> pd.DataFrame:
    """What each feature adds to the score, a column each, and the rest in "(constant)".

    Raises
    ------
    DataError
        As `Model.contributions`.
    """
    names = model.feature_names or [f"f{j}" for j in range(model.n_features)]
    return pd.DataFrame(model.contributions(X), columns=[*names, CONSTANT])


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


def _label_ranks(best_first: NDArray[np.int64], labels: NDArray[Any]) -> pd.DataFrame:
    """The rank of each label (1 = best), a column for each label, in the order of the rows."""
    return pd.DataFrame(np.argsort(best_first, axis=1) + 1, columns=[str(one) for one in labels])


def _top_k_labels(
    scores: NDArray[np.float64], best: NDArray[np.int64], labels: NDArray[Any]
) -> pd.DataFrame:
    """The best labels of each row, best first: columns row, label, score and rank."""
    n_rows, n_best = best.shape
    return pd.DataFrame(
        {
            "row": np.repeat(np.arange(n_rows), n_best),
            "label": labels[best.ravel()],
            "score": np.take_along_axis(scores, best, axis=1).ravel(),
            "rank": np.tile(np.arange(1, n_best + 1), n_rows),
        }
    )


def _ids(qid: NDArray[Any] | None, n_rows: int) -> NDArray[Any]:
    """Without query ids all rows are one query, 0."""
    return np.zeros(n_rows, dtype=np.int64) if qid is None else qid
