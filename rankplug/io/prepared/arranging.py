"""Rows brought together by query, in one form, and scaled: the second pass, where it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rankplug.data import Matrix, ScaleName, Scaling, fit_scaling_to_blocks
from rankplug.data.arrays import index_type
from rankplug.io.prepared.job import Job
from rankplug.io.prepared.journal import GrowingFiles, State
from rankplug.io.prepared.npy import HEADER_BYTES, write_array
from rankplug.io.prepared.queries import Order
from rankplug.io.prepared.raw_rows import RawRows

__all__ = ["arrange", "needs_arranging"]

_BLOCK_ELEMENTS = 1 << 21
_FOLDER = "arranged"


def needs_arranging(raw: RawRows, order: Order, scale: ScaleName) -> bool:
    """Whether the rows as they were read are not what is wanted."""
    return order.moves or scale != "none" or not raw.is_final


def arrange(job: Job, state: State, raw: RawRows, order: Order) -> State:
    """Write the rows in their final order and form; goes on where it was interrupted."""
    folder = job.folder / _FOLDER
    folder.mkdir(exist_ok=True)
    scaling = _scaling(job, state, raw, folder)
    relevance = np.memmap(
        job.folder / "rows" / "relevance.npy", dtype=np.float64, mode="r", offset=HEADER_BYTES
    )
    with (
        GrowingFiles(job.folder, state.sizes) as files,
        job.bar("arranging", "row", raw.n_rows, state.arranged) as bar,
    ):
        for begin, end in _blocks(raw, state.arranged):
            rows = order.rows(begin, end)
            X = raw.take(rows)
            _append(files, X if scaling is None else scaling.apply(X), raw)
            files.append(f"{_FOLDER}/relevance.npy", relevance[rows])
            if order.moves:
                files.append(f"{_FOLDER}/order.npy", rows)
            state = replace(state, arranged=end)
            bar.move_to(end)
            if files.should_be_saved:
                state = job.save(files, state)
        return files.saved(replace(state, folder="arranged"))


def _append(files: GrowingFiles, X: Matrix, raw: RawRows) -> None:
    if isinstance(X, np.ndarray):
        files.append(f"{_FOLDER}/features.npy", X)
        return
    sparse: Any = X
    index = index_type(raw.n_values, raw.n_features)
    if files.length(f"{_FOLDER}/row_ptr.npy") == 0:
        files.append(f"{_FOLDER}/row_ptr.npy", np.zeros(1, dtype=index))
    values = f"{_FOLDER}/values.npy"
    known = max(0, files.length(values) - HEADER_BYTES) // sparse.data.itemsize
    files.append(f"{_FOLDER}/row_ptr.npy", (sparse.indptr[1:] + np.int64(known)).astype(index))
    files.append(values, sparse.data)
    files.append(f"{_FOLDER}/columns.npy", sparse.indices.astype(index, copy=False))


def _scaling(job: Job, state: State, raw: RawRows, folder: Path) -> Scaling | None:
    """Found by reading all rows, or read again where rows were scaled already."""
    scale = job.wish.scale
    if scale == "none":
        return None
    files = {name: folder / f"{name}.npy" for name in ("shift", "factor")}
    if state.arranged:
        shift = np.load(files["shift"]) if files["shift"].exists() else None
        return Scaling(shift, np.load(files["factor"]))
    scaling = fit_scaling_to_blocks(_measured(job, raw), scale)
    if scaling is not None:
        write_array(files["factor"], scaling.factor)
        if scaling.shift is not None:
            write_array(files["shift"], scaling.shift)
    return scaling


def _measured(job: Job, raw: RawRows) -> Iterator[Matrix]:
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
