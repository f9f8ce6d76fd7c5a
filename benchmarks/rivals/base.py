"""What an adapter of a rival is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Timed
from rankplug.data import RankingData

__all__ = ["Fitted", "Rival"]


@dataclass(frozen=True)
class Fitted:
    """A trained ranker: `coef` where it is linear, `score` in any case."""

    score: Callable[[Any], NDArray[np.float64]]
    coef: NDArray[np.float64] | None = None
    passes: float | None = None


@dataclass(frozen=True)
class Rival:
    """One ranker, behind three functions.

    `loss` names the linear problem it solves, with `C` multiplying the sum over pairs; None
    for trees. `refuses` says why it cannot take some data, or nothing. `prepare` turns the
    data into what the library wants, and is timed apart, so that `fit` is the library alone,
    on one thread. `variable` is the environment variable that names the program of one that is
    no package.
    """

    name: str
    package: str
    module: str
    loss: Literal["squared-hinge", "hinge"] | None
    fit: Callable[..., Fitted | Timed[Fitted]]
    prepare: Callable[[RankingData], Any]
    refuses: Callable[[RankingData], str | None] | None = None
    variable: str | None = None

    def is_installed(self) -> bool:
        """Whether its package is there, or its program named."""
        named = self.variable is None or self.variable in os.environ
        return named and find_spec(self.module) is not None

    def reason(self, data: RankingData) -> str | None:
        """Why it cannot take `data`; None if it can."""
        return None if self.refuses is None else self.refuses(data)
