"""Interfaces: `Shards`, those of a data set, and `RemoteRankingData`, whose rows are elsewhere.

Solvers see data through them, wherever the rows are: in this process, mapped from a file, or on
the workers of a cluster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankplug.shards.reductions import Reduction
from rankplug.shards.weighting import UNIFORM, PairWeighting

T = TypeVar("T")

# Rows that estimate a Hessian. Fewer make a worse preconditioner, more take longer than the passes
# that they save. Numbers of passes are those of tree-tron on 120,000 x 136 features, C=1e-5.
_SAMPLE_ROWS_PER_COLUMN = 150
"""10 rows a column: 26 passes; 30: 18; 150: 13; 300: 13."""
_LARGEST_SAMPLE = 0.5
"""Share of the rows. On ClueWeb09, which is small, half of them take 13 passes, a tenth 20."""
_SAMPLE_ROWS = 5000
"""At least, however few columns: as many rows cost next to nothing beside a pass."""


class Shards(ABC):
    """The shards of a data set, wherever they are, and somebody to work on them.

    All work is an operation: a method of `Shard` and its arguments, which are the same for every
    shard. So shards may live in other processes, as long as operations can be sent to them.

    Attributes
    ----------
    n_columns : int
        Length of a weight vector.
    n_rows : int
        Rows of all shards.
    n_elements : int
        Elements of the features that a product with them reads, of all shards.
    passes_per_product : int
        Reads of the features that a Hessian product takes: 1 where they are fused.
    has_gram : bool
        Whether the Hessian can be estimated as a matrix.
    picks_rows : bool
        Whether products with few of the rows cost less, and steps change the pairs of few.
    rounding : float
        Of a Hessian product, relative to its norm.
    far : bool
        Whether each question costs so much time that an answer not needed costs less.
    """

    n_columns: int
    n_rows: int
    n_elements: int
    passes_per_product: int
    has_gram: bool
    picks_rows: bool = False
    rounding: float = float(np.finfo(np.float32).eps)
    far: bool

    @abstractmethod
    def apply(self, operation: Callable[..., None], *arguments: Any) -> None:
        """Do something to every shard."""

    @abstractmethod
    def sum(self, operation: Callable[..., T], *arguments: Any) -> T:
        """Sum of what an operation returns, always added in the order of the shards."""

    def at_work(self) -> AbstractContextManager[None]:
        """While a solver works on the shards, other threads are not to take their cores."""
        return nullcontext()

    @property
    def sample_fraction(self) -> float:
        """The fraction of the rows that estimates a Hessian well."""
        n_rows = self.n_rows
        per_column = _SAMPLE_ROWS_PER_COLUMN * self.n_columns
        enough = max(_SAMPLE_ROWS, min(_LARGEST_SAMPLE * n_rows, per_column))
        return min(1.0, enough / n_rows)


class RemoteRankingData(ABC):
    """Query-document data that are somewhere else, such as on the workers of a cluster.

    Solvers that work over shards (`SolverTags.distributed`) take them in place of `RankingData`.

    Attributes
    ----------
    n_samples, n_features, n_queries : int
        Of all rows, wherever they are.
    feature_names : tuple of str or None
    has_missing : bool
        Whether a feature of some row is missing (NaN).
    categories : mapping of int to tuple
        Of features, as of `RankingData`.
    query_column : str or None
        The column that held the query ids, if it had a name.
    weighs_documents : bool
        Whether rows have weights.
    n_labels : None
        Rows themselves are ranked.
    """

    n_labels: None = None
    n_samples: int
    n_features: int
    n_queries: int
    feature_names: tuple[str, ...] | None
    has_missing: bool = False
    categories: Mapping[int, tuple[Any, ...]] = MappingProxyType({})
    query_column: str | None = None
    weighs_documents: bool = False

    @abstractmethod
    def require_pairs(self) -> None:
        """Raise `DataError` if no query of positive weight has two rows of different relevance."""

    @abstractmethod
    def count_missing(self) -> NDArray[np.int64]:
        """Number of rows in which each feature is missing, of shape (n_features,)."""

    @abstractmethod
    def largest_squared_norm(self) -> float:
        """``max_i |x_i|^2``; 1 if all features are 0."""

    @abstractmethod
    def suitable_solvers(self) -> list[str]:
        """Names of the registered solvers that take such data."""

    @abstractmethod
    def open_pairs(
        self, reduction: Reduction, n_threads: int | None, weighting: PairWeighting = UNIFORM
    ) -> AbstractContextManager[Shards]:
        """The shards, each pair with its weight; see `rankplug.objectives.open_pairs`."""
