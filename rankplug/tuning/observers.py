"""Events of a study, and the observers that receive them: several as one, and a bar."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rankplug.metrics import parse_metric
from rankplug.solver import Solver
from rankplug.tuning.records import Cost, TrialRecord, TrialStep, TuneResult

if TYPE_CHECKING:
    from optuna import Study

__all__ = ["StudyInfo", "TuneObserver", "TuneProgress", "combine"]

T = TypeVar("T")


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
        """Open the bar; it is hidden when the output is no terminal."""
        from tqdm import tqdm

        self._better = max if parse_metric(info.metric).greater_is_better else min
        self._bar = tqdm(desc=info.name, total=info.n_trials, unit="trial", disable=None)
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
