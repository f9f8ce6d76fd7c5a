"""A study: the trials of one call of `tune`, from parameters that are asked for to their scores.

This module imports optuna: it is itself imported in functions only.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import DuplicatedStudyError
from optuna.pruners import BasePruner, NopPruner
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial
from sklearn.base import clone

from rankplug.exceptions import ConvergenceWarning, ParameterError, TuningError
from rankplug.solver import Solver, SolverResult
from rankplug.system.interruption import ending_loop
from rankplug.system.signals import deferred
from rankplug.tuning.evaluation import Trainer, TuningTask
from rankplug.tuning.records import (
    Pruner,
    Sampler,
    StudyInfo,
    TrialRecord,
    TuneObserver,
    TuneResult,
    plain,
    to_record,
    uses_budget,
)
from rankplug.tuning.sampling import TrialSampler, make_pruning, make_sampler
from rankplug.tuning.space import CPath, PathOption, plan_path, quiet
from rankplug.tuning.storage import (
    STUDY_ID,
    Place,
    agree_on_space,
    fail_killed,
    left_behind,
    open_storage,
)
from rankplug.tuning.trials import Trials


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
       left to try (`Trials`).
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
        with ending_loop(), quiet(), place.workers.join() as worker:
            with deferred(once=True), place.writing(), place.workers.one_at_a_time():
                study = self._open(place, name or self.solver.name, resume=resume)
                defaults = plain(type(self.solver)().get_params(deep=False))
                distributions = agree_on_space(study, self.setup, self.distributions, defaults)
            path, sampler = self._plan(distributions)
            study.sampler = sampler
            study.stop = sampler.end  # type: ignore[method-assign]
            with deferred(once=True):
                fail_killed(study, place.workers, worker)
            pruning = make_pruning(self.pruner, study)
            trials = Trials(self, study, path, sampler, pruning, place, worker)
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
        if min(len(trials), before) < self.n_trials:  # they are numbered from 0
            return False
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


def _why_none(name: str, trials: Sequence[TrialRecord]) -> str:
    if not trials:
        return f"the study {name!r} has no trial: there was no time for one"
    counted = Counter(trial.state for trial in trials)
    states = ", ".join(f"{number} {state}" for state, number in counted.items())
    errors = [trial.error for trial in trials if trial.error]
    reason = f"; the first error: {errors[0]}" if errors else ""
    return f"no trial of the study {name!r} is complete ({states}){reason}"
