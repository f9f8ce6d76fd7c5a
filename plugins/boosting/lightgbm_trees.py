"""What all solvers that grow LightGBM's trees have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from rankplug.boosting import ranking_metric
from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.models import Model
from rankplug.parameters import Integer, Optional, Parameter, Real
from rankplug.solver import Data, Monitor, Solver, SolverResult
from rankplug.system.cores import available_cores, survive_forks
from rankplug_plugins.boosting.early_stopping import MetricName, held_out, log_name
from rankplug_plugins.boosting.errors import translated
from rankplug_plugins.boosting.lightgbm_model import LightGBMModel

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["LightGBMTrees"]

_SEEDS = 2**31 - 1


@dataclass(kw_only=True, repr=False, eq=False)
class LightGBMTrees(Solver):
    """Boosted trees by LightGBM; a subclass says for which loss.

    The result is as that of `XGBoostTrees`: no objective, "converged" when all rounds were built
    or early stopping ended them.

    Parameters
    ----------
    n_estimators : int
        Boosting rounds, one tree each.
    learning_rate : float in (0, 1]
    num_leaves, min_child_samples : int
        Most leaves of a tree, least rows of a leaf.
    min_child_weight : float
        Least sum of second derivatives in a leaf.
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
        A metric of rankplug, as in reports.
    n_threads : int, optional
        None leaves the choice to LightGBM: all processors.
    """

    iteration_limit: ClassVar[str] = "n_estimators"
    parameters: ClassVar[dict[str, Parameter]] = {
        "n_estimators": Integer(1),
        "learning_rate": Real(0, 1, high_open=False),
        "num_leaves": Integer(2, 131072),
        "min_child_samples": Integer(0),
        "min_child_weight": Real(0, low_open=False),
        "subsample": Real(0, 1, high_open=False),
        "colsample_bytree": Real(0, 1, high_open=False),
        "reg_lambda": Real(0, low_open=False),
        "reg_alpha": Real(0, low_open=False),
        "max_bin": Integer(2, 65535),
        "early_stopping_rounds": Optional(Integer(1)),
        "eval_metric": MetricName(),
        "n_threads": Optional(Integer(1)),
    }

    n_estimators: int = 100
    learning_rate: float = 0.1
    num_leaves: int = 31
    min_child_samples: int = 20
    min_child_weight: float = 1e-3
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    reg_lambda: float = 0.0
    reg_alpha: float = 0.0
    max_bin: int = 255
    early_stopping_rounds: int | None = None
    eval_metric: str = "ndcg@10"
    n_threads: int | None = None

    def tuning_space(self, data: Data | None = None) -> dict[str, BaseDistribution]:
        """Size, number and shrinkage of the trees, and what each of them sees."""
        from optuna.distributions import FloatDistribution, IntDistribution

        return {
            "n_estimators": IntDistribution(30, 1000, log=True),
            "learning_rate": FloatDistribution(0.01, 0.5, log=True),
            "num_leaves": IntDistribution(4, 256, log=True),
            "min_child_samples": IntDistribution(1, 200, log=True),
            "subsample": FloatDistribution(0.4, 1.0),
            "colsample_bytree": FloatDistribution(0.4, 1.0),
            "reg_lambda": FloatDistribution(0.01, 100.0, log=True),
        }

    @abstractmethod
    def _native_objective(self, data: RankingData) -> dict[str, Any]:
        """LightGBM's parameters that say what to minimise."""

    @abstractmethod
    def _labels(self, data: RankingData) -> dict[str, Any]:
        """Labels, and the queries if the objective is LightGBM's, of the training data set."""

    def _solve(
        self,
        data: Data,
        init: Model | None,
        monitor: Monitor,
        rng: np.random.Generator,
        valid: Data | None = None,
    ) -> SolverResult:
        import lightgbm

        assert isinstance(data, RankingData)
        survive_forks()
        stop_by = held_out(valid, self.early_stopping_rounds)
        native = self._native_parameters(rng)
        progress = _Progress(monitor, self.eval_metric, self.early_stopping_rounds)
        with translated("LightGBM", lightgbm.basic.LightGBMError):
            train = lightgbm.Dataset(
                _features(data), weight=data.row_weight, params=native, **self._labels(data)
            )
            watched: dict[str, Any] = {}
            if stop_by is not None:
                assert isinstance(stop_by, RankingData)
                # The metric is told the queries: LightGBM takes 10,000 rows of one at most.
                queries = np.repeat(np.arange(stop_by.n_queries), np.diff(stop_by.query_ptr))
                watched = {
                    "valid_sets": [train.create_valid(_features(stop_by), stop_by.relevance)],
                    "feval": ranking_metric(self.eval_metric, queries),
                }
            _require_variation(train)
            booster = lightgbm.train(
                {**native, **self._native_objective(data)},
                train,
                num_boost_round=self.n_estimators,
                callbacks=[progress],
                **watched,
            )
        n_rounds = len(monitor.history)
        text = booster.model_to_string(num_iteration=progress.best or n_rounds)
        return SolverResult(
            model=LightGBMModel(text),
            status=monitor.interruption or "converged",
            objective=None,
            duality_gap=None,
            n_iter=n_rounds,
            n_passes=float(n_rounds),
        )

    def _native_parameters(self, rng: np.random.Generator) -> dict[str, Any]:
        """The same settings under LightGBM's names."""
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
            "seed": int(rng.integers(_SEEDS)),
            "deterministic": True,
            "force_row_wise": True,  # otherwise chosen by a race, which may change the trees
            "feature_pre_filter": False,  # else few rows leave no feature, which is an error
            "verbosity": -1,
        }
        if self.n_threads is not None:
            # LightGBM crashes where the system cannot make so many threads.
            native["num_threads"] = min(self.n_threads, available_cores())
        return native


@dataclass(eq=False)
class _Progress:
    """A training callback that tells `monitor` of each round and stops early."""

    monitor: Monitor
    metric: str
    early_stopping_rounds: int | None
    best: int = 0  # the round with the best value, counted from 1
    best_value: float = field(default=-np.inf)

    def __call__(self, env: Any) -> None:
        from lightgbm.callback import EarlyStopException

        n_rounds, values, stop = env.iteration + 1, {}, False
        for _, _, value, *_ in env.evaluation_result_list:
            values = {log_name(self.metric): float(value)}
            if value > self.best_value:
                self.best, self.best_value = n_rounds, value
            stop = n_rounds - self.best >= (self.early_stopping_rounds or np.inf)
        if not self.monitor.report(n_rounds, **values) or stop:
            raise EarlyStopException(env.iteration, [])


def _require_variation(train: Any) -> None:
    """Refuse what LightGBM would refuse with a message of its own sources' line numbers."""
    train.construct()
    if not any(train.feature_num_bin(j) > 1 for j in range(train.num_feature())):
        raise DataError(
            "LightGBM finds no feature that varies (it takes values closer to 0 than 1e-35 for "
            "0), so there is nothing to learn: scale the features, or add others"
        )


def _features(data: RankingData) -> Any:
    return sparse.csr_matrix(data.X) if sparse.issparse(data.X) else data.X
