"""Solvers that grow XGBoost's trees: its own ranking objectives, and the loss of all pairs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.boosting import PairWeight, SumOrMean
from rankplug.data import RankingData
from rankplug.exceptions import DataError, ParameterError
from rankplug.models import Model
from rankplug.parameters import Integer, Real
from rankplug.shards import DocumentPairs, RemoteRankingData
from rankplug.solver import Data, SearchSpace, SolverTags
from rankplug_plugins.boosting.boosted_trees import BoostedTrees, Training
from rankplug_plugins.boosting.file_checks import check_xgboost_json, finite_json
from rankplug_plugins.boosting.losses import (
    PairLoss,
    check_relevance,
    counts_of,
    gains,
    levels,
    make_pair_loss,
    pair_weight_space,
)
from rankplug_plugins.boosting.open_parameters import XGBoostParameters, saving
from rankplug_plugins.boosting.watching import Watch
from rankplug_plugins.boosting.xgboost_matrices import boost_on_cluster, quantile_matrix
from rankplug_plugins.boosting.xgboost_model import XGBoostModel
from rankplug_plugins.boosting.xgboost_rounds import make_progress

# Of the parameters that XGBoost keeps as float32, whose normal numbers lie between these.
_SMALLEST, _LARGEST = 1.2e-38, 3e38
_Float32: TypeAlias = Annotated[float, Real(0, _LARGEST, low_open=False)]


class XGBoostTrees(BoostedTrees):
    """Boosted trees by XGBoost; a subclass says for which loss.

    Parameters
    ----------
    max_depth : int
    min_child_weight : float
        Least sum of second derivatives in a leaf.
    reg_alpha : float
        L1 penalty of the leaf values.
    gamma : float
        Least gain of a split.
    zeros : "missing" or "value"
        "missing" treats 0, stored or absent, as missing: each split learns on which side
        zeros go. XGBoost always does so with the absent entries of sparse features, so that
        dense and sparse features give the same model. "value" takes 0 as a number, as
        XGBoost does by default with dense features; sparse ones are refused then. NaN is
        missing in either case: "value" tells it from 0.
    n_estimators, learning_rate, ...
        See `BoostedTrees`.
    """

    library = "XGBoost"
    refused_characters = '[]<"\\'
    tags = SolverTags(
        tasks=("query-document",),
        problem="boosted trees",
        reference="Chen and Guestrin, XGBoost: a scalable tree boosting system, KDD 2016",
        exact=False,
        validation=True,
        continues=True,
        missing_values=True,
        categories=True,
        requires=("xgboost",),
    )

    learning_rate: float = 0.3
    max_depth: Annotated[int, Integer(1, 64)] = 6
    min_child_weight: _Float32 = 1.0
    gamma: _Float32 = 0.0
    reg_lambda: _Float32 = 1.0
    reg_alpha: _Float32 = 0.0
    max_bin: Annotated[int, Integer(2, 65536)] = 256
    zeros: Literal["missing", "value"] = "missing"
    params: Annotated[Mapping[str, Any] | None, XGBoostParameters(ranks=False)] = None

    def _size_space(self) -> SearchSpace:
        from optuna.distributions import FloatDistribution, IntDistribution

        return {
            "max_depth": IntDistribution(2, 10),
            "min_child_weight": FloatDistribution(0.1, 100.0, log=True),
        }

    def check(self, data: Data | RemoteRankingData) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        if not isinstance(data, RemoteRankingData):
            self._check_features(data)

    def _tree_method(self) -> str:
        method = (self.params or {}).get("tree_method", "hist")
        return "hist" if method == "auto" else str(method)

    def _read_params(self, data: Data | RemoteRankingData) -> dict[str, Any]:
        """The caller's parameters, constraints as XGBoost's texts, which need no names."""
        given = super()._read_params(data)
        monotone = given.get("monotone_constraints")
        if isinstance(monotone, list):
            monotone = monotone + [0] * (data.n_labels is not None)  # the label is a feature
            given["monotone_constraints"] = f"({','.join(map(str, monotone))})"
        if monotone and self.zeros == "missing":
            raise ParameterError(
                "monotone_constraints need zeros='value': with zeros='missing' each split learns "
                "where 0 goes, whatever the constraints say"
            )
        groups = given.get("interaction_constraints")
        if isinstance(groups, list):
            # Labels are told apart by a feature of their own, which may meet all others.
            label = [] if data.n_labels is None else [data.n_features]
            given["interaction_constraints"] = json.dumps([group + label for group in groups])
        remote = isinstance(data, RemoteRankingData)
        if self._tree_method() != "hist" and (remote or data.n_labels is not None):
            raise ParameterError(
                f"tree_method={self._tree_method()!r} is for documents of queries on one machine: "
                "take 'hist'"
            )
        return given

    def _objective(self, data: Data) -> Any:
        """The gradient and Hessian as a function, if it is not XGBoost's own."""
        return None

    def _labels(self, data: Data) -> NDArray[np.float64]:
        """Only its order matters."""
        return levels(data)

    def _grow(self, training: Training) -> XGBoostModel:
        import xgboost

        data, valid, start = training.data, training.valid, training.start
        train = self._matrix(data, self._labels(data), start)
        watch = Watch(training.monitor, valid, self.eval_metric, tells_queries=True)
        evals = []
        for name, one in watch.sets():
            self._check_features(one)
            matrix = self._matrix(one, one.relevance, start, ref=train)
            evals.append((watch.add(matrix, one), name))
        stopping = None if valid is None else self.early_stopping_rounds
        progress = make_progress(training.monitor, self.eval_metric, stopping, watch)
        booster = xgboost.train(
            {**training.native, **self._native_objective(data), **training.given},
            train,
            num_boost_round=self.n_estimators,
            obj=self._objective(data),
            evals=evals,
            custom_metric=watch,
            xgb_model=None if training.init is None else training.init.unnamed_booster(),
            callbacks=[progress],
            verbose_eval=False,
        )
        booster.feature_names = self._feature_names(data)
        if training.given:
            with saving(training.given):
                check_xgboost_json(finite_json(booster.save_raw("json").decode()))
        return XGBoostModel(booster, self.zeros, data.labels)

    def _check_init(self, init: Model) -> None:
        if not isinstance(init, XGBoostModel):
            raise ParameterError(
                f"{self.name} goes on from XGBoost's trees, not from a model of kind "
                f"{init.kind!r}: leave out init"
            )
        if init.zeros != self.zeros:
            raise ParameterError(
                f"init was trained with zeros={init.zeros!r}, so that {self.name} goes on from it "
                f"with the same, not with {self.zeros!r}"
            )

    def _native_parameters(self, rng: np.random.Generator) -> dict[str, Any]:
        native = {
            "tree_method": "hist",
            "learning_rate": _float32(self.learning_rate),
            "max_depth": self.max_depth,
            "min_child_weight": _float32(self.min_child_weight),
            "gamma": _float32(self.gamma),
            "subsample": self.subsample,
            "colsample_bytree": self.colsample_bytree,
            "reg_lambda": _float32(self.reg_lambda),
            "reg_alpha": _float32(self.reg_alpha),
            "max_bin": self.max_bin,
            "disable_default_eval_metric": True,
            "seed": self._seed(rng),
        }
        if self.n_threads is not None:
            native["nthread"] = self._threads()
        return native

    def _check_features(self, data: Data) -> None:
        if self.zeros == "value" and sparse.issparse(data.X):
            raise DataError(
                f"{self.name} with zeros='value' takes dense features only, because XGBoost "
                "treats absent entries as missing: pass X.toarray() or set zeros='missing'"
            )

    def _matrix(
        self, data: Data, relevance: NDArray[np.float64], start: Model | None, ref: Any = None
    ) -> Any:
        return quantile_matrix(
            data,
            relevance,
            zeros=self.zeros,
            max_bin=self.max_bin,
            n_threads=self._threads(),
            exact=self._tree_method() != "hist",
            base_margin=None if start is None else start.predict(data.X),
            ref=ref,
        )


class _SampledPairs(XGBoostTrees):
    """XGBoost's choice of the pairs that count in a round."""

    params: Annotated[Mapping[str, Any] | None, XGBoostParameters(ranks=True)] = None
    pair_method: Literal["topk", "mean"] = "topk"
    num_pair_per_sample: Annotated[int, Integer(1, 2**31 - 1)] | None = None

    def tuning_space(self, data: Data | None = None) -> SearchSpace:
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
    tags = XGBoostTrees.tags.replace(
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
            {**training.native, **self._native_objective(training.data), **training.given},
            n_rounds=self.n_estimators,
            zeros=self.zeros,
            max_bin=self.max_bin,
            init=None if training.init is None else training.init.unnamed_booster(),
        )
        booster.feature_names = self._feature_names(training.data)
        training.monitor.report(self.n_estimators)
        return XGBoostModel(booster, self.zeros)


class XGBoostNdcg(_SampledPairs):
    """Boosted trees for NDCG: XGBoost's ``rank:ndcg``, the form of LambdaMART it has by default.

    Each pair's logistic loss is weighed by how much NDCG changes when the two rows swap places
    [1]_. Grades, integers from 0 to 31, have the gain ``2^y - 1``; any other relevance has the
    linear gain ``y - min(y)`` of its query, as in `Ranker.score`.

    XGBoost ranks rows of equal scores, as all are at first, in their order: the same rows in
    another order give other trees, and scores that differ by about a tenth of their range.

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
    tags = XGBoostTrees.tags.replace(
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

        loss(s) = sum over queries q of c_q sum over pairs (i, j), y_i > y_j, of c_ij h(s_i - s_j)

    with ``h(t) = max(0, 1 - t)^2``, the loss of the linear rankSVM [1]_, or
    ``h(t) = log(1 + exp(-t))`` with a derivative that errs by 0.003 at most. Gradient and second
    derivatives cost O(n log k) a round, see `rankplug.boosting`. They are scaled so that second
    derivatives are 1 on average in the first round: ``min_child_weight`` counts rows.

    Parameters
    ----------
    loss : "squared-hinge" or "logistic"
    pair_weight : "sum", "query-mean", "uniform", "gain" or "relevance"
        ``c_ij``: 1, the difference of the gains ``2^y - 1`` of both rows, or that of their
        relevance y. "sum" and "query-mean" are "uniform" with that `reduction`.
    reduction : "sum" or "query-mean"
        ``c_q`` is the query's weight, or that divided by what the query's pairs count.
    document_pairs : "preferred" or "product"
        Where rows have weights (``document_weight``): ``c_ij`` is multiplied by that of the
        preferred row, or by the product of both.
    n_estimators, learning_rate, ...
        See `XGBoostTrees`.

    References
    ----------
    .. [1] Lee and Lin, Large-scale linear rankSVM, Neural Computation 26 (2014).
    """

    name = "xgboost-all-pairs"
    tags = XGBoostTrees.tags.replace(
        tasks=("query-document", "label-ranking"),
        problem="boosted trees on all pairs, squared hinge max(0, 1 - (s_i - s_j))^2",
        reference="Chen and Guestrin, KDD 2016, with the loss of Lee and Lin (2014)",
        document_weights=True,
    )
    loss: PairLoss = "squared-hinge"
    pair_weight: PairWeight = "sum"
    reduction: SumOrMean = "sum"
    document_pairs: DocumentPairs = "preferred"

    def tuning_space(self, data: Data | None = None) -> SearchSpace:
        """That of the trees, and how much the pairs of large queries count."""
        return {**super().tuning_space(data), **pair_weight_space(self)}

    def _native_objective(self, data: Data) -> dict[str, Any]:
        return {"base_score": 0.0}

    def _objective(self, data: Data) -> Any:
        return make_pair_loss(data, self.loss, counts_of(self))


def _float32(value: float) -> float:
    """What is 0 in float32 as 0: XGBoost refuses it otherwise."""
    return value if value >= _SMALLEST else 0.0
