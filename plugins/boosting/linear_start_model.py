"""A linear model and trees on top of it, as one model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import Matrix, as_matrix
from rankplug.exceptions import ModelFormatError
from rankplug.models import LinearModel, Model
from rankplug_plugins.boosting.xgboost_model import XGBoostModel

__all__ = ["LinearThenTreesModel"]


class LinearThenTreesModel(Model):
    """Scores ``X @ coef + trees(X)``.

    Parameters
    ----------
    linear : LinearModel
    trees : XGBoostModel
        Trained from the linear scores, with a base score of 0.
    """

    kind = "linear-then-trees"
    requires = ("xgboost",)

    def __init__(self, linear: LinearModel, trees: XGBoostModel) -> None:
        self.linear = linear
        self.trees = trees

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return self.linear.n_features

    def _predict(self, X: Matrix) -> NDArray[np.float64]:
        return self.linear._predict(X) + self.trees._predict(X)

    def feature_importances(self) -> NDArray[np.float64]:
        """Total gain of the trees' splits that use each feature."""
        return self.trees.feature_importances()

    def contributions(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What each feature adds to the scores: by its linear weight, and in the trees.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)

        Returns
        -------
        linear : float64 ndarray of shape (n_samples, n_features)
            ``X * coef``.
        trees : float64 ndarray of shape (n_samples, n_features + 1)
            SHAP values, by XGBoost; the last column is the trees' mean score. All columns of
            both add up to the score, but for float32 rounding.

        Raises
        ------
        DataError
            If the features do not fit.
        """
        matrix: Any = as_matrix(X, self.feature_names)[0]
        of_trees = self.trees.contributions(matrix)
        dense = matrix.toarray() if sparse.issparse(matrix) else matrix
        return np.asarray(dense * self.linear.coef, dtype=np.float64), of_trees

    def _write(self, folder: Path) -> dict[str, Any]:
        return {"linear": self.linear._write(folder), "trees": self.trees._write(folder)}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> LinearThenTreesModel:
        parts = [header.get("linear"), header.get("trees")]
        if not all(isinstance(part, dict) for part in parts):
            raise ModelFormatError(f"{folder}: the description lacks the linear part or the trees")
        linear, trees = LinearModel._read(folder, parts[0]), XGBoostModel._read(folder, parts[1])
        if linear.n_features != trees.n_features:
            raise ModelFormatError(
                f"{folder}: {linear.n_features} weights, but trees of {trees.n_features} features"
            )
        return cls(linear, trees)
