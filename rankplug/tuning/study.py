"""A study: the trials of one call of `tune`, from parameters that are asked for to their scores.

This module imports optuna: it is itself imported in functions only.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import DuplicatedStudyError, ExperimentalWarning, UpdateFinishedTrialError
from optuna.pruners import BasePruner, NopPruner
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial
from optuna.trial import TrialState as State
from sklearn.base import clone

from rankplug.exceptions import (
    ClusterError,
    ConvergenceWarning,
    ParameterError,
    RankplugError,
    TuningError,
)
from rankplug.solver import Solver, SolverResult
from rankplug.system.interruption import ending_loop, raise_if_lost
from rankplug.system.locks import Workers
from rankplug.tuning.evaluation import Evaluation, Stopped, Trainer, TuningTask
from rankplug.tuning.records import (
    DETAILS,
    ERROR,
    PARAMS,
    WORKER,
    Pruner,
    Sampler,
    StudyInfo,
    TrialRecord,
    TuneObserver,
    TuneResult,
    params_of,
    to_record,
    uses_budget,
)
from rankplug.tuning.sampling import NoPruning, TrialSampler, make_pruning, make_sampler
from rankplug.tuning.space import CPath, PathOption, plan_path
from rankplug.tuning.storage import (
    STUDY_ID,
    Place,
    agree_on_space,
    end_trial,
    fail_killed,
    left_behind,
    open_storage,
)

_log = logging.getLogger(__name__)

# So many fail in a row when the solver or the data are wrong, hardly by bad luck with parameters.
_FAILURES_IN_A_ROW = 10
_LOOK_EVERY = 0.2  # seconds: little beside a trial, and much beside reading the study


@dataclass(frozen=True)
class Study:
    """One solver's parameters, searched as `tune` has checked.

    `run` takes these steps:

    1. Plan the path and the sampler, so that what is wrong with them is said before there is a
       study.
    2. Open the storage and join the processes that work on it. One of them at a time makes the
       study, or resumes it and takes over its search space.
    3. End the trials whose process was killed.
    4. Run trials, in `n_jobs` threads, until `n_trials` or `timeout` are used up or nothing is
       left to try (`_Trials`).
    5. Sum up: the best trial, those that no other one beats, and the solver trained again.

    Parameters are those of `tune`, and:

    Parameters
    ----------
    distributions : mapping
        The search space, as a new study begins with it.
    define : callable or None
        The search space as a function of a trial, instead of `distributions`.
    setup : mapping
        What a resumed study has to agree in.
    refit : callable or None
        Trains the best solver on all of the data.
    started : float
        When `timeout` began to run.
    """

    solver: Solver
    task: TuningTask
    distributions: Mapping[str, BaseDistribution]
    define: Callable[[Trial], dict[str, Any]] | None
    path: PathOption
    sampler: Sampler | BaseSampler
    pruner: Pruner | BasePruner | None
    n_jobs: int
    n_trials: int | None
    timeout: float | None
    setup: Mapping[str, Any]
    refit: Callable[[Solver], SolverResult] | None
    observer: TuneObserver
    trainer: Trainer
    callbacks: Sequence[Callable[[optuna.Study, FrozenTrial], None]] = ()
    started: float = field(default_factory=time.monotonic)

    def run(
        self, storage: str | Path | BaseStorage | None, name: str | None, *, resume: bool
    ) -> TuneResult:
        """Work on the study of that name until the budget is used up."""
        self._plan(self.distributions)
        place = open_storage(storage)
        with ending_loop(), _quiet(), place.workers.join() as worker:
            with place.writing(), place.workers.one_at_a_time():
                study = self._open(place, name or self.solver.name, resume=resume)
                distributions = agree_on_space(study, self.setup, self.distributions)
            path, sampler = self._plan(distributions)
            study.sampler = sampler
            study.stop = sampler.end  # type: ignore[method-assign]
            fail_killed(study, place.workers, worker)
            pruning = make_pruning(self.pruner, study)
            trials = _Trials(self, study, path, sampler, pruning, place.workers, worker)
            self.observer.study_started(self._info(study), left_behind(study, place.workers))
            try:
                with warnings.catch_warnings():
                    # What the solver warns of in a trial is no news after the first.
                    warnings.filterwarnings("ignore", module=r"rankplug\.tuning\.evaluation")
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    with place.writing():
                        trials.run()
                result = self._result(study)
                self.observer.study_finished(result)
            except BaseException as error:
                self.observer.study_failed(error)
                raise
            return result

    def out_of_time(self) -> bool:
        """Whether no trial may begin any more."""
        return self.timeout is not None and time.monotonic() - self.started >= self.timeout

    def used_up(self, study: optuna.Study, before: float = math.inf) -> bool:
        """Whether the trials numbered lower than `before` are as many as there may be."""
        if self.n_trials is None:
            return False
        trials = study.get_trials(deepcopy=False)
        return sum(uses_budget(one) for one in trials if one.number < before) >= self.n_trials

    def _plan(
        self, distributions: Mapping[str, BaseDistribution]
    ) -> tuple[CPath | None, TrialSampler]:
        if self.define is not None and self.path is not False:
            raise ParameterError("path needs a space of ranges, not a function of a trial")
        path = plan_path(self.path, self.solver, distributions)
        sampled = {name: one for name, one in distributions.items() if not (path and name == "C")}
        is_open = self.define is not None
        return path, make_sampler(self.sampler, sampled, self.task.seed, open=is_open)

    def _open(self, place: Place, name: str, *, resume: bool) -> optuna.Study:
        metric = self.task.metric
        better = StudyDirection.MAXIMIZE if metric.greater_is_better else StudyDirection.MINIMIZE
        try:
            study = optuna.create_study(
                storage=place.storage,
                study_name=name,
                directions=[better, *(StudyDirection.MINIMIZE for _ in self.task.costs)],
                load_if_exists=resume,
                pruner=NopPruner(),
            )
        except DuplicatedStudyError:
            raise ParameterError(
                f"the study {name!r} exists in {place.name}: go on with it by resume=True, or "
                "give another study_name or storage"
            ) from None
        if study.metric_names is None:  # what dashboards write at the axes
            study.set_metric_names([str(metric), *self.task.costs])
        return study

    def _info(self, study: optuna.Study) -> StudyInfo:
        return StudyInfo(
            id=study.user_attrs[STUDY_ID],
            name=study.study_name,
            solver=self.solver,
            metric=str(self.task.metric),
            costs=self.task.costs,
            setup=self.setup,
            study=study,
            n_trials=self.n_trials,
        )

    def _result(self, study: optuna.Study) -> TuneResult:
        trials = tuple(to_record(trial) for trial in study.get_trials(deepcopy=False))
        complete = [trial for trial in trials if trial.values]
        if not complete:
            raise TuningError(_why_none(study.study_name, trials))
        sign = 1 if self.task.metric.greater_is_better else -1
        complete.sort(key=lambda trial: -sign * trial.values[0])
        best = complete[0]
        optima = study.best_trials if self.task.costs else [best]
        efficient = {trial.number for trial in optima}
        solver = clone(self.solver).set_params(**best.params)
        return TuneResult(
            best_params=dict(best.params),
            best_solver=solver,
            best_value=best.values[0],
            study=study,
            trials=trials,
            metric=str(self.task.metric),
            best=best,
            costs=self.task.costs,
            pareto=tuple(trial for trial in complete if trial.number in efficient),
            best_result=None if self.refit is None else self.refit(solver),
        )


@dataclass
class _Trials:
    """The trials that this process runs, one after the other in each of its threads.

    Attributes
    ----------
    plan : Study
    study : optuna.Study
        With a `TrialSampler`.
    path : CPath or None
        Its best C is given at the end of a trial.
    workers : Workers
        The processes that work on the storage.
    worker : str
        This process's name among them.
    """

    plan: Study
    study: optuna.Study
    path: CPath | None
    sampler: TrialSampler
    pruning: NoPruning
    workers: Workers
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
            fail_killed(self.study, self.workers, self.worker)
            self._run_here()

    def _run_here(self) -> None:
        if self.plan.n_jobs == 1:
            self._work()
            return
        with ThreadPoolExecutor(self.plan.n_jobs) as pool:
            jobs = [pool.submit(self._work) for _ in range(self.plan.n_jobs)]
            try:
                for job in as_completed(jobs):
                    job.result()
            except BaseException:
                self.stop = True
                raise

    def _others_are_at_their_last(self) -> bool:
        done = self.plan.used_up(self.study) or self.sampler.exhausted(self.study)
        if not done or self.plan.out_of_time():
            return False
        running = self.study.get_trials(deepcopy=False, states=(State.RUNNING,))
        names = [trial.user_attrs.get(WORKER) for trial in running]
        return any(name is not None and self.workers.sees(name) for name in names)

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
        with self.asking, self.workers.one_at_a_time():
            if self.stop or plan.out_of_time() or plan.used_up(self.study):
                return None
            if self.failures_in_a_row >= _FAILURES_IN_A_ROW or self.sampler.exhausted(self.study):
                return None
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
                    if len(self.study.directions) == 1 and math.isfinite(step.so_far):
                        trial.report(step.so_far, number)
                    plan.observer.step(trial.number, step)
                    if number < last and self.pruning.after_step(trial, evaluation, step):
                        return True
        return False

    def _stopping(self) -> bool:
        return self.stop or raise_if_lost()

    def _finish(self, trial: Trial, evaluation: Evaluation, *, pruned: bool) -> FrozenTrial:
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
            return end_trial(self.study, trial, state=State.PRUNED)
        self.pruning.keep(trial, evaluation)
        return end_trial(self.study, trial, values)

    def _fail(self, trial: Trial, evaluation: Evaluation, error: str | None = None) -> FrozenTrial:
        """End a trial without a result; without an error it counts as killed."""
        with suppress(UpdateFinishedTrialError):
            if error is not None:
                self.failures_in_a_row += 1
                trial.set_user_attr(ERROR, error)
                trial.set_user_attr(DETAILS, evaluation.details())
        return end_trial(self.study, trial, state=State.FAIL)


def _reason(trial: Trial, error: Exception) -> str:
    if isinstance(error, RankplugError):
        return str(error)
    _log.debug("trial %d failed", trial.number, exc_info=error)
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _why_none(name: str, trials: Sequence[TrialRecord]) -> str:
    if not trials:
        return f"the study {name!r} has no trial: there was no time for one"
    counted = Counter(trial.state for trial in trials)
    states = ", ".join(f"{number} {state}" for state, number in counted.items())
    errors = [trial.error for trial in trials if trial.error]
    reason = f"; the first error: {errors[0]}" if errors else ""
    return f"no trial of the study {name!r} is complete ({states}){reason}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's line for each trial, and its warnings of what is experimental."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)
