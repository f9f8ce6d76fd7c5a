"""A spool of tracking: what a server did not take is kept in the output folder and sent later.

``OUTPUT/mlflow-unsent/NAME/``, one folder a process, holds ``where.json``, the server and the
experiment; ``steps.jsonl``, a step (`rankplug.mlflow.steps`) a line; ``progress.json``, how many of
them were sent, and what the server calls what they made; and copies of files. The folder goes when
everything was sent. It may come from anyone, so all of it is checked, and no link is followed.
"""

from __future__ import annotations

import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import requests
from mlflow.exceptions import MlflowException
from pydantic import BaseModel, ConfigDict, ValidationError

from rankplug.io.files import replacing
from rankplug.mlflow.database import TrackingError
from rankplug.mlflow.steps import (
    STEPS,
    CreateRun,
    DeleteRun,
    Delivery,
    EndRun,
    LogBatch,
    Step,
    WithFile,
)
from rankplug.mlflow.store import (
    Place,
    environment_defaults,
    find_experiment,
    first_line,
    telling_of_silence,
)
from rankplug.system.locks import claimed_here

UNSENT = "mlflow-unsent"
"""The folder of spools in an output folder."""

EXPERIMENT = "unsent-experiment"
"""Our name of an experiment that could not be asked for."""

STATUS = "rankplug.status"

# A step may be the parameters, tags and metrics of 800 rows.
_MOST_BYTES = 50 * 10**6

# What urllib3 and the operating system say, in the middle of long lines.
_REASON = re.compile(
    "(Read|Connect).{0,9} timed out|Connection refused|Connection reset|Connection aborted|"
    "Name or service not known|Temporary failure in name resolution|No route to host|"
    "Network is unreachable|error code 5[0-9][0-9]",
    re.IGNORECASE,
)

# What there is of a spool whose process was killed as it was made, before `where.json`.
_UNFINISHED = re.compile(r"progress\.json|\.(progress|where)\.json\.[0-9a-f]{32}\.tmp")

_M = TypeVar("_M", bound=BaseModel)


class Where(BaseModel):
    """The place that steps are for."""

    model_config = ConfigDict(extra="forbid")

    tracking_uri: str
    experiment_id: str | None
    experiment_name: str | None
    run_id: str | None

    @classmethod
    def of(cls, tracking_uri: str, place: Place) -> Where:
        """The place of a store."""
        return cls(tracking_uri=tracking_uri, **vars(place))

    @property
    def place(self) -> Place:
        """The experiment, and the run that MLflow started."""
        return Place(self.experiment_id, self.experiment_name, self.run_id)


class _Progress(BaseModel):
    model_config = ConfigDict(extra="forbid")

    uri: str | None = None
    sent: int = 0
    ids: dict[str, str] = {}
    left: list[str] = []
    refused: dict[int, str] = {}


def is_outage(error: BaseException) -> bool:
    """Whether a server did not answer, or not to the question, so that it may do so later."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return bool(error.response.status_code >= 500)
    if isinstance(error, MlflowException):
        status: int = error.get_http_status_code()  # type: ignore[no-untyped-call]
        return status >= 500
    return isinstance(error, requests.RequestException | ConnectionError | TimeoutError)


def reason_of(outage: BaseException) -> str:
    """Why a server does not answer, without the layers of libraries around it."""
    text = first_line(outage)
    found = _REASON.search(text)
    return found[0].lower() if found else text


def bounded_requests(seconds: int = 15) -> AbstractContextManager[None]:
    """Two attempts for each request, unless the user has set otherwise: the spool tries again."""
    return environment_defaults(
        MLFLOW_HTTP_REQUEST_MAX_RETRIES="1", MLFLOW_HTTP_REQUEST_TIMEOUT=str(seconds)
    )


class Spool:
    """Steps of one process that were kept, in the order in which they are to be made."""

    def __init__(self, folder: Path, where: Where, progress: _Progress, length: int) -> None:
        self.folder = folder
        self.where = where
        self._progress = progress
        self._length = length
        self._claim = ExitStack()
        self._is_claimed = False

    @classmethod
    def create(cls, output: Path, where: Where, to: Delivery) -> Spool:
        """Make an empty one, claimed by this process; `to` knows what was made before.

        Raises
        ------
        TrackingError
            If the folder of spools is a link.
        """
        _refuse_link(output / UNSENT)
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:8]}"
        spool = cls(output / UNSENT / name, where, _Progress(), 0)
        spool._keep_away()
        spool.folder.parent.mkdir(parents=True, exist_ok=True)
        spool.folder.mkdir(mode=0o700)  # the URI may hold a password
        spool._save(to)
        _write(spool.folder / "where.json", where)
        return spool

    @classmethod
    def open(cls, folder: Path) -> Spool | None:
        """Open one of a process that has ended; None if nothing was kept there.

        Raises
        ------
        TrackingError
            If it is damaged, or not what this class writes.
        """
        for path in (folder, *folder.rglob("*")):
            _refuse_link(path)
        if not (folder / "where.json").exists():
            others = [one for one in folder.glob("*") if not _UNFINISHED.fullmatch(one.name)]
            if others:
                raise TrackingError(
                    f"{folder} lacks the file where.json, so that nobody knows where "
                    f"{others[0].name} is to be sent: restore that file, or remove the folder"
                )
            return None
        where = _read(folder / "where.json", Where)
        spool = cls(folder, where, _read(folder / "progress.json", _Progress), 0)
        spool._length = sum(1 for _ in spool._lines())
        return spool

    @property
    def n_unsent(self) -> int:
        """Steps that were not sent yet, or refused."""
        return self._length - self._progress.sent + len(self._progress.refused)

    @property
    def refused(self) -> dict[int, str]:
        """What the server said of steps that it refused, by their numbers."""
        return dict(self._progress.refused)

    def release(self) -> None:
        """Let other processes send it; until the next step is kept."""
        self._claim.close()
        self._is_claimed = False

    def _keep_away(self) -> None:
        if not self._is_claimed:
            self._claim.enter_context(claimed_here(_claim_of(self.folder)))
            self._is_claimed = True

    def append(self, step: Step) -> None:
        """Keep a step, and a copy of its file."""
        self._keep_away()
        if isinstance(step, WithFile) and step.copy_ is None:
            original, copy = step.original(), uuid.uuid4().hex
            target = self.folder / copy / step.file
            target.parent.mkdir()
            (shutil.copytree if original.is_dir() else shutil.copyfile)(original, target)
            step = step.model_copy(update={"copy_": copy})
        with (self.folder / "steps.jsonl").open("ab") as stream:
            stream.write(step.model_dump_json().encode() + b"\n")
        self._length += 1

    def send(self, to: Delivery) -> int:
        """Make the steps that were not made yet; returns how many.

        What the server refuses is noted, and tried again the next time. If it does not answer, that
        is raised; the steps before it stay made. Another server than the last time gets all steps.
        """
        uri, before = to.client.tracking_uri, self.n_unsent
        if self._progress.uri not in (None, uri):
            self._progress, before = _Progress(), self._length
        self._progress.uri = uri
        to.folder, to.again = self.folder, True
        to.ids.update(self._progress.ids)
        to.left.update(self._progress.left)
        try:
            if EXPERIMENT not in to.ids and self.n_unsent:
                experiment = find_experiment(to.client, self.where.place, to.artifact_location)
                to.ids[EXPERIMENT] = str(experiment.experiment_id)
            for number, line in enumerate(self._lines()):
                if number < self._progress.sent and number not in self._progress.refused:
                    continue
                self._make(number, self._parse(line, number), to)
                self._progress.sent = max(self._progress.sent, number + 1)
                self._save(to)
        finally:
            to.again = False
        return before - self.n_unsent

    def end_runs(self, to: Delivery) -> None:
        """End the runs that were left open, because the process was killed."""
        opened: dict[str, bool] = {}
        for number, line in enumerate(self._lines()):
            step = self._parse(line, number)
            if isinstance(step, CreateRun):
                opened[step.run] = False
            elif isinstance(step, EndRun | DeleteRun):
                opened.pop(step.run, None)
            elif isinstance(step, LogBatch) and step.run in opened and STATUS in step.tags:
                opened[step.run] = True
        for run, has_status in opened.items():
            if run in to.left or run not in to.ids:
                continue
            if to.client.get_run(to.of(run)).info.status == "RUNNING":
                if has_status:
                    LogBatch(run=run, tags={STATUS: "killed"}).send(to)
                EndRun(run=run, status="KILLED", end_time=round(1000 * time.time())).send(to)

    def remove(self) -> None:
        """Remove it, which is empty or sent, and the folder of spools if it was the last."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            self.folder.parent.rmdir()
        self.release()

    def _make(self, number: int, step: Step, to: Delivery) -> None:
        try:
            if isinstance(step, CreateRun) or getattr(step, "run", None) not in to.left:
                step.send(to)
            self._progress.refused.pop(number, None)
        except Exception as error:
            if is_outage(error):
                raise
            self._progress.refused[number] = f"{step.call}: {first_line(error)}"

    def _save(self, to: Delivery) -> None:
        self._progress.ids, self._progress.left = dict(to.ids), sorted(to.left)
        _write(self.folder / "progress.json", self._progress)

    def _lines(self) -> Iterator[bytes]:
        """The lines of steps; one that was being written when the process was killed is none."""
        file = self.folder / "steps.jsonl"
        if not file.exists():
            return
        with file.open("rb") as stream:
            while (line := stream.readline(_MOST_BYTES)).endswith(b"\n"):
                yield line
            if len(line) == _MOST_BYTES:
                raise TrackingError(f"{file}: a line is longer than {_MOST_BYTES:,} bytes")

    def _parse(self, line: bytes, number: int) -> Step:
        try:
            return STEPS.validate_json(line)
        except ValidationError as error:
            place = f"{self.folder / 'steps.jsonl'}, line {number + 1}"
            raise TrackingError(f"{place}: {_reason(error)}") from None


@dataclass(frozen=True)
class Sent:
    """What came of a spool: the server, steps that were sent, refused and are left, and why."""

    tracking_uri: str | None
    n_sent: int
    refused: list[str]
    n_left: int | None
    reason: str | None = None
    experiment: str | None = None


def send_unsent(
    output: Path,
    deliver: Callable[[str], Delivery],
    tracking_uri: str | None = None,
    *,
    only: str | None = None,
) -> Iterator[Sent]:
    """Send what processes that have ended left in an output folder, each to its server.

    Parameters
    ----------
    output : Path
    deliver : callable
        Gives the delivery to a tracking URI.
    tracking_uri : str, optional
        Another one than that of the spools.
    only : str, optional
        Leave out what is for other tracking URIs.
    """
    try:
        _refuse_link(output / UNSENT)
    except TrackingError as error:
        yield Sent(None, 0, [], None, str(error))
        return
    for folder in sorted((output / UNSENT).glob("*")):
        with claimed_here(_claim_of(folder)) as is_free:
            if is_free:
                yield from _send_folder(folder, deliver, tracking_uri, only)
            else:
                yield Sent(None, 0, [], None, f"the command that keeps {folder} is at work")
    with suppress(OSError):
        (output / UNSENT).rmdir()


def _send_folder(
    folder: Path, deliver: Callable[[str], Delivery], tracking_uri: str | None, only: str | None
) -> Iterator[Sent]:
    try:
        spool = Spool.open(folder)
    except TrackingError as error:
        yield Sent(None, 0, [], None, str(error))
        return
    if spool is None:
        with suppress(OSError):
            for file in folder.glob("*"):
                if _UNFINISHED.fullmatch(file.name):
                    file.unlink()
            folder.rmdir()
        return
    uri = tracking_uri or spool.where.tracking_uri
    if only not in (None, uri):
        return
    before, reason, experiment = spool.n_unsent, None, None
    try:
        to = deliver(uri)
        with bounded_requests():
            with telling_of_silence(uri):
                to.client.search_experiments(max_results=1)
            spool.send(to)
            spool.end_runs(to)
            found = find_experiment(to.client, spool.where.place, None)
            experiment = str(found.experiment_id)
    except Exception as error:
        reason = reason_of(error)
    if reason is None and not spool.n_unsent:
        spool.remove()
    n_sent = before - spool.n_unsent
    yield Sent(uri, n_sent, list(spool.refused.values()), spool.n_unsent, reason, experiment)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise TrackingError(f"{path} is a link, which is not followed: remove it")


def _claim_of(folder: Path) -> str:
    return f"unsent {folder.absolute()}"


def _write(file: Path, model: BaseModel) -> None:
    with replacing(file) as stream:
        stream.write(model.model_dump_json().encode())


def _read(file: Path, kind: type[_M]) -> _M:
    try:
        with file.open("rb") as stream:
            return kind.model_validate_json(stream.read(_MOST_BYTES))
    except OSError as error:
        raise TrackingError(f"{file} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise TrackingError(f"{file}: {_reason(error)}") from None


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return ".".join(map(str, first["loc"])) + f": {first['msg']}"
