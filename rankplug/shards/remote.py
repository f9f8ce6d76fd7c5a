"""Ranking data that are somewhere else, such as on the workers of a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from rankplug.shards.local import Shards
from rankplug.shards.reductions import Reduction

__all__ = ["RemoteRankingData"]


class RemoteRankingData(ABC):
    """Query-document data of which only sizes are known here.

    Solvers that work over shards (`SolverTags.distributed`) take them in place of `RankingData`.
    """

    feature_names: tuple[str, ...] | None
    n_labels: None = None  # rows themselves are ranked

    @property
    @abstractmethod
    def n_samples(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features of a row."""

    @property
    @abstractmethod
    def n_queries(self) -> int:
        """Number of queries."""

    @abstractmethod
    def require_pairs(self) -> None:
        """Raise `DataError` if no query of positive weight has two rows of different relevance."""

    @abstractmethod
    def largest_squared_norm(self) -> float:
        """``max_i |x_i|^2``; 1 if all features are 0."""

    @abstractmethod
    def suitable_solvers(self) -> list[str]:
        """Names of the registered solvers that take such data."""

    @abstractmethod
    def open_pairs(
        self, reduction: Reduction, n_threads: int | None
    ) -> AbstractContextManager[Shards]:
        """The shards, each pair with its weight; see `rankplug.objectives.open_pairs`."""
