"""A fitted regressor of scikit-learn as a model: saved as arrays, which rankplug itself reads.

A regressor becomes arrays when the model is made (`convert`), and it is these that predict, before
a model is saved as after: compiled code of others never sees what a file holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import get_tags

from rankplug.data import Matrix
from rankplug.exceptions import DataError, ModelFormatError
from rankplug.models import KernelModel, LinearModel, Model, TreeEnsemble
from rankplug.parameters import Choice, Parameter, Real
from rankplug.system.cores import survive_forks
from rankplug.system.files import load_numbers
from rankplug_plugins.baselines.conversion import Converted, Step, UnknownRegressorError, convert
from rankplug_plugins.baselines.skops_files import read_skops

_SKOPS_FILE = "regressor.skops"  # of version 0.1
_SCALERS_FILE = "scalers.npz"

_BLOCK_ELEMENTS = 1 << 21  # of features scaled at once: 16 MB of float64

# What a file of other types than scikit-learn's makes of a conversion.
_STRANGE = (
    OSError, ValueError, TypeError, LookupError, AttributeError, OverflowError, DataError,
)  # fmt: skip

_MODELS: Mapping[str, type[Model]] = {
    model.kind: model for model in (KernelModel, LinearModel, TreeEnsemble)
}
_OPERATIONS: Mapping[str, Any] = {
    "subtract": np.subtract, "divide": np.divide, "multiply": np.multiply, "add": np.add,
}  # fmt: skip
_HEADER: Mapping[str, Parameter] = {
    "kind": Choice(tuple(_MODELS)),
    "intercept": Real(),
    "link": Choice(("identity", "log")),
}


class RegressorModel(Model):
    """Scores that a scikit-learn regressor predicts.

    Parameters
    ----------
    regressor : fitted scikit-learn regressor
        Linear regressors, SVR, NuSVR, KernelRidge, trees, forests, gradient boosting, and
        pipelines of one of them behind scalers are kept as arrays, and can be saved. Others
        predict by themselves, and cannot.

    Notes
    -----
    Trees and forests score as scikit-learn does to the last bit (which sums trees in their order
    with one thread); linear functions and kernels up to rounding, within 1e-11 of the largest
    score, or 1e-5 where float32 features are scaled. What is saved scores to the last bit as
    before.
    """

    kind = "regressor"

    def __init__(self, regressor: Any) -> None:
        self._converted: Converted | None = None
        self._regressor: Any = None
        try:
            self._converted = convert(regressor)
        except (ValueError, DataError) as error:
            self._regressor, self._reason = regressor, str(error)

    @property
    def converted(self) -> Converted | None:
        """The regressor as arrays: scalers, model, intercept and link; None if it has no form."""
        return self._converted

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        if self._converted is None:
            return int(self._regressor.n_features_in_)
        return self._converted.model.n_features

    @property
    def takes_missing_values(self) -> bool:
        """As the regressor takes them."""
        if self._converted is None:
            return takes_missing(self._regressor)
        return self._converted.model.takes_missing_values

    def feature_importances(self) -> NDArray[np.float64] | None:
        """The regressor's own, if it has them."""
        if self._converted is not None:
            alone = not self._converted.steps
            return self._converted.model.feature_importances() if alone else None
        importances = getattr(self._regressor, "feature_importances_", None)
        return None if importances is None else np.asarray(importances, dtype=np.float64)

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        if self._converted is None:
            return self._predict_by_itself(X)
        steps, model, intercept, link = self._converted
        if steps:
            step = max(1, _BLOCK_ELEMENTS // X.shape[1])
            blocks = [X[begin : begin + step] for begin in range(0, X.shape[0], step)]
            scores = np.concatenate([model._predict(_scale(steps, block)) for block in blocks])
        else:
            scores = model._predict(X)
        scores = scores + intercept
        return np.exp(scores) if link == "log" else scores

    def _predict_by_itself(self, X: Matrix) -> NDArray[np.float64]:
        survive_forks()
        kind = type(self._regressor).__name__
        try:
            scores = self._regressor.predict(convert_features(self._regressor, X))
        except (OverflowError, ValueError) as error:
            raise DataError(f"{kind} refuses the features: {error}") from None
        scores = np.asarray(scores, dtype=np.float64)
        if scores.size != X.shape[0]:
            raise DataError(f"{kind} predicts more than one number for each row")
        return scores.reshape(-1)

    def _write(self, folder: Path) -> dict[str, Any]:
        if self._converted is None:
            raise DataError(
                f"this {type(self._regressor).__name__} cannot be saved without pickling: "
                f"{self._reason}"
            )
        steps, model, intercept, link = self._converted
        extra = model._write(folder)
        if steps:
            arrays: Any = {str(place): step.values for place, step in enumerate(steps)}
            np.savez(folder / _SCALERS_FILE, allow_pickle=False, **arrays)
        return {
            "kind": model.kind,
            "model": extra,
            "intercept": intercept,
            "link": link,
            "steps": [step.operation for step in steps],
        }

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> RegressorModel:
        file = folder / _SKOPS_FILE
        if not file.exists():
            return cls._of(_read_converted(folder, header))
        try:
            return cls._of(convert(read_skops(file)))
        except UnknownRegressorError as error:
            raise ModelFormatError(
                f"{file} cannot be read: it is not safe to load: {error}"
            ) from None
        except _STRANGE as error:
            raise ModelFormatError(f"{file} cannot be read: {error}") from None

    @classmethod
    def _of(cls, converted: Converted) -> RegressorModel:
        model = cls.__new__(cls)
        model._converted, model._regressor = converted, None
        return model


def _read_converted(folder: Path, header: Mapping[str, Any]) -> Converted:
    wrong = [key for key, kind in _HEADER.items() if not kind.accepts(header.get(key))]
    steps, content = header.get("steps"), header.get("model")
    if not isinstance(steps, list) or not {*map(str, steps)} <= {*_OPERATIONS, "clip"}:
        wrong.append("steps")
    if not isinstance(content, dict):
        wrong.append("model")
    if wrong or not isinstance(steps, list) or not isinstance(content, dict):
        raise ModelFormatError(f"{folder}: {', '.join(wrong)} missing or wrong in the header")
    model = _MODELS[header["kind"]]._read(folder, content)
    if model.n_labels is not None:
        raise ModelFormatError(f"{folder}: a regressor scores rows, not labels")
    file = folder / _SCALERS_FILE
    arrays = load_numbers(file, *map(str, range(len(steps)))) if steps else {}
    for place, operation in enumerate(steps):
        n_values = 2 if operation == "clip" else model.n_features
        if arrays[str(place)].shape != (n_values,):
            raise ModelFormatError(f"{file} does not fit {model.n_features} features")
    return Converted(
        tuple(Step(operation, arrays[str(place)]) for place, operation in enumerate(steps)),
        model,
        float(header["intercept"]),
        header["link"],
    )


def _scale(steps: tuple[Step, ...], X: Any) -> NDArray[Any]:
    """Scaled features of the same type, as scikit-learn's scalers compute them."""
    scaled: NDArray[Any] = X.toarray() if sparse.issparse(X) else np.array(X)
    for operation, values in steps:
        if operation == "clip":
            np.clip(scaled, *values.astype(scaled.dtype), out=scaled)
        else:
            _OPERATIONS[operation](scaled, values, out=scaled, casting="same_kind")
    if np.isinf(scaled).any():
        raise DataError("the features are too large for the regressor's scalers")
    return scaled


def takes_missing(regressor: Any) -> bool:
    """Whether a regressor, or a pipeline of steps before one, says that it takes NaN."""
    for step in _steps(regressor):
        try:
            allowed = get_tags(step).input_tags.allow_nan
        except (AttributeError, TypeError):  # no estimator, which training says
            allowed = False
        if not allowed:
            return False
        if _is_imputer(step):
            return True
    return True


def fills_missing(regressor: Any) -> bool:
    """Whether it is a pipeline with an imputer of NaN, before which all steps take them."""
    return takes_missing(regressor) and any(map(_is_imputer, _steps(regressor)))


def is_made_dense(regressor: Any) -> bool:
    """Whether the regressor says that it takes no sparse features."""
    return not get_tags(regressor).input_tags.sparse


def _steps(regressor: Any) -> list[Any]:
    steps = [step for _, step in getattr(regressor, "steps", [("", regressor)])]
    return [step for step in steps if step not in (None, "passthrough")]


def _is_imputer(step: Any) -> bool:
    """Whether it says, as scikit-learn's imputers do, what it fills in: NaN, if it takes that."""
    return hasattr(step, "get_params") and "missing_values" in step.get_params(deep=False)


def convert_features(regressor: Any, X: Matrix) -> Any:
    """Bring the features into a form that the regressor takes."""
    matrix: Any = X
    if not sparse.issparse(matrix):
        return matrix
    if is_made_dense(regressor):
        return matrix.toarray()
    # Made of its parts, the matrix has 32-bit indices wherever they are large enough: some
    # regressors take no others.
    return sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
