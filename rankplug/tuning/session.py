"""One call of `tune`: a study is opened, worked on, and summed up.

This module imports optuna: it is itself imported in functions only.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

import optuna
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.exceptions import DuplicatedStudyError, ExperimentalWarning, StorageInternalError
from optuna.pruners import NopPruner
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import TrialState as State
from sklearn.base import clone

from rankplug.exceptions import ConvergenceWarning, ParameterError, TuningError
from rankplug.solver import Solver, SolverResult
from rankplug.system.interruption import ending_loop
from rankplug.system.locks import Workers
from rankplug.tuning.budget import Budget
from rankplug.tuning.loop import Loop, fail_killed
from rankplug.tuning.observers import StudyInfo, TuneObserver
from rankplug.tuning.paths import Path, PathWish, plan_path
from rankplug.tuning.problem import Problem
from rankplug.tuning.pruning import PrunerName, make_pruning
from rankplug.tuning.records import TrialRecord, TuneResult
from rankplug.tuning.sampling import SamplerName, TrialSampler, make_sampler
from rankplug.tuning.setup import STUDY_ID, agreed_distributions
from rankplug.tuning.storage import Place, open_storage
from rankplug.tuning.training import Trainer
from rankplug.tuning.trials import WORKER, to_record

__all__ = ["Session"]


@dataclass(frozen=True)
class Session:
    """What is tuned and how, as checked by `tune`."""

    solver: Solver
    problem: Problem
    distributions: Mapping[str, BaseDistribution]
    path: PathWish
    sampler: SamplerName
    pruner: PrunerName | None
    n_jobs: int
    budget: Budget
    setup: Mapping[str, Any]
    refit: Callable[[Solver], SolverResult] | None
    observer: TuneObserver
    trainer: Trainer

    def run(
        self, storage: str | File | BaseStorage | None, name: str | None, *, resume: bool
    ) -> TuneResult:
        """Work on the study of that name until the budget is spent."""
        # What is wrong with the search is found out before there is a study.
        self._search(self.distributions)
        place = open_storage(storage)
        with ending_loop(), _quiet(), place.workers.join() as worker:
            with _writing_to(place), place.workers.one_at_a_time():
                study = self._open(place, name or self.solver.name, resume=resume)
                agreed = agreed_distributions(study, self.setup, self.distributions)
            path, sampler = self._search(agreed)
            study.sampler = sampler
            fail_killed(study, place.workers, worker)
            loop = Loop(
                study,
                self.solver,
                self.problem,
                sampler,
                path,
                make_pruning(self.pruner, study),
                self.budget,
                self.observer,
                worker,
                self.trainer,
            )
            self.observer.study_started(self._info(study), _left_behind(study, place.workers))
            try:
                with warnings.catch_warnings():
                    # What the solver warns of in a trial is no news after the first.
                    warnings.filterwarnings("ignore", module=r"rankplug\.tuning\.training")
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    with _writing_to(place):
                        loop.run(self.n_jobs)
                result = self._result(study)
                self.observer.study_finished(result)
            except BaseException as error:
                self.observer.study_failed(error)
                raise
            return result

    def _search(
        self, distributions: Mapping[str, BaseDistribution]
    ) -> tuple[Path | None, TrialSampler]:
        path = plan_path(self.path, self.solver, distributions)
        sampled = {
            name: distributions[name] for name in distributions if not (path and name == "C")
        }
        return path, make_sampler(self.sampler, sampled, self.problem.seed)

    def _open(self, place: Place, name: str, *, resume: bool) -> Study:
        metric = self.problem.metric
        better = StudyDirection.MAXIMIZE if metric.greater_is_better else StudyDirection.MINIMIZE
        try:
            return optuna.create_study(
                storage=place.storage,
                study_name=name,
                directions=[better, *(StudyDirection.MINIMIZE for _ in self.problem.costs)],
                load_if_exists=resume,
                pruner=NopPruner(),
            )
        except DuplicatedStudyError:
            raise ParameterError(
                f"the study {name!r} exists in {place.name}: go on with it by resume=True, or "
                "give another study_name or storage"
            ) from None

    def _info(self, study: Study) -> StudyInfo:
        return StudyInfo(
            id=study.user_attrs[STUDY_ID],
            name=study.study_name,
            solver=self.solver,
            metric=str(self.problem.metric),
            costs=self.problem.costs,
            setup=self.setup,
            study=study,
            n_trials=self.budget.n_trials,
        )

    def _result(self, study: Study) -> TuneResult:
        trials = tuple(to_record(trial) for trial in study.get_trials(deepcopy=False))
        complete = [trial for trial in trials if trial.values]
        if not complete:
            raise TuningError(_why_none(study.study_name, trials))
        sign = 1 if self.problem.metric.greater_is_better else -1
        complete.sort(key=lambda trial: -sign * trial.values[0])
        best = complete[0]
        efficient = (
            {trial.number for trial in study.best_trials} if self.problem.costs else {best.number}
        )
        solver = clone(self.solver).set_params(**best.params)
        return TuneResult(
            best_params=dict(best.params),
            best_solver=solver,
            best_value=best.values[0],
            study=study,
            trials=trials,
            metric=str(self.problem.metric),
            best=best,
            costs=self.problem.costs,
            pareto=tuple(trial for trial in complete if trial.number in efficient),
            best_result=None if self.refit is None else self.refit(solver),
        )


def _left_behind(study: Study, workers: Workers) -> Sequence[TrialRecord]:
    """Trials that have ended and whose process is gone, so that nobody else tells of them."""
    ended = study.get_trials(deepcopy=False, states=(State.COMPLETE, State.PRUNED, State.FAIL))
    return [
        to_record(trial)
        for trial in ended
        if WORKER in trial.user_attrs and not workers.alive(trial.user_attrs[WORKER])
    ]


def _why_none(name: str, trials: Sequence[TrialRecord]) -> str:
    if not trials:
        return f"the study {name!r} has no trial: there was no time for one"
    counted = Counter(trial.state for trial in trials)
    states = ", ".join(f"{number} {state}" for state, number in counted.items())
    errors = [trial.error for trial in trials if trial.error]
    reason = f"; the first error: {errors[0]}" if errors else ""
    return f"no trial of the study {name!r} is complete ({states}){reason}"


@contextmanager
def _writing_to(place: Place) -> Iterator[None]:
    """Say what to do when the study cannot be written, as on a full disk."""
    try:
        yield
    except (OSError, StorageInternalError) as error:
        reason = str(error.__cause__ or error).partition("\n")[0]
        raise TuningError(
            f"the study in {place.name} cannot be written ({reason}): its trials that have ended "
            "are kept; make room, and go on by resume=True"
        ) from error


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
