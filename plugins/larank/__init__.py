"""LaRank: multiclass and ranking machines, trained online."""

from rankplug_plugins.larank.patterns import Layout
from rankplug_plugins.larank.solver import LaRank

__all__ = ["LaRank", "Layout"]
