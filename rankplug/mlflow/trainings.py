"""What `rankplug.mlflow.autolog` logs of a training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from mlflow import MlflowClient
from mlflow.entities import DatasetInput, Param
from mlflow.exceptions import MlflowException
from mlflow.tracking.context.registry import resolve_tags

from rankplug.data import RankingData
from rankplug.estimators import SolverEstimator
from rankplug.exceptions import DataError
from rankplug.metrics import evaluate, evaluate_labels, parse_metric
from rankplug.mlflow.flavor import log_model
from rankplug.mlflow.inputs import describe_input
from rankplug.mlflow.run_metrics import final_metrics, history_metrics, score_metrics
from rankplug.solver import Data, Solver

__all__ = ["Training", "TrainingLog"]

_METRICS_PER_BATCH = 800
_EXAMPLE_ROWS = 5
_RANKING_METRICS = ("ndcg@10", "mrr", "pairwise_accuracy")
_RESULT_METRICS = ("n_iter", "n_passes", "objective", "duality_gap")
_LABEL_METRICS = ("kendall_tau", "top1_error")


@dataclass
class Training:
    """What is known of a training that goes on: of the last one, in a search.

    `features` are those of the outermost ``fit``, before a pipeline transforms them.
    """

    features: Any
    started: float = field(default_factory=time.time)
    estimator: SolverEstimator | None = None
    solver: Solver | None = None
    data: Data | None = None
    valid: Data | None = None
    interrupted: bool = False


class TrainingLog:
    """Writes a training to an MLflow run, in steps that do not need each other.

    Parameters
    ----------
    run_id : str
        The active run.
    training : Training
    setting : callable
        Returns an argument of `autolog` by its name.
    """

    def __init__(self, run_id: str, training: Training, setting: Callable[[str], Any]) -> None:
        self._client = MlflowClient()
        self._run_id = run_id
        self._training = training
        self._setting = setting
        self._valid: DatasetInput | None = None
        self._model_id: str | None = None

    def params(self) -> None:
        """Log the parameters, as far as the training has come to them."""
        training = self._training
        if training.solver is None or training.estimator is None:
            return
        params = {"solver": training.solver.name, **training.solver.get_params(deep=False)}
        self._log_params({**params, "random_state": training.estimator.random_state})

    def steps(self, fitted: Any) -> Iterator[Callable[[], None]]:
        """What is left to log; `fitted` is a ranker, or a pipeline or search of one."""
        if hasattr(fitted, "cv_results_"):
            yield partial(self._search, fitted)
            if not hasattr(fitted, "best_estimator_"):  # it was not refitted
                return
            fitted = fitted.best_estimator_
        if self._setting("log_datasets"):
            yield self._datasets
        if self._setting("log_models"):
            yield partial(self._model, fitted)
        yield self._metrics

    def _search(self, search: Any) -> None:
        self._log_params({f"best_{key}": value for key, value in search.best_params_.items()})
        self._client.log_metric(self._run_id, "best_cv_score", float(search.best_score_))
        columns = {key: list(map(_plain, values)) for key, values in search.cv_results_.items()}
        self._client.log_table(self._run_id, columns, "cv_results.json")

    def _datasets(self) -> None:
        inputs = []
        if self._training.data is not None:
            inputs.append(_input("train", self._training.data, "training"))
        if self._training.valid is not None:
            self._valid = _input("valid", self._training.valid, "validation")
            inputs.append(self._valid)
        try:
            self._client.log_inputs(self._run_id, inputs)
        except MlflowException:
            # Another thread or process has just added the same data set: now it is there.
            self._client.log_inputs(self._run_id, inputs)

    def _model(self, fitted: Any) -> None:
        features = self._training.features
        info = log_model(
            fitted,
            name="model",
            signature=None if self._setting("log_model_signatures") else False,
            input_example=features[:_EXAMPLE_ROWS] if self._setting("log_input_examples") else None,
            registered_model_name=self._setting("registered_model_name"),
        )
        self._model_id = info.model_id

    def _metrics(self) -> None:
        training = self._training
        if training.estimator is None:
            return
        result = training.estimator.result_
        known = {name: getattr(result, name) for name in _RESULT_METRICS}
        metrics = history_metrics(result.history, training.started)
        metrics += final_metrics({**known, "train_seconds": result.seconds}, result.n_iter)
        if training.valid is not None:
            values = _scores(training.estimator.model_.predict(training.valid.X), training.valid)
            metrics += score_metrics("valid", values, self._valid, self._model_id)
        for start in range(0, len(metrics), _METRICS_PER_BATCH):
            batch = metrics[start : start + _METRICS_PER_BATCH]
            self._client.log_batch(self._run_id, metrics=batch)

    def _log_params(self, params: Mapping[str, Any]) -> None:
        logged = [Param(key, str(value)) for key, value in params.items()]
        self._client.log_batch(self._run_id, params=logged)


def _input(name: str, data: Data, context: str) -> DatasetInput:
    return describe_input(name, data, context, "code", {"tags": resolve_tags()})


def _plain(value: Any) -> Any:
    """A value of a search's results as a table can hold it."""
    if isinstance(value, int | float):
        return value
    return value.item() if hasattr(value, "item") else str(value)


def _scores(scores: Any, data: Data) -> dict[str, float]:
    """The usual metrics, but those that have no meaning for such relevance."""
    if isinstance(data, RankingData):
        return evaluate(data.relevance, scores, data.qid, _suitable(_RANKING_METRICS, data))
    return evaluate_labels(data.relevance, scores, _suitable(_LABEL_METRICS, data))


def _suitable(names: Iterable[str], data: Data) -> list[str]:
    known = data.relevance[~np.isnan(data.relevance)]
    suitable = []
    for name in names:
        try:
            parse_metric(name).check(known)
        except DataError:
            continue
        suitable.append(name)
    return suitable
