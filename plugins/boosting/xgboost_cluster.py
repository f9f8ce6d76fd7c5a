"""XGBoost's trees on the workers of a Dask cluster, each of which keeps its own rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.shards import RemoteRankingData
from rankplug_plugins.boosting.relevance import check_relevance, levels
from rankplug_plugins.boosting.xgboost_matrices import missing_value

__all__ = ["boost_on_cluster"]


def boost_on_cluster(
    data: RemoteRankingData,
    parameters: dict[str, Any],
    *,
    n_rounds: int,
    zeros: str,
    max_bin: int,
) -> Any:
    """The booster that ``xgboost.dask`` trains on the partitions where they are.

    Parameters
    ----------
    data : rankplug.dask.ClusterData
        Dense.
    parameters : dict
        XGBoost's own, among them "objective".
    n_rounds, zeros, max_bin
        See `XGBoostTrees`.

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
    # xgboost.dask asks for a current client even if it is told which one.
    with (
        cluster.transform(_with_labels, parameters["objective"]) as labelled,
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
        )
        result = xgboost_dask.train(
            cluster.client, parameters, train, num_boost_round=n_rounds, verbose_eval=False
        )
    return result["booster"]


def _with_labels(data: RankingData, objective: str) -> RankingData:
    """A partition whose relevance is what the objective takes."""
    check_relevance(data, objective)
    return replace(data, relevance=levels(data)) if objective == "rank:pairwise" else data
