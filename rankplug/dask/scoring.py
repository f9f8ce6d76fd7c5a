"""Scores of rows on the workers: as a Dask collection, or as a mean over their queries."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
from dask.delayed import delayed
from numpy.typing import NDArray

from rankplug.dask.data import ClusterData
from rankplug.data import RankingData
from rankplug.estimators.base import mean_of_defined
from rankplug.estimators.ranker import NO_RELEVANT_ROW, ndcg_of_queries
from rankplug.exceptions import DataError
from rankplug.models import Model, predict_data

__all__ = ["mean_ndcg", "predict_lazily"]


def predict_lazily(model: Model, X: Any) -> Any:
    """Scores of the rows of a Dask Array or DataFrame, partition by partition, when computed.

    Returns
    -------
    dask.array.Array of shape (n_samples,), or dask.dataframe.Series with the index of `X`

    Raises
    ------
    DataError
        At once if the columns of `X` are not the model's; if values are not valid, when computed.
    """
    _require_columns(model, X)
    sent = delayed(model, pure=False)
    if isinstance(X, da.Array):
        blocks = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        return blocks.map_blocks(_scores, sent, drop_axis=1, dtype=np.float64, meta=np.empty(0))
    meta = pd.Series([], dtype=np.float64, name="score")
    return X.map_partitions(_score_column, sent, meta=meta)


def mean_ndcg(model: Model, data: ClusterData) -> float:
    """Mean NDCG@10 over the queries that have a relevant row; see `rankplug.Ranker.score`.

    Raises
    ------
    DataError
        If no query has a relevant row.
    """
    graded = all(data.map(attrgetter("is_graded")))
    sums = np.array(data.map(_ndcg_sums, model, graded)).T
    means = np.divide(sums[0], sums[1], out=np.full(len(sums[0]), np.nan), where=sums[1] > 0)
    return mean_of_defined(means, sums[1], NO_RELEVANT_ROW)


def _ndcg_sums(data: RankingData, model: Model, graded: bool) -> tuple[float, float]:
    """Sum of the values and of the weights of the queries whose NDCG is defined."""
    values = ndcg_of_queries(data, predict_data(model, data), graded=graded)
    weights = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
    defined = ~np.isnan(values)
    return float(values[defined] @ weights[defined]), float(weights[defined].sum())


def _require_columns(model: Model, X: Any) -> None:
    columns = getattr(X, "columns", None)
    if columns is not None and model.feature_names is not None:
        known = {str(name) for name in columns}
        missing = [name for name in model.feature_names if name not in known]
        if missing:
            raise DataError(f"missing feature columns: {', '.join(missing)}")
    elif X.shape[1] != model.n_features:
        raise DataError(
            f"X has {X.shape[1]} features, but the model is expecting {model.n_features} "
            "features as input"
        )


def _scores(X: Any, model: Model) -> NDArray[np.float64]:
    return model.predict(X) if X.shape[0] else np.empty(0)


def _score_column(X: pd.DataFrame, model: Model) -> pd.Series[float]:
    return pd.Series(_scores(X, model), index=X.index, name="score")
