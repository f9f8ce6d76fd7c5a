"""Arguments of callbacks of XGBoost and LightGBM, objectives and metrics, read in one way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug.data import expand_group
from rankplug.exceptions import DataError, ParameterError

__all__ = ["Call", "QueryFunction", "is_given", "read_call"]


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of one call.

    Attributes
    ----------
    labels, scores : float64 ndarray of shape (n_rows,)
    weight : float64 ndarray of shape (n_rows,) or (n_queries,), or None
        Of each query where the library knows the queries and was given so many.
    group : int64 ndarray of shape (n_queries,), or None
        Sizes of consecutive queries, if the library knows them.
    """

    labels: NDArray[np.float64]
    scores: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    group: NDArray[np.int64] | None

    @classmethod
    def of(cls, labels: Any, scores: Any, weight: Any, group: Any) -> Call:
        """The arguments as arrays of the right types."""
        return cls(
            np.asarray(labels, dtype=np.float64),
            np.asarray(scores, dtype=np.float64).reshape(-1),
            np.asarray(weight, dtype=np.float64) if is_given(weight) else None,
            np.asarray(group, dtype=np.int64) if is_given(group) else None,
        )

    @property
    def row_weight(self) -> NDArray[np.float64] | None:
        """The weight of each row, where a query's was given that of the query."""
        weight, group = self.weight, self.group
        if weight is None or len(weight) == len(self.labels):
            return weight
        if group is not None and len(weight) == len(group):
            return np.repeat(weight, group)
        raise DataError(
            f"{len(weight)} weights for {len(self.labels)} rows: give one for each row or query"
        )


def read_call(first: Any, second: Any, weight: Any, group: Any) -> Call:
    """The arguments of a call by ``train``, or by a scikit-learn wrapper.

    ``train`` of both libraries calls ``f(scores, data_set)``, wrappers ``f(labels, scores)``,
    with weight and group where they have them.

    Raises
    ------
    DataError
        If there are no labels, or several scores for a row.
    """
    labels, scores = first, second
    if hasattr(second, "get_label"):
        labels, scores = second.get_label(), first
        weight, group = second.get_weight(), second.get_group()
    if labels is None or len(labels) == 0:
        raise DataError("the data set has no labels: give it the relevance as label")
    call = Call.of(labels, scores, weight, group)
    if call.labels.shape != call.scores.shape:
        raise DataError(
            f"{call.scores.size} scores for labels of shape {call.labels.shape}: a ranking has "
            "one label and one score for each row"
        )
    return call


def is_given(values: Any) -> bool:
    """Whether there are such values; XGBoost says no by an empty array, LightGBM by None."""
    return values is not None and len(values) > 0


class QueryFunction:
    """A function of the scores of whole queries, called by a boosting library.

    Made with `qid` or `group` it serves data sets with these rows only. Without both, the
    queries are those of the data set in each call; all rows are one query if it has none.
    """

    def __init__(self, qid: ArrayLike | None, group: ArrayLike | None) -> None:
        if qid is not None and group is not None:
            raise ParameterError("both qid and group are given: pass one of them")
        self.qid = None if qid is None else np.asarray(qid)
        if group is not None:
            self.qid = expand_group(group, sum(np.asarray(group).ravel().tolist()))

    def queries_of(self, call: Call) -> NDArray[Any] | None:
        """The query of each row of a call; None if all are one query.

        Raises
        ------
        DataError
            If the call has other rows than `qid`.
        """
        n_rows = len(call.labels)
        if self.qid is None:
            return None if call.group is None else expand_group(call.group, n_rows)
        if self.qid.shape != (n_rows,):
            raise DataError(
                f"made for {self.qid.size} rows (qid or group), but called with {n_rows}: make "
                "one for each data set, or leave out qid and give the data sets their queries"
            )
        return self.qid
