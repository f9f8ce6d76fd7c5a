"""Records of a study, of its trials and its result, and the observers that receive them."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import numpy as np

from rankplug.display import html_facts
from rankplug.metrics import parse_metric
from rankplug.solver import Solver, SolverResult
from rankplug.system.bars import open_bar

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial, Trial

T = TypeVar("T")

JOURNAL = "study.journal"
"""The name of a journal in the folder that keeps a study."""

# Names of the attributes of a stored trial; studies of all versions have them.
WORKER = "rankplug.worker"
"""The process that runs the trial."""
ERROR = "rankplug.error"
"""What the solver raised. A failed trial without it was killed."""
PARAMS = "rankplug.params"
"""The solver's parameters where a function has made them of what was suggested."""
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

    def _facts(self) -> dict[str, Any]:
        """What a table of the study says of it."""
        params = ", ".join(
            f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in self.best_params.items()
        )
        return {
            "solver": self.best_solver.name,
            "trials": ", ".join(f"{number} {state}" for state, number in self.counts.items()),
            f"best {self.metric}": f"{self.best_value:.4f}",
            "best parameters": params,
            "costs": ", ".join(self.costs) or None,
            "seconds of training": f"{self.seconds:.3g}",
        }

    def __repr__(self) -> str:
        facts = [f"{key} {value}" for key, value in self._facts().items() if value is not None]
        return f"<TuneResult: {', '.join(facts)}>"

    def _repr_html_(self) -> str:
        return html_facts("TuneResult", self._facts())

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


@dataclass(frozen=True, eq=False)
class StudyInfo:
    """What a study is about.

    Attributes
    ----------
    id : str
        Tells the study from all others, wherever they are kept.
    name : str
    solver : Solver
        With the fixed parameters.
    metric : str
    costs : tuple of "seconds" or "size"
    setup : dict
        What makes its trials comparable, as plain values: solver, fixed parameters, folds,
        seed, scale and so on.
    study : optuna.Study
    n_trials : int or None
        How many trials the study may have in all.
    """

    id: str
    name: str
    solver: Solver
    metric: str
    costs: tuple[Cost, ...]
    setup: Mapping[str, Any]
    study: Study
    n_trials: int | None


class TuneObserver:
    """Receives the events of a study; every method may be overridden, none has to be.

    A study ends with `study_finished` or `study_failed`. With several jobs the methods are
    called from several threads, one at a time.
    """

    def study_started(self, info: StudyInfo, earlier: Sequence[TrialRecord]) -> None:
        """Trials begin; `earlier` are those of a resumed study whose processes are gone."""

    def trial_started(self, number: int, params: Mapping[str, Any]) -> None:
        """A trial begins with these sampled parameters."""

    def step(self, number: int, step: TrialStep) -> None:
        """A fold, or a value of C on a path, is trained and scored."""

    def trial_finished(self, trial: TrialRecord) -> None:
        """A trial ended: complete, pruned, failed, or killed by an interruption."""

    def study_finished(self, result: TuneResult) -> None:
        """All is done."""

    def study_failed(self, error: BaseException) -> None:
        """The study cannot go on, or was interrupted."""


def combine(kind: type[T], *given: T | Iterable[T]) -> T:
    """Several observers of a kind as one: each event goes to one after the other.

    In one thread at a time. What they answer becomes one list.
    """
    receivers: list[T] = []
    for one in given:
        receivers += [one] if isinstance(one, kind) else cast(Iterable[T], one)
    lock = threading.RLock()

    def forward(event: str, *arguments: Any) -> list[Any]:
        with lock:
            answers = [getattr(receiver, event)(*arguments) for receiver in receivers]
        return [one for answer in answers for one in answer or ()]

    combined = kind()
    for event in [name for name in vars(kind) if not name.startswith("_")]:
        setattr(combined, event, partial(forward, event))
    return combined


class TuneProgress(TuneObserver):
    """A bar on the terminal: trials, and the best value so far."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._best: float | None = None
        self._better = max

    def study_started(self, info: StudyInfo, earlier: Sequence[TrialRecord]) -> None:
        """Open the bar; it is hidden where there is no terminal and no notebook."""
        self._better = max if parse_metric(info.metric).greater_is_better else min
        self._bar = open_bar(desc=info.name, total=info.n_trials, unit="trial")
        for trial in earlier:
            self.trial_finished(trial)

    def trial_finished(self, trial: TrialRecord) -> None:
        """Move the bar."""
        if trial.value is not None:
            known = [trial.value] if self._best is None else [trial.value, self._best]
            self._best = self._better(known)
            self._bar.set_postfix(best=f"{self._best:.5g}", refresh=False)
        self._bar.update(trial.state != "killed")

    def study_finished(self, result: TuneResult) -> None:
        """Close the bar."""
        self._bar.close()

    def study_failed(self, error: BaseException) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()


def params_of(trial: FrozenTrial | Trial) -> dict[str, Any]:
    """The solver's parameters in a trial."""
    return dict(trial.user_attrs.get(PARAMS, trial.params))


def to_record(trial: FrozenTrial) -> TrialRecord:
    """One of Optuna's trials as a `TrialRecord`."""
    details = dict(trial.user_attrs.get(DETAILS, {}))
    state = _state(trial)
    return TrialRecord(
        number=trial.number,
        state=state,
        params=params_of(trial),
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
