"""Scaling of features: shifted and multiplied, one column like another."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data.arrays import Matrix
from rankplug.data.imputing import fill_missing
from rankplug.exceptions import DataError

D = TypeVar("D")
ScaleName: TypeAlias = Literal["none", "standard", "minmax", "maxabs"]


@dataclass(frozen=True, eq=False)
class Scaling:
    """Features become ``(X - shift) * factor``; without shift, sparse ones stay sparse.

    Attributes
    ----------
    shift : float64 ndarray of shape (n_features,) or None
    factor : float64 ndarray of shape (n_features,)
    fill : float64 ndarray of shape (n_features,) or None
        What stands for missing values (NaN) before they are scaled; None leaves them missing.
    """

    shift: NDArray[np.float64] | None
    factor: NDArray[np.float64]
    fill: NDArray[np.float64] | None = None

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
            X = X if self.fill is None else fill_missing(X, self.fill)
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
        """The data with scaled features; those that were prepared with this scaling stay so.

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
            holes = known.has_missing and self.fill is None
            scaled: D = replace(known, X=self.apply(known.X)).noting_missing(holes)
            return scaled
        if not self.equals(done):
            raise DataError(
                "these data were scaled otherwise than the training data when they were "
                "prepared: prepare them without scaling"
            )
        if self.fill is None or not known.has_missing:
            return data
        X = fill_missing(known.X, np.asarray(self.apply(self.fill[np.newaxis]))[0])
        filled: D = replace(known, X=X).noting_missing(False)
        return filled

    def equals(self, other: Scaling) -> bool:
        """Whether both scale alike, whatever stands for missing values."""
        if (self.shift is None) != (other.shift is None):
            return False
        same_shift = self.shift is None or np.array_equal(self.shift, other.shift)  # type: ignore[arg-type]
        return same_shift and np.array_equal(self.factor, other.factor)


def _with_values(X: Any, values: NDArray[Any]) -> sparse.csr_array:
    """A sparse matrix with other values in the same places."""
    return sparse.csr_array((values, X.indices, X.indptr), shape=X.shape)


def fit_scaling(X: Matrix, scale: ScaleName) -> Scaling | None:
    """How to scale features like these; constant ones keep their scale, missing values count not.

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
    blocks = (_require_dense(X, scale) for X in blocks)
    for X in blocks if scale == "standard" else _extremes(blocks):
        before = vars(scaler).copy()
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of columns without a value
            scaler.partial_fit(X)
        if scale == "standard":
            _keep_without_values(scaler, before)
    if scale == "standard":
        return _finite(Scaling(scaler.mean_, 1.0 / scaler.scale_), scaler.scale_)
    known = ~np.isnan(scaler.max_abs_ if scale == "maxabs" else scaler.data_min_)
    size = np.where(known, scaler.scale_, 1.0).astype(np.float64)
    if scale == "maxabs":
        return _finite(Scaling(None, 1.0 / size), size)
    lowest = np.where(known, scaler.data_min_, 0.0).astype(np.float64)
    return _finite(Scaling(lowest, size), size)


def _require_dense(X: Matrix, scale: ScaleName) -> Matrix:
    if sparse.issparse(X) and scale != "maxabs":
        raise DataError(f"scale: {scale} would make sparse features dense; use maxabs or none")
    return X


def _extremes(blocks: Iterable[Matrix]) -> Iterator[Matrix]:
    """Two rows, the least and the largest values of all blocks.

    scikit-learn would lose what it knows of a column where a block holds nothing but NaN.
    """
    from sklearn.utils.sparsefuncs import min_max_axis

    ends: NDArray[Any] | None = None
    for X in blocks:
        rows = X if isinstance(X, np.ndarray) else np.stack(min_max_axis(X, 0, ignore_nan=True))
        rows = rows if ends is None else np.concatenate((ends, rows))
        ends = np.stack((np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)))
    if ends is not None:
        yield ends


def _keep_without_values(scaler: Any, before: Mapping[str, Any]) -> None:
    """What was known of columns without a value in a block, of which scikit-learn makes NaN."""
    without = scaler.n_samples_seen_ == before.get("n_samples_seen_", 0)
    for name, first in (("mean_", 0.0), ("var_", 0.0), ("scale_", 1.0)):
        setattr(scaler, name, np.where(without, before.get(name, first), getattr(scaler, name)))


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
