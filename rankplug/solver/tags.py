"""Tags and objectives of solvers: what each can do, and what it minimises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rankplug.data import Task

__all__ = ["Objective", "SolverTags"]


@dataclass(frozen=True)
class SolverTags:
    """What a solver can do.

    Attributes
    ----------
    tasks : tuple of "query-document" and "label-ranking"
    problem : str
        The problem it solves, in one line.
    reference : str
        Where the method comes from.
    exact : bool
        Finds the minimum of a stated convex problem: the order of the rows, rows without a
        preference and queries of weight zero change nothing.
    sparse : bool
        Takes sparse features.
    duality_gap : bool
        Its results carry a certified duality gap.
    warm_start : bool
        `Solver.solve` can start from an earlier result or model.
    kernel : bool
        Can use kernel functions.
    one_query : bool
        Ranks all rows together as a rule, or row by row: nobody has forgotten the queries then.
    validation : bool
        Uses validation data, as for early stopping; its `_solve` takes them as ``valid``.
    distributed : bool
        Takes `RemoteRankingData`, as it sees data through `rankplug.objectives.open_pairs` only, or
        knows how to work on a cluster.
    learns : bool
        Ranks well what can be learned; False for sanity rankers.
    requires : tuple of str
        Modules it needs beyond rankplug's own dependencies.
    """

    tasks: tuple[Task, ...]
    problem: str
    reference: str
    exact: bool = True
    sparse: bool = True
    duality_gap: bool = False
    warm_start: bool = False
    kernel: bool = False
    one_query: bool = False
    validation: bool = False
    distributed: bool = False
    learns: bool = True
    requires: tuple[str, ...] = ()

    def replace(self, **changes: Any) -> SolverTags:
        """The same tags but for some."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Objective:
    """What a solver minimises, to be compared: equal ones have the same minimum on the same data.

    Attributes
    ----------
    problem : str
        Its name, the same in all solvers of the problem.
    parameters : mapping of str to value
        Those that enter it, under the same names in all of these solvers.
    """

    problem: str
    parameters: Mapping[str, Any] = field(hash=False)
