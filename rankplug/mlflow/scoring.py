"""What a logged model looks like to MLflow: its signature, and scores from any kind of input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema, TensorSpec
from numpy.typing import NDArray

from rankplug.models import Model

__all__ = ["QID", "ScoringModel", "default_signature", "feature_columns", "named_example"]

QID = "qid"
"""The optional column that says which query a row belongs to; scores do not depend on it."""

_MAX_UNNAMED_COLUMNS = 2000


def feature_columns(model: Model) -> list[str]:
    """The names of the features: the model's own, else ``f0``, ``f1``, ... by position."""
    if model.feature_names is not None:
        return list(model.feature_names)
    return [f"f{j}" for j in range(model.n_features)]


def default_signature(model: Model) -> ModelSignature | None:
    """Named double columns and an optional string ``qid`` in, scores out.

    None for a model of more than 2,000 features without names: those are sparse or wide
    matrices, which MLflow lets through to the model only where no signature is declared.
    """
    if model.feature_names is None and model.n_features > _MAX_UNNAMED_COLUMNS:
        return None
    columns = feature_columns(model)
    inputs: list[ColSpec | TensorSpec] = [ColSpec("double", name) for name in columns]
    if QID not in columns:
        inputs.append(ColSpec("string", QID, required=False))
    return ModelSignature(inputs=Schema(inputs), outputs=_output_schema(model))


def named_example(model: Model, example: Any) -> Any:
    """An input example as a frame that fits the default signature.

    Arrays get the names of the features, numbers become double and query ids strings; what is
    no array or frame is returned as it is.
    """
    columns = feature_columns(model)
    if hasattr(example, "toarray"):
        example = example.toarray()
    if isinstance(example, np.ndarray) and example.shape[1:] == (model.n_features,):
        return pd.DataFrame(example, columns=columns, dtype=np.float64)
    if isinstance(example, pd.DataFrame) and set(columns) <= set(example.columns):
        types: dict[str, Any] = dict.fromkeys(columns, np.float64)
        if QID in example.columns and QID not in columns:
            types[QID] = str
        return example[list(types)].astype(types)
    return example


class ScoringModel:
    """The model as ``mlflow.pyfunc`` calls it."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def get_raw_model(self) -> Model:
        """The rankplug model."""
        return self._model

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> NDArray[np.float64]:
        """Scores of the rows, in their order, higher is better.

        Parameters
        ----------
        data : DataFrame, dict of columns, array or sparse matrix
            Columns are matched by name and extra ones ignored. Frames for a model without
            feature names either have the columns ``f0``, ``f1``, ... or exactly as many
            columns as the model has features, beside ``qid``.

        Returns
        -------
        float64 ndarray of shape (n_rows,), or (n_rows, n_labels) for label ranking

        Raises
        ------
        DataError
            If columns are missing (all are named), not numeric or not finite.
        """
        frame = pd.DataFrame(data) if isinstance(data, dict) else data
        if isinstance(frame, pd.DataFrame) and self._model.feature_names is None:
            frame = self._unnamed(frame)
        return self._model.predict(frame)

    def _unnamed(self, frame: pd.DataFrame) -> pd.DataFrame:
        columns = feature_columns(self._model)
        if set(columns) <= set(frame.columns):
            return frame[columns]
        return frame.drop(columns=QID, errors="ignore")


def _output_schema(model: Model) -> Schema:
    if model.n_labels is None:
        return Schema([ColSpec("double")])
    return Schema([TensorSpec(np.dtype(np.float64), (-1, model.n_labels))])
