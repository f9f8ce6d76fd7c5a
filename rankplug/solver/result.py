"""Results of solvers, and the progress that they report: status, history, callbacks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rankplug.models import Model
from rankplug.system.interruption import interrupted

__all__ = ["Callback", "Monitor", "Progress", "SolverResult", "Status"]

Status: TypeAlias = Literal["converged", "max_iter", "time_limit", "stopped"]


@dataclass(frozen=True)
class Progress:
    """An iteration, as a callback gets it.

    `values` are the numbers of that iteration (``objective``, ``gradient_norm``, ...),
    the same that go into the history.
    """

    n_iter: int
    seconds: float
    values: Mapping[str, float]


Callback: TypeAlias = Callable[[Progress], bool | None]
"""Called after each iteration; a true return value stops the solver."""


@dataclass(frozen=True)
class SolverResult:
    """The model that a solver found, and how it went.

    Attributes
    ----------
    model : Model
    status : "converged", "max_iter", "time_limit" or "stopped"
        "stopped": by the callback or a signal, or because rounding errors allow no further
        progress.
    objective : float or None
        Value of the solver's problem at the model; None where there is no stated problem.
    duality_gap : float or None
        Certified difference between the objective and a lower bound of its minimum, in the
        objective's own units.
    n_iter : int
        Outer iterations.
    n_passes : float
        Full passes over the features; a fused Hessian-vector product is one.
    history : tuple of dict
        One row an iteration: ``n_iter``, ``seconds`` and the solver's own numbers.
    seconds : float
        Wall time of the whole call.
    interrupted : bool
        Whether a signal, or the loop around the solver, asked it to stop.
    """

    model: Model
    status: Status
    objective: float | None
    duality_gap: float | None
    n_iter: int
    n_passes: float
    history: tuple[dict[str, float], ...] = ()
    seconds: float = 0.0
    interrupted: bool = False


@dataclass
class Monitor:
    """The history of a run, and why it should stop: a signal, the callback or the time limit.

    Attributes
    ----------
    callback : callable or None
    time_limit : float or None
    history : list of dict
        A row of `SolverResult.history` for each iteration reported.
    started : float
        Of the clock `time.perf_counter`.
    interruption : "time_limit", "stopped" or None
        Why `report` returned False; it is the status of a run that ends as "stopped".
    """

    callback: Callback | None = None
    time_limit: float | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    interruption: Literal["time_limit", "stopped"] | None = None

    def report(self, n_iter: int, **values: float) -> bool:
        """Record an iteration; False if the solver should stop now."""
        seconds = time.perf_counter() - self.started
        self.history.append({"n_iter": n_iter, "seconds": seconds, **values})
        if self.callback is not None and self.callback(Progress(n_iter, seconds, values)):
            self.interruption = "stopped"
        elif self.time_limit is not None and seconds >= self.time_limit:
            self.interruption = "time_limit"
        if interrupted():
            self.interruption = "stopped"
        return self.interruption is None
