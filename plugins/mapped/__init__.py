"""Any exact solver on mapped features: leaves of trees, splines, kernels, and the features."""

from rankplug_plugins.mapped.solver import Mapped

__all__ = ["Mapped"]
