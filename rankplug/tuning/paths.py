"""A whole C path in one trial: what is left to sample, and which values of C are solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rankplug.exceptions import ParameterError
from rankplug.parameters import Integer, Real
from rankplug.solver import Solver

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution, FloatDistribution

__all__ = ["Path", "PathWish", "plan_path"]

PathWish: TypeAlias = bool | int | Sequence[float]

_STEPS = 16


@dataclass(frozen=True)
class Path:
    """The values of C that each trial solves, ascending, and the range they are in."""

    Cs: tuple[float, ...]
    range: FloatDistribution


def plan_path(
    wish: PathWish, solver: Solver, distributions: Mapping[str, BaseDistribution]
) -> Path | None:
    """The path wished for; None if there is to be none.

    Raises
    ------
    ParameterError
        If the solver has no warm starts or no C, C is not searched, or the wish is wrong.
    """
    from optuna.distributions import FloatDistribution

    if wish is False:
        return None
    if not solver.tags.warm_start or "C" not in solver.get_params(deep=False):
        raise ParameterError(f"path: {solver.name} has no warm starts in C; leave out path")
    if isinstance(wish, Sequence):
        values = tuple(sorted(set(wish))) if all(map(Real(0).accepts, wish)) else ()
        if not values:
            raise ParameterError(f"path={wish!r} must name values of C above 0")
        return Path(values, FloatDistribution(values[0], values[-1], log=True))
    if not isinstance(wish, bool) and not Integer(2).accepts(wish):
        raise ParameterError(f"path={wish!r} must be true, false, a number >= 2, or values of C")
    own = distributions.get("C")
    if not isinstance(own, FloatDistribution) or own.step is not None:
        raise ParameterError("path: the search space must have a range of C without steps")
    spaced = np.geomspace if own.log else np.linspace
    n_steps = _STEPS if wish is True else int(wish)
    return Path(tuple(map(float, spaced(own.low, own.high, n_steps))), own)
