"""Linear models: one vector of weights, or one for each label."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug._fast import passes
from rankplug.data import LabelRankingData, Matrix, RankingData, fill_missing, holds_nan, to_dense
from rankplug.exceptions import DataError, ParameterError
from rankplug.models.base import ARRAYS, Model
from rankplug.models.contributions import WEIGHTS, Contributions
from rankplug.models.header import check_names, is_text
from rankplug.system.files import load_arrays, load_numbers


class LinearModel(Model):
    """Scores ``X @ coef``.

    Parameters
    ----------
    coef : array-like of shape (n_features,)
    feature_names : sequence of str, optional
    skip_missing : bool, default=False
        Whether a feature that is missing (NaN) adds nothing to the score. Otherwise it is refused.
    """

    kind = "linear"

    def __init__(self, coef: Any, feature_names: Any = None, *, skip_missing: bool = False) -> None:
        self.coef = _coefficients(coef, 1)
        self.skip_missing = skip_missing
        self.feature_names = check_names(feature_names, len(self.coef))

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return len(self.coef)

    @property
    def takes_missing_values(self) -> bool:
        """Only with `skip_missing`."""
        return self.skip_missing

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        if self.skip_missing and holds_nan(X):
            X = fill_missing(X, np.zeros(X.shape[1]))
        if X.dtype == self.coef.dtype:
            return np.asarray(X @ self.coef)
        # NumPy and SciPy would make a float64 copy of X.
        scores = np.empty(X.shape[0])
        if isinstance(X, np.ndarray):
            passes.dense_dot(X, self.coef, scores)
        else:
            passes.sparse_dot(X.indptr, X.indices, X.data, self.coef, scores)
        return scores

    def _contributions(self, X: Matrix) -> Contributions:
        values = to_dense(X) * self.coef
        if self.skip_missing:
            values = np.nan_to_num(values, copy=False, nan=0.0)
        return Contributions(values, np.zeros(len(values)), WEIGHTS)

    def _linear_weights(self) -> NDArray[np.float64]:
        return self.coef

    def _write(self, folder: Path) -> dict[str, Any]:
        np.savez(folder / ARRAYS, coef=self.coef)
        return {"skip_missing": True} if self.skip_missing else {}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> LinearModel:
        skips = header.get("skip_missing") is True
        return cls(load_numbers(folder / ARRAYS, "coef")["coef"], skip_missing=skips)


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
        self.feature_names = check_names(feature_names, self.coef.shape[1])

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

    def _linear_weights(self) -> NDArray[np.float64]:
        return self.coef

    def _write(self, folder: Path) -> dict[str, Any]:
        np.savez(folder / ARRAYS, coef=self.coef, labels=self.labels)
        return {"n_labels": self.n_labels}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> LabelLinearModel:
        coef = load_numbers(folder / ARRAYS, "coef")["coef"]
        labels = load_arrays(folder / ARRAYS, "labels")["labels"]
        return cls(coef, labels, copy=False)


def linear_model(w: NDArray[np.float64], data: RankingData | LabelRankingData) -> Model:
    """The model of the weights that a linear solver found: one vector, or one for each label."""
    if data.n_labels is None:
        return LinearModel(w)
    return LabelLinearModel(w.reshape(data.n_labels, -1), data.labels)


def linear_weights(model: Model) -> NDArray[np.float64]:
    """The weights of a linear model, as one vector; the reverse of `linear_model`.

    Raises
    ------
    ParameterError
        If the model is not linear, so that no linear solver can start from it.
    """
    weights = model._linear_weights()
    if weights is None:
        raise ParameterError(
            f"linear solvers start from linear models, not from kind {model.kind!r}"
        )
    return np.asarray(weights.ravel())


def check_labels(labels: Any, n_labels: int) -> NDArray[Any]:
    """The names of labels as an array; 0, 1, ... if they are None.

    Raises
    ------
    DataError
        If they are not as many, or not all integers, floats, booleans or strings.
    """
    try:
        array = np.arange(n_labels) if labels is None else np.asarray(labels)
    except ValueError:  # lists of different lengths within each other
        raise DataError("labels must be a sequence of names, not of sequences") from None
    if array.dtype == object and len({type(label) for label in array.flat}) == 1:
        array = np.array(array.tolist())
    if array.dtype.kind not in "iufbU":
        raise DataError("labels must be all integers, all floats, all booleans or all strings")
    if array.shape != (n_labels,):
        raise DataError(f"{n_labels} rows of coef but labels of shape {array.shape}")
    if array.dtype.kind == "U" and not all(map(is_text, array.tolist())):
        raise DataError("labels hold characters that are no text (lone surrogates)")
    return array


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
