"""`LabelRankingData`: instances with a relevance for every label, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug.data.arrays import Matrix, check_features, stack_rows, take_rows
from rankplug.data.base import PreferenceData, Task
from rankplug.data.categories import Categories
from rankplug.data.preferences import read_preferences
from rankplug.exceptions import DataError


@dataclass(frozen=True, eq=False, repr=False)
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
    zero_based : bool
        Whether the indices of the svmlight text that they were read from begin at 0.
    """

    task: ClassVar[Task] = "label-ranking"
    unit: ClassVar[str] = "instances"

    X: Matrix
    relevance: NDArray[np.float64]
    labels: NDArray[Any]
    feature_names: tuple[str, ...] | None = None
    zero_based: bool = False
    categories: Categories = field(default_factory=dict)

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        Y: Any,
        *,
        labels: Sequence[Any] | NDArray[Any] | None = None,
        ranks: bool | None = None,
        orders: bool | None = None,
        feature_names: Sequence[str] | None = None,
        categories: Categories | None = None,
        category_numbers: bool = False,
    ) -> LabelRankingData:
        """Check the arrays.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
            Features; they may be missing (NaN, or null in a table), for solvers that take that.
        Y : array-like of shape (n_samples, n_labels) or (n_samples,)
            Relevance of each label (NaN: not compared), or one class per instance, which
            makes that class relevant (1) and every other one not (0); or orders of names: texts
            such as ``"a>b=c"``, or columns, and lists, with the names on each place, the best
            first. Labels that an order does not name are not compared; places may be empty.
        labels : sequence, optional
            Names of the columns of a two-dimensional `Y`.
        ranks : bool, optional
            Whether a two-dimensional `Y` holds ranks from 1, the best; relevance is then the number
            of labels minus the rank. If it is not said, `Y` is relevance, and a `DataWarning` tells
            when it looks like ranks.
        orders : bool, optional
            Whether `Y` holds orders of names. If it is not said, texts that all have the form
            ``a>b`` do, and columns of texts.
        feature_names : sequence of str, optional
        categories, category_numbers
            As of `RankingData.from_arrays`.

        Raises
        ------
        DataError
            If lengths differ or values are infinite.
        """
        matrix, names, has_missing, found = check_features(
            X, feature_names, categories, category_numbers=category_numbers
        )
        relevance, label_array, _ = read_preferences(Y, labels, ranks=ranks, orders=orders)
        if relevance.shape[0] != matrix.shape[0]:
            raise DataError(f"X has {matrix.shape[0]} rows but Y has {relevance.shape[0]}")
        data = cls(matrix, relevance, label_array, names, categories=found)
        return data.noting_missing(has_missing)

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
        cls._same_categories(parts)
        relevance = np.concatenate([part.relevance for part in parts])
        return replace(parts[0], X=X, relevance=relevance)._noting_parts(parts)
