"""The catalogue of data sets: functions that make them, by name, with checked parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import UnknownNameError
from rankplug.parameters import Integer, Parameter, check_parameters, require_names

D = TypeVar("D", RankingData, LabelRankingData)
P = ParamSpec("P")

_SEED = Integer(0, 2**32 - 1)  # as in scikit-learn


@dataclass(frozen=True)
class DatasetParts(Generic[D]):
    """The parts of a data set, which share no rows."""

    train: D
    valid: D
    test: D


@dataclass(frozen=True)
class DatasetInfo:
    """A data set that `load` knows: its task, what it is, and the defaults of its parameters."""

    name: str
    task: str
    description: str
    parameters: Mapping[str, Any]


_makers: dict[str, Callable[..., DatasetParts[Any]]] = {}
_infos: dict[str, DatasetInfo] = {}


def data_set(
    name: str, task: str, **allowed: Parameter
) -> Callable[[Callable[P, DatasetParts[D]]], Callable[P, DatasetParts[D]]]:
    """Decorate the function that makes a data set: lists it and checks its keyword arguments.

    `allowed` says what each may be; all data sets have a `seed`.
    """

    def decorate(make: Callable[P, DatasetParts[D]]) -> Callable[P, DatasetParts[D]]:
        defaults: dict[str, Any] = dict(make.__kwdefaults__ or {})

        @wraps(make)
        def checked(*args: P.args, **kwargs: P.kwargs) -> DatasetParts[D]:
            require_names(name, defaults, kwargs)
            check_parameters(name, {**allowed, "seed": _SEED}, {**defaults, **kwargs})
            return make(*args, **kwargs)

        description = (make.__doc__ or "").partition("\n")[0]
        _makers[name] = checked
        _infos[name] = DatasetInfo(name, task, description, defaults)
        return checked

    return decorate


def load(name: str, **params: Any) -> DatasetParts[Any]:
    """Make a data set.

    Parameters
    ----------
    name : str
        One of `names`.
    **params
        Its parameters, such as sizes and `seed`; the same ones always give the same data.

    Returns
    -------
    DatasetParts
        Training, validation and test part.

    Raises
    ------
    UnknownNameError
        If there is no such data set.
    ParameterError
        If it has no such parameter, or a value is not allowed.
    """
    if name not in _makers:
        raise UnknownNameError("data set", name, _makers)
    return _makers[name](**params)


def list_datasets() -> list[DatasetInfo]:
    """All data sets, sorted by name."""
    return [_infos[name] for name in names()]


def names() -> list[str]:
    """The names of all data sets, sorted."""
    return sorted(_infos)


def parameters(name: str) -> Mapping[str, Any]:
    """The parameters of a data set and their defaults; raises `UnknownNameError`."""
    if name not in _infos:
        raise UnknownNameError("data set", name, _infos)
    return _infos[name].parameters
