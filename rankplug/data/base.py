"""`PreferenceData`: the interface of the data of both tasks, examples with items to be ranked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug.data.arrays import Matrix, holds_nan
from rankplug.data.categories import Categories
from rankplug.data.missing import count_missing
from rankplug.data.scaling import Scaling
from rankplug.display import html_facts
from rankplug.exceptions import DataError

Task: TypeAlias = Literal["query-document", "label-ranking"]


class PreferenceData(ABC):
    """Examples, each with items of different relevance: what pairs are made of.

    In `RankingData` an example is a query, its items are rows of features. In `LabelRankingData`
    an example is a row, an instance, and its items are the labels. What solvers, tuning and
    reports do with either is said in these words:

    1. `take` and `stack` divide and join data by whole examples, for folds and partitions;
    2. `weights`, `row_query` and `sizes` say what belongs together and how much it counts;
    3. `pair_counts` and `require_pairs` say what there is to learn.

    Attributes
    ----------
    task : "query-document" or "label-ranking"
    unit : str
        What examples are called: "queries" or "instances".
    X : ndarray or csr_array of shape (n_samples, n_features)
        NaN is a value that is missing; infinity there is none.
    relevance : float64 ndarray of shape (n_samples,) or (n_samples, n_labels)
    feature_names : tuple of str or None
    labels : ndarray of shape (n_labels,) or None
        Names of the labels; None if rows themselves are ranked.
    scaling : Scaling or None
        How `X` was scaled when the data were prepared on disk.
    categories : mapping of int to tuple
        By the number of a column of `X`, the categories of which it holds the codes 1, 2, ...
    """

    task: ClassVar[Task]
    unit: ClassVar[str]
    X: Matrix
    relevance: NDArray[np.float64]
    feature_names: tuple[str, ...] | None
    labels: NDArray[Any] | None = None
    scaling: Scaling | None = None
    categories: Categories = MappingProxyType({})

    def _facts(self) -> dict[str, Any]:
        """What a table of the data says of them, without a look at their features."""
        sizes, known = self.sizes, self.relevance[~np.isnan(self.relevance)]
        matrix = "dense" if isinstance(self.X, np.ndarray) else "sparse"
        kinds = [f"{matrix}, {self.X.dtype}"]
        kinds += [f"{len(self.categories)} categorical"] if self.categories else []
        kinds += ["scaled"] if self.scaling is not None else []
        return {
            "rows": f"{self.n_samples:,}",
            self.unit: f"{self.n_examples:,}",
            "labels": self.n_labels,
            "features": f"{self.n_features:,} ({', '.join(kinds)})",
            "rows of a query": (
                f"{sizes.min():,} to {sizes.max():,}, {sizes.mean():.4g} on average"
                if self.n_labels is None and len(sizes)
                else None
            ),
            "relevance": f"{known.min():g} to {known.max():g}" if known.size else None,
        }

    def __repr__(self) -> str:
        facts = self._facts()
        counts = [f"{facts[name]} {name}" for name in ("rows", self.unit, "labels") if facts[name]]
        number, _, kinds = facts["features"].partition(" ")
        return f"<{type(self).__name__}: {', '.join(counts)}, {number} features {kinds}>"

    def _repr_html_(self) -> str:
        return html_facts(type(self).__name__, self._facts())

    @property
    def n_samples(self) -> int:
        """Number of rows of `X`."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of `X`."""
        return int(self.X.shape[1])

    @cached_property
    def has_missing(self) -> bool:
        """Whether a feature of some row is missing (NaN); found out once."""
        return holds_nan(self.X)

    def count_missing(self) -> NDArray[np.int64]:
        """Number of rows in which each feature is missing, of shape (n_features,)."""
        if not self.has_missing:
            return np.zeros(self.n_features, dtype=np.int64)
        return count_missing(self.X)

    def noting_missing(self, known: bool) -> Self:
        """These data, which need not look again whether features are missing."""
        vars(self)["has_missing"] = known
        return self

    def with_facts(self, **facts: Any) -> Self:
        """These data with other names, ids, weights or the like; what `X` holds stays known."""
        changed: Self = replace(cast(Any, self), **facts)
        return changed._noting_parts([self])

    def _noting_parts(self, parts: Sequence[PreferenceData]) -> Self:
        """These data, made of the rows of some parts: missing is what is known to be in any."""
        known = {vars(part).get("has_missing") for part in parts}
        return self if known - {False} == {None} else self.noting_missing(True in known)

    @property
    def n_labels(self) -> int | None:
        """Number of labels; None if rows themselves are ranked."""
        return None

    @property
    def weighs_documents(self) -> bool:
        """Whether single items of examples have weights of their own."""
        return False

    @property
    @abstractmethod
    def n_examples(self) -> int:
        """Number of queries or instances."""

    @property
    @abstractmethod
    def example_ids(self) -> NDArray[Any]:
        """The name of each example, of shape (n_examples,)."""

    @property
    @abstractmethod
    def sizes(self) -> NDArray[np.int64]:
        """Number of items of each example, of shape (n_examples,)."""

    @property
    @abstractmethod
    def weights(self) -> NDArray[np.float64]:
        """How much the pairs of each example count, of shape (n_examples,)."""

    @property
    @abstractmethod
    def row_query(self) -> NDArray[np.int64]:
        """The position of the example of each row, of shape (n_samples,)."""

    @property
    @abstractmethod
    def structure(self) -> tuple[NDArray[Any], ...]:
        """The arrays that, beside features and relevance, decide what is learnt."""

    @property
    @abstractmethod
    def pair_counts(self) -> NDArray[np.int64]:
        """Number of pairs of different relevance of each example, of shape (n_examples,)."""

    @abstractmethod
    def require_pairs(self) -> None:
        """Raise `DataError` if there is no pair of different relevance that counts."""

    @abstractmethod
    def take(self, examples: ArrayLike) -> Self:
        """The data of some examples; features of consecutive ones are not copied.

        Parameters
        ----------
        examples : integer array-like of shape (n_taken,)
            Their positions, in the order wanted.

        Raises
        ------
        DataError
            If there is no such example or none is chosen.
        """

    @classmethod
    @abstractmethod
    def stack(cls, parts: Sequence[Self]) -> Self:
        """Several data sets of the same features, one after the other."""

    @staticmethod
    def _same_categories(parts: Sequence[PreferenceData]) -> Categories:
        """The categories of all parts; raises `DataError` if they differ."""
        if any(dict(part.categories) != dict(parts[0].categories) for part in parts):
            raise DataError(
                "the parts have different categories: read them with those of the first one, as "
                "read_data(..., like=train) does"
            )
        return parts[0].categories

    def _positions(self, examples: ArrayLike) -> NDArray[np.int64]:
        """The positions of chosen examples, checked."""
        chosen = np.asarray(examples)
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or len(chosen) == 0:
            raise DataError(f"{self.unit} must be a non-empty list of positions (integers)")
        outside = chosen[(chosen < 0) | (chosen >= self.n_examples)]
        if outside.size:
            one = {"queries": "query", "instances": "instance"}[self.unit]
            raise DataError(f"no {one} at position {outside[0]}: there are {self.n_examples}")
        return chosen
