"""Logs of clicks from tables and files, and what is said about those that cannot be right."""

import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rankplug.clicks import ClickLog
from rankplug.exceptions import DataError

LOG = pd.DataFrame(
    {
        "qid": ["b", "b", "b", "a", "a", "b"],
        "document": [1, 2, 2, 1, 3, 1],
        "position": [1, 2, 1, 1, 2, 2],
        "click": [1, 0, 1, 0, 1, 0],
        "session": [5, 5, 6, 5, 5, 6],
        "bm25": [0.5, 0.25, 0.25, 0.75, 1.0, 0.5],
        "price": [1.0, np.nan, np.nan, 2.0, 3.0, 1.0],
    }
)


def arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def csv(frame, folder):
    frame.to_csv(folder / "log.csv", index=False)
    return folder / "log.csv"


def halves(frame, folder):
    for part, rows in (("1", frame[:3]), ("2", frame[3:])):
        rows.to_parquet(folder / part)
    return [folder / "1", folder / "2"]


FORMS = {
    "pandas": lambda frame, _: frame,
    "polars": lambda frame, _: pl.from_pandas(frame),
    "lazy": lambda frame, _: pl.from_pandas(frame).lazy(),
    "arrow": lambda frame, _: arrow(frame),
    "csv": csv,
    "parquet": halves,
}


@pytest.mark.parametrize("form", FORMS)
def test_logs_are_read_from_tables_and_files(form, tmp_path):
    log = ClickLog.from_table(FORMS[form](LOG, tmp_path), session="session")
    assert repr(log) == "<ClickLog: 2 queries, 4 documents, 6 impressions, 3 clicks>"
    assert log.documents.query_ids.tolist() == ["b", "a"]
    assert log.document_ids.tolist() == [1, 2, 1, 3]
    assert log.documents.feature_names == ("bm25", "price")
    assert log.documents.X[log.row, 0].tolist() == LOG["bm25"].tolist()
    assert log.position.tolist() == LOG["position"].tolist()
    assert log.click.tolist() == LOG["click"].astype(bool).tolist()
    assert log.n_sessions.tolist() == [2, 1]
    assert log.cells.shown.tolist() == [1] * 6


@pytest.mark.parametrize("form", FORMS)
def test_documents_may_have_a_table_of_their_own(form, tmp_path):
    documents = pd.DataFrame(
        {"qid": list("abbba"), "document": [3, 2, 9, 1, 1], "bm25": [1.0, 0.25, 9.0, 0.5, 0.75]}
    )
    shown = FORMS[form](LOG.drop(columns=["bm25", "price"]), tmp_path)
    (tmp_path / "documents").mkdir()
    documents = FORMS[form](documents, tmp_path / "documents")
    log = ClickLog.from_table(shown, documents, features=["bm25"])
    # Also those that were never shown.
    assert log.document_ids.tolist() == [3, 1, 2, 9, 1]
    assert log.documents.X[log.row, 0].tolist() == LOG["bm25"].tolist()
    assert log.n_sessions.tolist() == [1, 2]


def test_ids_of_one_table_may_be_text_and_of_the_other_numbers():
    documents = LOG.drop_duplicates(["qid", "document"])[["qid", "document", "bm25"]]
    documents = documents.assign(document=documents["document"].astype(str))
    log = ClickLog.from_table(LOG.drop(columns=["bm25", "price"]), documents)
    assert log.documents.X[log.row, 0].tolist() == LOG["bm25"].tolist()
    for ids in (np.uint64(2**63) + np.arange(6, dtype=np.uint64), np.arange(6) / 2, list(range(6))):
        log = ClickLog.from_table(LOG.assign(document=pd.Series(ids)), features=["bm25"])
        assert log.documents.n_samples == 6


def changed(**columns):
    return LOG.assign(**{name: pd.Series(values) for name, values in columns.items()})


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (changed(position=[1, 2, 0, 1, 2, 2]), {}, "holds 0 at row 2.*from 1 to 10,000.*add 1"),
        (changed(position=[1, 2, 1.5, 1, 2, 2]), {}, "'position' holds 1.5 at row 2"),
        (changed(position=[1, 2, 10**9, 1, 2, 2]), {}, "holds 1e[+]09 at row 2"),
        (changed(position=[1, 2, np.nan, 1, 2, 2]), {}, "'position' contains nan.* at row 2"),
        (changed(click=[1, 0, 2, 0, 1, 0]), {}, "'click' holds 2 at row 2: it must be 0 or 1"),
        (changed(click=["yes"] * 6), {}, "'click' must hold numbers"),
        (changed(document=[1, 2, None, 1, 3, 1]), {}, "'document' is missing at row 2"),
        (changed(qid=["a", None] * 3), {}, "'qid' is missing at row 1"),
        (
            changed(position=[1, 1, 1, 1, 2, 2]),
            {"session": "session"},
            "session 5, query b has two rows at position 1: rows 0 and 1",
        ),
        (
            changed(bm25=[0.5, 0.25, 0.2, 0.75, 1.0, 0.5]),
            {"session": "session"},
            "'bm25' of document 2 of query b has .* 0.25 at row 1 and 0.2 at row 2.* name those",
        ),
        (changed(document=[1, "1", 2, 1, 3, 1]), {}, "'document' mixes values of several types"),
        (changed(document=[2.0**53 + 2, 2, 2, 1, 3, 1]), {}, "ids of 2.53 or more"),
        (dask.dataframe.from_pandas(LOG), {}, "the log is on a cluster"),
        ([], {}, "the log has no files"),
        (LOG, {"query": "query"}, "no column 'query'"),
        (LOG, {"features": ["bm26"]}, "no column 'bm26'; did you mean 'bm25'"),
        (LOG, {"features": ["bm25", "click"]}, "features: click holds something else"),
        (LOG, {"session": "qid"}, "named for two purposes"),
        (LOG, {}, "'session' of document 2 of query b has different values, 5 at row 1"),
        (LOG[["qid", "document", "position", "click"]], {}, "no columns of features"),
        (LOG[:0], {}, "no rows"),
        (LOG.to_numpy(), {}, "must be a table of pandas, polars or Arrow, .* not a ndarray"),
        (
            LOG[["qid", "document", "position", "click"]],
            {"documents": LOG[:2][["qid", "document", "bm25"]]},
            "2 documents of the log are unknown, such as 1 of query a at row 3",
        ),
    ],
)
def test_bad_logs_are_refused_with_what_is_wrong_where(table, options, message):
    with pytest.raises(DataError, match=message):
        ClickLog.from_table(table, **options)


def test_files_of_a_log_have_the_same_columns(tmp_path):
    files = halves(LOG, tmp_path)
    LOG[3:].assign(bm25="high").to_parquet(files[1])
    with pytest.raises(DataError, match=r"files of the log do not have the same columns: .*bm25"):
        ClickLog.from_table(files, session="session")


def test_lists_are_queries_of_their_own_in_the_order_shown():
    log = ClickLog.from_table(LOG.iloc[[1, 0, 2, 5, 3, 4]], session="session")
    sessions = log.to_sessions()
    assert sessions.sizes.tolist() == [2, 2, 2]
    assert sessions.relevance.tolist() == [1, 0, 1, 0, 0, 1]
    assert sessions.X[:, 0].tolist() == [0.5, 0.25, 0.25, 0.5, 0.75, 1.0]
    with pytest.raises(DataError, match="need ids of sessions"):
        ClickLog.from_table(LOG, features=["bm25"]).to_sessions()


def test_a_part_of_a_log():
    log = ClickLog.from_table(
        LOG.assign(random=[0, 0, 1, 0, 0, 1]), randomised="random", session="session"
    )
    assert log.up_to(1).click.tolist() == [True, True, False]
    assert log.randomised_part().position.tolist() == [1, 2]
    with pytest.raises(DataError, match="no document was shown at positions up to 0"):
        log.up_to(0)
    with pytest.raises(DataError, match="name the column"):
        ClickLog.from_table(LOG, features=["bm25"]).randomised_part()
