"""Objectives: losses over pairs and at the top, with ranges of their parameters."""

from rankplug.objectives.adjacent import PairChoice
from rankplug.objectives.centring import centre_queries
from rankplug.objectives.pairs import (
    Hinge,
    PairLoss,
    SmoothedHinge,
    SquaredHinge,
    hinge_objective,
    open_pairs,
    squared_hinge_objective,
)
from rankplug.objectives.ranges import (
    decades_down,
    decades_up,
    gamma_range,
    largest_squared_norm,
    pairwise_c,
)
from rankplug.objectives.top import Rows, Scope, TopProblem, make_top_problem
from rankplug.objectives.top_losses import TopLossName
from rankplug.shards import DocumentPairs, PairWeight, PairWeighting, Reduction, pair_weights

__all__ = [
    "DocumentPairs",
    "Hinge",
    "PairChoice",
    "PairLoss",
    "PairWeight",
    "PairWeighting",
    "Reduction",
    "Rows",
    "Scope",
    "SmoothedHinge",
    "SquaredHinge",
    "TopLossName",
    "TopProblem",
    "centre_queries",
    "decades_down",
    "decades_up",
    "gamma_range",
    "hinge_objective",
    "largest_squared_norm",
    "make_top_problem",
    "open_pairs",
    "pair_weights",
    "pairwise_c",
    "squared_hinge_objective",
]
