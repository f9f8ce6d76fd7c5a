"""The last passes of a preparation: rows in their final order and form, then what seals a folder.

`arrange` brings rows together by query, in one form, and scales them; it is left out where the
rows were read like that. `seal` adds the headers, the small arrays, digests and the manifest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from rankplug.data import Matrix, ScaleName, Scaling, even_spans, fit_scaling_to_blocks
from rankplug.data.arrays import index_type
from rankplug.io.prepared.job import Job, State
from rankplug.io.prepared.manifest import (
    FEATURES,
    MANIFEST,
    TYPES,
    ArrayType,
    Manifest,
    ShardSpan,
    array_shapes,
)
from rankplug.io.prepared.npy import (
    HEADER_BYTES,
    ArrayTypes,
    Digests,
    GrowingFiles,
    header,
    write_array,
)
from rankplug.io.prepared.queries import Order
from rankplug.io.prepared.raw_rows import ROW_PTR, RawRows

_BLOCK_ELEMENTS = 1 << 21  # 16 MB as float64, of which a few copies are in memory at a time
_COPY_BYTES = 1 << 20
_FOLDER = "arranged"


def needs_arranging(raw: RawRows, order: Order, scale: ScaleName) -> bool:
    """Whether the rows as they were read are not what is to be kept."""
    return order.moves or scale != "none" or not raw.is_final


def arrange(job: Job, state: State, raw: RawRows, order: Order) -> State:
    """Write the rows in their final order and form; goes on where it was interrupted."""
    folder = job.folder / _FOLDER
    folder.mkdir(exist_ok=True)
    scaling = _fit_or_load_scaling(job, state, raw, folder)
    of_rows = {
        path.name: np.memmap(path, dtype=np.float64, mode="r", offset=HEADER_BYTES)
        for name in ("relevance", "document_weight")
        if (path := job.folder / "rows" / f"{name}.npy").exists()
    }
    with (
        GrowingFiles(job.folder, state.sizes) as files,
        job.bar("arranging", "row", raw.n_rows, state.arranged) as bar,
    ):
        for begin, end in _blocks(raw, state.arranged):
            rows = order.rows(begin, end)
            X = raw.take(rows)
            _append(files, X if scaling is None else scaling.apply(X), raw)
            for name, values in of_rows.items():
                files.append(f"{_FOLDER}/{name}", values[rows])
            if order.moves:
                files.append(f"{_FOLDER}/order.npy", rows)
            state = replace(state, arranged=end)
            bar.move_to(end)
            if files.should_be_saved:
                state = job.save(state, files)
        return job.save(replace(state, folder="arranged", phase="seal"), files)


def _append(files: GrowingFiles, X: Matrix, raw: RawRows) -> None:
    if isinstance(X, np.ndarray):
        files.append(f"{_FOLDER}/features.npy", X)
        return
    sparse: Any = X
    index = index_type(raw.n_values, raw.n_features)
    if files.length(f"{_FOLDER}/row_ptr.npy") == 0:
        files.append(f"{_FOLDER}/row_ptr.npy", np.zeros(1, dtype=index))
    known = files.n_elements(f"{_FOLDER}/values.npy", sparse.data.itemsize)
    files.append(f"{_FOLDER}/row_ptr.npy", (sparse.indptr[1:] + np.int64(known)).astype(index))
    files.append(f"{_FOLDER}/values.npy", sparse.data)
    files.append(f"{_FOLDER}/columns.npy", sparse.indices.astype(index, copy=False))


def _fit_or_load_scaling(job: Job, state: State, raw: RawRows, folder: Path) -> Scaling | None:
    """Found by reading all rows, or read again where rows were scaled already."""
    scale = job.arguments.scale
    if scale == "none":
        return None
    files = {name: folder / f"{name}.npy" for name in ("shift", "factor")}
    if state.arranged:
        shift = np.load(files["shift"]) if files["shift"].exists() else None
        return Scaling(shift, np.load(files["factor"]))
    scaling = fit_scaling_to_blocks(_measure(job, raw), scale)
    if scaling is not None:
        write_array(files["factor"], scaling.factor)
        if scaling.shift is not None:
            write_array(files["shift"], scaling.shift)
    return scaling


def _measure(job: Job, raw: RawRows) -> Iterator[Matrix]:
    with job.bar("measuring", "row", raw.n_rows) as bar:
        for begin, end in _blocks(raw, 0):
            yield raw.take(np.arange(begin, end))
            bar.move_to(end)


def _blocks(raw: RawRows, start: int) -> Iterator[tuple[int, int]]:
    """Spans of rows from the given one on, which another version may have chosen."""
    mean = max(raw.n_values // max(raw.n_rows, 1), 1)
    if raw.layout == "dense":
        mean = raw.n_features
    step = max(1, _BLOCK_ELEMENTS // mean)
    for begin in range(start, raw.n_rows, step):
        yield begin, min(begin + step, raw.n_rows)


def seal(
    job: Job,
    state: State,
    raw: RawRows,
    order: Order,
    names: tuple[str, ...] | None,
    *,
    weighted: bool,
) -> Path:
    """Complete the folder; doing it again does the same. Returns the folder."""
    folder = job.folder / state.folder
    write_array(folder / "query_ptr.npy", order.query_ptr)
    write_array(folder / "query_ids.npy", order.query_ids)
    if weighted:
        write_array(folder / "query_weight.npy", order.query_weight)
    if raw.layout == "sparse" and state.folder == "rows":
        _write_row_ptr(job.folder / ROW_PTR, folder / "row_ptr.npy", raw)
    types = _array_types(folder, raw, order)
    for name, (dtype, shape) in types.items():
        with (folder / f"{name}.npy").open("r+b") as stream:
            stream.write(header(dtype, shape))
    manifest = _make_manifest(job, folder, raw, order, types, names, missing=state.missing)
    (folder / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
    for file in folder.iterdir():
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
    return folder


def _write_row_ptr(source: Path, target: Path, raw: RawRows) -> None:
    """The same numbers, of the type that SciPy wants."""
    ends = np.memmap(source, dtype=np.int64, mode="r")
    index = index_type(raw.n_values, raw.n_features)
    step = _COPY_BYTES // ends.itemsize
    with target.open("wb") as stream:
        stream.write(bytes(HEADER_BYTES))
        for begin in range(0, len(ends), step):
            stream.write(ends[begin : begin + step].astype(index).data)


def _array_types(folder: Path, raw: RawRows, order: Order) -> ArrayTypes:
    """Type and shape of each array that was written."""
    index = np.dtype(index_type(raw.n_values, raw.n_features)).str
    size = (folder / "values.npy").stat().st_size if raw.layout == "sparse" else 0
    n_values = (size - HEADER_BYTES) // raw.dtype.itemsize
    types = {
        **TYPES,
        **dict.fromkeys(("features", "values"), raw.dtype.str),
        **dict.fromkeys(("columns", "row_ptr"), index),
        "query_ids": order.query_ids.dtype.str,
    }
    shapes = array_shapes(raw.n_rows, len(order.query_ids), raw.n_features, n_values)
    there = (name for name in shapes if (folder / f"{name}.npy").exists())
    return {name: (types[name], shapes[name]) for name in there}


def _make_manifest(
    job: Job,
    folder: Path,
    raw: RawRows,
    order: Order,
    types: ArrayTypes,
    names: tuple[str, ...] | None,
    *,
    missing: bool,
) -> Manifest:
    features = FEATURES[raw.layout]
    # At which stored element each query begins, and the end.
    starts = order.query_ptr * raw.n_features
    if raw.layout == "sparse":
        row_ptr = np.load(folder / "row_ptr.npy", mmap_mode="r")
        starts = np.asarray(row_ptr[order.query_ptr], dtype=np.int64)
    size = sum(np.dtype(types[name][0]).itemsize for name in features)
    with job.bar("checking", "B", Digests.n_bytes(types)) as bar:
        digests = Digests(folder, types, bar)
        shards = []
        n_shards = max(1, -(-int(starts[-1]) * size // job.arguments.shard_bytes))
        for begin, end in even_spans(starts, n_shards):
            values = (int(starts[begin]), int(starts[end]))
            rows = (int(order.query_ptr[begin]), int(order.query_ptr[end]))
            sha256 = {name: digests.part(name, *values) for name in features}
            shards.append(ShardSpan(queries=(begin, end), rows=rows, values=values, sha256=sha256))
        arrays = {
            name: ArrayType(
                dtype=dtype, shape=shape, sha256=None if name in features else digests.whole(name)
            )
            for name, (dtype, shape) in types.items()
        }
    return Manifest(
        rankplug=version("rankplug"),
        n_samples=raw.n_rows,
        n_queries=len(order.query_ids),
        n_features=raw.n_features,
        n_values=int(starts[-1]),
        layout=raw.layout,
        scale=job.arguments.scale,
        missing=missing,
        feature_names=names,
        arrays=arrays,
        shards=tuple(shards),
        sources=job.sources,
        arguments=job.arguments.as_json(),
    )
