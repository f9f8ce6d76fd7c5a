"""Multiclass and ranking machines, trained online."""

from rankplug_plugins.larank.solver import LaRank

__all__ = ["LaRank"]
