"""Cross-validation over all of a recipe's data, divided by query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.data import LabelRankingData, Matrix, RankingData
from rankplug.exceptions import DataError
from rankplug.runner.splits import Splits
from rankplug.solver import Data

__all__ = ["Folds", "make_folds"]


@dataclass(frozen=True, eq=False)
class Folds:
    """All data, and the fold of each query, or of each instance of label ranking.

    Attributes
    ----------
    data : RankingData or LabelRankingData
    fold : int64 ndarray of shape (n_queries,) or (n_samples,)
        From 0 to ``n - 1``.
    n : int
    validated : bool
        Whether the fold after the tested one is validation data.
    """

    data: Data
    fold: NDArray[np.int64]
    n: int
    validated: bool

    def splits(self, tested: int) -> dict[str, Data]:
        """The data where one fold is the test set; "valid" if there is one."""
        parts = {"test": self.fold == tested}
        if self.validated:
            parts["valid"] = self.fold == (tested + 1) % self.n
        train = ~np.logical_or.reduce(list(parts.values()))
        ordered = {"train": train, **dict(reversed(parts.items()))}
        return {split: _take(self.data, np.flatnonzero(part)) for split, part in ordered.items()}

    def tested(self) -> Data:
        """The test sets of all folds, one after the other."""
        return _take(self.data, np.argsort(self.fold, kind="stable"))


def make_folds(splits: Splits, n: int, seed: int) -> Folds:
    """Put all splits together and divide them at random.

    Queries with the same id stay in one fold, whatever split they come from; they are not
    joined, because files may count their queries anew.

    Raises
    ------
    DataError
        If there are too few queries.
    """
    validated = "valid" in splits
    data, groups = _pooled(_scaled_alike(splits))
    names, group = np.unique(groups, return_inverse=True)
    if n > len(names):
        what = "queries" if isinstance(data, RankingData) else "instances"
        raise DataError(
            f"{n} folds need {n} {what} or more, but there are {len(names)}: use fewer folds, or "
            "compare by seeds"
        )
    if n == 2 and validated:
        raise DataError(
            "2 folds leave nothing for training, because the data have a validation set: use 3 "
            "folds or more, or leave out the validation set"
        )
    fold = np.random.default_rng(seed).permutation(len(names))[group] % n
    return Folds(data, fold, n, validated)


def _scaled_alike(splits: Splits) -> Splits:
    """The splits, all scaled as the training set was when it was prepared."""
    scalings = [data.scaling for data in splits.values() if isinstance(data, RankingData)]
    if not any(scalings):
        return splits
    if scalings[0] is None:
        raise DataError(
            "folds over all data need splits that are scaled alike, but the training set was not "
            "scaled when it was prepared and another one was"
        )
    return {split: scalings[0].of(data) for split, data in splits.items()}


def _pooled(splits: Splits) -> tuple[Data, NDArray[Any]]:
    """All rows, and what must not be divided."""
    first = next(iter(splits.values()))
    X = _stacked([part.X for part in splits.values()])
    relevance = np.concatenate([part.relevance for part in splits.values()])
    if isinstance(first, LabelRankingData):
        return replace(first, X=X, relevance=relevance), np.arange(len(relevance))
    parts = {split: data for split, data in splits.items() if isinstance(data, RankingData)}
    sizes = [size for data in parts.values() for size in np.diff(data.query_ptr)]
    query_ptr = np.concatenate(([0], np.cumsum(sizes)))
    ids = np.concatenate([data.query_ids for data in parts.values()])
    names = ids
    if len(np.unique(ids)) < len(ids):
        names = np.array([f"{split}/{one}" for split in parts for one in parts[split].query_ids])
    weight = _weights(list(parts.values()))
    return RankingData(
        X, relevance, query_ptr, names, weight, first.feature_names, None, first.scaling
    ), ids


def _weights(parts: Sequence[RankingData]) -> NDArray[np.float64] | None:
    if all(data.query_weight is None for data in parts):
        return None
    weights = [
        np.ones(data.n_queries) if data.query_weight is None else data.query_weight
        for data in parts
    ]
    return np.concatenate(weights)


def _stacked(matrices: list[Matrix]) -> Matrix:
    if any(sparse.issparse(matrix) for matrix in matrices):
        return sparse.csr_array(sparse.vstack(matrices, format="csr"))
    return np.concatenate(matrices)


def _take(data: Data, chosen: NDArray[np.int64]) -> Data:
    if isinstance(data, LabelRankingData):
        return replace(data, X=data.X[chosen], relevance=data.relevance[chosen])
    return data.take_queries(chosen)
