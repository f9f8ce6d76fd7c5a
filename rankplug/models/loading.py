"""Loading of saved models: `load_model` checks the folder, and finds the class that reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from rankplug.exceptions import DataError, ModelFormatError, nearest
from rankplug.models.base import (
    _HEADER,
    SCHEMA_VERSION,
    Model,
    _header_sha256,
    _is_text,
    _names,
    _sha256,
)
from rankplug.models.linear import LabelLinearModel, LinearModel
from rankplug.system.safe_files import parse_json

__all__ = ["load_model", "model_class"]


_DEEPEST = 8


_CORE_KINDS: dict[str, type[Model]] = {
    model.kind: model for model in (LinearModel, LabelLinearModel)
}


def load_model(path: str | Path) -> Model:
    """Load a model that `Model.save` wrote.

    Raises
    ------
    ModelFormatError
        If the folder holds no model, a part is missing, a file was altered, or the model was
        written by a newer version or a plugin that is not installed.
    """
    folder = Path(path)
    header = _read_header(folder)
    for name, digest in header["files"].items():
        if not _is_file(folder, name):
            raise ModelFormatError(f"{folder}: the model's file {name} is missing")
        if _sha256(folder / name) != digest:
            raise ModelFormatError(f"{folder}: {name} was altered or truncated since it was saved")
    found_class = model_class(header["kind"], folder)
    try:
        model = found_class._read(folder, header["model"])
        model.feature_names = _names(header["feature_names"], model.n_features)
    except DataError as error:
        raise ModelFormatError(f"{folder}: {error}") from None
    if model.n_features != header["n_features"] or model.n_features < 1:
        raise ModelFormatError(
            f"{folder}: {_HEADER} says {header['n_features']} features, the model has "
            f"{model.n_features}"
        )
    # Last, because every check before says more about what is wrong.
    if header.get("sha256") != _header_sha256(header):
        raise ModelFormatError(f"{folder / _HEADER} was altered since it was saved")
    return model


def _read_header(folder: Path) -> dict[str, Any]:
    try:
        if not _is_file(folder, _HEADER):
            raise ModelFormatError(f"{folder} holds no rankplug model: no {_HEADER} in it")
        header = parse_json((folder / _HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFormatError(f"{folder / _HEADER} cannot be read: {error}") from None
    if not isinstance(header, dict) or header.get("format") != "rankplug-model":
        raise ModelFormatError(f"{folder / _HEADER} does not describe a rankplug model")
    version = header.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ModelFormatError(
            f"{folder}: schema version {version!r}, but this rankplug reads {SCHEMA_VERSION}: "
            "load the model with the version of rankplug that saved it"
        )
    expected = {"kind": str, "n_features": int, "files": dict, "model": dict}
    wrong = [key for key, kind in expected.items() if type(header.get(key)) is not kind]
    names = header.setdefault("feature_names", None)
    if not (names is None or (isinstance(names, list) and all(map(_is_text, names)))):
        wrong.append("feature_names")
    if wrong:
        raise ModelFormatError(f"{folder / _HEADER}: {', '.join(wrong)} missing or of a wrong type")
    if any(Path(name).name != name for name in header["files"]):
        raise ModelFormatError(f"{folder / _HEADER}: files must lie in the model's folder")
    if _depth(header["model"]) > _DEEPEST:
        raise ModelFormatError(f"{folder / _HEADER}: more than {_DEEPEST} models within each other")
    return header


def _depth(header: Mapping[str, Any]) -> int:
    """How many models wrap each other."""
    depth = 0
    while isinstance(header.get("model"), dict):
        header, depth = header["model"], depth + 1
    return depth


def _is_file(folder: Path, name: str) -> bool:
    """Whether it is a file of the folder; not one elsewhere that a link leads to."""
    try:
        inside = os.path.realpath(folder / name) == os.path.join(os.path.realpath(folder), name)
        return inside and (folder / name).is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def model_class(kind: str, folder: Path) -> type[Model]:
    """The class that reads models of a kind; `folder` is for error messages."""
    if kind in _CORE_KINDS:
        return _CORE_KINDS[kind]
    points = {point.name: point for point in entry_points(group="rankplug.models")}
    if kind not in points:
        raise ModelFormatError(
            f"{folder}: no installed package reads models of kind {kind!r}"
            f"{nearest(kind, {*_CORE_KINDS, *points})}"
        )
    try:
        found = points[kind].load()
    except Exception as error:
        raise ModelFormatError(
            f"{folder}: {points[kind].value}, which reads models of kind {kind!r}, cannot be "
            f"imported: {type(error).__name__}: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Model)):
        raise ModelFormatError(f"{points[kind].value}, named for kind {kind!r}, is no Model")
    return found
