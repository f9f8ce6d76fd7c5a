"""Target: CSV files, plain or compressed, as tables of documents and of labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rankplug.exceptions import DataError
from rankplug.io.batches import read_batches
from rankplug.io.columns import open_table
from rankplug.io.reading import read_data, read_label_data
from rankplug.io.writing import write_data
from tests.long.fuzz.memory import memory_file, one_in

MAX_LENGTH = 200
TOKENS = [b"label", b"qid", b'"', b'""', b",", b";", b"\t", b"|", b"\r\n", b"\n\n", b"NaN", b"NA"]
TOKENS += [b"1e999", b"inf", b"\x00", b"\xef\xbb\xbf", b"\xff", b"0x1", b"1_0", b" ", b"null"]


def check(data: bytes, folder: Path) -> None:
    """Refused, or finite, and the same in batches and after writing."""
    try:
        with open_table(memory_file("data.csv", data), "csv") as table:
            names = table.column_names()
    except DataError:
        names = []
    if not one_in(100, data):
        return
    file = folder / "data.csv"
    file.write_bytes(data)
    label_columns(file, names[1:3])
    try:
        read = read_data(file)
    except DataError:
        return
    assert names
    assert np.isfinite(read.relevance).all()
    assert not np.isinf(read.X).any()  # what is missing is NaN
    assert (np.diff(read.query_ptr) > 0).all()
    batches = read_batches(file, n_features=read.n_features, feature_names=read.feature_names)
    rows = np.vstack([batch.X for batch in batches])
    rows = rows if read.order is None else rows[read.order]
    assert np.array_equal(rows, read.X, equal_nan=True)
    written = folder / "written.csv"
    try:
        write_data(read, written)
    except DataError:
        return
    again = read_data(written)
    assert again.relevance.tobytes() == read.relevance.tobytes()
    assert np.array_equal(again.X, read.X, equal_nan=True)
    assert again.query_ptr.tolist() == read.query_ptr.tolist()
    assert again.query_ids.tolist() == read.query_ids.tolist()
    assert again.feature_names == read.feature_names


def label_columns(file: Path, names: list[str]) -> None:
    """The same file as one of classes, and of ranks."""
    try:
        classes = read_label_data(file, labels=names[0] if names else "label")
        assert not np.isinf(classes.X).any()
        assert (classes.relevance.sum(axis=1) == 1).all()
        ranks = read_label_data(file, labels=names, ranks=True)
        assert not np.isinf(ranks.relevance).any()
    except DataError:
        return
