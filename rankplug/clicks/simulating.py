"""Simulated clicks on graded data: a position-based user, with noise and trust in the ranking."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankplug.clicks.log import ClickLog
from rankplug.data import RankingData, real_array, to_dense
from rankplug.exceptions import DataError
from rankplug.parameters import Integer, Parameter, Real, check_parameters

SIMULATION: Mapping[str, Parameter] = {
    "n_sessions": Integer(1, 10**9),
    "n_positions": Integer(1, 1_000),
    "eta": Real(0, 20, low_open=False),
    "noise": Real(0, 1, low_open=False),
    "trust": Real(0, 1, low_open=False),
    "randomised": Real(0, 1, low_open=False, high_open=False),
    "n_rankers": Integer(1, 1_000),
    "seed": Integer(0),
}
"""What the parameters of `simulate_clicks` may be."""


def simulate_clicks(
    data: RankingData,
    n_sessions: int = 10_000,
    *,
    n_positions: int = 10,
    eta: float = 1.0,
    noise: float = 0.1,
    trust: float = 0.0,
    randomised: float = 0.0,
    n_rankers: int = 2,
    scores: ArrayLike | None = None,
    seed: int = 0,
) -> ClickLog:
    r"""Simulate users who click on the documents that rankers put at the top.

    A session asks a query, drawn evenly, and sees the first `n_positions` documents of a ranker,
    drawn evenly. The user looks at position k with chance :math:`p_k = k^{-\eta}` [1]_, and
    clicks on a document of relevance y that he looks at with chance

    .. math:: \epsilon_k + (1 - \epsilon_k) \frac{2^y - 1}{2^{\max y} - 1},
        \qquad \epsilon_k = \epsilon + (1 - \epsilon)\, \tau / k :

    `noise` :math:`\epsilon` are clicks on whatever it is, `trust` :math:`\tau` those because the
    ranking has put it high [2]_. With trust no propensity of the position alone is right.

    Parameters
    ----------
    data : RankingData
        Graded documents; relevance from 0.
    n_sessions : int
    n_positions : int
        Documents of a list, fewer for queries that have fewer.
    eta : float
        Severity of the position bias. 0: none; 1: the tenth position is looked at a tenth as
        often as the first; 2: a hundredth.
    noise, trust : float in [0, 1)
    randomised : float in [0, 1]
        Share of the sessions that see the documents of the query in random order.
    n_rankers : int
        Rankers between which traffic is divided. Each sorts by a feature that is drawn at random.
    scores : array-like of shape (n_rankers, n_samples) or (n_samples,), optional
        Of rankers of your own, instead.
    seed : int
        The same seed gives the same log.

    Returns
    -------
    ClickLog
        With sessions, and with `randomised` if some are.

    Raises
    ------
    DataError
        If relevance is negative, all the same, or too large for a gain.
    ParameterError
        If an argument has a value it cannot have.

    References
    ----------
    .. [1] Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback,
       WSDM 2017.
    .. [2] Agarwal, Wang, Li, Bendersky and Najork, Addressing trust bias for unbiased
       learning-to-rank, WWW 2019.
    """
    given = {
        "n_sessions": n_sessions, "n_positions": n_positions, "eta": eta, "noise": noise,
        "trust": trust, "randomised": randomised, "n_rankers": n_rankers, "seed": seed,
    }  # fmt: skip
    check_parameters("simulated clicks", SIMULATION, given)
    attraction = _attraction(data)
    rng = np.random.default_rng(seed)
    if scores is None:
        scores = _single_features(data, n_rankers, rng)
    rankings = _rankings(data, np.atleast_2d(real_array(scores, "scores")), rng)
    query = rng.integers(0, data.n_queries, n_sessions)
    ranker = rng.integers(0, len(rankings), n_sessions)
    shuffled = rng.random(n_sessions) < randomised
    sizes = np.minimum(data.sizes[query], n_positions)
    session = np.repeat(np.arange(n_sessions), sizes)
    position = np.arange(len(session)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    row = rankings[ranker[session], data.query_ptr[query[session]] + position - 1]
    row[shuffled[session]] = _shuffled_rows(data, query[shuffled], n_positions, rng)
    epsilon = noise + (1 - noise) * trust / position
    chance = (epsilon + (1 - epsilon) * attraction[row]) * position ** -float(eta)
    return ClickLog(
        data.with_facts(relevance=np.zeros(data.n_samples), query_weight=None, order=None),
        np.arange(data.n_samples),
        row,
        position,
        rng.random(len(row)) < chance,
        session,
        shuffled[session] if randomised > 0 else None,
    )


def _attraction(data: RankingData) -> NDArray[np.float64]:
    """The gain of each document, 1 for the largest."""
    y = data.relevance
    if y.min() < 0 or not 0 < y.max() <= 1_000:
        raise DataError(
            f"clicks are simulated on relevance from 0, the highest above 0, not from {y.min():g} "
            f"to {y.max():g}"
        )
    gain: NDArray[np.float64] = (np.exp2(y) - 1) / (np.exp2(y.max()) - 1)
    return gain


def _single_features(
    data: RankingData, n_rankers: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The scores of rankers that know one feature each."""
    columns = np.resize(rng.permutation(data.n_features), n_rankers)
    return np.nan_to_num(np.asarray(to_dense(data.X[:, columns]), dtype=np.float64)).T


def _rankings(
    data: RankingData, scores: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """The rows of each query, the highest score first, one ranker a row; ties as drawn."""
    if scores.ndim != 2 or scores.shape[1] != data.n_samples:
        raise DataError(
            f"scores must have shape (n_rankers, {data.n_samples}), one for each row of the data, "
            f"not {scores.shape}"
        )
    drawn = rng.random(data.n_samples)
    return np.stack([np.lexsort((drawn, -one, data.row_query)) for one in scores])


def _shuffled_rows(
    data: RankingData, query: NDArray[np.int64], n_positions: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The rows of lists in random order, one list after the other."""
    lists = np.full((len(query), n_positions), -1)
    for one in np.unique(query):
        start, size = data.query_ptr[one], int(data.sizes[one])
        sessions = np.flatnonzero(query == one)
        order = rng.random((len(sessions), size)).argsort(axis=1)[:, :n_positions]
        lists[sessions, : order.shape[1]] = start + order
    return lists[lists >= 0]
