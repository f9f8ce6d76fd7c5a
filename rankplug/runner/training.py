"""Training and scoring of a solver: scaled data to the solver, unscaled splits to its model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rankplug.metrics import measure_data
from rankplug.models import ScaledParts, predict_data, scale_parts, scaled_model
from rankplug.recipe import Scale
from rankplug.report import Outcome
from rankplug.report.costs import training_costs
from rankplug.runner.splits import Splits
from rankplug.solver import Callback, Solver

__all__ = ["Prepared", "prepare", "score", "train"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """Splits as models take them, and training and validation set as solvers do: scaled."""

    splits: Splits
    scaled: ScaledParts


def prepare(splits: Splits, scale: Scale) -> Prepared:
    """Scale the data as the training set asks for; raises `DataError` as `scaling_for`."""
    return Prepared(splits, scale_parts(splits["train"], splits.get("valid"), scale))


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
