"""Metrics of a user who reads from the top and stops at a document that satisfies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import DataError
from rankplug.metrics.base import TIES, Metric
from rankplug.metrics.binary import BinaryMetric
from rankplug.metrics.blocks import Block
from rankplug.parameters import Choice, Integer, Optional, Real


@dataclass(frozen=True)
class ReciprocalRank(BinaryMetric):
    """1 / position of the first relevant document, 0 if it is beyond `k`; the mean is MRR.

    With ties, the expected value over their random orders: among the m documents of the first
    tied run that holds relevant ones (r of them), the user who has read j of them in vain stops
    at the next one with probability r / (m - j) [2]_. Undefined if no document is relevant.

    References
    ----------
    .. [1] Voorhees, The TREC-8 question answering track report, 1999.
    .. [2] McSherry and Najork, Computing information retrieval performance measures efficiently
       in the presence of tied scores, ECIR 2008.

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([0, 1, 1], [0.3, 0.2, 0.1], None, "mrr")
    {'mrr': 0.5}
    """

    name = "mrr"
    takes_unranked = True
    parameters = {**BinaryMetric.parameters, "k": Optional(Integer(1)), "ties": TIES}

    k: int | None = None
    ties: Literal["expected", "order"] = field(default="expected", kw_only=True)

    def _values(self, block: Block) -> NDArray[np.float64]:
        stop = _chance_of_stop(self.relevant(block), block, self.ties)
        value = _reciprocal_stop(stop, block, self.k)
        return np.where(self.n_relevant(block) > 0, value, np.nan)


@dataclass(frozen=True)
class Hit(BinaryMetric):
    """1 if one of the first `k` documents is relevant, else 0; also called Success@k.

    The mean over queries is the hit rate. With ties, the expected value over their random
    orders, which are those of `ReciprocalRank`. Undefined if no document is relevant.

    References
    ----------
    .. [1] Craswell, Success at n, Encyclopedia of database systems, 2009.

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([0, 1, 1, 0], [0.3, 0.2, 0.2, 0.2], None, "hit@2")  # two of three tied ones
    {'hit@2': 0.6666666666666666}
    """

    name = "hit"
    takes_unranked = True
    parameters = {**BinaryMetric.parameters, "k": Integer(1), "ties": TIES}

    k: int
    ties: Literal["expected", "order"] = field(default="expected", kw_only=True)

    def _values(self, block: Block) -> NDArray[np.float64]:
        stop = _chance_of_stop(self.relevant(block), block, self.ties)
        missed = np.prod(1 - stop[:, : self.k], axis=1)
        return np.where(self.n_relevant(block) > 0, 1 - missed, np.nan)


@dataclass(frozen=True)
class ExpectedReciprocalRank(Metric):
    """Expected 1 / position of the document that satisfies the user [1]_.

    ``ERR = sum_i 1/i R_i prod_{j < i} (1 - R_j)`` with ``R = (2^y - 1) / 2^max_grade``; at most
    ``1 - 2^-max_grade`` by its first term, never 1. Undefined if all labels are 0.

    Parameters
    ----------
    k : int, optional
        The cutoff; None counts all documents.
    max_grade : float
        The highest grade of the scale, 4 as in [1]_ and TREC's gdeval. It is not read off the
        data, or the value of a query would depend on the other queries. Labels outside
        0..max_grade are refused.
    ties : {"worst", "order"}
        Documents of equal score: the least relevant first, or the order in which they were
        given. (The expected value needs elementary symmetric polynomials of the tied R, in time
        quadratic in the length of a tie.)

    References
    ----------
    .. [1] Chapelle, Metzler, Zhang and Grinspan, Expected reciprocal rank for graded relevance,
       CIKM 2009.

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([1, 4], [0.2, 0.1], None, "err")  # 1/16 + 1/2 * 15/16 * 15/16
    {'err': 0.501953125}
    """

    name = "err"
    takes_unranked = True
    parameters = {
        **Metric.parameters,
        "k": Optional(Integer(1)),
        "max_grade": Real(0, 1000, high_open=False),
        "ties": Choice(("worst", "order")),
    }

    k: int | None = None
    max_grade: float = field(default=4, kw_only=True)
    ties: Literal["worst", "order"] = field(default="worst", kw_only=True)

    def check(self, relevance: NDArray[np.float64]) -> None:
        """Refuse labels that are not on the scale."""
        low, high = relevance.min(), relevance.max()
        if low < 0 or high > self.max_grade:
            raise DataError(
                f"{self}: relevance must lie in 0..{self.max_grade:g} but goes from {low:g} to "
                f"{high:g}; name the highest grade of the scale, err[max_grade=...]"
            )

    def _values(self, block: Block) -> NDArray[np.float64]:
        # Grades are not negative, so this only makes the padding satisfy nobody.
        grade = np.maximum(block.relevance, 0.0)
        stop = (np.exp2(block.runs(self.ties).ascending(grade)) - 1) / 2.0**self.max_grade
        satisfies = grade.any(axis=1) | (block.unranked > 0).any(axis=1)
        return np.where(satisfies, _reciprocal_stop(stop, block, self.k), np.nan)


def _chance_of_stop(relevant: NDArray[np.float64], block: Block, ties: str) -> NDArray[np.float64]:
    """At each document, the chance that it is relevant if none before it is."""
    runs = block.runs(ties)
    unread = runs.lengths - runs.offsets
    return np.minimum(runs.sum(relevant) / unread, 1.0)


def _reciprocal_stop(stop: NDArray[np.float64], block: Block, k: int | None) -> NDArray[np.float64]:
    """Expected 1 / position of the stop, `stop` being its chance at each document reached."""
    reached = np.ones_like(stop)
    np.cumprod(1 - stop[:, :-1], axis=1, out=reached[:, 1:])
    terms = reached * stop / block.positions
    return np.asarray(terms[:, :k].sum(axis=1))
