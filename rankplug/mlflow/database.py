"""SQLite databases of MLflow: made whole or not at all, and made again where one is half made.

MLflow makes the tables of a new database by dozens of migrations. If a second process opens it
meanwhile, or the first is killed, the tables stay half migrated, and MLflow can never use them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rankplug.exceptions import RankplugError
from rankplug.system.locks import locked_here

SQLITE = "sqlite:///"
"""How the URI of a database in a file begins."""

_TEMPORARY = "_alembic_tmp_"  # Alembic's, of the table that a migration is rewriting
_FILLED_BY_MIGRATIONS = {"alembic_version", "workspaces"}
# Another program's process, which does not know our lock, has written by then if it is at work.
_QUIET_SECONDS = 3.0


class TrackingError(RankplugError):
    """Runs cannot be tracked where they should be."""


def database_uri(file: Path) -> str:
    """The URI of a database in a file."""
    # MLflow decodes these two, and where it makes folders forgets to decode all others.
    return SQLITE + str(file.absolute()).replace("%", "%25").replace("?", "%3F")


def database_file(uri: str) -> Path:
    """The file of a database."""
    return Path(unquote(uri.removeprefix(SQLITE))).absolute()


def ensure_database(uri: str) -> None:
    """Make MLflow's database in a file, if the URI names one and there is none that is whole.

    It is made under another name, by one process at a time, and then renamed. What was left half
    made by a process that was killed is replaced if nothing was logged to it.

    Raises
    ------
    TrackingError
        If tables are half migrated, and there are runs in others.
    OSError, sqlite3.Error
        If the file cannot be used; MLflow would try for minutes.
    """
    if not uri.startswith(SQLITE) or "?" in uri:  # options, which are MLflow's to read
        return
    file = database_file(uri)
    file.parent.mkdir(parents=True, exist_ok=True)
    if not _is_to_be_made(file):
        return
    with locked_here(str(file)):
        while (wait := _QUIET_SECONDS - _seconds_untouched(file)) > 0 and _is_to_be_made(file):
            time.sleep(min(wait, 0.5))
        if _is_to_be_made(file):
            _make(file)


def _is_to_be_made(file: Path) -> bool:
    """Whether there is no database, or one that was left half made and holds nothing."""
    if not file.exists():
        return True
    with closing(sqlite3.connect(file)) as database:
        tables = [
            name
            for (name,) in database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
        ]
        half = [name for name in tables if name.startswith(_TEMPORARY)]
        filled = any(
            database.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone()
            for name in tables
            if name not in _FILLED_BY_MIGRATIONS and name not in half
        )
    if filled and half:
        raise TrackingError(
            f"{file} is half migrated: a process that changed its tables was killed (it left the "
            f"table {half[0]}), and it holds runs. Restore a copy of it, or name another place "
            "with --tracking-uri"
        )
    # MLflow adds the first experiment after all tables.
    return not filled and (not tables or "experiments" in tables or bool(half))


def _seconds_untouched(file: Path) -> float:
    """Since when nobody has written to the file; for ever, if it is empty or not there."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return _QUIET_SECONDS
    return time.time() - status.st_mtime if status.st_size else _QUIET_SECONDS


def _make(file: Path) -> None:
    from mlflow.store.tracking import DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    partial = file.with_name(f".{file.name}.partial")
    for left in (partial, partial.with_name(f"{partial.name}-journal")):
        left.unlink(missing_ok=True)
    with closing(sqlite3.connect(partial)) as database:
        database.execute("PRAGMA schema_version")  # raises at once

    def hurry(connection: Any, _: object) -> None:
        # Nothing is lost with a file that is not renamed yet: it reaches the disk once, at the
        # end, and not after each of hundreds of steps, which takes seconds.
        if connection.execute("PRAGMA database_list").fetchone()[2].endswith(partial.name):
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA journal_mode = MEMORY")

    make_store: Any = SqlAlchemyStore
    event.listen(Engine, "connect", hurry)
    try:
        store = make_store(database_uri(partial), DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH)
    finally:
        event.remove(Engine, "connect", hurry)
    store.engine.dispose()
    with partial.open("rb+") as stream:
        os.fsync(stream.fileno())
    os.replace(partial, file)
