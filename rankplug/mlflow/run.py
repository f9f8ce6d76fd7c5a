"""Runs of MLflow: parameters, metrics, data sets and models, written through a client.

Nothing global is changed or read, so runs may be written in any thread.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from mlflow.data.schema import TensorDatasetSchema
from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    LoggedModelOutput,
    Metric,
    Param,
    RunTag,
)
from mlflow.models import Model as MlflowModel
from mlflow.tracking.context.registry import resolve_tags
from mlflow.types import Schema, TensorSpec

from rankplug import __version__
from rankplug.metrics import parse_metric
from rankplug.mlflow.flavor import save_model
from rankplug.mlflow.spooling import SpoolingClient
from rankplug.mlflow.steps import Delivery, EndRun, Register, RunStatus
from rankplug.mlflow.store import Store, add_inputs
from rankplug.models import Model
from rankplug.recipe import Files, OneFile, Recipe
from rankplug.runner import data_digest
from rankplug.solver import Data, SolverResult

CHAMPION = "champion"
"""Alias of the version of a registered model that is to be used."""

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
        tags = {**store.context, **store.tags, **tags}
        run = store.client.create_run(store.experiment_id, tags=tags, run_name=name)
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
        add_inputs(self.store.client, self.run_id, list(inputs))

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

    def register(self, model_id: str, name: str, alias: str) -> int | None:
        """Make a logged model a version of a registered one, with the alias.

        Returns its number, or None if the server does not answer and this is kept for later.
        """
        client = self.store.client
        if isinstance(client, SpoolingClient):
            return client.register(name, alias, model_id, self.run_id)
        step = Register(name=name, alias=alias, model=model_id, run=self.run_id)
        return step.send(Delivery(client))

    def end(self, status: RunStatus) -> None:
        """End the run."""
        now = _milliseconds(time.time())
        if isinstance(self.store.client, SpoolingClient):
            self.store.client.set_terminated(self.run_id, status, now)
        else:
            EndRun(run=self.run_id, status=status, end_time=now).send(Delivery(self.store.client))


def _batches(items: Sequence[Any], size: int = _OTHERS_PER_BATCH) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def history_metrics(history: Sequence[Mapping[str, float]], started: float) -> list[Metric]:
    """A metric for each number of each row, at the time when the row was reached."""
    metrics = []
    for row in history:
        when, step = _milliseconds(started + row["seconds"]), int(row["n_iter"])
        for name, value in row.items():
            if name != "n_iter":
                # The characters that MLflow allows.
                key = re.sub(r"[^\w\-. :/]", "_", name.replace("@", "_at_"))
                metrics.append(Metric(key, float(value), when, step))
    return metrics


def metrics_at(step: int, values: Mapping[str, float | None]) -> list[Metric]:
    """A metric of now for each value that is known; a curve of the history goes on with it."""
    now = _milliseconds(time.time())
    return [
        Metric(name, float(value), now, step) for name, value in values.items() if value is not None
    ]


def result_values(result: SolverResult) -> dict[str, float | None]:
    """The numbers of a solver's result that are metrics of its run."""
    names = ("n_iter", "n_passes", "objective", "duality_gap")
    return {name: getattr(result, name) for name in names}


def score_metrics(
    split: str, values: Mapping[str, float], data: DatasetInput | None, model_id: str | None
) -> list[Metric]:
    """The metrics of a set, tied to the set and to the model in MLflow's pages."""
    prefix = "" if split == "test" else f"{split}_"
    ties: dict[str, Any] = {"model_id": model_id}
    if data is not None:
        ties |= {"dataset_name": data.dataset.name, "dataset_digest": data.dataset.digest}
    now = _milliseconds(time.time())
    return [
        Metric(prefix + parse_metric(name).log_name, float(value), now, 0, **ties)
        for name, value in values.items()
    ]


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


_CONTEXTS = {"train": "training", "valid": "validation", "test": "testing"}


def dataset_inputs(recipe: Recipe, splits: Mapping[str, Data]) -> dict[str, DatasetInput]:
    """The splits of a recipe as MLflow describes inputs, tagged with their use.

    Digests are those of the data as the solvers get them, that is after scaling.
    """
    return {
        split: describe_input(data, _CONTEXTS.get(split, split), *_source(recipe, split))
        for split, data in splits.items()
    }


def describe_input(
    data: Data, context: str, name: str, source_type: str, source: Mapping[str, Any]
) -> DatasetInput:
    """Data as MLflow describes an input of a run, with their use, such as "training".

    `source_type` and `source` say where they come from, as MLflow's ``DatasetSource`` writes it.
    """
    features = Schema([TensorSpec(np.dtype(data.X.dtype), (-1, data.n_features))])
    targets = Schema([TensorSpec(data.relevance.dtype, (-1, *data.relevance.shape[1:]))])
    profile = {"num_rows": data.n_samples, "num_features": data.n_features}
    if data.n_labels is None:
        profile["num_queries"] = data.n_examples
    else:
        profile["num_labels"] = data.n_labels
    dataset = Dataset(
        name=name,
        digest=data_digest(data),
        source_type=source_type,
        source=json.dumps(source),
        schema=json.dumps(TensorDatasetSchema(features, targets).to_dict()),
        profile=json.dumps(profile),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", context)])


def _source(recipe: Recipe, split: str) -> tuple[str, str, dict[str, Any]]:
    """Name, and source as MLflow reads it: a local file, or code, which embedded data come from."""
    if isinstance(recipe.data, Files | OneFile):
        whole = isinstance(recipe.data, OneFile)
        file = Path(getattr(recipe.data, "file" if whole else split)).absolute()
        return f"{file.parent.name}/{file.name}", "local", {"uri": str(file)}
    tags = {"package": f"rankplug {__version__}", "dataset": recipe.data.dataset, "split": split}
    tags |= {f"params.{key}": str(value) for key, value in recipe.data.params.items()}
    return f"{recipe.data.dataset}/{split}", "code", {"tags": tags}
