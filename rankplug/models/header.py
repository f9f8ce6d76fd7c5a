"""The header of a saved model, ``model.json``: written, read, and checked against the files.

It says the model's kind, the schema version, the features, and the SHA-256 of every other file and
of its own content.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankplug.exceptions import DataError, ModelFormatError
from rankplug.system.files import parse_json

HEADER = "model.json"
SCHEMA_VERSION = 1

_USUAL_PLACES = ("*", "models/*")  # of models in a folder of other things
_MOST_SHOWN = 3  # of them
_DEEPEST = 8  # models within each other; the library itself makes two, a pipeline of a scaled one


def write_header(
    folder: Path,
    kind: str,
    n_features: int,
    feature_names: tuple[str, ...] | None,
    query_column: str | None,
    id_columns: tuple[str, ...],
    categories: Mapping[int, tuple[Any, ...]],
    model: Mapping[str, Any],
    *,
    zero_based: bool,
) -> None:
    """Describe the model whose files are in the folder; `model` is what its own kind wants kept."""
    header = {
        "format": "rankplug-model",
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "n_features": n_features,
        "feature_names": feature_names,
        "files": {file.name: _file_sha256(file) for file in sorted(folder.iterdir())},
        "model": model,
    }
    if query_column is not None:
        header["query_column"] = query_column
    if id_columns:
        header["id_columns"] = id_columns
    if zero_based:
        header["zero_based"] = True
    if categories:
        header["categories"] = [[j, list(values)] for j, values in categories.items()]
    header["sha256"] = _content_sha256(header)
    (folder / HEADER).write_text(json.dumps(header, indent=2) + "\n", encoding="utf-8")


def read_header(folder: Path) -> dict[str, Any]:
    """The header of a model's folder; raises `ModelFormatError` if it is none."""
    try:
        if not _is_file(folder, HEADER):
            raise ModelFormatError(
                f"{folder} holds no rankplug model: no {HEADER} in it{_models_within(folder)}"
            )
        header = parse_json((folder / HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFormatError(f"{folder / HEADER} cannot be read: {error}") from None
    if not isinstance(header, dict) or header.get("format") != "rankplug-model":
        raise ModelFormatError(f"{folder / HEADER} does not describe a rankplug model")
    version = header.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ModelFormatError(
            f"{folder}: schema version {version!r}, but this rankplug reads {SCHEMA_VERSION}: "
            "load the model with the version of rankplug that saved it"
        )
    wrong = _wrong_entries(header)
    if wrong:
        raise ModelFormatError(f"{folder / HEADER}: {', '.join(wrong)} missing or of a wrong type")
    if any(Path(name).name != name for name in header["files"]):
        raise ModelFormatError(f"{folder / HEADER}: files must lie in the model's folder")
    if _depth(header["model"]) > _DEEPEST:
        raise ModelFormatError(f"{folder / HEADER}: more than {_DEEPEST} models within each other")
    return header


def _models_within(folder: Path) -> str:
    """Which folders within hold a model, such as those of a run, for messages."""
    files = (file for where in _USUAL_PLACES for file in folder.glob(f"{where}/{HEADER}"))
    found = sorted(str(file.parent) for file in files)
    if not found:
        return ""
    shown = ", ".join(found[:_MOST_SHOWN]) + (", ..." if len(found) > _MOST_SHOWN else "")
    return f", but in {shown}: name {'that' if len(found) == 1 else 'one of these'}"


def _wrong_entries(header: dict[str, Any]) -> list[str]:
    """The entries that are missing or of a wrong type."""
    expected = {"kind": str, "n_features": int, "files": dict, "model": dict}
    wrong = [key for key, kind in expected.items() if type(header.get(key)) is not kind]
    if header.setdefault("feature_names", None) is not None and not _is_texts(
        header["feature_names"]
    ):
        wrong.append("feature_names")
    # Models of 0.1 do not have these.
    if not (header.get("query_column") is None or is_text(header["query_column"])):
        wrong.append("query_column")
    if not _is_texts(header.get("id_columns", [])):
        wrong.append("id_columns")
    if not isinstance(header.get("zero_based", False), bool):
        wrong.append("zero_based")
    return wrong


def check_files(folder: Path, header: Mapping[str, Any]) -> None:
    """Raise `ModelFormatError` if a file is missing, or is not what was saved."""
    for name, digest in header["files"].items():
        if not _is_file(folder, name):
            raise ModelFormatError(f"{folder}: the model's file {name} is missing")
        if _file_sha256(folder / name) != digest:
            raise ModelFormatError(f"{folder}: {name} was altered or truncated since it was saved")


def check_content(folder: Path, header: Mapping[str, Any]) -> None:
    """Raise `ModelFormatError` if the header is not what was saved."""
    if header.get("sha256") != _content_sha256(header):
        raise ModelFormatError(f"{folder / HEADER} was altered since it was saved")


def check_names(names: Any, n_features: int) -> tuple[str, ...] | None:
    """Names of features as texts; raises `DataError` if they are not as many."""
    if names is None:
        return None
    if len(names) != n_features:
        raise DataError(f"{len(names)} feature names for {n_features} features")
    return tuple(str(name) for name in names)


def is_text(value: Any) -> bool:
    """Whether it is a string that can be written: JSON may hold halves of characters."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


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


def _file_sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _content_sha256(header: Mapping[str, Any]) -> str:
    """The digest of what the header says, however it is laid out."""
    content = {key: value for key, value in header.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
