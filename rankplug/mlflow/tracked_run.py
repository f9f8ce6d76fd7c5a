"""One MLflow run, written through a client: no global state, safe in any thread."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from mlflow.entities import DatasetInput, LoggedModelOutput, Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.models import Model as MlflowModel
from mlflow.tracking.context.registry import resolve_tags

from rankplug.mlflow.flavor import save_model
from rankplug.mlflow.store import Store, environment_defaults
from rankplug.models import Model

__all__ = ["RunStatus", "TrackedRun"]

RunStatus = Literal["FINISHED", "FAILED", "KILLED"]

# MLflow takes 1,000 items a request, of which 100 parameters and 100 tags.
_METRICS_PER_BATCH = 800
_OTHERS_PER_BATCH = 100


@dataclass(frozen=True)
class TrackedRun:
    """A run that is going on."""

    store: Store
    run_id: str

    @classmethod
    def start(cls, store: Store, name: str) -> TrackedRun:
        """The run that MLflow started for this process, else a new one."""
        if store.run_id is not None:
            return cls(store, store.run_id)
        return cls._create(store, name, {})

    def start_child(self, name: str, tags: Mapping[str, str] | None = None) -> TrackedRun:
        """A new run below this one."""
        return self._create(self.store, name, {**(tags or {}), "mlflow.parentRunId": self.run_id})

    @classmethod
    def _create(cls, store: Store, name: str, tags: dict[str, str]) -> TrackedRun:
        run = store.client.create_run(store.experiment_id, tags=resolve_tags(tags), run_name=name)
        return cls(store, run.info.run_id)

    def log(
        self,
        *,
        params: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
        metrics: Sequence[Metric] = (),
    ) -> None:
        """Log parameters (as text), tags and metrics in as few requests as MLflow allows."""
        parts = zip_longest(
            _batches(metrics, _METRICS_PER_BATCH),
            _batches([Param(key, str(value)) for key, value in (params or {}).items()]),
            _batches([RunTag(key, value) for key, value in (tags or {}).items()]),
            fillvalue=(),
        )
        for part in parts:
            self.store.client.log_batch(self.run_id, *part)

    def log_inputs(self, inputs: Iterable[DatasetInput]) -> None:
        """Log data sets as inputs."""
        self.store.client.log_inputs(self.run_id, list(inputs))

    def log_text(self, text: str, name: str) -> None:
        """Log a text as an artifact of that name."""
        self.store.client.log_text(self.run_id, text, name)

    def log_file(self, file: Path) -> None:
        """Log a file as an artifact of the same name."""
        self.store.client.log_artifact(self.run_id, str(file))

    def log_model(self, model: Model, name: str, params: Mapping[str, Any]) -> str:
        """Log a model as an output of the run; returns its id.

        Characters that MLflow does not allow in the name become ``-``.
        """
        client = self.store.client
        logged = client.create_logged_model(
            self.store.experiment_id,
            name=re.sub(r"[/:.%\"']", "-", name),
            source_run_id=self.run_id,
            tags=resolve_tags(),
            params={key: str(value) for key, value in params.items()},
        )
        model_id = str(logged.model_id)
        description = MlflowModel(
            artifact_path=logged.artifact_location,
            run_id=self.run_id,
            model_uuid=model_id,
            model_id=model_id,
        )
        try:
            with tempfile.TemporaryDirectory() as folder:
                save_model(model, Path(folder, "model"), mlflow_model=description)
                client.log_model_artifacts(model_id, str(Path(folder, "model")))
        except Exception:
            client.finalize_logged_model(model_id, "FAILED")
            raise
        client.log_outputs(self.run_id, [LoggedModelOutput(model_id, step=0)])
        client.finalize_logged_model(model_id, "READY")
        return model_id

    def register(self, model_id: str, name: str, alias: str) -> int:
        """Make a logged model a version of a registered one, with the alias; returns its number."""
        client = self.store.client
        try:
            client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        # A database would look up models:/ID where MLflow's global tracking URI points to.
        is_server = self.store.tracking_uri.startswith("http")
        logged = client.get_logged_model(model_id)
        source = f"models:/{model_id}" if is_server else logged.artifact_location
        made = client.create_model_version(name, source, self.run_id, model_id=model_id)
        client.set_registered_model_alias(name, alias, made.version)
        return int(made.version)

    def end(self, status: RunStatus) -> None:
        """End the run, without the links that MLflow would print amid the progress bars."""
        with environment_defaults(MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT="true"):
            self.store.client.set_terminated(self.run_id, status)


def _batches(items: Sequence[Any], size: int = _OTHERS_PER_BATCH) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
