"""Blocks of LETOR/svmlight text, parsed by Arrow's CSV parser: one ``index:value`` a record."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankplug.data.arrays import index_type
from rankplug.io.rows import LARGEST_INDEX, Rows

__all__ = ["parse_block"]

_HEAD = re.compile(rb"[ \t]*([^\s:]+)(?:[ \t]+qid:(\S+))?(?=\s|$)")
_BLANKS_TO_NEWLINES = bytes.maketrans(b" \t\r", b"\n\n\n")


def parse_block(block: bytes, n_features: int | None, dtype: DTypeLike) -> Rows:
    """Parse whole lines; `n_features` is the largest index there may be.

    Raises
    ------
    ValueError
        If the lines are in any way irregular or wrong.
    """
    import pyarrow as pa

    if b"#" in block:
        block = re.sub(rb"#[^\n]*", b"", block)
    relevance, ids, counts, features = [], [], [], []
    for line in block.split(b"\n"):
        head = _HEAD.match(line)
        if head is not None:
            relevance.append(head[1])
            ids.append(head[2])
            features.append(line[head.end() :])
            counts.append(line.count(b":", head.end()))
        elif line.strip():
            raise ValueError("a line without relevance")
    indices, values = _parse_features(b" ".join(features), dtype)
    rows = Rows(
        pa.array(relevance, pa.string()).cast(pa.float64()).to_numpy(zero_copy_only=False),
        pa.chunked_array([pa.array(ids, pa.string())]),
        np.array(counts, dtype=np.int64),
        indices,
        values,
    )
    if not _is_right(rows, n_features):
        raise ValueError("wrong indices or values")
    return rows


def _parse_features(
    text: bytes, dtype: DTypeLike
) -> tuple[NDArray[np.signedinteger[Any]], NDArray[Any]]:
    import pyarrow as pa
    from pyarrow import csv

    records = text.translate(_BLANKS_TO_NEWLINES).strip(b"\n")
    if not records:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=dtype)
    table = csv.read_csv(
        pa.BufferReader(records),
        csv.ReadOptions(column_names=["index", "value"]),
        csv.ParseOptions(delimiter=":", quote_char=False),
        csv.ConvertOptions(
            column_types={"index": pa.int64(), "value": pa.float64()}, null_values=[]
        ),
    )
    indices, values = table.column("index").to_numpy(), table.column("value").to_numpy()
    small = index_type(int(indices.max()))
    with np.errstate(over="ignore"):  # told as infinite values later
        return indices.astype(small, copy=False), values.astype(dtype, copy=False)


def _is_right(rows: Rows, n_features: int | None) -> bool:
    """Whether indices ascend from 1 (or more) in each row, none is unseen, and all is finite."""
    ascending = np.diff(rows.indices, prepend=0) > 0
    starts = np.cumsum(rows.counts) - rows.counts
    starts = starts[rows.counts > 0]
    ascending[starts] = rows.indices[starts] > 0
    within = rows.indices.max(initial=0) <= (LARGEST_INDEX if n_features is None else n_features)
    finite = np.isfinite(rows.relevance).all() and np.isfinite(rows.values).all()
    return bool(ascending.all() and within and finite)
