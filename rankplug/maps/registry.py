"""Maps by name, found by the entry-point group ``rankplug.maps``, and joined by ``+``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from rankplug.display import Listing
from rankplug.exceptions import ParameterError
from rankplug.maps.base import FeatureMap
from rankplug.maps.joined import JoinedMap
from rankplug.parameters import require_names
from rankplug.system.plugins import PluginGroup, find_fault

MapSpec: TypeAlias = "str | FeatureMap | Mapping[str, Any] | Sequence[Any]"
"""A name, names joined by ``+``, a map, ``{name: parameters}``, or a list of any of these."""


@dataclass(frozen=True)
class MapInfo:
    """A registered map: what columns it makes, whether it can be used here, else why not."""

    name: str
    tasks: tuple[str, ...]
    summary: str
    available: bool
    reason: str | None
    package: str | None


def list_maps() -> list[MapInfo]:
    """All registered feature maps, sorted by name; those that cannot be used say why."""
    maps = []
    for name, cls, reason, package in _MAPS.survey():
        tasks, summary = ((), "") if cls is None else (cls.tasks, cls.summary)
        maps.append(MapInfo(name, tasks, summary, reason is None, reason, package))
    return Listing(maps, ("name", "tasks", "available", "summary", "reason"))


def make_map(spec: MapSpec, **params: Any) -> FeatureMap:
    """Make a map of features.

    Parameters
    ----------
    spec : str, FeatureMap, mapping or sequence
        A registered name, such as "leaves"; several names, as in "leaves + identity"; a mapping of
        names to parameters; a map, which is returned; or a list of these, which are joined.
    **params
        Parameters of a single map.

    Raises
    ------
    UnknownNameError
        If no map has that name.
    SolverUnavailableError
        If the map cannot be imported or misses a package.
    ParameterError
        If it has no such parameter, or a specification is none of these.

    Examples
    --------
    >>> make_map("leaves", n_estimators=50)
    LeavesMap(n_estimators=50)
    >>> make_map({"splines": {"n_knots": 8}, "identity": {}})
    JoinedMap(maps=[SplinesMap(n_knots=8), IdentityMap()])
    """
    maps = list(_read(spec))
    if not maps:
        raise ParameterError("an empty list of maps: name at least one, such as 'identity'")
    if len(maps) > 1:
        names = [one.name for one in maps]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ParameterError(f"the map {', '.join(sorted(twice))} is named more than once")
        if params:
            raise ParameterError(
                "parameters are those of one map: give them by name, as in "
                f"{{'{names[0]}': {{...}}, '{names[1]}': {{...}}}}"
            )
        return JoinedMap(maps)
    require_names(f"map {maps[0].name}", maps[0].get_params(), params)
    return maps[0].set_params(**params)


def map_class(name: str) -> type[FeatureMap]:
    """The class of a map by its registered name; raises as `make_map`."""
    return cast(type[FeatureMap], _MAPS.find_usable(name))


def _read(spec: Any) -> list[FeatureMap]:
    if isinstance(spec, JoinedMap):
        return list(spec.maps)
    if isinstance(spec, FeatureMap):
        return [spec]
    if isinstance(spec, str):
        return [map_class(name.strip())() for name in spec.split("+")]
    if isinstance(spec, Mapping):
        return [_make(str(name), params) for name, params in spec.items()]
    if isinstance(spec, Sequence):
        return [one for part in spec for one in _read(part)]
    raise ParameterError(
        f"map={spec!r} must be a name such as 'leaves', names joined by '+', a FeatureMap, a "
        "mapping of names to parameters, or a list of these"
    )


def _make(name: str, params: Any) -> FeatureMap:
    given = {} if params is None else params
    if not isinstance(given, Mapping):
        raise ParameterError(f"map {name!r}: parameters must be a mapping, not {params!r}")
    made = map_class(name)()
    require_names(f"map {name}", made.get_params(), given)
    return made.set_params(**given)


def _find_fault(cls: Any, name: str) -> str | None:
    """What keeps a plugin's class from being a map of that name."""
    return find_fault(cls, name, FeatureMap, "rankplug.maps.FeatureMap")


_MAPS = PluginGroup("rankplug.maps", "map", _find_fault, lambda cls: cls.requires)
