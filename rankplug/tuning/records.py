"""Records of a study: its trials, their steps and its result, and how storages keep them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from rankplug.solver import Solver, SolverResult

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

__all__ = [
    "DETAILS",
    "ERROR",
    "JOURNAL",
    "WORKER",
    "Cost",
    "PathStep",
    "Pruner",
    "Sampler",
    "TrialRecord",
    "TrialState",
    "TrialStep",
    "TuneResult",
    "plain",
    "to_record",
    "uses_budget",
]

JOURNAL = "study.journal"
"""The name of a journal in the folder that keeps a study."""

# Names of the attributes of a stored trial; studies of all versions have them.
WORKER = "rankplug.worker"
"""The process that runs the trial."""
ERROR = "rankplug.error"
"""What the solver raised. A failed trial without it was killed."""
DETAILS = "rankplug.details"
"""Fields of a `TrialRecord` that Optuna's trials do not have."""

Sampler: TypeAlias = Literal["tpe", "random", "qmc", "grid"]

Pruner: TypeAlias = Literal["wilcoxon", "median"]

Cost: TypeAlias = Literal["seconds", "size"]
"""A second objective, to be minimised: training seconds of a fold, or bytes of its saved model."""

TrialState: TypeAlias = Literal["complete", "pruned", "failed", "killed", "running", "waiting"]


@dataclass(frozen=True)
class TrialStep:
    """What a trial has reached after training on a fold, or after a value of C on a path.

    Attributes
    ----------
    fold : int
        0, 1, ..., `n_folds` - 1.
    n_folds : int
    value : float
        The metric over the held-out queries of this fold.
    so_far : float
        The metric over those of this and all earlier folds.
    seconds : float
        Training time of this step.
    n_passes : float
        Full passes over the fold's training features.
    C : float or None
        On a path, the value of C.
    ends_fold : bool
        Whether the next step begins another fold.
    """

    fold: int
    n_folds: int
    value: float
    so_far: float
    seconds: float
    n_passes: float
    C: float | None = None
    ends_fold: bool = True


@dataclass(frozen=True)
class PathStep:
    """A value of C on a trial's path: the metric over the held-out queries of all folds."""

    C: float
    value: float
    seconds: float
    n_passes: float


@dataclass(frozen=True)
class TrialRecord:
    """A trial of a study.

    Attributes
    ----------
    number : int
        Unique in the study, from 0.
    state : "complete", "pruned", "failed", "killed", "running" or "waiting"
        "failed": the solver raised `error`; "killed": its process ended before the trial did;
        "waiting": put into the queue by Optuna's `enqueue_trial`.
    params : dict
        The searched parameters and their values.
    values : tuple of float
        The metric, then the costs; empty unless complete.
    fold_values : tuple of float
        The metric on each fold that was trained, for a path at its best C.
    path : tuple of PathStep
        The values of C of a trial that solved a path.
    seconds : float
        Training time of all folds.
    n_passes : float
        Full passes over training features, of all folds.
    n_unconverged : int
        Trainings that ended at the solver's iteration limit.
    error : str or None
    """

    number: int
    state: TrialState
    params: Mapping[str, Any]
    values: tuple[float, ...] = ()
    fold_values: tuple[float, ...] = ()
    path: tuple[PathStep, ...] = ()
    seconds: float = 0.0
    n_passes: float = 0.0
    n_unconverged: int = 0
    error: str | None = None

    @property
    def value(self) -> float | None:
        """The metric; None unless complete."""
        return self.values[0] if self.values else None


@dataclass(frozen=True, eq=False)
class TuneResult:
    """What a study found.

    Attributes
    ----------
    best_params : dict
        The searched parameters of the best trial.
    best_solver : Solver
        The solver with these and all fixed parameters, ready to fit.
    best_value : float
        The metric of the best trial over all held-out queries.
    study : optuna.Study
    trials : tuple of TrialRecord
        All of the study, by number.
    metric : str
    costs : tuple of "seconds" or "size"
        The objectives beside the metric.
    best : TrialRecord
        Best by the metric; the first of equals.
    pareto : tuple of TrialRecord
        The trials that no other one beats in all objectives, best metric first.
    best_result : SolverResult or None
        The best solver's result on all of the data, if `refit` was asked for; its model takes
        the data as they are, whatever the `scale`.
    """

    best_params: dict[str, Any]
    best_solver: Solver
    best_value: float
    study: Study
    trials: tuple[TrialRecord, ...]
    metric: str
    best: TrialRecord
    costs: tuple[Cost, ...] = ()
    pareto: tuple[TrialRecord, ...] = ()
    best_result: SolverResult | None = None

    @property
    def counts(self) -> dict[TrialState, int]:
        """How many trials ended in each state; states without a trial are left out."""
        return dict(Counter(trial.state for trial in self.trials))

    @property
    def seconds(self) -> float:
        """Training time of all trials."""
        return sum(trial.seconds for trial in self.trials)

    @property
    def n_passes(self) -> float:
        """Full passes over training features of all trials."""
        return sum(trial.n_passes for trial in self.trials)


def to_record(trial: FrozenTrial) -> TrialRecord:
    """One of Optuna's trials as a `TrialRecord`."""
    details = dict(trial.user_attrs.get(DETAILS, {}))
    state = _state(trial)
    return TrialRecord(
        number=trial.number,
        state=state,
        params=dict(trial.params),
        values=tuple(trial.values) if state == "complete" else (),
        fold_values=tuple(details.pop("fold_values", ())),
        path=tuple(PathStep(**step) for step in details.pop("path", ())),
        error=trial.user_attrs.get(ERROR),
        **details,
    )


def uses_budget(trial: FrozenTrial) -> bool:
    """Whether a trial counts as one of `n_trials`: it runs, or has ended without being killed."""
    return _state(trial) in ("complete", "pruned", "failed", "running")


def _state(trial: FrozenTrial) -> TrialState:
    if trial.state.name == "FAIL":
        return "failed" if ERROR in trial.user_attrs else "killed"
    return cast(TrialState, trial.state.name.lower())


def plain(value: Any) -> Any:
    """The value as JSON gives it back; functions and the like by their names."""

    def name(one: Any) -> Any:
        if hasattr(one, "__qualname__"):
            return f"{one.__module__}.{one.__qualname__}"
        return one.item() if isinstance(one, np.generic) else str(one)

    return json.loads(json.dumps(value, default=name))
