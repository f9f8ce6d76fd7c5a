"""Data sets of XGBoost and LightGBM, and arguments of their callbacks, read in one way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankplug.data import RankingData, expand_group
from rankplug.exceptions import DataError, ParameterError


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
            np.asarray(weight, dtype=np.float64) if _is_given(weight) else None,
            np.asarray(group, dtype=np.int64) if _is_given(group) else None,
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
    if not _is_given(labels):
        raise DataError("the data set has no labels: give it the relevance as label")
    call = Call.of(labels, scores, weight, group)
    if call.labels.shape != call.scores.shape:
        raise DataError(
            f"{call.scores.size} scores for labels of shape {call.labels.shape}: a ranking has "
            "one label and one score for each row"
        )
    return call


def _is_given(values: Any) -> bool:
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


def ranking_data(matrix: Any, *, allow_quantized: bool = False) -> RankingData:
    """The rows, labels, queries and weights of an XGBoost or LightGBM data set.

    Parameters
    ----------
    matrix : xgboost.DMatrix, xgboost.QuantileDMatrix or lightgbm.Dataset
        With labels. Without queries all rows are one query.
    allow_quantized : bool
        A `QuantileDMatrix` gives back the bin of each value only, as the bin's boundary. True
        takes these, False is an error.

    Returns
    -------
    RankingData
        Its features are float32 from XGBoost, in CSR if any entry is absent: what XGBoost
        treats as missing is 0 to rankplug.

    Raises
    ------
    DataError
        If `matrix` is no such data set, has no labels, or does not give its features back.

    Examples
    --------
    >>> import xgboost
    >>> from rankplug import make_solver
    >>> matrix = xgboost.DMatrix([[0.0], [1.0], [2.0]], label=[0, 1, 2])
    >>> data = ranking_data(matrix)
    >>> make_solver("tree-tron").solve(data).model.predict(data.X).argsort()
    array([0, 1, 2])
    """
    kind = _kind(matrix)
    if kind == "Dataset":
        X = _lightgbm_features(matrix)
        names = None if hasattr(X, "columns") else matrix.get_feature_name()
    elif kind == "QuantileDMatrix" and not allow_quantized:
        raise DataError(
            "a QuantileDMatrix keeps no features, only their bins: pass a DMatrix or the arrays "
            "it was made from, or allow_quantized=True to take the boundaries of the bins"
        )
    else:
        X, names = sparse.csr_array(matrix.get_data()), matrix.feature_names
        if X.nnz == X.shape[0] * X.shape[1]:
            X = X.toarray()
    labels, weight, group = matrix.get_label(), matrix.get_weight(), matrix.get_group()
    if not _is_given(labels):
        raise DataError(f"the {kind} has no labels: give it the relevance as label")
    call = Call.of(labels, np.zeros(len(labels)), weight, group)
    return RankingData.from_arrays(
        X, call.labels, group=call.group, sample_weight=call.row_weight, feature_names=names
    )


def _kind(matrix: Any) -> str:
    """The name of the library's class that a data set is of."""
    for cls in type(matrix).__mro__:
        if (cls.__module__.split(".")[0], cls.__name__) in (
            ("xgboost", "QuantileDMatrix"),
            ("xgboost", "ExtMemQuantileDMatrix"),
            ("xgboost", "DMatrix"),
            ("lightgbm", "Dataset"),
        ):
            return "QuantileDMatrix" if "Quantile" in cls.__name__ else cls.__name__
    raise DataError(
        f"{type(matrix).__name__} is neither a DMatrix of XGBoost nor a Dataset of LightGBM: make "
        "RankingData from arrays by RankingData.from_arrays(X, y, qid)"
    )


def _lightgbm_features(dataset: Any) -> Any:
    from lightgbm.basic import LightGBMError

    try:
        X = dataset.construct().get_data()
    except LightGBMError as error:
        raise DataError(
            f"the Dataset does not give its features back ({error}): make it with "
            "free_raw_data=False, or pass the arrays it was made from"
        ) from None
    if isinstance(X, str) or hasattr(X, "__fspath__"):
        raise DataError(f"the Dataset was read from {X}: read that file with rankplug.read_data")
    return X
