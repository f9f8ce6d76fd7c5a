"""Maps whose columns are functions of one feature each: the features, and linear splines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import Block, Matrix, PreferenceData, to_dense
from rankplug.exceptions import DataError, ModelFormatError
from rankplug.maps import FeatureMap, FittedMap, Fitting
from rankplug.models import SHAPES, Contributions
from rankplug.parameters import Integer, Positive
from rankplug.system.files import load_arrays, load_numbers

_FILE = "map.npz"
_ROWS = 1024  # whose contributions are found at once: they stay in the processor's cache
_BESIDE_LEAVES = 0.3
"""Of additive parts beside leaves: over the validation sets of seven public and synthetic sets the
mean NDCG@10 with identity is .632 with this weight, .627 with 1 and .630 without it."""
_FAR = 10.0  # deviations from 0: the mean of a column that lies far from it
_SAMPLE = 200_000  # rows that quantiles are taken from: more change no knot visibly


class FittedIdentity(FittedMap):
    """Columns ``(x - shift) factor``; of a missing value ``fill``.

    Parameters
    ----------
    shift, factor, fill : float64 ndarray of shape (n_features,)
    """

    kind = "identity"

    def __init__(
        self, shift: NDArray[np.float64], factor: NDArray[np.float64], fill: NDArray[np.float64]
    ) -> None:
        self.shift, self.factor, self.fill = shift, factor, fill

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return len(self.factor)

    @property
    def n_columns(self) -> int:
        """The same."""
        return len(self.factor)

    @property
    def takes_missing_values(self) -> bool:
        """They count as the mean."""
        return True

    def _transform(self, X: Matrix) -> Block:
        if sparse.issparse(X):
            values, columns = X.data * self.factor[X.indices], X.indices
            values = np.where(np.isnan(values), self.fill[columns], values)
            return sparse.csr_array((values, columns, X.indptr), shape=X.shape)
        columns = (X - self.shift) * self.factor
        return np.where(np.isnan(columns), self.fill, columns)

    def column_names(self, names: Sequence[str]) -> list[str]:
        """Those of the features."""
        return list(names)

    def column_features(self) -> NDArray[np.int64]:
        """Each is of its own feature."""
        return np.arange(self.n_features)

    def _write(self, folder: Path) -> dict[str, Any]:
        arrays = {"shift": self.shift, "factor": self.factor, "fill": self.fill}
        np.savez(folder / _FILE, allow_pickle=False, **arrays)
        return {}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> FittedIdentity:
        arrays = load_numbers(folder / _FILE, "shift", "factor", "fill")
        shapes = {array.shape for array in arrays.values()}
        if len(shapes) > 1 or arrays["factor"].ndim != 1:
            raise ModelFormatError(f"{folder / _FILE}: the arrays do not fit together")
        return cls(**arrays)


class IdentityMap(FeatureMap):
    """The features themselves, to standard deviation 1, so that none outweighs others.

    Constant features become 0. Dense features that lie far from 0 are shifted to mean 0, against
    rounding errors; others are not, as only differences count in a query.
    """

    name = "identity"
    fitted = FittedIdentity
    summary = "the features, each to standard deviation 1"

    weight: Positive = _BESIDE_LEAVES

    def takes_missing_values(self) -> bool:
        """They count as the mean."""
        return True

    def _fit(self, fitting: Fitting) -> FittedIdentity:
        X = fitting.data.X
        mean, deviation = _moments(X)
        factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
        far = (np.abs(mean) > _FAR * deviation) & (not sparse.issparse(X))
        shift = np.where(far, mean, 0.0)
        fill = (mean - shift) * factor
        if not (np.isfinite(shift).all() and np.isfinite(fill).all() and np.isfinite(factor).all()):
            raise DataError(
                "the features are too large or too small to be standardised: scale them"
            )
        return FittedIdentity(shift, factor, fill)


class FittedSplines(FittedMap):
    """Ramps from 0 to 1 between neighbouring knots of each feature.

    Column k of a feature is ``clip((x - t_k) / (t_(k+1) - t_k), 0, 1)``: any weights make a
    piecewise linear function with these knots, which is constant beyond the outer ones.

    Parameters
    ----------
    knots : float64 ndarray of shape (n_knots_in_all,)
        Ascending for each feature; those of the first feature, then of the second, ...
    counts : int64 ndarray of shape (n_features,)
        Number of knots of each feature; 0 or 1 make no column.
    """

    kind = "splines"

    def __init__(self, knots: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
        self.knots, self.counts = knots, counts
        ends = np.cumsum(counts)
        self._of_feature = [knots[e - n : e] for e, n in zip(ends, counts, strict=True)]

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return len(self.counts)

    @property
    def n_columns(self) -> int:
        """One for each two neighbouring knots."""
        return int(np.maximum(self.counts - 1, 0).sum())

    @property
    def takes_missing_values(self) -> bool:
        """All ramps of a missing value are 1/2."""
        return True

    def knots_of(self, feature: int) -> NDArray[np.float64]:
        """The knots of one feature, ascending."""
        return self._of_feature[feature]

    def _transform(self, X: Matrix) -> Block:
        dense = to_dense(X)
        columns = np.empty((dense.shape[0], self.n_columns))
        start = 0
        for j, knots in enumerate(self._of_feature):
            if len(knots) > 1:
                ramps = (dense[:, j, None] - knots[:-1]) / np.diff(knots)
                columns[:, start : start + len(knots) - 1] = np.clip(ramps, 0.0, 1.0)
                start += len(knots) - 1
        return np.nan_to_num(columns, copy=False, nan=0.5)

    def contributions(self, X: Matrix, weights: NDArray[np.float64]) -> Contributions:
        """The sum of a feature's weighted ramps, found by its heights at the knots."""
        heights, start = [], 0
        for knots in self._of_feature:
            end = start + max(len(knots) - 1, 0)
            heights.append(np.concatenate(([0.0], np.cumsum(weights[start:end]))))
            start = end
        values = np.zeros(X.shape)
        for first in range(0, X.shape[0], _ROWS):
            rows = slice(first, first + _ROWS)
            columns = np.ascontiguousarray(to_dense(X[rows]).T, dtype=np.float64)
            for j, (knots, of_knots) in enumerate(zip(self._of_feature, heights, strict=True)):
                if len(knots) > 1:
                    columns[j] = np.interp(columns[j], knots, of_knots)
                    np.nan_to_num(columns[j], copy=False, nan=0.5 * of_knots[-1])
                else:
                    columns[j] = 0.0
            values[rows] = columns.T
        return Contributions(values, np.zeros(len(values)), SHAPES)

    def column_names(self, names: Sequence[str]) -> list[str]:
        """Such as ``price[10..20]``."""
        return [
            f"{name}[{low:.4g}..{high:.4g}]"
            for name, knots in zip(names, self._of_feature, strict=True)
            for low, high in pairwise(knots)
        ]

    def column_features(self) -> NDArray[np.int64]:
        """The feature whose ramp it is."""
        return np.repeat(np.arange(self.n_features), np.maximum(self.counts - 1, 0))

    def _write(self, folder: Path) -> dict[str, Any]:
        np.savez(folder / _FILE, allow_pickle=False, knots=self.knots, counts=self.counts)
        return {}

    @classmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> FittedSplines:
        file = folder / _FILE
        knots = load_numbers(file, "knots")["knots"]
        counts = load_arrays(file, "counts")["counts"]
        fits = knots.ndim == 1 and counts.ndim == 1 and counts.dtype.kind == "i" and len(counts) > 0
        if not fits or counts.min() < 0 or counts.max() > len(knots) or counts.sum() != len(knots):
            raise ModelFormatError(f"{file}: the knots do not fit the features")
        first = np.cumsum(counts) - counts
        within = np.ones(len(knots), dtype=bool)
        within[first[counts > 0]] = False
        if np.any(np.diff(knots, prepend=0.0)[within] <= 0.0):
            raise ModelFormatError(f"{file}: knots must ascend")
        return cls(knots, counts)


class SplinesMap(FeatureMap):
    """A piecewise linear function of each feature: the model is additive.

    The knots are quantiles of the training rows, equal ones once. A linear ranker on these
    columns is a generalised additive model whose shape functions are fitted all at once.

    Parameters
    ----------
    n_knots : int, default=17
        Most knots of a feature; the outer ones are its least and greatest value.
    """

    name = "splines"
    fitted = FittedSplines
    summary = "piecewise linear functions of each feature, so that the model is additive"

    n_knots: Annotated[int, Integer(2, 1001)] = 17
    weight: Positive = _BESIDE_LEAVES

    def takes_missing_values(self) -> bool:
        """All ramps of a missing value are 1/2."""
        return True

    def tuning_space(self, data: PreferenceData | None = None) -> dict[str, Any]:
        """The number of knots."""
        from optuna.distributions import IntDistribution

        return {"n_knots": IntDistribution(5, 65, log=True)}

    def _fit(self, fitting: Fitting) -> FittedSplines:
        X: Any = fitting.data.X
        some = to_dense(X[:: X.shape[0] // _SAMPLE + 1]).astype(np.float64, copy=False)
        levels = np.linspace(0.0, 1.0, self.n_knots)
        knots = []
        for column in some.T:
            known = column[~np.isnan(column)]
            found = np.unique(np.quantile(known, levels)) if len(known) else np.empty(0)
            with np.errstate(over="ignore"):
                wide = np.isfinite(np.ptp(found)) if len(found) else True
            if not wide:
                raise DataError("the features are too large for knots between them: scale them")
            knots.append(found)
        counts = np.array([len(one) for one in knots], dtype=np.int64)
        if counts.max() < 2:
            raise DataError("all features are constant: splines need two values of one at least")
        return FittedSplines(np.concatenate(knots), counts)


def _moments(X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of the columns, of the values that are known."""
    n_rows = X.shape[0]
    with np.errstate(all="ignore"):
        if sparse.issparse(X):
            missing = np.bincount(X.indices[np.isnan(X.data)], minlength=X.shape[1])
            count = np.maximum(n_rows - missing, 1)
            known = sparse.csr_array((np.nan_to_num(X.data), X.indices, X.indptr), shape=X.shape)
            mean = np.asarray(known.sum(axis=0), dtype=np.float64).ravel() / count
            square = np.asarray(known.multiply(known).sum(axis=0), dtype=np.float64).ravel()
            return mean, np.sqrt(np.maximum(square / count - mean * mean, 0.0))
        known = ~np.isnan(X)
        count = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, X, 0.0).sum(axis=0, dtype=np.float64) / count
        square = np.square(np.where(known, X - mean, 0.0)).sum(axis=0, dtype=np.float64)
        deviation = np.sqrt(square / count)
        # What differs by rounding errors only is constant.
        return mean, np.where(deviation > 1e-12 * np.abs(mean), deviation, 0.0)
