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
    ``scale`` is a part of it; the report's figures of this solver, ``convergence_1.svg``,
    ``features.svg`` and so on. Of folds or seeds, the parameters, the history and the model are
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

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mlflow import MlflowClient
from mlflow.entities import DatasetInput, Metric
from mlflow.exceptions import MlflowException

from rankplug.metrics import parse_metric
from rankplug.mlflow.database import TrackingError, ensure_database
from rankplug.mlflow.provenance import environment_facts, provenance_tags
from rankplug.mlflow.run import (
    CHAMPION,
    TrackedRun,
    dataset_inputs,
    history_metrics,
    metrics_at,
    result_values,
    score_metrics,
)
from rankplug.mlflow.spool import EXPERIMENT, STATUS, Sent, bounded_requests, is_outage, send_unsent
from rankplug.mlflow.spooling import SpoolingClient
from rankplug.mlflow.steps import Delivery, RunStatus
from rankplug.mlflow.store import (
    LogGuard,
    Place,
    Store,
    artifact_location,
    connect,
    first_line,
    is_server,
    opening,
    resolve_tracking_uri,
    uninterrupted,
    warn_incomplete,
    warn_plainly,
)
from rankplug.recipe import Dataset, Recipe
from rankplug.report import REPORT_FILES, Outcome, Report, draw_pictures, to_markdown
from rankplug.runner import Observer
from rankplug.solver import Data, Progress, Solver
from rankplug.system.locks import Workers
from rankplug.tuning import TuneObserver

if TYPE_CHECKING:
    from rankplug.mlflow.study import MlflowTuneObserver

T = TypeVar("T")

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
    later is a warning: it costs the log, never the results. With `spool`, what a server does not
    take, from the start or later, is kept in the output folder and sent when it answers again, or
    by `send_kept`.

    Parameters
    ----------
    output : path
        The run's output folder.
    tracking_uri : str, optional
    spool : bool
        Go on without a server that does not answer.

    Attributes
    ----------
    tracking_uri : str
    run_id : str or None
        The parent run, once it has started.
    tags : dict of str
        More tags for all runs, to be set before they start.
    """

    def __init__(
        self, output: str | Path, tracking_uri: str | None = None, *, spool: bool = False
    ) -> None:
        self.output = Path(output)
        self.tracking_uri = resolve_tracking_uri(self.output, tracking_uri)
        self._spools = spool and is_server(self.tracking_uri)
        self._spooling: SpoolingClient | None = None
        self._parent: TrackedRun | None = None
        self._children: dict[str, _Child] = {}
        self._models: dict[str, tuple[TrackedRun, str]] = {}
        self._trained: dict[str, TrackedRun] = {}
        self._inputs: dict[str, DatasetInput] = {}
        self._scored: dict[str, DatasetInput] = {}
        self._environment = {f"env.{key}": value for key, value in environment_facts().items()}
        self._environment[STATUS] = "running"
        self.tags: dict[str, str] = {}
        self._guard = LogGuard(self._warn, self.tracking_uri, spools=self._spools)
        self._studies: list[MlflowTuneObserver] = []
        self._at_work = ExitStack()

    @property
    def run_id(self) -> str | None:
        """The parent run, once it has started."""
        return None if self._parent is None else self._parent.run_id

    @property
    def is_complete(self) -> bool:
        """Whether everything was logged so far."""
        lost = self._guard.lost or any(study.lost for study in self._studies)
        client = self._spooling
        kept = client is not None and client.n_unsent > 0
        return not (lost or kept)

    def run_started(self, recipe: Recipe, splits: Mapping[str, Data]) -> None:
        """Start the parent run."""
        self._inputs = dataset_inputs(recipe, splits)
        self._scored = {} if recipe.folded else self._inputs
        self._environment |= {**provenance_tags(recipe, self._inputs), **self.tags}
        with opening(self.tracking_uri, spools=self._spools):
            store = self._open_store()
            with uninterrupted(self.tracking_uri):
                self._parent = TrackedRun.start(store, recipe.name)
                tags = {**self._environment, **store.tags}
                self._parent.log(params=_recipe_params(recipe), tags=tags)
                self._parent.log_inputs(self._inputs.values())
                self._parent.log_text(recipe.to_yaml(), "recipe.yaml")
        if self._spooling is not None and self._spooling.n_unsent == 0:
            self._send_earlier()

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
        self._studies.append(MlflowTuneObserver(parent=child.run, guard=self._guard))
        return self._studies[-1:]

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
        self._attempt(lambda _: self._log_pictures(report))
        self._end_children("FAILED")
        status: RunStatus = "FAILED" if report.failed else "FINISHED"
        self._attempt(lambda parent: _end(parent, "KILLED" if report.interrupted else status))
        self._finish()

    def run_failed(self, error: BaseException) -> None:
        """End all runs that are open."""
        status: RunStatus = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
        self._end_children(status, error)
        self._attempt(self._log_report_files)
        self._attempt(lambda parent: _end(parent, status, error))
        self._finish()

    def register(self, name: str, model: str, alias: str = CHAMPION) -> int | None:
        """Register the model of a solver that has finished; returns the version.

        None, if the server does not answer, and the registration is kept with all else.

        Raises
        ------
        TrackingError
            If there is no such model, or it cannot be registered.
        """
        if name not in self._models:
            raise TrackingError(f"the model of {name} was not logged: it cannot be registered")
        run, model_id = self._models[name]
        try:
            version = run.register(model_id, model, alias)
            if self._spooling is not None:
                self._spooling.settle()
            return version
        except Exception as error:
            raise TrackingError(
                f"{name} cannot be registered as {model!r} at {self.tracking_uri}: "
                f"{first_line(error)}"
            ) from error

    def _open_store(self) -> Store:
        """The store, where the runs of commands for this folder that were killed are ended."""
        self.output.mkdir(parents=True, exist_ok=True)
        processes = _processes(self.output)
        process = self._at_work.enter_context(processes.join())
        processes.others(process)  # forgets those that were killed
        tags = {_PROCESS: process, _OUTPUT: str(self.output.absolute())}
        store = replace(self._connect(), tags=tags)
        with uninterrupted(self.tracking_uri):
            _end_killed_runs(store, self.output)
        return store

    def _connect(self) -> Store:
        """The store; of a server that does not answer, one that keeps what it is given."""
        if not self._spools:
            return connect(self.output, self.tracking_uri)
        client = SpoolingClient(self.tracking_uri, self.output, warn_plainly)
        try:
            with bounded_requests():
                store = connect(self.output, self.tracking_uri, client)
        except Exception as error:
            if not is_outage(error):
                raise
            client.fall(error)
            run_id = Place.of_process(self.tracking_uri).run_id
            store = Store(client, self.tracking_uri, EXPERIMENT, run_id)
        self._spooling = client
        return replace(store, spools=True)

    def _send_earlier(self) -> None:
        """Send what earlier commands for this folder have kept."""
        deliver = partial(_deliver, self.output)
        for sent in send_unsent(self.output, deliver, only=self.tracking_uri):
            if sent.n_sent:
                warn_plainly(
                    f"{sent.n_sent} calls that an earlier command for {self.output} kept are sent "
                    f"to {sent.tracking_uri}"
                )
            for trouble in filter(None, [*sent.refused, sent.reason]):
                warn_plainly(
                    f"not all that an earlier command for {self.output} kept is sent: {trouble}"
                )

    def _finish(self) -> None:
        """Forget the process; say what a server has not taken."""
        self._at_work.close()
        client = self._spooling
        if client is not None and not client.settle():
            refused, why = client.refused, ""
            if refused:
                why = f", {len(refused)} of them as the server refuses them ({refused[0]})"
            warn_plainly(
                f"the MLflow run at {self.tracking_uri} is incomplete: {client.n_unsent} calls are "
                f"kept in {self.output}{why}: 'rankplug track "
                f"{shlex.quote(str(self.output))}' sends them when the server answers"
            )

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
            self._trained[name] = child.run
            model_id = self._attempt(lambda _: child.run.log_model(model, name, params))
            if model_id is not None:
                self._models[name] = child.run, model_id
        metrics = history_metrics(history, child.started)
        metrics += _outcome_metrics(outcome, self._scored, model_id)
        tags = {STATUS: outcome.status}
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

    def _log_pictures(self, report: Report) -> None:
        for name, pictures in draw_pictures(report).items() if self._trained else ():
            for file, svg in pictures.items():
                if name in self._trained:
                    self._trained[name].log_text(svg, file)


def send_kept(output: str | Path, tracking_uri: str | None = None) -> Iterator[Sent]:
    """Send what commands for an output folder have kept, and end the runs of those killed.

    What was sent before is not sent again.

    Parameters
    ----------
    output : path
    tracking_uri : str, optional
        Another server than the one that did not answer.
    """
    folder = Path(output)
    for sent in send_unsent(folder, partial(_deliver, folder), tracking_uri):
        if sent.experiment is not None and sent.tracking_uri is not None:
            client = MlflowClient(tracking_uri=sent.tracking_uri)
            with suppress(MlflowException), bounded_requests():
                _end_killed_runs(Store(client, sent.tracking_uri, sent.experiment), folder)
        yield sent


def _deliver(output: Path, tracking_uri: str) -> Delivery:
    ensure_database(tracking_uri)
    client = MlflowClient(tracking_uri=tracking_uri)
    return Delivery(client, artifact_location=artifact_location(output, tracking_uri))


def _processes(output: Path) -> Workers:
    return Workers(output / ".tracking", shared=True)


def _end_killed_runs(store: Store, output: Path) -> None:
    """End the runs of commands for a folder whose process is gone."""
    processes = _processes(output)
    for run in store.search("attributes.status = 'RUNNING'"):
        known, run_id = run.data.tags, run.info.run_id
        if known.get(_OUTPUT) != str(output.absolute()) or run_id == store.run_id:
            continue
        if not processes.alive(known.get(_PROCESS, "")):
            TrackedRun(store, run_id).end("KILLED")
            if STATUS in known:
                store.client.set_tag(run_id, STATUS, "killed")


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
    for section in ("clicks", "tune", "compare"):
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
    tags = {STATUS: words[status]}
    if error is not None:
        tags["rankplug.error"] = f"{type(error).__name__}: {error}"
    run.log(tags=tags)
    run.end(status)
