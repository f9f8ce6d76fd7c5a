"""A report's content: the outcomes of a run, and how they compare."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.metrics import parse_metric
from rankplug.report.statistics import Comparison, compare
from rankplug.solver import Data, SolverResult

SANITY_SOLVERS = ("constant", "single-feature")
"""Rankers that learn next to nothing, which a run adds: solvers below them learned nothing."""

Trial: TypeAlias = tuple[int, float, float, Mapping[str, Any]]
"""Number, seconds since the start of tuning, value (NaN: pruned or failed), parameters."""


class LearningPoint(NamedTuple):
    """Quality on the test set of a training that ended after `n_iter` iterations."""

    n_iter: int
    seconds: float
    quality: float


@dataclass(frozen=True)
class TuningSummary:
    """Summary of the trials in which a solver's parameters were found.

    Attributes
    ----------
    n_trials, n_pruned, n_failed : int
        All trials, and those of them that were stopped early or went wrong.
    seconds : float
        Wall time of all trials together.
    metric : str
        What was optimised, on the validation data.
    best_value : float
        NaN if no trial was completed.
    best_params : mapping
    history : tuple of Trial
        All trials in the order in which they ended.
    """

    n_trials: int
    n_pruned: int
    n_failed: int
    seconds: float
    metric: str
    best_value: float
    best_params: Mapping[str, Any]
    history: tuple[Trial, ...] = ()


@dataclass(frozen=True)
class ParetoTrials:
    """Completed trials of a tuning with several objectives.

    Attributes
    ----------
    name : str
        The outcome's.
    objectives : tuple of str
        A metric's name, or a cost such as ``train_seconds``.
    maximise : tuple of bool
        For each objective.
    trials : tuple of (number, values, params)
        `values` in the order of the objectives; dominated trials too.
    """

    name: str
    objectives: tuple[str, ...]
    maximise: tuple[bool, ...]
    trials: tuple[tuple[int, tuple[float, ...], Mapping[str, Any]], ...]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one entry of a recipe's solvers: result, quality and costs.

    Attributes
    ----------
    name : str
        The entry's label, unique in the recipe.
    solver : str
        Registered name.
    params : mapping
        All parameters of the solver, defaults included.
    status : str
        A status of `SolverResult`; "failed" (see `error`); or "stopped" without a result if
        the user interrupted it.
    error : str or None
        Why there is no result.
    result : SolverResult or None
        With folds or seeds, that of the first.
    metrics : mapping of mappings
        ``metrics[split][metric]``; empty if there is no result.
    per_query : mapping of float64 ndarrays of shape (n_queries,)
        ``per_query[metric]`` on the test set, aligned with `Report.query_ids`; NaN where a
        query does not count. With folds those of all folds one after the other, with seeds
        the mean over the seeds.
    train_seconds, train_cpu_seconds : float or None
        Wall time, and processor time of all threads, of training.
    predict_seconds : float or None
        Wall time of scoring the test set.
    repeats : tuple of mappings
        The test metrics of each fold or seed; empty if there was only one.
    tuning : TuningSummary or None
    costs : mapping
        What `rankplug.report.costs` measured; its keys are explained there.
    learning_curve : tuple of LearningPoint
        Of the primary metric, by `rankplug.report.costs.learning_curve`.
    scores : float64 ndarray of shape (n_samples,) or (n_samples, n_labels), or None
        Of the rows of `Report.test`. With seeds the scores of the first, with folds those of
        all folds one after the other.
    """

    name: str
    solver: str
    params: Mapping[str, Any]
    status: str
    error: str | None = None
    result: SolverResult | None = None
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    per_query: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    train_seconds: float | None = None
    train_cpu_seconds: float | None = None
    predict_seconds: float | None = None
    repeats: tuple[Mapping[str, float], ...] = ()
    tuning: TuningSummary | None = None
    costs: Mapping[str, float] = field(default_factory=dict)
    learning_curve: tuple[LearningPoint, ...] = ()
    scores: NDArray[np.float64] | None = None

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the solver before it was trained and scored."""
        return self.status == "stopped" and self.result is None

    def score(self, metric: str) -> float:
        """Value of a metric on the test set, NaN if there is none."""
        return self.metrics.get("test", {}).get(metric, math.nan)


@dataclass(frozen=True)
class Report:
    """The outcomes of a run, in the order of the recipe.

    Attributes
    ----------
    name : str
        The recipe's.
    metrics : tuple of str
        The primary one first.
    outcomes : tuple of Outcome
    recipe : str
        The resolved recipe, as YAML.
    splits : mapping
        A description of each split.
    query_ids : ndarray
        Of the test set.
    baseline : str or None
        Name of the outcome that the others are compared with.
    digests : mapping
        What has to be equal for equal numbers: digests of the data and of the recipe, seeds,
        versions; shown at the end.
    pareto : tuple of ParetoTrials
        Of the solvers that were tuned for several objectives at once.
    test : RankingData or LabelRankingData or None
        The test set, to which `Outcome.scores` belong; curves of the ranking need it. With
        folds, the test sets of all folds one after the other.
    """

    name: str
    metrics: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    recipe: str = ""
    splits: Mapping[str, str] = field(default_factory=dict)
    query_ids: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    baseline: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    pareto: tuple[ParetoTrials, ...] = ()
    test: Data | None = None

    def __repr__(self) -> str:
        metric = self.metrics[0]
        scores = [
            f"{one.name} {one.score(metric):.4f}" if one.result else f"{one.name} {one.status}"
            for one in self.outcomes
        ]
        return f"<Report {self.name}: {metric} of {', '.join(scores) or 'no solver'}>"

    def _repr_html_(self) -> str:
        from rankplug.report.tables import comparisons, results

        tables = [results(self), comparisons(self)]
        return "".join(table._repr_html_() for table in tables if table is not None)

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the run: solvers may be missing."""
        return any(outcome.interrupted for outcome in self.outcomes)

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The outcomes without a result."""
        return tuple(outcome for outcome in self.outcomes if outcome.result is None)

    @property
    def succeeded(self) -> tuple[Outcome, ...]:
        """The outcomes with a result."""
        return tuple(outcome for outcome in self.outcomes if outcome.result is not None)

    @property
    def competitors(self) -> tuple[Outcome, ...]:
        """The outcomes with a result that plots show."""
        return tuple(outcome for outcome in self.outcomes if self.is_drawn(outcome))

    def is_drawn(self, outcome: Outcome) -> bool:
        """Whether plots show it: it has a result and is no sanity ranker, or is the baseline.

        Next to a ranker that has learned nothing all others would look alike.
        """
        compared = outcome.solver not in SANITY_SOLVERS or outcome.name == self.baseline
        return outcome.result is not None and compared

    def winners(self, metric: str) -> frozenset[str]:
        """Names of the best on the test set: several if they tie, none if nobody has a value."""
        scores = {outcome.name: outcome.score(metric) for outcome in self.outcomes}
        values = [score for score in scores.values() if not math.isnan(score)]
        if not values:
            return frozenset()
        best = self.best_value(metric, np.array(values))
        return frozenset(
            name for name, score in scores.items() if math.isclose(score, best, rel_tol=1e-12)
        )

    @staticmethod
    def best_value(metric: str, values: NDArray[np.float64]) -> Any:
        """The best of some values of a metric, or of each column of a matrix of them."""
        greater_is_better = parse_metric(metric).greater_is_better
        return values.max(axis=0) if greater_is_better else values.min(axis=0)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Every solver against the baseline in the primary metric; none without a baseline."""
        metric = self.metrics[0]
        values = {
            outcome.name: outcome.per_query[metric]
            for outcome in self.succeeded
            if metric in outcome.per_query
        }
        if self.baseline is None or self.baseline not in values:
            return ()
        better = parse_metric(metric).greater_is_better
        return compare(values, self.baseline, metric, greater_is_better=better)

    def notes(self) -> list[str]:
        """Lines below the results: what a metric is, errors, and whether it was interrupted."""
        about = {str(name): parse_metric(name).about for name in self.metrics}
        notes = [f"{name}: {text}" for name, text in about.items() if text]
        notes += [f"{outcome.name}: {outcome.error}" for outcome in self.failed]
        if self.interrupted:
            notes.append("the run was interrupted: solvers that are not listed did not start")
        return notes
