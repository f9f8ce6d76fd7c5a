"""Small ranking problems on which any solver can be checked in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import LabelRankingData, RankingData
from rankplug.solver import Data, Task

__all__ = ["Problem", "make_problem", "pair_accuracy"]


@dataclass(frozen=True, eq=False)
class Problem:
    """Arrays from which data are made: ``qid`` is None for label ranking, where y is (n, k)."""

    X: Any
    y: NDArray[np.float64]
    qid: NDArray[np.int64] | None
    sample_weight: NDArray[np.float64] | None = None

    @property
    def queries(self) -> NDArray[np.int64]:
        """The query of each row; only query-document problems have it."""
        assert self.qid is not None, "this is a label-ranking problem"
        return self.qid

    def data(self, X: Any = None, *, names: list[str] | None = None) -> Data:
        """The data, with other features of the same rows if `X` is given."""
        features = self.X if X is None else X
        if self.qid is None:
            return LabelRankingData.from_arrays(features, self.y, feature_names=names)
        return RankingData.from_arrays(
            features, self.y, self.qid, sample_weight=self.sample_weight, feature_names=names
        )

    def rows(self, index: NDArray[Any]) -> Problem:
        """The problem of some of its rows, in that order."""
        qid = None if self.qid is None else self.qid[index]
        weight = None if self.sample_weight is None else self.sample_weight[index]
        return Problem(self.X[index], self.y[index], qid, weight)

    def with_silent_rows(self) -> Problem:
        """The problem and rows without a preference, which change nothing."""
        if self.qid is None:
            silent = [np.full(self.y.shape[1], np.nan), np.full(self.y.shape[1], 2.0)]
            return replace(
                self, X=np.vstack((self.X, self.X[:2])), y=np.vstack((self.y, np.array(silent)))
            )
        last = self.qid.max()
        return replace(
            self,
            X=np.vstack((self.X, self.X[:4])),
            y=np.append(self.y, [1.0, 1.0, 1.0, 0.0]),
            qid=np.append(self.qid, [last + 1, last + 1, last + 1, last + 2]),
        )


def make_problem(task: Task, *, noise: float = 1.0, seed: int = 0) -> Problem:
    """Graded relevance, ties included, from a linear utility and noise.

    The features hold exact zeros (for sparse matrices) and a column that is always zero.
    """
    rng = np.random.default_rng(seed)
    n_features = 5
    if task == "query-document":
        qid = np.repeat(np.arange(14), rng.integers(3, 9, size=14))
        X = _make_features(rng, len(qid), n_features)
        utility = X @ rng.normal(size=n_features) + noise * rng.normal(size=len(qid))
        return Problem(X, np.digitize(utility, [-1.0, 1.0]).astype(np.float64), qid)
    X = _make_features(rng, 30, n_features)
    utilities = X @ rng.normal(size=(n_features, 4)) + noise * rng.normal(size=(30, 4))
    return Problem(X, np.digitize(utilities, [-1.0, 1.0]).astype(np.float64), None)


def pair_accuracy(problem: Problem, scores: NDArray[np.float64]) -> float:
    """Share of all preference pairs that are in the right order; ties count one half."""
    if problem.qid is None:
        groups = list(zip(problem.y, scores, strict=True))
    else:
        members = [np.flatnonzero(problem.qid == query) for query in np.unique(problem.qid)]
        groups = [(problem.y[rows], scores[rows]) for rows in members]
    right = total = 0.0
    for y, s in groups:
        preferred = y[:, None] > y[None, :]
        margin = np.sign(s[:, None] - s[None, :])[preferred]
        right += ((margin + 1) / 2).sum()
        total += len(margin)
    return float(right / total)


def _make_features(
    rng: np.random.Generator, n_samples: int, n_features: int
) -> NDArray[np.float64]:
    X = rng.normal(size=(n_samples, n_features))
    X[rng.random(size=X.shape) < 0.3] = 0.0
    X[:, 1] = 0.0
    return X
