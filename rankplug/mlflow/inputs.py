"""Data sets as inputs of an MLflow run: name, digest, source and size, but not the data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from mlflow.data.schema import TensorDatasetSchema
from mlflow.entities import Dataset, DatasetInput, InputTag
from mlflow.types import Schema, TensorSpec

from rankplug import __version__
from rankplug.data import LabelRankingData, RankingData
from rankplug.recipe import Files, Recipe
from rankplug.runner import data_digest

__all__ = ["data_digest", "dataset_inputs", "describe_input"]

_CONTEXTS = {"train": "training", "valid": "validation", "test": "testing"}


def dataset_inputs(
    recipe: Recipe, splits: Mapping[str, RankingData | LabelRankingData]
) -> dict[str, DatasetInput]:
    """The splits of a recipe as MLflow describes inputs, tagged with their use.

    Digests are those of the data as the solvers get them, that is after scaling.
    """
    return {split: _input(recipe, split, data) for split, data in splits.items()}


def _input(recipe: Recipe, split: str, data: RankingData | LabelRankingData) -> DatasetInput:
    name, source_type, source = _source(recipe, split)
    return describe_input(name, data, _CONTEXTS.get(split, split), source_type, source)


def describe_input(
    name: str,
    data: RankingData | LabelRankingData,
    context: str,
    source_type: str,
    source: Mapping[str, Any],
) -> DatasetInput:
    """Data as MLflow describes an input of a run.

    Parameters
    ----------
    name : str
    data : RankingData or LabelRankingData
    context : str
        What they are used for, such as "training".
    source_type, source : str, mapping
        Where they come from, as a ``DatasetSource`` of MLflow writes it.
    """
    dataset = Dataset(
        name=name,
        digest=data_digest(data),
        source_type=source_type,
        source=json.dumps(source),
        schema=json.dumps(_schema(data)),
        profile=json.dumps(_profile(data)),
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", context)])


def _source(recipe: Recipe, split: str) -> tuple[str, str, dict[str, Any]]:
    """Name, and source as MLflow reads it: a local file, or code, which embedded data come from."""
    if isinstance(recipe.data, Files):
        file = Path(getattr(recipe.data, split)).absolute()
        return f"{file.parent.name}/{file.name}", "local", {"uri": str(file)}
    tags = {"package": f"rankplug {__version__}", "dataset": recipe.data.dataset, "split": split}
    tags |= {f"params.{key}": str(value) for key, value in recipe.data.params.items()}
    return f"{recipe.data.dataset}/{split}", "code", {"tags": tags}


def _schema(data: RankingData | LabelRankingData) -> dict[str, Any]:
    features = Schema([TensorSpec(np.dtype(data.X.dtype), (-1, data.n_features))])
    targets = Schema([TensorSpec(data.relevance.dtype, (-1, *data.relevance.shape[1:]))])
    schema: dict[str, Any] = TensorDatasetSchema(features, targets).to_dict()
    return schema


def _profile(data: RankingData | LabelRankingData) -> dict[str, int]:
    profile = {"num_rows": data.n_samples, "num_features": data.n_features}
    if isinstance(data, RankingData):
        return profile | {"num_queries": data.n_queries}
    return profile | {"num_labels": data.n_labels}
