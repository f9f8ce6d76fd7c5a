"""What makes the trials of a study comparable; a study that is resumed must agree."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rankplug.data import RankingData
from rankplug.exceptions import ParameterError
from rankplug.solver import Data

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution

__all__ = ["STUDY_ID", "agreed_distributions", "digest", "plain"]

STUDY_ID = "rankplug.id"
"""Tells a study from others of the same name, wherever they are kept."""

_SETUP = "rankplug.setup"
_SPACE = "rankplug.space"


def agreed_distributions(
    study: Study, setup: Mapping[str, Any], distributions: Mapping[str, BaseDistribution]
) -> dict[str, BaseDistribution]:
    """What the study searches: as it began, and as asked for if it begins now.

    Ranges that were fitted to the data stay what they were, though another machine may round
    them differently. One process at a time may ask.

    Raises
    ------
    ParameterError
        If the study has another setup; every difference is named.
    """
    from optuna.distributions import distribution_to_json, json_to_distribution

    kept = study.user_attrs
    if _SETUP not in kept:
        space = {name: distribution_to_json(one) for name, one in distributions.items()}
        study.set_user_attr(STUDY_ID, uuid.uuid4().hex)
        study.set_user_attr(_SPACE, space)
        study.set_user_attr(_SETUP, dict(setup))
        return dict(distributions)
    other = kept[_SETUP]
    different = [
        f"{key} was {other.get(key)!r} and is {setup.get(key)!r}"
        for key in sorted({*other, *setup})
        if other.get(key) != setup.get(key)
    ]
    if different:
        raise ParameterError(
            f"the study {study.study_name!r} cannot go on with another setup: "
            f"{'; '.join(different)}; give another study_name to begin anew"
        )
    return {name: json_to_distribution(text) for name, text in kept[_SPACE].items()}


def digest(data: Data) -> str:
    """A hash of features, relevance, queries and weights."""
    X = data.X
    parts = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    parts.append(data.relevance)
    if isinstance(data, RankingData):
        parts.append(data.query_ptr)
        if data.query_weight is not None:
            parts.append(data.query_weight)
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        hashed.update(f"{part.dtype}{part.shape}".encode())
        hashed.update(np.ascontiguousarray(part).data)
    return hashed.hexdigest()


def plain(value: Any) -> Any:
    """The value as JSON gives it back; functions and the like by their names."""
    return json.loads(json.dumps(value, default=_name))


def _name(value: Any) -> str:
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return value.item() if isinstance(value, np.generic) else str(value)
