"""The trials that a process runs: parameters that are asked for, trained and scored fold by fold.

This module imports optuna: it is itself imported in functions only.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial
from optuna.trial import TrialState as State
from sklearn.base import clone

from rankplug.exceptions import ClusterError, RankplugError
from rankplug.system.signals import deferred, raise_if_lost
from rankplug.tuning.evaluation import Evaluation, Stopped
from rankplug.tuning.records import DETAILS, ERROR, PARAMS, WORKER, params_of, to_record
from rankplug.tuning.sampling import NoPruning, TrialSampler
from rankplug.tuning.space import CPath
from rankplug.tuning.storage import Place, end_trial, fail_killed

if TYPE_CHECKING:
    from rankplug.tuning.study import Study

_log = logging.getLogger(__name__)

# So many fail in a row when the solver or the data are wrong, hardly by bad luck with parameters.
_FAILURES_IN_A_ROW = 10
_LOOK_EVERY = 0.2  # seconds: little beside a trial, and much beside reading the study


@dataclass
class Trials:
    """The trials that this process runs, one after the other in each of its threads.

    Attributes
    ----------
    plan : Study
    study : optuna.Study
        With a `TrialSampler`.
    path : CPath or None
        Its best C is given at the end of a trial.
    place : Place
        The storage, and the processes that work on it.
    worker : str
        This process's name among them.
    """

    plan: Study
    study: optuna.Study
    path: CPath | None
    sampler: TrialSampler
    pruning: NoPruning
    place: Place
    worker: str
    asking: threading.Lock = field(default_factory=threading.Lock)
    failures_in_a_row: int = 0
    stop: bool = False

    def run(self) -> None:
        """Run trials until the budget is used up or there is nothing left to try.

        Other processes may be at their last trials then: these are waited for, so that all end
        with the same best one, and are run here if their process is killed.
        """
        self._run_here()
        while self._others_are_at_their_last():
            time.sleep(_LOOK_EVERY)
            raise_if_lost()
            fail_killed(self.study, self.place.workers, self.worker)
            self._run_here()

    def _run_here(self) -> None:
        if self.plan.n_jobs == 1:
            self._work()
            return
        with ThreadPoolExecutor(self.plan.n_jobs) as pool:
            try:
                # A signal while a thread starts would leave one that the pool knows nothing of.
                with deferred(once=True):
                    jobs = [pool.submit(self._work) for _ in range(self.plan.n_jobs)]
                for job in as_completed(jobs):
                    job.result()
            except BaseException:
                self.stop = True
                raise

    @deferred(once=True)
    def _others_are_at_their_last(self) -> bool:
        done = self.plan.used_up(self.study) or self.sampler.exhausted(self.study)
        if not done or self.plan.out_of_time():
            return False
        running = self.study.get_trials(deepcopy=False, states=(State.RUNNING,))
        names = [trial.user_attrs.get(WORKER) for trial in running]
        return any(name is not None and self.place.workers.sees(name) for name in names)

    def _work(self) -> None:
        while (trial := self._ask()) is not None:
            frozen = self._end(trial)
            self.plan.observer.trial_finished(to_record(frozen))
            for callback in self.plan.callbacks:
                callback(self.study, frozen)

    def _ask(self) -> Trial | None:
        """A trial to run; None if there is to be none."""
        plan = self.plan
        raise_if_lost()
        # One process of this machine after the other, so that none asks for a trial too many.
        with deferred(once=True), self.asking, self.place.workers.one_at_a_time():
            if self.stop or plan.out_of_time() or plan.used_up(self.study):
                return None
            if self.failures_in_a_row >= _FAILURES_IN_A_ROW or self.sampler.exhausted(self.study):
                return None
            # Samplers of others may take their time, in which nobody could write.
            with self._together() if isinstance(plan.sampler, str) else nullcontext():
                trial = self.study.ask(self.sampler.distributions)
                if plan.used_up(self.study, before=trial.number):
                    # A process of another machine was faster.
                    end_trial(self.study, trial, state=State.FAIL)
                    return None
                trial.set_user_attr(WORKER, self.worker)
        self._define(trial)
        plan.observer.trial_started(trial.number, params_of(trial))
        return trial

    def _define(self, trial: Trial) -> None:
        """Let the caller's function of a trial say its parameters; its mistakes end the study."""
        if self.plan.define is None:
            return
        try:
            trial.set_user_attr(PARAMS, self.plan.define(trial))
        except BaseException:
            end_trial(self.study, trial, state=State.FAIL)
            raise

    def _end(self, trial: Trial) -> FrozenTrial:
        """Run a trial to whatever end."""
        evaluation = Evaluation(self.plan.task, None if self.path is None else self.path.Cs)
        try:
            return self._finish(trial, evaluation, pruned=self._evaluate(trial, evaluation))
        except (Stopped, UpdateFinishedTrialError):
            return self._fail(trial, evaluation)
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, ClusterError):
                return self._fail(trial, evaluation, _reason(trial, error))
            self.plan.observer.trial_finished(to_record(self._fail(trial, evaluation)))
            raise

    def _evaluate(self, trial: Trial, evaluation: Evaluation) -> bool:
        """Train and score on each fold; whether the trial was given up on the way."""
        plan = self.plan
        solver = clone(plan.solver).set_params(**params_of(trial))
        Cs = None if self.path is None else self.path.Cs
        n_candidates = len(evaluation.candidates)
        last = len(plan.task.folds) * n_candidates - 1
        for fold in range(len(plan.task.folds)):
            with closing(plan.trainer(plan.task, fold, solver, Cs, self._stopping)) as results:
                for position, candidate in enumerate(evaluation.candidates):
                    step = evaluation.add(fold, candidate, next(results))
                    number = fold * n_candidates + position
                    with deferred(once=True):
                        if len(self.study.directions) == 1 and math.isfinite(step.so_far):
                            evaluation.unreported[number] = step.so_far
                        if self.pruning.reads_reports or evaluation.is_long():
                            _report(trial, evaluation)
                        plan.observer.step(trial.number, step)
                        if number < last and self.pruning.after_step(trial, evaluation, step):
                            return True
        return False

    def _stopping(self) -> bool:
        return self.stop or raise_if_lost()

    def _together(self) -> AbstractContextManager[None]:
        return self.place.together() if self.plan.n_jobs == 1 else nullcontext()

    @deferred(once=True)
    def _finish(self, trial: Trial, evaluation: Evaluation, *, pruned: bool) -> FrozenTrial:
        with self._together():
            return self._store(trial, evaluation, pruned=pruned)

    def _store(self, trial: Trial, evaluation: Evaluation, *, pruned: bool) -> FrozenTrial:
        _report(trial, evaluation)
        if self.path is not None:
            best, searched = evaluation.best.C, self.path.range
            assert best is not None
            self.sampler.choose(trial.number, C=best)
            trial.suggest_float("C", searched.low, searched.high, log=searched.log)
        values = evaluation.values()
        if not pruned and not all(map(math.isfinite, values)):
            return self._fail(trial, evaluation, f"the objectives are not finite: {values}")
        self.failures_in_a_row = 0
        trial.set_user_attr(DETAILS, evaluation.details())
        if pruned:
            return self._tell(trial, state=State.PRUNED)
        self.pruning.keep(trial, evaluation)
        return self._tell(trial, values)

    @deferred(once=True)
    def _fail(self, trial: Trial, evaluation: Evaluation, error: str | None = None) -> FrozenTrial:
        """End a trial without a result; without an error it counts as killed."""
        with suppress(UpdateFinishedTrialError):
            _report(trial, evaluation)
            if error is not None:
                self.failures_in_a_row += 1
                trial.set_user_attr(ERROR, error)
                trial.set_user_attr(DETAILS, evaluation.details())
        return self._tell(trial, state=State.FAIL)

    def _tell(
        self, trial: Trial, values: Sequence[float] | None = None, state: State | None = None
    ) -> FrozenTrial:
        """End a trial; one after the other, as samplers look whether others are at work."""
        with self.asking:
            return end_trial(self.study, trial, values, state)


def _report(trial: Trial, evaluation: Evaluation) -> None:
    """Store what the trial has reached, step by step, and was not stored yet."""
    for number in list(evaluation.unreported):
        trial.report(evaluation.unreported.pop(number), number)


def _reason(trial: Trial, error: Exception) -> str:
    if isinstance(error, RankplugError):
        return str(error)
    _log.debug("trial %d failed", trial.number, exc_info=error)
    return f"{type(error).__name__}: {error}".rstrip(": ")
