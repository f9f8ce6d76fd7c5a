"""Intervention harvesting: propensities from documents that stood at several positions.

A document of a query that was shown at the positions k and k' has the same relevance there, so that
rates of clicks of such documents are p_k r and p_k' r. The AllPairs estimator maximises over the
propensities p and the mean relevance r_kk' of the documents of each pair of positions

    sum over k != k' of  a_kk' log(p_k r_kk') + (n_kk' - a_kk') log(1 - p_k r_kk'),

where a_kk' is the sum of w_d times the rate of clicks at k of the documents d shown at both, and
n_kk' the sum of w_d. The paper counts each document once, w_d = 1. Here a document that was shown
m times at k and m' times at k' counts w_d = m m' / (m + m'), which is what its two rates tell (the
weights of Mantel and Haenszel), so that documents shown a few times do not add more noise than
they tell. Both are consistent.

Agarwal, Zaitsev, Wang, Li, Najork and Joachims, Estimating position bias without intrusive
interventions, WSDM 2019.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components

from rankplug.clicks.log import Cells, ClickLog
from rankplug.exceptions import DataError

_LEAST_CLICKS = 1e-3
"""Where the search for a rate starts that has hardly any, as its logarithm is searched."""


class Interventions(NamedTuple):
    """Sums over the documents that were shown at both positions of a pair.

    Attributes
    ----------
    first, second : int64 ndarray of shape (n_pairs,)
        Positions from 0; `first` is less than `second`.
    weight : float64 ndarray of shape (n_pairs,)
        Sum of ``w_d``.
    clicked : float64 ndarray of shape (n_pairs, 2)
        Sum of ``w_d`` times the rate of clicks, at the first and at the second position.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    weight: NDArray[np.float64]
    clicked: NDArray[np.float64]


def harvest(log: ClickLog) -> NDArray[np.float64]:
    """The propensity of each position, up to a factor; NaN for those not joined to the first.

    Raises
    ------
    DataError
        As `joined_to_first`.
    """
    n = log.n_positions
    found = find_interventions(log.cells, n)
    joined = joined_to_first(found, n)
    values = np.full(n, np.nan)
    values[joined] = _maximise(found, joined)
    return values


def find_interventions(cells: Cells, n_positions: int) -> Interventions:
    """The pairs of positions that documents have in common, with clicks at either."""
    rate = cells.clicked / cells.shown
    # Cells stand document by document: those j steps apart are pairs of the same document.
    starts = np.flatnonzero(np.concatenate(([True], cells.row[1:] != cells.row[:-1])))
    longest = int(np.diff(np.append(starts, len(cells.row))).max())
    sums = np.zeros((3, n_positions * n_positions))
    for step in range(1, longest):
        first = np.flatnonzero(cells.row[step:] == cells.row[:-step])
        second = first + step
        weight = 1 / (1 / cells.shown[first] + 1 / cells.shown[second])
        pair = (cells.position[first] - 1) * n_positions + cells.position[second] - 1
        for total, values in zip(
            sums, (weight, weight * rate[first], weight * rate[second]), strict=True
        ):
            total += np.bincount(pair, values, minlength=len(total))
    pairs = np.flatnonzero((sums[1] > 0) | (sums[2] > 0))
    return Interventions(
        pairs // n_positions, pairs % n_positions, sums[0, pairs], sums[1:, pairs].T
    )


def joined_to_first(found: Interventions, n_positions: int) -> NDArray[np.bool_]:
    """Which positions are joined to the first by pairs that were clicked at both.

    Raises
    ------
    DataError
        If only the first is.
    """
    both = (found.clicked > 0).all(axis=1)
    edges = sparse.coo_array(
        (np.ones(both.sum()), (found.first[both], found.second[both])),
        shape=(n_positions, n_positions),
    )
    _, component = connected_components(edges, directed=False)
    joined: NDArray[np.bool_] = component == component[0]
    if joined.sum() < 2:
        raise DataError(
            "no document was shown, and clicked, at the first and at another position of the same "
            "query: nothing tells how position and relevance share in the clicks. Give "
            "propensities, or a log in which rankers differ or some lists are in random order"
        )
    return joined


def _maximise(found: Interventions, joined: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The propensities of the joined positions at which the likelihood is largest."""
    inside = joined[found.first] & joined[found.second]
    number = np.cumsum(joined) - 1
    at = np.stack([number[found.first[inside]], number[found.second[inside]]], axis=1)
    clicked, weight = found.clicked[inside], found.weight[inside, np.newaxis]
    n, total = int(joined.sum()), weight.sum()

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        log_p, log_r = parameters[:n], parameters[n:, np.newaxis]
        log_rate = np.minimum(log_p[at] + log_r, -1e-9)
        other = -np.expm1(log_rate)
        value = (clicked * log_rate + (weight - clicked) * np.log(other)).sum()
        slope = clicked - (weight - clicked) * np.exp(log_rate) / other
        of_p = np.bincount(at.ravel(), slope.ravel(), minlength=n)
        gradient = np.concatenate([of_p, slope.sum(axis=1)])
        return -float(value) / total, -gradient / total

    start = np.zeros(n + len(at))
    start[n:] = np.log(np.maximum(clicked.mean(axis=1), _LEAST_CLICKS) / weight[:, 0])
    free = [(None, 0.0)] * len(start)
    found_at = minimize(
        loss, np.minimum(start, -1e-3), jac=True, method="L-BFGS-B", bounds=free,
        options={"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-12, "gtol": 1e-8},
    ).x  # fmt: skip
    values: NDArray[np.float64] = np.exp(found_at[:n])
    return values
