"""`autolog`: every fit of a ranker becomes an MLflow run."""

# ruff: noqa: ARG001
# The arguments of `autolog` are kept by MLflow, where `_setting` finds them.

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import DatasetInput, Run
from mlflow.tracking.context.registry import resolve_tags
from packaging.specifiers import SpecifierSet
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline

from rankplug.estimators import LabelRanker, Ranker, SolverEstimator
from rankplug.metrics import DEFAULT_LABEL_METRICS, DEFAULT_METRICS, measure_data, parse_metric
from rankplug.mlflow import _private
from rankplug.mlflow.flavor import FLAVOR_NAME, log_model, require_example
from rankplug.mlflow.importances import find_importances
from rankplug.mlflow.pyfunc import plain_example
from rankplug.mlflow.run import (
    TrackedRun,
    describe_input,
    history_metrics,
    metrics_at,
    result_values,
    score_metrics,
)
from rankplug.mlflow.store import LogGuard, Store, first_line
from rankplug.models import Model
from rankplug.solver import Data, Solver, SolverResult

_log = logging.getLogger(__name__)

_TESTED_MLFLOW = SpecifierSet(">=3.10,<4")
_EXAMPLE_ROWS = 5  # as many as MLflow keeps of scikit-learn's models


@_private.autologging_integration(FLAVOR_NAME)  # type: ignore[untyped-decorator]
def autolog(
    log_input_examples: bool = False,
    log_model_signatures: bool = True,
    log_models: bool = True,
    log_datasets: bool = True,
    log_feature_importances: bool = True,
    disable: bool = False,
    exclusive: bool = False,
    disable_for_unsupported_versions: bool = False,
    silent: bool = False,
    registered_model_name: str | None = None,
    extra_tags: dict[str, str] | None = None,
) -> None:
    """Log every fit of `Ranker` and `LabelRanker` to MLflow.

    A fit gets a run of its own; within a run that is active in the same thread, the first fit is
    logged to that run and every further one to a child of it. Logged are

    - parameters: the solver's, ``solver``, its registered name, and ``random_state``;
    - metrics: the solver's history (``objective``, ...) at step ``n_iter``, ``train_seconds``,
      ``n_iter``, ``n_passes``, ``objective``, ``duality_gap``; of the `eval_set`
      ``valid_ndcg_at_10``, ``valid_mrr`` and ``valid_pairwise_accuracy``, for label ranking
      ``valid_kendall_tau`` and ``valid_top1_error``; of each of several, or of one, after each
      iteration ``validation_0_ndcg_at_10``;
    - the model, and the data sets as inputs, described but not copied;
    - of a model that tells them, ``feature_importance.json`` and ``.png``, of a linear one its
      weights as ``coefficients.json`` and ``.png``: those of the features that the ranker gets
      from a pipeline, the largest first; for label ranking the weights of each label.

    A fit that fails leaves a failed run, one that is interrupted a killed one. A ``Pipeline`` that
    ends in a ranker is one fit, and so is ``GridSearchCV`` or ``RandomizedSearchCV`` over either:
    its run holds ``best_...`` parameters, ``best_cv_score``, the table ``cv_results.json`` and the
    refitted model. (Trials of a search in threads of scikit-learn's own get runs of their own;
    those in processes, the default of ``n_jobs``, none.) Fits in several threads are logged
    independently.

    Parameters
    ----------
    log_input_examples : bool
        Keep the first rows of the training features with the model. One whose rows cannot be kept
        is logged without them.
    log_model_signatures : bool
        Declare the model's input columns; see `rankplug.mlflow.save_model`.
    log_models : bool
    log_datasets : bool
    log_feature_importances : bool
        Importances or coefficients as JSON and as a picture.
    disable : bool
        Log nothing any more.
    exclusive : bool
        Log nothing to runs that the user has started.
    disable_for_unsupported_versions : bool
        Log nothing with versions of MLflow that were not tested.
    silent : bool
        No warnings when something cannot be logged.
    registered_model_name : str, optional
        Register each model as a new version of that name.
    extra_tags : dict, optional
        Tags of the runs that are started.
    """
    for destination in (Ranker, LabelRanker, Pipeline, GridSearchCV, RandomizedSearchCV):
        _wrap(destination, "fit", _log_fit)
    _wrap(SolverEstimator, "_train", _watch_train)


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
    """Writes a training to an MLflow run, in steps that do not need each other."""

    def __init__(self, run: Run, training: Training) -> None:
        store = Store(MlflowClient(), mlflow.get_tracking_uri(), run.info.experiment_id)
        self._run = TrackedRun(store, run.info.run_id)
        self._training = training
        self._valid: DatasetInput | None = None
        self._model_id: str | None = None

    def log_params(self) -> None:
        """Log the parameters, as far as the training has come to them."""
        training = self._training
        if training.solver is None or training.estimator is None:
            return
        params = {"solver": training.solver.name, **training.solver.get_params(deep=False)}
        self._run.log(params={**params, "random_state": training.estimator.random_state})

    def steps(self, fitted: Any) -> Iterator[Callable[[], None]]:
        """What is left to log; `fitted` is a ranker, or a pipeline or search of one."""
        if hasattr(fitted, "cv_results_"):
            yield partial(self._log_search, fitted)
            if not hasattr(fitted, "best_estimator_"):  # it was not refitted
                return
            fitted = fitted.best_estimator_
        if _setting("log_datasets"):
            yield self._log_datasets
        if _setting("log_models"):
            yield partial(self._log_model, fitted)
        yield self._log_metrics
        if _setting("log_feature_importances"):
            yield partial(self._log_importances, fitted)

    def _log_search(self, search: Any) -> None:
        client, run_id = self._run.store.client, self._run.run_id
        self._run.log(params={f"best_{key}": value for key, value in search.best_params_.items()})
        client.log_metric(run_id, "best_cv_score", float(search.best_score_))
        columns = {key: list(map(_to_plain, values)) for key, values in search.cv_results_.items()}
        client.log_table(run_id, columns, "cv_results.json")

    def _log_datasets(self) -> None:
        source = "code", {"tags": resolve_tags()}
        inputs = []
        if self._training.data is not None:
            inputs.append(describe_input(self._training.data, "training", "train", *source))
        if self._training.valid is not None:
            self._valid = describe_input(self._training.valid, "validation", "valid", *source)
            inputs.append(self._valid)
        self._run.log_inputs(inputs)

    def _log_model(self, fitted: Any) -> None:
        named = bool(_setting("log_model_signatures"))
        info = log_model(
            fitted,
            name="model",
            signature=None if named else False,
            input_example=self._example(fitted, named) if _setting("log_input_examples") else None,
            registered_model_name=_setting("registered_model_name"),
        )
        self._model_id = info.model_id

    def _example(self, fitted: Any, named: bool) -> Any:
        """The first rows; None, and a warning, where they cannot be kept."""
        try:
            rows = plain_example(self._training.features, _EXAMPLE_ROWS)
            require_example(fitted, rows, named=named)
        except Exception as error:
            # Whatever it is that MLflow has against them, the model is worth more than they are.
            _warn(f"the model is logged without an input example: {first_line(error)}")
            return None
        return rows

    def _log_metrics(self) -> None:
        training = self._training
        if training.estimator is None:
            return
        result = training.estimator.result_
        known = {**result_values(result), "train_seconds": result.seconds}
        metrics = history_metrics(_watched_history(result), training.started)
        metrics += metrics_at(result.n_iter, known)
        if training.valid is not None:
            values = _evaluate(training.estimator.model_.predict(training.valid.X), training.valid)
            metrics += score_metrics("valid", values, self._valid, self._model_id)
        self._run.log(metrics=metrics)

    def _log_importances(self, fitted: Any) -> None:
        found = find_importances(*_model_and_names(fitted))
        if found is not None:
            client, run_id = self._run.store.client, self._run.run_id
            client.log_dict(run_id, found.to_dict(), f"{found.title}.json")
            client.log_figure(run_id, found.draw(), f"{found.title}.png")


_current: ContextVar[Training | None] = ContextVar("rankplug_training", default=None)


def _wrap(destination: type, name: str, wrapper: Callable[..., Any]) -> None:
    """Put a wrapper around a method, once and for all: it asks each time what is to be logged.

    MLflow's own `safe_patch` has one session for all threads: when a fit fails in one, those of
    the others would not be logged.
    """
    original = getattr(destination, name)
    if getattr(original, "_rankplug_autolog", False):
        return

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapper(functools.partial(original, self), self, *args, **kwargs)

    method._rankplug_autolog = True  # type: ignore[attr-defined]
    setattr(destination, name, method)


def _log_fit(original: Callable[..., Any], estimator: Any, *args: Any, **kwargs: Any) -> Any:
    if _current.get() is not None or not _is_ranker(estimator) or not _is_enabled():
        return original(*args, **kwargs)
    training = Training(features=args[0] if args else kwargs.get("X"))
    guard = LogGuard(_warn, mlflow.get_tracking_uri())
    token = _current.set(training)
    try:
        with _warning_behavior(), _run_for_fit(training, guard) as run:
            log = None if run is None else guard.attempt(TrainingLog, run, training)
            try:
                fitted = original(*args, **kwargs)
            finally:
                if log is not None:
                    guard.attempt(log.log_params)
            for step in () if log is None else log.steps(fitted):
                guard.attempt(step)
            return fitted
    finally:
        _current.reset(token)


def _watch_train(
    original: Callable[..., Any],
    estimator: Any,
    solver: Solver,
    data: Data,
    held_out: Sequence[Data],
    **others: Any,
) -> Any:
    """Remember what is trained, for the fit that is being logged."""
    training = _current.get()
    if training is not None:
        training.started = time.time()
        training.estimator, training.solver = estimator, solver
        training.data, training.valid = data, held_out[-1] if held_out else None
    trained = original(solver, data, held_out, **others)
    if training is not None and estimator.result_.interrupted:
        training.interrupted = True
    return trained


def _is_ranker(estimator: Any) -> bool:
    """Whether a ranker is trained in the end, in a pipeline or a search or by itself."""
    while not isinstance(estimator, SolverEstimator):
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1] if estimator.steps else None
        elif hasattr(estimator, "param_grid") or hasattr(estimator, "param_distributions"):
            estimator = estimator.estimator
        else:
            return False
    return True


def _model_and_names(fitted: Any) -> tuple[Model, list[str] | None]:
    """The model of a ranker, and what the columns are called that a pipeline makes for it."""
    names = None
    while isinstance(fitted, Pipeline):
        if len(fitted.steps) > 1:
            try:
                names = [*fitted[:-1].get_feature_names_out(names)]
            except (AttributeError, NotFittedError, TypeError, ValueError):
                names = None  # steps need not tell
        fitted = fitted.steps[-1][1]
    return fitted.model_, names


def _is_enabled() -> bool:
    if _private.autologging_is_disabled(FLAVOR_NAME):
        return False
    if _setting("disable_for_unsupported_versions") and mlflow.__version__ not in _TESTED_MLFLOW:
        return False
    return not (_setting("exclusive") and mlflow.active_run() is not None)


def _setting(name: str) -> Any:
    return _private.autologging_setting(FLAVOR_NAME, name)


def _warning_behavior() -> Any:
    silent = _setting("silent")
    return _private.autologging_behavior(
        disable_event_logs=silent, disable_warnings=silent, reroute_warnings=False
    )


# Runs of the user that hold a fit already: parameters cannot be logged twice.
_used_runs: set[str] = set()


@contextmanager
def _run_for_fit(training: Training, guard: LogGuard) -> Iterator[Run | None]:
    """The run to log to, None if there can be none; it fails if the block fails."""
    active = mlflow.active_run()
    if active is not None and active.info.run_id not in _used_runs:
        _used_runs.add(active.info.run_id)
        yield active
        return
    tags = {**(_setting("extra_tags") or {}), "mlflow.autologging": FLAVOR_NAME}
    run = guard.attempt(mlflow.start_run, nested=active is not None, tags=tags)
    if run is None:
        yield None
        return
    status = "FAILED"
    try:
        yield run
        status = "KILLED" if training.interrupted else "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        guard.attempt(_end, run, status)


def _end(run: Run, status: str) -> None:
    """End a run, unless that was done by the code that ran in it."""
    active = mlflow.active_run()
    if active is not None and active.info.run_id == run.info.run_id:
        mlflow.end_run(status)


def _warn(trouble: str) -> None:
    if not _setting("silent"):
        _log.warning("autologging is incomplete: %s", trouble)


def _watched_history(result: SolverResult) -> list[dict[str, float]]:
    """The history with the metrics of the validation sets, those of the model in the last row."""
    rows = [dict(row) for row in result.history]
    for data, metrics in result.evals.items():
        for name, values in metrics.items():
            key = f"{data}_{parse_metric(name).log_name}"
            for row, value in zip(rows[-len(values) :], values, strict=False):
                if not np.isnan(value):
                    row[key] = value
    return rows


def _to_plain(value: Any) -> Any:
    """A value of a search's results as a table can hold it."""
    if isinstance(value, int | float):
        return value
    return value.item() if hasattr(value, "item") else str(value)


def _evaluate(scores: Any, data: Data) -> dict[str, float]:
    """The usual metrics, but those that have no meaning for such relevance."""
    known = data.relevance[~np.isnan(data.relevance)]
    usual = DEFAULT_METRICS if data.labels is None else DEFAULT_LABEL_METRICS
    suitable = [name for name in usual if parse_metric(name).suits(known)]
    return {name: one.mean() for name, one in measure_data(data, scores, suitable).items()}
