"""The last pass: headers, the small arrays, digests and the manifest."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankplug import __version__
from rankplug.data import even_spans
from rankplug.data.arrays import index_type
from rankplug.io.prepared.digests import Digests
from rankplug.io.prepared.job import Job
from rankplug.io.prepared.journal import State
from rankplug.io.prepared.manifest import FEATURES, MANIFEST, ArrayType, Manifest, ShardSpan
from rankplug.io.prepared.npy import HEADER_BYTES, header, write_array
from rankplug.io.prepared.queries import Order
from rankplug.io.prepared.raw_rows import ROW_PTR, RawRows

__all__ = ["seal"]

_BLOCK_BYTES = 1 << 20


def seal(job: Job, state: State, raw: RawRows, order: Order, names: tuple[str, ...] | None) -> Path:
    """Complete the folder; doing it again does the same. Returns the folder."""
    folder = job.folder / state.folder
    write_array(folder / "query_ptr.npy", order.query_ptr)
    write_array(folder / "query_ids.npy", order.query_ids)
    if job.wish.weight is not None:
        write_array(folder / "query_weight.npy", order.query_weight)
    if raw.layout == "sparse" and state.folder == "rows":
        _write_row_ptr(job.folder / ROW_PTR, folder / "row_ptr.npy", raw)
    types = _types(folder, raw, order)
    for name, (dtype, shape) in types.items():
        with (folder / f"{name}.npy").open("r+b") as stream:
            stream.write(header(dtype, shape))
    manifest = _manifest(job, folder, raw, order, types, names)
    (folder / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    for file in folder.iterdir():
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
    return folder


def _write_row_ptr(source: Path, target: Path, raw: RawRows) -> None:
    """The same numbers, of the type that SciPy wants."""
    ends = np.memmap(source, dtype=np.int64, mode="r")
    index = index_type(raw.n_values, raw.n_features)
    step = _BLOCK_BYTES // ends.itemsize
    with target.open("wb") as stream:
        stream.write(bytes(HEADER_BYTES))
        for begin in range(0, len(ends), step):
            stream.write(ends[begin : begin + step].astype(index).data)


def _types(folder: Path, raw: RawRows, order: Order) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of each array."""
    n, d, q = raw.n_rows, raw.n_features, len(order.query_ids)
    index = np.dtype(index_type(raw.n_values, d)).str
    size = (folder / "values.npy").stat().st_size if raw.layout == "sparse" else 0
    n_values = (size - HEADER_BYTES) // raw.dtype.itemsize
    known = {
        "features": (raw.dtype.str, (n, d)),
        "values": (raw.dtype.str, (n_values,)),
        "columns": (index, (n_values,)),
        "row_ptr": (index, (n + 1,)),
        "relevance": ("<f8", (n,)),
        "query_ptr": ("<i8", (q + 1,)),
        "query_ids": (order.query_ids.dtype.str, (q,)),
        "query_weight": ("<f8", (q,)),
        "order": ("<i8", (n,)),
        "factor": ("<f8", (d,)),
        "shift": ("<f8", (d,)),
    }
    return {name: one for name, one in known.items() if (folder / f"{name}.npy").exists()}


def _manifest(
    job: Job,
    folder: Path,
    raw: RawRows,
    order: Order,
    types: dict[str, tuple[str, tuple[int, ...]]],
    names: tuple[str, ...] | None,
) -> Manifest:
    parts = FEATURES[raw.layout]
    starts = _starts(folder, raw, order)
    size = sum(np.dtype(types[name][0]).itemsize for name in parts)
    digests = Digests(folder, types)
    with job.bar("checking", "B", digests.n_bytes) as bar:
        digests.tell = bar.move_to
        shards = [
            ShardSpan(
                (begin, end),
                (int(order.query_ptr[begin]), int(order.query_ptr[end])),
                (int(starts[begin]), int(starts[end])),
                {name: digests.part(name, int(starts[begin]), int(starts[end])) for name in parts},
            )
            for begin, end in _cut(starts, size, job.wish.shard_bytes)
        ]
        arrays = {
            name: ArrayType(dtype, shape, None if name in parts else digests.whole(name))
            for name, (dtype, shape) in types.items()
        }
    return Manifest(
        n_samples=raw.n_rows,
        n_queries=len(order.query_ids),
        n_features=raw.n_features,
        n_values=int(starts[-1]),
        layout=raw.layout,
        scale=job.wish.scale,
        feature_names=names,
        arrays=arrays,
        shards=tuple(shards),
        sources=job.sources,
        arguments=job.wish.as_json(),
        rankplug=__version__,
    )


def _starts(folder: Path, raw: RawRows, order: Order) -> NDArray[np.int64]:
    """At which stored element each query begins, and the end."""
    if raw.layout == "dense":
        return order.query_ptr * raw.n_features
    row_ptr = np.load(folder / "row_ptr.npy", mmap_mode="r")
    return np.asarray(row_ptr[order.query_ptr], dtype=np.int64)


def _cut(starts: NDArray[np.int64], size: int, shard_bytes: int) -> list[tuple[int, int]]:
    """Runs of queries with about equally many elements, which take `size` bytes each."""
    n_shards = max(1, -(-int(starts[-1]) * size // shard_bytes))
    return even_spans(starts, n_shards)
