"""`tune`: search for the parameters with which a solver ranks held-out queries best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from sklearn.base import clone

from rankplug.data import ScaleName
from rankplug.exceptions import ParameterError
from rankplug.metrics import parse_metric
from rankplug.models import scaled_model
from rankplug.parameters import Choice, Integer, Optional, Parameter, Real, check_parameters
from rankplug.solver import Data, Solver, SolverResult, check_validation, make_solver
from rankplug.tuning.evaluation import Trainer, train_here
from rankplug.tuning.folds import TuningTask
from rankplug.tuning.observers import TuneObserver, TuneProgress, combine
from rankplug.tuning.records import Cost, Pruner, Sampler, TuneResult, plain
from rankplug.tuning.space import PathOption, read_space

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

__all__ = ["tune"]

_ARGUMENTS: Mapping[str, Parameter] = {
    "n_trials": Optional(Integer(1)),
    "timeout": Optional(Real(0)),
    "sampler": Choice(get_args(Sampler)),
    "pruner": Optional(Choice(get_args(Pruner))),
    "n_jobs": Integer(1),
    "seed": Integer(0, 2**32 - 1),
    "scale": Choice(get_args(ScaleName)),
    "resume": Choice((True, False)),
    "refit": Choice((True, False)),
}


def tune(
    solver: str | Solver,
    data: Data,
    *,
    metric: str = "ndcg@10",
    valid: Data | None = None,
    folds: int = 5,
    n_trials: int | None = None,
    timeout: float | None = None,
    sampler: Sampler = "tpe",
    pruner: Pruner | None = "wilcoxon",
    storage: str | Path | BaseStorage | None = None,
    study_name: str | None = None,
    n_jobs: int = 1,
    seed: int = 0,
    space: Mapping[str, Any] | None = None,
    path: PathOption = False,
    costs: Sequence[Cost] = (),
    scale: ScaleName = "none",
    resume: bool = False,
    refit: bool = False,
    observer: TuneObserver | Iterable[TuneObserver] = (),
    progress: bool = True,
    trainer: Trainer = train_here,
) -> TuneResult:
    """Search for the parameters with which a solver ranks held-out queries best.

    Parameters
    ----------
    solver : str or Solver
        A registered name, or a solver whose other parameters hold in all trials.
    data : RankingData or LabelRankingData
        Split into folds by query (by instance for label ranking), none of which is divided.
        Folds are copies; with `valid` there are none.
    metric : str
        Name of `rankplug.metrics`; its value over the held-out queries of all folds counts.
    valid : RankingData or LabelRankingData, optional
        Score by these instead of by folds; each trial then trains once, on all of `data`.
    folds : int
    n_trials : int, optional
        How many trials the study may have in all, earlier and other processes' ones included.
        A trial counts once it is complete, pruned, or failed by an error of its solver; one
        whose process was killed does not count.
    timeout : float, optional
        Seconds after which this call begins no further trial.
    sampler : "tpe", "random", "qmc" or "grid"
        "grid" takes all choices and 8 values of each range, and ends when all are tried.
    pruner : "wilcoxon", "median" or None
        When to give up a trial after a fold: a signed-rank test of the queries scored so far (at
        least 15, at most 500 of a fold) against the same queries of the best trial, or the
        median of earlier trials.
    storage : str, Path, BaseStorage or None
        A folder, in which ``study.journal`` is kept, a journal file (``*.journal``), a database
        URL such as ``sqlite:///study.db``, or an Optuna storage. None: in memory.
    study_name : str, optional
        The solver's name by default. A study is about one solver.
    n_jobs : int
        Threads, each with a trial of its own.
    seed : int
        Of the folds, the sampler and the solver. With one job the same seed makes the same
        trials.
    space : mapping, optional
        What to search instead of the solver's own space, see `read_space`.
    path : bool, int or sequence of float
        Solve C for ascending values in one trial, each from the solution of the one before;
        the study gets the best of them as the trial's C. For solvers with warm starts. True: 16
        values over the range of C; or how many; or the values. If C is all that is searched,
        one trial is all there is.
    costs : sequence of "seconds" or "size"
        Objectives beside the metric, to be minimised: training seconds or bytes of the saved
        model, means over folds. Trials are not pruned then.
    scale : "none", "standard", "minmax" or "maxabs"
        Scaling of features, fitted on the training part of each fold.
    resume : bool
        Go on with the study of that name if the storage has it; otherwise that is an error.
        Also for several processes that work on one study: where they see each other, on one
        machine or in one folder, they end together, with the same best trial.
    refit : bool
        Train the best solver on all of `data` at the end.
    observer : TuneObserver or several of them
    progress : bool
        Show a progress bar if standard error is a terminal.
    trainer : Trainer
        Where trials are trained: in this process, or elsewhere as by `rankplug.dask.tune`.

    Raises
    ------
    ParameterError
        If a parameter or the space is wrong, the study exists, or an existing one is about
        something else.
    DataError
        If the data cannot be split, or the metric has no meaning for them.
    TuningError
        If no trial is complete at the end.

    Notes
    -----
    A trial in which the solver raises an error is failed, and the study goes on; after ten in
    a row it ends. Trials that were running in a process that is gone are marked as failed
    when the study is resumed.
    """
    check_parameters("tune", _ARGUMENTS, locals())
    wrong = [cost for cost in costs if cost not in get_args(Cost)]
    if wrong or len(set(costs)) < len(costs):
        raise ParameterError(
            f"tune: costs={list(costs)!r} must be different ones of {', '.join(get_args(Cost))}"
        )
    if n_trials is None and timeout is None and sampler != "grid":
        raise ParameterError("tune: give n_trials, timeout, or both")
    solver = _copy_solver(solver)
    solver.check(data)
    check_validation(data, valid)
    task = TuningTask(data, valid, folds, scale, parse_metric(metric), tuple(costs), seed)
    train, held_out, scaling = task.whole
    searched = read_space(solver, space, train)
    solver.set_params(**searched.fixed).check(train)
    task.check_metric()

    def retrain(best: Solver) -> SolverResult:
        result = best.solve(train, valid=held_out, random_state=seed)
        return replace(result, model=scaled_model(result.model, scaling))

    from rankplug.tuning.study import Study

    study = Study(
        solver=solver,
        task=task,
        distributions=searched.distributions,
        path=path,
        sampler=sampler,
        pruner=pruner,
        n_jobs=n_jobs,
        n_trials=n_trials,
        timeout=timeout,
        setup={
            "solver": solver.name,
            # Threads do not change results.
            "params": {
                name: plain(value)
                for name, value in solver.get_params(deep=False).items()
                if name not in searched.distributions and name != "n_threads"
            },
            **task.setup(),
            "space": plain(space),
            "path": plain(path),
        },
        refit=retrain if refit else None,
        observer=combine(TuneObserver, TuneProgress() if progress else (), observer),
        trainer=trainer,
    )
    return study.run(storage, study_name, resume=resume)


def _copy_solver(solver: str | Solver) -> Solver:
    if isinstance(solver, str):
        return make_solver(solver)
    if not isinstance(solver, Solver):
        raise ParameterError(f"solver={solver!r} must be a registered name or a Solver")
    own: Solver = clone(solver)
    return own
