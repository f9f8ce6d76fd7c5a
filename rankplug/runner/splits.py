"""The data of a recipe: its splits, checked against each other and scaled, and folds of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.clicks import WeightedClicks
from rankplug.data import ImputeName, RankingData, ScaleName
from rankplug.datasets import load
from rankplug.exceptions import DataError
from rankplug.io import read_data
from rankplug.io.columns import open_table
from rankplug.io.files import InputFile, Notation
from rankplug.metrics import parse_metric
from rankplug.models import ScaledParts, scale_parts
from rankplug.recipe import Dataset, Files, ImputeChoice, LearnFrom, OneFile, Recipe, Split
from rankplug.runner.clicks import learned, read_logs, simulate, weigh_logs
from rankplug.solver import Data, Solver

Splits: TypeAlias = Mapping[str, Data]


def load_splits(recipe: Recipe) -> dict[str, Data]:
    """The data of a recipe: "train", "valid" if there is one, "test" last.

    Raises
    ------
    DataError
        If the data cannot be read, the splits do not have the same features, or a
        metric of the recipe has no meaning for the labels.
    """
    if recipe.reads_logs:
        return load_logs(recipe)[0]
    return _checked(_split(recipe, _load(recipe.data)), recipe)


def load_logs(recipe: Recipe) -> tuple[dict[str, Data], WeightedClicks]:
    """The data of a recipe of logs, and the clicks on the training set; errors as `load_splits`."""
    splits, clicks = weigh_logs(recipe, _split(recipe, read_logs(recipe)))
    return _checked(splits, recipe), clicks


def _split(recipe: Recipe, loaded: dict[str, Any]) -> dict[str, Any]:
    """The splits, drawn from one file if the recipe names one."""
    if not isinstance(recipe.data, OneFile):
        return loaded
    return draw(loaded["train"], recipe.data.split, _split_seed(recipe))


def _checked(splits: dict[str, Data], recipe: Recipe) -> dict[str, Data]:
    _require_same_features(splits)
    for name in recipe.metrics:
        for split, data in splits.items():
            _check_metric(name, split, data)
    weight = getattr(recipe.data, "query_weight", None)
    train = splits["train"]
    if weight is None or not isinstance(train, RankingData):
        return splits
    return {**splits, "train": train.weigh_queries(weight)}


def describe(data: Data) -> str:
    """The size of a split in words."""
    if isinstance(data, RankingData):
        queries = "1 query" if data.n_queries == 1 else f"{data.n_queries:,} queries"
        return f"{queries}, {data.n_samples:,} rows, {data.n_features:,} features"
    return f"{data.n_samples:,} instances, {data.n_labels:,} labels, {data.n_features:,} features"


def draw(data: Any, split: Split, seed: int) -> dict[str, Any]:
    """Draw whole queries, or instances, for "train", "valid" and "test".

    They keep the order that they have in the file. `data` are data of either task, or a log of
    clicks.

    Raises
    ------
    DataError
        If there are too few.
    """
    n = data.n_examples
    n_valid, n_test = (
        max(1, round(n * share)) if share else 0 for share in (split.valid, split.test)
    )
    n_train = n - n_valid - n_test
    if n_train < 1:
        raise DataError(
            f"{n} {data.unit} cannot be split into training, validation and test set: give more, "
            "or name the sets with 'train' and 'test'"
        )
    order = np.random.default_rng(seed).permutation(n)
    drawn = np.split(order, [n_train, n_train + n_valid])
    parts = dict(zip(("train", "valid", "test"), drawn, strict=True))
    return {name: data.take(np.sort(part)) for name, part in parts.items() if len(part)}


def describe_split(recipe: Recipe, splits: Splits) -> tuple[str, ...]:
    """A line on how one file was split; none of data that are split already."""
    if not isinstance(recipe.data, OneFile):
        return ()
    seed = _split_seed(recipe)
    uses = {"train": "to train on", "valid": "to validate", "test": "to test"}
    sizes = [f"{data.n_examples:,} {uses[split]}" for split, data in splits.items()]
    unit = splits["test"].unit
    return (f"split:    {', '.join(sizes)}: whole {unit}, drawn with seed {seed}",)


def _split_seed(recipe: Recipe) -> int:
    assert isinstance(recipe.data, OneFile)
    seed = recipe.data.split.seed
    return recipe.seed if seed is None else seed


def _load(source: Dataset | Files | OneFile) -> dict[str, Data]:
    if isinstance(source, Dataset):
        made = load(source.dataset, **source.params)
        return {"train": made.train, "valid": made.valid, "test": made.test}
    columns = {
        "format": source.format,
        "label": source.label,
        "qid": source.qid,
        "weight": source.weight,
        "document_weight": source.document_weight,
        "features": source.features,
        "zero_based": source.zero_based,
        "separator": source.separator,
        "decimal": source.decimal,
    }

    def read(path: Path, like: RankingData | None = None, **more: Any) -> RankingData:
        # A prepared folder knows its columns.
        options = {} if path.is_dir() else {**columns, **more}
        data = read_data(path, like=like, **options)
        return data.with_facts(id_columns=source.id)

    if isinstance(source, OneFile):
        return {"train": read(source.file, shown=_shown_columns(source, source.file))}
    train = read(source.train)
    splits: dict[str, Data] = {"train": train}
    if source.valid is not None:
        splits["valid"] = read(source.valid, like=train)
    return {
        **splits,
        "test": read(source.test, like=train, shown=_shown_columns(source, source.test)),
    }


def _shown_columns(source: Files | OneFile, path: Path) -> tuple[str, ...] | None:
    """The columns that describe the rows of the test set; of the ids those that its file has."""
    if source.display or not source.id or path.is_dir():
        return source.display or None
    file = InputFile(path, Notation(separator=source.separator, decimal=source.decimal).check())
    format_ = source.format or file.find_format()
    if format_ == "svmlight":
        return None
    with open_table(file, format_) as table:
        there = table.column_names()
    return tuple(name for name in source.id if name in there) or None


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


@dataclass(frozen=True, eq=False)
class Prepared:
    """Splits as models take them; training and validation set as solvers do: imputed and scaled."""

    splits: Splits
    scale: ScaleName
    impute: ImputeChoice
    clicks: WeightedClicks | None = None
    _parts: dict[tuple[ImputeName, LearnFrom], ScaledParts] = field(default_factory=dict)
    _learned: dict[LearnFrom, Data] = field(default_factory=dict)

    def train(self, learn_from: LearnFrom) -> Data:
        """What an entry learns from: the training set, or clicks on it."""
        if learn_from == "relevance":
            return self.splits["train"]
        assert self.clicks is not None
        if learn_from not in self._learned:
            self._learned[learn_from] = learned(self.clicks, learn_from)
        return self._learned[learn_from]

    def imputing_for(self, solver: Solver) -> ImputeName:
        """What stands for missing values before this solver sees the data."""
        if self.impute != "auto":
            return self.impute
        holes = any(data.has_missing for data in self.splits.values())
        return "median" if holes and not solver.takes_missing_values() else "none"

    def scaled(self, impute: ImputeName, learn_from: LearnFrom = "relevance") -> ScaledParts:
        """The data as what is learned from asks for; raises `DataError` as `scaling_for`."""
        key = (impute, learn_from)
        if key not in self._parts:
            train, valid = self.train(learn_from), self.splits.get("valid")
            self._parts[key] = scale_parts(train, valid, self.scale, impute)
        return self._parts[key]


def prepare(splits: Splits, recipe: Recipe, clicks: WeightedClicks | None = None) -> Prepared:
    """The data of a training; raises `DataError` as `scaling_for` where solvers see the same."""
    if recipe.clicks is not None and clicks is None:
        clicks = simulate(recipe, splits["train"])
    prepared = Prepared(splits, recipe.scale, recipe.impute, clicks)
    if not any(data.has_missing for data in splits.values()):
        prepared.scaled("none" if recipe.impute == "auto" else recipe.impute)
    return prepared


@dataclass(frozen=True, eq=False)
class Folds:
    """All data, and the fold of each query, or of each instance of label ranking.

    Attributes
    ----------
    data : RankingData or LabelRankingData
    fold : int64 ndarray of shape (n_queries,) or (n_samples,)
        From 0 to ``n - 1``.
    n : int
    validated : bool
        Whether the fold after the tested one is validation data.
    """

    data: Data
    fold: NDArray[np.int64]
    n: int
    validated: bool

    def splits(self, tested: int) -> dict[str, Data]:
        """The data where one fold is the test set; "valid" if there is one."""
        parts = {"test": self.fold == tested}
        if self.validated:
            parts["valid"] = self.fold == (tested + 1) % self.n
        train = ~np.logical_or.reduce(list(parts.values()))
        ordered = {"train": train, **dict(reversed(parts.items()))}
        return {split: self.data.take(np.flatnonzero(part)) for split, part in ordered.items()}

    def tested(self) -> Data:
        """The test sets of all folds, one after the other."""
        return self.data.take(np.argsort(self.fold, kind="stable"))


def make_folds(splits: Splits, n: int, seed: int) -> Folds:
    """Put all splits together and divide them at random.

    Queries with the same id stay in one fold, whatever split they come from; they are not
    joined, because files may count their queries anew.

    Raises
    ------
    DataError
        If there are too few queries.
    """
    validated = "valid" in splits
    data, groups = _pool(_scale_alike(splits))
    names, group = np.unique(groups, return_inverse=True)
    if n > len(names):
        raise DataError(
            f"{n} folds need {n} {data.unit} or more, but there are {len(names)}: use fewer folds, "
            "or compare by seeds"
        )
    if n == 2 and validated:
        raise DataError(
            "2 folds leave nothing for training, because the data have a validation set: use 3 "
            "folds or more, or leave out the validation set"
        )
    fold = np.random.default_rng(seed).permutation(len(names))[group] % n
    return Folds(data, fold, n, validated)


def _scale_alike(splits: Splits) -> Splits:
    """The splits, all scaled as the training set was when it was prepared."""
    scalings = [data.scaling for data in splits.values()]
    if not any(scalings):
        return splits
    if scalings[0] is None:
        raise DataError(
            "folds over all data need splits that are scaled alike, but the training set was not "
            "scaled when it was prepared and another one was"
        )
    return {split: scalings[0].of(data) for split, data in splits.items()}


def _pool(splits: Splits) -> tuple[Data, NDArray[Any]]:
    """All rows, and what must not be divided."""
    parts: list[Any] = list(splits.values())
    data: Data = type(parts[0]).stack(parts)
    ids = data.example_ids
    if isinstance(data, RankingData) and len(np.unique(ids)) < len(ids):
        names = [f"{split}/{one}" for split, part in splits.items() for one in part.example_ids]
        return data.with_facts(query_ids=np.array(names)), ids
    return data, ids
