"""Target: prepared folders: a small one, whose manifest and arrays an input replaces.

An input is the manifest (JSON without its digest), then for each array ``\\n%%NAME\\n`` and the
bytes of its file. Digests are made right again, so that what lies behind them is reached.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from rankplug.exceptions import DataError
from rankplug.io.prepared import open_prepared
from rankplug.io.prepared.manifest import manifest_digest
from tests.long.fuzz.memory import SEPARATOR, one_in

MAX_LENGTH = 4000
ARRAYS = ("features", "values", "columns", "row_ptr", "relevance", "query_ptr", "query_ids")
ARRAYS += ("query_weight", "order", "factor", "shift")
TOKENS = [SEPARATOR, *(name.encode() for name in ARRAYS), b"n_samples", b"n_queries", b"n_values"]
TOKENS += [b"layout", b"dense", b"sparse", b"scale", b"standard", b"none", b"null", b"dtype"]
TOKENS += [b"shape", b"shards", b"rows", b"<f8", b"<f4", b"<i8", b"<i4", b"<U3", b"|O", b"[0, 3]"]
TOKENS += [b"NaN", b"1e999", b"4611686018427387903", b"-1", b"../x", b"sha256", b"feature_names"]


def check(data: bytes, folder: Path) -> None:
    """Refused, or data whose parts fit together."""
    manifest, *parts = data.split(SEPARATOR)
    (folder / "manifest.json").write_bytes(signed(manifest))
    try:
        opened = open_prepared(folder)
    except DataError:
        return
    if not one_in(10, data):
        return
    for name in ARRAYS:
        (folder / f"{name}.npy").unlink(missing_ok=True)
    for part in parts:
        name, _, content = part.partition(b"\n")
        if name.decode("latin-1") in ARRAYS:
            (folder / f"{name.decode()}.npy").write_bytes(content)
    try:
        read = opened.data()
    except DataError:
        return
    assert read.query_ptr[0] == 0
    assert read.query_ptr[-1] == read.n_samples == len(read.relevance)
    assert (np.diff(read.query_ptr) > 0).all()
    assert len(read.query_ids) == read.n_queries
    try:
        shards = [opened.shard(number) for number in range(len(opened.shards))]
    except DataError:
        return
    assert sum(shard.n_samples for shard in shards) == read.n_samples


def signed(manifest: bytes) -> bytes:
    """The manifest with its digest, if it is a JSON object."""
    try:
        content = json.loads(manifest)
        content.pop("sha256", None)
    except (ValueError, RecursionError, AttributeError, TypeError):
        return manifest
    content["sha256"] = manifest_digest(content)
    return json.dumps(content).encode()
