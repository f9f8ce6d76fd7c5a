"""The base of the solvers that grow XGBoost's trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.boosting import ranking_metric
from rankplug.exceptions import DataError
from rankplug.models import Model
from rankplug.parameters import Integer, Real
from rankplug.shards import RemoteRankingData
from rankplug.solver import Data, Monitor, SolverTags
from rankplug_plugins.boosting.boosted_trees import BoostedTrees, Training, log_name
from rankplug_plugins.boosting.losses import levels
from rankplug_plugins.boosting.xgboost_matrices import quantile_matrix
from rankplug_plugins.boosting.xgboost_model import XGBoostModel

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["XGBOOST_TAGS", "XGBoostTrees"]

XGBOOST_TAGS = SolverTags(
    tasks=("query-document",),
    problem="boosted trees",
    reference="Chen and Guestrin, XGBoost: a scalable tree boosting system, KDD 2016",
    exact=False,
    validation=True,
    requires=("xgboost",),
)
"""What holds of all solvers that grow XGBoost's trees."""

_VALID = "valid"

# Of the parameters that XGBoost keeps as float32, whose normal numbers lie between these.
_SMALLEST, _LARGEST = 1.2e-38, 3e38
_Float32: TypeAlias = Annotated[float, Real(0, _LARGEST, low_open=False)]


class XGBoostTrees(BoostedTrees):
    """Boosted trees by XGBoost; a subclass says for which loss.

    Parameters
    ----------
    max_depth : int
    gamma : float
        Least gain of a split.
    zeros : "missing" or "value"
        "missing" treats 0, stored or absent, as missing: each split learns on which side
        zeros go. XGBoost always does so with the absent entries of sparse features, so that
        dense and sparse features give the same model. "value" takes 0 as a number, as
        XGBoost does by default with dense features; sparse ones are refused then.
    n_estimators, learning_rate, ...
        See `BoostedTrees`.
    """

    library = "XGBoost"

    learning_rate: float = 0.3
    max_depth: Annotated[int, Integer(1, 64)] = 6
    min_child_weight: _Float32 = 1.0
    gamma: _Float32 = 0.0
    reg_lambda: _Float32 = 1.0
    reg_alpha: _Float32 = 0.0
    max_bin: Annotated[int, Integer(2, 65536)] = 256
    zeros: Literal["missing", "value"] = "missing"

    def _size_space(self) -> dict[str, BaseDistribution]:
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

    def _objective(self, data: Data) -> Any:
        """The gradient and Hessian as a function, if it is not XGBoost's own."""
        return None

    def _labels(self, data: Data) -> NDArray[np.float64]:
        """Only its order matters."""
        return levels(data)

    def _grow(self, training: Training) -> XGBoostModel:
        import xgboost

        data, valid, start = training.data, training.valid, training.start
        if valid is not None:
            self._check_features(valid)
        train = self._matrix(data, self._labels(data), start)
        evals = []
        if valid is not None:
            evals = [(self._matrix(valid, valid.relevance, start, ref=train), _VALID)]
        progress = _progress(training.monitor, self.eval_metric, self.early_stopping_rounds)
        booster = xgboost.train(
            {**training.native, **self._native_objective(data)},
            train,
            num_boost_round=self.n_estimators,
            obj=self._objective(data),
            evals=evals,
            custom_metric=ranking_metric(self.eval_metric),
            callbacks=[progress],
            verbose_eval=False,
        )
        return XGBoostModel(booster, self.zeros, data.labels)

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
            base_margin=None if start is None else start.predict(data.X),
            ref=ref,
        )


def _float32(value: float) -> float:
    """What is 0 in float32 as 0: XGBoost refuses it otherwise."""
    return value if value >= _SMALLEST else 0.0


def _progress(monitor: Monitor, metric: str, early_stopping_rounds: int | None) -> Any:
    """A training callback that reports each round to `monitor` and stops early."""
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
