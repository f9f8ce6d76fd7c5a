"""A fitted regressor of scikit-learn as a model: saved by skops, not pickled."""

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
from rankplug.models import Model
from rankplug.system.cores import survive_forks
from rankplug_plugins.baselines.regressor_check import check_regressor, require_stored

__all__ = ["RegressorModel", "as_taken"]

_FILE = "regressor.skops"

# Compiled trees of scikit-learn, which skops does not count as safe by itself, because a forged
# file could make them read wrong memory; `check_regressor` looks at them before they predict.
_TRUSTED = [
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
]


class RegressorModel(Model):
    """Scores that a scikit-learn regressor predicts.

    Parameters
    ----------
    regressor : fitted scikit-learn regressor
        It can be saved if it consists of what skops takes for safe and scikit-learn's trees.
    """

    kind = "regressor"
    requires = ("skops",)

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return int(self.regressor.n_features_in_)

    def feature_importances(self) -> NDArray[np.float64] | None:
        """The regressor's own, if it has them."""
        importances = getattr(self.regressor, "feature_importances_", None)
        return None if importances is None else np.asarray(importances, dtype=np.float64)

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        survive_forks()
        try:
            scores = self.regressor.predict(as_taken(self.regressor, X))
        except (OverflowError, ValueError) as error:
            raise DataError(
                f"{type(self.regressor).__name__} refuses the features: {error}"
            ) from None
        return np.asarray(scores, dtype=np.float64).reshape(-1)

    def _write(self, folder: Path) -> dict[str, Any]:
        import skops.io

        try:
            check_regressor(self.regressor)
        except ValueError as error:
            raise DataError(
                f"this {type(self.regressor).__name__} cannot be saved: {error}"
            ) from None
        skops.io.dump(self.regressor, folder / _FILE)
        unknown = set(skops.io.get_untrusted_types(file=folder / _FILE)) - set(_TRUSTED)
        if unknown:
            raise DataError(
                f"a {type(self.regressor).__name__} cannot be saved without pickling "
                f"{', '.join(sorted(unknown))}: use another regressor"
            )
        return {}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> RegressorModel:
        import skops.io
        from skops.io.exceptions import UntrustedTypesFoundException

        try:
            require_stored(folder / _FILE)
            regressor = skops.io.load(folder / _FILE, trusted=_TRUSTED)
            check_regressor(regressor)
            return cls(regressor)
        except UntrustedTypesFoundException as error:
            raise ModelFormatError(f"{folder / _FILE} is not safe to load: {error}") from None
        except Exception as error:  # whatever a damaged file makes scikit-learn raise
            raise ModelFormatError(
                f"{folder / _FILE} cannot be read: {type(error).__name__}: {error}"
            ) from None


def as_taken(regressor: Any, X: Matrix) -> Any:
    """The features in a form that the regressor takes."""
    if not sparse.issparse(X):
        return X
    if not get_tags(regressor).input_tags.sparse:
        return X.toarray()
    # Made of its parts, the matrix has 32-bit indices wherever they are large enough: some
    # regressors take no others.
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape)
