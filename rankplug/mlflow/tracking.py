"""Recipes in MLflow: a parent run for the recipe, a child run for each solver.

What is logged where:

parent run
    Named like the recipe, unless it is the run of an MLflow project. Parameters ``rp.name``,
    ``rp.data``, ``rp.metrics``, ``rp.seed`` and so on (the prefix keeps them apart from those of
    a project); the data sets as inputs; the recipe and the report's files as artifacts, the
    table also as description.
child runs
    Named like the recipe's entries. The solver's parameters, and ``solver``, its registered
    name; the data sets as inputs; the model, which takes unscaled features: the recipe's
    ``scale`` is a part of it. Of folds or seeds, the parameters, the history and the model are
    those of the first.
children of these
    A run for each tuning study, with its trials below, see `rankplug.mlflow.study`.
metrics of a child run
    ``ndcg_at_10`` and so on of the test set; with ``train_`` or ``valid_`` before the name, of
    another set. ``train_seconds``, ``train_cpu_seconds``, ``predict_seconds``, ``n_iter``,
    ``n_passes``, ``objective``, ``duality_gap``, ``tuning_seconds``, ``tuning_trials``, and the
    costs of `rankplug.report.costs`. ``repeat_ndcg_at_10`` and so on at step 0, 1, ... for each
    fold or seed. The columns of the solver's history, at step ``n_iter``.
tags of all runs
    ``rankplug.status``, ``rankplug.error`` where there was one, ``env.python``, ``env.numpy``,
    ``env.cpu_count`` and so on, and what `rankplug.mlflow.provenance.provenance_tags` says;
    ``rankplug.output``, the folder, and ``rankplug.process``, host and number of the process: the
    next command for the folder ends the runs of one that was killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from mlflow.entities import DatasetInput, Metric

from rankplug.metrics import parse_metric
from rankplug.mlflow.database import TrackingError
from rankplug.mlflow.provenance import environment_facts, provenance_tags
from rankplug.mlflow.run import (
    CHAMPION,
    RunStatus,
    TrackedRun,
    dataset_inputs,
    history_metrics,
    metrics_at,
    result_values,
    score_metrics,
)
from rankplug.mlflow.store import (
    LogGuard,
    Store,
    connect,
    first_line,
    opening,
    resolve_tracking_uri,
    warn_incomplete,
)
from rankplug.recipe import Dataset, Recipe
from rankplug.report import REPORT_FILES, Outcome, Report, to_markdown
from rankplug.runner import Observer
from rankplug.solver import Data, Progress, Solver
from rankplug.system.locks import Workers
from rankplug.tuning import TuneObserver

T = TypeVar("T")

_STATUS = "rankplug.status"
_OUTPUT = "rankplug.output"
_PROCESS = "rankplug.process"  # HOST-NUMBER-RANDOM, see `Workers`


@dataclass
class _Child:
    """The run of a solver, and its progress: rows as in a solver's history."""

    run: TrackedRun
    started: float = field(default_factory=time.time)
    history: list[dict[str, float]] = field(default_factory=list)
    has_params: bool = False


class MlflowObserver(Observer):
    """Logs a run to MLflow while it goes.

    The tracking URI is the given one, else ``MLFLOW_TRACKING_URI``, else an SQLite file in the
    output folder, with its artifacts beside it. `rankplug.mlflow.store.connect` says which
    experiment; under ``mlflow run`` the parent run is the project's. Nothing global is changed.

    `run_started` raises `TrackingError` if runs cannot be logged there. Whatever goes wrong
    later is a warning: it costs the log, never the results.

    Parameters
    ----------
    output : path
        The run's output folder.
    tracking_uri : str, optional

    Attributes
    ----------
    tracking_uri : str
    run_id : str or None
        The parent run, once it has started.
    tags : dict of str
        More tags for all runs, to be set before they start.
    """

    def __init__(self, output: str | Path, tracking_uri: str | None = None) -> None:
        self.output = Path(output)
        self.tracking_uri = resolve_tracking_uri(self.output, tracking_uri)
        self._parent: TrackedRun | None = None
        self._children: dict[str, _Child] = {}
        self._models: dict[str, tuple[TrackedRun, str]] = {}
        self._inputs: dict[str, DatasetInput] = {}
        self._scored: dict[str, DatasetInput] = {}
        self._environment = {f"env.{key}": value for key, value in environment_facts().items()}
        self._environment[_STATUS] = "running"
        self.tags: dict[str, str] = {}
        self._guard = LogGuard(self._warn, self.tracking_uri)
        self._at_work = ExitStack()

    @property
    def run_id(self) -> str | None:
        """The parent run, once it has started."""
        return None if self._parent is None else self._parent.run_id

    def run_started(self, recipe: Recipe, splits: Mapping[str, Data]) -> None:
        """Start the parent run."""
        self._inputs = dataset_inputs(recipe, splits)
        folded = recipe.compare is not None and recipe.compare.folds is not None
        self._scored = {} if folded else self._inputs
        self._environment |= {**provenance_tags(recipe, self._inputs), **self.tags}
        with opening(self.tracking_uri):
            store = self._open_store()
            self._parent = TrackedRun.start(store, recipe.name)
            tags = {**self._environment, **store.tags}
            self._parent.log(params=_recipe_params(recipe), tags=tags)
            self._parent.log_inputs(self._inputs.values())
            self._parent.log_text(recipe.to_yaml(), "recipe.yaml")

    def solver_started(self, name: str, solver: Solver) -> None:
        """Start a child run."""
        self._attempt(lambda parent: self._start_child(parent, name))

    def tuning_started(self, name: str, part: str) -> Iterable[TuneObserver]:
        """Log the study below the solver's run."""
        # Optuna and its plots are slow to import.
        from rankplug.mlflow.study import MlflowTuneObserver

        child = self._children.get(name)
        if child is None:
            return ()
        return (MlflowTuneObserver(parent=child.run, guard=self._guard),)

    def training_started(self, name: str, part: str, solver: Solver) -> None:
        """Log the parameters of the first training; the progress is that of the latest."""
        child = self._children.get(name)
        if child is None:
            return
        child.history.clear()
        if not child.has_params:
            child.has_params = True
            params = {"solver": solver.name, **solver.get_params(deep=False)}
            self._attempt(lambda _: child.run.log(params=params))

    def progress(self, name: str, progress: Progress) -> None:
        """Keep the numbers: logging them now would be part of the training time."""
        if name in self._children:
            row = {"n_iter": progress.n_iter, "seconds": progress.seconds, **progress.values}
            self._children[name].history.append(row)

    def solver_finished(self, outcome: Outcome) -> None:
        """Log the outcome and end the child run."""
        self._attempt(lambda parent: self._log_outcome(parent, outcome))

    def run_finished(self, report: Report, output: Path) -> None:
        """Log the report and end the parent run."""
        self._attempt(lambda parent: parent.log(tags={"mlflow.note.content": to_markdown(report)}))
        self._attempt(self._log_report_files)
        self._end_children("FAILED")
        status: RunStatus = "FAILED" if report.failed else "FINISHED"
        self._attempt(lambda parent: _end(parent, "KILLED" if report.interrupted else status))
        self._at_work.close()

    def run_failed(self, error: BaseException) -> None:
        """End all runs that are open."""
        status: RunStatus = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
        self._end_children(status, error)
        self._attempt(self._log_report_files)
        self._attempt(lambda parent: _end(parent, status, error))
        self._at_work.close()

    def register(self, name: str, model: str, alias: str = CHAMPION) -> int:
        """Register the model of a solver that has finished; returns the version.

        Raises
        ------
        TrackingError
            If there is no such model, or it cannot be registered.
        """
        if name not in self._models:
            raise TrackingError(f"the model of {name} was not logged: it cannot be registered")
        run, model_id = self._models[name]
        try:
            return run.register(model_id, model, alias)
        except Exception as error:
            raise TrackingError(
                f"{name} cannot be registered as {model!r} at {self.tracking_uri}: "
                f"{first_line(error)}"
            ) from error

    def _open_store(self) -> Store:
        """The store, where the runs of commands for this folder that were killed are ended."""
        self.output.mkdir(parents=True, exist_ok=True)
        processes = Workers(self.output / ".tracking", shared=True)
        process = self._at_work.enter_context(processes.join())
        processes.others(process)  # forgets those that were killed
        tags = {_PROCESS: process, _OUTPUT: str(self.output.absolute())}
        store = replace(connect(self.output, self.tracking_uri), tags=tags)
        for run in store.search("attributes.status = 'RUNNING'"):
            known, run_id = run.data.tags, run.info.run_id
            if known.get(_OUTPUT) != tags[_OUTPUT] or run_id == store.run_id:
                continue
            if not processes.alive(known[_PROCESS]):
                TrackedRun(store, run_id).end("KILLED")
                if _STATUS in known:
                    store.client.set_tag(run_id, _STATUS, "killed")
        return store

    def _attempt(self, step: Callable[[TrackedRun], T]) -> T | None:
        """Do something with the parent run; trouble is a warning."""
        return None if self._parent is None else self._guard.attempt(step, self._parent)

    def _warn(self, trouble: str) -> None:
        unaffected = f"the report in {self.output}"
        warn_incomplete(self.run_id, self.tracking_uri, trouble, unaffected)

    def _start_child(self, parent: TrackedRun, name: str) -> _Child:
        child = _Child(parent.start_child(name))
        self._children[name] = child
        child.run.log(tags=self._environment)
        child.run.log_inputs(self._inputs.values())
        return child

    def _log_outcome(self, parent: TrackedRun, outcome: Outcome) -> None:
        name, params = outcome.name, {"solver": outcome.solver, **outcome.params}
        child = self._children.get(name) or self._start_child(parent, name)
        if not child.has_params:
            child.run.log(params=params)
        history: Sequence[Mapping[str, float]] = child.history
        model_id = None
        if outcome.result is not None:
            history, model = outcome.result.history, outcome.result.model
            model_id = self._attempt(lambda _: child.run.log_model(model, name, params))
            if model_id is not None:
                self._models[name] = child.run, model_id
        metrics = history_metrics(history, child.started)
        metrics += _outcome_metrics(outcome, self._scored, model_id)
        tags = {_STATUS: outcome.status}
        if outcome.error is not None:
            tags["rankplug.error"] = outcome.error
            child.run.log_text(outcome.error + "\n", "error.txt")
        child.run.log(tags=tags, metrics=metrics)
        unfinished: RunStatus = "KILLED" if outcome.interrupted else "FAILED"
        child.run.end(unfinished if outcome.result is None else "FINISHED")
        del self._children[name]

    def _end_children(self, status: RunStatus, error: BaseException | None = None) -> None:
        """End the child runs that are still open: none, if all went well."""
        while self._children:
            run = self._children.popitem()[1].run
            self._attempt(lambda _, run=run: _end(run, status, error))  # type: ignore[misc]

    def _log_report_files(self, parent: TrackedRun) -> None:
        for name in REPORT_FILES:
            if (self.output / name).is_file():
                parent.log_file(self.output / name)


def _recipe_params(recipe: Recipe) -> dict[str, Any]:
    """The recipe's own keys; what its solvers are given is with the child runs."""
    if isinstance(recipe.data, Dataset):
        data = {"": recipe.data.dataset, **{f".{k}": v for k, v in recipe.data.params.items()}}
    else:
        data = {f".{key.name}": getattr(recipe.data, key.name) for key in fields(recipe.data)}
        split = data.pop(".split", None)
        data |= {f".split.{key}": value for key, value in vars(split).items()} if split else {}
    params = {
        "name": recipe.name,
        **{f"data{key}": value for key, value in data.items()},
        "metrics": ", ".join(recipe.metrics),
        "solvers": ", ".join(entry.name for entry in recipe.solvers),
        "scale": recipe.scale,
        "impute": None if recipe.impute == "auto" else recipe.impute,
        "seed": recipe.seed,
        "baseline": recipe.baseline,
    }
    for section in ("tune", "compare"):
        settings = getattr(recipe, section)
        if settings is not None:
            params |= {f"{section}.{key}": value for key, value in vars(settings).items()}
    return {f"rp.{key}": value for key, value in params.items() if value not in (None, ())}


def _outcome_metrics(
    outcome: Outcome, inputs: Mapping[str, DatasetInput], model_id: str | None
) -> list[Metric]:
    """What is known of a solver at the end: costs, results, scores, and those of repetitions.

    The scores are tied to the data sets in `inputs`, by split, and to the model.
    """
    numbers: dict[str, float | None] = dict(outcome.costs)
    for name in ("train_seconds", "train_cpu_seconds", "predict_seconds"):
        numbers[name] = getattr(outcome, name)
    if outcome.tuning is not None:
        numbers["tuning_seconds"] = outcome.tuning.seconds
        numbers["tuning_trials"] = outcome.tuning.n_trials
    if outcome.result is not None:
        numbers |= result_values(outcome.result)
    metrics = metrics_at(0 if outcome.result is None else outcome.result.n_iter, numbers)
    for split, values in outcome.metrics.items():
        metrics += score_metrics(split, values, inputs.get(split), model_id)
    for number, values in enumerate(outcome.repeats):
        named = {f"repeat_{parse_metric(name).log_name}": value for name, value in values.items()}
        metrics += metrics_at(number, named)
    return metrics


def _end(run: TrackedRun, status: RunStatus, error: BaseException | None = None) -> None:
    words = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "interrupted"}
    tags = {_STATUS: words[status]}
    if error is not None:
        tags["rankplug.error"] = f"{type(error).__name__}: {error}"
    run.log(tags=tags)
    run.end(status)
