"""What is known of partitions where they are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rankplug.data import RankingData
from rankplug.exceptions import DataError

__all__ = ["Facts", "facts_of", "require_same_features"]


@dataclass(frozen=True)
class Facts:
    """Of one partition.

    Attributes
    ----------
    n_samples, n_queries, n_features : int
    feature_names : tuple of str or None
    weighted : bool
    has_pairs : bool
        Of any weight.
    has_counted_pairs : bool
        Of positive weight.
    """

    n_samples: int
    n_queries: int
    n_features: int
    feature_names: tuple[str, ...] | None
    weighted: bool
    has_pairs: bool
    has_counted_pairs: bool


def facts_of(data: RankingData | None) -> Facts | None:
    """A task: the facts of a partition, None if it has no rows."""
    if data is None:
        return None
    counted = _has_pairs(data)
    return Facts(
        data.n_samples,
        data.n_queries,
        data.n_features,
        data.feature_names,
        data.query_weight is not None,
        counted or _has_pairs(replace(data, query_weight=None)),
        counted,
    )


def require_same_features(facts: Sequence[Facts]) -> None:
    """Raise `DataError` if the partitions do not have the same features, in the same order."""
    first = facts[0]
    for number, one in enumerate(facts):
        if (one.n_features, one.feature_names) != (first.n_features, first.feature_names):
            raise DataError(
                f"partition {number} has {_described(one)}, the first one {_described(first)}: "
                "give all partitions the same columns in the same order"
            )
        if one.weighted != first.weighted:
            raise DataError(f"partition {number} and the first one are not both weighted")


def _described(facts: Facts) -> str:
    names = "" if facts.feature_names is None else f" ({', '.join(facts.feature_names[:5])}, ...)"
    return f"{facts.n_features} features{names}"


def _has_pairs(data: RankingData) -> bool:
    try:
        data.require_pairs()
    except DataError:
        return False
    return True
