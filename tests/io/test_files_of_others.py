"""Files as others write them: odd columns and ids, other encodings and line ends, no end at all."""

from __future__ import annotations

import gc
import gzip
import io
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from rankplug import prepare, read_data
from rankplug.data import RankingData
from rankplug.exceptions import DataError
from rankplug.io import write_data
from rankplug.io.batches import read_batches
from rankplug.io.files import _Lent


def whole(path, **options):
    return read_data(path, **options)


def prepared(path, **options):
    return prepare(path, Path(path).parent / "folder", progress=False, **options).data()


def batches(path, **options):
    return list(read_batches(path, n_features=2, **options))


# --- who opens a file ---

SUFFIXES = [".csv", ".parquet", ".arrow", ".txt", ".csv.gz", ".csv.xz", ".txt.bz2"]


@pytest.fixture
def small():
    X = np.arange(24.0).reshape(12, 2)
    return RankingData.from_arrays(X, np.arange(12) % 3, np.repeat([1, 2, 3], 4))


@pytest.mark.parametrize("read", [whole, prepared, batches])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_threads_of_arrow_hold_nothing_of_python_when_a_file_is_read(
    tmp_path, small, monkeypatch, suffix, read
):
    class Watched(io.BufferedReader):
        """Knows which threads have read it."""

        def read(self, *args):
            threads.add(threading.current_thread())
            return super().read(*args)

    threads: set[threading.Thread] = set()
    file = tmp_path / f"data{suffix}"
    write_data(small, file)
    open_ = Path.open

    def opened(path, mode="r", *args, **options):
        if path != file or mode != "rb":
            return open_(path, mode, *args, **options)
        return Watched(io.FileIO(path))

    monkeypatch.setattr(Path, "open", opened)
    read(file)
    if suffix.count(".") == 1:
        assert threads == {threading.main_thread()}
    assert not [one for one in gc.get_objects() if isinstance(one, _Lent)]


# --- lines without an end ---


@pytest.mark.parametrize("read", [whole, prepared, batches])
@pytest.mark.parametrize("name", ["zeros", "zeros.csv", "zeros.txt.gz", "row.csv"])
def test_an_endless_line_is_refused_before_it_fills_the_memory(tmp_path, name, read):
    file = tmp_path / name
    if name.endswith(".gz"):
        with gzip.open(file, "wb", compresslevel=1) as stream:
            stream.write(bytes(40 << 20))
    else:
        file.write_bytes(b"label,qid,a,b\n1,1,2,3\n1,1,1," if name == "row.csv" else b"")
        os.truncate(file, 40 << 20)
    with pytest.raises(DataError, match=r"holds a (line|row) of more than [\d,]* bytes"):
        read(file)


@pytest.mark.parametrize("read", [whole, prepared, batches])
def test_long_lines_are_read(tmp_path, read):
    n = 600
    names = ",".join(f"{j:01000}" for j in range(n))
    value = "2.5" + "0" * 8000
    file = tmp_path / "wide.csv"
    file.write_text(f"label,qid,{names}\n1,1,{f'{value},' * (n - 1)}3\n")
    if read is batches:
        (batch,) = read_batches(file, n_features=n)
        assert batch.X.shape == (1, n)
    else:
        assert read(file).X.shape == (1, n)


def test_batches_of_long_lines_are_short(tmp_path, monkeypatch):
    monkeypatch.setattr("rankplug.io.svmlight.LONGEST_LINE", 100)
    file = tmp_path / "data.txt"
    file.write_text(("1 qid:1 1:2 # " + "x" * 60 + "\n") * 10)
    assert [batch.X.shape[0] for batch in batches(file, batch_rows=9)] == [2] * 5
