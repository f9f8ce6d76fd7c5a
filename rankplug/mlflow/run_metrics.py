"""The numbers of a training as metrics of an MLflow run."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

from mlflow.entities import DatasetInput, Metric

from rankplug.metrics import parse_metric

__all__ = ["final_metrics", "history_metrics", "score_metrics"]


def history_metrics(history: Sequence[Mapping[str, float]], started: float) -> list[Metric]:
    """A metric for each number of each row, at the time when the row was reached."""
    return [
        Metric(
            _key(name), float(value), _milliseconds(started + row["seconds"]), int(row["n_iter"])
        )
        for row in history
        for name, value in row.items()
        if name != "n_iter"
    ]


def final_metrics(values: Mapping[str, float | None], step: int) -> list[Metric]:
    """What is known at the end; objective and gap close the curves of the history."""
    return [
        Metric(name, float(value), _milliseconds(time.time()), step)
        for name, value in values.items()
        if value is not None
    ]


def score_metrics(
    split: str, values: Mapping[str, float], data: DatasetInput | None, model_id: str | None
) -> list[Metric]:
    """The metrics of a set, tied to the set and to the model in MLflow's pages."""
    prefix = "" if split == "test" else f"{split}_"
    name_and_digest = (None, None) if data is None else (data.dataset.name, data.dataset.digest)
    return [
        Metric(
            prefix + parse_metric(name).log_name,
            float(value),
            _milliseconds(time.time()),
            step=0,
            model_id=model_id,
            dataset_name=name_and_digest[0],
            dataset_digest=name_and_digest[1],
        )
        for name, value in values.items()
    ]


def _key(name: str) -> str:
    """A metric's name in the characters that MLflow allows."""
    return re.sub(r"[^\w\-. :/]", "_", name.replace("@", "_at_"))


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)
