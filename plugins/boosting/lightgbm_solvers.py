"""Solvers that grow LightGBM's trees: its own ranking objectives, and the loss of all pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from scipy import sparse

from rankplug.boosting import PairWeight, SumOrMean
from rankplug.data import RankingData
from rankplug.exceptions import DataError, ParameterError
from rankplug.models import Model
from rankplug.parameters import Integer
from rankplug.shards import DocumentPairs, RemoteRankingData
from rankplug.solver import Data, Monitor, SearchSpace, SolverTags
from rankplug_plugins.boosting.boosted_trees import BoostedTrees, NotNegative, Training, log_name
from rankplug_plugins.boosting.lightgbm_checks import check_lightgbm_text
from rankplug_plugins.boosting.lightgbm_model import LightGBMModel
from rankplug_plugins.boosting.losses import (
    PairLoss,
    counts_of,
    gains,
    levels,
    make_pair_loss,
    pair_weight_space,
)
from rankplug_plugins.boosting.open_parameters import LightGBMParameters, saving
from rankplug_plugins.boosting.watching import STOPPING, Watch

_LARGEST_QUERY = 10_000  # that LightGBM's ranking objectives take
_GAIN_STEPS = 1_000  # of real relevance, whose gains are made integers


class LightGBMTrees(BoostedTrees):
    """Boosted trees by LightGBM; a subclass says for which loss.

    Parameters
    ----------
    num_leaves, min_child_samples : int
        Most leaves of a tree, least rows of a leaf.
    min_child_weight : float
        Least sum of second derivatives in a leaf.
    reg_alpha : float
        L1 penalty of the leaf values.
    n_estimators, learning_rate, ...
        See `BoostedTrees`.
    """

    library = "LightGBM"
    refused_characters = ' ",:[]{}'
    tags = SolverTags(
        tasks=("query-document",),
        problem="boosted trees",
        reference="Ke et al., LightGBM: a highly efficient gradient boosting decision tree, 2017",
        exact=False,
        validation=True,
        continues=True,
        missing_values=True,
        categories=True,
        requires=("lightgbm",),
    )

    num_leaves: Annotated[int, Integer(2, 131072)] = 31
    min_child_samples: Annotated[int, Integer(0, most=2**31 - 1)] = 20
    min_child_weight: NotNegative = 1e-3
    reg_alpha: NotNegative = 0.0
    params: Annotated[Mapping[str, Any] | None, LightGBMParameters(ranks=False)] = None

    def check(self, data: Data | RemoteRankingData) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        drops = self._read_params(data).get("boosting") == "dart"
        if drops and self.early_stopping_rounds is not None:
            raise ParameterError(
                "boosting='dart' changes earlier trees in later rounds, so that no round can be "
                "gone back to: set early_stopping_rounds=None"
            )

    def _size_space(self) -> SearchSpace:
        from optuna.distributions import IntDistribution

        return {
            "num_leaves": IntDistribution(4, 256, log=True),
            "min_child_samples": IntDistribution(1, 200, log=True),
        }

    def _grow(self, training: Training) -> LightGBMModel:
        import lightgbm

        data, valid, monitor = training.data, training.valid, training.monitor
        native = {**training.native, **training.given}
        if native.get("force_col_wise"):
            native["force_row_wise"] = False
        train = lightgbm.Dataset(
            _features(data),
            weight=data.row_weight,
            feature_name=self._feature_names(data) or "auto",
            categorical_feature=sorted(data.categories),
            params=native,
            free_raw_data=training.init is None,  # the scores of earlier trees are yet to be found
            **self._labels(data),
        )
        # Queries are passed to the metric: LightGBM takes 10,000 rows of one at most.
        watch = Watch(monitor, valid, self.eval_metric, tells_queries=False)
        sets = {
            name: watch.add(train.create_valid(_features(one), one.relevance), one)
            for name, one in watch.sets()
        }
        watched: dict[str, Any] = {}
        if sets:
            names, matrices = list(sets), list(sets.values())
            watched = {"valid_sets": matrices, "valid_names": names, "feval": watch}
        _require_variation(train)
        stopping = None if valid is None else self.early_stopping_rounds
        progress = _Progress(monitor, self.eval_metric, stopping, watch)
        booster = lightgbm.train(
            {**native, **self._native_objective(data), **training.given},
            train,
            num_boost_round=self.n_estimators,
            callbacks=[progress],
            init_model=None if training.init is None else training.init.booster,
            **watched,
        )
        n_before = 0 if training.init is None else training.init.n_trees
        n_trees = n_before + (progress.best or len(monitor.history))
        text = booster.model_to_string(num_iteration=n_trees)
        if training.given:
            with saving(training.given):
                check_lightgbm_text(text)
        return LightGBMModel(text)

    def _check_init(self, init: Model) -> None:
        if not isinstance(init, LightGBMModel):
            raise ParameterError(
                f"{self.name} goes on from LightGBM's trees, not from a model of kind "
                f"{init.kind!r}: leave out init"
            )

    def _native_parameters(self, rng: np.random.Generator) -> dict[str, Any]:
        native = {
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "min_data_in_leaf": self.min_child_samples,
            "min_sum_hessian_in_leaf": self.min_child_weight,
            "bagging_fraction": self.subsample,
            "bagging_freq": int(self.subsample < 1),
            "feature_fraction": self.colsample_bytree,
            "lambda_l2": self.reg_lambda,
            "lambda_l1": self.reg_alpha,
            "max_bin": self.max_bin,
            "metric": "None",
            "seed": self._seed(rng),
            "deterministic": True,
            "force_row_wise": True,  # otherwise chosen by a race, which may change the trees
            "feature_pre_filter": False,  # else few rows leave no feature, which is an error
            "verbosity": -1,
        }
        if self.n_threads is not None:
            # LightGBM crashes where the system cannot make so many threads.
            native["num_threads"] = self._threads()
        return native


class LightGBMLambdarank(LightGBMTrees):
    """Boosted trees for NDCG: LightGBM's ``lambdarank`` [1]_, or its ``rank_xendcg`` [2]_.

    Grades, integers from 0 to 31, have the gain ``2^y - 1``. For ``lambdarank``, any other
    relevance has the linear gain ``y - min(y)`` of its query, as in `Ranker.score`, in 1,000
    steps, because LightGBM takes integers only.

    Parameters
    ----------
    objective : "lambdarank" or "rank_xendcg"
        ``rank_xendcg`` takes grades only.
    truncation_level : int
        ``lambdarank`` counts pairs with one of so many rows at the top.
    unbiased : bool
        Whether the rows of a query stand as they were shown and relevance is clicks: LightGBM
        then learns for each position what it adds to the chance of a click [3]_, which is no part
        of the model. For ``lambdarank``; `rankplug.clicks.ClickLog.to_sessions` has such data.
    n_estimators, learning_rate, ...
        See `LightGBMTrees`.

    Notes
    -----
    LightGBM ranks rows of equal scores, as all are at first, in their order: the same rows in
    another order give other trees, and scores that differ by some per cent of their range.

    LightGBM takes at most 10,000 rows of a query. Weights are multiplied to each row's
    derivatives. Zeros are values, with dense and sparse features.

    References
    ----------
    .. [1] Ke et al., LightGBM: a highly efficient gradient boosting decision tree, NIPS 2017.
    .. [2] Bruch, An alternative cross entropy loss for learning-to-rank, WWW 2021.
    .. [3] Hu, Wang, Peng and Li, Unbiased LambdaMART: an unbiased pairwise learning-to-rank
       algorithm, WWW 2019, on which LightGBM's is modelled.
    """

    name = "lightgbm-lambdarank"
    tags = LightGBMTrees.tags.replace(
        problem="boosted trees on pairs with a top row, logistic loss weighed by change in NDCG"
    )

    params: Annotated[Mapping[str, Any] | None, LightGBMParameters(ranks=True)] = None
    objective: Literal["lambdarank", "rank_xendcg"] = "lambdarank"
    truncation_level: Annotated[int, Integer(1, 2**31 - 1)] = 30
    unbiased: bool = False

    def check(self, data: Data | RemoteRankingData) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        assert isinstance(data, RankingData)
        largest = int(data.sizes.max())
        if largest > _LARGEST_QUERY:
            raise DataError(
                f"{self.name}: LightGBM takes {_LARGEST_QUERY:,} rows of a query, but one has "
                f"{largest:,}: use lightgbm-all-pairs, which has no limit"
            )
        if self.unbiased and self.objective != "lambdarank":
            raise ParameterError(f"{self.name}: unbiased=True is for objective='lambdarank'")
        if self.objective == "rank_xendcg" and not data.is_graded:
            raise DataError(
                f"{self.name}: objective='rank_xendcg' takes integer relevance from 0 to 31 only: "
                "use objective='lambdarank'"
            )

    def _native_objective(self, data: Data) -> dict[str, Any]:
        if self.objective == "rank_xendcg":
            return {"objective": "rank_xendcg"}
        assert isinstance(data, RankingData)
        gain = 2.0 ** np.arange(32) - 1 if data.is_graded else np.arange(_GAIN_STEPS + 1.0)
        return {
            "objective": "lambdarank",
            "lambdarank_truncation_level": self.truncation_level,
            "label_gain": gain.tolist(),
        }

    def _labels(self, data: Data) -> dict[str, Any]:
        assert isinstance(data, RankingData)
        labels = data.relevance
        if not data.is_graded:
            gain = gains(data)
            labels = np.round(gain / gain.max() * _GAIN_STEPS)
        fields = {"label": labels, "group": data.sizes}
        if self.unbiased:
            starts = np.repeat(data.query_ptr[:-1], data.sizes)
            fields["position"] = np.arange(data.n_samples) - starts
        return fields


class LightGBMAllPairs(LightGBMTrees):
    """LightGBM's trees for a loss of all pairs, exactly; see `XGBoostAllPairs`.

    Any real relevance and queries of any size are taken, other than by LightGBM's own ranking
    objectives.

    Parameters
    ----------
    loss, pair_weight, reduction, document_pairs
        See `XGBoostAllPairs`.
    n_estimators, learning_rate, ...
        See `LightGBMTrees`.

    References
    ----------
    .. [1] Ke et al., LightGBM: a highly efficient gradient boosting decision tree, NIPS 2017.
    .. [2] Lee and Lin, Large-scale linear rankSVM, Neural Computation 26 (2014).
    """

    name = "lightgbm-all-pairs"
    tags = LightGBMTrees.tags.replace(
        problem="boosted trees on all pairs, squared hinge max(0, 1 - (s_i - s_j))^2",
        reference="Ke et al., LightGBM (2017), with the loss of Lee and Lin (2014)",
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
        loss = make_pair_loss(data, self.loss, counts_of(self), data.row_query)
        return {"objective": loss}

    def _labels(self, data: Data) -> dict[str, Any]:
        return {"label": levels(data)}


@dataclass(eq=False)
class _Progress:
    """A training callback that reports each round to `monitor` and stops early."""

    monitor: Monitor
    metric: str
    early_stopping_rounds: int | None
    watch: Watch
    best: int = 0  # the round with the best value, counted from 1
    best_value: float = field(default=-np.inf)

    def __call__(self, env: Any) -> None:
        from lightgbm.callback import EarlyStopException

        n_rounds, values, stop = env.iteration - env.begin_iteration + 1, {}, False
        for name, _, value, *_ in env.evaluation_result_list or ():
            if name != STOPPING:
                continue
            values = {log_name(self.metric): float(value)}
            if value > self.best_value:
                self.best, self.best_value = n_rounds, value
            stop = n_rounds - self.best >= (self.early_stopping_rounds or np.inf)
        if not self.monitor.report(n_rounds, evals=self.watch.values, **values) or stop:
            raise EarlyStopException(env.iteration, [])


def _require_variation(train: Any) -> None:
    """Refuse what LightGBM would refuse with a message of its own sources' line numbers."""
    train.construct()
    if not any(train.feature_num_bin(j) > 1 for j in range(train.num_feature())):
        raise DataError(
            "LightGBM finds no feature that varies (it takes values closer to 0 than 1e-35 for "
            "0), so there is nothing to learn: scale the features, or add others"
        )


def _features(data: Data) -> Any:
    return sparse.csr_matrix(data.X) if sparse.issparse(data.X) else data.X
