"""Studies in MLflow: a run for the study, a child run for each trial.

What is logged where:

study
    Named like the study. Parameters ``solver``, ``metric``, ``folds``, ``seed`` and so on; the
    value of the best trial as a metric, over the number of trials; ``history.png``,
    ``importance.png`` and ``slice.png``; the best model, if the study refits it. Tags
    ``rankplug.best_trial`` and ``rankplug.best.C`` and so on.
trials
    Named ``trial 7``. The searched parameters; the metric, the costs, ``train_seconds`` and
    ``n_passes``; ``fold_ndcg_at_10`` and so on at step 0, 1, ... for each fold; of a path,
    ``path_C`` and ``path_ndcg_at_10`` for each C. Tag ``rankplug.state``: complete, pruned,
    failed or killed. The best one has the tag ``rankplug.best``.

All have the tag ``rankplug.study_id``, and trials ``rankplug.trial``, by which a resumed study
finds what is logged already.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Run
from optuna import Study
from optuna.visualization import matplotlib as plots

from rankplug.metrics import parse_metric
from rankplug.mlflow.run import CHAMPION, TrackedRun, metrics_at
from rankplug.mlflow.steps import ROLE, STUDY, TRIAL, RunStatus
from rankplug.mlflow.store import (
    LogGuard,
    Store,
    connect,
    opening,
    resolve_tracking_uri,
    uninterrupted,
    warn_incomplete,
)
from rankplug.system.locks import locked_here
from rankplug.tuning import StudyInfo, TrialRecord, TuneObserver, TuneResult

_STATUS: dict[str, RunStatus] = {
    "complete": "FINISHED",
    "pruned": "FINISHED",
    "failed": "FAILED",
    "killed": "KILLED",
}
_BEST = "rankplug.best"
_N_TRIALS = "rankplug.n_trials"
_MODEL = "rankplug.model_of_trial"

_PLOTS: dict[str, Callable[..., Any]] = {
    "history.png": plots.plot_optimization_history,
    "importance.png": plots.plot_param_importances,
    "slice.png": plots.plot_slice,
}


class MlflowTuneObserver(TuneObserver):
    """Logs a study to MLflow while it goes.

    The tracking URI is the given one, else ``MLFLOW_TRACKING_URI``, else an SQLite file in the
    output folder. `study_started` raises `TrackingError` if runs cannot be logged there;
    whatever goes wrong later is a warning.

    Parameters
    ----------
    output : path
        Folder of the database, if there is no other place.
    tracking_uri : str, optional
    parent : TrackedRun, optional
        The run below which the study's is put; it says where.
    guard : LogGuard, optional
        Of the parent's log: then even a study that cannot be started there costs the log only.
    register_as : str, optional
        Registers the best model under that name, with the alias "champion", if the study refits
        it.
    """

    def __init__(
        self,
        output: str | Path = ".",
        tracking_uri: str | None = None,
        *,
        parent: TrackedRun | None = None,
        guard: LogGuard | None = None,
        register_as: str | None = None,
    ) -> None:
        self.output = Path(output)
        self.tracking_uri = (
            resolve_tracking_uri(self.output, tracking_uri)
            if parent is None
            else parent.store.tracking_uri
        )
        self._parent = parent
        self._start_guard = guard
        self._spools = parent is not None and parent.store.spools
        self._guard = LogGuard(self._warn, self.tracking_uri, spools=self._spools)
        self._register_as = register_as
        self._log: _StudyLog | None = None

    @property
    def run_id(self) -> str | None:
        """The study's run, once it has started."""
        return None if self._log is None else self._log.run.run_id

    @property
    def lost(self) -> bool:
        """Whether something was not logged."""
        return self._guard.lost

    def study_started(self, info: StudyInfo, earlier: Sequence[TrialRecord]) -> None:
        """Start the study's run or go on with it, and log the trials that nobody has logged."""
        if self._start_guard is None:
            self._start(info)
        else:
            self._start_guard.attempt(self._start, info)
        self._attempt(lambda log: log.add_missing(earlier))

    def trial_finished(self, trial: TrialRecord) -> None:
        """Log the trial."""
        self._attempt(lambda log: log.add(trial))

    def study_finished(self, result: TuneResult) -> None:
        """Log what is known of the whole study, unless another process has done so."""
        self._attempt(lambda log: log.close(result, self._register_as))

    def study_failed(self, error: BaseException) -> None:
        """End the run."""
        self._attempt(lambda log: log.abandon(error))

    def _start(self, info: StudyInfo) -> None:
        with opening(self.tracking_uri, spools=self._spools), locked_here(info.id):
            parent: TrackedRun | Store | None = self._parent
            if parent is None:
                parent = connect(self.output, self.tracking_uri)
                if parent.run_id is not None:
                    parent = TrackedRun(parent, parent.run_id)
            with uninterrupted(self.tracking_uri):
                run = _study_run(info, parent)
        self._log = _StudyLog(run, info)

    def _attempt(self, step: Callable[[_StudyLog], None]) -> None:
        """Log something; trouble is a warning."""
        if self._log is not None:
            self._guard.attempt(step, self._log)

    def _warn(self, trouble: str) -> None:
        warn_incomplete(self.run_id, self.tracking_uri, trouble, "the study")


@dataclass(frozen=True)
class _StudyLog:
    """The run of a study."""

    run: TrackedRun
    info: StudyInfo

    def add_missing(self, trials: Sequence[TrialRecord]) -> None:
        """Log trials whose process is gone, but not twice; what it has half logged goes."""
        children = self._children()
        for trial in trials:
            logged = children.get(trial.number)
            if logged is not None and logged.info.status != _STATUS[trial.state]:
                self.run.store.client.delete_run(logged.info.run_id)
                logged = None
            if logged is None:
                self.add(trial)

    def add(self, trial: TrialRecord) -> None:
        """Log a trial."""
        tags = {STUDY: self.info.id, TRIAL: str(trial.number), "rankplug.state": trial.state}
        child = self.run.start_child(f"trial {trial.number}", tags)
        params = {"solver": self.info.solver.name, **trial.params}
        # Of any length, which a new run does not take.
        error = {} if trial.error is None else {"rankplug.error": trial.error}
        child.log(params=params, tags=error, metrics=self._metrics(trial))
        child.end(_STATUS[trial.state])

    def close(self, result: TuneResult, register_as: str | None) -> None:
        """Log what is known of the whole study and end its run."""
        # Other processes may be at the same point.
        with locked_here(self.info.id):
            self._add_best(result)
            for name, figure in _draw_figures(result.study, result.metric):
                self.run.store.client.log_figure(self.run.run_id, figure, name)
            self._add_model(result, register_as)
        self.run.end("FINISHED")

    def abandon(self, error: BaseException) -> None:
        """End the run of a study that could not go on."""
        self.run.log(tags={"rankplug.error": f"{type(error).__name__}: {error}"})
        self.run.end("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")

    def _add_best(self, result: TuneResult) -> None:
        client, best = self.run.store.client, result.best
        for number, child in self._children().items():
            if number == best.number:
                client.set_tag(child.info.run_id, _BEST, "true")
            elif _BEST in child.data.tags:
                client.delete_tag(child.info.run_id, _BEST)
        size = str(len(result.trials))
        if self._tag(_N_TRIALS) == size:
            return
        tags = {f"{_BEST}.{name}": str(value) for name, value in best.params.items()}
        tags |= {_N_TRIALS: size, "rankplug.best_trial": str(best.number)}
        self.run.log(tags=tags, metrics=self._values(best, step=len(result.trials)))

    def _add_model(self, result: TuneResult, register_as: str | None) -> None:
        """Log the refitted model, and register it, if it is not the one already there."""
        number = str(result.best.number)
        if result.best_result is None or self._tag(_MODEL) == number:
            return
        solver = result.best_solver
        params = {"solver": solver.name, **solver.get_params(deep=False)}
        model_id = self.run.log_model(result.best_result.model, solver.name, params)
        self.run.log(tags={_MODEL: number})
        if register_as is not None:
            self.run.register(model_id, register_as, CHAMPION)

    def _metrics(self, trial: TrialRecord) -> list[Metric]:
        name = parse_metric(self.info.metric).log_name
        metrics = self._values(trial)
        for fold, value in enumerate(trial.fold_values):
            metrics += metrics_at(fold, {f"fold_{name}": value})
        for number, step in enumerate(trial.path):
            metrics += metrics_at(number, {"path_C": step.C, f"path_{name}": step.value})
        return metrics + metrics_at(0, {"train_seconds": trial.seconds, "n_passes": trial.n_passes})

    def _values(self, trial: TrialRecord, step: int = 0) -> list[Metric]:
        names = [parse_metric(self.info.metric).log_name, *self.info.costs]
        # A trial without result has no values.
        return metrics_at(step, dict(zip(names, trial.values, strict=False)))

    def _children(self) -> dict[int, Run]:
        """The runs of trials, by number."""
        filter_string = f"tags.`mlflow.parentRunId` = '{self.run.run_id}'"
        runs = self.run.store.search(filter_string)
        return {int(run.data.tags[TRIAL]): run for run in runs if TRIAL in run.data.tags}

    def _tag(self, name: str) -> str | None:
        tags: dict[str, str] = self.run.store.client.get_run(self.run.run_id).data.tags
        return tags.get(name)


def _study_run(info: StudyInfo, parent: TrackedRun | Store) -> TrackedRun:
    """The run that the study has already, which then is put below `parent`, or a new one."""
    store = parent if isinstance(parent, Store) else parent.store
    found = store.search(f"tags.`{STUDY}` = '{info.id}' and tags.`{ROLE}` = 'study'")
    if found:
        run = TrackedRun(store, found[0].info.run_id)
        store.client.update_run(run.run_id, status="RUNNING")
        below = {"mlflow.parentRunId": parent.run_id} if isinstance(parent, TrackedRun) else {}
        run.log(tags={**store.tags, **below})
        return run
    if isinstance(parent, TrackedRun):
        run = parent.start_child(info.name, {STUDY: info.id, ROLE: "study"})
    else:
        run = TrackedRun.start(store, info.name)
    params = dict(info.setup)
    params |= {f"fixed.{name}": value for name, value in params.pop("params").items()}
    run.log(params=params, tags={STUDY: info.id, ROLE: "study"})
    return run


def _draw_figures(study: Study, metric: str) -> Iterator[tuple[str, Any]]:
    """File names and figures: the metric over the trials, its parameters' importance, and slices.

    A plot that has too little to show, such as the importance in a single trial, is left out.
    Every figure is closed when the next one is asked for; style settings stay as they were.
    """
    import matplotlib
    from matplotlib import pyplot

    for name, plot in _PLOTS.items():
        with matplotlib.rc_context(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = set(pyplot.get_fignums())
            try:
                plot(study, target=lambda trial: float(trial.values[0]), target_name=metric)
                figure = pyplot.gcf()
                figure.set_size_inches(9, 5)
                figure.tight_layout()
                yield name, figure
            except (ValueError, RuntimeError):
                continue
            finally:
                for number in set(pyplot.get_fignums()) - before:
                    pyplot.close(number)
