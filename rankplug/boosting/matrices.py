"""Conversion of data sets of XGBoost and LightGBM to `RankingData`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from rankplug.boosting.calls import Call, is_given
from rankplug.data import RankingData
from rankplug.exceptions import DataError

__all__ = ["ranking_data"]


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
    if not is_given(labels):
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
