"""The manifest of a prepared folder: its arrays and shards, checked strictly when it is read.

Names of files do not stand in it: every array has its own, fixed one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from rankplug.data import ScaleName
from rankplug.exceptions import DataError
from rankplug.system.files import parse_json

MANIFEST = "manifest.json"
FEATURES: Mapping[str, tuple[str, ...]] = {"dense": ("features",), "sparse": ("values", "columns")}
"""The arrays of the features by layout; a shard's part of them has a digest of its own."""

_FORMAT = "rankplug prepared data"
_VERSION = 1

_FEATURE_ARRAYS = {name for names in FEATURES.values() for name in names}
_REQUIRED = {"relevance", "query_ptr", "query_ids"}
TYPES = {
    "features": r"<f[48]",
    "values": r"<f[48]",
    "columns": r"<i[48]",
    "row_ptr": r"<i[48]",
    "relevance": r"<f8",
    "query_ptr": r"<i8",
    "query_ids": r"[<|][iufbUSmM]\d+(\[\w+\])?",
    "query_weight": r"<f8",
    "document_weight": r"<f8",
    "order": r"<i8",
    "factor": r"<f8",
    "shift": r"<f8",
}
"""What the type of each array may be, as a regular expression."""

# What is wrong where a value is not of its type, by its place; * is an array's name or a shard's
# number.
_WRONG: Mapping[tuple[Any, ...], str] = {
    (): "keys are missing or unknown",
    ("rankplug",): "the version of rankplug is no text",
    **dict.fromkeys(
        [("n_samples",), ("n_queries",), ("n_features",), ("n_values",)], "sizes must be positive"
    ),
    ("layout",): "unknown layout {value!r}",
    ("scale",): "unknown scale {value!r}",
    ("missing",): "missing is neither true nor false",
    ("feature_names",): "feature names are no list",
    ("arrays",): "the arrays are no mapping",
    ("arrays", "*"): "array {name!r} is not described",
    ("arrays", "*", "[key]"): "unknown array {name!r}",
    ("arrays", "*", "dtype"): "array {name!r} cannot be of type {value!r}",
    ("arrays", "*", "shape"): "array {name!r} cannot be of shape {value!r}",
    ("arrays", "*", "sha256"): "array {name!r} has no digest",
    ("shards",): "shards are no list",
    ("shards", "*"): "a shard is not described",
    **dict.fromkeys(
        [("shards", "*", axis) for axis in ("queries", "rows", "values")],
        "a shard cannot reach over {value!r}",
    ),
    ("shards", "*", "sha256"): "a shard has no digests",
    ("sources",): "sources are no list",
    ("arguments",): "the arguments are no mapping",
}

# Sums and differences of two counts still fit 64 bits.
_Count = Annotated[int, Field(ge=0, lt=2**62)]
_Positive = Annotated[int, Field(ge=1, lt=2**62)]
_ArrayName = Annotated[str, Field(pattern=f"^({'|'.join(TYPES)})$")]
_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
# JSON has lists only, which a strict tuple would refuse; what they hold is checked strictly.
_Span = Annotated[tuple[_Count, _Count], Field(strict=False)]
_Shape = Annotated[tuple[_Count, ...], Field(strict=False)]
_Names = Annotated[tuple[str, ...], Field(strict=False)]


class _Strict(BaseModel):
    """Values of just these types, converted from nothing else, and no others beside them."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ShardSpan(_Strict):
    """A contiguous run of whole queries.

    Attributes
    ----------
    queries, rows, values : tuple of two int
        Begin and end (exclusive) among all queries, rows, and stored elements of X.
    sha256 : dict
        By array of the features, the digest of the shard's part of it.
    """

    queries: _Span
    rows: _Span
    values: _Span
    sha256: dict[str, _Digest]


class ArrayType(_Strict):
    """Type and shape of an array, and the digest of its content; shards have those of features."""

    dtype: str
    shape: _Shape
    sha256: _Digest | None


class Manifest(_Strict):
    """What a prepared folder holds.

    Attributes
    ----------
    rankplug : str
        Version of the package that made it.
    n_samples, n_queries, n_features : int
    n_values : int
        Stored elements of X.
    layout : "dense" or "sparse"
    scale : "none", "standard", "minmax" or "maxabs"
    missing : bool
        Whether some features are missing (NaN); written only if so, as 0.1 did not know it.
    feature_names : tuple of str or None
    arrays : dict of ArrayType
    shards : tuple of ShardSpan
    sources : tuple of dict
        Path, size and time of change of the files it was made from.
    arguments : dict
        What `rankplug.prepare` was called with.
    """

    rankplug: str
    n_samples: _Positive
    n_queries: _Positive
    n_features: _Positive
    n_values: _Count
    layout: Literal["dense", "sparse"]
    scale: ScaleName
    missing: bool = False
    feature_names: _Names | None
    arrays: dict[_ArrayName, ArrayType]
    shards: Annotated[tuple[ShardSpan, ...], Field(strict=False)]
    sources: Annotated[tuple[dict[str, Any], ...], Field(strict=False)]
    arguments: dict[str, Any]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features."""
        return np.dtype(self.arrays[FEATURES[self.layout][0]].dtype)

    def to_json(self) -> str:
        """The text of the file, its own digest included."""
        content = {"format": _FORMAT, "version": _VERSION, **self.model_dump()}
        if not self.missing:
            del content["missing"]
        content["sha256"] = manifest_digest(content)
        return json.dumps(content, indent=1) + "\n"

    @field_validator("arrays")
    @classmethod
    def _have_their_types(cls, arrays: dict[str, ArrayType]) -> dict[str, ArrayType]:
        for name, array in arrays.items():
            right = re.fullmatch(TYPES[name], array.dtype) is not None and _is_dtype(array.dtype)
            _require(right, f"array {name!r} cannot be of type {array.dtype!r}")
            right = (array.sha256 is None) == (name in _FEATURE_ARRAYS)
            _require(right, f"array {name!r} has no digest")
        return arrays

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        n, d, names = self.n_samples, self.n_features, self.feature_names
        _require(names is None or len(names) == d, f"{len(names or ())} names of {d} features")
        self._require_arrays()
        if self.layout == "sparse":
            same = self.arrays["columns"].dtype == self.arrays["row_ptr"].dtype
            _require(same, "the index arrays are of different types")
        else:
            right = self.n_values == n * d
            _require(right, f"{n} x {d} dense features are not {self.n_values} elements")
        for axis, end in {"queries": self.n_queries, "rows": n, "values": self.n_values}.items():
            spans = [getattr(shard, axis) for shard in self.shards]
            for begin, stop in spans:
                _require(begin <= stop, f"a shard cannot reach over [{begin}, {stop}]")
            _require(_covers(spans, end), "shards have gaps")
        right = all(set(shard.sha256) == set(FEATURES[self.layout]) for shard in self.shards)
        _require(right, "a shard has no digests")
        return self

    def _require_arrays(self) -> None:
        shapes = array_shapes(self.n_samples, self.n_queries, self.n_features, self.n_values)
        needed = {*FEATURES[self.layout], *_REQUIRED}
        if self.layout == "sparse":
            needed.add("row_ptr")
        if self.scale != "none":
            needed.add("factor")
        if self.scale in ("standard", "minmax"):
            needed.add("shift")
        right = needed <= set(self.arrays) <= needed | {"query_weight", "document_weight", "order"}
        _require(right, "arrays are missing or do not belong there")
        for name, array in self.arrays.items():
            right = array.shape == shapes[name]
            _require(right, f"array {name!r} cannot be of shape {array.shape}")


def array_shapes(n: int, q: int, d: int, v: int) -> dict[str, tuple[int, ...]]:
    """The shapes of all arrays that there may be of n rows, q queries, d features, v elements."""
    return {
        "features": (n, d),
        "values": (v,),
        "columns": (v,),
        "row_ptr": (n + 1,),
        "relevance": (n,),
        "query_ptr": (q + 1,),
        "query_ids": (q,),
        "query_weight": (q,),
        "document_weight": (n,),
        "order": (n,),
        "factor": (d,),
        "shift": (d,),
    }


def manifest_digest(content: Mapping[str, Any]) -> str:
    """The digest of everything else that stands in a manifest."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder, checked.

    Raises
    ------
    DataError
        If it is missing, damaged, changed or of another version.
    """
    file = folder / MANIFEST
    try:
        content = parse_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(
            f"{folder} is not a prepared folder, it has no {MANIFEST}: make one with "
            "'rankplug prepare', or name a file"
        ) from None
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError:
        raise DataError(f"{file} is damaged: it is not JSON") from None
    _require_unchanged(file, content)
    try:
        return Manifest.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{file}: it is damaged: {_what_is_wrong(error, content)}") from None


def _require_unchanged(file: Path, content: Any) -> None:
    """Check what names and signs a manifest, and take it away."""
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        raise DataError(f"{file}: this is not the manifest of a prepared folder")
    version = content.pop("version", None)
    if version != _VERSION:
        raise DataError(
            f"{file}: it is of version {version!r}, this rankplug reads version "
            f"{_VERSION}: prepare the data again, or update rankplug"
        )
    stated = content.pop("sha256", None)
    if stated != manifest_digest({"format": _FORMAT, "version": version, **content}):
        raise DataError(f"{file}: it was changed after it was written: prepare the data again")


def _what_is_wrong(error: ValidationError, content: Any) -> str:
    """The first of the errors in words, by the innermost place that `_WRONG` knows."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    at = first["loc"][:-1] if first["type"] in ("missing", "extra_forbidden") else first["loc"]
    while (text := _WRONG.get((*at[:1], *("*" for _ in at[1:2]), *at[2:]))) is None:
        at = at[:-1]
    for key in at if "[key]" not in at[2:] else ():
        content = content[key]
    return text.format(name=at[1] if len(at) > 1 else None, value=content)


def _require(right: bool, what: str) -> None:
    if not right:
        raise ValueError(what)


def _covers(spans: Sequence[tuple[int, int]], end: int) -> bool:
    """Whether each span begins where the one before ended, from 0 to the end."""
    bounds = [bound for span in spans for bound in span]
    return bool(bounds) and bounds[::2] == [0, *bounds[1:-1:2]] and bounds[-1] == end


def _is_dtype(text: str) -> bool:
    try:
        return np.dtype(text).str == text
    except (TypeError, ValueError):
        return False
