"""Scaled features, and models that scale features themselves before they score them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import LabelRankingData, Matrix, RankingData
from rankplug.exceptions import DataError, ModelFormatError
from rankplug.models import Model, WrappedModel, load_arrays, model_class

__all__ = ["ScaleName", "ScaledModel", "Scaling", "fit_scaling"]

ScaleName: TypeAlias = Literal["none", "standard", "minmax", "maxabs"]

_FILE = "scaling.npz"


@dataclass(frozen=True, eq=False)
class Scaling:
    """Features become ``(X - shift) * factor``; without shift, sparse ones stay sparse.

    Attributes
    ----------
    shift : float64 ndarray of shape (n_features,) or None
    factor : float64 ndarray of shape (n_features,)
    """

    shift: NDArray[np.float64] | None
    factor: NDArray[np.float64]

    def apply(self, X: Matrix) -> Matrix:
        """Scaled features of the same type; `X` is left as it is.

        Raises
        ------
        DataError
            If sparse features would become dense.
        """
        if sparse.issparse(X) and self.shift is not None:
            raise DataError(
                "the features are shifted before they are scored, which would make sparse ones "
                "dense: pass X.toarray()"
            )
        factor = self.factor.astype(X.dtype)
        if sparse.issparse(X):
            scaled: Any = X.copy()
            scaled.data *= factor[scaled.indices]
            return scaled
        if self.shift is None:
            return np.asarray(X * factor)
        shifted = X - self.shift.astype(X.dtype)
        shifted *= factor
        return shifted

    def of(self, data: RankingData | LabelRankingData) -> RankingData | LabelRankingData:
        """The data with scaled features."""
        return replace(data, X=self.apply(data.X))


def fit_scaling(X: Matrix, scale: ScaleName) -> Scaling | None:
    """How to scale features like these; constant ones keep their scale.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
    scale : "none", "standard", "minmax" or "maxabs"
        Nothing; mean 0 and standard deviation 1; from 0 to 1; largest absolute value 1.

    Raises
    ------
    DataError
        If sparse features would become dense.
    """
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

    if scale == "none":
        return None
    if scale == "maxabs":
        return Scaling(None, 1.0 / MaxAbsScaler().fit(X).scale_)
    if sparse.issparse(X):
        raise DataError(f"scale: {scale} would make sparse features dense; use maxabs or none")
    if scale == "standard":
        standard = StandardScaler().fit(X)
        return Scaling(standard.mean_, 1.0 / standard.scale_)
    minmax = MinMaxScaler().fit(X)
    return Scaling(minmax.data_min_, minmax.scale_)


class ScaledModel(WrappedModel):
    """Scores unscaled features by a model that was trained on scaled ones.

    Parameters
    ----------
    model : Model
    scaling : Scaling
    """

    kind = "scaled"

    def __init__(self, model: Model, scaling: Scaling) -> None:
        super().__init__(model)
        self.scaling = scaling
        self.feature_names = model.feature_names

    def feature_importances(self) -> NDArray[np.float64] | None:
        """Those of the model: scaling changes no order of importance."""
        return self.model.feature_importances()

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        return self.model._predict(self.scaling.apply(X))

    def _write(self, folder: Path) -> dict[str, Any]:
        extra = self.model._write(folder)
        scaling = {"factor": self.scaling.factor}
        if self.scaling.shift is not None:
            scaling["shift"] = self.scaling.shift
        np.savez(folder / _FILE, allow_pickle=False, **scaling)
        return {"kind": self.model.kind, "model": extra, "shifted": "shift" in scaling}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> ScaledModel:
        if not isinstance(header.get("kind"), str) or not isinstance(header.get("model"), dict):
            raise ModelFormatError(f"{folder}: the header does not describe the scaled model")
        names = ("factor", "shift") if header.get("shifted") else ("factor",)
        arrays = load_arrays(folder / _FILE, *names)
        model = model_class(header["kind"], folder)._read(folder, header["model"])
        if any(array.shape != (model.n_features,) for array in arrays.values()):
            raise ModelFormatError(f"{folder / _FILE} does not fit {model.n_features} features")
        return cls(model, Scaling(arrays.get("shift"), arrays["factor"]))
