"""A solver that grows CatBoost's trees, by its ranking losses."""

from __future__ import annotations

import json
import math
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import RankingData, largest_stored, with_short_indices
from rankplug.exceptions import DataError, ParameterError
from rankplug.metrics import measure_data, parse_metric
from rankplug.models import Model, TreeEnsemble
from rankplug.parameters import Integer
from rankplug.shards import RemoteRankingData
from rankplug.solver import Data, Monitor, SearchSpace, SolverTags
from rankplug_plugins.boosting.boosted_trees import (
    BoostedTrees,
    NotNegative,
    Share,
    Training,
    log_name,
)
from rankplug_plugins.boosting.catboost_trees import read_trees
from rankplug_plugins.boosting.losses import gains, levels
from rankplug_plugins.boosting.open_parameters import CatBoostParameters, saving

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


class CatBoost(BoostedTrees):
    """Boosted trees for ranking, by CatBoost [1]_: YetiRank, PairLogit and their relatives.

    ``YetiRank`` [2]_ weighs pairs by where they stand in rankings that are perturbed at random;
    ``PairLogit`` is the logistic loss of all pairs of a query, ``log(1 + exp(-(s_i - s_j)))``.
    Their ``Pairwise`` forms find the leaf values of a tree together, and are slower.
    ``LambdaMart`` weighs pairs by the change in NDCG, ``QueryRMSE`` is a regression within each
    query. Trees are symmetric: one split for each level.

    Parameters
    ----------
    loss : str
        One of CatBoost's.
    depth : int
        Levels of a tree.
    subsample : float in (0, 1], optional
        Share of rows that each tree sees, drawn anew; None leaves sampling to CatBoost.
    reg_lambda, max_bin : optional
        None leaves them to CatBoost.
    n_estimators, learning_rate, ...
        See `BoostedTrees`. Those of rounds and learning rate are rankplug's, CatBoost's own are
        1,000 and 0.03.

    Notes
    -----
    Grades, integers from 0 to 31, are taken as they are; any other relevance as the linear gain
    ``y - min(y)`` of its query, as in `Ranker.score`, and by its order for PairLogit. Missing
    values are smaller than all others (``params={"nan_mode": "Max"}``: larger). Zeros are values.
    Models are trees of rankplug's own, which predict without CatBoost.

    References
    ----------
    .. [1] Prokhorenkova et al., CatBoost: unbiased boosting with categorical features, NeurIPS
       2018.
    .. [2] Gulin, Kuralenok and Pavlov, Winning the transfer learning track of Yahoo!'s learning
       to rank challenge with YetiRank, JMLR W&CP 14 (2011).
    """

    name = "catboost"
    library = "CatBoost"
    refused_characters = ""
    tags = SolverTags(
        tasks=("query-document",),
        problem="boosted symmetric trees, YetiRank, PairLogit or another loss of CatBoost's",
        reference="Prokhorenkova et al., CatBoost, NeurIPS 2018; Gulin et al., YetiRank (2011)",
        exact=False,
        validation=True,
        continues=True,
        missing_values=True,
        requires=("catboost",),
    )

    loss: Literal[
        "YetiRank", "YetiRankPairwise", "PairLogit", "PairLogitPairwise", "LambdaMart", "QueryRMSE"
    ] = "YetiRank"
    depth: Annotated[int, Integer(1, 16)] = 6
    subsample: Share | None = None
    reg_lambda: NotNegative | None = None
    max_bin: Annotated[int, Integer(1, 65535)] | None = None
    params: Annotated[Mapping[str, Any] | None, CatBoostParameters(ranks=True)] = None

    def check(self, data: Data | RemoteRankingData) -> None:
        """Raise what `solve` would raise about the parameters and the data."""
        super().check(data)
        shrinks = self._read_params(data).keys() & {"langevin", "model_shrink_rate"}
        if shrinks and self.early_stopping_rounds is not None:
            raise ParameterError(
                f"{shrinks.pop()} changes earlier trees in later rounds, so that no round can be "
                "gone back to: set early_stopping_rounds=None"
            )

    def _size_space(self) -> SearchSpace:
        from optuna.distributions import IntDistribution

        return {"depth": IntDistribution(3, 10)}

    def _check_init(self, init: Model) -> None:
        if not isinstance(init, TreeEnsemble):
            raise ParameterError(
                f"{self.name} goes on from its own trees, not from a model of kind {init.kind!r}: "
                "leave out init"
            )
        init.require_sum()

    def _native_objective(self, data: Data) -> dict[str, Any]:
        return {"loss_function": self.loss}

    def _native_parameters(self, rng: np.random.Generator) -> dict[str, Any]:
        native = {
            "iterations": self.n_estimators,
            "learning_rate": self.learning_rate,
            "depth": self.depth,
            "rsm": self.colsample_bytree,
            "random_seed": self._seed(rng),
            "allow_writing_files": False,
            "allow_const_label": True,
            "verbose": False,
        }
        if self.subsample is not None:
            kind = "Bernoulli" if self.subsample < 1 else "No"
            sample = {"subsample": self.subsample} if self.subsample < 1 else {}
            native |= {"bootstrap_type": kind, **sample}
        left_open = {"l2_leaf_reg": self.reg_lambda, "border_count": self.max_bin}
        native |= {name: value for name, value in left_open.items() if value is not None}
        if self.n_threads is not None:
            native["thread_count"] = self._threads()
        return native

    def _labels(self, data: Data) -> NDArray[np.float64]:
        assert isinstance(data, RankingData)
        if self.loss.startswith("PairLogit"):
            return levels(data)
        return data.relevance if data.is_graded else gains(data)

    def _grow(self, training: Training) -> TreeEnsemble:
        import catboost

        data, monitor = training.data, training.monitor
        sets = [] if training.valid is None else [training.valid]
        sets += [one for one in monitor.watched.values() if one is not training.valid]
        measure = _Measure(monitor, training.valid, self.eval_metric, sets, data.n_samples)
        native = {**training.native, **self._native_objective(data), **training.given}
        if sets:
            native["eval_metric"] = measure
        model = catboost.CatBoost(native)
        stopping = None if training.valid is None else self.early_stopping_rounds
        progress = _Progress(monitor, log_name(self.eval_metric), stopping, measure)
        with warnings.catch_warnings():
            # Of Numba, that it cannot compile the metric.
            warnings.filterwarnings("ignore", "Can't optim", UserWarning)
            try:
                model.fit(
                    self._pool(data, training.init),
                    eval_set=[self._pool(one, training.init) for one in sets] or None,
                    callbacks=[progress],
                    use_best_model=False,
                )
            except Exception as error:
                raise (progress.failure or measure.failure or _explained(error)) from None
        failure = progress.failure or measure.failure
        if failure is not None:
            raise failure
        n_trees = progress.best or model.tree_count_
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "model.json")
            model.save_model(str(file), format="json")
            content = json.loads(file.read_text(encoding="utf-8"))
        importances = np.asarray(model.get_feature_importance(type="PredictionValuesChange"))
        with saving(training.given):
            trees = read_trees(content, data.n_features, n_trees, importances.astype(np.float64))
            return trees if training.init is None else training.init.add(trees)

    def _pool(self, data: RankingData, init: TreeEnsemble | None) -> Any:
        """The data for CatBoost; the scores of earlier trees are where it starts."""
        import catboost

        if largest_stored(data.X) > _LARGEST_FLOAT32:
            raise DataError(
                "CatBoost refuses the data: features must be below 3.4e38, the limit of float32: "
                "rescale them"
            )
        X = with_short_indices(data.X, "CatBoost")
        if sparse.issparse(X):
            X.data = _writable(X.data)
        else:
            X = _writable(X)
        return catboost.Pool(
            X,
            _writable(self._labels(data)),
            # Ids of queries go over as positions; the caller's may be of any kind.
            group_id=data.row_query,
            group_weight=data.row_weight,
            baseline=None if init is None else init.predict(data.X),
        )


def _explained(error: Exception) -> Exception:
    """The error, with what to do where CatBoost does not say it."""
    if "All features are either constant" not in str(error):
        return error
    return DataError(
        "CatBoost finds no feature that varies, so there is nothing to learn: scale the features, "
        "or add others"
    )


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    """The array, or a copy if it may only be read: CatBoost's code asks for more."""
    return np.require(array, requirements="W")


class _Measure:
    """A metric function of CatBoost's, which tells neither the queries nor the data set.

    It is called for the training data, and then for the others in their order, after each round.

    Attributes
    ----------
    values : dict
        The last values of the watched data, as `Monitor.report` takes them.
    stopping : float
        The last value of the data that end the training.
    failure : Exception or None
    """

    def __init__(
        self, monitor: Monitor, valid: Data | None, metric: str, sets: list[Data], n_rows: int
    ) -> None:
        self.values: dict[str, dict[str, float]] = {}
        self.stopping = math.nan
        self.failure: Exception | None = None
        self._valid, self._n_calls = valid, 0
        self._lengths = [n_rows, *(one.n_samples for one in sets)]
        self._sets = sets
        self._metrics = [
            parse_metric(metric) if one is valid else monitor.metric_of(one) for one in sets
        ]
        self._names = [
            next((name for name, other in monitor.watched.items() if other is one), None)
            for one in sets
        ]

    def __deepcopy__(self, memo: Any) -> _Measure:
        return self  # CatBoost copies its parameters

    def is_max_optimal(self) -> bool:
        """Whether greater is better."""
        return True

    def get_final_error(self, error: float, weight: float) -> float:
        """The value, as it is a mean already."""
        return error

    def evaluate(self, scores: Any, target: Any, weight: Any) -> tuple[float, float]:
        """The metric of the data set whose turn it is."""
        turn = self._n_calls % len(self._lengths)
        self._n_calls += 1
        if turn == 0 or self.failure is not None:
            return 0.0, 1.0
        try:
            return self._measure(turn, np.asarray(scores[0], dtype=np.float64)), 1.0
        except Exception as error:
            self.failure = error
            return 0.0, 1.0

    def _measure(self, turn: int, scores: NDArray[np.float64]) -> float:
        if len(scores) != self._lengths[turn]:
            raise DataError("CatBoost measures the data sets in an order that is not known")
        data, metric, name = (part[turn - 1] for part in (self._sets, self._metrics, self._names))
        value = next(iter(measure_data(data, scores, metric).values())).mean()
        if name is not None:
            self.values[name] = {str(metric): value}
        if data is self._valid:
            if math.isnan(value):
                raise DataError(
                    f"{metric} is undefined for every query of the data set: use another metric "
                    "or other validation data"
                )
            self.stopping = value
        return 0.0 if math.isnan(value) else value


@dataclass(eq=False)
class _Progress:
    """A training callback that reports each round to `monitor` and stops early."""

    monitor: Monitor
    name: str
    early_stopping_rounds: int | None
    measure: _Measure
    best: int = 0  # the round with the best value, counted from 1
    best_value: float = field(default=-np.inf)
    failure: Exception | None = None

    def after_iteration(self, info: Any) -> bool:
        """Whether to go on."""
        values, stop = {}, self.measure.failure is not None
        if self.early_stopping_rounds is not None and not stop:
            values = {self.name: self.measure.stopping}
            if self.measure.stopping > self.best_value:
                self.best, self.best_value = info.iteration, self.measure.stopping
            stop = info.iteration - self.best >= self.early_stopping_rounds
        try:
            goes_on = self.monitor.report(info.iteration, evals=self.measure.values, **values)
        except Exception as error:
            self.failure = error
            return False
        return goes_on and not stop
