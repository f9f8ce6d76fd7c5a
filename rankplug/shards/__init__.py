"""Shards: contiguous runs of whole queries, in memory, mapped, or on other machines."""

from rankplug.shards.base import Shard
from rankplug.shards.interface import RemoteRankingData, Shards
from rankplug.shards.local import LocalShards, open_shards
from rankplug.shards.matrices import Vector
from rankplug.shards.memory import is_mapped
from rankplug.shards.reductions import PairTotals, Reduction, pair_totals, pair_weights
from rankplug.shards.state import Evaluate, ShardState, changes_state, keeps_state, state_after
from rankplug.shards.weighting import (
    UNIFORM,
    DocumentPairs,
    PairWeight,
    PairWeighting,
    RowFactors,
    weigh_pairs,
)

__all__ = [
    "UNIFORM",
    "DocumentPairs",
    "Evaluate",
    "LocalShards",
    "PairTotals",
    "PairWeight",
    "PairWeighting",
    "Reduction",
    "RemoteRankingData",
    "RowFactors",
    "Shard",
    "ShardState",
    "Shards",
    "Vector",
    "changes_state",
    "is_mapped",
    "keeps_state",
    "open_shards",
    "pair_totals",
    "pair_weights",
    "state_after",
    "weigh_pairs",
]
