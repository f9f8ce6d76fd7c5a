"""Calls of MLflow's client as records, which can be made at once, or kept and made later.

A step that was made twice, because its answer was lost, leaves what one would. What a step makes
has a name of ours, ``unsent-...``, which later steps use; `Delivery` knows the server's.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from mlflow import MlflowClient
from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    LoggedModelOutput,
    Metric,
    Param,
    Run,
    RunTag,
)
from mlflow.exceptions import MlflowException
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, TypeAdapter

from rankplug.mlflow.store import add_inputs, environment_defaults

KEY = "rankplug.key"
"""The tag of runs and models that tells one that was made already."""

RunStatus: TypeAlias = Literal["FINISHED", "FAILED", "KILLED"]

_PREFIX = "unsent-"
_PARENT = "mlflow.parentRunId"
# These make a run the same as one of another process.
STUDY, TRIAL, ROLE = "rankplug.study_id", "rankplug.trial", "rankplug.role"
_DESCRIPTION = "MLmodel"

Id: TypeAlias = Annotated[str, Field(max_length=256, pattern=r"^[A-Za-z0-9_/.:-]+$")]
FileName: TypeAlias = Annotated[str, Field(max_length=200, pattern=r"^\w[\w.-]*$")]


def new_id() -> str:
    """A name for what the server has not named yet."""
    return _PREFIX + uuid.uuid4().hex


def location_of(model: str) -> str:
    """A name for the place of a model that the server has not named yet."""
    return f"{model}/location"


@dataclass
class Delivery:
    """Where steps go.

    Attributes
    ----------
    client : MlflowClient
    folder : Path or None
        Where files of steps lie that were kept.
    ids : dict of str
        What the server calls what has a name of ours.
    left : set of str
        Runs of ours that another process has logged completely meanwhile.
    again : bool
        Whether a step may have been made before.
    artifact_location : str or None
        Where artifacts of an experiment go that has to be made; None leaves it to the server.
    """

    client: MlflowClient
    folder: Path | None = None
    ids: dict[str, str] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    again: bool = False
    artifact_location: str | None = None

    def of(self, name: str) -> str:
        """The server's name."""
        return self.ids.get(name, name)

    def find_run(self, experiment: str, **tags: str) -> Run | None:
        """The run of the experiment with these tags (``__`` stands for a dot)."""
        wanted = {name.replace("__", "."): value for name, value in tags.items()}
        condition = " and ".join(f"tags.`{name}` = '{value}'" for name, value in wanted.items())
        found = self.client.search_runs([experiment], condition, max_results=1)
        return found[0] if found else None


class _Step(BaseModel):
    # A metric may be NaN or infinite.
    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="strings")

    def send(self, to: Delivery) -> Any:
        """Make the call."""
        raise NotImplementedError


class CreateRun(_Step):
    """A new run, unless it is there: made by this step before, or a study's or trial's of old."""

    call: Literal["create_run"] = "create_run"
    run: Id
    experiment: Id
    name: str
    start_time: int
    tags: dict[str, str]

    def send(self, to: Delivery) -> None:
        """Make the run, or find it."""
        tags = {**self.tags, KEY: self.run}
        if _PARENT in tags:
            tags[_PARENT] = to.of(tags[_PARENT])
        experiment = to.of(self.experiment)
        found = self._find(to, experiment) if to.again else None
        if found is None:
            run = to.client.create_run(experiment, self.start_time, tags, self.name)
            to.ids[self.run] = run.info.run_id
            return
        to.ids[self.run] = found.info.run_id
        if found.data.tags.get(KEY) == self.run:
            return
        if TRIAL in tags and found.info.status != "RUNNING":
            to.left.add(self.run)
        else:
            to.client.log_batch(found.info.run_id, tags=[RunTag(*tag) for tag in tags.items()])

    def _find(self, to: Delivery, experiment: str) -> Run | None:
        found = to.find_run(experiment, rankplug__key=self.run)
        if found is None and STUDY in self.tags:
            same = {key: self.tags[key] for key in (STUDY, TRIAL, ROLE) if key in self.tags}
            if len(same) > 1:
                found = to.find_run(experiment, **same)
        return found


class MetricRow(BaseModel):
    """A metric, as MLflow takes it."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="strings")

    key: str
    value: float
    timestamp: int
    step: int
    model_id: str | None = None
    dataset_name: str | None = None
    dataset_digest: str | None = None

    @classmethod
    def of(cls, metric: Metric) -> MetricRow:
        """The row of a metric."""
        return cls(**{name: getattr(metric, name) for name in cls.model_fields})

    def metric(self, to: Delivery) -> Metric:
        """The metric of a row."""
        values = dict(self)
        if self.model_id is not None:
            values["model_id"] = to.of(self.model_id)
        return Metric(**values)


class LogBatch(_Step):
    """Metrics, parameters and tags of a run."""

    call: Literal["log_batch"] = "log_batch"
    run: Id
    metrics: list[MetricRow] = []
    params: dict[str, str] = {}
    tags: dict[str, str] = {}

    def send(self, to: Delivery) -> None:
        """Log them."""
        tags = {
            name: to.of(value) if name == _PARENT else value for name, value in self.tags.items()
        }
        to.client.log_batch(
            to.of(self.run),
            [row.metric(to) for row in self.metrics],
            [Param(*param) for param in self.params.items()],
            [RunTag(*tag) for tag in tags.items()],
        )


class DeleteTag(_Step):
    """The end of a tag."""

    call: Literal["delete_tag"] = "delete_tag"
    run: Id
    tag: str

    def send(self, to: Delivery) -> None:
        """Delete the tag."""
        _unless_gone(to, to.client.delete_tag, to.of(self.run), self.tag)


class DataRow(BaseModel):
    """A data set as input of a run."""

    model_config = ConfigDict(extra="forbid")

    name: str
    digest: str
    source_type: str
    source: str
    schema_: str | None
    profile: str | None
    tags: dict[str, str]

    @classmethod
    def of(cls, given: DatasetInput) -> DataRow:
        """The row of an input."""
        data = given.dataset
        return cls(
            name=data.name,
            digest=data.digest,
            source_type=data.source_type,
            source=data.source,
            schema_=data.schema,
            profile=data.profile,
            tags={tag.key: tag.value for tag in given.tags},
        )

    def input(self) -> DatasetInput:
        """The input of a row."""
        data = Dataset(
            self.name, self.digest, self.source_type, self.source, self.schema_, self.profile
        )
        return DatasetInput(data, [InputTag(*tag) for tag in self.tags.items()])


class LogInputs(_Step):
    """Data sets as inputs of a run."""

    call: Literal["log_inputs"] = "log_inputs"
    run: Id
    inputs: list[DataRow]

    def send(self, to: Delivery) -> None:
        """Log them."""
        add_inputs(to.client, to.of(self.run), [row.input() for row in self.inputs])


class LogText(_Step):
    """A text as an artifact."""

    call: Literal["log_text"] = "log_text"
    run: Id
    text: str
    name: FileName

    def send(self, to: Delivery) -> None:
        """Log it."""
        to.client.log_text(to.of(self.run), self.text, self.name)


class WithFile(_Step):
    """A step with a file or folder: where it is, until the step is kept, or a copy of it."""

    file: FileName
    copy_: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = None
    _original: Path | None = PrivateAttr(None)

    def at(self, path: Path) -> Self:
        """The step, with its file where it is."""
        self._original = path
        return self

    def original(self) -> Path:
        """Where the file is."""
        assert self._original is not None
        return self._original

    def path(self, to: Delivery) -> Path:
        """The file, or its copy."""
        if self.copy_ is None:
            return self.original()
        assert to.folder is not None
        return to.folder / self.copy_ / self.file


class LogFile(WithFile):
    """A file as an artifact of the same name."""

    call: Literal["log_file"] = "log_file"
    run: Id

    def send(self, to: Delivery) -> None:
        """Log it."""
        to.client.log_artifact(to.of(self.run), str(self.path(to)))


class CreateModel(_Step):
    """A new logged model, unless this step has made it before."""

    call: Literal["create_model"] = "create_model"
    model: Id
    experiment: Id
    run: Id
    name: str
    tags: dict[str, str]
    params: dict[str, str]

    def send(self, to: Delivery) -> None:
        """Make the model, or find it."""
        experiment, client = to.of(self.experiment), to.client
        found: list[Any] = []
        if to.again:
            found = client.search_logged_models([experiment], f"tags.`{KEY}` = '{self.model}'")
        model = (
            found[0]
            if found
            else client.create_logged_model(
                experiment,
                name=self.name,
                source_run_id=to.of(self.run),
                tags={**self.tags, KEY: self.model},
                params=self.params,
            )
        )
        to.ids[self.model] = str(model.model_id)
        to.ids[location_of(self.model)] = model.artifact_location


class LogModelFiles(WithFile):
    """The files of a logged model; its description names run and model as the server does."""

    call: Literal["log_model_files"] = "log_model_files"
    model: Id

    def send(self, to: Delivery) -> None:
        """Log them."""
        folder = self.path(to)
        description = folder / _DESCRIPTION
        text = before = description.read_text()
        for ours in sorted(to.ids, key=len, reverse=True):  # a location begins with its model
            text = text.replace(ours, to.ids[ours])
        if text != before:
            description.write_text(text)
        to.client.log_model_artifacts(to.of(self.model), str(folder))


class FinalizeModel(_Step):
    """The state of a logged model."""

    call: Literal["finalize_model"] = "finalize_model"
    model: Id
    status: Literal["READY", "FAILED"]

    def send(self, to: Delivery) -> None:
        """Set it."""
        to.client.finalize_logged_model(to.of(self.model), self.status)


class LogOutputs(_Step):
    """Models as outputs of a run."""

    call: Literal["log_outputs"] = "log_outputs"
    run: Id
    models: list[Id]

    def send(self, to: Delivery) -> None:
        """Log them."""
        outputs = [LoggedModelOutput(to.of(model), step=0) for model in self.models]
        to.client.log_outputs(to.of(self.run), outputs)


class Register(_Step):
    """A version of a registered model, with an alias."""

    call: Literal["register"] = "register"
    name: str
    alias: str
    model: Id
    run: Id

    def send(self, to: Delivery) -> int:
        """Register the model; returns the version's number."""
        client, run, model = to.client, to.of(self.run), to.of(self.model)
        try:
            client.create_registered_model(self.name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        # A database would look up models:/ID where MLflow's global tracking URI points to.
        is_server = client.tracking_uri.startswith("http")
        source = f"models:/{model}" if is_server else None
        source = source or client.get_logged_model(model).artifact_location
        made = None
        if to.again:
            versions = client.search_model_versions(f"run_id = '{run}'")
            same = [one for one in versions if (one.name, one.source) == (self.name, source)]
            made = same[0] if same else None
        if made is None:
            made = client.create_model_version(self.name, source, run, model_id=model)
        client.set_registered_model_alias(self.name, self.alias, made.version)
        return int(made.version)


class ReopenRun(_Step):
    """A run that goes on."""

    call: Literal["reopen_run"] = "reopen_run"
    run: Id

    def send(self, to: Delivery) -> None:
        """Make it run again."""
        to.client.update_run(to.of(self.run), status="RUNNING")


class EndRun(_Step):
    """The end of a run."""

    call: Literal["end_run"] = "end_run"
    run: Id
    status: RunStatus
    end_time: int

    def send(self, to: Delivery) -> None:
        """End it."""
        # MLflow would print links amid the progress bars.
        with environment_defaults(MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT="true"):
            to.client.set_terminated(to.of(self.run), self.status, self.end_time)


class DeleteRun(_Step):
    """The end of what was half logged."""

    call: Literal["delete_run"] = "delete_run"
    run: Id

    def send(self, to: Delivery) -> None:
        """Delete the run."""
        _unless_gone(to, to.client.delete_run, to.of(self.run))


def _unless_gone(to: Delivery, call: Any, *args: str) -> None:
    """Call; a step that was made before finds nothing to do."""
    try:
        call(*args)
    except MlflowException as error:
        gone = error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
        if not (to.again and gone):
            raise


Step: TypeAlias = (
    CreateRun
    | LogBatch
    | DeleteTag
    | LogInputs
    | LogText
    | LogFile
    | CreateModel
    | LogModelFiles
    | FinalizeModel
    | LogOutputs
    | Register
    | ReopenRun
    | EndRun
    | DeleteRun
)

STEPS: TypeAdapter[Step] = TypeAdapter(Annotated[Step, Field(discriminator="call")])
"""Reads a step that was kept, and checks it."""
