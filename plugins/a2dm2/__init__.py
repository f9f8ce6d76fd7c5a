"""Ranking at the top by ADMM and A2DM2."""

from rankplug_plugins.a2dm2.solver import A2dm2TopPush

__all__ = ["A2dm2TopPush"]
