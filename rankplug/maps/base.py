"""The base classes of feature maps: what is fitted to data, and what then maps features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankplug.data import Block, JoinedMatrix, Matrix, PreferenceData, Task, as_matrix, to_dense
from rankplug.exceptions import DataError
from rankplug.models import SHAPES, Contributions
from rankplug.parameters import Declared, Positive

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


_BLOCK_ELEMENTS = 1 << 22  # of mapped rows: 32 MB


@dataclass(frozen=True)
class Fitting:
    """What a map is fitted with.

    Attributes
    ----------
    data : RankingData or LabelRankingData
    valid : data of the same kind, or None
        For maps that stop early.
    rng : Generator
    time_limit : float or None
        Seconds after which to stop with what was reached.
    """

    data: PreferenceData
    valid: PreferenceData | None
    rng: np.random.Generator
    time_limit: float | None


class FittedMap(ABC):
    """Makes new columns from features; nothing in it changes any more.

    Attributes
    ----------
    kind : str
        The name of the map that was fitted.
    n_features : int
        Columns that it takes.
    n_columns : int
        Columns that it makes.
    """

    kind: ClassVar[str]
    requires: tuple[str, ...] = ()

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features of a row."""

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Number of columns of a mapped row."""

    @property
    def takes_missing_values(self) -> bool:
        """Whether features may be missing (NaN)."""
        return False

    def transform(self, X: Any) -> Block | JoinedMatrix:
        """The mapped rows of `X`: dense, sparse, or one-hot.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)

        Raises
        ------
        DataError
            If the features do not fit, are not finite, or missing where the map has no use for
            that.
        """
        matrix, _ = as_matrix(X, allow_missing=self.takes_missing_values)
        if matrix.shape[1] != self.n_features:
            raise DataError(f"X has {matrix.shape[1]} features, the map takes {self.n_features}")
        return self._transform(matrix)

    @abstractmethod
    def _transform(self, X: Matrix) -> Block | JoinedMatrix:
        """Map valid features."""

    @abstractmethod
    def column_names(self, names: Sequence[str]) -> list[str]:
        """Names for the columns, from those of the features."""

    def column_features(self) -> NDArray[np.int64] | None:
        """The one feature that each column is a function of; None if there are several."""
        return None

    def contributions(self, X: Matrix, weights: NDArray[np.float64]) -> Contributions | None:
        """What the features of valid rows add to ``transform(X) @ weights``, if it can be told.

        By default it can if each column is a function of one feature.

        Parameters
        ----------
        X : ndarray or csr_array of shape (n_samples, n_features)
        weights : float64 ndarray of shape (n_columns,)
        """
        origins = self.column_features()
        if origins is None:
            return None
        step = max(1, _BLOCK_ELEMENTS // self.n_columns)
        blocks = []
        for start in range(0, X.shape[0], step):
            columns = to_dense(self._transform(X[start : start + step])) * weights
            found = Contributions(columns, np.zeros(len(columns)), SHAPES)
            blocks.append(found.to_features(origins, self.n_features))
        return Contributions.stacked(blocks)

    @abstractmethod
    def _write(self, folder: Path) -> dict[str, Any]:
        """Write files into an empty folder; return what is to be kept as JSON beside them."""

    @classmethod
    @abstractmethod
    def _read(cls, folder: Path, header: Mapping[str, Any]) -> Self:
        """Read them again; everything is checked, as files may come from strangers."""


class FeatureMap(Declared, ABC):
    """Base class of feature maps: `fit` finds what `FittedMap.transform` needs.

    A subclass names itself, declares its parameters as lines of its body, says by which class it
    is read again (`fitted`), and fits in `_fit`. It is announced to `make_map` by an entry point
    of the group ``rankplug.maps``.

    Attributes
    ----------
    name : str
        That by which the map is registered.
    fitted : type of FittedMap
    summary : str
        What columns it makes, in one line.
    tasks : tuple of "query-document" and "label-ranking"
    requires : tuple of str
        Modules it needs beyond rankplug's own dependencies.
    weight : float, default=1.0
        Length of the rows of its columns beside those of other maps.
    """

    name: ClassVar[str]
    fitted: ClassVar[type[FittedMap]]
    summary: ClassVar[str]
    tasks: ClassVar[tuple[Task, ...]] = ("query-document", "label-ranking")
    requires: ClassVar[tuple[str, ...]] = ()

    weight: Positive = 1.0

    def takes_missing_values(self) -> bool:
        """Whether features may be missing (NaN) with these parameters."""
        return False

    def check(self, data: PreferenceData) -> None:
        """Raise what `fit` would raise about the parameters and the kind of data."""
        self.check_values()
        if data.task not in self.tasks:
            raise DataError(
                f"the map {self.name!r} is for {', '.join(self.tasks)}, not {data.task}"
            )

    def tuning_space(self, data: PreferenceData | None = None) -> dict[str, BaseDistribution]:
        """The parameters worth tuning, each with its Optuna distribution."""
        return {}

    def fit(
        self,
        data: PreferenceData,
        *,
        valid: PreferenceData | None = None,
        random_state: int | np.random.Generator | None = None,
        time_limit: float | None = None,
    ) -> FittedMap:
        """Fit to training data.

        Parameters
        ----------
        data : RankingData or LabelRankingData
        valid : data of the same kind, optional
            For maps that stop early.
        random_state : int, Generator or None
        time_limit : float, optional
            Seconds after which to stop with what was reached.

        Raises
        ------
        ParameterError, DataError
            If a parameter has a value it cannot have, or the data do not suit the map.
        """
        self.check(data)
        rng = np.random.default_rng(random_state)
        return self._fit(Fitting(data, valid, rng, time_limit))

    @abstractmethod
    def _fit(self, fitting: Fitting) -> FittedMap:
        """Fit; parameters and the kind of data are valid."""
