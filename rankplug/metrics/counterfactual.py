"""Counterfactual metrics: what clicks, weighed by inverse propensity, say of another ranking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import DataError
from rankplug.metrics.base import TIES, Metric, divide
from rankplug.metrics.blocks import Block
from rankplug.parameters import Integer, Optional, Parameter


@dataclass(frozen=True)
class _OfClicks(Metric):
    """Sums of ``v_d f(rank of d)`` over the documents of a query."""

    parameters: ClassVar[Mapping[str, Parameter]] = {**Metric.parameters, "ties": TIES}

    ties: Literal["expected", "order"] = field(default="expected", kw_only=True)

    def check(self, relevance: NDArray[np.float64]) -> None:
        """Refuse what is no rate of clicks: negative values."""
        if relevance.min() < 0:
            raise DataError(
                f"{self}: relevance is a rate of clicks over their propensities and must be >= 0, "
                f"but the lowest is {relevance.min():g}"
            )

    def _total(self, block: Block) -> NDArray[np.float64]:
        """The weighed clicks of each query."""
        total: NDArray[np.float64] = self._clicks(block).sum(axis=1)
        return total

    def _clicks(self, block: Block) -> NDArray[np.float64]:
        """The rates of clicks at each position, 0 in the padding; the mean over ties."""
        return block.runs(self.ties).mean(np.maximum(block.relevance, 0.0))


@dataclass(frozen=True)
class IpsDcg(_OfClicks):
    """Discounted cumulative gain by clicks that are weighed by inverse propensity.

    ``sum_d v_d / log2(rank(d) + 1)`` over the first `k` documents of a query. With ``v_d`` the sum
    of ``1 / propensity`` of the clicks on document d, divided by the number of the query's
    sessions (`rankplug.clicks.WeightedClicks.to_evaluation`), its expectation is the DCG of
    the rates at which users who look at a document click on it [1]_, [2]_. A query without
    clicks counts 0.

    Parameters
    ----------
    k : int, optional
        The cutoff; None counts all documents.

    References
    ----------
    .. [1] Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback,
       WSDM 2017.
    .. [2] Agarwal, Takatsu, Zaitsev and Joachims, A general framework for counterfactual
       learning-to-rank, SIGIR 2019.

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([0.5, 0, 2], [0.3, 0.2, 0.1], None, "ips_dcg")  # 0.5 / 1 + 2 / 2
    {'ips_dcg': 1.5}
    """

    name = "ips_dcg"
    parameters = {**_OfClicks.parameters, "k": Optional(Integer(1))}

    k: int | None = None

    def _values(self, block: Block) -> NDArray[np.float64]:
        discounted = self._clicks(block) / np.log2(block.positions + 1)
        total: NDArray[np.float64] = discounted[:, : self.k].sum(axis=1)
        return total


@dataclass(frozen=True)
class SnipsDcg(IpsDcg):
    """`IpsDcg`, self-normalised: the mean discount of the positions that clicks stand at.

    ``sum_d v_d / log2(rank(d) + 1) / sum_d v_d``, where queries count in the mean as much as they
    have weighed clicks: the mean is the ratio of two sums over all queries [1]_, [2]_. It is at
    most 1, varies less than the unnormalised sum, and has a bias that goes with the number of
    clicks. Undefined for queries without clicks.

    References
    ----------
    .. [1] Swaminathan and Joachims, The self-normalized estimator for counterfactual learning,
       NIPS 2015.
    .. [2] Agarwal, Takatsu, Zaitsev and Joachims, A general framework for counterfactual
       learning-to-rank, SIGIR 2019.

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([0.5, 0, 2], [0.3, 0.2, 0.1], None, "snips_dcg")  # 1.5 / 2.5
    {'snips_dcg': 0.6}
    """

    name = "snips_dcg"

    def weight(self, block: Block) -> NDArray[np.float64]:
        """The weighed clicks of each query."""
        return self._total(block)

    def _values(self, block: Block) -> NDArray[np.float64]:
        return divide(super()._values(block), self.weight(block))


@dataclass(frozen=True)
class AverageRank(_OfClicks):
    """Average rank of the clicked documents, weighed by inverse propensity; 1 is the best.

    ``sum_d v_d rank(d) / sum_d v_d``; `v_d` and how queries count are as in `SnipsDcg`. It is what
    Propensity SVM-Rank [1]_ bounds. With relevance 0 and 1 it is the average rank of the
    relevant documents.

    References
    ----------
    .. [1] Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback,
       WSDM 2017.

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([0.5, 0, 2], [0.3, 0.2, 0.1], None, "average_rank")  # (0.5 * 1 + 2 * 3) / 2.5
    {'average_rank': 2.6}
    """

    name = "average_rank"
    greater_is_better = False

    def weight(self, block: Block) -> NDArray[np.float64]:
        """The weighed clicks of each query."""
        return self._total(block)

    def _values(self, block: Block) -> NDArray[np.float64]:
        return divide((self._clicks(block) * block.positions).sum(axis=1), self.weight(block))
