"""Files as others write them: odd columns and ids, other encodings and line ends, no end at all."""

from __future__ import annotations

import gzip
import io
import os
import threading
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from rankplug import prepare, read_data
from rankplug.data import RankingData
from rankplug.exceptions import DataError, ParameterError
from rankplug.io import read_label_data, write_data
from rankplug.io.batches import read_batches
from rankplug.io.compression import Lent
from rankplug.recipe.schema import Files
from rankplug.runner.splits import _load


def whole(path, **options):
    return read_data(path, **options)


def prepared(path, **options):
    return prepare(path, Path(path).parent / "folder", progress=False, **options).data()


def batches(path, **options):
    return list(read_batches(path, n_features=2, **options))


# --- who opens a file ---

SUFFIXES = [".csv", ".parquet", ".arrow", ".txt", ".csv.gz", ".csv.xz", ".txt.bz2", ".csv.zst"]


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

    lent = weakref.WeakSet()
    lend = Lent.__init__

    def lending(self, stream):
        lend(self, stream)
        lent.add(self)

    monkeypatch.setattr(Path, "open", opened)
    monkeypatch.setattr(Lent, "__init__", lending)
    read(file)
    if suffix.count(".") == 1:
        assert threads == {threading.main_thread()}
    assert not lent


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


# --- indices from 0 ---


def dumped(folder, X, y, qid):
    from sklearn.datasets import dump_svmlight_file

    file = folder / "dump.txt"
    dump_svmlight_file(X, y, str(file), query_id=qid, zero_based=True)
    return file


def test_indices_from_0_are_read_where_it_is_said(tmp_path, small):
    X = small.X + 1  # no zeros, which would be left out
    file = dumped(tmp_path, X, small.relevance, small.qid)
    for read in (whole, prepared):
        data = read(file, zero_based=True)
        np.testing.assert_array_equal(data.X, X)
        assert data.relevance.tolist() == small.relevance.tolist()
        with pytest.raises(
            DataError, match=r"indices begin at 1.*zero_based=True \(--zero-based\)"
        ):
            read(file, overwrite=True) if read is prepared else read(file)
    np.testing.assert_array_equal(
        np.vstack([one.X for one in batches(file, zero_based=True, batch_rows=5)]), X
    )
    with pytest.raises(DataError, match="feature 1 is unseen in training, where there are 1"):
        whole(file, zero_based=True, n_features=1)
    plain = tmp_path / "classes.txt"
    plain.write_text("3 0:1 1:2\n5 0:2 # one\n")
    np.testing.assert_array_equal(read_label_data(plain, zero_based=True).X, [[1, 2], [2, 0]])


def test_both_parsers_shift_indices_alike(tmp_path):
    file = tmp_path / "odd.txt"
    file.write_text("1 qid:1 0:0.5\x0b2:2\n0 qid:1 1:1\n")  # the vertical tab is for the slow one
    np.testing.assert_array_equal(whole(file, zero_based=True).X, [[0.5, 0, 2], [0, 1, 0]])
    file.write_text("1 qid:1 -1:0.5\n")
    with pytest.raises(DataError, match="feature index -1: indices begin at 0"):
        whole(file, zero_based=True)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_have_no_indices(tmp_path, small, suffix):
    file = tmp_path / f"data{suffix}"
    write_data(small, file)
    for read in (whole, prepared, batches):
        with pytest.raises(ParameterError, match="zero_based: not for"):
            read(file, zero_based=True)


def test_commands_and_recipes_take_indices_from_0(tmp_path, small, capsys):
    from rankplug import Ranker
    from rankplug.cli import main

    file = dumped(tmp_path, small.X + 1, small.relevance, small.qid)
    model = Ranker("tree-tron").fit(small.X + 1, small.relevance, qid=small.qid)
    model.model_.save(tmp_path / "model")
    common = ["--zero-based"]
    out = tmp_path / "scores.csv"
    assert main(["predict", str(tmp_path / "model"), str(file), "-o", str(out), *common]) == 0
    scores = np.loadtxt(out, delimiter=",", skiprows=1, usecols=1)
    np.testing.assert_allclose(scores, model.predict(small.X + 1))
    assert main(["evaluate", str(tmp_path / "model"), str(file), *common]) == 0
    assert main(["prepare", str(file), "-o", str(tmp_path / "p"), "-q", *common]) == 0
    assert read_data(tmp_path / "p").n_features == 2
    source = Files(train=file, test=file, zero_based=True)
    np.testing.assert_array_equal(_load(source)["test"].X, small.X + 1)


# --- columns that are no plain numbers ---

BOOLEANS = "label,qid,a,b\nTrue,x,1,False\nFalse,x,2,True\nTrue,y,3,True\n"


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_true_and_false_in_csv_are_1_and_0(tmp_path, suffix):
    file = tmp_path / f"data.csv{suffix}"
    file.write_bytes(gzip.compress(BOOLEANS.encode()) if suffix else BOOLEANS.encode())
    for read in (whole, prepared):
        data = read(file)
        np.testing.assert_array_equal(data.X, [[1, 0], [2, 1], [3, 1]])
        assert data.relevance.tolist() == [1, 0, 1]
    (batch,) = batches(file)
    np.testing.assert_array_equal(batch.X, [[1, 0], [2, 1], [3, 1]])
    data = read_label_data(file, labels=["label", "b"], features=["a"])
    np.testing.assert_array_equal(data.relevance, [[1, 0], [0, 1], [1, 1]])


def test_what_is_wrong_beside_booleans_is_named(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text(BOOLEANS + "True,y,4,maybe\n")
    for read in (whole, prepared, batches):
        with pytest.raises(DataError, match=r"line 5, column 'b': 'maybe' is not a number"):
            read(file)
    file.write_text(BOOLEANS + "True,y,4,\n")
    for read in (whole, prepared):
        np.testing.assert_array_equal(read(file).X[:, 1], [0, 1, 1, np.nan])


@pytest.mark.parametrize("read", [whole, prepared])
def test_features_are_as_many_for_one_reader_as_for_the_other(tmp_path, read):
    file = tmp_path / "data.txt"
    file.write_text(f"1 qid:1 {2**32}:1\n")
    with pytest.raises(DataError, match="feature 4294967296 is too large"):
        read(file)
    file.write_text(f"1 qid:1 {2**31 - 1}:1\n")
    assert read(file).n_features == 2**31 - 1


@pytest.mark.parametrize("read", [whole, prepared])
def test_queries_are_named_by_bytes(tmp_path, read):
    ids = pa.array([b"\xff" * 16, b"\xff" * 16, b"b" * 16], pa.binary(16))
    file = tmp_path / "data.parquet"
    parquet.write_table(pa.table({"label": [1, 0, 1], "qid": ids, "a": [1, 2, 3]}), file)
    assert read(file).query_ids.tolist() == [b"\xff" * 16, b"b" * 16]


def test_queries_that_have_no_names_are_told_with_file_and_column(tmp_path):
    file = tmp_path / "data.parquet"
    parquet.write_table(pa.table({"label": [1, 0], "search": [[1], [2]], "a": [1, 2]}), file)
    with pytest.raises(DataError, match=r"data\.parquet, column 'search': mixes values of types"):
        whole(file, qid="search")
