"""Metrics of graded relevance that discount the gain of a document by its position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import DataError
from rankplug.metrics.base import TIES, Metric, divide
from rankplug.metrics.blocks import Block
from rankplug.parameters import Choice, Integer, Optional, Parameter

_LARGEST_EXPONENT = 1000
"""Sums of 2^1000 stay finite for as many documents as anyone has."""


@dataclass(frozen=True)
class _Discounted(Metric):
    """Options and sums that the two metrics share."""

    parameters: ClassVar[Mapping[str, Parameter]] = {
        **Metric.parameters,
        "gain": Choice(("exp2", "linear")),
        "discount": Choice(("log2", "letor")),
        "ties": TIES,
    }

    gain: Literal["exp2", "linear"] = field(default="exp2", kw_only=True)
    discount: Literal["log2", "letor"] = field(default="log2", kw_only=True)
    ties: Literal["expected", "order"] = field(default="expected", kw_only=True)

    @property
    def about(self) -> str:
        """Which of the gains that go by this name."""
        return "gain 2^y-1" if self.gain == "exp2" else "gain y"

    def check(self, relevance: NDArray[np.float64]) -> None:
        """Refuse negative labels, and those whose gain overflows."""
        low, high = relevance.min(), relevance.max()
        if low < 0:
            raise DataError(
                f"{self}: relevance must be >= 0 to be a gain, but the lowest is {low:g}; shift "
                "the labels, or use pairwise_accuracy, which takes any real relevance"
            )
        if self.gain == "exp2" and high > _LARGEST_EXPONENT:
            raise DataError(
                f"{self}: the gain 2^y - 1 overflows at relevance {high:g} (largest possible: "
                f"{_LARGEST_EXPONENT}); use linear gain, {replace(self, gain='linear')}"
            )
        if high > 2.0**_LARGEST_EXPONENT:
            raise DataError(f"{self}: sums of relevance {high:g} overflow; scale the labels down")

    def _discounted_gains(self, block: Block) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """At each position, the discounted gain of the ranking and of the best possible one."""
        gain = self._gain_of(block.relevance)
        # The expected gain at a position is the mean over the documents tied there.
        ranked = block.runs(self.ties).mean(gain)
        possible = np.hstack((gain, self._gain_of(block.unranked))) if block.unranked.size else gain
        best = np.sort(possible, axis=1)[:, ::-1]
        position = np.arange(1.0, best.shape[1] + 1)
        discount = 1 / np.log2(position + 1 if self.discount == "log2" else np.maximum(2, position))
        return ranked * discount[: ranked.shape[1]], best * discount

    def _gain_of(self, relevance: NDArray[np.float64]) -> NDArray[np.float64]:
        # Relevance is not negative, so this only turns the padding's -inf into no gain.
        grade = np.maximum(relevance, 0.0)
        return np.exp2(grade) - 1 if self.gain == "exp2" else grade


@dataclass(frozen=True)
class Ndcg(_Discounted):
    """Normalised discounted cumulative gain of the first `k` documents.

    ``DCG@k = sum_{i <= k} gain(y_i) d(i)`` over the positions i of the ranking, divided by the
    DCG@k of the best possible ranking. Undefined if no document has a gain.

    Parameters
    ----------
    k : int, optional
        The cutoff; None counts all documents.
    gain : {"exp2", "linear"}
        ``2^y - 1`` [2]_ or ``y`` [1]_. Fractional labels are fine with both, negative ones are
        refused, and so are labels above 1000 with "exp2".
    discount : {"log2", "letor"}
        ``d(i) = 1 / log2(i + 1)`` [2]_ or ``1 / log2(max(2, i))``, which treats the first two
        positions alike (LETOR 4.0's evaluation tool), so that any order of two documents has 1.

    References
    ----------
    .. [1] Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, ACM TOIS
       20 (2002).
    .. [2] Burges et al., Learning to rank using gradient descent, ICML 2005.
    .. [3] McSherry and Najork, Computing information retrieval performance measures efficiently
       in the presence of tied scores, ECIR 2008.

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([0, 1], [0.2, 0.1], None, Ndcg(10))["ndcg@10"]  # 1 / log2(3)
    0.6309297535714575
    >>> round(evaluate([0, 1], [0.0, 0.0], None, "ndcg@10")["ndcg@10"], 4)  # (1 + 0.6309) / 2
    0.8155
    """

    name = "ndcg"
    takes_unranked = True
    parameters = {**_Discounted.parameters, "k": Optional(Integer(1))}

    k: int | None = None

    def _values(self, block: Block) -> NDArray[np.float64]:
        ranked, best = self._discounted_gains(block)
        dcg = ranked[:, : self.k].sum(axis=1)
        # Rounding in the means of ties may exceed 1 by a unit in the last place.
        return np.minimum(divide(dcg, best[:, : self.k].sum(axis=1)), 1.0)


@dataclass(frozen=True)
class MeanNdcg(_Discounted):
    """LETOR's mean NDCG: NDCG@k averaged over the cutoffs k = 1, ..., l of a query of l documents.

    The defaults are those of LETOR 4.0's evaluation tool and of [1]_, section 4.2: exp2 gain,
    discount ``1 / log2(max(2, i))``, and 0 for a query without a relevant document. The
    options are those of `Ndcg`.

    References
    ----------
    .. [1] Lee and Lin, Large-scale linear rankSVM, Neural Computation 26 (2014).

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([0, 1], [0.2, 0.1], None, "mean_ndcg")  # (0 + 1) / 2
    {'mean_ndcg': 0.5}
    """

    name = "mean_ndcg"

    discount: Literal["log2", "letor"] = field(default="letor", kw_only=True)
    empty: Literal["skip", 0, 1] = field(default=0, kw_only=True)

    def _values(self, block: Block) -> NDArray[np.float64]:
        ranked, best = self._discounted_gains(block)
        ndcg = divide(np.cumsum(ranked, axis=1), np.cumsum(best, axis=1))
        total = ndcg.sum(axis=1, where=block.valid)
        return np.minimum(divide(total, block.valid.sum(axis=1)), 1.0)
