"""A study of a tracked run: trouble with the log must not end the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rankplug.mlflow.study import MlflowTuneObserver
from rankplug.mlflow.tracked_run import TrackedRun
from rankplug.tuning import StudyInfo, TrialRecord

__all__ = ["GuardedStudy"]


class GuardedStudy(MlflowTuneObserver):
    """Logs a study below a run; when even its start cannot be logged, only the log is lost.

    Parameters
    ----------
    parent : TrackedRun
    attempt : callable
        Calls a function of one argument, and turns its errors into warnings.
    """

    def __init__(self, parent: TrackedRun, attempt: Callable[[Callable[[Any], None]], Any]) -> None:
        super().__init__(parent=parent)
        self._guard = attempt

    def study_started(self, info: StudyInfo, earlier: Sequence[TrialRecord]) -> None:
        """Start the study's run, if that is possible."""
        start = super().study_started
        self._guard(lambda _: start(info, earlier))
