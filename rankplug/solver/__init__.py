"""The interface of solvers: what a plugin implements, and how solvers are found and run."""

from rankplug.solver.base import (
    Callback,
    Data,
    Monitor,
    Progress,
    Solver,
    SolverResult,
    SolverTags,
    Status,
    Task,
    check_validation,
)
from rankplug.solver.paths import iterate_path, path
from rankplug.solver.registry import SolverInfo, list_solvers, make_solver, solver_class

__all__ = [
    "Callback",
    "Data",
    "Monitor",
    "Progress",
    "Solver",
    "SolverInfo",
    "SolverResult",
    "SolverTags",
    "Status",
    "Task",
    "check_validation",
    "iterate_path",
    "list_solvers",
    "make_solver",
    "path",
    "solver_class",
]
