"""A solver's turn in a run: it is tuned, trained and scored as often as the plan says."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from rankplug.data import ImputeName, describe_missing
from rankplug.exceptions import DataWarning, RankplugError, warn_caller
from rankplug.metrics import measure_data, parse_metric
from rankplug.models import ScaledParts, predict_data, scaled_model
from rankplug.recipe import Entry, Recipe, Tune
from rankplug.report import SANITY_SOLVERS, Outcome, ParetoTrials, TuningSummary
from rankplug.report.costs import learning_curve, measure, seconds_to_share, training_costs
from rankplug.runner.observer import Observer
from rankplug.runner.plan import Part, Plan
from rankplug.runner.splits import Splits
from rankplug.solver import Callback, Data, Solver
from rankplug.system.signals import forget_interrupt, raise_if_lost
from rankplug.tuning import Cost, StudyInfo, TrialRecord, TuneObserver, TuneResult, tune

_log = logging.getLogger(__name__)

Search: TypeAlias = Callable[..., TuneResult]
"""`rankplug.tune`, or a function with its arguments."""

_FOLDS = 5  # the usual number, as of `rankplug.tune`


@dataclass
class Turn:
    """One entry of a recipe on its way to an `Outcome`.

    `run` takes these steps for each part of the plan:

    1. Prepare the data: the part's splits, imputed and scaled as its training set asks for.
    2. Tune the solver on them, if the recipe says so and they are not those of the part before.
    3. Train it, and score its model on all splits.
    4. The first time, measure what the model costs, and the learning curve if it is asked for.

    The outcomes of the parts become one. Whatever goes wrong becomes an outcome that says so.

    Attributes
    ----------
    entry : Entry
    solver : Solver
        With the entry's parameters.
    recipe : Recipe
    plan : Plan
    observers : Observer
    storage : str or Path
        Where studies are kept.
    resume : bool
        Whether studies that are there already are gone on with.
    search : Search or None
    logs : list of TrialLog
        One for each study.
    """

    entry: Entry
    solver: Solver
    recipe: Recipe
    plan: Plan
    observers: Observer
    storage: str | Path
    resume: bool
    search: Search | None = None
    logs: list[TrialLog] = field(default_factory=list)

    def run(self) -> Outcome:
        """The outcome of all parts; "failed" or "stopped" if there is none."""
        params = self.solver.get_params(deep=False)
        nothing = Outcome(self.entry.name, self.entry.solver, params, "failed")
        try:
            return self.plan.merge(self._run_parts(nothing), self.recipe.metrics)
        except KeyboardInterrupt:
            forget_interrupt()
            return self._abandon(nothing, "interrupted by the user", status="stopped")
        except RankplugError as error:
            return self._abandon(nothing, str(error))
        except Exception as error:
            _log.debug("%s failed", self.entry.name, exc_info=True)
            return self._abandon(nothing, f"{type(error).__name__}: {error}".rstrip(": "))

    def pareto(self) -> ParetoTrials | None:
        """The trials of the first study, if it had several objectives."""
        return self.logs[0].pareto(self.entry.name) if self.logs else None

    def _abandon(self, outcome: Outcome, error: str, status: str = "failed") -> Outcome:
        tuning = self.logs[-1].summary() if self.logs else None
        return replace(outcome, status=status, error=error, tuning=tuning)

    def _run_parts(self, nothing: Outcome) -> list[Outcome]:
        outcomes: list[Outcome] = []
        solver, known = self.solver, None
        for part in self.plan.parts:
            raise_if_lost()
            data = part.prepare()
            impute = data.imputing_for(self.solver)
            self._tell_imputing(impute, data.splits, first=not outcomes)
            learn_from = self.recipe.learned_by(self.entry)
            scaled = data.scaled(impute, learn_from)
            outcome = nothing
            if self.recipe.tune and data is not known and self._searchable(scaled.train):
                splits = {**data.splits, "train": data.train(learn_from)}
                solver = self._tune(self.recipe.tune, part, splits, impute)
                outcome = replace(nothing, tuning=self.logs[-1].summary())
            known = data
            outcome = self._train(outcome, solver, part, scaled)
            outcome = score(outcome, self.recipe.metrics, data.splits)
            if not outcomes:
                outcome = self._add_costs(outcome, solver, part, scaled, data.splits["test"])
            outcomes.append(outcome)
        return outcomes

    def _searchable(self, data: Data) -> set[str]:
        return {*self.solver.tuning_space(data), *self.entry.space} - set(self.entry.held)

    def _tell_imputing(self, impute: ImputeName, splits: Splits, *, first: bool) -> None:
        """Say once what stands for missing values, if there are any."""
        if not first or impute == "none" or self.entry.solver in SANITY_SOLVERS:
            return
        counts = np.sum([data.count_missing() for data in splits.values()], axis=0)
        if counts.any():
            found = describe_missing(counts, splits["train"].feature_names)
            warn_caller(
                f"{self.entry.name}: {found}; the {impute} of each column in the training set "
                "stands for them, in the model too (impute: none leaves them missing)",
                DataWarning,
            )

    def _tune(self, settings: Tune, part: Part, splits: Splits, impute: ImputeName) -> Solver:
        """The solver with the parameters that its study finds; raises as `rankplug.tune`."""
        recipe, name = self.recipe, self.entry.name
        log = TrialLog(settings.metric or recipe.primary_metric, settings.costs)
        self.logs.append(log)
        observers = self.observers.tuning_started(name, part.label)
        warm = self.solver.tags.warm_start and not self.solver.uses_validation()
        has_path = warm and "C" in self._searchable(splits["train"])
        result = (self.search or tune)(
            self.solver,
            splits["train"],
            metric=log.metric,
            valid=splits.get("valid") if settings.folds is None else None,
            folds=settings.folds or _FOLDS,
            n_trials=settings.n_trials,
            timeout=settings.timeout,
            sampler=settings.sampler,
            pruner=None if settings.pruner == "none" else settings.pruner,
            storage=self.storage,
            study_name=" ".join(filter(None, (name, part.label))),
            seed=recipe.seed if settings.seed is None else settings.seed,
            space=self.entry.space,
            path=settings.path and has_path,
            costs=settings.costs,
            scale=recipe.scale,
            impute=impute,
            resume=self.resume,
            observer=[log, *observers],
            progress=False,
        )
        return result.best_solver

    def _train(self, outcome: Outcome, solver: Solver, part: Part, data: ScaledParts) -> Outcome:
        name = self.entry.name
        self.observers.training_started(name, part.label, solver)
        report = partial(self.observers.progress, name)
        return train(outcome, solver, data, part.seed, report)

    def _add_costs(
        self, outcome: Outcome, solver: Solver, part: Part, data: ScaledParts, test: Data
    ) -> Outcome:
        assert outcome.result is not None
        costs = {**outcome.costs, **measure(outcome.result.model, test)}
        if not self.recipe.learning_curve:
            return replace(outcome, costs=costs)
        curve = learning_curve(
            solver,
            data.train,
            test,
            self.recipe.primary_metric,
            valid=data.valid,
            random_state=part.seed,
            scaling=data.scaling,
        )
        reached = seconds_to_share(curve, self.recipe.primary_metric)
        if reached is not None:
            costs["seconds_to_99"] = reached
        return replace(outcome, costs=costs, learning_curve=curve)


def train(
    outcome: Outcome, solver: Solver, data: ScaledParts, seed: int, callback: Callback
) -> Outcome:
    """The outcome with result, status and time of a training."""
    with training_costs() as costs:
        result = solver.solve(data.train, valid=data.valid, callback=callback, random_state=seed)
    return replace(
        outcome,
        params=solver.get_params(deep=False),
        status=result.status,
        result=replace(result, model=scaled_model(result.model, data.scaling)),
        train_seconds=costs["train_seconds"],
        train_cpu_seconds=costs["train_cpu_seconds"],
        costs=costs,
    )


def score(outcome: Outcome, metrics: Sequence[str], splits: Splits) -> Outcome:
    """The outcome of a training with all metrics on all splits."""
    assert outcome.result is not None
    means = {}
    # The test set is the last of the splits: its scores are kept.
    for split, data in splits.items():
        started = time.perf_counter()
        scores = predict_data(outcome.result.model, data)
        seconds = time.perf_counter() - started
        measured = measure_data(data, scores, metrics)
        means[split] = {name: values.mean() for name, values in measured.items()}
    return replace(
        outcome,
        metrics=means,
        per_query={name: values.values for name, values in measured.items()},
        scores=scores,
        predict_seconds=seconds,
    )


@dataclass
class TrialLog(TuneObserver):
    """Keeps the trials of a study, so that an interruption does not lose them."""

    metric: str
    costs: Sequence[Cost]
    trials: Sequence[TrialRecord] = ()

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
