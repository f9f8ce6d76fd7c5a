"""An outcome as metrics of an MLflow run."""

from __future__ import annotations

from collections.abc import Mapping

from mlflow.entities import DatasetInput, Metric

from rankplug.metrics import parse_metric
from rankplug.mlflow.run_metrics import final_metrics, score_metrics
from rankplug.report import Outcome

__all__ = ["outcome_metrics"]


def outcome_metrics(
    outcome: Outcome, inputs: Mapping[str, DatasetInput], model_id: str | None
) -> list[Metric]:
    """What is known of a solver at the end: costs, results, scores, and those of repetitions.

    Parameters
    ----------
    outcome : Outcome
    inputs : mapping of DatasetInput
        The data sets to which the scores are tied, by split.
    model_id : str or None
        The model to which they are tied.
    """
    metrics = final_metrics(_costs(outcome), 0 if outcome.result is None else outcome.result.n_iter)
    for split, values in outcome.metrics.items():
        metrics += score_metrics(split, values, inputs.get(split), model_id)
    for number, values in enumerate(outcome.repeats):
        named = {f"repeat_{parse_metric(name).log_name}": value for name, value in values.items()}
        metrics += final_metrics(named, number)
    return metrics


def _costs(outcome: Outcome) -> dict[str, float | None]:
    values: dict[str, float | None] = dict(outcome.costs)
    for name in ("train_seconds", "train_cpu_seconds", "predict_seconds"):
        values[name] = getattr(outcome, name)
    if outcome.tuning is not None:
        values["tuning_seconds"] = outcome.tuning.seconds
        values["tuning_trials"] = outcome.tuning.n_trials
    if outcome.result is not None:
        for name in ("n_iter", "n_passes", "objective", "duality_gap"):
            values[name] = getattr(outcome.result, name)
    return values
