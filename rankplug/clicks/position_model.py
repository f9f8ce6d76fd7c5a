"""Expectation maximisation of the position-based model: propensities and relevance together.

A document d of a query is clicked at position k if the user looks there, with chance p_k, and it
attracts him, with chance g_d:  P(click | d, k) = p_k g_d. The likelihood of the counts of all
documents and positions is maximised over p and g by expectation maximisation: the chance that a
position was looked at without a click there is p (1 - g) / (1 - p g), and that the document would
have attracted, g (1 - p) / (1 - p g). As g is at most 1, documents that are clicked whenever they
are looked at make the propensities of lower positions too large.

Craswell, Zoeter, Taylor and Ramsey, An experimental comparison of click position-bias models, WSDM
2008. Wang, Golbandi, Bendersky, Metzler and Najork, Position bias estimation for unbiased learning
to rank in personal search, WSDM 2018, have a regression on features for g.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankplug.clicks.harvesting import find_interventions, joined_to_first
from rankplug.clicks.log import Cells, ClickLog
from rankplug.exceptions import DataWarning, warn_caller

_MOST_STEPS = 10_000
_TOLERANCE = 1e-6
"""Of the largest relative change of a propensity in a step."""


def fit_position_model(log: ClickLog) -> NDArray[np.float64]:
    """The propensity of each position, up to a factor; NaN for those not joined to the first.

    Raises
    ------
    DataError
        As `joined_to_first`: any propensities would explain the clicks.
    """
    cells, n = log.cells, log.n_positions
    joined = joined_to_first(find_interventions(cells, n), n)
    known = joined[cells.position - 1]
    kept = Cells(*(values[known] for values in cells))  # type: ignore[arg-type]
    values = _maximise(kept, n, log.documents.n_samples)
    values[~joined] = np.nan
    return values


def _maximise(cells: Cells, n_positions: int, n_documents: int) -> NDArray[np.float64]:
    """Steps of expectation and maximisation until the propensities stay as they are."""
    row, place = cells.row, cells.position - 1
    ignored = cells.shown - cells.clicked
    shown_at = np.maximum(np.bincount(place, cells.shown, n_positions), 1)
    shown_of = np.maximum(np.bincount(row, cells.shown, n_documents), 1)
    p = np.maximum(np.bincount(place, cells.clicked, n_positions), 0.5) / shown_at
    p = 0.9 * p / p.max()
    g = np.full(n_documents, 0.5)
    for _ in range(_MOST_STEPS):
        p_of, g_of = p[place], g[row]
        missed = ignored / np.maximum(1 - p_of * g_of, 1e-12)
        looked = cells.clicked + missed * p_of * (1 - g_of)
        attracted = cells.clicked + missed * g_of * (1 - p_of)
        before = p
        p = np.bincount(place, looked, n_positions) / shown_at
        g = np.bincount(row, attracted, n_documents) / shown_of
        # Only ratios are of interest; the common factor moves slowest.
        change = np.abs(p / p.max() - before / before.max()) / np.maximum(before, 1e-12)
        if change.max() <= _TOLERANCE:
            return p
    warn_caller(
        f"the position-based model has not converged in {_MOST_STEPS:,} steps: its propensities "
        f"still change by {change.max():.1g} in one",
        DataWarning,
    )
    return p
