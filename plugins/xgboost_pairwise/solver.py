"""XGBoost's ranker as a solver: parameters in, boosted trees out."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import sparse

from rankplug.data import RankingData
from rankplug.exceptions import DataError, ParameterError
from rankplug.models import Model
from rankplug.parameters import Choice, Integer, Optional, Real
from rankplug.solver import Data, Monitor, Solver, SolverResult, SolverTags
from rankplug_plugins.xgboost_pairwise.checks import check_relevance, defined, translated
from rankplug_plugins.xgboost_pairwise.matrices import levels, quantile_matrix
from rankplug_plugins.xgboost_pairwise.model import XGBoostModel

__all__ = ["XGBoostPairwise"]

_VALID = "valid"
_SEEDS = 2**31 - 1


class XGBoostPairwise(Solver):
    r"""Gradient-boosted trees for ranking, by XGBoost.

    ``rank:pairwise`` boosts the logistic loss of preference pairs (i, j), y_i > y_j,

        sum over sampled pairs of log(1 + exp(-(s_i - s_j))),

    with XGBoost's normalisation of each query's gradients and a fresh sample of pairs in each
    round [1]_; ``rank:ndcg`` and ``rank:map`` weigh each pair by the change in that metric
    when i and j swap places [2]_. A tree is fitted to the gradients in each round, so there is
    no convex problem and no tolerance: the result has no objective and no duality gap, and is
    "converged" when all rounds were built or early stopping ended them. `n_iter` and
    `n_passes` are the rounds built, those after the best one included.

    The defaults are XGBoost's own. XGBoost's own metrics are used for early stopping only:
    they give 1.0 to queries without a relevant document.

    Parameters
    ----------
    n_estimators : int
        Boosting rounds, one tree each.
    learning_rate : float in (0, 1]
    max_depth : int
    min_child_weight, gamma : float
        Least sum of second derivatives in a leaf, least gain of a split.
    subsample, colsample_bytree : float in (0, 1]
        Shares of rows and features that each tree sees.
    reg_lambda, reg_alpha : float
        L2 and L1 penalties of the leaf values.
    max_bin : int
        Histogram bins of a feature.
    objective : "rank:pairwise", "rank:ndcg" or "rank:map"
        ``rank:pairwise`` takes any real relevance and depends on its order only,
        ``rank:ndcg`` takes integers 0 to 31, ``rank:map`` 0 and 1.
    pair_method : "topk" or "mean"
        Pairs between the rows now at the top and all others, or a few random ones of each row.
    num_pair_per_sample : int, optional
        How many top rows, or how many pairs of a row; None means XGBoost's 32 and 1. With
        "topk", a number at least as large as the largest query makes all pairs.
    early_stopping_rounds : int, optional
        Stop when `eval_metric` of the validation data, which `solve` then needs, has not
        improved for so many rounds; the model keeps the trees up to the best round. None
        builds all rounds and leaves validation data aside.
    eval_metric : "ndcg@10", "ndcg", "map" or "auc"
        Integers 0 to 31 are needed for NDCG, 0 and 1 for MAP. "auc", the pairwise accuracy,
        takes any relevance but leaves out queries of one or two rows.
    zeros : "missing" or "value"
        "missing" treats 0, stored or absent, as missing: each split learns on which side
        zeros go. XGBoost always does so with the absent entries of sparse features, so that
        dense and sparse features give the same model. "value" takes 0 as a number, as
        XGBoost does by default with dense features; sparse ones are refused then.
    n_threads : int, optional
        None leaves the choice to XGBoost: all processors.

    Notes
    -----
    Query weights are XGBoost's weights of queries, which it divides by their mean. Features
    are rounded to float32. Label ranking gives each instance's labels as the rows of a query,
    the label being one more, categorical, feature.

    References
    ----------
    .. [1] Chen and Guestrin, XGBoost: a scalable tree boosting system, KDD 2016.
    .. [2] Burges, From RankNet to LambdaRank to LambdaMART, MSR-TR-2010-82.
    """

    name = "xgboost-pairwise"
    tags = SolverTags(
        tasks=("query-document", "label-ranking"),
        problem="boosted trees on sampled pairs, logistic loss log(1 + exp(-(s_i - s_j)))",
        reference="Chen and Guestrin, XGBoost: a scalable tree boosting system, KDD 2016",
        exact=False,
        validation=True,
        requires=("xgboost",),
    )
    iteration_limit = "n_estimators"
    parameters = {
        "n_estimators": Integer(1),
        "learning_rate": Real(0, 1, high_open=False),
        "max_depth": Integer(1, 64),
        "min_child_weight": Real(0, low_open=False),
        "gamma": Real(0, low_open=False),
        "subsample": Real(0, 1, high_open=False),
        "colsample_bytree": Real(0, 1, high_open=False),
        "reg_lambda": Real(0, low_open=False),
        "reg_alpha": Real(0, low_open=False),
        "max_bin": Integer(2, 65536),
        "objective": Choice(("rank:pairwise", "rank:ndcg", "rank:map")),
        "pair_method": Choice(("topk", "mean")),
        "num_pair_per_sample": Optional(Integer(1, 2**31 - 1)),
        "early_stopping_rounds": Optional(Integer(1)),
        "eval_metric": Choice(("ndcg@10", "ndcg", "map", "auc")),
        "zeros": Choice(("missing", "value")),
        "n_threads": Optional(Integer(1)),
    }

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.3,
        max_depth: int = 6,
        min_child_weight: float = 1.0,
        gamma: float = 0.0,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        reg_lambda: float = 1.0,
        reg_alpha: float = 0.0,
        max_bin: int = 256,
        objective: Literal["rank:pairwise", "rank:ndcg", "rank:map"] = "rank:pairwise",
        pair_method: Literal["topk", "mean"] = "topk",
        num_pair_per_sample: int | None = None,
        early_stopping_rounds: int | None = None,
        eval_metric: Literal["ndcg@10", "ndcg", "map", "auc"] = "ndcg@10",
        zeros: Literal["missing", "value"] = "missing",
        n_threads: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_child_weight = min_child_weight
        self.gamma = gamma
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.reg_lambda = reg_lambda
        self.reg_alpha = reg_alpha
        self.max_bin = max_bin
        self.objective = objective
        self.pair_method = pair_method
        self.num_pair_per_sample = num_pair_per_sample
        self.early_stopping_rounds = early_stopping_rounds
        self.eval_metric = eval_metric
        self.zeros = zeros
        self.n_threads = n_threads

    def check(self, data: Data) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        self._check_features(data)
        check_relevance(data, self.objective, f"objective={self.objective!r}", "rank:pairwise")

    def _solve(
        self,
        data: Data,
        init: Model | None,
        monitor: Monitor,
        rng: np.random.Generator,
        valid: Data | None = None,
    ) -> SolverResult:
        import xgboost

        held_out = self._held_out(valid)
        parameters = self._native_parameters(seed=int(rng.integers(_SEEDS)))
        with translated(xgboost.core.XGBoostError):
            train = self._matrix(data, self.objective)
            evals = []
            if held_out is not None:
                evals = [(self._matrix(held_out, self.eval_metric, ref=train), _VALID)]
            booster = xgboost.train(
                parameters,
                train,
                num_boost_round=self.n_estimators,
                evals=evals,
                callbacks=[_progress(monitor, self.eval_metric, self.early_stopping_rounds)],
                verbose_eval=False,
            )
        labels = None if isinstance(data, RankingData) else data.labels
        n_rounds = len(monitor.history)
        return SolverResult(
            model=XGBoostModel(booster, self.zeros, labels),
            status=monitor.interruption or "converged",
            objective=None,
            duality_gap=None,
            n_iter=n_rounds,
            n_passes=float(n_rounds),
        )

    def _native_parameters(self, seed: int) -> dict[str, Any]:
        """The same settings under XGBoost's names."""
        native = {
            "tree_method": "hist",
            "objective": self.objective,
            "learning_rate": self.learning_rate,
            "max_depth": self.max_depth,
            "min_child_weight": self.min_child_weight,
            "gamma": self.gamma,
            "subsample": self.subsample,
            "colsample_bytree": self.colsample_bytree,
            "reg_lambda": self.reg_lambda,
            "reg_alpha": self.reg_alpha,
            "max_bin": self.max_bin,
            "lambdarank_pair_method": self.pair_method,
            "eval_metric": self.eval_metric,
            "seed": seed,
        }
        if self.num_pair_per_sample is not None:
            native["lambdarank_num_pair_per_sample"] = self.num_pair_per_sample
        if self.n_threads is not None:
            native["nthread"] = self.n_threads
        return native

    def _held_out(self, valid: Data | None) -> Data | None:
        """The validation data if they are to be used, checked."""
        if self.early_stopping_rounds is None:
            return None
        if valid is None:
            raise ParameterError(
                f"early_stopping_rounds={self.early_stopping_rounds} needs validation data: "
                "pass valid to solve (eval_set to fit), or set early_stopping_rounds=None"
            )
        self._check_features(valid)
        try:
            valid.require_pairs()
        except DataError as error:
            raise DataError(f"validation data: {error}") from None
        check_relevance(valid, self.eval_metric, f"eval_metric={self.eval_metric!r}", "auc")
        return valid

    def _check_features(self, data: Data) -> None:
        if self.zeros == "value" and sparse.issparse(data.X):
            raise DataError(
                f"{self.name} with zeros='value' takes dense features only, because XGBoost "
                "treats absent entries as missing: pass X.toarray() or set zeros='missing'"
            )

    def _matrix(self, data: Data, purpose: str, ref: Any = None) -> Any:
        order_only = purpose in ("rank:pairwise", "auc")
        return quantile_matrix(
            data,
            levels(data) if order_only else data.relevance,
            zeros=self.zeros,
            max_bin=self.max_bin,
            n_threads=self.n_threads,
            ref=ref,
        )


def _progress(monitor: Monitor, metric: str, early_stopping_rounds: int | None) -> Any:
    """A training callback that tells `monitor` of each round and stops early."""
    from xgboost.callback import EarlyStopping, TrainingCallback

    stopping = None
    if early_stopping_rounds is not None:
        stopping = EarlyStopping(
            rounds=early_stopping_rounds,
            metric_name=metric,
            data_name=_VALID,
            maximize=True,
            save_best=True,
        )
    # "@" is not allowed in the names of logged metrics.
    name = f"{_VALID}_{metric.replace('@', '_at_')}"

    class Progress(TrainingCallback):
        def before_training(self, model: Any) -> Any:
            return model if stopping is None else stopping.before_training(model)

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            stop, values = False, {}
            if stopping is not None:
                stop = stopping.after_iteration(model, epoch, evals_log)
                values = {name: defined(evals_log[_VALID][metric][-1], metric)}
            return not monitor.report(epoch + 1, **values) or stop

        def after_training(self, model: Any) -> Any:
            return model if stopping is None else stopping.after_training(model)

    return Progress()
