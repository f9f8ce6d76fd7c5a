"""Regularisation paths: one solver at several values of C, each from the solution before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
from sklearn.base import clone

from rankplug.exceptions import ParameterError
from rankplug.solver.base import RandomState, Solver, as_generator
from rankplug.solver.inputs import AnyData, Data
from rankplug.solver.result import SolverResult
from rankplug.system.interruption import interruptible


def path(
    solver: Solver, data: AnyData, Cs: Sequence[float], *, random_state: RandomState = None
) -> list[SolverResult]:
    """Solve for each value of `C`, in the given order, reusing what can be reused.

    Ascending values are the cheapest: a solver tagged `warm_start` begins each problem at the
    solution of the one before. Stopping is relative to the same measure as without a path.

    Parameters
    ----------
    solver : Solver
        With a parameter `C`; its own value is ignored.
    data : RankingData, LabelRankingData or RemoteRankingData
    Cs : sequence of float > 0
    random_state : int, Generator, RandomState or None

    Returns
    -------
    list of SolverResult
        One for each value, in the same order; after an interruption the last one is that of the
        solver that was stopped.
    """
    return list(iterate_path(solver, data, Cs, random_state=random_state))


def iterate_path(
    solver: Solver, data: AnyData, Cs: Sequence[float], *, random_state: RandomState = None
) -> Iterator[SolverResult]:
    """The results of `path` one by one, each solved when it is asked for."""
    if "C" not in solver.get_params(deep=False):
        raise ParameterError(f"{solver.name} has no parameter C, so it has no C path")
    if getattr(solver, "early_stopping_rounds", None) is not None:
        raise ParameterError(
            f"{solver.name}: a C path has no validation data: set early_stopping_rounds=None"
        )
    values = list(Cs)
    if not values:
        raise ParameterError("Cs is empty: name at least one value of C")
    for C in values:
        clone(solver).set_params(C=C).check(data)
    return _until_interrupted(
        iter(solver._solve_path(cast(Data, data), values, as_generator(random_state))), solver.name
    )


def _until_interrupted(results: Iterator[SolverResult], name: str) -> Iterator[SolverResult]:
    """The results, of which an interrupted one is the last."""
    going = True
    while going:
        with interruptible(name), np.errstate(all="ignore"):
            result = next(results, None)
        if result is None:
            return
        going = not result.interrupted
        yield result
