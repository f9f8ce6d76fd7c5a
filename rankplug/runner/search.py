"""Search for the parameters of a recipe's entry, and the log of its trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from rankplug.exceptions import ParameterError
from rankplug.metrics import parse_metric
from rankplug.recipe import Entry, Recipe, Tune
from rankplug.report import ParetoTrials, TuningSummary
from rankplug.runner.splits import Splits
from rankplug.solver import Data, Solver
from rankplug.tuning import StudyInfo, TrialRecord, TuneObserver, TuneResult, tune

__all__ = ["Search", "TrialLog", "is_tunable", "search"]

Search: TypeAlias = Callable[..., TuneResult]
"""`rankplug.tune`, or a function with its arguments."""

_FOLDS = 5  # the usual number, as of `rankplug.tune`


class TrialLog(TuneObserver):
    """Keeps the trials of a study, so that an interruption does not lose them."""

    def __init__(self, recipe: Recipe) -> None:
        self.metric = _settings(recipe).metric or recipe.primary_metric
        self.costs = _settings(recipe).costs
        self.trials: Sequence[TrialRecord] = ()

    def study_started(self, info: StudyInfo, earlier: Sequence[TrialRecord]) -> None:
        """Take over the trials of an earlier process."""
        self.trials = (*earlier,)

    def trial_finished(self, trial: TrialRecord) -> None:
        """Keep the trial."""
        self.trials = (*self.trials, trial)

    def study_finished(self, result: TuneResult) -> None:
        """Keep also the trials of other processes."""
        self.trials = result.trials

    def summary(self) -> TuningSummary:
        """What the trials have found and cost so far."""
        complete = [trial for trial in self.trials if trial.values]
        sign = 1.0 if parse_metric(self.metric).greater_is_better else -1.0
        best = max(complete, key=lambda trial: sign * trial.values[0], default=None)
        history, spent = [], 0.0
        for trial in self.trials:
            spent += trial.seconds
            value = trial.values[0] if trial.values else math.nan
            history.append((trial.number, spent, value, trial.params))
        states = [trial.state for trial in self.trials]
        return TuningSummary(
            n_trials=len(states),
            n_pruned=states.count("pruned"),
            n_failed=states.count("failed") + states.count("killed"),
            seconds=spent,
            metric=self.metric,
            best_value=best.values[0] if best else math.nan,
            best_params=best.params if best else {},
            history=tuple(history),
        )

    def pareto(self, name: str) -> ParetoTrials | None:
        """The complete trials, if there are several objectives."""
        if not self.costs:
            return None
        return ParetoTrials(
            name,
            (self.metric, *self.costs),
            (parse_metric(self.metric).greater_is_better, *(False for _ in self.costs)),
            tuple((one.number, one.values, one.params) for one in self.trials if one.values),
        )


def is_tunable(solver: Solver, entry: Entry, data: Data) -> bool:
    """Whether there is anything to search."""
    return bool(_searchable(solver, entry, data))


def search(
    solver: Solver,
    entry: Entry,
    recipe: Recipe,
    splits: Splits,
    *,
    study_name: str,
    storage: str | Path,
    resume: bool,
    observers: Iterable[TuneObserver],
    tuner: Search | None = None,
) -> Solver:
    """The solver with the parameters that its study has found; raises as `rankplug.tune`."""
    settings, train = _settings(recipe), splits["train"]
    by_valid = settings.folds is None and "valid" in splits
    has_path = solver.tags.warm_start and "C" in _searchable(solver, entry, train)
    result = (tuner or tune)(
        solver,
        train,
        metric=settings.metric or recipe.primary_metric,
        valid=splits["valid"] if by_valid else None,
        folds=settings.folds or _FOLDS,
        n_trials=settings.n_trials,
        timeout=settings.timeout,
        sampler=settings.sampler,
        pruner=None if settings.pruner == "none" else settings.pruner,
        storage=storage,
        study_name=study_name,
        seed=recipe.seed if settings.seed is None else settings.seed,
        space=entry.space,
        path=settings.path and has_path,
        costs=settings.costs,
        scale=recipe.scale,
        resume=resume,
        observer=observers,
        progress=False,
    )
    return result.best_solver


def _searchable(solver: Solver, entry: Entry, data: Data) -> set[str]:
    return {*solver.tuning_space(data), *entry.space} - set(entry.held)


def _settings(recipe: Recipe) -> Tune:
    if recipe.tune is None:
        raise ParameterError("the recipe has no section 'tune'")
    return recipe.tune
