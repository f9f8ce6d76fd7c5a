"""Checks of what solvers are given beside training data: other data, and a model to go on from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from rankplug.data import LabelRankingData, RankingData, describe_categories, describe_missing
from rankplug.exceptions import DataError, ParameterError
from rankplug.models import Model
from rankplug.shards import RemoteRankingData
from rankplug.solver.result import SolverResult, SolverTags
from rankplug.system.cores import physical_memory

Data: TypeAlias = RankingData | LabelRankingData
AnyData: TypeAlias = Data | RemoteRankingData

_MOST_SHOWN = 8
"""Labels in a message."""


def check_validation(data: AnyData, valid: Data | None) -> None:
    """Raise `DataError` unless the validation data are of the kind of the training data."""
    if valid is None:
        return
    if type(valid) is not type(data):
        raise DataError(
            f"the validation data are {type(valid).__name__}, the training data "
            f"{type(data).__name__}: they must be of one kind"
        )
    if valid.n_features != data.n_features:
        raise DataError(
            f"the validation data have {valid.n_features} features, the training data "
            f"{data.n_features}"
        )
    if dict(valid.categories) != dict(data.categories):
        raise DataError(
            "the validation data have other categories than the training data: make them with "
            "those, as read_data(..., like=train) and eval_set of Ranker.fit do"
        )


def check_document_weights(solver: Any, data: AnyData) -> None:
    """Refuse weights of rows unless the solver uses them."""
    if data.weighs_documents and not solver.takes_document_weights():
        raise DataError(
            f"{solver.name} takes no weights of rows, but the data have some (document_weight): "
            "leave them out, or take a solver that uses them, such as 'tree-tron' or "
            "'cutting-plane'; weights of queries are sample_weight"
        )


def check_kinds(solver: Any, data: AnyData, hold: str = "the data hold") -> None:
    """Refuse features that are missing, or categories, unless the solver can do with them."""
    pipeline = "make_pipeline({}, Ranker(...))"
    if data.has_missing and not solver.takes_missing_values():
        found = describe_missing(data.count_missing(), data.feature_names)
        remedy = pipeline.format("SimpleImputer(), StandardScaler()")
        raise DataError(
            f"{solver.name} takes no missing values, but {hold} {found}. Fill them in as a part of "
            f"the model, {remedy}, or by impute='median' of a recipe or study, or take a solver "
            "that takes them, such as xgboost-pairwise or lightgbm-lambdarank"
        )
    if data.categories and not solver.tags.categories:
        found = describe_categories(data.categories, data.feature_names)
        encoder = "OneHotEncoder(handle_unknown='ignore')"
        remedy = pipeline.format(f"make_column_transformer(({encoder}, [...]), ...)")
        raise DataError(
            f"{solver.name} takes no categories, but {hold} feature columns that are not numbers: "
            f"{found}. Encode them as a part of the model, {remedy}, or take a solver that takes "
            "them, such as xgboost-pairwise or lightgbm-lambdarank"
        )


def check_kinds_beside(solver: Any, valid: Data | None, watch: Mapping[str, Data]) -> None:
    """The same of the data that the solver, or its model, sees while it trains."""
    if valid is not None and solver.uses_validation():
        check_kinds(solver, valid, "the validation data hold")
    for name, data in watch.items():
        check_kinds(solver, data, f"the data {name!r} that are watched hold")


def require_room(name: str, what: str, number: int, size: int, remedy: str) -> None:
    """Raise `DataError` if so many things, of so many bytes each, are more than memory holds."""
    if number * size > physical_memory():
        raise DataError(
            f"{name} would make {number:,} {what} of the data, more than this machine's memory "
            f"holds: take {remedy}, or 'tree-tron' or 'cutting-plane', whose losses are of all "
            "pairs, but which never list them"
        )


def initial_model(
    name: str, tags: SolverTags, data: AnyData, init: SolverResult | Model | None
) -> Model | None:
    """The model from which a solver of that name is to go on.

    Raises
    ------
    ParameterError
        If the solver cannot go on from a model, or it does not fit the data.
    """
    if init is None:
        return None
    if not (tags.warm_start or tags.takes_init or tags.continues):
        raise ParameterError(
            f"{name} cannot start from an earlier result, as its method always begins anew: "
            "leave out init, or take a solver that goes on, such as 'tree-tron' from a linear "
            "model or 'xgboost-pairwise' from trees"
        )
    model = init.model if isinstance(init, SolverResult) else init
    if not isinstance(model, Model):
        raise ParameterError(f"init must be a SolverResult or a Model, not {type(init).__name__}")
    if model.n_features != data.n_features:
        raise ParameterError(
            f"init has {model.n_features} features but the data have {data.n_features}"
        )
    if dict(model.categories) != dict(data.categories):
        raise ParameterError("init has other categories of its features than the data")
    if model.n_labels != data.n_labels:
        scored, asked = _name_scored(model.n_labels), _name_scored(data.n_labels)
        raise ParameterError(f"init scores {scored} but the data ask for {asked}")
    if model.feature_names and data.feature_names and model.feature_names != data.feature_names:
        pairs = zip(model.feature_names, data.feature_names, strict=True)
        j, (known, given) = next((j, pair) for j, pair in enumerate(pairs) if pair[0] != pair[1])
        raise ParameterError(
            f"init has the feature {known!r} where the data have {given!r} (column {j}): give the "
            "columns in the order of the first training"
        )
    labels = getattr(model, "labels", None)
    if not isinstance(data, LabelRankingData) or labels is None:
        return model
    if np.asarray(labels).tolist() != data.labels.tolist():
        raise ParameterError(
            f"init ranks the labels {_shown(labels)}, the data have {_shown(data.labels)}: they "
            "must be the same in the same order"
        )
    return model


def _shown(labels: Any) -> str:
    names = [str(label) for label in labels]
    return ", ".join(names[:_MOST_SHOWN]) + (", ..." if len(names) > _MOST_SHOWN else "")


def _name_scored(n_labels: int | None) -> str:
    return "rows" if n_labels is None else f"{n_labels} labels"
