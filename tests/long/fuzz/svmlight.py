"""Target: LETOR/svmlight text, plain or compressed."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from scipy import sparse

from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.io.companions import Companions
from rankplug.io.files import InputFile
from rankplug.io.svmlight import read_svmlight, svmlight_batches, write_svmlight
from rankplug.io.svmlight_rows import ParsedRows, parse_block, parse_lines
from tests.long.fuzz.memory import memory_file, one_in

MAX_LENGTH = 200
TOKENS = [b"qid:", b" 1:", b"#", b"\n", b"\r\n", b":", b"1e308", b"nan", b"-0", b"inf"]
TOKENS += [b"\xef\xbb\xbf", b"1e999", b"2147483648", b"\x0b", b"\x85", b"1_0"]


def check(data: bytes, folder: Path) -> None:
    """Refused, or finite and sorted, and the same by each way of reading and after writing."""
    file = memory_file("data.txt", data)
    try:
        with file.open() as stream:
            rows = parse_lines(file, enumerate(stream, start=1), None, np.float64)
    except DataError:
        rows = None
    if one_in(100, data):
        block_parser_agrees(file, rows)
    if rows is None or not one_in(100, data[::-1]):
        return
    try:
        read = ranking_data(file)
    except DataError:  # no rows, or no features
        return
    assert np.isfinite(read.relevance).all()
    assert (np.diff(read.query_ptr) > 0).all()
    assert read.query_ptr[0] == 0
    assert read.query_ptr[-1] == read.n_samples == len(rows.relevance)
    values = read.X
    if sparse.issparse(read.X):
        read.X.check_format()
        assert read.X.has_canonical_format
        values = read.X.data
        assert (values != 0).all()
    assert np.isfinite(values).all()
    batches_agree(file, read)
    text = BytesIO()
    write_svmlight(read, text)
    dense = not sparse.issparse(read.X)
    require_equal(read, ranking_data(memory_file("t", text.getvalue()), read.n_features, dense))


def ranking_data(
    file: InputFile, n_features: int | None = None, dense: bool | None = None
) -> RankingData:
    """What `rankplug.read_data` makes of a file."""
    form = {"n_features": n_features, "dense": dense, "dtype": np.float64}
    X, relevance, ids, _ = read_svmlight([file], [Companions(file)], **form)
    return RankingData.from_arrays(X, relevance, ids)


def block_parser_agrees(file: InputFile, slow: ParsedRows | None) -> None:
    """It takes nothing that the line parser refuses or reads otherwise."""
    try:
        with file.open() as stream:
            fast = parse_block(stream.read(), None, np.float64)
    except (DataError, ValueError):
        return
    if fast.has_query_ids and not fast.has_all_query_ids:
        return
    assert slow is not None
    assert fast.ids.to_pylist() == slow.ids.to_pylist()
    for name in ("relevance", "counts", "indices", "values"):
        assert np.array_equal(getattr(fast, name), getattr(slow, name)), name


def batches_agree(file: InputFile, read: RankingData) -> None:
    """Two lines at a time are the same rows."""
    if read.n_features > 1000:
        return
    with file.open() as stream:
        batches = [array(X) for X, _ in svmlight_batches(file, stream, read.n_features, 2)]
    rows = np.vstack(batches)
    assert np.array_equal(rows if read.order is None else rows[read.order], array(read.X))


def array(X: object) -> np.ndarray:
    """Dense features."""
    return X.toarray() if sparse.issparse(X) else X


def require_equal(a: RankingData, b: RankingData) -> None:
    """What is written and read again is the same, bit by bit."""
    assert a.relevance.tobytes() == b.relevance.tobytes()
    assert a.query_ptr.tolist() == b.query_ptr.tolist()
    assert a.query_ids.tolist() == b.query_ids.tolist()
    parts = ("data", "indices", "indptr") if sparse.issparse(a.X) else ("T",)
    for part in parts:
        assert np.array_equal(getattr(a.X, part), getattr(b.X, part)), part
