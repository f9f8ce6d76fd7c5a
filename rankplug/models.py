"""Trained models: they predict, save and load, and know nothing of how they were trained.

A saved model is a folder: ``model.json`` describes it (kind, schema version, features and
the SHA-256 of every file, its own content included), the rest is its data. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankplug import tables
from rankplug._fast import passes
from rankplug.data import LabelRankingData, Matrix, RankingData, as_matrix
from rankplug.exceptions import DataError, ModelFormatError, ParameterError, nearest
from rankplug.new_folder import new_folder
from rankplug.safe_files import load_arrays, load_numbers, parse_json

__all__ = [
    "SCHEMA_VERSION",
    "LabelLinearModel",
    "LinearModel",
    "Model",
    "WrappedModel",
    "check_labels",
    "linear_model",
    "linear_weights",
    "load_model",
    "model_class",
]

SCHEMA_VERSION = 1
_HEADER = "model.json"
_ARRAYS = "arrays.npz"
_DEEPEST = 8


class Model(ABC):
    """A scoring function of features.

    Plugins announce their subclasses to `load_model` by an entry point of the group
    ``rankplug.models`` whose name is the `kind`; the kinds of this module need none.
    """

    kind: ClassVar[str]
    requires: tuple[str, ...] = ()  # packages beyond rankplug's own that it needs to predict
    feature_names: tuple[str, ...] | None = None

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features of a row."""

    @property
    def n_labels(self) -> int | None:
        """Number of labels scored for each row; None if the row itself is scored."""
        return None

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Scores of the rows of `X`, higher is better.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
            A table's columns are matched by name if the model knows its features' names.

        Returns
        -------
        float64 ndarray of shape (n_samples,), or (n_samples, n_labels) for label ranking

        Raises
        ------
        DataError
            If features are missing, too many, not numeric or not finite, or so large that a score
            is not finite.
        """
        names = self.feature_names if tables.is_table(X) else None
        matrix, _ = as_matrix(X, names)
        if matrix.shape[1] != self.n_features:
            raise DataError(
                f"X has {matrix.shape[1]} features, but the model is expecting "
                f"{self.n_features} features as input"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._predict(matrix)
        wrong = ~np.isfinite(scores)
        if wrong.any():
            raise DataError(
                f"the score of row {np.argwhere(wrong)[0][0]} is not finite: its features are too "
                "large for the model"
            )
        return scores

    def feature_importances(self) -> NDArray[np.float64] | None:
        """How much each feature counts, >= 0; None if the model does not tell.

        Linear models have signed weights instead.
        """
        return None

    @abstractmethod
    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        """Scores of valid rows."""

    @abstractmethod
    def _write(self, folder: Path) -> dict[str, Any]:
        """Write the model's files into an empty folder; return what the header should keep."""

    @classmethod
    @abstractmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> Model:
        """Read the files again; `header` is what `_write` returned."""

    def save(self, path: str | Path) -> None:
        """Write the model to the folder `path`, which must not exist or be empty.

        The folder appears complete or not at all.

        Raises
        ------
        FileExistsError
            If `path` is a file or a folder with something in it, or another process is faster.
        """
        with new_folder(path) as folder:
            extra = self._write(folder)
            header = {
                "format": "rankplug-model",
                "schema_version": SCHEMA_VERSION,
                "kind": self.kind,
                "n_features": self.n_features,
                "feature_names": self.feature_names,
                "files": {file.name: _sha256(file) for file in sorted(folder.iterdir())},
                "model": extra,
            }
            header["sha256"] = _header_sha256(header)
            (folder / _HEADER).write_text(json.dumps(header, indent=2) + "\n", encoding="utf-8")


class LinearModel(Model):
    """Scores ``X @ coef``.

    Parameters
    ----------
    coef : array-like of shape (n_features,)
    feature_names : sequence of str, optional
    """

    kind = "linear"

    def __init__(self, coef: Any, feature_names: Any = None) -> None:
        self.coef = _coefficients(coef, 1)
        self.feature_names = _names(feature_names, len(self.coef))

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return len(self.coef)

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        if X.dtype == self.coef.dtype:
            return np.asarray(X @ self.coef)
        # NumPy and SciPy would make a float64 copy of X.
        scores = np.empty(X.shape[0])
        if isinstance(X, np.ndarray):
            passes.dense_dot(X, self.coef, scores)
        else:
            passes.sparse_dot(X.indptr, X.indices, X.data, self.coef, scores)
        return scores

    def _write(self, folder: Path) -> dict[str, Any]:
        np.savez(folder / _ARRAYS, coef=self.coef)
        return {}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> LinearModel:
        return cls(load_numbers(folder / _ARRAYS, "coef")["coef"])


class LabelLinearModel(Model):
    """Scores ``X @ coef.T``, one for each label.

    Parameters
    ----------
    coef : array-like of shape (n_labels, n_features)
    labels : array-like of shape (n_labels,), optional
        Names of the labels, integers, floats, booleans or strings.
    feature_names : sequence of str, optional
    copy : bool, default=True
        False takes a float64 array of `coef` over as it is: there may be no room for two.
    """

    kind = "label-linear"

    def __init__(
        self, coef: Any, labels: Any = None, feature_names: Any = None, *, copy: bool = True
    ) -> None:
        self.coef = _coefficients(coef, 2, copy=copy)
        self.labels = check_labels(labels, len(self.coef))
        self.feature_names = _names(feature_names, self.coef.shape[1])

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return int(self.coef.shape[1])

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.coef)

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        return np.asarray(X @ self.coef.T, dtype=np.float64)

    def _write(self, folder: Path) -> dict[str, Any]:
        np.savez(folder / _ARRAYS, coef=self.coef, labels=self.labels)
        return {"n_labels": self.n_labels}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> LabelLinearModel:
        coef = load_numbers(folder / _ARRAYS, "coef")["coef"]
        labels = load_arrays(folder / _ARRAYS, "labels")["labels"]
        return cls(coef, labels, copy=False)


class WrappedModel(Model):
    """A model behind something that changes its features first.

    Parameters
    ----------
    model : Model
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.requires = model.requires

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return self.model.n_features

    @property
    def n_labels(self) -> int | None:
        """Number of labels scored for each row; None if the row itself is scored."""
        return self.model.n_labels

    @property
    def labels(self) -> Any:
        """Names of the labels, where the model has them."""
        return getattr(self.model, "labels", None)

    @staticmethod
    def _read_wrapped(folder: Path, header: Mapping[str, Any]) -> Model:
        """Read the model within, which the header describes by `kind` and `model`."""
        if not isinstance(header.get("kind"), str) or not isinstance(header.get("model"), dict):
            raise ModelFormatError(f"{folder}: the header does not describe the model within")
        return model_class(header["kind"], folder)._read(folder, header["model"])


def linear_model(w: NDArray[np.float64], data: RankingData | LabelRankingData) -> Model:
    """The model of the weights that a linear solver found: one vector, or one for each label."""
    if isinstance(data, LabelRankingData):
        return LabelLinearModel(w.reshape(data.n_labels, -1), data.labels)
    return LinearModel(w)


def linear_weights(model: Model) -> NDArray[np.float64]:
    """The weights of a linear model, as one vector; the reverse of `linear_model`.

    Raises
    ------
    ParameterError
        If the model is not linear, so that no linear solver can start from it.
    """
    if not isinstance(model, LinearModel | LabelLinearModel):
        raise ParameterError(
            f"linear solvers start from linear models, not from kind {model.kind!r}"
        )
    return np.asarray(model.coef.ravel())


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


def _coefficients(coef: Any, n_dimensions: int, *, copy: bool = True) -> NDArray[np.float64]:
    try:
        array = np.array(coef, dtype=np.float64, order="C" if copy else "K", copy=copy or None)
    except (TypeError, ValueError) as error:
        raise DataError(f"coef must hold numbers: {error}") from None
    if array.ndim != n_dimensions:
        raise DataError(f"coef has {array.ndim} dimensions instead of {n_dimensions}")
    if not np.isfinite(array).all():
        raise DataError(
            "coef holds NaN or infinity: if a solver made it, numbers overflowed, so scale the "
            "features"
        )
    return array


def check_labels(labels: Any, n_labels: int) -> NDArray[Any]:
    """The names of labels as an array; 0, 1, ... if they are None.

    Raises
    ------
    DataError
        If they are not as many, or not all integers, floats, booleans or strings.
    """
    array = np.arange(n_labels) if labels is None else np.asarray(labels)
    if array.dtype == object and len({type(label) for label in array.flat}) == 1:
        array = np.array(array.tolist())
    if array.dtype.kind not in "iufbU":
        raise DataError("labels must be all integers, all floats, all booleans or all strings")
    if array.shape != (n_labels,):
        raise DataError(f"{n_labels} rows of coef but labels of shape {array.shape}")
    if array.dtype.kind == "U" and not all(map(_is_text, array.tolist())):
        raise DataError("labels hold characters that are no text (lone surrogates)")
    return array


def _names(names: Any, n_features: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if len(names) != n_features:
        raise DataError(f"{len(names)} feature names for {n_features} features")
    return tuple(str(name) for name in names)


def _is_text(value: Any) -> bool:
    """Whether it is a string that can be written: JSON may hold halves of characters."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _header_sha256(header: Mapping[str, Any]) -> str:
    """The digest of what the header says, however it is laid out."""
    content = {key: value for key, value in header.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
