"""What all solvers that grow XGBoost's trees have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.boosting import ranking_metric
from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.models import Model
from rankplug.parameters import Choice, Integer, Optional, Parameter, Real
from rankplug.shards import RemoteRankingData
from rankplug.solver import Data, Monitor, Solver, SolverResult
from rankplug.system.cores import available_cores, survive_forks
from rankplug_plugins.boosting.early_stopping import MetricName, held_out, log_name
from rankplug_plugins.boosting.errors import translated
from rankplug_plugins.boosting.relevance import levels
from rankplug_plugins.boosting.xgboost_matrices import quantile_matrix
from rankplug_plugins.boosting.xgboost_model import XGBoostModel

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["XGBoostTrees"]

_VALID = "valid"
_SEEDS = 2**31 - 1
_SMALLEST, _LARGEST = 1.2e-38, 3e38  # of the parameters that XGBoost keeps as float32


@dataclass(kw_only=True, repr=False, eq=False)
class XGBoostTrees(Solver):
    """Boosted trees by XGBoost; a subclass says for which loss.

    There is no convex problem and no tolerance: the result has no objective and no duality gap,
    and is "converged" when all rounds were built or early stopping ended them. `n_iter` and
    `n_passes` are the rounds built, those after the best one included.

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
    early_stopping_rounds : int, optional
        Stop when `eval_metric` of the validation data, which `solve` then needs, has not
        improved for so many rounds; the model keeps the trees up to the best round. None
        builds all rounds and leaves validation data aside.
    eval_metric : str
        A metric of rankplug, as in reports, not XGBoost's, which gives 1.0 to queries without
        a relevant document.
    zeros : "missing" or "value"
        "missing" treats 0, stored or absent, as missing: each split learns on which side
        zeros go. XGBoost always does so with the absent entries of sparse features, so that
        dense and sparse features give the same model. "value" takes 0 as a number, as
        XGBoost does by default with dense features; sparse ones are refused then.
    n_threads : int, optional
        None leaves the choice to XGBoost: all processors.
    """

    iteration_limit: ClassVar[str] = "n_estimators"
    parameters: ClassVar[dict[str, Parameter]] = {
        "n_estimators": Integer(1),
        "learning_rate": Real(0, 1, high_open=False),
        "max_depth": Integer(1, 64),
        "min_child_weight": Real(0, _LARGEST, low_open=False),
        "gamma": Real(0, _LARGEST, low_open=False),
        "subsample": Real(0, 1, high_open=False),
        "colsample_bytree": Real(0, 1, high_open=False),
        "reg_lambda": Real(0, _LARGEST, low_open=False),
        "reg_alpha": Real(0, _LARGEST, low_open=False),
        "max_bin": Integer(2, 65536),
        "early_stopping_rounds": Optional(Integer(1)),
        "eval_metric": MetricName(),
        "zeros": Choice(("missing", "value")),
        "n_threads": Optional(Integer(1)),
    }

    n_estimators: int = 100
    learning_rate: float = 0.3
    max_depth: int = 6
    min_child_weight: float = 1.0
    gamma: float = 0.0
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    reg_lambda: float = 1.0
    reg_alpha: float = 0.0
    max_bin: int = 256
    early_stopping_rounds: int | None = None
    eval_metric: str = "ndcg@10"
    zeros: Literal["missing", "value"] = "missing"
    n_threads: int | None = None

    def tuning_space(self, data: Data | None = None) -> dict[str, BaseDistribution]:
        """Size, number and shrinkage of the trees, and what each of them sees."""
        from optuna.distributions import FloatDistribution, IntDistribution

        return {
            "n_estimators": IntDistribution(30, 1000, log=True),
            "learning_rate": FloatDistribution(0.01, 0.5, log=True),
            "max_depth": IntDistribution(2, 10),
            "min_child_weight": FloatDistribution(0.1, 100.0, log=True),
            "subsample": FloatDistribution(0.4, 1.0),
            "colsample_bytree": FloatDistribution(0.4, 1.0),
            "reg_lambda": FloatDistribution(0.01, 100.0, log=True),
        }

    def check(self, data: Data | RemoteRankingData) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        if not isinstance(data, RemoteRankingData):
            self._check_features(data)

    @abstractmethod
    def _native_objective(self, data: Data) -> dict[str, Any]:
        """XGBoost's parameters that say what to minimise; none if `_objective` does."""

    def _objective(self, data: Data) -> Any:
        """The gradient and Hessian as a function, if it is not XGBoost's own."""
        return None

    def _labels(self, data: Data) -> NDArray[np.float64]:
        """The relevance that the training sees: as it is, only its order matters."""
        return levels(data)

    def _solve(
        self,
        data: Data,
        init: Model | None,
        monitor: Monitor,
        rng: np.random.Generator,
        valid: Data | None = None,
    ) -> SolverResult:
        return self._boost(data, valid, monitor, rng)

    def _boost(
        self,
        data: Data,
        valid: Data | None,
        monitor: Monitor,
        rng: np.random.Generator,
        start: Model | None = None,
    ) -> SolverResult:
        """Grow trees that add to the scores of `start`, which are 0 if it is None."""
        import xgboost

        survive_forks()
        stop_by = held_out(valid, self.early_stopping_rounds)
        if stop_by is not None:
            self._check_features(stop_by)
        parameters = {**self._native_parameters(rng), **self._native_objective(data)}
        with translated("XGBoost", xgboost.core.XGBoostError):
            train = self._matrix(data, self._labels(data), start)
            evals = []
            if stop_by is not None:
                held_out_rows = self._matrix(stop_by, stop_by.relevance, start, ref=train)
                evals = [(held_out_rows, _VALID)]
            booster = xgboost.train(
                parameters,
                train,
                num_boost_round=self.n_estimators,
                obj=self._objective(data),
                evals=evals,
                custom_metric=ranking_metric(self.eval_metric),
                callbacks=[_progress(monitor, self.eval_metric, self.early_stopping_rounds)],
                verbose_eval=False,
            )
        labels = None if isinstance(data, RankingData) else data.labels
        n_rounds = len(monitor.history)
        return self._result(XGBoostModel(booster, self.zeros, labels), monitor, n_rounds)

    def _result(self, model: XGBoostModel, monitor: Monitor, n_rounds: int) -> SolverResult:
        return SolverResult(
            model=model,
            status=monitor.interruption or "converged",
            objective=None,
            duality_gap=None,
            n_iter=n_rounds,
            n_passes=float(n_rounds),
        )

    def _native_parameters(self, rng: np.random.Generator) -> dict[str, Any]:
        """The same settings under XGBoost's names."""
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
            "seed": int(rng.integers(_SEEDS)),
        }
        if self.n_threads is not None:
            native["nthread"] = self._threads()
        return native

    def _threads(self) -> int | None:
        """No more than there are processors: some numbers cannot be made, or be written in C."""
        return None if self.n_threads is None else min(self.n_threads, available_cores())

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
            base_margin=None if start is None else start.predict(data.X),
            ref=ref,
        )


def _float32(value: float) -> float:
    """What is 0 in float32 as 0: XGBoost refuses it otherwise."""
    return value if value >= _SMALLEST else 0.0


def _progress(monitor: Monitor, metric: str, early_stopping_rounds: int | None) -> Any:
    """A training callback that tells `monitor` of each round and stops early."""
    from xgboost.callback import EarlyStopping, TrainingCallback

    name = ranking_metric(metric).__name__
    stopping = None
    if early_stopping_rounds is not None:
        stopping = EarlyStopping(
            rounds=early_stopping_rounds,
            metric_name=name,
            data_name=_VALID,
            maximize=True,
            save_best=True,
        )

    class Progress(TrainingCallback):
        def before_training(self, model: Any) -> Any:
            return model if stopping is None else stopping.before_training(model)

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            stop, values = False, {}
            if stopping is not None:
                stop = stopping.after_iteration(model, epoch, evals_log)
                values = {log_name(metric): evals_log[_VALID][name][-1]}
            return not monitor.report(epoch + 1, **values) or stop

        def after_training(self, model: Any) -> Any:
            return model if stopping is None else stopping.after_training(model)

    return Progress()
