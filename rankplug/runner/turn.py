"""A solver's turn in a run: it is tuned, trained and scored as often as the plan says."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rankplug.exceptions import RankplugError
from rankplug.metrics import measure_data
from rankplug.models import ScaledParts, predict_data, scaled_model
from rankplug.recipe import Entry, Recipe
from rankplug.report import Outcome, ParetoTrials
from rankplug.report.costs import learning_curve, measure, seconds_to_share, training_costs
from rankplug.runner.observer import Observer
from rankplug.runner.plan import Part, Plan
from rankplug.runner.search import Search, TrialLog, is_tunable, search
from rankplug.runner.splits import Prepared, Splits
from rankplug.solver import Callback, Progress, Solver

__all__ = ["Turn"]

_log = logging.getLogger(__name__)


@dataclass
class Turn:
    """One entry of a recipe on its way to an `Outcome`.

    `run` takes these steps for each part of the plan:

    1. Prepare the data: the part's splits, scaled as its training set asks for.
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
            data = part.prepare()
            outcome = nothing
            if data is not known and self._is_tuned(data):
                solver = self._tune(part, data)
                outcome = replace(nothing, tuning=self.logs[-1].summary())
            known = data
            outcome = self._train(outcome, solver, part, data)
            if not outcomes:
                outcome = self._add_costs(outcome, solver, part, data)
            outcomes.append(outcome)
        return outcomes

    def _is_tuned(self, data: Prepared) -> bool:
        return self.recipe.tune is not None and is_tunable(
            self.solver, self.entry, data.scaled.train
        )

    def _tune(self, part: Part, data: Prepared) -> Solver:
        self.logs.append(TrialLog(self.recipe))
        observers = self.observers.tuning_started(self.entry.name, part.label)
        return search(
            self.solver,
            self.entry,
            self.recipe,
            data.splits,
            study_name=" ".join(filter(None, (self.entry.name, part.label))),
            storage=self.storage,
            resume=self.resume,
            observers=[self.logs[-1], *observers],
            tuner=self.search,
        )

    def _train(self, outcome: Outcome, solver: Solver, part: Part, data: Prepared) -> Outcome:
        name = self.entry.name
        self.observers.training_started(name, part.label, solver)

        def report(progress: Progress) -> None:
            self.observers.progress(name, progress)

        outcome = train(outcome, solver, data.scaled, part.seed, report)
        return score(outcome, self.recipe.metrics, data.splits)

    def _add_costs(self, outcome: Outcome, solver: Solver, part: Part, data: Prepared) -> Outcome:
        assert outcome.result is not None
        test = data.splits["test"]
        costs = {**outcome.costs, **measure(outcome.result.model, test)}
        if not self.recipe.learning_curve:
            return replace(outcome, costs=costs)
        curve = learning_curve(
            solver,
            data.scaled.train,
            test,
            self.recipe.primary_metric,
            valid=data.scaled.valid,
            random_state=part.seed,
            scaling=data.scaled.scaling,
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
