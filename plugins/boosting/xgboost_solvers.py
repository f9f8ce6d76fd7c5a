"""Solvers that grow XGBoost's trees: its own ranking objectives, and the loss of all pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankplug.data import RankingData
from rankplug.exceptions import ParameterError
from rankplug.parameters import Integer
from rankplug.shards import RemoteRankingData
from rankplug.solver import Data
from rankplug_plugins.boosting.boosted_trees import Training
from rankplug_plugins.boosting.losses import (
    PairLoss,
    PairWeight,
    check_relevance,
    gains,
    levels,
    make_pair_loss,
    pair_weight_space,
)
from rankplug_plugins.boosting.xgboost_matrices import boost_on_cluster
from rankplug_plugins.boosting.xgboost_model import XGBoostModel
from rankplug_plugins.boosting.xgboost_trees import XGBOOST_TAGS, XGBoostTrees

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["XGBoostAllPairs", "XGBoostNdcg", "XGBoostPairwise"]


class _SampledPairs(XGBoostTrees):
    """XGBoost's choice of the pairs that count in a round."""

    pair_method: Literal["topk", "mean"] = "topk"
    num_pair_per_sample: Annotated[int, Integer(1, 2**31 - 1)] | None = None

    def tuning_space(self, data: Data | None = None) -> dict[str, BaseDistribution]:
        """That of all trees, and how pairs are made."""
        from optuna.distributions import CategoricalDistribution

        pair_method = CategoricalDistribution(("topk", "mean"))
        return {**super().tuning_space(data), "pair_method": pair_method}

    def _native_pairs(self) -> dict[str, Any]:
        """The same settings under XGBoost's names."""
        native: dict[str, Any] = {"lambdarank_pair_method": self.pair_method}
        if self.num_pair_per_sample is not None:
            native["lambdarank_num_pair_per_sample"] = self.num_pair_per_sample
        return native


class XGBoostPairwise(_SampledPairs):
    r"""Gradient-boosted trees for ranking, by XGBoost.

    ``rank:pairwise`` boosts the logistic loss of preference pairs (i, j), y_i > y_j,

        sum over sampled pairs of log(1 + exp(-(s_i - s_j))),

    with XGBoost's normalisation of each query's gradients and a fresh sample of pairs in each
    round [1]_; ``rank:ndcg`` and ``rank:map`` weigh each pair by the change in that metric
    when i and j swap places [2]_. The defaults are XGBoost's own.

    Parameters
    ----------
    objective : "rank:pairwise", "rank:ndcg" or "rank:map"
        ``rank:pairwise`` takes any real relevance and depends on its order only,
        ``rank:ndcg`` takes integers 0 to 31, ``rank:map`` 0 and 1.
    pair_method : "topk" or "mean"
        Pairs between the rows now at the top and all others, or a few random ones of each row.
    num_pair_per_sample : int, optional
        How many top rows, or how many pairs of a row; None means XGBoost's 32 and 1. With
        "topk", a number at least as large as the largest query makes all pairs.
    n_estimators, learning_rate, ...
        See `XGBoostTrees`.

    Notes
    -----
    Query weights are XGBoost's weights of queries, which it divides by their mean. Features
    are rounded to float32. Label ranking gives each instance's labels as the rows of a query,
    the label being one more, categorical, feature.

    On a Dask cluster, ``xgboost.dask`` trains on the partitions; features must be dense and queries
    without weights. There is no early stopping, and a callback is called at the end only.

    References
    ----------
    .. [1] Chen and Guestrin, XGBoost: a scalable tree boosting system, KDD 2016.
    .. [2] Burges, From RankNet to LambdaRank to LambdaMART, MSR-TR-2010-82.
    """

    name = "xgboost-pairwise"
    tags = replace(
        XGBOOST_TAGS,
        tasks=("query-document", "label-ranking"),
        problem="boosted trees on sampled pairs, logistic loss log(1 + exp(-(s_i - s_j)))",
        distributed=True,
    )
    objective: Literal["rank:pairwise", "rank:ndcg", "rank:map"] = "rank:pairwise"

    def check(self, data: Data | RemoteRankingData) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        if not isinstance(data, RemoteRankingData):
            check_relevance(data, self.objective)
        elif self.early_stopping_rounds is not None:
            raise ParameterError(
                f"early_stopping_rounds={self.early_stopping_rounds} cannot be used on a cluster: "
                "set it to None"
            )

    def _native_objective(self, data: Data) -> dict[str, Any]:
        return {"objective": self.objective, **self._native_pairs()}

    def _labels(self, data: Data) -> NDArray[np.float64]:
        return levels(data) if self.objective == "rank:pairwise" else data.relevance

    def _grow(self, training: Training) -> XGBoostModel:
        if not isinstance(training.data, RemoteRankingData):
            return super()._grow(training)
        booster = boost_on_cluster(
            training.data,
            {**training.native, "objective": self.objective, **self._native_pairs()},
            n_rounds=self.n_estimators,
            zeros=self.zeros,
            max_bin=self.max_bin,
        )
        training.monitor.report(self.n_estimators)
        return XGBoostModel(booster, self.zeros)


class XGBoostNdcg(_SampledPairs):
    """Boosted trees for NDCG: XGBoost's ``rank:ndcg``, the form of LambdaMART it has by default.

    Each pair's logistic loss is weighed by how much NDCG changes when the two rows swap places
    [1]_. Grades, integers from 0 to 31, have the gain ``2^y - 1``; any other relevance has the
    linear gain ``y - min(y)`` of its query, as in `Ranker.score`.

    Parameters
    ----------
    pair_method, num_pair_per_sample
        See `XGBoostPairwise`.
    n_estimators, learning_rate, ...
        See `XGBoostTrees`.

    References
    ----------
    .. [1] Burges, From RankNet to LambdaRank to LambdaMART, MSR-TR-2010-82.
    """

    name = "xgboost-ndcg"
    tags = replace(
        XGBOOST_TAGS,
        problem="boosted trees on sampled pairs, logistic loss weighed by the change in NDCG",
        reference="Burges, From RankNet to LambdaRank to LambdaMART, MSR-TR-2010-82",
    )

    def _native_objective(self, data: Data) -> dict[str, Any]:
        assert isinstance(data, RankingData)
        return {"objective": "rank:ndcg", "ndcg_exp_gain": data.is_graded, **self._native_pairs()}

    def _labels(self, data: Data) -> NDArray[np.float64]:
        assert isinstance(data, RankingData)
        return data.relevance if data.is_graded else gains(data)


class XGBoostAllPairs(XGBoostTrees):
    """XGBoost's trees for a loss of all pairs, exactly: no pair is sampled or cut off.

        loss(s) = sum over queries q of c_q sum over pairs (i, j), y_i > y_j, of h(s_i - s_j)

    with ``h(t) = max(0, 1 - t)^2``, the loss of the linear rankSVM [1]_, or
    ``h(t) = log(1 + exp(-t))`` with a derivative that errs by 0.003 at most. Gradient and second
    derivatives cost O(n log k) a round, see `rankplug.boosting`. They are scaled so that second
    derivatives are 1 on average in the first round: ``min_child_weight`` counts rows.

    Parameters
    ----------
    loss : "squared-hinge" or "logistic"
    pair_weight : "sum" or "query-mean"
        ``c_q`` is the query's weight, or that divided by the number of the query's pairs.
    n_estimators, learning_rate, ...
        See `XGBoostTrees`.

    References
    ----------
    .. [1] Lee and Lin, Large-scale linear rankSVM, Neural Computation 26 (2014).
    """

    name = "xgboost-all-pairs"
    tags = replace(
        XGBOOST_TAGS,
        tasks=("query-document", "label-ranking"),
        problem="boosted trees on all pairs, squared hinge max(0, 1 - (s_i - s_j))^2",
        reference="Chen and Guestrin, KDD 2016, with the loss of Lee and Lin (2014)",
    )
    loss: PairLoss = "squared-hinge"
    pair_weight: PairWeight = "sum"

    def tuning_space(self, data: Data | None = None) -> dict[str, BaseDistribution]:
        """That of the trees, and how much the pairs of large queries count."""
        return {**super().tuning_space(data), **pair_weight_space()}

    def _native_objective(self, data: Data) -> dict[str, Any]:
        return {"base_score": 0.0}

    def _objective(self, data: Data) -> Any:
        return make_pair_loss(data, self.loss, self.pair_weight)
