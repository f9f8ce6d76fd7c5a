"""One training: scaled data to the solver, its model on the unscaled splits to the metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import RankingData, Scaling
from rankplug.metrics import evaluate, evaluate_labels, per_instance, per_query
from rankplug.models import ScaledModel, predict_data, scaling_for
from rankplug.recipe import Scale
from rankplug.report import Outcome
from rankplug.report.costs import training_costs
from rankplug.runner.splits import Splits
from rankplug.solver import Callback, Data, Solver

__all__ = ["Prepared", "evaluated", "prepare", "scored", "trained"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """Splits, and what a solver is given of them: features scaled as the training set says.

    Models take the data as they are.
    """

    splits: Splits
    train: Data
    valid: Data | None
    scaling: Scaling | None


def prepare(splits: Splits, scale: Scale) -> Prepared:
    """Scale the data; raises `DataError` as `scaling_for`."""
    scaling = scaling_for(splits["train"], scale, splits.get("valid"))

    def scaled(split: str) -> Any:
        data = splits.get(split)
        return data if data is None or scaling is None else scaling.of(data)

    return Prepared(splits, scaled("train"), scaled("valid"), scaling)


def trained(
    outcome: Outcome, solver: Solver, data: Prepared, seed: int, callback: Callback
) -> Outcome:
    """The outcome with result, status and time of a training."""
    with training_costs() as costs:
        result = solver.solve(data.train, valid=data.valid, callback=callback, random_state=seed)
    if data.scaling is not None:
        result = replace(result, model=ScaledModel(result.model, data.scaling))
    return replace(
        outcome,
        params=solver.get_params(deep=False),
        status=result.status,
        result=result,
        train_seconds=costs["train_seconds"],
        train_cpu_seconds=costs["train_cpu_seconds"],
        costs=costs,
    )


def scored(outcome: Outcome, metrics: Sequence[str], splits: Splits) -> Outcome:
    """The outcome of a training with all metrics on all splits."""
    assert outcome.result is not None
    means = {}
    # The test set is the last of the splits: its scores are kept.
    for split, data in splits.items():
        started = time.perf_counter()
        scores = predict_data(outcome.result.model, data)
        seconds = time.perf_counter() - started
        means[split], values = evaluated(data, scores, metrics)
    return replace(outcome, metrics=means, per_query=values, scores=scores, predict_seconds=seconds)


def evaluated(
    data: Data, scores: NDArray[np.float64], metrics: Sequence[str]
) -> tuple[dict[str, float], dict[str, NDArray[np.float64]]]:
    """The mean of each metric, and its values by query or instance."""
    if isinstance(data, RankingData):
        arguments = data.relevance, scores, data.qid, metrics
        return evaluate(*arguments), per_query(*arguments)
    labels = data.relevance, scores, metrics
    return evaluate_labels(*labels), per_instance(*labels)
