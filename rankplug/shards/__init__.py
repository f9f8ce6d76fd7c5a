"""Shards: contiguous runs of whole queries, in memory, mapped, or on other machines."""

from rankplug.shards.base import Evaluate, Shard, ShardState
from rankplug.shards.local import LocalShards, Shards, open_shards
from rankplug.shards.reductions import Reduction, pair_weights
from rankplug.shards.remote import RemoteRankingData

__all__ = [
    "Evaluate",
    "LocalShards",
    "Reduction",
    "RemoteRankingData",
    "Shard",
    "ShardState",
    "Shards",
    "open_shards",
    "pair_weights",
]
