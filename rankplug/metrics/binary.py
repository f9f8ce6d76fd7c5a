"""Metrics that know two kinds of documents: relevant ones and others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rankplug.metrics.base import TIES, Metric, divide
from rankplug.metrics.blocks import Block
from rankplug.parameters import Integer, Optional, Parameter, Real


@dataclass(frozen=True)
class BinaryMetric(Metric):
    """Documents with ``relevance > threshold`` are relevant."""

    parameters: ClassVar[Mapping[str, Parameter]] = {**Metric.parameters, "threshold": Real()}

    threshold: float = field(default=0.0, kw_only=True)

    def relevant(self, block: Block) -> NDArray[np.float64]:
        """1 where a document is relevant, else 0."""
        return (block.relevance > self.threshold).astype(np.float64)

    def n_relevant(self, block: Block) -> NDArray[np.float64]:
        """The number of relevant documents of each query, those that were not ranked included."""
        ranked = (block.relevance > self.threshold).sum(axis=1)
        return np.asarray(ranked + (block.unranked > self.threshold).sum(axis=1), np.float64)

    def _others(self, block: Block) -> NDArray[np.float64]:
        return (block.valid & (block.relevance <= self.threshold)).astype(np.float64)


@dataclass(frozen=True)
class AveragePrecision(BinaryMetric):
    """Mean of the precisions at the positions of the relevant documents; its mean is MAP.

    ``AP@k = 1/R sum_{i <= k relevant} hits(i) / i`` where hits(i) counts the relevant documents up
    to position i and R all of the query [1]_, those beyond k too, as in trec_eval's ``map_cut``:
    a query with more than k of them cannot have 1. With ties, the expected value over their random
    orders [2]_: a position in a run of m tied documents, r of them relevant, holds a relevant one
    with probability r / m, and each of the j before it in the run then is relevant with
    probability (r - 1) / (m - 1). Undefined if no document is relevant.

    Parameters
    ----------
    k : int, optional
        The cutoff; None counts all documents.

    References
    ----------
    .. [1] Manning, Raghavan and Schütze, Introduction to information retrieval, 2008, ch. 8.
    .. [2] McSherry and Najork, Computing information retrieval performance measures efficiently
       in the presence of tied scores, ECIR 2008.

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([1, 0, 0, 1], [0.4, 0.3, 0.2, 0.1], None, "map")  # (1/1 + 2/4) / 2
    {'map': 0.75}
    >>> evaluate([1, 0, 0, 1], [0.4, 0.3, 0.2, 0.1], None, "map@3")  # (1/1) / 2
    {'map@3': 0.5}
    """

    name = "map"
    takes_unranked = True
    parameters = {**BinaryMetric.parameters, "k": Optional(Integer(1)), "ties": TIES}

    k: int | None = None
    ties: Literal["expected", "order"] = field(default="expected", kw_only=True)

    def _values(self, block: Block) -> NDArray[np.float64]:
        relevant = self.relevant(block)
        runs = block.runs(self.ties)
        m, r = runs.lengths, runs.sum(relevant)
        hits = runs.before(relevant) + 1 + runs.offsets * (r - 1) / np.maximum(m - 1, 1)
        precisions = (r / m * hits / block.positions)[:, : self.k]
        return np.minimum(divide(precisions.sum(axis=1), self.n_relevant(block)), 1.0)


@dataclass(frozen=True)
class _Hits(BinaryMetric):
    """Metrics of the relevant documents among the first `k`."""

    takes_unranked = True
    parameters: ClassVar[Mapping[str, Parameter]] = {
        **BinaryMetric.parameters,
        "k": Integer(1),
        "ties": TIES,
    }

    k: int
    ties: Literal["expected", "order"] = field(default="expected", kw_only=True)

    def _expected_hits(self, block: Block) -> NDArray[np.float64]:
        shares: NDArray[np.float64] = block.runs(self.ties).mean(self.relevant(block))
        return np.asarray(shares[:, : self.k].sum(axis=1))


@dataclass(frozen=True)
class Precision(_Hits):
    """Share of relevant documents among the first `k`; a query with fewer lacks the others.

    With ties, the expected value over their random orders. Undefined if no document of the
    query is relevant, so that it averages over the same queries as the other metrics.

    References
    ----------
    .. [1] Manning, Raghavan and Schütze, Introduction to information retrieval, 2008, ch. 8.

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([1, 0, 0, 1], [0.4, 0.3, 0.2, 0.1], None, "precision@2")
    {'precision@2': 0.5}
    """

    name = "precision"

    def _values(self, block: Block) -> NDArray[np.float64]:
        share = np.minimum(self._expected_hits(block) / self.k, 1.0)
        return np.where(self.n_relevant(block) > 0, share, np.nan)


@dataclass(frozen=True)
class Recall(_Hits):
    """Share of the query's relevant documents that are among the first `k`.

    ``hits(k) / R``, R being all relevant documents of the query [1]_, so that a query with more
    than k of them cannot have 1. With ties, the expected value over their random orders.
    Undefined if no document is relevant.

    References
    ----------
    .. [1] Manning, Raghavan and Schütze, Introduction to information retrieval, 2008, ch. 8.

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([1, 0, 0, 1], [0.4, 0.3, 0.2, 0.1], None, "recall@2")
    {'recall@2': 0.5}
    """

    name = "recall"

    def _values(self, block: Block) -> NDArray[np.float64]:
        return np.minimum(divide(self._expected_hits(block), self.n_relevant(block)), 1.0)


@dataclass(frozen=True)
class Auc(BinaryMetric):
    """Area under the ROC curve: share of (relevant, other) pairs in the right order.

    Ties in score count one half, the Mann-Whitney statistic [1]_. Undefined if the documents
    are all relevant or all not.

    References
    ----------
    .. [1] Hanley and McNeil, The meaning and use of the area under a receiver operating
       characteristic (ROC) curve, Radiology 143 (1982).

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([1, 0, 0], [0.2, 0.3, 0.1], None, "auc")
    {'auc': 0.5}
    """

    name = "auc"

    def _values(self, block: Block) -> NDArray[np.float64]:
        relevant, others = self.relevant(block), self._others(block)
        above = block.ties.before(others) + block.ties.sum(others) / 2
        wrong = (relevant * above).sum(axis=1)
        return 1 - divide(wrong, relevant.sum(axis=1) * others.sum(axis=1))


@dataclass(frozen=True)
class PosAtTop(BinaryMetric):
    """Share of relevant documents with a score strictly above every other document's [1]_, [2]_.

    Strictness is the definition: a relevant document tied with the highest of the others does
    not count. Undefined if the documents are all relevant or all not.

    References
    ----------
    .. [1] Boyd, Cortes, Mohri and Radovanovic, Accuracy at the top, NIPS 2012.
    .. [2] Li, Jin and Zhou, Top rank optimization in linear time, NIPS 2014.

    Examples
    --------
    >>> from rankplug.metrics import evaluate
    >>> evaluate([1, 0, 1, 0], [0.4, 0.3, 0.2, 0.1], None, "pos@top")
    {'pos@top': 0.5}
    """

    name = "pos@top"

    def _values(self, block: Block) -> NDArray[np.float64]:
        relevant, others = self.relevant(block), self._others(block)
        on_top = block.ties.before(others) + block.ties.sum(others) == 0
        share = divide((relevant * on_top).sum(axis=1), relevant.sum(axis=1))
        return np.where(others.any(axis=1), share, np.nan)
