"""Loading of saved models: `load_model` checks the folder, and finds the class that reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankplug.data import check_categories
from rankplug.exceptions import DataError, ModelFormatError, SolverUnavailableError, nearest
from rankplug.models.base import Model
from rankplug.models.header import HEADER, check_content, check_files, check_names, read_header
from rankplug.models.linear import LabelLinearModel, LinearModel
from rankplug.system.plugins import PluginGroup

_CORE_KINDS: dict[str, type[Model]] = {
    model.kind: model for model in (LinearModel, LabelLinearModel)
}


def load_model(path: str | Path) -> Model:
    """Load a model that `Model.save` wrote, or one that an adjustment makes of such a model.

    Parameters
    ----------
    path : path
        The model's folder, or the JSON file of an adjustment; see `rankplug.models.adjusted`.

    Raises
    ------
    ModelFormatError
        If the folder holds no model, a part is missing, a file was altered, or the model was
        written by a newer version or a plugin that is not installed.
    """
    folder = Path(path)
    if folder.is_file():
        from rankplug.models.adjusted import read_adjustment  # which loads the model that it names

        return read_adjustment(folder)
    header = read_header(folder)
    check_files(folder, header)
    found_class = model_class(header["kind"], folder)
    try:
        model = found_class._read(folder, header["model"])
        model.feature_names = check_names(header["feature_names"], model.n_features)
        model.query_column = header.get("query_column")
        model.id_columns = tuple(header.get("id_columns") or ())
        model.zero_based = header.get("zero_based", False)
        model.categories = check_categories(header.get("categories"), model.n_features)
    except DataError as error:
        raise ModelFormatError(f"{folder}: {error}") from None
    if model.n_features != header["n_features"] or model.n_features < 1:
        raise ModelFormatError(
            f"{folder}: {HEADER} says {header['n_features']} features, the model has "
            f"{model.n_features}"
        )
    # Last, because every check before says more about what is wrong.
    check_content(folder, header)
    return model


def model_class(kind: str, folder: Path) -> type[Model]:
    """The class that reads models of a kind; `folder` is for error messages."""
    if kind in _CORE_KINDS:
        return _CORE_KINDS[kind]
    points = _KINDS.points()
    if kind not in points:
        raise ModelFormatError(
            f"{folder}: no installed package reads models of kind {kind!r}"
            f"{nearest(kind, {*_CORE_KINDS, *points})}"
        )
    try:
        found: type[Model] = _KINDS.load(points[kind])
    except SolverUnavailableError as error:
        raise ModelFormatError(f"{folder}: {error}") from error
    return found


def _find_fault(cls: Any, _name: str) -> str | None:
    is_one = isinstance(cls, type) and issubclass(cls, Model)
    return None if is_one else "is no Model, which rankplug.models has"


_KINDS = PluginGroup("rankplug.models", "kind of models", _find_fault)
