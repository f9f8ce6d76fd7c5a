"""The plan of a run: the trainings of each solver, once, by folds, or by seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rankplug.clicks import WeightedClicks
from rankplug.exceptions import DataError
from rankplug.metrics import measure_data
from rankplug.recipe import Recipe
from rankplug.report import Outcome, TuningSummary
from rankplug.runner.splits import Prepared, Splits, describe, make_folds, prepare
from rankplug.solver import Data


@dataclass(frozen=True)
class Part:
    """A training: what observers call it, its seed and its data.

    `prepare` gives the same object again if the data are the same.
    """

    label: str
    seed: int
    prepare: Callable[[], Prepared]


@dataclass(frozen=True)
class Plan:
    """The trainings of every solver.

    Attributes
    ----------
    parts : tuple of Part
    test : RankingData or LabelRankingData
        What all parts together test, in their order.
    sizes : mapping
        A description of each split.
    folded : bool
        Whether each part tests other queries; else all test the same.
    """

    parts: tuple[Part, ...]
    test: Data
    sizes: Mapping[str, str]
    folded: bool = False

    def merge(self, outcomes: Sequence[Outcome], metrics: Sequence[str]) -> Outcome:
        """One outcome from those of the parts: means, and the result of the first."""
        first = outcomes[0]
        if len(self.parts) == 1:
            return first
        means = {
            split: {name: _mean([one.metrics[split][name] for one in outcomes]) for name in metrics}
            for split in first.metrics
        }
        if self.folded:
            scores = np.concatenate([one.scores for one in outcomes if one.scores is not None])
            measured = measure_data(self.test, scores, metrics)
            means["test"] = {name: values.mean() for name, values in measured.items()}
            per_query = {name: values.values for name, values in measured.items()}
            first = replace(first, scores=scores)
        else:
            per_query = {
                name: np.mean([one.per_query[name] for one in outcomes], axis=0) for name in metrics
            }
        status = next((one.status for one in outcomes if one.status != "converged"), first.status)
        return replace(
            first,
            status=status,
            metrics=means,
            per_query=per_query,
            repeats=tuple(one.metrics["test"] for one in outcomes),
            tuning=_join([one.tuning for one in outcomes]),
            train_seconds=_mean([one.train_seconds for one in outcomes]),
            train_cpu_seconds=_mean([one.train_cpu_seconds for one in outcomes]),
            predict_seconds=_mean([one.predict_seconds for one in outcomes]),
        )


def make_plan(recipe: Recipe, splits: Splits, clicks: WeightedClicks | None = None) -> Plan:
    """The trainings that a recipe asks for; raises `DataError` if its data do not allow them.

    `clicks` are those of a log; others are simulated.
    """
    compare = recipe.compare
    if compare is not None and compare.folds is not None:
        if clicks is not None:
            raise DataError("folds are for graded data, not for logs of clicks: compare by seeds")
        return _plan_folds(splits, compare.folds, recipe)
    prepared = prepare(splits, recipe, clicks)
    seeds = {"": recipe.seed} if compare is None else {f"seed {one}": one for one in compare.seeds}
    parts = tuple(Part(label, seed, lambda: prepared) for label, seed in seeds.items())
    sizes = {split: describe(data) for split, data in splits.items()}
    return Plan(parts, splits["test"], sizes)


def _plan_folds(splits: Splits, n: int, recipe: Recipe) -> Plan:
    folds = make_folds(splits, n, recipe.seed)

    def part(tested: int) -> Part:
        # Made when it is needed: all folds at once would need n times the memory.
        return Part(
            f"fold {tested + 1}", recipe.seed, lambda: prepare(folds.splits(tested), recipe)
        )

    parts = tuple(part(tested) for tested in range(n))
    first = parts[0].prepare().splits
    sizes = {split: f"{describe(data)} (fold 1 of {n})" for split, data in first.items()}
    test = folds.tested()
    sizes["test"] = f"{describe(test)}, tested in {n} folds"
    return Plan(parts, test, sizes, folded=True)


def _mean(values: Sequence[float | None]) -> float:
    return float(np.mean([value for value in values if value is not None]))


def _join(summaries: Sequence[TuningSummary | None]) -> TuningSummary | None:
    """What tuning cost in all parts; the parameters are those of the first."""
    tuned = [summary for summary in summaries if summary is not None]
    if len(tuned) < 2:
        return tuned[0] if tuned else None
    starts = np.cumsum([0.0, *(one.seconds for one in tuned)])
    trials = [
        (start + seconds, value, params)
        for start, one in zip(starts, tuned, strict=False)
        for _, seconds, value, params in one.history
    ]
    return replace(
        tuned[0],
        n_trials=sum(one.n_trials for one in tuned),
        n_pruned=sum(one.n_pruned for one in tuned),
        n_failed=sum(one.n_failed for one in tuned),
        seconds=sum(one.seconds for one in tuned),
        best_value=_mean([one.best_value for one in tuned]),
        history=tuple((number, *trial) for number, trial in enumerate(trials)),
    )
