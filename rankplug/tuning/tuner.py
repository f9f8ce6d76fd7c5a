"""`tune`: search for the parameters with which a solver ranks held-out queries best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from rankplug.data import ImputeName, LabelRankingData, RankingData, ScaleName, Task, tables
from rankplug.exceptions import DataError, ParameterError
from rankplug.metrics import parse_metric
from rankplug.models import scaled_model
from rankplug.parameters import Choice, Integer, Optional, Parameter, Real, check_parameters
from rankplug.solver import Data, Solver, SolverResult, check_validation, make_solver, solver_of
from rankplug.tuning.evaluation import Trainer, TuningTask, train_here
from rankplug.tuning.records import (
    Cost,
    Pruner,
    Sampler,
    TuneObserver,
    TuneProgress,
    TuneResult,
    combine,
    plain,
)
from rankplug.tuning.space import Define, PathOption, read_space

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.study import Study as OptunaStudy
    from optuna.trial import FrozenTrial


@dataclass(frozen=True)
class _ChoiceOrOptuna(Choice):
    """One of a few values, or an object of Optuna's."""

    kind: str

    def accepts(self, value: Any) -> bool:
        """Whether `value` is one of the choices or a sampler or pruner."""
        from optuna.pruners import BasePruner
        from optuna.samplers import BaseSampler

        base = {"sampler": BaseSampler, "pruner": BasePruner}[self.kind]
        return isinstance(value, base) or super().accepts(value)

    def __str__(self) -> str:
        return f"{super().__str__()}, or a {self.kind} of Optuna's"


class _Estimator(Protocol):
    """`rankplug.Ranker` or `rankplug.LabelRanker`."""

    solver: str | Solver
    task: ClassVar[Task]


_ARGUMENTS: Mapping[str, Parameter] = {
    "n_trials": Optional(Integer(1, most=2**31 - 1)),
    "timeout": Optional(Real(0)),
    "sampler": _ChoiceOrOptuna(get_args(Sampler), "sampler"),
    "pruner": Optional(_ChoiceOrOptuna(get_args(Pruner), "pruner")),
    "n_jobs": Integer(1, most=2**31 - 1),
    "seed": Integer(0, 2**32 - 1),
    "scale": Choice(get_args(ScaleName)),
    "impute": Choice(get_args(ImputeName)),
    "resume": Choice((True, False)),
    "refit": Choice((True, False)),
}


def tune(
    solver: str | Solver | _Estimator,
    data: Any,
    y: Any = None,
    *,
    qid: ArrayLike | None = None,
    group: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    document_weight: ArrayLike | None = None,
    metric: str = "ndcg@10",
    valid: Data | None = None,
    folds: int = 5,
    n_trials: int | None = None,
    timeout: float | None = None,
    sampler: Sampler | BaseSampler = "tpe",
    pruner: Pruner | BasePruner | None = "wilcoxon",
    storage: str | Path | BaseStorage | None = None,
    study_name: str | None = None,
    n_jobs: int = 1,
    seed: int = 0,
    space: Mapping[str, Any] | Define | None = None,
    path: PathOption = False,
    costs: Cost | Sequence[Cost] = (),
    scale: ScaleName = "none",
    impute: ImputeName = "none",
    resume: bool = False,
    refit: bool = False,
    observer: TuneObserver | Iterable[TuneObserver] = (),
    progress: bool = True,
    trainer: Trainer = train_here,
    callbacks: Iterable[Callable[[OptunaStudy, FrozenTrial], None]] = (),
) -> TuneResult:
    """Search for the parameters with which a solver ranks held-out queries best.

    Parameters
    ----------
    solver : str, Solver, Ranker or LabelRanker
        A registered name, or a solver, maybe an estimator's, whose other parameters hold in all
        trials.
    data : RankingData, LabelRankingData, or features as for `rankplug.Ranker.fit`
        Split into folds by query (by instance for label ranking), none of which is divided.
        Folds are copies; with `valid` there are none.
    y : array-like, optional
        The target, if `data` are features: one relevance a row for `RankingData`; for
        `LabelRankingData` one a label, or the class.
    qid, group, sample_weight, document_weight : array-like, optional
        As of `rankplug.Ranker.fit`, with `y`.
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
    sampler : "tpe", "random", "qmc", "grid" or BaseSampler
        "grid" takes all choices and 8 values of each range, and ends when all are tried. One of
        Optuna's is taken as it is, with its own seed.
    pruner : "wilcoxon", "median", BasePruner or None
        When to give up a trial after a fold: a signed-rank test of the queries scored so far (at
        least 15, at most 500 of a fold) against the same queries of the best trial, or the
        median of earlier trials. One of Optuna's is asked after each fold.
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
    space : mapping or callable, optional
        What to search instead of the solver's own space, see `read_space`: ranges and choices by
        parameter, or a function of one of Optuna's trials that returns the parameters in it, such
        as ``lambda trial: {"C": trial.suggest_float("C", 1e-3, 1, log=True)}``.
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
    impute : "none", "mean" or "median"
        What stands for missing values, of the training part of each fold; before scaling.
    resume : bool
        Go on with the study of that name if the storage has it; otherwise that is an error.
        Also for several processes that work on one study: where they see each other, on one
        machine or in one folder, they end together, with the same best trial.
    refit : bool
        Train the best solver on all of `data` at the end.
    observer : TuneObserver or several of them
    progress : bool
        Show a progress bar if standard error is a terminal or a notebook's.
    trainer : Trainer
        Where trials are trained: in this process, or elsewhere as by `rankplug.dask.tune`.
    callbacks : callable or sequence of callable
        Called with Optuna's study and trial after each trial, as by ``Study.optimize``;
        ``study.stop()`` ends the search.

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
    costs = cast(tuple[Cost, ...], tables.listed(costs))
    wrong = [cost for cost in costs if cost not in get_args(Cost)]
    if wrong or len(set(costs)) < len(costs):
        raise ParameterError(
            f"tune: costs={list(costs)!r} must be different ones of {', '.join(get_args(Cost))}"
        )
    called = tuple(callbacks) if isinstance(callbacks, Iterable) else (callbacks,)
    if not all(map(callable, called)):
        raise ParameterError("tune: callbacks must be functions of a study and a trial")
    if n_trials is None and timeout is None and sampler != "grid":
        raise ParameterError("tune: give n_trials, timeout, or both")
    task_name = getattr(solver, "task", None)
    solver = _copy_solver(solver)
    data = _ranking_data(
        solver,
        task_name,
        data,
        y,
        qid=qid,
        group=group,
        sample_weight=sample_weight,
        document_weight=document_weight,
    )
    if impute == "none":
        solver.check(data)
    check_validation(data, valid)
    task = TuningTask(data, valid, folds, scale, parse_metric(metric), costs, seed, impute)
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
        define=searched.define,
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
        callbacks=called,
    )
    return study.run(storage, study_name, resume=resume)


def _copy_solver(solver: str | Solver | _Estimator) -> Solver:
    found = solver_of(solver)
    return make_solver(found) if isinstance(found, str) else clone(found)


def _ranking_data(solver: Solver, task: Task | None, data: Any, y: Any, **of_queries: Any) -> Data:
    """The data, made of features and target unless they are given whole."""
    given = {name: value for name, value in of_queries.items() if value is not None}
    if isinstance(data, RankingData | LabelRankingData):
        if y is not None or given:
            names = ", ".join([*(["y"] if y is not None else []), *given])
            raise ParameterError(f"tune: data is a {type(data).__name__}, which holds {names} too")
        return data
    if y is None:
        raise DataError(
            f"tune needs RankingData or LabelRankingData, not {type(data).__name__}, or features "
            "with a target y"
        )
    if task is None:
        ranks_labels = np.ndim(y) == 2 or "query-document" not in solver.tags.tasks
        task = "label-ranking" if ranks_labels else "query-document"
    if task == "label-ranking":
        if given:
            raise ParameterError(f"tune: label ranking has no {', '.join(given)}")
        return LabelRankingData.from_arrays(data, y)
    made = RankingData.from_arrays(data, y, **given)
    if made.n_queries == 1 and "group" not in given and not solver.tags.one_query:
        raise DataError(
            f"tune: all {made.n_samples} rows are one query, of which there are no folds: pass "
            "qid=..., or a table with a column 'qid'; if they are one, say so by "
            f"group=[{made.n_samples}] and give valid data"
        )
    return made
