"""Trial after trial: ask for parameters, train and score, tell the result.

This module imports optuna: it is itself imported in functions only.
"""

from __future__ import annotations

import logging
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from optuna import Study, Trial
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as State
from sklearn.base import clone

from rankplug.exceptions import ClusterError, RankplugError
from rankplug.solver import Solver
from rankplug.system.locks import Workers
from rankplug.tuning.budget import Budget
from rankplug.tuning.evaluation import Evaluation
from rankplug.tuning.observers import TuneObserver
from rankplug.tuning.paths import Path
from rankplug.tuning.problem import Problem
from rankplug.tuning.pruning import NoPruning
from rankplug.tuning.sampling import TrialSampler
from rankplug.tuning.training import Stopped, Trainer
from rankplug.tuning.trials import DETAILS, ERROR, WORKER, details, to_record

__all__ = ["Loop", "fail_killed"]

_log = logging.getLogger(__name__)

_FAILURES_IN_A_ROW = 10


class Loop:
    """One process's work on a study.

    Parameters
    ----------
    study : optuna.Study
        With a `TrialSampler`.
    solver : Solver
        With the fixed parameters.
    path : Path or None
        Its best C is given at the end of a trial.
    """

    def __init__(
        self,
        study: Study,
        solver: Solver,
        problem: Problem,
        sampler: TrialSampler,
        path: Path | None,
        pruning: NoPruning,
        budget: Budget,
        observer: TuneObserver,
        worker: str,
        trainer: Trainer,
    ) -> None:
        self._study = study
        self._solver = solver
        self._problem = problem
        self._sampler = sampler
        self._path = path
        self._pruning = pruning
        self._budget = budget
        self._observer = observer
        self._worker = worker
        self._trainer = trainer
        self._asking = threading.Lock()
        self._failures_in_a_row = 0
        self._stop = False

    def run(self, n_jobs: int) -> None:
        """Run trials until the budget is spent or there is nothing left to try."""
        if n_jobs == 1:
            self._work()
            return
        with ThreadPoolExecutor(n_jobs) as pool:
            jobs = [pool.submit(self._work) for _ in range(n_jobs)]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                self._stop = True
                raise

    def _work(self) -> None:
        while (trial := self._next()) is not None:
            try:
                ended = self._end(trial)
            except BaseException:
                self._stop = True
                raise
            if ended is not None:
                self._observer.trial_finished(to_record(ended))

    def _next(self) -> Trial | None:
        """A trial to run; None if there is to be none."""
        with self._asking:
            if self._stop or self._budget.out_of_time or self._budget.spent(self._study):
                return None
            if self._failures_in_a_row >= _FAILURES_IN_A_ROW or self._sampler.exhausted(
                self._study
            ):
                return None
            trial = self._study.ask(self._sampler.distributions)
            if self._budget.spent(self._study, before=trial.number):
                # Another process was faster.
                self._study.tell(trial, state=State.FAIL)
                return None
            trial.set_user_attr(WORKER, self._worker)
        self._observer.trial_started(trial.number, dict(trial.params))
        return trial

    def _end(self, trial: Trial) -> FrozenTrial:
        """Run a trial to whatever end."""
        solver = clone(self._solver).set_params(**trial.params)
        Cs = None if self._path is None else self._path.Cs
        evaluation = Evaluation(solver, self._problem, Cs, lambda: self._stop, self._trainer)
        try:
            return self._finish(trial, evaluation, pruned=self._evaluate(trial, evaluation))
        except (Stopped, UpdateFinishedTrialError):
            return self._fail(trial, evaluation)
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, ClusterError):
                return self._fail(trial, evaluation, _reason(trial, error))
            self._observer.trial_finished(to_record(self._fail(trial, evaluation)))
            raise

    def _evaluate(self, trial: Trial, evaluation: Evaluation) -> bool:
        """Train and score; whether the trial was given up on the way."""
        last = len(self._problem.folds) * len(evaluation.candidates) - 1
        for number, step in enumerate(evaluation.steps()):
            if len(self._study.directions) == 1 and math.isfinite(step.so_far):
                trial.report(step.so_far, number)
            self._observer.step(trial.number, step)
            if number < last and self._pruning.after_step(trial, evaluation, step):
                return True
        return False

    def _finish(self, trial: Trial, evaluation: Evaluation, *, pruned: bool) -> FrozenTrial:
        if self._path is not None:
            best, searched = evaluation.best.C, self._path.range
            assert best is not None
            self._sampler.choose(trial.number, C=best)
            trial.suggest_float("C", searched.low, searched.high, log=searched.log)
        values = evaluation.values()
        if not pruned and not all(map(math.isfinite, values)):
            return self._fail(trial, evaluation, f"the objectives are not finite: {values}")
        self._failures_in_a_row = 0
        trial.set_user_attr(DETAILS, details(evaluation))
        if pruned:
            return self._study.tell(trial, state=State.PRUNED, skip_if_finished=True)
        self._pruning.keep(trial, evaluation)
        return self._study.tell(trial, values, skip_if_finished=True)

    def _fail(self, trial: Trial, evaluation: Evaluation, error: str | None = None) -> FrozenTrial:
        """End a trial without a result; without an error it counts as killed."""
        with suppress(UpdateFinishedTrialError):
            if error is not None:
                self._failures_in_a_row += 1
                trial.set_user_attr(ERROR, error)
                trial.set_user_attr(DETAILS, details(evaluation))
        return self._study.tell(trial, state=State.FAIL, skip_if_finished=True)


def _reason(trial: Trial, error: Exception) -> str:
    if isinstance(error, RankplugError):
        return str(error)
    _log.debug("trial %d failed", trial.number, exc_info=error)
    return f"{type(error).__name__}: {error}".rstrip(": ")


def fail_killed(study: Study, workers: Workers, own: str) -> None:
    """Mark the trials as failed whose process is gone.

    A trial that has no worker yet is one that was killed right after it began, or that
    another process has begun this moment.
    """
    others = workers.others(own)
    for trial in study.get_trials(deepcopy=False, states=(State.RUNNING,)):
        worker = trial.user_attrs.get(WORKER)
        gone = not others if worker is None else not workers.alive(worker)
        if gone:
            study.tell(trial.number, state=State.FAIL, skip_if_finished=True)
