"""Shards: contiguous runs of whole queries, in memory, mapped, or on other machines."""

from rankplug.shards.base import Shard
from rankplug.shards.interface import RemoteRankingData, Shards
from rankplug.shards.local import LocalShards, open_shards
from rankplug.shards.matrices import Vector
from rankplug.shards.memory import is_mapped
from rankplug.shards.reductions import PairTotals, Reduction, pair_totals, pair_weights
from rankplug.shards.state import Evaluate, ShardState, changes_state, keeps_state, state_after

__all__ = [
    "Evaluate",
    "LocalShards",
    "PairTotals",
    "Reduction",
    "RemoteRankingData",
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
]
