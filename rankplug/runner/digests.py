"""Digests of a run: hashes of recipe, data and results, and the versions of packages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankplug.recipe import Recipe
from rankplug.report import Outcome
from rankplug.runner.splits import Splits
from rankplug.solver import Data

__all__ = ["data_digest", "digests"]

# Those whose results may differ from version to version.
_PACKAGES = ("rankplug", "numpy", "scipy", "scikit-learn", "xgboost", "optuna")
_HEX_DIGITS = 32  # half of SHA-256: no two data sets meet by chance, and a line holds it


def digests(recipe: Recipe, splits: Splits, outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Digests of recipe, data and results, and the versions of the packages.

    Two runs with the same digests of recipe and data, and the same versions, should have the
    same digest of the results, which are the test metrics of all solvers by query.
    """
    seeds = (recipe.seed,) if recipe.compare is None else recipe.compare.seeds or (recipe.seed,)
    known = {
        "recipe": _digest(recipe.to_yaml().encode()),
        **{f"{split} data": data_digest(data) for split, data in splits.items()},
        "seed": ", ".join(map(str, seeds)),
    }
    known |= {package: version(package) for package in _PACKAGES}
    return known | {"results": _digest(*_results(outcomes))}


def data_digest(data: Data) -> str:
    """A hash of features, relevance and queries: 32 hexadecimal digits.

    The same numbers in another form (sparse, float32) have another digest.
    """
    return _digest(*(part for array in _arrays(data) for part in _bytes(array)))


def _results(outcomes: Iterable[Outcome]) -> Iterator[Any]:
    for outcome in outcomes:
        for metric, values in outcome.per_query.items():
            yield f"{outcome.name} {metric} ".encode()
            yield from _bytes(values)


def _bytes(array: NDArray[Any]) -> Iterator[Any]:
    yield f"{array.dtype.str} {array.shape} ".encode()
    yield np.ascontiguousarray(array).data


def _digest(*parts: Any) -> str:
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest()[:_HEX_DIGITS]


def _arrays(data: Data) -> list[NDArray[Any]]:
    X: Any = data.X
    features = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]
    return [*features, *data.structure, data.relevance]
