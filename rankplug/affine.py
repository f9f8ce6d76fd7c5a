"""Scaling of features: shifted and multiplied, one column like another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.arrays import Matrix
from rankplug.exceptions import DataError

__all__ = ["Scaling"]

D = TypeVar("D")


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
        with np.errstate(over="ignore", invalid="ignore"):  # scores are checked
            factor = self.factor.astype(X.dtype)
            if not isinstance(X, np.ndarray):
                return _with_values(X, X.data * factor[X.indices])
            if self.shift is None:
                return np.asarray(X * factor)
            shifted = np.asarray(X - self.shift.astype(X.dtype))
            shifted *= factor
            return shifted

    def undo(self, X: Matrix) -> Matrix:
        """The features before they were scaled, up to rounding; `X` is left as it is."""
        factor = self.factor.astype(X.dtype)
        if not isinstance(X, np.ndarray):
            return _with_values(X, X.data / factor[X.indices])
        restored = np.asarray(X / factor)
        if self.shift is not None:
            restored += self.shift.astype(X.dtype)
        return restored

    def of(self, data: D) -> D:
        """The data with scaled features; the same data if they were prepared with this scaling.

        Parameters
        ----------
        data : RankingData or LabelRankingData

        Raises
        ------
        DataError
            If sparse features would become dense, or the data were scaled in another way.
        """
        known: Any = data
        done = getattr(known, "scaling", None)
        if done is None:
            scaled: D = replace(known, X=self.apply(known.X))
            return scaled
        if not self.equals(done):
            raise DataError(
                "these data were scaled otherwise than the training data when they were "
                "prepared: prepare them without scaling"
            )
        return data

    def equals(self, other: Scaling) -> bool:
        """Whether both scale alike."""
        if (self.shift is None) != (other.shift is None):
            return False
        same_shift = self.shift is None or np.array_equal(self.shift, other.shift)  # type: ignore[arg-type]
        return same_shift and np.array_equal(self.factor, other.factor)


def _with_values(X: Any, values: NDArray[Any]) -> sparse.csr_array:
    """A sparse matrix with other values in the same places."""
    return sparse.csr_array((values, X.indices, X.indptr), shape=X.shape)
