"""Storages of studies: folders with a journal, databases, memory; and what a study agrees on.

This module imports optuna: it is itself imported in functions only.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from optuna import Study
from optuna.distributions import BaseDistribution, distribution_to_json, json_to_distribution
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, Trial
from optuna.trial import TrialState as State

from rankplug.exceptions import ParameterError, TuningError
from rankplug.system.locks import Workers, private_file
from rankplug.tuning.records import JOURNAL, WORKER, TrialRecord, to_record

# Names of the attributes of a stored study; studies of all versions have them.
STUDY_ID = "rankplug.id"
"""Tells a study from others of the same name, wherever they are kept."""
_SETUP = "rankplug.setup"
_SPACE = "rankplug.space"

_SQLITE = "sqlite:///"
_LOCK_TIMEOUT = 60.0  # seconds that SQLite waits for others, which write for some milliseconds


@dataclass(frozen=True)
class Place:
    """An open storage, its name for messages, and the processes that work on it."""

    storage: BaseStorage
    name: str
    workers: Workers
    journal: Journal | None = None

    def together(self) -> AbstractContextManager[None]:
        """Write what is stored within at once, where that is possible; for one thread alone."""
        return nullcontext() if self.journal is None else self.journal.together()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Say what to do when the study cannot be written, as on a full disk."""
        try:
            yield
        except (OSError, StorageInternalError) as error:
            reason = str(error.__cause__ or error).partition("\n")[0]
            raise TuningError(
                f"the study in {self.name} cannot be written ({reason}): its trials that have "
                "ended are kept; make room, and go on by resume=True"
            ) from error


def open_storage(storage: str | Path | BaseStorage | None) -> Place:
    """Open a folder or journal file, a database URL, an Optuna storage, or memory for None.

    Raises
    ------
    ParameterError
        If it cannot be opened.
    """
    if storage is None:
        return Place(InMemoryStorage(), "memory", _workers_here(uuid.uuid4().hex))
    if isinstance(storage, BaseStorage):
        name = type(storage).__name__
        return Place(storage, name, _workers_here(name))
    if not isinstance(storage, str | Path):
        raise ParameterError(f"storage={storage!r} must be a folder, a file *.journal or a URL")
    try:
        is_url = isinstance(storage, str) and "://" in storage
        return _open_database(str(storage)) if is_url else _open_journal(Path(storage))
    except ParameterError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        name = _without_password(str(storage))
        raise ParameterError(f"storage {name} cannot be opened: {reason[0]}") from error


def _open_journal(path: Path) -> Place:
    if path.suffix not in ("", ".journal") and not path.is_dir():
        raise ParameterError(
            f"storage {path}: name a folder or a file *.journal, or write sqlite:///{path} for a "
            "database"
        )
    file = path if path.suffix == ".journal" and not path.is_dir() else path / JOURNAL
    file.parent.mkdir(parents=True, exist_ok=True)
    journal = Journal(file)
    return Place(JournalStorage(journal), str(file), Workers(file, shared=True), journal)


class Journal(JournalFileBackend):
    """A journal in which several records can be written at once, locked and synced a single time.

    A disk may take milliseconds to sync, and a trial has a dozen records.
    """

    def __init__(self, file: Path) -> None:
        self._own_lock = JournalLock(file)
        self._n_read = 0
        # Records that are not in the file yet, and how many there are before them.
        self._held: tuple[int, list[dict[str, Any]]] | None = None
        self._broken: OSError | None = None
        super().__init__(str(file), lock_obj=self._own_lock)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Hold back what is appended within, and write it at the end; others cannot write then.

        Raises
        ------
        OSError
            If it cannot be written. Then nothing is read or written any more: what this process
            has read of its own records is not in the file.
        """
        with self._own_lock.kept():
            self._n_read += sum(1 for _ in super().read_logs(self._n_read))
            records: list[dict[str, Any]] = []
            self._held = (self._n_read, records)
            try:
                yield
            finally:
                try:
                    if records:
                        super().append_logs(records)
                        # So that it is known where the next one begins.
                        self._n_read += sum(1 for _ in super().read_logs(self._n_read))
                except OSError as error:
                    self._broken = error
                    raise
                finally:
                    self._held = None

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write records, or hold them back."""
        self._raise_if_broken()
        if self._held is None:
            super().append_logs(logs)
        else:
            self._held[1].extend(json.loads(json.dumps(log)) for log in logs)  # as they are read

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        """The records from that number on, those that are held back last."""
        self._raise_if_broken()
        number = log_number_from
        if self._held is None or number < self._held[0]:
            for log in super().read_logs(number):
                number += 1
                yield log
            self._n_read = max(self._n_read, number)
        held = self._held
        if held is not None and number >= held[0]:
            yield from held[1][number - held[0] :]

    def _raise_if_broken(self) -> None:
        if self._broken is not None:
            raise self._broken


class JournalLock(JournalFileOpenLock):
    """For writing to a journal; Optuna's own locks outlive a killed process by half a minute.

    What such a process had written of a line is cut off: Optuna could not read the journal any
    more once another line follows.
    """

    def __init__(self, journal: Path) -> None:
        super().__init__(str(journal))
        self._journal = journal
        self._held: IO[bytes] | None = None
        self._is_kept = False

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Hold the lock, whoever asks for it and gives it back within."""
        self.acquire()
        self._is_kept = True
        try:
            yield
        finally:
            self._is_kept = False
            self.release()

    def acquire(self) -> bool:
        """Wait for the lock."""
        if self._is_kept:
            return True
        self.release()  # it is still held where a signal came between this and Optuna's `try`
        self._held = open(self._journal.with_name(f"{self._journal.name}.lock"), "ab")  # noqa: SIM115
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX)
            _cut_off_half_a_line(self._journal)
        except BaseException:
            self.release()
            raise
        return True

    def release(self) -> None:
        """Let others have the lock."""
        if self._held is not None and not self._is_kept:
            self._held.close()


def _cut_off_half_a_line(journal: Path) -> None:
    with open(journal, "rb+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if file.read(1) not in (b"\n", b""):
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def _open_database(url: str) -> Place:
    if not url.startswith(_SQLITE):
        return Place(RDBStorage(url), _without_password(url), _workers_here(url))
    file = Path(url.removeprefix(_SQLITE).partition("?")[0])
    file.parent.mkdir(parents=True, exist_ok=True)
    workers = Workers(file, shared=True)
    # Two processes that make the tables at once disturb each other.
    with workers.one_at_a_time():
        storage = RDBStorage(url, engine_kwargs={"connect_args": {"timeout": _LOCK_TIMEOUT}})
    return Place(storage, url, workers)


def _workers_here(name: str) -> Workers:
    """Of this machine, for a storage that is in no folder."""
    return Workers(private_file(name), shared=False)


def _without_password(url: str) -> str:
    scheme, separator, rest = url.rpartition("://")
    credentials, at, place = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    return f"{scheme}{separator}{user}{':***' if colon else ''}{at}{place}"


def agree_on_space(
    study: Study,
    setup: Mapping[str, Any],
    distributions: Mapping[str, BaseDistribution],
    defaults: Mapping[str, Any],
) -> dict[str, BaseDistribution]:
    """What the study searches: as it began, and as asked for if it begins now.

    Ranges that were fitted to the data stay what they were, though another machine may round
    them differently. A parameter of the solver that one of the two does not name, as it came with
    a later version, has its value in `defaults`. One process at a time may ask.

    Raises
    ------
    ParameterError
        If the study has another setup; every difference is named.
    """
    kept = study.user_attrs
    if _SETUP not in kept:
        space = {name: distribution_to_json(one) for name, one in distributions.items()}
        study.set_user_attr(STUDY_ID, uuid.uuid4().hex)
        study.set_user_attr(_SPACE, space)
        study.set_user_attr(_SETUP, dict(setup))
        return dict(distributions)
    other = kept[_SETUP]
    different = [
        f"{key} was {other.get(key)!r} and is {setup.get(key)!r}"
        for key in sorted({*other, *setup})
        if _chosen(other.get(key), defaults) != _chosen(setup.get(key), defaults)
    ]
    if different:
        raise ParameterError(
            f"the study {study.study_name!r} cannot go on with another setup: "
            f"{'; '.join(different)}; give another study_name to begin anew"
        )
    return {name: json_to_distribution(text) for name, text in kept[_SPACE].items()}


def _chosen(value: Any, defaults: Mapping[str, Any]) -> Any:
    """A part of a setup; of parameters those that do not have their default."""
    if not isinstance(value, Mapping):
        return value
    return {name: one for name, one in value.items() if one != defaults.get(name)}


def fail_killed(study: Study, workers: Workers, own: str) -> None:
    """Mark the trials as failed whose process is gone.

    A trial that has no worker yet is one that was killed right after it began, or that
    another process has begun this moment.
    """
    others = workers.others(own)
    for trial in study.get_trials(deepcopy=False, states=(State.RUNNING,)):
        worker = trial.user_attrs.get(WORKER)
        if not (others if worker is None else workers.alive(worker)):
            end_trial(study, trial.number, state=State.FAIL)


def end_trial(
    study: Study,
    trial: Trial | int,
    values: Sequence[float] | None = None,
    state: State | None = None,
) -> FrozenTrial:
    """End a trial, unless it has ended: the trial as it is stored.

    Optuna looks first and writes then; another process may end the trial in between.
    """
    try:
        return study.tell(trial, values, state=state, skip_if_finished=True)
    except UpdateFinishedTrialError:
        return study.tell(trial, values, state=state, skip_if_finished=True)


def left_behind(study: Study, workers: Workers) -> Sequence[TrialRecord]:
    """Trials that have ended and whose process is gone, so that nobody else tells of them."""
    return [
        to_record(trial)
        for trial in study.get_trials(deepcopy=False)
        if trial.state.is_finished()
        and WORKER in trial.user_attrs
        and not workers.alive(trial.user_attrs[WORKER])
    ]
