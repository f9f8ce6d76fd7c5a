"""What a logged model declares to MLflow: its input, its output and its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec

from rankplug.models import Model

__all__ = ["PARAMS", "QID", "default_signature", "feature_columns", "named_example"]

QID = "qid"
"""The optional column that says which query a row belongs to; scores do not depend on it."""

PARAMS = ParamSchema([ParamSpec("output", "string", "score"), ParamSpec("k", "long", 10)])
"""Parameters of ``predict``, for a signature made by hand: ``ModelSignature(params=PARAMS)``."""


def feature_columns(model: Model) -> list[str]:
    """The names of the features: the model's own, else ``f0``, ``f1``, ... by position."""
    if model.feature_names is not None:
        return list(model.feature_names)
    return [f"f{j}" for j in range(model.n_features)]


def default_signature(model: Model, *, any_input: bool = False) -> ModelSignature:
    """Named double columns and an optional string ``qid`` in, scores out, and `PARAMS`.

    With `any_input`, and for models whose features have no names, the input is left open: MLflow
    lets arrays and sparse matrices through to the model only then.
    """
    inputs = None
    if not any_input and model.feature_names is not None:
        columns: list[ColSpec | TensorSpec]
        columns = [ColSpec("double", name) for name in model.feature_names]
        if _takes_qid(model):
            columns.append(ColSpec("string", QID, required=False))
        inputs = Schema(columns)
    return ModelSignature(inputs, _output_schema(model), PARAMS)


def named_example(model: Model, example: Any) -> Any:
    """An input example as a frame that fits the default signature.

    Arrays get the names of the features, numbers become double and query ids strings; what is
    no array or frame is returned as it is.
    """
    if model.feature_names is None:
        return example
    columns = list(model.feature_names)
    if hasattr(example, "toarray"):
        example = example.toarray()
    if isinstance(example, np.ndarray) and example.shape[1:] == (model.n_features,):
        return pd.DataFrame(example, columns=columns, dtype=np.float64)
    if isinstance(example, pd.DataFrame) and set(columns) <= set(example.columns):
        types: dict[str, Any] = dict.fromkeys(columns, np.float64)
        if QID in example.columns and _takes_qid(model):
            types[QID] = str
        return example[list(types)].astype(types)
    return example


def _takes_qid(model: Model) -> bool:
    """Label ranking knows no queries, and a feature may have that name."""
    return model.n_labels is None and QID not in feature_columns(model)


def _output_schema(model: Model) -> Schema:
    if model.n_labels is None:
        return Schema([ColSpec("double")])
    return Schema([TensorSpec(np.dtype(np.float64), (-1, model.n_labels))])
