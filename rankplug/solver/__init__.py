"""The interface of solvers: what a plugin implements, and how solvers are found and run."""

from rankplug.data import Task
from rankplug.solver.base import SearchSpace, Solver
from rankplug.solver.families import (
    IterativeSolver,
    KernelSolver,
    LinearPathSolver,
    PathPoint,
    PathProblem,
    TopSolver,
)
from rankplug.solver.inputs import Data, check_validation, require_room
from rankplug.solver.monitor import Callback, Monitor, Progress
from rankplug.solver.paths import iterate_path, path
from rankplug.solver.registry import (
    SolverInfo,
    Solvers,
    list_solvers,
    make_solver,
    name_solvers,
    solver_class,
    solver_of,
)
from rankplug.solver.result import Objective, SolverResult, SolverTags, Status
from rankplug.solver.stopping import Candidate, MetricName, require_validation

__all__ = [
    "Callback",
    "Candidate",
    "Data",
    "IterativeSolver",
    "KernelSolver",
    "LinearPathSolver",
    "MetricName",
    "Monitor",
    "Objective",
    "PathPoint",
    "PathProblem",
    "Progress",
    "SearchSpace",
    "Solver",
    "SolverInfo",
    "SolverResult",
    "SolverTags",
    "Solvers",
    "Status",
    "Task",
    "TopSolver",
    "check_validation",
    "iterate_path",
    "list_solvers",
    "make_solver",
    "name_solvers",
    "path",
    "require_room",
    "require_validation",
    "solver_class",
    "solver_of",
]
