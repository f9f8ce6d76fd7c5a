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
    ``scale`` is a part of it.
metrics of a child run
    ``ndcg_at_10`` and so on of the test set; with ``train_`` or ``valid_`` before the name, of
    another set. ``train_seconds``, ``train_cpu_seconds``, ``predict_seconds``, ``n_iter``,
    ``n_passes``, ``objective``, ``duality_gap``. The columns of the solver's history, at step
    ``n_iter``.
tags of all runs
    ``rankplug.status``, ``rankplug.error`` where there was one, and ``env.python``,
    ``env.numpy``, ``env.cpu_count`` and so on.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from mlflow.entities import DatasetInput, Metric

from rankplug.metrics import parse_metric
from rankplug.mlflow.environment import environment_facts
from rankplug.mlflow.inputs import dataset_inputs
from rankplug.mlflow.store import connect, first_line, impatient, opening, resolve_tracking_uri
from rankplug.mlflow.tracked_run import RunStatus, TrackedRun
from rankplug.recipe import Dataset, Recipe
from rankplug.report import Outcome, Report
from rankplug.report_files import REPORT_FILES, to_markdown
from rankplug.runner import Observer
from rankplug.solver import Data, Progress, Solver

__all__ = ["MlflowObserver"]

T = TypeVar("T")


@dataclass
class _Child:
    """The run of a solver, with what its progress told: rows as in a solver's history."""

    run: TrackedRun
    started: float = field(default_factory=time.time)
    history: list[dict[str, float]] = field(default_factory=list)


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
    """

    def __init__(self, output: str | Path, tracking_uri: str | None = None) -> None:
        self.output = Path(output)
        self.tracking_uri = resolve_tracking_uri(self.output, tracking_uri)
        self._parent: TrackedRun | None = None
        self._children: dict[str, _Child] = {}
        self._inputs: dict[str, DatasetInput] = {}
        self._environment = {f"env.{key}": value for key, value in environment_facts().items()}
        self._environment["rankplug.status"] = "running"
        self._in_trouble = False

    @property
    def run_id(self) -> str | None:
        """The parent run, once it has started."""
        return None if self._parent is None else self._parent.run_id

    def run_started(self, recipe: Recipe, splits: Mapping[str, Data]) -> None:
        """Start the parent run."""
        self._inputs = dataset_inputs(recipe, splits)
        with opening(self.tracking_uri):
            self._parent = TrackedRun.start(connect(self.output, self.tracking_uri), recipe.name)
            self._parent.log(params=_recipe_params(recipe), tags=self._environment)
            self._parent.log_inputs(self._inputs.values())
            self._parent.log_text(recipe.to_yaml(), "recipe.yaml")

    def solver_started(self, name: str, solver: Solver) -> None:
        """Start a child run."""
        params = {"solver": solver.name, **solver.get_params(deep=False)}
        self._attempt(lambda parent: self._start_child(parent, name, params))

    def progress(self, name: str, progress: Progress) -> None:
        """Keep the numbers: logging them now would be part of the training time."""
        if name in self._children:
            row = {"n_iter": progress.n_iter, "seconds": progress.seconds, **progress.values}
            self._children[name].history.append(row)

    def solver_finished(self, outcome: Outcome, solver: Solver, splits: Mapping[str, Data]) -> None:
        """Log the outcome and end the child run."""
        self._attempt(lambda parent: self._log_outcome(parent, outcome))

    def run_finished(self, report: Report, output: Path) -> None:
        """Log the report and end the parent run."""
        self._attempt(lambda parent: parent.log(tags={"mlflow.note.content": to_markdown(report)}))
        self._attempt(self._log_report_files)
        self._end_children("FAILED")
        status: RunStatus = "FAILED" if report.failed else "FINISHED"
        self._attempt(lambda parent: _end(parent, "KILLED" if report.interrupted else status))

    def run_failed(self, error: BaseException) -> None:
        """End all runs that are open."""
        status: RunStatus = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
        self._end_children(status, error)
        self._attempt(self._log_report_files)
        self._attempt(lambda parent: _end(parent, status, error))

    def _attempt(self, step: Callable[[TrackedRun], T]) -> T | None:
        """Do something with the parent run; trouble is a warning, and makes us less patient."""
        if self._parent is None:
            return None
        try:
            with impatient() if self._in_trouble else nullcontext():
                return step(self._parent)
        except Exception as error:
            self._in_trouble = True
            warnings.warn(
                f"the MLflow run {self.run_id} at {self.tracking_uri} is incomplete: "
                f"{type(error).__name__}: {first_line(error)} (the report in {self.output} is "
                "not affected)",
                RuntimeWarning,
                stacklevel=2,
            )
            return None

    def _start_child(self, parent: TrackedRun, name: str, params: Mapping[str, Any]) -> _Child:
        child = _Child(parent.start_child(name))
        self._children[name] = child
        child.run.log(params=params, tags=self._environment)
        child.run.log_inputs(self._inputs.values())
        return child

    def _log_outcome(self, parent: TrackedRun, outcome: Outcome) -> None:
        name, params = outcome.name, {"solver": outcome.solver, **outcome.params}
        child = self._children.get(name) or self._start_child(parent, name, params)
        history: Sequence[Mapping[str, float]] = child.history
        model_id = None
        if outcome.result is not None:
            history, model = outcome.result.history, outcome.result.model
            model_id = self._attempt(lambda _: child.run.log_model(model, name, params))
        metrics = _history_metrics(history, child.started) + _final_metrics(outcome)
        for split, values in outcome.metrics.items():
            metrics += _scores(split, values, self._inputs.get(split), model_id)
        tags = {"rankplug.status": outcome.status}
        if outcome.error is not None:
            tags["rankplug.error"] = outcome.error
            child.run.log_text(outcome.error + "\n", "error.txt")
        child.run.log(tags=tags, metrics=metrics)
        child.run.end(_run_status(outcome))
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
    params = {
        "name": recipe.name,
        **{f"data{key}": value for key, value in data.items()},
        "metrics": ", ".join(recipe.metrics),
        "solvers": ", ".join(entry.name for entry in recipe.solvers),
        "scale": recipe.scale,
        "seed": recipe.seed,
        "baseline": recipe.baseline,
    }
    return {f"rp.{key}": value for key, value in params.items() if value is not None}


def _run_status(outcome: Outcome) -> RunStatus:
    if outcome.result is not None:
        return "FINISHED"
    return "KILLED" if outcome.interrupted else "FAILED"


def _end(run: TrackedRun, status: RunStatus, error: BaseException | None = None) -> None:
    words = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "interrupted"}
    tags = {"rankplug.status": words[status]}
    if error is not None:
        tags["rankplug.error"] = f"{type(error).__name__}: {error}"
    run.log(tags=tags)
    run.end(status)


def _history_metrics(history: Sequence[Mapping[str, float]], started: float) -> list[Metric]:
    """A metric for each number of each row, at the time when the row was reached."""
    return [
        Metric(
            _key(name), float(value), _milliseconds(started + row["seconds"]), int(row["n_iter"])
        )
        for row in history
        for name, value in row.items()
        if name != "n_iter"
    ]


def _final_metrics(outcome: Outcome) -> list[Metric]:
    """What is known at the end; objective and gap close the curves of the history."""
    values = {
        name: getattr(outcome, name)
        for name in ("train_seconds", "train_cpu_seconds", "predict_seconds")
    }
    step = 0
    if outcome.result is not None:
        step = outcome.result.n_iter
        values |= {
            name: getattr(outcome.result, name)
            for name in ("n_iter", "n_passes", "objective", "duality_gap")
        }
    return [
        Metric(name, float(value), _milliseconds(time.time()), step)
        for name, value in values.items()
        if value is not None
    ]


def _scores(
    split: str, values: Mapping[str, float], data: DatasetInput | None, model_id: str | None
) -> list[Metric]:
    """The metrics of a set, tied to the set and to the model in MLflow's pages."""
    prefix = "" if split == "test" else f"{split}_"
    name_and_digest = (None, None) if data is None else (data.dataset.name, data.dataset.digest)
    return [
        Metric(
            prefix + parse_metric(name).log_name,
            float(value),
            _milliseconds(time.time()),
            step=0,
            model_id=model_id,
            dataset_name=name_and_digest[0],
            dataset_digest=name_and_digest[1],
        )
        for name, value in values.items()
    ]


def _key(name: str) -> str:
    """A metric's name in the characters that MLflow allows."""
    return re.sub(r"[^\w\-. :/]", "_", name.replace("@", "_at_"))


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)
