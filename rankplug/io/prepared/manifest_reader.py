"""Reading a manifest: every key, type and size is checked before anything is done with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from rankplug.data import ScaleName
from rankplug.exceptions import DataError
from rankplug.io.prepared.manifest import (
    FEATURES,
    FORMAT,
    MANIFEST,
    VERSION,
    ArrayType,
    Manifest,
    ShardSpan,
    Span,
    manifest_digest,
)
from rankplug.system.safe_files import parse_json

__all__ = ["read_manifest"]

_LARGEST = 2**62
_REQUIRED = ("relevance", "query_ptr", "query_ids")
_TYPES = {
    "features": r"<f[48]",
    "values": r"<f[48]",
    "columns": r"<i[48]",
    "row_ptr": r"<i[48]",
    "relevance": r"<f8",
    "query_ptr": r"<i8",
    "query_ids": r"[<|][iufbUmM]\d+(\[\w+\])?",
    "query_weight": r"<f8",
    "order": r"<i8",
    "factor": r"<f8",
    "shift": r"<f8",
}


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
    try:
        _require_version(content)
        return _parse(content)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None


def _require_version(content: Any) -> None:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError("this is not the manifest of a prepared folder")
    if content.get("version") != VERSION:
        raise DataError(
            f"it is of version {content.get('version')!r}, this rankplug reads version "
            f"{VERSION}: prepare the data again, or update rankplug"
        )
    stated = content.pop("sha256", None)
    if stated != manifest_digest(content):
        raise DataError("it was changed after it was written: prepare the data again")


def _parse(content: dict[str, Any]) -> Manifest:
    keys = {"format", "version", *Manifest.__dataclass_fields__}
    _require(set(content) == keys, "keys are missing or unknown")
    counts = [content[name] for name in ("n_samples", "n_queries", "n_features", "n_values")]
    _require(all(map(_is_count, counts)) and 0 not in counts[:3], "sizes must be positive")
    _require(content["layout"] in FEATURES, f"unknown layout {content['layout']!r}")
    _require(content["scale"] in get_args(ScaleName), f"unknown scale {content['scale']!r}")
    _require(isinstance(content["rankplug"], str), "the version of rankplug is no text")
    _require(isinstance(content["arguments"], dict), "the arguments are no mapping")
    manifest = Manifest(
        n_samples=content["n_samples"],
        n_queries=content["n_queries"],
        n_features=content["n_features"],
        n_values=content["n_values"],
        layout=content["layout"],
        scale=content["scale"],
        feature_names=_names(content["feature_names"], content["n_features"]),
        arrays=_arrays(content["arrays"]),
        shards=tuple(map(_shard, _items(content["shards"], "shards", dict))),
        sources=tuple(_items(content["sources"], "sources", dict)),
        arguments=content["arguments"],
        rankplug=content["rankplug"],
    )
    _require_arrays(manifest)
    _require_shards(manifest)
    return manifest


def _require(right: bool, what: str) -> None:
    if not right:
        raise DataError(f"it is damaged: {what}")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _items(value: Any, what: str, kind: type) -> list[Any]:
    right = isinstance(value, list) and all(isinstance(one, kind) for one in value)
    _require(right, f"{what} are no list")
    return list(value)


def _names(value: Any, n_features: int) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = _items(value, "feature names", str)
    _require(len(names) == n_features, f"{len(names)} names of {n_features} features")
    return tuple(names)


def _arrays(value: Any) -> dict[str, ArrayType]:
    _require(isinstance(value, dict), "the arrays are no mapping")
    found = {}
    for name, one in value.items():
        _require(name in _TYPES, f"unknown array {name!r}")
        right = isinstance(one, dict) and set(one) == {"dtype", "shape", "sha256"}
        _require(right, f"array {name!r} is not described")
        dtype, shape, digest = one["dtype"], one["shape"], one["sha256"]
        right = isinstance(dtype, str) and re.fullmatch(_TYPES[name], dtype) is not None
        _require(right and _is_dtype(dtype), f"array {name!r} cannot be of type {dtype!r}")
        right = isinstance(shape, list) and all(map(_is_count, shape))
        _require(right, f"array {name!r} cannot be of shape {shape!r}")
        of_shards = name in (*FEATURES["dense"], *FEATURES["sparse"])
        right = digest is None if of_shards else _is_digest(digest)
        _require(right, f"array {name!r} has no digest")
        found[name] = ArrayType(dtype, tuple(shape), digest)
    return found


def _is_dtype(text: str) -> bool:
    try:
        return np.dtype(text).str == text
    except (TypeError, ValueError):
        return False


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _shard(value: dict[str, Any]) -> ShardSpan:
    _require(set(value) == {"queries", "rows", "values", "sha256"}, "a shard is not described")
    digests = value["sha256"]
    right = isinstance(digests, dict) and all(map(_is_digest, digests.values()))
    _require(right, "a shard has no digests")
    queries, rows, values = (_span(value[axis]) for axis in ("queries", "rows", "values"))
    return ShardSpan(queries, rows, values, digests)


def _span(value: Any) -> Span:
    right = isinstance(value, list) and len(value) == 2 and all(map(_is_count, value))
    _require(right and value[0] <= value[1], f"a shard cannot reach over {value!r}")
    return value[0], value[1]


def _require_arrays(manifest: Manifest) -> None:
    n, q, d, v = manifest.n_samples, manifest.n_queries, manifest.n_features, manifest.n_values
    shapes: dict[str, tuple[int, ...]] = {
        "features": (n, d),
        "values": (v,),
        "columns": (v,),
        "row_ptr": (n + 1,),
        "relevance": (n,),
        "query_ptr": (q + 1,),
        "query_ids": (q,),
        "query_weight": (q,),
        "order": (n,),
        "factor": (d,),
        "shift": (d,),
    }
    needed = {*FEATURES[manifest.layout], *_REQUIRED}
    if manifest.layout == "sparse":
        needed.add("row_ptr")
    if manifest.scale != "none":
        needed.add("factor")
    if manifest.scale in ("standard", "minmax"):
        needed.add("shift")
    allowed = needed | {"query_weight", "order"}
    present = set(manifest.arrays)
    _require(needed <= present <= allowed, "arrays are missing or do not belong there")
    for name, one in manifest.arrays.items():
        _require(one.shape == shapes[name], f"array {name!r} cannot be of shape {one.shape}")
    if manifest.layout == "sparse":
        same = manifest.arrays["columns"].dtype == manifest.arrays["row_ptr"].dtype
        _require(same, "the index arrays are of different types")
    else:
        _require(v == n * d, f"{n} x {d} dense features are not {v} elements")


def _require_shards(manifest: Manifest) -> None:
    ends = (manifest.n_queries, manifest.n_samples, manifest.n_values)
    names = FEATURES[manifest.layout]
    for axis, end in zip(("queries", "rows", "values"), ends, strict=True):
        _require(_covers([getattr(one, axis) for one in manifest.shards], end), "shards have gaps")
    right = all(set(one.sha256) == set(names) for one in manifest.shards)
    _require(right, "a shard has no digests")


def _covers(spans: Sequence[Span], end: int) -> bool:
    """Whether each span begins where the one before ended, from 0 to the end."""
    bounds = [bound for span in spans for bound in span]
    return bool(bounds) and bounds[::2] == [0, *bounds[1:-1:2]] and bounds[-1] == end
