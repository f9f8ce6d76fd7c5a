"""Target: compressed and encoded text, archives, and files of other kinds."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from rankplug.exceptions import DataError, DataWarning
from rankplug.io.batches import read_batches
from rankplug.io.reading import read_data
from tests.long.fuzz.memory import memory_file, one_in

MAX_LENGTH = 400
TOKENS = [
    b"\x28\xb5\x2f\xfd",
    b"\x50\x2a\x4d\x18",
    b"\x1f\x8b",
    b"BZh9",
    b"\xfd7zXZ\x00",
    b"]\x00\x00",
]
TOKENS += [b"PK\x03\x04", b"PK\x05\x06", b"PK\x01\x02", b"ustar", b"\xff\xfe", b"\xfe\xff"]
TOKENS += [b"PAR1", b"ARROW1", b"\x00", b"1 qid:1 1:2\r", b"label,qid,a\r"]


def check(data: bytes, folder: Path) -> None:
    """Refused, or the same text each time that it is read, in pieces of any size."""
    file = memory_file("data", data)
    try:
        with file.open() as stream:
            whole = stream.read()
            stream.seek(0)
            pieces = b"".join(iter(lambda: stream.read(7), b""))
            middle = len(whole) // 2
            stream.seek(middle)
            rest = stream.read()
    except DataError:
        return
    assert pieces == whole
    assert rest == whole[middle:]
    if not one_in(20, data):
        return
    for name in ("data.txt", "data.csv"):
        table = folder / name
        table.write_bytes(data)
        rows_are_alike(table)


def rows_are_alike(file: Path) -> None:
    """Refused, or the same rows at once and in batches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        try:
            read = read_data(file)
        except DataError:
            return
        names = read.feature_names
        batches = read_batches(file, n_features=read.n_features, feature_names=names, batch_rows=3)
        parts = [
            batch.X if isinstance(batch.X, np.ndarray) else batch.X.toarray() for batch in batches
        ]
    rows = np.vstack(parts)
    X = read.X if isinstance(read.X, np.ndarray) else read.X.toarray()
    assert not np.isinf(X).any()
    moved = rows if read.order is None else rows[read.order]
    assert np.array_equal(moved, X, equal_nan=True)
