"""Solvers by name, found by the entry-point group ``rankplug.solvers``, loaded on demand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from rankplug.display import Listing
from rankplug.exceptions import ParameterError
from rankplug.parameters import require_names
from rankplug.solver.base import Solver
from rankplug.solver.result import SolverTags
from rankplug.system.plugins import PluginGroup, find_fault

Solvers: TypeAlias = Mapping[str, Any] | Iterable[Any]
"""Solvers that are compared: registered names, solvers or estimators with one, perhaps by names for
the report."""


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
    causes a warning. The list shows as a table, in notebooks too.
    """
    solvers = []
    for name, cls, reason, package in _SOLVERS.survey():
        tags = SolverTags((), "", "") if cls is None else cls.tags
        what = tags.tasks, tags.problem, tags.reference
        solvers.append(SolverInfo(name, *what, reason is None, reason, package))
    return Listing(solvers, ("name", "tasks", "available", "problem", "reason"))


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
    require_names(name, cls._get_param_names(), params)
    nested = {key: params[key] for key in params if "__" in key}
    own = {key: params[key] for key in params if key not in nested}
    try:
        return cls(**own).set_params(**nested)
    except ValueError as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError(f"{name}: {error}") from None


def solver_of(given: Any) -> str | Solver:
    """A registered name or a solver, maybe that of an estimator.

    Raises
    ------
    ParameterError
        If it is none of these.
    """
    solver = given if isinstance(given, str | Solver) else getattr(given, "solver", given)
    if not isinstance(solver, str | Solver):
        raise ParameterError(
            f"solver={solver!r} must be a registered name or a Solver, or an estimator with one"
        )
    return solver


def name_solvers(solvers: Solvers) -> dict[str, str | Solver]:
    """Solvers that are to be compared, those without a name by their registered one.

    Raises
    ------
    ParameterError
        If there is none, something else is among them, or two have one name.
    """
    if isinstance(solvers, Mapping):
        named = [(name, solver_of(one)) for name, one in solvers.items()]
    else:
        several = isinstance(solvers, Iterable) and not isinstance(solvers, str)
        given = map(solver_of, solvers if several else [solvers])
        named = [(one if isinstance(one, str) else one.name, one) for one in given]
    names = [name for name, _ in named]
    if not names or len(set(names)) < len(names):
        raise ParameterError(
            f"compare: solvers are {names}: give one or more, each with a name of its own, such as "
            "{'weak': make_solver('tree-tron', C=1e-6), 'strong': make_solver('tree-tron', C=1)}"
        )
    return dict(named)


def solver_class(name: str) -> type[Solver]:
    """The class of a solver by its registered name; raises as `make_solver`."""
    return cast(type[Solver], _SOLVERS.find_usable(name))


def _find_fault(cls: Any, name: str) -> str | None:
    """What keeps a plugin's class from being a solver of that name."""
    is_solver = isinstance(cls, type) and issubclass(cls, Solver)
    if is_solver and not isinstance(getattr(cls, "tags", None), SolverTags):
        return "has no attribute tags = SolverTags(...)"
    return find_fault(cls, name, Solver, "rankplug.Solver")


_SOLVERS = PluginGroup("rankplug.solvers", "solver", _find_fault, lambda cls: cls.tags.requires)
