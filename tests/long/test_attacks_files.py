"""Hostile tables and text through every reader, and batches of them through a model."""

import gzip
import re

import numpy as np
import polars
import pyarrow as pa
import pytest
from attacks import WORKS, Refused, assert_refused, cheap, quietly
from pyarrow import csv, ipc, parquet

from rankplug.exceptions import DataError
from rankplug.io import read_data, read_label_data, write_data
from rankplug.io.batches import read_batches
from rankplug.io.predictions import predict_file
from rankplug.models import LinearModel

pytestmark = pytest.mark.usefixtures("no_hang")

TABLES = ("csv", "parquet", "arrow")
N = 6


def columns(**changes):
    """A good table: label, qid, two features."""
    good = {
        "label": [0.0, 1.0, 2.0, 0.0, 1.0, 1.0],
        "qid": ["a", "a", "a", "b", "b", "b"],
        "x": [0.5, -1.0, 2.0, 0.25, 3.0, 1.0],
        "y": [1.0, 0.0, 0.0, -2.0, 0.125, 4.0],
    }
    return {**good, **changes}


def write(table, path):
    """A table as a file, by the tools of others."""
    table = pa.table(table)
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        with ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return path


def one(values, value):
    return [*values[:3], value, *values[4:]]


X = columns()["x"]
LABEL = columns()["label"]
# Columns that take the place of good ones, and what comes of them: the same in every format.
ATTACKS = {
    "plain": ({}, WORKS),
    "float32": ({"x": pa.array(X, pa.float32())}, WORKS),
    "integers": ({"x": [1, 2, 3, 4, 5, 6]}, WORKS),
    "large integers": ({"x": [2**53, 2**60, 1, 2, 3, -(2**63)]}, WORKS),
    "-0.0": ({"x": [-0.0] * N}, WORKS),
    "denormals": ({"x": [5e-324, 1e-310, 0.0, -5e-324, 1.0, 2.0]}, WORKS),
    "1e308": ({"x": [1e308, -1.7976931348623157e308, 0.0, 1.0, 2.0, 3.0]}, WORKS),
    "constant and zero columns": ({"x": [7.0] * N, "y": [0.0] * N}, WORKS),
    "negative labels": ({"label": [-1.0, -2.5, 0.0, -1e300, 5.0, 6.0]}, WORKS),
    "labels above 31": ({"label": [32, 1001, 5000, 0, 1, 2]}, WORKS),
    "integer qid": ({"qid": [7, 7, 7, 3, 3, 3]}, WORKS),
    "qid beyond 32 bits": ({"qid": [0, 0, 0, 2**32, 2**32, 2**32]}, WORKS),
    "negative qid": ({"qid": [-1, -1, -1, 1, 1, 1]}, WORKS),
    "qid beyond 2^63": ({"qid": [str(2**63)] * 3 + [str(2**64)] * 3}, WORKS),
    "qid with blanks": ({"qid": ["a b"] * 3 + ["a  b"] * 3}, WORKS),
    "unicode qid": ({"qid": ["é🙂"] * 3 + ["e\u0301"] * 3}, WORKS),
    "qid with quotes": ({"qid": ['say "a,b"'] * 3 + ["it's"] * 3}, WORKS),
    "qid of two lines": ({"qid": ["a\nb"] * 3 + ["c"] * 3}, WORKS),
    "numbers with zeros before": ({"qid": ["07"] * 3 + ["7"] * 3}, WORKS),
    "one query a row": ({"qid": list("abcdef")}, WORKS),
    "queries apart": ({"qid": list("ababab")}, WORKS),
    "NaN in x": ({"x": one(X, float("nan"))}, WORKS),
    "inf in x": ({"x": one(X, float("inf"))}, Refused("'x'.*inf")),
    "-inf in label": ({"label": one(LABEL, float("-inf"))}, Refused("'label'.*inf")),
    "missing x": ({"x": one(X, None)}, WORKS),
    "missing label": ({"label": one(LABEL, None)}, Refused("'label'.*(nan|empty)")),
    "missing qid": ({"qid": one(columns()["qid"], None)}, Refused("'qid'.*(missing|empty)")),
    "text in x": (
        {"x": one([str(v) for v in X], "much")},
        Refused("'x'.*(not a number|not numbers)"),
    ),
    "text in label": (
        {"label": one([str(v) for v in LABEL], "good")},
        Refused("'label'.*(not a number|not numbers)"),
    ),
    "dates": (
        {"x": pa.array([0, 1, 2, 3, 4, 5], pa.date32())},
        Refused("'x'.*(not a number|not numbers)"),
    ),
    "lists": ({"x": pa.array([[1.0]] * (N - 1) + [[1.0, 2.0]])}, Refused("")),
    "no rows": ({name: pa.array([], pa.float64()) for name in columns()}, Refused("no rows")),
    "no features": (None, Refused("no column is left for the features")),
    "no label": ({"label": None}, Refused("no column 'label'")),
}
NOT_IN_CSV = ("lists",)


def made(changes):
    if changes is None:
        return {name: columns()[name] for name in ("label", "qid")}
    return {name: value for name, value in columns(**changes).items() if value is not None}


@pytest.mark.parametrize("format_", TABLES)
@pytest.mark.parametrize("name", ATTACKS)
def test_tables(name, format_, tmp_path):
    if format_ == "csv" and name in NOT_IN_CSV:
        pytest.skip("CSV has no such column")
    changes, outcome = ATTACKS[name]
    table = made(changes)
    path = write(table, tmp_path / f"data.{format_}")
    if isinstance(outcome, Refused):
        assert_refused(rf"data\.{format_}[\s\S]*{outcome.message}", read_data, path)
        return
    data = quietly(read_data, path)
    values = {name: pa.array(column).to_pylist() for name, column in table.items()}
    assert sorted(data.restore(data.qid).tolist(), key=str) == sorted(
        (as_read(v, values["qid"]) if format_ == "csv" else v for v in values["qid"]), key=str
    )
    np.testing.assert_array_equal(data.restore(data.relevance), np.array(values["label"], float))
    expected = np.column_stack((values["x"], values["y"])).astype(float)
    np.testing.assert_array_equal(data.restore(data.X), expected)
    # Written again, in whatever format, they are read as they were.
    for suffix in ("csv", "parquet", "arrow", "svm"):
        if suffix == "svm" and any(re.search(r"\s", str(q)) for q in data.query_ids):
            continue  # which that format cannot hold
        write_data(data, tmp_path / f"again.{suffix}")
        again = quietly(read_data, tmp_path / f"again.{suffix}")
        np.testing.assert_array_equal(again.relevance, data.relevance)
        np.testing.assert_array_equal(again.query_ptr, data.query_ptr)
        X = again.X.toarray() if hasattr(again.X, "toarray") else again.X
        np.testing.assert_array_equal(X[:, : data.n_features], data.X[:, : X.shape[1]])


def as_read(value, column):
    """Text that is a plain integer in all rows is one."""
    texts = [str(v) for v in column]
    plain = all(re.fullmatch(r"-?(0|[1-9]\d*)", t) and abs(int(t)) < 2**63 for t in texts)
    return int(value) if plain else str(value)


@pytest.mark.parametrize("format_", TABLES)
@pytest.mark.parametrize("name", ATTACKS)
def test_batches_of_tables(name, format_, tmp_path):
    if format_ == "csv" and name in NOT_IN_CSV:
        pytest.skip("CSV has no such column")
    changes, outcome = ATTACKS[name]
    path, out = write(made(changes), tmp_path / f"data.{format_}"), tmp_path / "out.csv"
    model = LinearModel([3.0, 2.0], ["x", "y"])

    def predicted():
        return predict_file(model, path, out, batch_rows=2, progress=False)

    if name in ("NaN in x", "missing x"):
        assert_refused("fill in or drop missing values", predicted)
        assert list(tmp_path.iterdir()) == [path], "something half-written is left"
    elif isinstance(outcome, Refused) and "label" not in name:
        message = "no column 'x'|no rows" if name in ("no features", "no rows") else outcome.message
        assert_refused(message, predicted)
        assert list(tmp_path.iterdir()) == [path], "something half-written is left"
    elif name == "1e308":
        assert_refused("score of row 0 is not finite", predicted)
    else:
        assert quietly(predicted) == N
        scores = csv.read_csv(out).column("score").to_numpy()
        table = {
            key: np.array(pa.array(value).to_pylist(), float)
            for key, value in made(changes).items()
            if key in "xy"
        }
        np.testing.assert_allclose(scores, 3.0 * table["x"] + 2.0 * table["y"], rtol=1e-15)


TEXT = {
    "plain": ("0 qid:1 1:1 2:2\n1 qid:1 2:3\n", WORKS),
    "no last newline": ("0 qid:1 1:1 2:2\n1 qid:1 2:3", WORKS),
    "Windows": ("0 qid:1 1:1 2:2\r\n1 qid:1 2:3\r\n", WORKS),
    "tabs and blanks": ("  0\tqid:1\t1:1   2:2 \n\n\n1 qid:1 2:3\n\n", WORKS),
    "comments": ("# head\n0 qid:1 1:1 2:2 # docid = 1:2\n1 qid:1 2:3 #\n", WORKS),
    "a byte order mark": ("\ufeff0 qid:1 1:1 2:2\n1 qid:1 2:3\n", WORKS),
    "explicit zeros": ("0 qid:1 1:1 2:2\n1 qid:1 1:0 2:3\n", WORKS),
    "-0": ("-0 qid:1 1:1 2:2\n1 qid:1 1:-0.0 2:3\n", WORKS),
    "exponents": ("0e5 qid:1 1:1e0 2:20E-1\n+1.0 qid:1 2:.3e+1\n", WORKS),
    "empty": ("", Refused("no rows")),
    "comments only": ("# nothing\n\n", Refused("no rows")),
    "no features": ("1 qid:1\n0 qid:1\n", Refused("no features")),
    "inf": ("0 qid:1 1:1\n1 qid:1 1:-inf\n", Refused("line 2: feature 1 is -inf")),
    "overflow": ("0 qid:1 1:1\n1 qid:1 1:1e999\n", Refused("line 2: feature 1 is inf")),
    "NaN as relevance": ("nan qid:1 1:1\n", Refused("line 1: the relevance is nan")),
    "text as relevance": (
        "good qid:1 1:1\n",
        Refused("line 1: the relevance 'good' is not a number"),
    ),
    "boolean as relevance": ("True qid:1 1:1\n", Refused("not a number|holds bytes that are 0")),
    "text as value": ("0 qid:1 1:x\n", Refused("line 1: feature 1: 'x' is not a number")),
    "hexadecimal": ("0 qid:1 1:0x10\n", Refused("not a number|holds bytes that are 0")),
    "underscores": ("0 qid:1 1:1_000\n", Refused("not a number|holds bytes that are 0")),
    "index 0": ("0 qid:1 0:1\n", Refused("indices begin at 1")),
    "negative index": ("0 qid:1 -1:1\n", Refused("indices begin at 1|whole number")),
    "fractional index": ("0 qid:1 1.5:1\n", Refused("whole number")),
    "duplicate index": ("0 qid:1 1:1 1:2\n", Refused("occurs twice")),
    "unsorted": ("0 qid:1 2:1 1:2\n", Refused("comes after")),
    "index of 2^63": (f"0 qid:1 {2**63}:1\n", Refused("too large")),
    "long index": (f"0 qid:1 {'9' * 5000}:1\n", Refused("too large|whole number")),
    "huge index": ("0 qid:1 4000000000000000000:1\n1 qid:1 1:1\n", Refused("too large")),
    "no colon": ("0 qid:1 7\n", Refused("not of the form index:value")),
    "empty qid": ("0 qid: 1:1\n", Refused("nothing after 'qid:'")),
    "two qids": ("0 qid:1 qid:2 1:1\n", Refused("the qid stands once")),
    "qid missing later": ("0 qid:1 1:1\n0 1:1\n", Refused("line 2: no qid, but line 1 has one")),
    "NUL": ("0 qid:1 1:1\0\n", Refused("not a number|holds bytes that are 0")),
    "binary": (b"\x80\x81\xff\n", Refused("not a number|UTF-8")),
    "qid that is no UTF-8": (b"0 qid:\xff 1:1\n", Refused("UTF-8")),
    "cut gzip": (gzip.compress(b"0 qid:1 1:1\n" * 100)[:-20], Refused("damaged or incomplete")),
    "no gzip": (b"\x1f\x8b\x08nonsense", Refused("damaged or incomplete")),
}


def text_file(content, folder):
    path = folder / "data.svm"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", TEXT)
def test_text(name, tmp_path):
    content, outcome = TEXT[name]
    path = text_file(content, tmp_path)
    if isinstance(outcome, Refused):
        assert_refused(outcome.message, read_data, path)
        return
    data = quietly(read_data, path)
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    np.testing.assert_array_equal(X, [[1.0, 2.0], [0.0, 3.0]])
    np.testing.assert_array_equal(data.relevance, [0.0, 1.0])
    assert data.query_ids.tolist() == [1]


@pytest.mark.parametrize("name", TEXT)
def test_batches_of_text(name, tmp_path):
    content, outcome = TEXT[name]
    path = text_file(content, tmp_path)
    batches = read_batches(path, n_features=2, batch_rows=1)
    if isinstance(outcome, Refused) and name not in ("no features", "two qids"):
        assert_refused(f"{outcome.message}|unseen|there is no qid", list, batches)
    elif name in ("no features", "plain"):
        assert len(quietly(list, batches)) == 2


LABEL_TABLES = {
    "scores": ({"l1": [1.0, 2.0], "l2": [0.5, None], "x": [1.0, 2.0]}, ["l1", "l2"], WORKS),
    "classes": ({"c": ["a b", "é"], "x": [1.0, 2.0]}, "c", WORKS),
    "integer classes": ({"c": [-1, 2**40], "x": [1.0, 2.0]}, "c", WORKS),
    "inf": (
        {"l1": [1.0, float("inf")], "l2": [0.0, 1.0], "x": [1.0, 2.0]},
        ["l1", "l2"],
        Refused("'l1'.*inf"),
    ),
    "text as scores": (
        {"l1": ["u", "v"], "l2": [0.0, 1.0], "x": [1.0, 2.0]},
        ["l1", "l2"],
        Refused("'l1'.*(not a number|not numbers)"),
    ),
    "missing class": ({"c": ["a", None], "x": [1.0, 2.0]}, "c", Refused("'c'.*(missing|empty)")),
    "no such label": ({"l1": [1.0], "x": [1.0]}, ["l1", "l2"], Refused("no column 'l2'")),
    "no labels": ({"l1": [1.0], "x": [1.0]}, [], Refused("label")),
    "one label twice": (
        {"l1": [1.0], "x": [1.0]},
        ["l1", "l1"],
        Refused("l1|twice|more than once"),
    ),
}


@pytest.mark.parametrize("format_", TABLES)
@pytest.mark.parametrize("name", LABEL_TABLES)
def test_label_tables(name, format_, tmp_path):
    table, labels, outcome = LABEL_TABLES[name]
    path = write(table, tmp_path / f"data.{format_}")
    if isinstance(outcome, Refused):
        assert_refused(outcome.message, read_label_data, path, labels=labels)
        return
    data = quietly(read_label_data, path, labels=labels)
    np.testing.assert_array_equal(data.X[:, 0], table["x"])
    if name == "scores":
        np.testing.assert_array_equal(data.relevance, [[1.0, 0.5], [2.0, np.nan]])
    else:
        found = data.labels[np.argmax(data.relevance, axis=1)].tolist()
        assert found == table["c"]


BROKEN_FILES = {
    "data.parquet": b"PAR1 and nonsense PAR1",
    "data.arrow": b"ARROW1 and nonsense",
    "other.parquet": b"no such thing",
    "data.csv": b"label,x\n1",
    "quote.csv": b'label,x\n1,"2\n',
    "bytes.csv": b"label,x\n1,\xff\n",
    "twice.csv": b"label,x,x\n1,2,3\n",
    "empty.csv": b"",
    "header.csv": b"label,x\n",
    "cut.csv.gz": gzip.compress(b"label,x\n" + b"1,2\n" * 1000)[:40],
}


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_broken_files_are_refused_by_name(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(BROKEN_FILES[name])
    assert_refused(re.escape(str(path)), read_data, path)
    assert_refused(re.escape(str(path)), read_data, tmp_path / f"no-{name}")
    assert_refused(re.escape(str(tmp_path)), read_data, tmp_path)


def test_a_categorical_and_a_dictionary_column_are_query_ids(tmp_path):
    qid = pa.array(["a", "a", "a", "b", "b", "b"]).dictionary_encode()
    path = write(columns(qid=qid), tmp_path / "data.parquet")
    assert quietly(read_data, path).query_ids.tolist() == ["a", "b"]
    frame = polars.DataFrame(columns()).with_columns(polars.col("qid").cast(polars.Categorical))
    frame.write_parquet(tmp_path / "polars.parquet")
    assert quietly(read_data, tmp_path / "polars.parquet").query_ids.tolist() == ["a", "b"]


def test_what_was_read_is_learnt_as_arrays_are(tmp_path):
    scores = []
    for suffix in TABLES:
        data = read_data(write(columns(), tmp_path / f"data.{suffix}"))
        scores.append(cheap("tree-tron").solve(data).model.predict(data.X))
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])
    with pytest.raises(DataError):
        read_data(tmp_path / "data.csv", features=[])
