"""Ranges of C, lambda and gamma worth tuning, from the size and scale of the data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rankplug.data import Matrix, PreferenceData
from rankplug.kernels import default_gamma, squared_norms
from rankplug.objectives.adjacent import PairChoice
from rankplug.objectives.pairs import SquaredHinge, open_pairs
from rankplug.shards import UNIFORM, PairWeighting, Reduction, RemoteRankingData

if TYPE_CHECKING:
    from optuna.distributions import FloatDistribution

_DECADES = 7
"""From where nothing is learnt yet to where the loss is all: the best C of tree-tron and
cutting-plane on MQ2008 lie 3 to 6.8 decades above the lowest (benchmarks/results/tuning.csv)."""


def decades_up(low: float) -> FloatDistribution:
    """From `low` over seven decades, on a logarithmic scale."""
    from optuna.distributions import FloatDistribution

    return FloatDistribution(low, low * 10.0**_DECADES, log=True)


def decades_down(high: float) -> FloatDistribution:
    """The seven decades up to `high`, on a logarithmic scale."""
    return decades_up(high / 10.0**_DECADES)


def gamma_range(X: Matrix) -> FloatDistribution:
    """Two decades around `default_gamma`, on a logarithmic scale."""
    from optuna.distributions import FloatDistribution

    gamma = default_gamma(X)
    return FloatDistribution(1e-2 * gamma, 1e2 * gamma, log=True)


def pairwise_c(
    data: PreferenceData | RemoteRankingData | None,
    reduction: Reduction = "sum",
    weighting: PairWeighting = UNIFORM,
    pairs: PairChoice = "all",
) -> FloatDistribution:
    r"""C of ``1/2 |w|^2 + C sum over pairs of c_q h(1 - (s_i - s_j))``, h a (squared) hinge.

    It begins where nothing is learnt yet but the mean difference g of all pairs: for

        C <= C_min = 1 / (2 |g| D),   g = sum over pairs of c_q (x_i - x_j),

    every pair has a loss, so the problem is linear [1]_. D, the largest distance of two rows,
    is replaced by its bound, twice the largest norm.

    Parameters
    ----------
    data : RankingData, LabelRankingData, RemoteRankingData or None
        None, or data whose g is 0: a range for features of the order of 1.
    reduction : "sum", "mean" or "query-mean"
    weighting : PairWeighting
    pairs : "all" or "adjacent"

    References
    ----------
    .. [1] Chu, Ho, Tsai, Lin and Lin, Warm start for parameter selection of linear classifiers,
       KDD 2015.
    """
    if data is not None:
        low = _smallest_c(data, reduction, weighting, pairs)
        if low > 0 and math.isfinite(low * 10.0**_DECADES):
            return decades_up(low)
    # With features of the order of 1, |g| is of the order of what all pairs count together: 1 for
    # means, their number for the sum.
    return decades_up(1e-6 if reduction == "sum" else 1e-2)


def largest_squared_norm(data: PreferenceData | RemoteRankingData) -> float:
    """``max_i |x_i|^2``; 1 if all features are 0."""
    if isinstance(data, RemoteRankingData):
        return data.largest_squared_norm()
    return float(squared_norms(data.X).max(initial=0.0)) or 1.0


def _smallest_c(
    data: PreferenceData | RemoteRankingData,
    reduction: Reduction,
    weighting: PairWeighting,
    pairs: PairChoice,
) -> float:
    with open_pairs(data, reduction, weighting=weighting, pairs=pairs) as shards:
        loss = SquaredHinge(shards)
        loss.move_to(None)
        twice_g = float(np.linalg.norm(loss.gradient()))
    product = twice_g * 2.0 * math.sqrt(largest_squared_norm(data))
    return 1.0 / product if product > 0 else 0.0
