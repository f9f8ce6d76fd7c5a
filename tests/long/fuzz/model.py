"""Target: saved models. Digests are made right again, so that what lies behind them is reached.

An input is the header (JSON without digests), then for each array ``\\n%%FILE/ARRAY\\n`` and the
bytes of an .npy file; or ``\\n%%FILE\\n`` and a whole file.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np

from rankplug.exceptions import DataError, ModelFormatError
from rankplug.models import loading as models
from tests.long.fuzz.memory import SEPARATOR, one_in

MAX_LENGTH = 1200
FILES = ("arrays.npz", "scaling.npz", "pipeline.npz", "trees.npz", "scalers.npz")
TOKENS = [
    SEPARATOR,
    b"linear",
    b"label-linear",
    b"kernel",
    b"scaled",
    b"pipeline",
    b"kind",
    b"model",
]
TOKENS += [b"n_features", b"feature_names", b"steps", b"arrays", b"params", b"scaler", b"sparse"]
TOKENS += [b"StandardScaler", b"MinMaxScaler", b"MaxAbsScaler", b"feature_range", b"copy", b"clip"]
TOKENS += [b"null", b"true", b"NaN", b"Infinity", b"1e999", b"-1", b"1000000000000000", b"[", b"{"]
TOKENS += [b"poly", b"rbf", b"gamma", b"degree", b"coef0", b"shifted", b"'<f8'", b"'|O'", b"'<U3'"]
TOKENS += [b"'<c16'", b"'<M8[s]'", b"'<f4'", b"'<i8'", b"(3,)", b"()", b"(1000000000000,)", b"True"]

TOKENS += [b"regressor", b"trees", b"intercept", b"link", b"log", b"identity", b"subtract", b"clip"]
TOKENS += [
    b"sizes",
    b"left",
    b"right",
    b"feature",
    b"threshold",
    b"value",
    b"importances",
    b"start",
]
TOKENS += [b"scale", b"average", b"float32", b"divide", b"multiply", b"add", b"'<i4'"]


def before() -> None:
    """Say nothing of archives that hold a name twice, as many do here."""
    warnings.filterwarnings("ignore", "Duplicate name")


def check(data: bytes, folder: Path) -> None:
    """Refused, or a model that predicts finite scores (or refuses) and survives saving."""
    header, *parts = data.split(SEPARATOR)
    files = packed(parts)
    for file in set(FILES) & set(os.listdir(folder)) - set(files):
        (folder / file).unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "model.json").write_bytes(signed(header, files))
    try:
        model = models.load_model(folder)
    except ModelFormatError:
        return
    check_model(model, data, folder)


def check_model(model: models.Model, data: bytes, folder: Path) -> None:
    """That it predicts finite scores (or refuses) and, once in ten inputs, survives saving."""
    assert model.n_features >= 1
    if model.n_features > 100:
        return
    X = np.linspace(-1.0, 1.0, 3 * model.n_features).reshape(3, -1)
    try:
        scores = model.predict(X)
    except DataError:
        return
    assert np.isfinite(scores).all()
    assert scores.shape == ((3,) if model.n_labels is None else (3, model.n_labels))
    if one_in(10, data):
        copy = folder / f"copy-{len(list(folder.iterdir()))}"
        try:
            model.save(copy)
            assert np.array_equal(models.load_model(copy).predict(X), scores)
        finally:
            for file in copy.iterdir():
                file.unlink()
            copy.rmdir()


def packed(parts: list[bytes]) -> dict[str, bytes]:
    """The files of the input's parts."""
    files: dict[str, bytes] = {}
    members: dict[str, list[tuple[str, bytes]]] = {}
    for part in parts:
        place, _, content = part.partition(b"\n")
        file, _, member = place.decode("latin-1").partition("/")
        if file in FILES and member:
            members.setdefault(file, []).append((member, content))
        elif file in FILES:
            files[file] = content
    for file, arrays in members.items():
        stream = BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for member, content in arrays:
                archive.writestr(zipfile.ZipInfo(f"{member}.npy"), content)
        files[file] = stream.getvalue()
    return files


def signed(header: bytes, files: dict[str, bytes]) -> bytes:
    """The header with digests, if it is a JSON object."""
    try:
        content = json.loads(header)
    except (ValueError, RecursionError):
        return header
    if not isinstance(content, dict):
        return header
    content = {"format": "rankplug-model", "schema_version": 1, "feature_names": None} | content
    content["files"] = {
        name: hashlib.sha256(content).hexdigest() for name, content in files.items()
    }
    content.pop("sha256", None)
    text = json.dumps(content, sort_keys=True)
    content["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps(content).encode()
