"""The evaluator of rankings for ``mlflow.models.evaluate(..., model_type="ranker")``.

MLflow imports this module while it is imported itself, so all that is heavy waits.
"""

from __future__ import annotations

from typing import Any

from mlflow.models.evaluation.base import EvaluationResult, ModelEvaluator

__all__ = ["RankingEvaluator"]


class RankingEvaluator(ModelEvaluator):
    """Ranking metrics, by query, in ``mlflow.models.evaluate``.

    Registered as ``rankplug`` in the entry-point group ``mlflow.model_evaluator``:

        mlflow.models.evaluate(
            model_uri, frame, targets="label", model_type="ranker", evaluators="rankplug",
            evaluator_config={"qid": "query", "metrics": ["ndcg@10", "map"]},
        )

    Evaluates MLflow models (by URI or loaded), functions, static predictions and data sets of
    `mlflow.data`. `rankplug.mlflow.evaluation.Settings` lists the keys of `evaluator_config`,
    `rankplug.mlflow.evaluation.Evaluation.log` what is logged. The values in the result have
    the names of the logged metrics, such as ``ndcg_at_10``: `mlflow.validate_evaluation_results`
    compares them with thresholds and with a baseline's.
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
        from mlflow import MlflowClient

        from rankplug.mlflow.evaluated import ranked_rows
        from rankplug.mlflow.evaluation import Settings, evaluate_ranking

        settings = Settings.of(evaluator_config or {})
        rows = ranked_rows(model, dataset, settings.qid, predictions)
        evaluation = evaluate_ranking(rows, settings)
        artifacts = evaluation.log(MlflowClient(), run_id, model_id=model_id)
        result: EvaluationResult = EvaluationResult(  # type: ignore[no-untyped-call]
            evaluation.metrics, artifacts, run_id=run_id
        )
        return result
