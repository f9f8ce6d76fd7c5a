"""`WeightedClicks`: clicks weighed by inverse propensity, as data to train and to evaluate on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug.clicks.log import ClickLog
from rankplug.clicks.propensities import Propensities
from rankplug.data import RankingData, take_rows
from rankplug.exceptions import DataError
from rankplug.metrics import SummarySettings, measure_data, summarize_measured
from rankplug.parameters import Optional, Real, check_parameters

_CLIP = {"clip": Optional(Real(0, 1, high_open=False))}

COUNTERFACTUAL_METRICS = ("snips_dcg@10", "ips_dcg@10", "average_rank")


@dataclass(frozen=True, eq=False, repr=False)
class WeightedClicks:
    """The clicks of a log, each with the weight ``1 / max(propensity, clip)``.

    Made by `weigh_clicks`.

    Attributes
    ----------
    log : ClickLog
    propensities : Propensities
    clip : float or None
        Smaller propensities count as this; None: as they are.
    weight : float64 ndarray of shape (n_clicks,)
        Of each click, in the order of the log.
    """

    log: ClickLog
    propensities: Propensities
    clip: float | None
    weight: NDArray[np.float64]

    def __repr__(self) -> str:
        clipped = f", {self.n_clipped:,} clipped" if self.clip is not None else ""
        return (
            f"<WeightedClicks: {self.n_clicks:,} clicks{clipped}, which tell as much as "
            f"{self.effective_sample_size:,.0f} of equal weight>"
        )

    @property
    def n_clicks(self) -> int:
        """Number of clicks."""
        return len(self.weight)

    @property
    def n_clipped(self) -> int:
        """Number of clicks whose propensity is below `clip`."""
        if self.clip is None:
            return 0
        at = self.propensities.at(self.log.position[self.log.click])
        return int(np.count_nonzero(at < self.clip))

    @property
    def effective_sample_size(self) -> float:
        """``(sum w)^2 / sum w^2`` of the weights: clicks of equal weight that tell as much.

        Source: Kish, Survey sampling, 1965.
        """
        return float(self.weight.sum() ** 2 / (self.weight**2).sum())

    @cached_property
    def document_weight(self) -> NDArray[np.float64]:
        """The sum of the weights of the clicks on each document, of shape (n_documents,)."""
        row = self.log.row[self.log.click]
        n = self.log.documents.n_samples
        return np.bincount(row, self.weight, n).astype(np.float64, copy=False)

    def to_training(self) -> RankingData:
        r"""Data whose pairs are those of Propensity SVM-Rank [1]_.

        A click on document c, of weight w, is w pairs: c above every other candidate of the query.
        The clicks of all sessions on a document add up to the weight :math:`W_c`, so the loss of
        a query is

        .. math:: \sum_c W_c \sum_{d \ne c} \ell(s_c - s_d).

        A document may be clicked in one session and not in another, and then it is above others
        and below them. It has two rows here: one of relevance 1 and weight :math:`W_c`, and, as
        every candidate, one of relevance 0. A pair has the weight of its preferred row, so this
        is the loss above, plus :math:`W_c \ell(0)` of each clicked document and itself, which no
        score changes. Data have at most two rows a document, however many sessions there were.

        Returns
        -------
        RankingData
            With `document_weight`.

        Raises
        ------
        DataError
            If nothing was clicked.

        References
        ----------
        .. [1] Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback,
           WSDM 2017.
        """
        documents, weight = self.log.documents, self.document_weight
        clicked = np.flatnonzero(weight > 0)
        query = documents.row_query
        rows = np.concatenate([np.arange(documents.n_samples), clicked])
        # The clicked rows of a query first, so that the order of rows is not that of the log.
        above = np.repeat([False, True], [documents.n_samples, len(clicked)])
        order = np.lexsort((rows, ~above, query[rows]))
        rows, above = rows[order], above[order]
        sizes = np.bincount(query[rows], minlength=documents.n_queries)
        return replace(
            documents,
            X=take_rows(documents.X, rows),
            relevance=above.astype(np.float64),
            query_ptr=np.concatenate(([0], np.cumsum(sizes))),
            query_weight=None,
            order=None,
            document_weight=np.where(above, weight[rows], 1.0),
        )

    def to_evaluation(self) -> RankingData:
        """The candidates with, as relevance, how often each is clicked by those who look at it.

        It is the sum of the weights of its clicks divided by the number of the query's sessions:
        what the metrics `COUNTERFACTUAL_METRICS` take.
        """
        documents, n_sessions = self.log.documents, self.log.n_sessions
        rate = self.document_weight / np.maximum(n_sessions, 1)[documents.row_query]
        return documents.with_facts(relevance=rate)

    def evaluate(
        self,
        scores: ArrayLike,
        metrics: Any = COUNTERFACTUAL_METRICS,
        *,
        level: float = 0.95,
        n_resamples: int = 1000,
        seed: int = 0,
    ) -> dict[str, dict[str, float | None]]:
        """Counterfactual metrics of a ranking, with bootstrap intervals over queries.

        Parameters
        ----------
        scores : array-like of shape (n_documents,)
            Of the rows of ``log.documents``.
        metrics : str or list of str
            "ips_dcg@k", "snips_dcg@k", "average_rank"; others take the rates for relevance.
        level, n_resamples, seed
            As for `rankplug.metrics.confidence_interval`.

        Returns
        -------
        dict of dict
            By metric: ``value``, ``low``, ``high``, ``level`` and ``n_queries``.

        Raises
        ------
        DataError, ParameterError, UnknownNameError
            As `rankplug.metrics.evaluate`.
        """
        settings = SummarySettings.of(
            {"metrics": metrics, "level": level, "n_resamples": n_resamples, "seed": seed}
        )
        measured = measure_data(self.to_evaluation(), scores, settings.metrics)
        return summarize_measured(measured, settings)


def weigh_clicks(
    log: ClickLog, propensities: Any = "interventions", *, clip: float | None = None
) -> WeightedClicks:
    """Weigh each click by the inverse of the propensity of its position.

    Parameters
    ----------
    log : ClickLog
    propensities : Propensities, array-like, mapping or str
        Known ones; or "none", each click counts 1; or a method of `estimate_propensities`.
    clip : float in (0, 1), optional
        Propensities below it count as this: less variance, and a bias against documents that are
        shown far down.

    Raises
    ------
    DataError
        If nothing was clicked, or something was at a position without a propensity.
    ParameterError, UnknownNameError
        If an argument has a value it cannot have.

    Examples
    --------
    >>> from rankplug.clicks import simulate_clicks
    >>> from rankplug.datasets import load
    >>> log = simulate_clicks(load("digits-retrieval", n_queries=20).train, 2_000)
    >>> weigh_clicks(log, [1 / k for k in range(1, 11)], clip=0.2).n_clicks == log.click.sum()
    True
    """
    check_parameters("weighed clicks", _CLIP, {"clip": clip})
    if not log.click.any():
        raise DataError("no document was clicked: there is nothing to weigh")
    known = Propensities.of(propensities, log)
    positions = log.position[log.click]
    at = known.at(positions)
    unknown = np.unique(positions[np.isnan(at)])
    if unknown.size:
        listed = ", ".join(map(str, unknown[:5])) + (", ..." if unknown.size > 5 else "")
        raise DataError(
            f"{np.count_nonzero(np.isnan(at)):,} clicks at positions without a propensity "
            f"({listed}): give it, or leave out what was shown below, as log.up_to(k) does"
        )
    return WeightedClicks(log, known, clip, 1 / (at if clip is None else np.maximum(at, clip)))
