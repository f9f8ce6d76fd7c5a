"""What trials train on and what they are scored by; no query is ever divided."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankplug.data import LabelRankingData, RankingData, ScaleName
from rankplug.exceptions import DataError, ParameterError
from rankplug.models import scaling_for
from rankplug.parameters import Integer
from rankplug.solver import Data

__all__ = ["Fold", "make_folds"]


@dataclass(frozen=True, eq=False)
class Fold:
    """Two parts without a common query, both scaled as the first one asks for."""

    train: Data
    held_out: Data


def make_folds(
    data: Data, valid: Data | None, n_folds: int, seed: int, scale: ScaleName
) -> tuple[Fold, ...]:
    """The one fold of `data` and `valid`, or `n_folds` of `data` alone.

    Queries are dealt out at random; those without a preference pair, which can neither be
    learnt from nor be scored by most metrics, come last, so that every fold has its share of
    the others.

    Raises
    ------
    DataError
        If fewer queries than folds have a preference pair.
    """
    if valid is not None:
        return (_scaled(data, valid, scale),)
    if not Integer(2).accepts(n_folds):
        raise ParameterError(f"folds={n_folds!r} must be {Integer(2)}, or give valid data")
    useful = _useful(data)
    if useful.sum() < n_folds:
        raise DataError(
            f"{_units(data)} cannot be split into {n_folds} folds: only {useful.sum()} of "
            f"{len(useful)} have a preference pair; ask for fewer folds or give valid data"
        )
    order = np.random.default_rng(seed).permutation(len(useful))
    order = np.concatenate([order[useful[order]], order[~useful[order]]])
    fold_of = np.empty(len(useful), dtype=np.int64)
    fold_of[order] = np.arange(len(useful)) % n_folds
    return tuple(
        _scaled(_take(data, fold_of != number), _take(data, fold_of == number), scale)
        for number in range(n_folds)
    )


def _scaled(train: Data, held_out: Data, scale: ScaleName) -> Fold:
    scaling = scaling_for(train, scale, held_out)
    if scaling is None:
        return Fold(train, held_out)
    return Fold(scaling.of(train), scaling.of(held_out))


def _useful(data: Data) -> NDArray[np.bool_]:
    """Which queries or instances have a pair to learn from."""
    useful = data.pair_counts > 0
    if isinstance(data, RankingData) and data.query_weight is not None:
        useful &= data.query_weight > 0
    return useful


def _units(data: Data) -> str:
    return "queries" if isinstance(data, RankingData) else "instances"


def _take(data: Data, chosen: NDArray[np.bool_]) -> Data:
    if isinstance(data, RankingData):
        return data.take_queries(np.flatnonzero(chosen))
    return LabelRankingData(data.X[chosen], data.relevance[chosen], data.labels, data.feature_names)
