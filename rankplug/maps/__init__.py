"""Feature maps: columns that linear rankers can weigh, from leaves of trees to splines."""

from rankplug.maps.base import FeatureMap, FittedMap, Fitting
from rankplug.maps.joined import FittedJoin, JoinedMap, pack, unpack
from rankplug.maps.model import MappedModel
from rankplug.maps.registry import MapInfo, MapSpec, list_maps, make_map, map_class

__all__ = [
    "FeatureMap",
    "FittedJoin",
    "FittedMap",
    "Fitting",
    "JoinedMap",
    "MapInfo",
    "MapSpec",
    "MappedModel",
    "list_maps",
    "make_map",
    "map_class",
    "pack",
    "unpack",
]
