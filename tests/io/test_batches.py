"""Batches of a file are the file: the same rows, the same errors, in any format."""

import gzip
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import ipc, parquet
from scipy import sparse

from rankplug import RankingData, prepare, write_data
from rankplug.exceptions import DataError, ParameterError
from rankplug.io.batches import read_batches
from rankplug.io.files import InputFile
from rankplug.io.writing import table_writer

NAMES = ("f1", "f2", "f3")
SUFFIXES = (".txt", ".txt.gz", ".csv", ".csv.xz", ".tsv", ".parquet", ".arrow")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(47, 3)), 3)
    return RankingData.from_arrays(X, rng.integers(0, 3, 47), np.repeat(np.arange(16), 3)[:47])


@pytest.fixture(scope="module")
def files(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for suffix in SUFFIXES:
        write_data(data, folder / f"data{suffix}")
    return folder


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("batch_rows", [1, 10, 1000])
def test_batches_are_the_file(data, files, suffix, batch_rows):
    batches = list(read_batches(files / f"data{suffix}", n_features=3, batch_rows=batch_rows))
    assert max(batch.X.shape[0] for batch in batches) <= batch_rows
    np.testing.assert_array_equal(np.vstack([dense(batch.X) for batch in batches]), data.X)
    ids = np.concatenate([batch.qid for batch in batches])
    np.testing.assert_array_equal(ids.astype(int), data.qid)
    fractions = [batch.fraction for batch in batches]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_is_opened_once(files, monkeypatch, suffix):
    opened, open_ = [], InputFile.open
    monkeypatch.setattr(InputFile, "open", lambda file: opened.append(str(file)) or open_(file))
    assert len(list(read_batches(files / f"data{suffix}", n_features=3, batch_rows=30))) > 1
    assert opened == [str(files / f"data{suffix}")]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_named_columns_are_found_wherever_they_stand(tmp_path, data, suffix):
    frame = pd.DataFrame(data.X[:, ::-1], columns=NAMES[::-1]).assign(other="x", query=data.qid)
    file = tmp_path / f"data{suffix}"
    frame.to_csv(file, index=False) if suffix == ".csv" else frame.to_parquet(file)
    (batch,) = read_batches(file, n_features=3, feature_names=NAMES, qid="query")
    np.testing.assert_array_equal(batch.X, data.X)
    np.testing.assert_array_equal(batch.qid.astype(int), data.qid)
    (batch,) = read_batches(file, n_features=3, feature_names=NAMES)
    assert batch.qid is None


def test_features_without_names_are_numbered_columns_or_all_others(tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("f1,label,f0,note\n1,0,2,hello\n")
    (batch,) = read_batches(file, n_features=2)
    np.testing.assert_array_equal(batch.X, [[2, 1]])
    file.write_text("b,label,a,qid\n1,0,2,q\n")
    (batch,) = read_batches(file, n_features=2)
    np.testing.assert_array_equal(batch.X, [[1, 2]])
    with pytest.raises(DataError, match="2 columns beside query id and label, but the model has 3"):
        list(read_batches(file, n_features=3))


WRONG = {
    "csv cell": ("d.csv", "f0,f1\n1,2\n3,x\n", r"line 3, column 'f1': 'x' is not a number"),
    "csv infinite": ("d.csv", "f0,f1\n1,2\n3,inf\n", r"line 3, column 'f1': inf is not finite"),
    "csv row": ("d.csv", "f0,f1\n1,2\n3\n", r"line 3: 1 values, but the header names 2 columns"),
    "csv id": ("d.csv", "f0,f1,qid\n1,2,a\n3,1,\n", r"line 3, column 'qid': empty"),
    "csv empty": ("d.csv", "f0,f1\n", "holds no rows below its header"),
    "csv twice": ("d.csv", "f0,f1,f1\n1,2,3\n", "columns that occur more than once: f1"),
    "text value": ("d.txt", "1 qid:1 1:2\n0 qid:1 1:x\n", "line 2: feature 1: 'x' is not a number"),
    "text index": (
        "d.txt",
        "1 qid:1 1:2\n0 qid:1 3:1\n",
        "line 2: feature 3 is unseen in training",
    ),
    "text mixed": ("d.txt", "1 qid:1 1:2\n0 1:1\n", "no qid"),
    "text empty": ("d.txt", "# nothing\n\n", "holds no rows"),
}


@pytest.mark.parametrize("batch_rows", [1, 100])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_with_its_line(tmp_path, name, batch_rows):
    file, text, message = WRONG[name]
    (tmp_path / file).write_text(text)
    with pytest.raises(DataError, match=message):
        list(read_batches(tmp_path / file, n_features=2, batch_rows=batch_rows))


def test_rows_of_arrow_files_are_counted_from_the_start_of_the_file(tmp_path):
    values = np.ones(50)
    values[33] = np.inf
    parquet.write_table(pa.table({"f0": values}), tmp_path / "d.parquet")
    with pytest.raises(DataError, match="column 'f0', row 33: inf"):
        list(read_batches(tmp_path / "d.parquet", n_features=1, batch_rows=10))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_features": 1, "feature_names": ["f9"]}, r"no column 'f9' \(known: f1, f2"),
        ({"n_features": 3, "qid": "query"}, "no column 'query'"),
    ],
)
def test_missing_columns_are_named(files, arguments, message):
    for suffix in (".csv", ".parquet"):
        with pytest.raises(DataError, match=message):
            list(read_batches(files / f"data{suffix}", **arguments))


def test_the_columns_of_a_folder_are_matched_by_name_or_number(data, files, tmp_path):
    prepare(files / "data.csv", tmp_path / "folder", progress=False)
    options = {"n_features": 2, "feature_names": ["f3", "f1"]}
    (batch,) = read_batches(tmp_path / "folder", **options)
    np.testing.assert_array_equal(batch.X, data.X[:, [2, 0]])
    with pytest.raises(DataError, match="no column 'f9'"):
        list(read_batches(tmp_path / "folder", n_features=1, feature_names=["f9"]))
    with pytest.raises(DataError, match="folder holds 3 features, the model 2"):
        list(read_batches(tmp_path / "folder", n_features=2))


def test_a_wrong_size_of_batches_is_refused(files):
    with pytest.raises(ParameterError, match="batch_rows=0"):
        list(read_batches(files / "data.csv", n_features=3, batch_rows=0))
    with pytest.raises(ParameterError, match="svmlight text names no columns"):
        list(read_batches(files / "data.txt", n_features=3, qid="qid"))


def test_memory_is_for_a_batch_not_for_the_file(tmp_path):
    lines = b"".join(b"0 qid:%d 1:0.5 2:0.25 7:1\n" % (i // 10) for i in range(150_000))
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(lines, 1))
    tracemalloc.start()
    try:
        rows = sum(
            batch.X.shape[0]
            for batch in read_batches(tmp_path / "d.txt.gz", n_features=7, batch_rows=500)
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows == 150_000
    assert peak < len(lines)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_memory_is_for_a_part_of_an_arrow_file(tmp_path, suffix):
    file = tmp_path / f"d{suffix}"
    table = pa.table({f"f{j}": np.random.default_rng(j).normal(size=30_000) for j in range(8)})
    if suffix == ".parquet":
        parquet.write_table(table, file, row_group_size=1000)
    else:
        with ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
    before = pa.total_allocated_bytes()
    tracemalloc.start()  # Arrow reads a file of Python's into Python's memory
    try:
        allocated = [
            pa.total_allocated_bytes() - before + tracemalloc.get_traced_memory()[1]
            for _ in read_batches(file, n_features=8, batch_rows=500)
        ]
    finally:
        tracemalloc.stop()
    assert len(allocated) == 60
    assert max(allocated) < table.nbytes / 2


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.sampled_from([".csv", ".parquet"]))
def test_pieces_written_are_one_table(tmp_path_factory, sizes, suffix):
    file = tmp_path_factory.mktemp("written") / f"out{suffix}"
    pieces = [pd.DataFrame({"a": np.arange(n) / 3, "b": [f'"{n},'] * n}) for n in sizes]
    with table_writer(file) as write:
        for piece in pieces:
            write(pa.Table.from_pandas(piece, preserve_index=False))
    read = pd.read_csv(file) if suffix == ".csv" else pd.read_parquet(file)
    pd.testing.assert_frame_equal(
        read, pd.concat(pieces, ignore_index=True), check_dtype=False, check_exact=True
    )


def breaking_off():
    yield pa.table({"a": [1]})
    raise InterruptedError


def test_nothing_half_written_is_left(tmp_path):
    (tmp_path / "out.csv").write_text("before")
    with pytest.raises(InterruptedError), table_writer(tmp_path / "out.csv") as write:
        list(map(write, breaking_off()))
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]
    assert (tmp_path / "out.csv").read_text() == "before"
    with (
        pytest.raises(ParameterError, match="name a table to write"),
        table_writer(tmp_path / "out.txt"),
    ):
        pass
