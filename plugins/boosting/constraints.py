"""Constraints of boosted trees: which features raise or lower scores, and which may meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankplug.exceptions import ParameterError, nearest
from rankplug.parameters import Integer

CONSTRAINTS = ("monotone_constraints", "interaction_constraints")
"""Parameters of both libraries that depend on the data, and are checked with them."""


def read_constraints(
    given: Mapping[str, Any], feature_names: Sequence[str] | None, n_features: int
) -> dict[str, Any]:
    """Constraints with features by number: one of -1, 0, 1 for each, and lists of numbers.

    Parameters
    ----------
    given : mapping
        ``monotone_constraints`` as a list, one for each feature, or as a mapping of the names of
        columns; ``interaction_constraints`` as lists of numbers or of names. A text goes to the
        library as it is.

    Raises
    ------
    ParameterError
        If a feature does not exist, or there are more or fewer constraints than features.
    """
    names = None if feature_names is None else [str(name) for name in feature_names]
    read = {name: given[name] for name in CONSTRAINTS if given.get(name) is not None}
    monotone = read.get("monotone_constraints")
    if monotone is not None and not isinstance(monotone, str):
        read["monotone_constraints"] = _read_monotone(monotone, names, n_features)
    groups = read.get("interaction_constraints")
    if groups is not None and not isinstance(groups, str):
        if not all(isinstance(one, list | tuple) for one in groups):
            raise ParameterError("interaction_constraints must be lists of features")
        read["interaction_constraints"] = [
            [_feature_number(one, names, n_features, "interaction_constraints") for one in group]
            for group in groups
        ]
    return read


def _read_monotone(given: Any, names: Sequence[str] | None, n_features: int) -> list[int]:
    if isinstance(given, Mapping):
        signs = [0] * n_features
        for name, sign in given.items():
            signs[_feature_number(name, names, n_features, "monotone_constraints")] = sign
    else:
        signs = list(given)
    if len(signs) != n_features:
        raise ParameterError(
            f"monotone_constraints has {len(signs)} values, but there are {n_features} features"
        )
    if not all(Integer(-1, 1).accepts(sign) for sign in signs):
        raise ParameterError(
            f"monotone_constraints={given!r} must be 1 (rising), -1 (falling) or 0 for each feature"
        )
    return [int(sign) for sign in signs]


def _feature_number(given: Any, names: Sequence[str] | None, n_features: int, what: str) -> int:
    if Integer(0, n_features - 1).accepts(given):
        return int(given)
    if isinstance(given, str) and names is not None and given in names:
        return names.index(given)
    if names is None:
        known = f"the features have no names: give numbers from 0 to {n_features - 1}"
    else:
        known = f"no feature of that name{nearest(str(given), names)}"
    raise ParameterError(f"{what}: {given!r}: {known}")
