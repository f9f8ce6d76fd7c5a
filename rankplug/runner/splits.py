"""The data of a recipe: loaded and checked against each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.data import RankingData
from rankplug.datasets import load
from rankplug.exceptions import DataError
from rankplug.io import read_data
from rankplug.metrics import parse_metric
from rankplug.recipe import Dataset, Files, Recipe
from rankplug.solver import Data

__all__ = ["Splits", "describe", "load_splits", "query_ids"]

Splits: TypeAlias = Mapping[str, Data]


def load_splits(recipe: Recipe) -> dict[str, Data]:
    """The data of a recipe: "train", "valid" if there is one, "test" last.

    Raises
    ------
    DataError
        If the data cannot be read, the splits do not have the same features, or a
        metric of the recipe has no meaning for the labels.
    """
    splits = _load(recipe.data)
    _require_same_features(splits)
    for name in recipe.metrics:
        for split, data in splits.items():
            _check_metric(name, split, data)
    return splits


def describe(data: Data) -> str:
    """The size of a split in words."""
    if isinstance(data, RankingData):
        queries = "1 query" if data.n_queries == 1 else f"{data.n_queries:,} queries"
        return f"{queries}, {data.n_samples:,} rows, {data.n_features:,} features"
    return f"{data.n_samples:,} instances, {data.n_labels:,} labels, {data.n_features:,} features"


def query_ids(data: Data) -> NDArray[Any]:
    """The queries of a split, or the row numbers of its instances."""
    return data.query_ids if isinstance(data, RankingData) else np.arange(data.n_samples)


def _load(source: Dataset | Files) -> dict[str, Data]:
    if isinstance(source, Dataset):
        made = load(source.dataset, **source.params)
        return {"train": made.train, "valid": made.valid, "test": made.test}
    columns = {
        "format": source.format,
        "label": source.label,
        "qid": source.qid,
        "weight": source.weight,
        "features": source.features,
    }

    def read(path: Path, like: RankingData | None = None) -> RankingData:
        # A prepared folder knows its columns.
        return read_data(path, like=like, **({} if path.is_dir() else columns))  # type: ignore[arg-type]

    train = read(source.train)
    splits: dict[str, Data] = {"train": train}
    if source.valid is not None:
        splits["valid"] = read(source.valid, like=train)
    return {**splits, "test": read(source.test, like=train)}


def _require_same_features(splits: Splits) -> None:
    train = splits["train"]
    for split, data in splits.items():
        if data.n_features != train.n_features or data.feature_names != train.feature_names:
            raise DataError(
                f"the {split} set has {data.n_features} features, which are not the "
                f"{train.n_features} of the train set: give all splits the same columns"
            )


def _check_metric(name: str, split: str, data: Data) -> None:
    try:
        parse_metric(name).check(data.relevance[~np.isnan(data.relevance)])
    except DataError as error:
        raise DataError(f"{split} set: {error}") from None
