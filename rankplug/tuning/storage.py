"""Where studies are kept.

This module imports optuna: it is itself imported in functions only.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend

from rankplug.exceptions import ParameterError
from rankplug.system.locks import JournalLock, Workers, private_file

__all__ = ["JOURNAL", "Place", "open_storage"]

JOURNAL = "study.journal"
"""The name of a journal in a folder."""

_SQLITE = "sqlite:///"
_PATIENCE = 60.0


@dataclass(frozen=True)
class Place:
    """An open storage, its name for messages, and the processes that work on it."""

    storage: BaseStorage
    name: str
    workers: Workers


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
        return _database(str(storage)) if is_url else _journal(Path(storage))
    except ParameterError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        name = _without_password(str(storage))
        raise ParameterError(f"storage {name} cannot be opened: {reason[0]}") from error


def _journal(path: Path) -> Place:
    if path.suffix not in ("", ".journal") and not path.is_dir():
        raise ParameterError(
            f"storage {path}: name a folder or a file *.journal, or write sqlite:///{path} for a "
            "database"
        )
    file = path if path.suffix == ".journal" and not path.is_dir() else path / JOURNAL
    file.parent.mkdir(parents=True, exist_ok=True)
    backend = JournalFileBackend(str(file), lock_obj=JournalLock(file))
    return Place(JournalStorage(backend), str(file), Workers(file, shared=True))


def _database(url: str) -> Place:
    if not url.startswith(_SQLITE):
        return Place(RDBStorage(url), _without_password(url), _workers_here(url))
    file = Path(url.removeprefix(_SQLITE).partition("?")[0])
    file.parent.mkdir(parents=True, exist_ok=True)
    workers = Workers(file, shared=True)
    # Two processes that make the tables at once disturb each other.
    with workers.one_at_a_time():
        storage = RDBStorage(url, engine_kwargs={"connect_args": {"timeout": _PATIENCE}})
    return Place(storage, url, workers)


def _workers_here(name: str) -> Workers:
    """The workers of this machine, for a storage that is in no folder."""
    return Workers(private_file(name), shared=False)


def _without_password(url: str) -> str:
    scheme, separator, rest = url.rpartition("://")
    credentials, at, place = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    return f"{scheme}{separator}{user}{':***' if colon else ''}{at}{place}"
