"""TREC's runs and qrels, read and written."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankplug.exceptions import DataError
from rankplug.io import read_qrels, read_run, write_qrels, write_run
from rankplug.metrics import evaluate_run

RUN = """\
q1 Q0 doc-2 1 14.5 mine
q1\tQ0   doc-1 99 7e-1 mine

q2 Q0 Straße 1 -3 mine
"""
QRELS = "q1 0 doc-1 2\nq1 0 doc-3 0\nq2 0 Straße -1\n"


def test_a_run_is_read_by_its_scores(tmp_path):
    (tmp_path / "x.run").write_text(RUN, encoding="utf-8")
    run = read_run(tmp_path / "x.run")
    assert run.to_dict("list") == {
        "query_id": ["q1", "q1", "q2"],
        "doc_id": ["doc-2", "doc-1", "Straße"],
        "score": [14.5, 0.7, -3.0],
    }
    (tmp_path / "y.run.gz").write_bytes(gzip.compress(RUN.replace("\n", "\r\n").encode()))
    pd.testing.assert_frame_equal(read_run(tmp_path / "y.run.gz"), run)


def test_qrels_are_read(tmp_path):
    (tmp_path / "qrels").write_text("\ufeff" + QRELS, encoding="utf-8")
    qrels = read_qrels(tmp_path / "qrels")
    assert qrels["query_id"].tolist() == ["q1", "q1", "q2"]
    assert qrels["relevance"].tolist() == [2, 0, -1]
    assert qrels["relevance"].dtype == np.int64


def test_what_is_written_is_read_back_bit_by_bit(tmp_path):
    rng = np.random.default_rng(0)
    run = pd.DataFrame(
        {
            "query_id": np.repeat([7, 3, 5], 4),
            "doc_id": [f"d{i}" for i in range(12)],
            "score": rng.normal(size=12) * 10.0 ** rng.integers(-200, 200, 12),
        }
    )
    write_run(run, tmp_path / "new" / "x.run.gz", tag="mine")
    found = read_run(tmp_path / "new" / "x.run.gz")
    assert found["query_id"].unique().tolist() == ["7", "3", "5"]
    expected = run.set_index("doc_id")["score"]
    assert (expected[found["doc_id"]].to_numpy() == found["score"].to_numpy()).all()
    for _, docs in found.groupby("query_id"):
        assert docs["score"].is_monotonic_decreasing
    text = gzip.decompress((tmp_path / "new" / "x.run.gz").read_bytes()).decode()
    lines = text.splitlines()
    assert [line.split()[3] for line in lines] == ["1", "2", "3", "4"] * 3
    assert {line.split()[5] for line in lines} == {"mine"}
    qrels = pd.DataFrame({"query_id": ["a", "b"], "doc_id": ["x", "y"], "relevance": [2, -1]})
    write_qrels(qrels, tmp_path / "qrels")
    pd.testing.assert_frame_equal(read_qrels(tmp_path / "qrels"), qrels, check_dtype=False)
    for form in (pl.from_pandas, pa.Table.from_pandas):
        write_qrels(form(qrels), tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "qrels").read_bytes()
        write_run(form(run), tmp_path / "new" / "y.run.gz", tag="mine")
        assert gzip.decompress((tmp_path / "new" / "y.run.gz").read_bytes()).decode() == text


def test_equal_scores_are_written_as_trec_eval_orders_them(tmp_path):
    run = pd.DataFrame({"query_id": "q", "doc_id": ["a", "c", "b"], "score": [1, 1, 1]})
    write_run(run, tmp_path / "x.run")
    assert read_run(tmp_path / "x.run")["doc_id"].tolist() == ["c", "b", "a"]


@pytest.mark.parametrize("ids", [[7.0, 3.0], pd.array([7, 3], dtype="Float64"), [7.0, "3"]])
def test_whole_numbers_that_were_made_floats_are_written_whole(ids, tmp_path):
    run = pd.DataFrame({"query_id": "q", "doc_id": ids, "score": [2.0, 1.0]})
    write_run(run, tmp_path / "x.run")
    assert read_run(tmp_path / "x.run")["doc_id"].tolist() == ["7", "3"]
    assert evaluate_run({"q": {"7": 1}}, run, "RR") == {"RR": 1.0}


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_run, "q1 Q0 d 1 2.5\n", "line 1: 5 fields instead of the 6"),
        (read_run, "\nq1 Q0 d 1 x t\n", "line 2: score 'x' is not a finite number"),
        (read_run, "q1 Q0 d 1 nan t\n", "line 1: score 'nan'"),
        (read_run, "q Q0 d 1 2 t\n\nq Q0 d 2 1 t\n", "line 3: document 'd' stands twice"),
        (read_run, "", "is empty"),
        (read_run, QRELS, "4 fields instead of the 6"),
        (read_qrels, RUN, "6 fields instead of the 4"),
        (read_qrels, "q1 0 d 1.5\n", "line 1: relevance '1.5' is not a whole number"),
        (read_qrels, "q1 0 d 1\nq1 0 d 2\n", "line 2: document 'd' stands twice"),
        (read_qrels, "q1 0 d 99999999999999999999\n", "not a whole number"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(read, text, message, tmp_path):
    (tmp_path / "file").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read(tmp_path / "file")


PIECES = ["0", "1", "q1", "Q0", "d-1", "2.5", "1e400", "-3", "nan", "tag", "ä", "\x00", "_"]
WORDS = st.sampled_from([*PIECES, "", "\t", "\n", "\r"])


@given(st.one_of(st.binary(max_size=80), st.lists(WORDS, max_size=40).map(" ".join)))
@settings(max_examples=150, deadline=None)
def test_whatever_a_file_holds_is_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.run"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for read, value in ((read_run, "score"), (read_qrels, "relevance")):
        try:
            found = read(path)
        except DataError:
            continue
        assert len(found) > 0
        assert np.isfinite(found[value]).all()


def test_files_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"q1 Q0 \xff\xfe 1 2 t\n")
    with pytest.raises(DataError, match="line 1: it is not UTF-8"):
        read_run(tmp_path / "file")
    with pytest.raises(DataError, match="no such file"):
        read_qrels(tmp_path / "gone")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"doc_id": ["a b", "c"]}, "'a b': TREC's files need words"),
        ({"query_id": ["", "c"]}, "query_id ''"),
        ({"score": [1.0, np.nan]}, "finite numbers"),
        ({"score": ["x", "y"]}, "finite numbers"),
        ({"doc_id": ["a", "a"]}, "stands twice"),
        ({"doc_id": [7, np.nan]}, "doc_id is missing .* at row 1: fill it in"),
        ({"query_id": [None, "a"]}, "query_id is missing .* at row 0"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is_left(changes, message, tmp_path):
    run = pd.DataFrame({"query_id": "q", "doc_id": ["a", "b"], "score": [1.0, 2.0]})
    with pytest.raises(DataError, match=message):
        write_run(run.assign(**changes), tmp_path / "x.run")
    with pytest.raises(DataError, match="no column score"):
        write_run(run.drop(columns="score"), tmp_path / "x.run")
    with pytest.raises(DataError, match="tag 'a b'"):
        write_run(run, tmp_path / "x.run", tag="a b")
    assert list(tmp_path.iterdir()) == []
