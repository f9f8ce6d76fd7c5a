"""What a recipe leaves open, settled by its data: roles of columns, and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rankplug.clicks import COUNTERFACTUAL_METRICS
from rankplug.data import tables
from rankplug.exceptions import DataError
from rankplug.io.columns import DEFAULT_LABEL, DEFAULT_QID, open_table
from rankplug.io.files import InputFile, Notation
from rankplug.metrics import DEFAULT_LABEL_METRICS, DEFAULT_METRICS, parse_metric
from rankplug.recipe import (
    Column,
    Dataset,
    Files,
    OneFile,
    Recipe,
    choice_in_words,
    choose_in_file,
    naming,
)
from rankplug.solver import Data

_REAL_METRICS = ("ndcg@10[gain=linear]", "pairwise_accuracy")
"""Of labels too large for the usual gain; the last one takes any."""


def settle_columns(recipe: Recipe) -> tuple[Recipe, tuple[str, ...]]:
    """The recipe with all roles of columns named, and lines for the user about them.

    Files without columns, and recipes that name their features, stay as they are.

    Raises
    ------
    DataError
        If a file cannot be read, a column is missing, none can be a feature, or it is not said
        which of one file hold relevance and queries.
    """
    data = recipe.data
    if isinstance(data, Dataset) or recipe.reads_logs:
        return recipe, ()
    path = data.file if isinstance(data, OneFile) else data.train
    notation = Notation(separator=data.separator, decimal=data.decimal).check()
    file = InputFile(path, notation)
    format_ = "prepared" if path.is_dir() else data.format or file.find_format()
    if format_ in ("prepared", "svmlight"):
        if data.display:
            raise DataError(f"{path} has no columns that display could name: give a table")
        return recipe, ()
    if data.features == "auto" or (data.features is None and isinstance(data, OneFile)):
        named = ("label", "qid", "weight", "document_weight")
        roles = {role: getattr(data, role) for role in named}
        choice, notation = choose_in_file(
            path, format_, notation, **roles, drop=data.drop, ids=data.id
        )
        with naming(path):
            tables.require_present(data.display, [column.name for column in choice.columns])
        settled = replace(
            data,
            label=choice.label,
            qid=choice.qid,
            features=choice.features,
            drop=(),
            id=choice.ids,
            decimal=notation.decimal,
        )
        return replace(recipe, data=settled), choice_in_words(path, choice)
    if not (data.drop or data.id or data.display):
        return recipe, ()
    with naming(path):
        with open_table(file, format_) as table:
            names = table.column_names()
            tables.require_present(data.display, names)
            texts = _find_texts(table.whole(), data.display) if data.display else ()
        return replace(recipe, data=_without_dropped(data, names, texts)), ()


def settle_metrics(recipe: Recipe, splits: Mapping[str, Data]) -> Recipe:
    """The recipe with metrics: if it names none, those of its task that its labels allow."""
    if recipe.metrics:
        return recipe
    data = next(iter(splits.values()))
    if recipe.reads_logs:
        return replace(recipe, metrics=COUNTERFACTUAL_METRICS)
    if data.task == "label-ranking":
        return replace(recipe, metrics=DEFAULT_LABEL_METRICS)
    relevance = np.concatenate([part.relevance for part in splits.values()])

    def fitting(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if parse_metric(name).suits(relevance))

    chosen = fitting(DEFAULT_METRICS)
    usual = chosen if DEFAULT_METRICS[0] in chosen else fitting(_REAL_METRICS)
    return replace(recipe, metrics=usual)


def _find_texts(table: Any, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the columns that hold neither numbers nor truth values."""
    kinds = {name: Column.of(name, table.column(name)).kind for name in names}
    return tuple(name for name, kind in kinds.items() if kind not in ("numbers", "booleans"))


def _without_dropped(
    data: Files | OneFile, names: list[str], texts: tuple[str, ...]
) -> Files | OneFile:
    """The files with the features named that are left without `drop`, `id` and texts to display."""
    tables.require_present((*data.drop, *data.id), names)
    weights = {data.weight, data.document_weight}
    roles = {data.label or DEFAULT_LABEL, data.qid or DEFAULT_QID, *weights}
    gone = roles | {*data.drop, *data.id}
    features = data.features or tuple(name for name in names if name not in gone | {*texts})
    both = [name for name in features if name in gone]
    if both:
        raise DataError(f"columns {', '.join(both)} are features and also something else")
    return replace(data, features=features, drop=())
