"""Plugins: classes that packages announce by entry points, found by name and loaded on demand."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple, TypeAlias

from rankplug.exceptions import SolverUnavailableError, UnknownNameError, warn_caller

FindFault: TypeAlias = Callable[[Any, str], str | None]
"""Says what keeps a plugin's class from being one of that name; None if nothing does."""


class Plugin(NamedTuple):
    """A registered class, None if it cannot be imported, and why it cannot be used, if so."""

    name: str
    cls: Any
    reason: str | None
    package: str | None


@dataclass(frozen=True)
class PluginGroup:
    """The plugins of one group of entry points.

    Attributes
    ----------
    group : str
        Of the entry points.
    what : str
        What messages call one of them.
    find_fault : callable
    requires : callable
        Which modules a class needs.
    """

    group: str
    what: str
    find_fault: FindFault
    requires: Callable[[Any], tuple[str, ...]] = lambda _: ()

    def points(self) -> dict[str, EntryPoint]:
        """The entry points by name."""
        return _scan(self.group, self.what, tuple(_package_folders()))

    def survey(self) -> Iterator[Plugin]:
        """All plugins, sorted by name; of one that fails to import a warning says so."""
        for name, point in sorted(self.points().items()):
            try:
                cls = self.load(point)
                reason = find_missing(self.requires(cls))
            except SolverUnavailableError as error:
                warn_caller(str(error))
                cls, reason = None, str(error)
            yield Plugin(name, cls, reason, package_of(point))

    def find_usable(self, name: str) -> Any:
        """The class of that name, if the modules are there that it needs; raises as `find`."""
        cls = self.find(name)
        missing = find_missing(self.requires(cls))
        if missing is not None:
            raise SolverUnavailableError(f"{self.what} {name!r} {missing}")
        return cls

    def find(self, name: str) -> Any:
        """The class of that name.

        Raises
        ------
        UnknownNameError
            If there is none.
        SolverUnavailableError
            If it cannot be imported, is of a wrong kind, or misses a package.
        """
        points = self.points()
        if name not in points:
            raise UnknownNameError(self.what, name, points)
        return self.load(points[name])

    def load(self, point: EntryPoint) -> Any:
        """The class that an entry point names; raises as `find`."""
        try:
            cls = point.load()
        except Exception as error:
            raise SolverUnavailableError(
                f"{self.what} {point.name!r} ({point.value}) cannot be imported: "
                f"{type(error).__name__}: {error}"
            ) from error
        fault = self.find_fault(cls, point.name)
        if fault:
            raise SolverUnavailableError(f"{self.what} {point.name!r} ({point.value}) {fault}")
        return cls


def find_fault(cls: Any, name: str, base: type, known_as: str) -> str | None:
    """What keeps a class from being a plugin of that name, whose base has the name `known_as`."""
    is_one = isinstance(cls, type) and issubclass(cls, base)
    if not is_one:
        return f"is not a subclass of {known_as}"
    if getattr(cls, "name", None) != name:
        return f"calls itself {getattr(cls, 'name', None)!r}: both names must be the same"
    if inspect.isabstract(cls):
        return f"lacks the methods {', '.join(sorted(cls.__abstractmethods__))}"
    return None


def package_of(point: EntryPoint) -> str | None:
    """The name of the package that announces it."""
    return point.dist.name if point.dist is not None else None


def find_missing(modules: tuple[str, ...]) -> str | None:
    """Which of the modules are not installed, and how to get them."""
    missing = [name for name in modules if not _is_installed(name)]
    return f"needs {', '.join(missing)}: pip install {' '.join(missing)}" if missing else None


def _package_folders() -> Iterator[tuple[str, int]]:
    """Where packages are installed, and since when: this changes as one comes or goes."""
    for folder in sys.path:
        with contextlib.suppress(OSError):
            yield folder, os.stat(folder or ".").st_mtime_ns


@functools.lru_cache(maxsize=4)
def _scan(group: str, what: str, _state: tuple[tuple[str, int], ...]) -> dict[str, EntryPoint]:
    """Read the metadata of all packages, which takes long; the first of a name has it."""
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        first = points.setdefault(point.name, point)
        if first.value != point.value:
            warn_caller(
                f"packages {package_of(first)} and {package_of(point)} both name a {what} "
                f"{point.name!r}: {first.value} is used; uninstall one of them"
            )
    return points


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # a dotted name's parent is missing or is no package
        return False
