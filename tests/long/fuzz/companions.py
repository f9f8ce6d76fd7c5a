"""Target: the files of queries and weights beside svmlight text and CSV."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from rankplug.exceptions import DataError, DataWarning
from rankplug.io.batches import read_batches
from rankplug.io.prepared import prepare
from rankplug.io.reading import read_data
from tests.long.fuzz.memory import SEPARATOR, one_in

MAX_LENGTH = 200
TOKENS = [b"1\n", b"2\n", b"\n\n", b"-1\n", b"1e999\n", b"nan\n", b"0\n", b"0.5\n", b"1_0\n"]
TOKENS += [
    SEPARATOR,
    SEPARATOR * 2,
    b"qid:1",
    b"9223372036854775807\n",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
]
TEXTS = {
    "data.txt": "".join(f"{i % 3} 1:{i} 2:{i * i + 1}\n" for i in range(6)),
    "ids.txt": "".join(f"{i % 3} qid:{i // 2} 1:{i} 2:1\n" for i in range(6)),
    "data.csv": "label,a,b\n" + "".join(f"{i % 3},{i},{i * i}\n" for i in range(6)),
}


def check(data: bytes, folder: Path) -> None:
    """Refused, or queries of the sizes that were given, the same in every way in."""
    sizes, _, weights = data.partition(SEPARATOR)
    for name, text in TEXTS.items():
        file = folder / name
        file.write_text(text)
        write(folder / f"{name}.query", sizes)
        write(folder / f"{name}.weight", weights)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            check_file(file, data)


def write(path: Path, content: bytes) -> None:
    """Write it, or nothing if it is empty."""
    path.unlink(missing_ok=True)
    if content:
        path.write_bytes(content)


def check_file(file: Path, data: bytes) -> None:
    """The file with the companions that are there."""
    try:
        read = read_data(file)
    except DataError:
        return
    assert read.n_samples == 6
    assert read.query_weight is None or (read.query_weight >= 0).all()
    batches = read_batches(file, n_features=2, batch_rows=4)
    ids = [batch.qid for batch in batches]
    if ids[0] is not None:
        assert np.concatenate(ids).astype(int).tolist() == read.qid.tolist()
    if one_in(10, data):
        prepared = prepare(file, file.parent / "made", overwrite=True, progress=False).data()
        assert prepared.query_ptr.tolist() == read.query_ptr.tolist()
        assert prepared.query_ids.tolist() == read.query_ids.tolist()
        assert (prepared.query_weight is None) == (read.query_weight is None)
        if read.query_weight is not None:
            assert prepared.query_weight.tolist() == read.query_weight.tolist()
