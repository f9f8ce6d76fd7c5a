"""Label ranking by soft projections."""

from rankplug_plugins.sopopo.solver import Sopopo

__all__ = ["Sopopo"]
