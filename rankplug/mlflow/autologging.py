"""`autolog`: every fit of a ranker becomes an MLflow run."""

# ruff: noqa: ARG001
# The arguments of `autolog` are kept by MLflow, where `_setting` finds them.

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import mlflow
from packaging.specifiers import SpecifierSet
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline

from rankplug.estimators import LabelRanker, Ranker, SolverEstimator
from rankplug.mlflow import _private
from rankplug.mlflow.flavor import FLAVOR_NAME
from rankplug.mlflow.trainings import Training, TrainingLog
from rankplug.solver import Data, Solver

__all__ = ["autolog"]

_log = logging.getLogger(__name__)

_TESTED_MLFLOW = SpecifierSet(">=3.10,<4")


@_private.autologging_integration(FLAVOR_NAME)  # type: ignore[untyped-decorator]
def autolog(
    log_input_examples: bool = False,
    log_model_signatures: bool = True,
    log_models: bool = True,
    log_datasets: bool = True,
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
      ``valid_kendall_tau`` and ``valid_top1_error``;
    - the model, and the data sets as inputs, described but not copied.

    A fit that fails leaves a failed run, one that is interrupted a killed one. A ``Pipeline`` that
    ends in a ranker is one fit, and so is ``GridSearchCV`` or ``RandomizedSearchCV`` over either:
    its run holds ``best_...`` parameters, ``best_cv_score``, the table ``cv_results.json`` and the
    refitted model. (Trials of a search in threads of scikit-learn's own get runs of their own;
    those in processes, the default of ``n_jobs``, none.) Fits in several threads are logged
    independently.

    Parameters
    ----------
    log_input_examples : bool
        Keep the first rows of the training features with the model.
    log_model_signatures : bool
        Declare the model's input columns; see `rankplug.mlflow.save_model`.
    log_models : bool
    log_datasets : bool
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
        _wrap(destination, "fit", _logged_fit)
    _wrap(SolverEstimator, "_train", _watched_train)


_current: ContextVar[Training | None] = ContextVar("rankplug_training", default=None)


def _wrap(destination: type, name: str, wrapper: Callable[..., Any]) -> None:
    """Put a wrapper around a method, once and for all: it asks each time what is to be logged."""
    original = getattr(destination, name)
    if getattr(original, "_rankplug_autolog", False):
        return

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapper(functools.partial(original, self), self, *args, **kwargs)

    method._rankplug_autolog = True  # type: ignore[attr-defined]
    setattr(destination, name, method)


def _logged_fit(original: Callable[..., Any], estimator: Any, *args: Any, **kwargs: Any) -> Any:
    if _current.get() is not None or not _is_ranker(estimator) or not _is_wanted():
        return original(*args, **kwargs)
    training = Training(features=args[0] if args else kwargs.get("X"))
    token = _current.set(training)
    try:
        with _loudness(), _run_for_fit(training) as run_id:
            log = None if run_id is None else TrainingLog(run_id, training, _setting)
            try:
                fitted = original(*args, **kwargs)
            finally:
                if log is not None:
                    _attempt(log.params)
            for step in () if log is None else log.steps(fitted):
                _attempt(step)
            return fitted
    finally:
        _current.reset(token)


def _watched_train(
    original: Callable[..., Any], estimator: Any, solver: Solver, data: Data, valid: Data | None
) -> Any:
    """Remember what is trained, for the fit that is being logged."""
    training = _current.get()
    if training is not None:
        training.started = time.time()
        training.estimator, training.solver = estimator, solver
        training.data, training.valid = data, valid
    trained = original(solver, data, valid)
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


def _is_wanted() -> bool:
    if _private.autologging_is_disabled(FLAVOR_NAME):
        return False
    if _setting("disable_for_unsupported_versions") and mlflow.__version__ not in _TESTED_MLFLOW:
        return False
    return not (_setting("exclusive") and mlflow.active_run() is not None)


def _setting(name: str) -> Any:
    return _private.autologging_setting(FLAVOR_NAME, name)


def _loudness() -> Any:
    silent = _setting("silent")
    return _private.autologging_behavior(
        disable_event_logs=silent, disable_warnings=silent, reroute_warnings=False
    )


# Runs of the user that hold a fit already: parameters cannot be logged twice.
_used_runs: set[str] = set()


@contextmanager
def _run_for_fit(training: Training) -> Iterator[str | None]:
    """The id of the run to log to, None if there can be none; it fails if the block fails."""
    active = mlflow.active_run()
    if active is not None and active.info.run_id not in _used_runs:
        _used_runs.add(active.info.run_id)
        yield active.info.run_id
        return
    tags = {**(_setting("extra_tags") or {}), "mlflow.autologging": FLAVOR_NAME}
    run = _attempt(mlflow.start_run, nested=active is not None, tags=tags)
    if run is None:
        yield None
        return
    with run:
        try:
            yield run.info.run_id
        except KeyboardInterrupt:
            mlflow.end_run("KILLED")
            raise
        if training.interrupted:
            mlflow.end_run("KILLED")


def _attempt(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Do it; if MLflow cannot, training goes on all the same."""
    try:
        return step(*args, **kwargs)
    except Exception as error:
        if not _setting("silent"):
            _log.warning("autologging is incomplete: %s: %s", type(error).__name__, error)
        return None
