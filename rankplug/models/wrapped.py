"""Models that wrap a model: `ScaledModel` scales features before the model within scores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankplug.data import (
    ImputeName,
    LabelRankingData,
    Matrix,
    RankingData,
    ScaleName,
    Scaling,
    fill_missing,
    fit_imputing,
    fit_scaling,
    recode,
    row_blocks,
    to_dense,
)
from rankplug.exceptions import DataError, ModelFormatError
from rankplug.models.base import Model
from rankplug.models.contributions import Contributions
from rankplug.models.loading import model_class
from rankplug.system.files import load_numbers

_FILE = "scaling.npz"
_BLOCK_ELEMENTS = 1 << 23  # of features scaled at once: 64 MB of float64

Data: TypeAlias = RankingData | LabelRankingData


class ScaledParts(NamedTuple):
    """Training and validation data as a solver takes them, and how they were scaled."""

    train: Data
    valid: Data | None
    scaling: Scaling | None


def scale_parts(
    train: Data, valid: Data | None, scale: ScaleName, impute: ImputeName = "none"
) -> ScaledParts:
    """Impute and scale both as the training data ask for; raises `DataError` as `scaling_for`."""
    scaling = scaling_for(train, scale, valid, impute)
    if scaling is None:
        return ScaledParts(train, valid, None)
    return ScaledParts(scaling.of(train), None if valid is None else scaling.of(valid), scaling)


def scaling_for(
    data: Data, scale: ScaleName, valid: Data | None = None, impute: ImputeName = "none"
) -> Scaling | None:
    """How to scale before training on `data`: as they were prepared, or as `fit_scaling` says.

    With `impute`, missing values become the means or medians of the training data before.

    Raises
    ------
    DataError
        If sparse features would become dense, features that were scaled already would be scaled
        again, or only the validation data were scaled.
    """
    done = data.scaling
    if done is None and valid is not None and valid.scaling is not None:
        raise DataError(
            "the validation data were scaled when they were prepared, but not the training data: "
            "prepare both alike"
        )
    if done is not None and scale != "none":
        raise DataError(
            f"scale: {scale}, but the training data were scaled already when they were prepared: "
            "leave out scale"
        )
    coded = np.array([*data.categories], dtype=np.int64)
    if impute == "none":
        scaling = fit_scaling(data.X, scale) if done is None else done
        return None if scaling is None else _leave_codes(scaling, coded)
    fill = fit_imputing(data.X, impute)
    fill[coded] = [_most_frequent(to_dense(data.X[:, [j]])) for j in coded]
    if done is not None:
        fill = fill / done.factor + (0.0 if done.shift is None else done.shift)
        return replace(done, fill=fill)
    scaling = fit_scaling(fill_missing(data.X, fill), scale)
    scaling = _leave_codes(scaling or Scaling(None, np.ones(data.n_features)), coded)
    return replace(scaling, fill=fill)


def _leave_codes(scaling: Scaling, coded: NDArray[np.int64]) -> Scaling:
    """The scaling, which leaves the codes of categories as they are."""
    if not len(coded):
        return scaling
    factor, shift = scaling.factor.copy(), scaling.shift
    factor[coded] = 1.0
    if shift is not None:
        shift = shift.copy()
        shift[coded] = 0.0
    return Scaling(shift, factor, scaling.fill)


def _most_frequent(codes: NDArray[Any]) -> float:
    """The code that most rows have; 1 if all are missing."""
    there = codes[~np.isnan(codes)].astype(np.int64)
    return float(np.bincount(there).argmax()) if len(there) else 1.0


def predict_data(model: Model, data: Data) -> NDArray[np.float64]:
    """Scores of the rows of data by a model of unscaled features.

    Features that were scaled when they were prepared are given to the model within a
    `ScaledModel` as they are if it scales alike; for other models their scaling is undone, up to
    rounding.
    """
    if dict(model.categories) != dict(data.categories):
        known = model.categories
        data = replace(data, X=recode(data.X, data.categories, known), categories=known)
    scaling = data.scaling
    if scaling is None:
        return model.predict(data.X)
    if isinstance(model, ScaledModel) and model.scaling.equals(scaling):
        return model.model.predict(model.scaling.of(data).X)
    blocks = row_blocks(data.X, _BLOCK_ELEMENTS)
    return np.concatenate([model.predict(scaling.undo(data.X[rows])) for rows in blocks])


class WrappedModel(Model):
    """A model behind something that changes its features first.

    Parameters
    ----------
    model : Model
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.requires = model.requires
        self.query_column = model.query_column
        self.categories = model.categories
        self.id_columns = model.id_columns
        self.zero_based = model.zero_based

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return self.model.n_features

    @property
    def takes_missing_values(self) -> bool:
        """As the model within, to which what is missing comes as it is."""
        return self.model.takes_missing_values

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


class ScaledModel(WrappedModel):
    """Scores unscaled features by a model that was trained on scaled (and imputed) ones.

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

    @property
    def takes_missing_values(self) -> bool:
        """If they are imputed, or the model within takes them."""
        return self.scaling.fill is not None or self.model.takes_missing_values

    def feature_importances(self) -> NDArray[np.float64] | None:
        """Those of the model: scaling changes no order of importance."""
        return self.model.feature_importances()

    def _linear_weights(self) -> NDArray[np.float64] | None:
        # A shift adds the same to all rows; between labels it differs, which a start need not hold.
        weights = self.model._linear_weights()
        return None if weights is None else weights * self.scaling.factor

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        # Some rows at a time: X may be mapped, and larger than memory.
        blocks = [X[rows] for rows in row_blocks(X, _BLOCK_ELEMENTS)]
        return np.concatenate([self.model._predict(self.scaling.apply(X)) for X in blocks])

    def _contributions(self, X: Matrix) -> Contributions | None:
        blocks = [X[rows] for rows in row_blocks(X, _BLOCK_ELEMENTS)]
        found = [self.model._contributions(self.scaling.apply(block)) for block in blocks]
        known = [one for one in found if one is not None]
        return Contributions.stacked(known) if len(known) == len(found) else None

    def _write(self, folder: Path) -> dict[str, Any]:
        extra = self.model._write(folder)
        scaling = {"factor": self.scaling.factor}
        if self.scaling.shift is not None:
            scaling["shift"] = self.scaling.shift
        if self.scaling.fill is not None:
            scaling["fill"] = self.scaling.fill
        np.savez(folder / _FILE, allow_pickle=False, **scaling)
        filled = {"filled": True} if "fill" in scaling else {}  # which 0.1 did not know
        return {"kind": self.model.kind, "model": extra, "shifted": "shift" in scaling, **filled}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> ScaledModel:
        model = cls._read_wrapped(folder, header)
        more = {"shift": "shifted", "fill": "filled"}
        names = [name for name, key in more.items() if header.get(key)]
        arrays = load_numbers(folder / _FILE, "factor", *names)
        if any(array.shape != (model.n_features,) for array in arrays.values()):
            raise ModelFormatError(f"{folder / _FILE} does not fit {model.n_features} features")
        return cls(model, Scaling(arrays.get("shift"), arrays["factor"], arrays.get("fill")))


def scaled_model(model: Model, scaling: Scaling | None) -> Model:
    """The model for unscaled features of one that was trained on features scaled so."""
    return model if scaling is None else ScaledModel(model, scaling)
