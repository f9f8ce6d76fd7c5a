"""MLflow's client for a server that may stop answering: what it does not take goes to the spool."""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mlflow import MlflowClient
from mlflow.entities import (
    DatasetInput,
    LoggedModel,
    LoggedModelOutput,
    Metric,
    Param,
    Run,
    RunData,
    RunInfo,
    RunTag,
)
from mlflow.store.entities import PagedList

from rankplug.mlflow.spool import Spool, Where, bounded_requests, is_outage, reason_of
from rankplug.mlflow.steps import (
    CreateModel,
    CreateRun,
    DataRow,
    DeleteRun,
    DeleteTag,
    Delivery,
    EndRun,
    FinalizeModel,
    LogBatch,
    LogFile,
    LogInputs,
    LogModelFiles,
    LogOutputs,
    LogText,
    MetricRow,
    Register,
    ReopenRun,
    Step,
    location_of,
    new_id,
)
from rankplug.mlflow.store import Place

# Seconds: how long a server that was silent is given to answer when it is asked again, and after
# how long that is, the first time and at most. Asking takes at most a tenth of the time.
_PROBE = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
_TIMES_THE_PROBE = 10.0

T = TypeVar("T")

_TAG = re.compile(r"tags\.`([^`]+)` = '([^']*)'")


class SpoolingClient(MlflowClient):
    """The calls that runs of recipes need; each is made, or kept when the server does not answer.

    From the first call that fails so on, all go to a spool in the output folder. The server is
    asked again from time to time, and when it answers, the spool is sent and calls are made as
    before. Questions are answered from what this client has made while the server is silent.

    Parameters
    ----------
    tracking_uri : str
    output : path
    tell : callable
        Is given a line when the server falls silent, and when it is back.
    """

    def __init__(self, tracking_uri: str, output: Path, tell: Callable[[str], None]) -> None:
        super().__init__(tracking_uri=tracking_uri)
        self._output = output
        self._tell = tell
        self._where = Where.of(tracking_uri, Place.of_process(tracking_uri))
        self._to = Delivery(MlflowClient(tracking_uri=tracking_uri))
        self._spool: Spool | None = None
        self._is_down = False
        self._pause, self._next = _FIRST_PAUSE, 0.0
        self._runs: dict[str, Run] = {}
        self._lock = threading.RLock()

    @property
    def n_unsent(self) -> int:
        """How many calls are kept."""
        return 0 if self._spool is None else self._spool.n_unsent

    @property
    def refused(self) -> list[str]:
        """What the server said of calls that it refused when they were sent later."""
        return [] if self._spool is None else list(self._spool.refused.values())

    def fall(self, error: Exception) -> None:
        """Keep what follows, since the server does not answer."""
        self._is_down = True
        self._pause = _FIRST_PAUSE
        self._next = time.monotonic() + self._pause
        self._tell(
            f"the tracking server at {self.tracking_uri} does not answer ({reason_of(error)}); "
            f"what is logged is kept in {self._output}, and sent when it answers again"
        )

    def catch_up(self, *, now: bool = False) -> None:
        """Send what was kept if the server is back; it is asked when a pause is over, or now."""
        if not self._is_down or not (now or time.monotonic() >= self._next):
            return
        started = time.monotonic()
        try:
            with bounded_requests(_PROBE):
                self._to.client.search_experiments(max_results=1)
            n_sent = self._send()
        except Exception:
            self._pause = min(2.0 * self._pause, _LONGEST_PAUSE)
            spent = time.monotonic() - started
            self._next = time.monotonic() + max(self._pause, _TIMES_THE_PROBE * spent)
            return
        self._is_down = False
        self._tell(
            f"the tracking server at {self.tracking_uri} answers again: what was kept is sent "
            f"({n_sent} calls)"
        )

    def settle(self) -> bool:
        """Send what can be sent now; whether nothing is left.

        What is left may be sent by other processes from now on.
        """
        with self._lock:
            self.catch_up(now=True)
            if self._spool is not None and self._spool.n_unsent == 0:
                self._spool.remove()
                self._spool = None
            elif self._spool is not None:
                self._spool.release()
            return self.n_unsent == 0

    def _send(self) -> int:
        if self._spool is None:
            return 0
        before = self._spool.refused
        with bounded_requests():
            n_sent = self._spool.send(self._to)
        for number, refused in self._spool.refused.items():
            if number not in before:
                self._tell(f"the tracking server refuses what was kept: {refused}")
        return n_sent

    def _do(self, step: Step) -> Any:
        """Make a call, or keep it and return None."""
        with self._lock:
            self.catch_up()
            if not self._is_down:
                if getattr(step, "run", None) in self._to.left:
                    return None
                try:
                    with bounded_requests():
                        return step.send(self._to)
                except Exception as error:
                    if not is_outage(error):
                        raise
                    self.fall(error)
            if self._spool is None:
                self._spool = Spool.create(self._output, self._where, self._to)
            self._spool.append(step)
            return None

    # Runs

    def create_run(
        self,
        experiment_id: str,
        start_time: int | None = None,
        tags: dict[str, Any] | None = None,
        run_name: str | None = None,
    ) -> Run:
        """Make a run."""
        ours, start = new_id(), start_time or _now()
        tags = {key: str(value) for key, value in (tags or {}).items()}
        name = run_name or "run"
        self._do(
            CreateRun(run=ours, experiment=experiment_id, name=name, start_time=start, tags=tags)
        )
        run_id = self._to.of(ours)
        info = RunInfo(run_id, experiment_id, "", "RUNNING", start, None, "active", run_name=name)
        self._runs[run_id] = Run(info, RunData(tags=[RunTag(*tag) for tag in tags.items()]))
        return self._runs[run_id]

    def log_batch(
        self,
        run_id: str,
        metrics: Sequence[Metric] = (),
        params: Sequence[Param] = (),
        tags: Sequence[RunTag] = (),
        synchronous: bool | None = None,
    ) -> None:
        """Log metrics, parameters and tags."""
        step = LogBatch(
            run=run_id,
            metrics=[MetricRow.of(metric) for metric in metrics],
            params={param.key: str(param.value) for param in params},
            tags={tag.key: str(tag.value) for tag in tags},
        )
        self._do(step)
        if run_id in self._runs:
            self._runs[run_id].data.tags.update(step.tags)

    def set_tag(self, run_id: str, key: str, value: Any, synchronous: bool | None = None) -> None:
        """Set a tag."""
        self.log_batch(run_id, tags=[RunTag(key, str(value))])

    def delete_tag(self, run_id: str, key: str) -> None:
        """Delete a tag."""
        self._do(DeleteTag(run=run_id, tag=key))
        if run_id in self._runs:
            self._runs[run_id].data.tags.pop(key, None)

    def update_run(self, run_id: str, status: str | None = None, name: str | None = None) -> None:
        """Go on with a run."""
        self._do(ReopenRun(run=run_id))

    def delete_run(self, run_id: str) -> None:
        """Delete a run."""
        self._do(DeleteRun(run=run_id))
        self._runs.pop(run_id, None)

    def set_terminated(
        self, run_id: str, status: str | None = None, end_time: int | None = None
    ) -> None:
        """End a run."""
        ending: Any = status or "FINISHED"
        self._do(EndRun(run=run_id, status=ending, end_time=end_time or _now()))
        if run_id in self._runs:
            self._runs[run_id].info._status = ending

    def log_inputs(
        self, run_id: str, datasets: Sequence[DatasetInput] | None = None, models: Any = None
    ) -> None:
        """Log data sets as inputs."""
        self._do(LogInputs(run=run_id, inputs=[DataRow.of(one) for one in datasets or ()]))

    def log_text(self, run_id: str, text: str, artifact_file: str) -> None:
        """Log a text as an artifact."""
        self._do(LogText(run=run_id, text=text, name=artifact_file))

    def log_artifact(
        self, run_id: str, local_path: str | Path, artifact_path: str | None = None
    ) -> None:
        """Log a file as an artifact."""
        path = Path(local_path)
        self._do(LogFile(run=run_id, file=path.name).at(path))

    def log_figure(
        self, run_id: str, figure: Any, artifact_file: str, *, save_kwargs: Any = None
    ) -> None:
        """Log a figure as an artifact."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, artifact_file)
            figure.savefig(path, **(save_kwargs or {}))
            self.log_artifact(run_id, path)

    # Models

    def create_logged_model(
        self,
        experiment_id: str,
        name: str | None = None,
        source_run_id: str | None = None,
        tags: dict[str, str] | None = None,
        params: dict[str, str] | None = None,
        model_type: str | None = None,
    ) -> LoggedModel:
        """Make a logged model."""
        ours, name, run = new_id(), name or "model", source_run_id or ""
        self._do(
            CreateModel(
                model=ours,
                experiment=experiment_id,
                run=run,
                name=name,
                tags=tags or {},
                params=params or {},
            )
        )
        location = self._to.of(location_of(ours))
        return LoggedModel(experiment_id, self._to.of(ours), name, location, _now(), _now())

    def log_model_artifacts(
        self, model_id: str, local_dir: str, artifact_path: str | None = None
    ) -> None:
        """Log the files of a model."""
        folder = Path(local_dir)
        self._do(LogModelFiles(model=model_id, file=folder.name).at(folder))

    def finalize_logged_model(self, model_id: str, status: Any) -> None:  # type: ignore[override]
        """Set a model's state."""
        self._do(FinalizeModel(model=model_id, status=status))

    def log_outputs(self, run_id: str, models: list[LoggedModelOutput]) -> None:
        """Log models as outputs of a run."""
        self._do(LogOutputs(run=run_id, models=[model.model_id for model in models]))

    def register(self, name: str, alias: str, model_id: str, run_id: str) -> int | None:
        """Register a model; returns the version, None if that is kept for later."""
        version: int | None = self._do(Register(name=name, alias=alias, model=model_id, run=run_id))
        return version

    # Questions

    def get_run(self, run_id: str) -> Run:
        """The run, as this client knows it if the server does not answer."""
        return self._ask(
            lambda: MlflowClient.get_run(self, self._to.of(run_id)), lambda: self._runs[run_id]
        )

    def search_runs(self, experiment_ids: list[str], filter_string: str = "", **kwargs: Any) -> Any:  # type: ignore[override]
        """The runs that were found, as this client knows them if the server does not answer."""
        question = filter_string
        for ours, theirs in self._to.ids.items():
            question = question.replace(ours, theirs)
        experiments = [self._to.of(one) for one in experiment_ids]
        found = self._ask(
            lambda: MlflowClient.search_runs(self, experiments, question, **kwargs),
            lambda: self._known(filter_string),
        )
        self._runs |= {run.info.run_id: run for run in found}
        return found

    def _ask(self, ask: Callable[[], T], remember: Callable[[], T]) -> T:
        with self._lock:
            self.catch_up()
            if not self._is_down:
                try:
                    with bounded_requests():
                        return ask()
                except Exception as error:
                    if not is_outage(error):
                        raise
                    self.fall(error)
            return remember()

    def _known(self, filter_string: str) -> PagedList[Run]:
        """The runs that this client has made or seen with the tags of a condition."""
        wanted = dict(_TAG.findall(filter_string))
        runs = self._runs.values() if wanted else ()
        found = [run for run in runs if wanted.items() <= run.data.tags.items()]
        return PagedList(found, None)


def _now() -> int:
    return round(1000 * time.time())
