"""The manifest of a prepared folder: what its arrays are, and how they divide into shards.

Names of files do not stand in it: every array has its own, fixed one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rankplug.data import ScaleName

__all__ = [
    "FEATURES",
    "FORMAT",
    "MANIFEST",
    "VERSION",
    "ArrayType",
    "Manifest",
    "ShardSpan",
    "Span",
    "manifest_digest",
]

MANIFEST = "manifest.json"
FEATURES: Mapping[str, tuple[str, ...]] = {"dense": ("features",), "sparse": ("values", "columns")}
"""The arrays of the features by layout; a shard's part of them has a digest of its own."""

FORMAT = "rankplug prepared data"
VERSION = 1

Span = tuple[int, int]


@dataclass(frozen=True)
class ShardSpan:
    """A contiguous run of whole queries.

    Attributes
    ----------
    queries, rows, values : tuple of two int
        Begin and end (exclusive) among all queries, rows, and stored elements of X.
    sha256 : mapping
        By array of the features, the digest of the shard's part of it.
    """

    queries: Span
    rows: Span
    values: Span
    sha256: Mapping[str, str]

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.queries[1] - self.queries[0]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows[1] - self.rows[0]

    @property
    def n_values(self) -> int:
        """Number of stored elements of X."""
        return self.values[1] - self.values[0]


@dataclass(frozen=True)
class ArrayType:
    """Type and shape of an array, and the digest of its content; shards have those of features."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str | None


@dataclass(frozen=True)
class Manifest:
    """What a prepared folder holds.

    Attributes
    ----------
    n_samples, n_queries, n_features : int
    n_values : int
        Stored elements of X.
    layout : "dense" or "sparse"
    scale : "none", "standard", "minmax" or "maxabs"
    feature_names : tuple of str or None
    arrays : mapping of ArrayType
    shards : tuple of ShardSpan
    sources : tuple of dict
        Path, size and time of change of the files it was made from.
    arguments : mapping
        What `rankplug.prepare` was called with.
    rankplug : str
        Version of the package that made it.
    """

    n_samples: int
    n_queries: int
    n_features: int
    n_values: int
    layout: Literal["dense", "sparse"]
    scale: ScaleName
    feature_names: tuple[str, ...] | None
    arrays: Mapping[str, ArrayType]
    shards: tuple[ShardSpan, ...]
    sources: tuple[Mapping[str, Any], ...]
    arguments: Mapping[str, Any]
    rankplug: str

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features."""
        return np.dtype(self.arrays[FEATURES[self.layout][0]].dtype)

    def to_json(self) -> str:
        """The text of the file, its own digest included."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "rankplug": self.rankplug,
            "n_samples": self.n_samples,
            "n_queries": self.n_queries,
            "n_features": self.n_features,
            "n_values": self.n_values,
            "layout": self.layout,
            "scale": self.scale,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "arrays": {
                name: {"dtype": one.dtype, "shape": list(one.shape), "sha256": one.sha256}
                for name, one in self.arrays.items()
            },
            "shards": [
                {
                    "queries": list(one.queries),
                    "rows": list(one.rows),
                    "values": list(one.values),
                    "sha256": dict(one.sha256),
                }
                for one in self.shards
            ],
            "sources": [dict(source) for source in self.sources],
            "arguments": dict(self.arguments),
        }
        content["sha256"] = manifest_digest(content)
        return json.dumps(content, indent=1) + "\n"


def manifest_digest(content: Mapping[str, Any]) -> str:
    """The digest of everything else that stands in a manifest."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
