"""What the storage keeps of a trial beside Optuna's own fields, and how it is read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rankplug.tuning.evaluation import Evaluation
from rankplug.tuning.records import PathStep, TrialRecord, TrialState

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

__all__ = ["DETAILS", "ERROR", "WORKER", "counts", "details", "to_record"]

WORKER = "rankplug.worker"
"""The process that runs the trial."""

ERROR = "rankplug.error"
"""What the solver raised. A failed trial without it was killed."""

DETAILS = "rankplug.details"


def counts(trial: FrozenTrial) -> bool:
    """Whether a trial uses up the budget: it runs, or has ended without being killed."""
    return _state(trial) in ("complete", "pruned", "failed", "running")


def details(evaluation: Evaluation) -> dict[str, Any]:
    """What there is to keep of an evaluation, as plain values."""
    return {
        "fold_values": evaluation.best.fold_values,
        "path": [vars(step) for step in evaluation.path()],
        "seconds": evaluation.seconds,
        "n_passes": evaluation.n_passes,
        "n_unconverged": evaluation.n_unconverged,
    }


def to_record(trial: FrozenTrial) -> TrialRecord:
    """One of Optuna's trials as our own record."""
    kept = dict(trial.user_attrs.get(DETAILS, {}))
    state = _state(trial)
    return TrialRecord(
        number=trial.number,
        state=state,
        params=dict(trial.params),
        values=tuple(trial.values) if state == "complete" else (),
        fold_values=tuple(kept.pop("fold_values", ())),
        path=tuple(PathStep(**step) for step in kept.pop("path", ())),
        error=trial.user_attrs.get(ERROR),
        **kept,
    )


def _state(trial: FrozenTrial) -> TrialState:
    from optuna.trial import TrialState as Optuna

    if trial.state == Optuna.FAIL:
        return "failed" if ERROR in trial.user_attrs else "killed"
    states: dict[Optuna, TrialState] = {
        Optuna.COMPLETE: "complete",
        Optuna.PRUNED: "pruned",
        Optuna.RUNNING: "running",
        Optuna.WAITING: "waiting",
    }
    return states[trial.state]
