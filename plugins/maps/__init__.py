"""Maps of features: leaves of trees, piecewise linear functions, kernels, and the features."""

from rankplug_plugins.maps.additive import IdentityMap, SplinesMap
from rankplug_plugins.maps.kernels import FourierMap, NystroemMap
from rankplug_plugins.maps.leaves import LeavesMap

__all__ = ["FourierMap", "IdentityMap", "LeavesMap", "NystroemMap", "SplinesMap"]
