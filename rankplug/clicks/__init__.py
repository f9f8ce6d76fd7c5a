"""Clicks: logs of what was shown and clicked, position bias, and data that make up for it.

A log (`ClickLog`) says which documents of a query were shown at which positions, and which were
clicked. `estimate_propensities` tells from it how likely a user looks at each position,
`weigh_clicks` weighs clicks by the inverse, and `WeightedClicks` are data to train on, and
counterfactual metrics of other rankings. `simulate_clicks` makes logs of graded data.
"""

from rankplug.clicks.log import Cells, ClickLog
from rankplug.clicks.propensities import Method, Propensities, estimate_propensities
from rankplug.clicks.simulating import SIMULATION, simulate_clicks
from rankplug.clicks.weighting import COUNTERFACTUAL_METRICS, WeightedClicks, weigh_clicks

__all__ = [
    "COUNTERFACTUAL_METRICS",
    "SIMULATION",
    "Cells",
    "ClickLog",
    "Method",
    "Propensities",
    "WeightedClicks",
    "estimate_propensities",
    "simulate_clicks",
    "weigh_clicks",
]
