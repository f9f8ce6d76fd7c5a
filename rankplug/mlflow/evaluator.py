"""The evaluator of rankings for ``mlflow.models.evaluate(..., model_type="ranker")``.

MLflow imports this module as soon as it is loaded itself: what it has not loaded waits.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Metric
from mlflow.models.evaluation import artifacts as _mlflow_artifacts
from mlflow.models.evaluation.base import EvaluationArtifact, EvaluationResult, ModelEvaluator
from mlflow.types import DataType
from numpy.typing import ArrayLike, NDArray

from rankplug.exceptions import DataError, ParameterError, nearest
from rankplug.metrics import RankedRows, Summary, SummarySettings, summarize_ranking
from rankplug.metrics.summary import Curve

_image: Any = _mlflow_artifacts.ImageEvaluationArtifact
_json: Any = _mlflow_artifacts.JsonEvaluationArtifact


class RankingEvaluator(ModelEvaluator):
    """Ranking metrics, by query, in ``mlflow.models.evaluate``.

    Registered as ``rankplug`` in the entry-point group ``mlflow.model_evaluator``:

        mlflow.models.evaluate(
            model_uri, frame, targets="label", model_type="ranker", evaluators="rankplug",
            evaluator_config={"qid": "query", "metrics": ["ndcg@10", "map"]},
        )

    Evaluates MLflow models (by URI or loaded), functions, static predictions and data sets of
    `mlflow.data`. `rankplug.metrics.SummarySettings` lists the keys of `evaluator_config`,
    `log_summary` what is logged. The values in the result have the names of the logged metrics,
    such as ``ndcg_at_10``: `mlflow.validate_evaluation_results` compares them with thresholds
    and with a baseline's.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str, evaluator_config: Any, **kwargs: Any) -> bool:
        """Whether the model is said to be a ranker."""
        return model_type == "ranker"

    def evaluate(
        self,
        *,
        model_type: str,
        dataset: Any,
        run_id: str,
        evaluator_config: dict[str, Any] | None = None,
        model: Any = None,
        predictions: str | None = None,
        model_id: str | None = None,
        **kwargs: Any,
    ) -> EvaluationResult:
        """Evaluate and log; called by MLflow.

        Raises
        ------
        ParameterError, UnknownNameError
            If `evaluator_config` has a wrong key or value.
        DataError
            If targets, scores or queries are missing or wrong.
        """
        settings = SummarySettings.of(evaluator_config or {})
        rows = read_rows(model, dataset, settings.qid, predictions)
        summary = summarize_ranking(rows, settings)
        artifacts = log_summary(summary, MlflowClient(), run_id, model_id=model_id)
        result: EvaluationResult = EvaluationResult(  # type: ignore[no-untyped-call]
            summary.metrics, artifacts, run_id=run_id
        )
        return result


def log_summary(
    summary: Summary, client: MlflowClient, run_id: str, *, model_id: str | None = None
) -> dict[str, EvaluationArtifact]:
    """Log a summary to a run; returns what MLflow calls evaluation artifacts.

    The metrics, the table ``per_query.json`` (shown by MLflow's pages, and read by
    `mlflow.load_table`), ``confidence_intervals.json`` and the plot ``ndcg_curve.png``.
    """
    prefix, now = summary.settings.metric_prefix, round(1000 * time.time())
    logged = [
        Metric(name, value, now, 0, model_id=model_id) for name, value in summary.metrics.items()
    ]
    client.log_batch(run_id, metrics=logged)
    root = client.get_run(run_id).info.artifact_uri

    table, intervals = f"{prefix}per_query.json", f"{prefix}confidence_intervals.json"
    client.log_table(run_id, summary.per_query, table)
    client.log_text(run_id, json.dumps(summary.intervals, indent=2), intervals)
    split = json.loads(summary.per_query.to_json(orient="split", index=False))
    artifacts: dict[str, EvaluationArtifact] = {
        f"{prefix}per_query": _json(f"{root}/{table}", split),
        f"{prefix}confidence_intervals": _json(f"{root}/{intervals}", summary.intervals),
    }
    if summary.curve is not None:
        figure = f"{prefix}ndcg_curve.png"
        client.log_figure(run_id, _plot(summary.curve), figure)
        artifacts[f"{prefix}ndcg_curve"] = _image(f"{root}/{figure}")
    return artifacts


def _plot(curve: Curve) -> Any:
    """Draw the curve."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    k = np.arange(1, len(curve.mean) + 1)
    axes.fill_between(k, curve.low, curve.high, alpha=0.2, linewidth=0)
    axes.plot(k, curve.mean, marker="o", markersize=4)
    axes.set_xlabel("cutoff k")
    axes.set_ylabel(curve.label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    return figure


def read_rows(model: Any, dataset: Any, qid: Any, predictions: str | None) -> RankedRows:
    """Scores of a model, or the static ones of the data set, with relevance and queries.

    Parameters
    ----------
    model : pyfunc model or None
        None: the scores are the data set's predictions. A model whose signature names columns
        gets these, integers as floating-point numbers and query ids as text where it asks for
        that; one without a signature gets all but the query ids; a function gets everything.
    dataset : mlflow.data.evaluation_dataset.EvaluationDataset
    qid : str, array-like or None
        Column of the query ids, or the ids of all rows; None: all rows are one query.
    predictions : str, optional
        The column that holds the scores, if the model returns several.

    Raises
    ------
    DataError
        If there are no targets, no scores, or no such column.
    """
    if dataset.labels_data is None:
        raise DataError(
            "the evaluation has no relevance labels: name their column with targets=..., or in "
            "the data set, as in mlflow.data.from_pandas(frame, targets='label')"
        )
    features = dataset.features_data
    ids = _read_query_ids(features, qid)
    if model is None:
        if dataset.predictions_data is None:
            raise DataError(
                "nothing to evaluate: pass a model, or name the column of scores with "
                "predictions=... (in the data set, if that is what you pass)"
            )
        scores = dataset.predictions_data
    else:
        scores = _read_scores(model.predict(_convert_features(model, features, qid)), predictions)
    return RankedRows(dataset.labels_data, scores, ids)


def _read_query_ids(features: Any, qid: Any) -> ArrayLike | None:
    if qid is None:
        return None
    if not isinstance(qid, str):
        return np.asarray(qid)
    if not isinstance(features, pd.DataFrame):
        raise ParameterError(
            "the features are an array, which has no columns: give evaluator_config={'qid': ...} "
            "the query ids of all rows, or None if all rows are one query"
        )
    if qid not in features.columns:
        raise DataError(
            f"no column {qid!r}{nearest(qid, map(str, features.columns))}: name the column of the "
            "query ids with evaluator_config={'qid': ...}, or give None if all rows are one query"
        )
    return features[qid].to_numpy()


def _convert_features(model: Any, features: Any, qid: Any) -> Any:
    """The features as the model's signature wants them."""
    if not isinstance(features, pd.DataFrame) or not hasattr(model, "metadata"):
        return features
    schema = None if model.metadata is None else model.metadata.get_input_schema()
    if schema is None or not schema.has_input_names() or schema.is_tensor_spec():
        return features.drop(columns=qid) if isinstance(qid, str) else features
    types = {
        column.name: kind
        for column in schema.inputs
        if column.name in features.columns
        and (kind := _conversion(column.type, features[column.name])) is not None
    }
    # MLflow leaves out columns that are too many, and tells of missing ones.
    return features.astype(types)


def _conversion(declared: Any, values: pd.Series[Any]) -> Any:
    """What to convert a column to, as MLflow would refuse to."""
    if declared == DataType.double and values.dtype.kind in "iub":
        return np.float64
    if declared == DataType.string and values.dtype.kind in "iuf":
        return str
    return None


def _read_scores(output: Any, predictions: str | None) -> NDArray[Any]:
    if isinstance(output, pd.DataFrame):
        column = predictions or (output.columns[0] if output.shape[1] == 1 else "score")
        if column not in output.columns:
            names = ", ".join(map(str, output.columns))
            raise DataError(
                f"the model returns the columns {names}: say which one holds the scores with "
                "predictions=..."
            )
        return output[column].to_numpy()
    return np.asarray(output)
