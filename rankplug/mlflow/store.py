"""Tracking stores: the server or database, the experiment in it, and what to do in trouble."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from mlflow import MlflowClient
from mlflow.entities import DatasetInput, Experiment, Run
from mlflow.exceptions import MlflowException
from mlflow.tracking.context.registry import resolve_tags

from rankplug.exceptions import RankplugError
from rankplug.mlflow.database import (
    SQLITE,
    TrackingError,
    database_file,
    database_uri,
    ensure_database,
)
from rankplug.system.signals import deferred

T = TypeVar("T")

_EXPERIMENT = "rankplug"
_SILENCE = 5.0  # seconds without a word for which nobody believes that a command has hung
_DATABASE_REMEDY = "name another database with --tracking-uri or MLFLOW_TRACKING_URI"
_SERVER_REMEDY = (
    "start the server, or name another with --tracking-uri or MLFLOW_TRACKING_URI (leave both out "
    "for a database in the output folder)"
)


@dataclass(frozen=True)
class Store:
    """An experiment that can be written to.

    `run_id` is the run that MLflow started for this process, as ``mlflow run`` does, and `tags` are
    those of every run that is made here. `spools` says that the client keeps what a server does not
    take.
    """

    client: MlflowClient
    tracking_uri: str
    experiment_id: str
    run_id: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    spools: bool = False

    @cached_property
    def context(self) -> Mapping[str, str]:
        """What MLflow says of this process in the tags of its runs: user, program, commit."""
        tags: Mapping[str, str] = resolve_tags()
        return tags

    def search(self, condition: str) -> list[Run]:
        """The runs of the experiment for which the condition, in MLflow's words, holds."""
        runs: list[Run] = []
        token = None
        while True:
            page = self.client.search_runs([self.experiment_id], condition, page_token=token)
            runs += page
            token = page.token
            if not token:
                return runs


def is_server(tracking_uri: str) -> bool:
    """Whether it is a tracking server, which may not answer."""
    return tracking_uri.startswith("http")


def uninterrupted(tracking_uri: str) -> AbstractContextManager[None]:
    """Let signals wait for what is asked of a database, which they would leave locked.

    Not for a server, which may let wait itself.
    """
    return nullcontext() if is_server(tracking_uri) else deferred(once=True)


def resolve_tracking_uri(output: Path, tracking_uri: str | None = None) -> str:
    """The given URI, else ``MLFLOW_TRACKING_URI``, else an SQLite file in the output folder."""
    if tracking_uri:
        return tracking_uri
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        return uri
    return database_uri(output / "mlflow.db")


@dataclass(frozen=True)
class Place:
    """Where runs go in a store, as environment variables of MLflow's say.

    The experiment of the run that MLflow started for this process, else the one of that id, else
    the one of that name, else ``rankplug``.
    """

    experiment_id: str | None = None
    experiment_name: str | None = None
    run_id: str | None = None

    @classmethod
    def of_process(cls, tracking_uri: str) -> Place:
        """What the variables of this process say; a run is one of its own store only."""
        variables = os.environ
        ours = tracking_uri == variables.get("MLFLOW_TRACKING_URI")
        return cls(
            variables.get("MLFLOW_EXPERIMENT_ID") or None,
            variables.get("MLFLOW_EXPERIMENT_NAME") or None,
            (variables.get("MLFLOW_RUN_ID") or None) if ours else None,
        )


def connect(output: Path, tracking_uri: str, client: MlflowClient | None = None) -> Store:
    """Open the store and find or create the experiment, that of `Place.of_process`.

    Nothing global is changed: no tracking URI is set. To be called within `opening`.
    """
    ensure_database(tracking_uri)
    client = client or MlflowClient(tracking_uri=tracking_uri)
    place = Place.of_process(tracking_uri)
    with uninterrupted(tracking_uri):
        experiment = find_experiment(client, place, artifact_location(output, tracking_uri))
    return Store(client, tracking_uri, str(experiment.experiment_id), place.run_id)


@contextmanager
def opening(tracking_uri: str, *, spools: bool = False) -> Iterator[None]:
    """First use of a store: quickly, quietly, and with one kind of error.

    A client that `spools` bounds its requests itself.

    Raises
    ------
    TrackingError
        If the store cannot be reached or written to, or has no such run or experiment.
    """
    try:
        bounds = nullcontext() if spools else _short_timeouts()
        with bounds, _quiet(), telling_of_silence(tracking_uri):
            yield
    except TrackingError:
        raise
    except Exception as error:
        remedy = _DATABASE_REMEDY if tracking_uri.startswith(SQLITE) else _SERVER_REMEDY
        raise TrackingError(
            f"cannot track the run at {tracking_uri}: {first_line(error)}; {remedy}"
        ) from error


def find_experiment(
    client: MlflowClient, place: Place, artifact_location: str | None
) -> Experiment:
    """The experiment of a place, which is made if it is named only.

    Raises
    ------
    TrackingError
        If it was deleted.
    """
    if place.run_id is not None:
        return client.get_experiment(client.get_run(place.run_id).info.experiment_id)
    if place.experiment_id is not None:
        experiment = client.get_experiment(place.experiment_id)
    else:
        name = place.experiment_name or _EXPERIMENT
        experiment = _find_or_create(client, name, artifact_location)
    if experiment.lifecycle_stage != "active":
        raise TrackingError(
            f"the experiment {experiment.name!r} was deleted: restore it with 'mlflow experiments "
            f"restore -x {experiment.experiment_id}', or name another in MLFLOW_EXPERIMENT_NAME"
        )
    return experiment


def _find_or_create(client: MlflowClient, name: str, artifact_location: str | None) -> Experiment:
    found = client.get_experiment_by_name(name)
    if found is not None:
        return found
    try:
        return client.get_experiment(client.create_experiment(name, artifact_location))
    except MlflowException:
        # Another process may have been faster.
        found = client.get_experiment_by_name(name)
        if found is None:
            raise
        return found


def add_inputs(client: MlflowClient, run_id: str, inputs: list[DatasetInput]) -> None:
    """Log data sets as inputs of a run, also when another process adds the same one meanwhile.

    MLflow's database looks whether it has a data set before it adds it, and refuses the second of
    two processes that both found nothing. When that one looks again, the data set is there.
    """
    try:
        client.log_inputs(run_id, inputs)
    except MlflowException as error:
        if "INSERT INTO datasets" not in str(error):
            raise
        client.log_inputs(run_id, inputs)


def artifact_location(output: Path, tracking_uri: str) -> str | None:
    """Where artifacts go; None leaves it to the server.

    For a database MLflow would choose ``./mlruns``, wherever the process happens to run.
    """
    if tracking_uri.startswith(SQLITE):
        return (database_file(tracking_uri).parent / "mlartifacts").as_uri()
    if "://" in tracking_uri and not tracking_uri.startswith(("http", "databricks", "uc")):
        return (output.absolute() / "mlartifacts").as_uri()
    return None


def _short_timeouts() -> AbstractContextManager[None]:
    """Give up on a server within seconds; MLflow's default is minutes."""
    return environment_defaults(
        MLFLOW_HTTP_REQUEST_MAX_RETRIES="2", MLFLOW_HTTP_REQUEST_TIMEOUT="20"
    )


@contextmanager
def telling_of_silence(tracking_uri: str) -> Iterator[None]:
    """Say after some seconds that a server has not answered yet."""
    waiting = threading.Timer(
        _SILENCE,
        warnings.warn,
        (
            f"the tracking server at {tracking_uri} has not answered for {_SILENCE:g} seconds; "
            "waiting for it",
            RuntimeWarning,
        ),
    )
    waiting.daemon = True
    if is_server(tracking_uri):
        waiting.start()
    try:
        yield
    finally:
        waiting.cancel()


@contextmanager
def environment_defaults(**variables: str) -> Iterator[None]:
    """Environment variables for a while, where the user has not set them."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the reports on the tables that MLflow makes in a new database."""
    logger = logging.getLogger("mlflow.store.db.utils")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


class LogGuard:
    """Keeps trouble with the log away from the work that is logged.

    A step that fails is reported and skipped. Steps give up on a server, and after the first
    failure on any store, within seconds instead of minutes.

    Parameters
    ----------
    report : callable
        Is given the error, as ``"ConnectionError: server gone"``.
    tracking_uri : str
        Of the server, if it is one: that it does not answer is said after five seconds.
    spools : bool
        The store's client bounds its requests itself, and keeps what a server does not take.

    Attributes
    ----------
    lost : bool
        Whether something was not logged. A model that rankplug itself refuses to save does not
        count.
    """

    def __init__(
        self, report: Callable[[str], None], tracking_uri: str, *, spools: bool = False
    ) -> None:
        self._report = report
        self._tracking_uri = tracking_uri
        self._spools = spools
        self._in_trouble = is_server(tracking_uri)
        self.lost = False

    def attempt(self, step: Callable[..., T], *args: Any, **kwargs: Any) -> T | None:
        """Call `step`; None if it fails."""
        try:
            bound = self._in_trouble and not self._spools
            short = _short_timeouts() if bound else nullcontext()
            with short, telling_of_silence(self._tracking_uri), uninterrupted(self._tracking_uri):
                return step(*args, **kwargs)
        except Exception as error:
            self._in_trouble = True
            self.lost |= isinstance(error, TrackingError) or not isinstance(error, RankplugError)
            self._report(f"{type(error).__name__}: {first_line(error)}")
            return None


def warn_incomplete(run_id: str | None, tracking_uri: str, trouble: str, unaffected: str) -> None:
    """Warn that a run's log is incomplete, and that the work it describes is not."""
    warnings.warn(
        f"the MLflow run {run_id} at {tracking_uri} is incomplete: {trouble} ({unaffected} is not "
        "affected)",
        RuntimeWarning,
        stacklevel=2,
    )


def warn_plainly(text: str) -> None:
    """Warn of something that is no mistake of the caller's."""
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
