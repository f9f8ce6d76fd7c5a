"""Attributes of scikit-learn's objects, living or read from a file, checked as they are taken."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

_MOST_FEATURES = 2**31  # as many as indices of 32 bits tell apart


@dataclass(frozen=True, eq=False)
class Part:
    """An object of scikit-learn: the name of its type with its module, and its attributes."""

    name: str
    state: Mapping[str, Any] = field(repr=False)


def part_of(value: Any) -> Part:
    """An object's type and attributes."""
    if isinstance(value, Part):
        return value
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name == "sklearn.tree._tree.Tree":
        return Part(name, value.__getstate__())
    return Part(name, getattr(value, "__dict__", {}))


def kind_of(part: Part) -> str:
    """The name of scikit-learn's class; of other packages with the module."""
    package, _, rest = part.name.partition(".")
    return rest.rpartition(".")[2] if package == "sklearn" else part.name


def attribute(part: Part, name: str) -> Any:
    """What the object holds under this name; raises `ValueError` if nothing."""
    if name not in part.state:
        raise ValueError(f"{kind_of(part)} has no {name}: it is not fitted")
    return part.state[name]


def count_features(part: Part) -> int:
    """The number of features that it was fitted to."""
    count = attribute(part, "n_features_in_")
    if not isinstance(count, int | np.integer) or isinstance(count, bool):
        raise ValueError("n_features_in_ is no number")
    if not 0 < count < _MOST_FEATURES:
        raise ValueError(f"{count} features")
    return int(count)


def numbers(part: Part, name: str, *shape: int) -> NDArray[np.float64]:
    """A finite array of this shape, -1 for any length."""
    value = attribute(part, name)
    array = value.toarray() if sparse.issparse(value) else np.asarray(value)
    fits = array.ndim == len(shape) and all(
        wanted in (-1, size) for wanted, size in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype.kind not in "fiu":
        raise ValueError(f"{kind_of(part)}.{name} has a wrong shape or type")
    array = array.astype(np.float64, order="C")
    if not np.isfinite(array).all():
        raise ValueError(f"{kind_of(part)}.{name} holds NaN or infinity")
    return array


def number(part: Part, name: str) -> float:
    """One finite number, by itself or in an array."""
    value = np.asarray(attribute(part, name))
    if value.size != 1 or value.dtype.kind not in "fiu":
        raise ValueError(f"{kind_of(part)}.{name} is no number")
    found = float(value.ravel()[0])
    if not math.isfinite(found):
        raise ValueError(f"{kind_of(part)}.{name} is {found}")
    return found


def require_one_output(part: Part, name: str) -> None:
    """Raise `ValueError` if it says that a row has several predictions."""
    if part.state.get(name, 1) != 1 or isinstance(part.state.get(name), bool):
        raise ValueError(f"{kind_of(part)} predicts more than one number for each row")
