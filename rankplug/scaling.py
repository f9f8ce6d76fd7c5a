"""Scaled features, and models that scale features themselves before they score them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.affine import Scaling
from rankplug.arrays import row_blocks
from rankplug.data import LabelRankingData, Matrix, RankingData
from rankplug.exceptions import DataError, ModelFormatError
from rankplug.models import Model, WrappedModel
from rankplug.safe_files import load_numbers

__all__ = [
    "ScaleName",
    "ScaledModel",
    "Scaling",
    "fit_scaling",
    "fit_scaling_to_blocks",
    "predict_data",
    "scaling_for",
]

ScaleName: TypeAlias = Literal["none", "standard", "minmax", "maxabs"]

_FILE = "scaling.npz"
_BLOCK_ELEMENTS = 1 << 23


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
        If sparse features would become dense, or features are too large.
    """
    return fit_scaling_to_blocks([X], scale)


def fit_scaling_to_blocks(blocks: Iterable[Matrix], scale: ScaleName) -> Scaling | None:
    """`fit_scaling` of all rows, some of them at a time."""
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

    if scale == "none":
        return None
    scaler = {"maxabs": MaxAbsScaler, "standard": StandardScaler, "minmax": MinMaxScaler}[scale]()
    for X in blocks:
        if sparse.issparse(X) and scale != "maxabs":
            raise DataError(f"scale: {scale} would make sparse features dense; use maxabs or none")
        with np.errstate(all="ignore"):
            scaler.partial_fit(X)
    size = scaler.scale_.astype(np.float64)
    if scale == "maxabs":
        return _finite(Scaling(None, 1.0 / size), size)
    if scale == "standard":
        return _finite(Scaling(scaler.mean_.astype(np.float64), 1.0 / size), size)
    return _finite(Scaling(scaler.data_min_.astype(np.float64), size), size)


def _finite(scaling: Scaling, size: NDArray[np.float64]) -> Scaling:
    """The scaling, if no number in it has overflowed or vanished."""
    right = np.isfinite(size) & np.isfinite(scaling.factor) & (size > 0)
    if scaling.shift is not None:
        right &= np.isfinite(scaling.shift)
    if not right.all():
        raise DataError(
            f"column {int(np.argmin(right))} (counted from 0) cannot be scaled, as sums of its "
            "values overflow: divide it by a large number first"
        )
    return scaling


def scaling_for(
    data: RankingData | LabelRankingData,
    scale: ScaleName,
    valid: RankingData | LabelRankingData | None = None,
) -> Scaling | None:
    """How to scale before training on `data`: as they were prepared, or as `fit_scaling` says.

    Raises
    ------
    DataError
        If sparse features would become dense, features that were scaled already would be scaled
        again, or only the validation data were scaled.
    """
    done = _known_scaling(data)
    if done is None and valid is not None and _known_scaling(valid) is not None:
        raise DataError(
            "the validation data were scaled when they were prepared, but not the training data: "
            "prepare both alike"
        )
    if done is not None and scale != "none":
        raise DataError(
            f"scale: {scale}, but the training data were scaled already when they were prepared: "
            "leave out scale"
        )
    return fit_scaling(data.X, scale) if done is None else done


def predict_data(model: Model, data: RankingData | LabelRankingData) -> NDArray[np.float64]:
    """Scores of the rows of data by a model of unscaled features.

    Features that were scaled when they were prepared are given to the model within a
    `ScaledModel` as they are if it scales alike; for other models their scaling is undone, up to
    rounding.
    """
    scaling = _known_scaling(data)
    if scaling is None:
        return model.predict(data.X)
    if isinstance(model, ScaledModel) and model.scaling.equals(scaling):
        return model.model.predict(data.X)
    blocks = row_blocks(data.X, _BLOCK_ELEMENTS)
    return np.concatenate([model.predict(scaling.undo(data.X[rows])) for rows in blocks])


def _known_scaling(data: RankingData | LabelRankingData) -> Scaling | None:
    return data.scaling if isinstance(data, RankingData) else None


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
        # Some rows at a time: X may be mapped, and larger than memory.
        blocks = [X[rows] for rows in row_blocks(X, _BLOCK_ELEMENTS)]
        return np.concatenate([self.model._predict(self.scaling.apply(X)) for X in blocks])

    def _write(self, folder: Path) -> dict[str, Any]:
        extra = self.model._write(folder)
        scaling = {"factor": self.scaling.factor}
        if self.scaling.shift is not None:
            scaling["shift"] = self.scaling.shift
        np.savez(folder / _FILE, allow_pickle=False, **scaling)
        return {"kind": self.model.kind, "model": extra, "shifted": "shift" in scaling}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> ScaledModel:
        model = cls._read_wrapped(folder, header)
        names = ("factor", "shift") if header.get("shifted") else ("factor",)
        arrays = load_numbers(folder / _FILE, *names)
        if any(array.shape != (model.n_features,) for array in arrays.values()):
            raise ModelFormatError(f"{folder / _FILE} does not fit {model.n_features} features")
        return cls(model, Scaling(arrays.get("shift"), arrays["factor"]))
