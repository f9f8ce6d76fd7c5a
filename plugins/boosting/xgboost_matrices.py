"""Ranking data as XGBoost's binned matrices, on one machine or on the workers of a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import LabelRankingData, Matrix, RankingData
from rankplug.exceptions import DataError
from rankplug.shards import RemoteRankingData
from rankplug.solver import Data
from rankplug.system.signals import deferred
from rankplug_plugins.boosting.losses import check_relevance, levels

_BLOCK_VALUES = 4_000_000  # of float64, 32 MB


def quantile_matrix(
    data: Data,
    relevance: NDArray[np.float64],
    *,
    zeros: str,
    max_bin: int,
    n_threads: int | None,
    exact: bool = False,
    base_margin: NDArray[np.float64] | None = None,
    ref: Any = None,
) -> Any:
    """`data` as an ``xgboost.QuantileDMatrix`` with `relevance` (of its shape) as labels.

    Queries are handed over as sizes or positions, never as the caller's ids, which XGBoost
    would cut to 32 bits. `exact` keeps the values, as other tree methods than ``hist`` need
    them: a plain ``xgboost.DMatrix``. `base_margin` are the scores from which documents start.
    `ref` is the training matrix whose bins validation data share.
    """
    import xgboost

    common = {"missing": missing_value(zeros), "nthread": n_threads}
    make, binned = xgboost.DMatrix, {}
    if not exact:
        make, binned = xgboost.QuantileDMatrix, {"max_bin": max_bin, "ref": ref}
    with deferred():  # XGBoost asks for the data from C++, where exceptions get lost
        if isinstance(data, LabelRankingData):
            blocks = _label_blocks(data, relevance)
            return xgboost.QuantileDMatrix(blocks, enable_categorical=True, **common, **binned)
        if data.categories:
            binned |= {"feature_types": feature_types(data), "enable_categorical": True}
        return make(
            data.X,
            label=relevance,
            weight=data.query_weight,
            base_margin=base_margin,
            group=data.sizes,
            **common,
            **binned,
        )


def missing_value(zeros: str) -> float:
    """The value that XGBoost treats as missing."""
    return 0.0 if zeros == "missing" else np.nan


def feature_types(data: Any) -> list[str]:
    """Of each feature, as XGBoost names them: "q" for numbers, "c" for codes of categories."""
    return ["c" if j in data.categories else "q" for j in range(data.n_features)]


def label_rows(X: Matrix, instances: NDArray[np.int64], labels: NDArray[np.int64]) -> Matrix:
    """Rows ``(x_i, 1 + label)`` for label ranking; the last column is a category.

    Categories start at 1, so that they never count as missing.
    """
    codes = (labels + 1).astype(X.dtype)[:, None]
    if sparse.issparse(X):
        rows: Matrix = sparse.hstack([X[instances], sparse.csr_array(codes)], format="csr")
        return rows
    return np.hstack([X[instances], codes])


def rows_per_block(n_features: int, n_labels: int) -> int:
    """How many instances to lay out at a time, so that a block stays within 32 MB."""
    return max(1, _BLOCK_VALUES // ((n_features + 1) * n_labels))


def _label_blocks(data: LabelRankingData, relevance: NDArray[np.float64]) -> Any:
    """An ``xgboost.DataIter`` over (instance, label) rows; an instance is a query."""
    import xgboost

    step = rows_per_block(data.n_features, data.n_labels)
    types = [*feature_types(data), "c"]

    class Blocks(xgboost.DataIter):
        def __init__(self) -> None:
            self.start = 0
            super().__init__()

        def reset(self) -> None:
            self.start = 0

        def next(self, input_data: Any) -> bool:
            if self.start >= data.n_samples:
                return False
            values = relevance[self.start : self.start + step]
            position, label = np.nonzero(~np.isnan(values))
            instance = position + self.start
            self.start += step
            input_data(
                data=label_rows(data.X, instance, label),
                label=values[position, label],
                qid=instance,
                feature_types=types,
            )
            return True

    return Blocks()


def boost_on_cluster(
    data: RemoteRankingData,
    parameters: dict[str, Any],
    *,
    n_rounds: int,
    zeros: str,
    max_bin: int,
    init: Any,
) -> Any:
    """The booster that ``xgboost.dask`` trains on the partitions of dense data where they are.

    `parameters` are XGBoost's own, among them "objective"; for the others see `XGBoostTrees`.
    `init` is a booster to which the trees are added, or None.

    Raises
    ------
    DataError
        If queries have weights, which ``xgboost.dask`` cannot handle, or the objective does not
        take such relevance.
    """
    from xgboost import dask as xgboost_dask

    cluster: Any = data
    if cluster.weighted:
        raise DataError(
            "xgboost.dask takes no weights of queries: leave out sample_weight, or train on one "
            "machine"
        )
    # xgboost.dask asks for a current client even if one is passed.
    with (
        cluster.transform(_set_labels, parameters["objective"]) as labelled,
        cluster.client.as_current(),
    ):
        arrays = labelled.to_arrays()
        train = xgboost_dask.DaskQuantileDMatrix(
            cluster.client,
            arrays.X,
            arrays.y,
            qid=arrays.qid,
            missing=missing_value(zeros),
            max_bin=max_bin,
            feature_types=feature_types(data),
            enable_categorical=True,
        )
        result = xgboost_dask.train(
            cluster.client,
            parameters,
            train,
            num_boost_round=n_rounds,
            xgb_model=init,
            verbose_eval=False,
        )
    return result["booster"]


def _set_labels(data: RankingData, objective: str) -> RankingData:
    """A partition whose relevance is what the objective takes."""
    check_relevance(data, objective)
    return data.with_facts(relevance=levels(data)) if objective == "rank:pairwise" else data
