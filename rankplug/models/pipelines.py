"""scikit-learn pipelines of scalers and a ranker, as models that need no pickle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from rankplug.data import Matrix
from rankplug.exceptions import DataError, ModelFormatError, ParameterError
from rankplug.models.base import Model
from rankplug.models.wrapped import WrappedModel
from rankplug.system.files import load_numbers

_FILE = "pipeline.npz"

_SCALERS: dict[str, tuple[type, tuple[str, ...]]] = {
    "StandardScaler": (StandardScaler, ("mean_", "scale_")),
    "MinMaxScaler": (MinMaxScaler, ("min_", "scale_")),
    "MaxAbsScaler": (MaxAbsScaler, ("scale_",)),
}
"""The transformers that can be saved, and what their ``transform`` uses of what was fitted."""

_UNLESS = {"mean_": "with_mean", "scale_": "with_std"}
"""The parameters without which an array may be missing."""


class PipelineModel(WrappedModel):
    """Scores features that scikit-learn's own scalers have transformed before.

    Parameters
    ----------
    scalers : sequence of (str, scaler)
        Names and fitted scalers in the order in which they are applied: StandardScaler,
        MinMaxScaler or MaxAbsScaler.
    model : Model
        Scores what the last scaler returns.
    feature_names : sequence of str, optional
        Names of the features that the first scaler takes.

    Notes
    -----
    A scaler is saved as its parameters and fitted arrays, and its ``transform`` is
    scikit-learn's, so that the scores are those of the pipeline to the last bit. (float16
    features become float32 before, which scikit-learn itself does not do.)
    """

    kind = "pipeline"

    def __init__(
        self, scalers: Sequence[tuple[str, Any]], model: Model, feature_names: Any = None
    ) -> None:
        self.scalers = list(scalers)
        super().__init__(model)
        self.feature_names = None if feature_names is None else tuple(map(str, feature_names))

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        for name, scaler in self.scalers:
            try:
                X = scaler.transform(X)
            except (TypeError, ValueError) as error:
                kind = type(scaler).__name__
                raise DataError(f"step {name!r} ({kind}) refuses the features: {error}") from None
        return self.model.predict(X)

    def _write(self, folder: Path) -> dict[str, Any]:
        extra = self.model._write(folder)
        arrays: dict[str, Any] = {}
        steps = []
        for position, (name, scaler) in enumerate(self.scalers):
            kind = type(scaler).__name__
            fitted = _fitted_arrays(scaler)
            arrays |= {f"{position}.{key}": value for key, value in fitted.items()}
            params = {key: np.asarray(value).tolist() for key, value in _params(scaler).items()}
            steps.append({"name": name, "scaler": kind, "params": params, "arrays": list(fitted)})
        np.savez(folder / _FILE, allow_pickle=False, **arrays)
        return {"kind": self.model.kind, "model": extra, "steps": steps}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> PipelineModel:
        model = cls._read_wrapped(folder, header)
        try:
            scalers = [
                (str(step["name"]), _restore(step, f"{position}.", folder / _FILE, model))
                for position, step in enumerate(header["steps"])
            ]
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ModelFormatError):
                raise
            raise ModelFormatError(
                f"{folder}: the description of the pipeline's steps is damaged: "
                f"{type(error).__name__} {error}"
            ) from None
        return cls(scalers, model)


def pipeline_model(pipeline: Pipeline, model: Model) -> PipelineModel:
    """The model of a fitted pipeline whose last step has trained `model`.

    Raises
    ------
    ParameterError
        If a step is no scaler of scikit-learn, or is not fitted; all such steps are named.
    """
    *before, _ = flat_steps(pipeline)
    scalers = [(name, step) for name, step in before if step not in (None, "passthrough")]
    wrong = [f"{name!r} ({type(step).__name__})" for name, step in scalers if not _is_known(step)]
    if wrong:
        raise ParameterError(
            f"pipeline steps that cannot be saved without pickle: {', '.join(wrong)}; those that "
            f"can are {', '.join(_SCALERS)} and 'passthrough'. Transform the features before the "
            "pipeline, or save its last step alone: save_model(pipeline[-1], ...)"
        )
    for name, scaler in scalers:
        try:
            check_is_fitted(scaler)
        except NotFittedError:
            raise ParameterError(
                f"the pipeline's step {name!r} is not fitted: call the pipeline's fit"
            ) from None
    names = getattr(pipeline, "feature_names_in_", None) if scalers else model.feature_names
    return PipelineModel([(name, _without_names(scaler)) for name, scaler in scalers], model, names)


def _without_names(scaler: Any) -> Any:
    """The scaler without its features' names, which the model itself checks."""
    unnamed = copy(scaler)
    if hasattr(unnamed, "feature_names_in_"):
        del unnamed.feature_names_in_
    return unnamed


def flat_steps(pipeline: Pipeline) -> Iterator[tuple[str, Any]]:
    """Names and steps in order, those of pipelines within the pipeline among them."""
    for name, step in pipeline.steps:
        if isinstance(step, Pipeline):
            yield from ((f"{name}.{inner}", part) for inner, part in flat_steps(step))
        else:
            yield name, step


def _is_known(step: Any) -> bool:
    """A subclass may transform in another way."""
    return type(step) in (known for known, _ in _SCALERS.values())


def _params(scaler: Any) -> dict[str, Any]:
    """The scaler's parameters but `copy`: a model leaves its caller's features as they are."""
    return {key: value for key, value in scaler.get_params().items() if key != "copy"}


def _fitted_arrays(scaler: Any) -> dict[str, NDArray[Any]]:
    _, attributes = _SCALERS[type(scaler).__name__]
    values = {name: getattr(scaler, name) for name in attributes}
    return {name: np.asarray(value) for name, value in values.items() if value is not None}


def _restore(step: Mapping[str, Any], prefix: str, file: Path, model: Model) -> Any:
    """The scaler that a step of the header describes; `prefix` is that of its arrays' names."""
    kind, attributes = _SCALERS[step["scaler"]]
    scaler = kind(**_check_params(step["params"]))
    params = scaler.get_params()
    unused = {name for name, param in _UNLESS.items() if not params.get(param, True)}
    there = step["arrays"]
    if not set(attributes) - unused <= set(there) <= set(attributes):
        raise ValueError(f"arrays {there} of a {step['scaler']}")
    arrays = load_numbers(file, *(prefix + name for name in there))
    if any(array.shape != (model.n_features,) for array in arrays.values()):
        raise ModelFormatError(f"{file} does not fit {model.n_features} features")
    for name in attributes:
        setattr(scaler, name, arrays.get(prefix + name))
    scaler.n_features_in_ = model.n_features
    return scaler


def _check_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a scaler from JSON, which has no tuples: two numbers, or truth values."""
    checked = dict(params)
    if "feature_range" in checked:
        low, high = map(float, checked["feature_range"])
        checked["feature_range"] = (low, high)
    wrong = [name for name in params if type(checked[name]) not in (bool, tuple)]
    if wrong:
        raise ValueError(f"parameters {', '.join(wrong)}")
    return checked
