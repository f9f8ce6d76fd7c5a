"""Metrics of preferences: of documents of a query, or of labels of an instance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankplug.metrics.base import Metric, divide
from rankplug.metrics.blocks import Block


@dataclass(frozen=True)
class PairwiseAccuracy(Metric):
    """Share of pairs ``y_i > y_j`` of a query with ``s_i > s_j``; ties in score count one half.

    Its mean is over all pairs of all queries: a query counts as much as it has pairs [1]_
    (which gives ties nothing; one half is their expected value over random orders).
    Undefined if all documents have the same relevance; `empty` then shows in the values per
    query only, as such a query has no pair to count.

    References
    ----------
    .. [1] Lee and Lin, Large-scale linear rankSVM, Neural Computation 26 (2014), section 4.4.

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([2, 1, 0], [0.3, 0.1, 0.1], None, "pairwise_accuracy")  # (1 + 1 + 1/2) / 3
    {'pairwise_accuracy': 0.8333333333333334}
    """

    name = "pairwise_accuracy"

    def weight(self, block: Block) -> NDArray[np.float64]:
        """The number of pairs of each query."""
        return block.pair_counts[0]

    def _values(self, block: Block) -> NDArray[np.float64]:
        n_pairs, wrong, tied = block.pair_counts
        return 1 - divide(wrong + tied / 2, n_pairs)


@dataclass(frozen=True)
class KendallTau(Metric):
    """Kendall's rank correlation of relevance and scores, from -1 to 1.

    ``(right - wrong) / pairs`` over the pairs of different relevance; ties in score count
    nothing, so a constant scorer has 0. Without ties it is the tau of [1]_ (and equals tau-b).
    Undefined if there is no pair.

    References
    ----------
    .. [1] Kendall, A new measure of rank correlation, Biometrika 30 (1938).

    Examples
    --------
    >>> from rankplug.metrics import evaluate_labels
    >>> evaluate_labels([[3, 2, 1, float("nan")]], [[0.3, 0.1, 0.2, 0.9]], "kendall_tau")
    {'kendall_tau': 0.33333333333333337}
    """

    name = "kendall_tau"

    def _values(self, block: Block) -> NDArray[np.float64]:
        n_pairs, wrong, tied = block.pair_counts
        return 1 - divide(2 * wrong + tied, n_pairs)


@dataclass(frozen=True)
class TopOneError(Metric):
    """Chance that the label of the highest score is not one of the most relevant; less is better.

    With one relevant class per instance this is the classification error. Several labels that
    share the highest score are picked from at random. Undefined if all labels have the same
    relevance.

    Examples
    --------
    >>> from rankplug.metrics import per_instance
    >>> per_instance([[0, 1], [0, 1]], [[0.1, 0.9], [0.5, 0.5]], "top1_error")
    {'top1_error': array([0. , 0.5])}
    """

    name = "top1_error"
    greater_is_better = False

    def _values(self, block: Block) -> NDArray[np.float64]:
        best = block.relevance == block.relevance.max(axis=1, keepdims=True)
        error = 1 - block.ties.mean(best.astype(np.float64))[:, 0]
        one_level = np.all(best, axis=1, where=block.valid)
        return np.where(one_level, np.nan, error)
