"""`LabelRankingData`: instances with a relevance for every label, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug.data import tables
from rankplug.data.arrays import (
    Matrix,
    matrix_with_holes,
    plain_array,
    real_array,
    stack_rows,
    take_rows,
)
from rankplug.data.base import PreferenceData, Task
from rankplug.data.queries import integers_or_strings
from rankplug.exceptions import DataError, DataWarning, warn_caller


@dataclass(frozen=True, eq=False)
class LabelRankingData(PreferenceData):
    """Instances, each with a relevance for every label.

    Made by `from_arrays`; the constructor itself checks nothing.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features), float32 or float64
    relevance : float64 ndarray of shape (n_samples, n_labels)
        The higher, the better; NaN means that the label is not compared for the instance.
    labels : ndarray of shape (n_labels,)
        Names of the labels; class values for multiclass data, else 0, 1, ...
    feature_names : tuple of str or None
    """

    task: ClassVar[Task] = "label-ranking"
    unit: ClassVar[str] = "instances"

    X: Matrix
    relevance: NDArray[np.float64]
    labels: NDArray[Any]
    feature_names: tuple[str, ...] | None = None

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        Y: Any,
        *,
        labels: Sequence[Any] | NDArray[Any] | None = None,
        ranks: bool | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> LabelRankingData:
        """Check the arrays.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
            Features; they may be missing (NaN, or null in a table), for solvers that take that.
        Y : array-like of shape (n_samples, n_labels) or (n_samples,)
            Relevance of each label (NaN: not compared), or one class per instance, which
            makes that class relevant (1) and every other one not (0).
        labels : sequence, optional
            Names of the columns of a two-dimensional `Y`.
        ranks : bool, optional
            Whether a two-dimensional `Y` holds ranks from 1, the best; relevance is then the number
            of labels minus the rank. If it is not said, `Y` is relevance, and a `DataWarning` tells
            when it looks like ranks.
        feature_names : sequence of str, optional

        Raises
        ------
        DataError
            If lengths differ or values are infinite.
        """
        matrix, names, has_missing = matrix_with_holes(X, feature_names)
        n_samples = matrix.shape[0]
        if tables.is_table(Y):
            labels = tables.column_names(Y) if labels is None else labels
            Y = tables.to_matrix(Y)
        values = plain_array(Y, "relevance Y")
        if values.ndim == 1:
            if ranks:
                raise DataError("ranks=True needs a Y with a column for each label, not classes")
            relevance, label_array = _one_hot(values)
        elif values.ndim == 2:
            relevance = real_array(values, "relevance Y", allow_nan=True)
            if ranks:
                relevance = relevance_of_ranks(relevance, "Y", range(relevance.shape[1]))
            elif ranks is None and _look_like_ranks(relevance):
                warn_caller(
                    f"each row of Y holds the numbers from 1 to {relevance.shape[1]}, as ranks do, "
                    f"and is taken as relevance: {relevance.shape[1]} is the best; if 1 is, pass "
                    "ranks=True, else ranks=False",
                    DataWarning,
                )
            label_array = np.arange(values.shape[1]) if labels is None else np.asarray(labels)
        else:
            raise DataError(f"relevance Y has {values.ndim} dimensions; it needs one or two")
        if relevance.shape[0] != n_samples:
            raise DataError(f"X has {n_samples} rows but Y has {relevance.shape[0]}")
        if len(label_array) != relevance.shape[1]:
            raise DataError(
                f"Y has {relevance.shape[1]} columns but {len(label_array)} labels are named"
            )
        return cls(matrix, relevance, label_array, names).noting_missing(has_missing)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.relevance.shape[1])

    @property
    def n_examples(self) -> int:
        """Number of instances."""
        return self.n_samples

    @property
    def example_ids(self) -> NDArray[np.int64]:
        """The positions of the instances, which have no other names."""
        return np.arange(self.n_samples)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of labels of each instance, of shape (n_samples,)."""
        return np.full(self.n_samples, self.n_labels)

    @property
    def weights(self) -> NDArray[np.float64]:
        """One for each instance."""
        return np.ones(self.n_samples)

    @property
    def row_query(self) -> NDArray[np.int64]:
        """The position of each row: every row is an example of its own."""
        return np.arange(self.n_samples)

    @property
    def structure(self) -> tuple[NDArray[Any], ...]:
        """Nothing: rows are examples."""
        return ()

    @cached_property
    def pair_counts(self) -> NDArray[np.int64]:
        """Number of pairs of labels of different relevance, of each instance."""
        ordered = np.sort(self.relevance, axis=1)  # NaN last
        position = np.arange(self.n_labels)
        compared = ~np.isnan(ordered)
        new_run = np.ones(ordered.shape, dtype=bool)
        new_run[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        run_start = np.maximum.accumulate(np.where(new_run, position, 0), axis=1)
        # A label beats those that stand before the run of its equals.
        counts: NDArray[np.int64] = np.where(compared, run_start, 0).sum(axis=1)
        return counts

    def require_pairs(self) -> None:
        """Raise `DataError` if no instance has two labels of different relevance."""
        filled = self.relevance
        high = np.where(np.isnan(filled), -np.inf, filled).max(axis=1, initial=-np.inf)
        low = np.where(np.isnan(filled), np.inf, filled).min(axis=1, initial=np.inf)
        if not np.any(high > low):
            raise DataError(
                f"no preference pair: for each of the {self.n_samples} instances all labels have "
                "the same relevance, so there is nothing to learn; check Y"
            )

    def take(self, examples: ArrayLike) -> LabelRankingData:
        """The data of some instances, in the given order."""
        chosen = self._positions(examples)
        taken = replace(self, X=take_rows(self.X, chosen), relevance=self.relevance[chosen])
        return taken if self.has_missing else taken.noting_missing(False)

    @classmethod
    def stack(cls, parts: Sequence[LabelRankingData]) -> LabelRankingData:
        """The instances of several data sets with the same labels, one after the other."""
        X = stack_rows([part.X for part in parts])
        return replace(parts[0], X=X, relevance=np.concatenate([part.relevance for part in parts]))


def relevance_of_ranks(
    ranks: NDArray[np.float64], what: str, names: Sequence[Any]
) -> NDArray[np.float64]:
    """The relevance of ranks of shape (n_samples, n_labels) from 1, the best; NaN stays.

    Raises
    ------
    DataError
        If a rank is not between 1 and the number of labels.
    """
    n_labels = ranks.shape[1]
    wrong = np.argwhere((ranks < 1) | (ranks > n_labels))
    if wrong.size:
        row, label = wrong[0]
        raise DataError(
            f"{what}, row {row}, column {names[label]!r}: {ranks[row, label]:g} is not a rank "
            f"from 1 to {n_labels}; leave out ranks=True if the columns hold relevance"
        )
    relevance: NDArray[np.float64] = n_labels - ranks
    return relevance


def _look_like_ranks(values: NDArray[np.float64]) -> bool:
    """Whether each row is a permutation of 1, 2, ..., k."""
    k = values.shape[1]
    return k > 1 and bool(np.all(np.sort(values, axis=1) == np.arange(1.0, k + 1)))


def _one_hot(classes: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[Any]]:
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise DataError(f"class is missing (NaN) at row {np.flatnonzero(~np.isfinite(classes))[0]}")
    if classes.dtype.kind in "OT":
        classes = integers_or_strings(classes.astype(object), "class")
    if classes.dtype.kind not in "iufbU":
        raise DataError(
            f"classes must be integers, floats, booleans or strings, not of type {classes.dtype}"
        )
    labels, inverse = np.unique(classes, return_inverse=True)
    relevance = np.zeros((len(classes), len(labels)))
    relevance[np.arange(len(classes)), inverse] = 1.0
    return relevance, labels
