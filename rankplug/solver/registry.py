"""Solvers by name, found by the entry-point group ``rankplug.solvers``, loaded on demand."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rankplug.exceptions import (
    ParameterError,
    SolverUnavailableError,
    UnknownNameError,
    nearest,
    warn_caller,
)
from rankplug.solver.base import Solver
from rankplug.solver.result import SolverTags

_GROUP = "rankplug.solvers"


@dataclass(frozen=True)
class SolverInfo:
    """A registered solver: what it solves, whether it can be used here, else why not."""

    name: str
    tasks: tuple[str, ...]
    problem: str
    reference: str
    available: bool
    reason: str | None
    package: str | None


def list_solvers() -> list[SolverInfo]:
    """All registered solvers, sorted by name.

    A plugin that cannot be used is listed with its reason; one that fails to import also
    causes a warning.
    """
    solvers = []
    for name, point in sorted(_find_points().items()):
        try:
            cls = _load(point)
            what = cls.tags.tasks, cls.tags.problem, cls.tags.reference
            reason = _find_missing(cls)
        except SolverUnavailableError as error:
            warn_caller(str(error))
            what, reason = ((), "", ""), str(error)
        solvers.append(SolverInfo(name, *what, reason is None, reason, _find_package(point)))
    return solvers


def make_solver(name: str, **params: Any) -> Solver:
    """Make a solver by its registered name.

    Raises
    ------
    UnknownNameError
        If no solver has that name.
    SolverUnavailableError
        If the solver cannot be imported or misses a package.
    ParameterError
        If it has no such parameter. Values are checked when solving.
    """
    cls = solver_class(name)
    known = cls._get_param_names()
    of_library = {key: params[key] for key in params if cls.split_open(key)[0] is not None}
    own = {key: params[key] for key in params if key not in of_library}
    unknown = [f"{key!r}{nearest(key, known)}" for key in own if key not in known]
    if unknown:
        raise ParameterError(f"{name} has no parameter " + "; no parameter ".join(unknown))
    return cls(**own).set_params(**of_library)


def solver_class(name: str) -> type[Solver]:
    """The class of a solver by its registered name; raises as `make_solver`."""
    points = _find_points()
    if name not in points:
        raise UnknownNameError("solver", name, points)
    cls = _load(points[name])
    missing = _find_missing(cls)
    if missing is not None:
        raise SolverUnavailableError(f"solver {name!r} {missing}")
    return cls


def _find_points() -> dict[str, EntryPoint]:
    """The entry points by name."""
    return _scan(tuple(_package_folders()))


def _package_folders() -> Iterator[tuple[str, int]]:
    """Where packages are installed, and since when: this changes as one comes or goes."""
    for folder in sys.path:
        with contextlib.suppress(OSError):
            yield folder, os.stat(folder or ".").st_mtime_ns


@functools.lru_cache(maxsize=1)
def _scan(_state: tuple[tuple[str, int], ...]) -> dict[str, EntryPoint]:
    """Read the metadata of all packages, which takes long; the first of a name has it."""
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=_GROUP):
        first = points.setdefault(point.name, point)
        if first.value != point.value:
            warn_caller(
                f"packages {_find_package(first)} and {_find_package(point)} both name a solver "
                f"{point.name!r}: {first.value} is used; uninstall one of them"
            )
    return points


def _load(point: EntryPoint) -> type[Solver]:
    try:
        cls = point.load()
    except Exception as error:
        raise SolverUnavailableError(
            f"solver {point.name!r} ({point.value}) cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    fault = _find_fault(cls, point.name)
    if fault:
        raise SolverUnavailableError(f"solver {point.name!r} ({point.value}) {fault}")
    return cls  # type: ignore[no-any-return]


def _find_fault(cls: Any, name: str) -> str | None:
    """What keeps a plugin's class from being a solver of that name."""
    if not (isinstance(cls, type) and issubclass(cls, Solver)):
        return "is not a subclass of rankplug.Solver"
    if not isinstance(getattr(cls, "tags", None), SolverTags):
        return "has no attribute tags = SolverTags(...)"
    if getattr(cls, "name", None) != name:
        return f"calls itself {getattr(cls, 'name', None)!r}: both names must be the same"
    if inspect.isabstract(cls):
        return f"lacks the methods {', '.join(sorted(cls.__abstractmethods__))}"
    return None


def _find_package(point: EntryPoint) -> str | None:
    return point.dist.name if point.dist is not None else None


def _find_missing(cls: type[Solver]) -> str | None:
    """Which modules a solver lacks, and how to get them."""
    missing = [name for name in cls.tags.requires if not _is_installed(name)]
    return f"needs {', '.join(missing)}: pip install {' '.join(missing)}" if missing else None


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # a dotted name's parent is missing or is no package
        return False
