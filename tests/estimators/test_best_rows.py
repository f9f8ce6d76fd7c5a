"""`top_k`: the best rows of each query, or labels of each row, in a table of the caller's kind."""

import doctest
import importlib
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from rankplug import LabelRanker, Ranker
from rankplug.exceptions import DataError, DataWarning, ParameterError
from rankplug.models import answers

F = ["year", "length"]


@pytest.fixture(scope="module")
def films():
    g = np.random.default_rng(3)
    user = np.array([f"user {i}" for i in np.repeat(np.arange(6), 4)])
    table = pd.DataFrame(
        {
            "title": [f"film {i}" for i in range(24)],
            "year": g.normal(size=24),
            "user": user,
            "length": g.normal(size=24),
        },
        index=pd.Index(np.arange(100, 124), name="id"),
    )
    order = g.permutation(24)
    return table.iloc[order]


@pytest.fixture(scope="module")
def stars(films):
    return np.digitize(films["year"] - films["length"], [-0.5, 0.5])


@pytest.fixture(scope="module")
def ranker(films, stars):
    return Ranker().fit(films[F], stars, qid=films["user"])


def test_the_frame_keeps_its_index_and_what_is_no_feature(films, ranker):
    best = ranker.top_k(films, k=2)
    assert best.columns.tolist() == ["user", "title", "rank", "score"]
    assert best.index.name == "id"
    scores = pd.Series(ranker.predict(films[F]), index=films.index)
    expected = [
        scores[group].sort_values(ascending=False).index[:2].tolist()
        for group in (films.index[films["user"] == one] for one in films["user"].unique())
    ]
    assert best.index.tolist() == [index for group in expected for index in group]
    assert best["rank"].tolist() == [1, 2] * 6
    for column in ("user", "title"):
        assert best[column].tolist() == films.loc[best.index, column].tolist()
    assert best["score"].tolist() == scores[best.index].tolist()
    assert films.columns.tolist() == ["title", "year", "user", "length"]


def test_all_ways_to_tell_the_queries_agree(films, ranker):
    best = ranker.top_k(films, k=3)
    pd.testing.assert_frame_equal(ranker.top_k(films, films["user"], 3), best)
    other = ranker.top_k(films[F], qid=films["user"].to_numpy(), k=3)
    assert other.columns.tolist() == ["qid", "rank", "score"]
    assert other["qid"].tolist() == best["user"].tolist()
    named = ranker.top_k(films.rename(columns={"user": "qid"}), k=3)
    assert named.columns.tolist() == ["qid", "title", "rank", "score"]
    for table in (other, named):
        assert table.index.tolist() == best.index.tolist()
    old = answers.top_k(ranker.predict(films[F]), films["user"].to_numpy(), 3)
    assert old["score"].tolist() == best["score"].tolist()


def test_tables_of_other_kinds(films, ranker):
    best = ranker.top_k(films, k=2)
    rows = [films.index.get_loc(index) for index in best.index]
    columns = ["user", "row", "title", "rank", "score"]
    found = ranker.top_k(pl.from_pandas(films), k=2)
    assert isinstance(found, pl.DataFrame)
    assert found.columns == columns
    arrow = pa.Table.from_pandas(films, preserve_index=False)
    for table in (arrow, arrow.to_batches()[0]):
        in_arrow = ranker.top_k(table, k=2)
        assert isinstance(in_arrow, pa.Table)
        assert in_arrow.to_pydict() == found.to_dict(as_series=False)
    assert found["row"].to_list() == rows
    assert found["title"].to_list() == best["title"].tolist()
    assert found["score"].to_list() == best["score"].tolist()
    only = ranker.top_k(pl.from_pandas(films[F]), qid=films["user"], k=2)
    assert only.columns == ["user", "row", "rank", "score"]
    assert only["row"].to_list() == rows


def test_arrays_and_sparse_matrices(films, stars):
    X = films[F].to_numpy()
    ranker = Ranker().fit(X, stars, qid=films["user"])
    best = ranker.top_k(X, films["user"], 2)
    assert best.columns.tolist() == ["user", "row", "rank", "score"]
    assert best["rank"].tolist() == [1, 2] * 6
    assert ranker.predict(X)[best["row"]].tolist() == best["score"].tolist()
    pd.testing.assert_frame_equal(ranker.top_k(sparse.csr_matrix(X), films["user"], 2), best)
    listed = ranker.top_k(X.tolist(), films["user"].tolist(), 2)
    assert listed.columns.tolist() == ["qid", "row", "rank", "score"]
    # Without the names of features, a frame has no other columns than the query's.
    frame = films[F].assign(qid=films["user"])
    assert ranker.top_k(frame, k=2).columns.tolist() == ["qid", "rank", "score"]


def test_types_of_the_columns_stay(films, ranker):
    table = films.assign(
        seen=pd.to_datetime("2026-01-01"), genre=pd.Categorical(["a", "b"] * 12), n=np.int32(3)
    )
    best = ranker.top_k(table, k=1)
    for name in ("seen", "genre", "n", "title"):
        assert best[name].dtype == table[name].dtype
    in_polars = ranker.top_k(pl.from_pandas(table), k=1)
    assert in_polars.schema["seen"] == pl.from_pandas(table).schema["seen"]


def test_equal_index_values_and_short_queries(films, ranker):
    table = films.set_index(np.zeros(24, dtype=int))
    assert len(ranker.top_k(table, k=100)) == 24
    assert set(ranker.top_k(table, k=100).index) == {0}


def test_one_query_needs_no_ids(films, stars):
    ranker = Ranker().fit(films[F], stars, group=[24])
    best = ranker.top_k(films, k=3)
    assert best.columns.tolist() == ["qid", "title", "user", "rank", "score"]
    assert best["qid"].tolist() == [0, 0, 0]


def test_what_is_wrong_is_told(films, ranker):
    with pytest.raises(DataError, match=r"top_k needs the queries.* a column 'user' \(qid=\[0\]"):
        ranker.top_k(films[F])
    with pytest.raises(DataError, match="missing feature columns: length"):
        ranker.top_k(films.drop(columns="length"))
    with pytest.raises(DataError, match="X has a column 'score', where the answer has its own"):
        ranker.top_k(films.assign(score=1))
    with pytest.raises(DataError, match="a column 'row'"):
        ranker.top_k(pl.from_pandas(films.assign(row=1)))
    with pytest.raises(DataError, match="column 'qid', which holds the queries, and they are"):
        ranker.top_k(films.assign(qid=1), qid=films["user"])
    with pytest.raises(DataError, match="qid has shape"):
        ranker.top_k(films, qid=[1, 2])
    for k in (0, 1.5, True, "3"):
        with pytest.raises(ParameterError, match=r"k=.* must be an integer of at least 1"):
            ranker.top_k(films, k=k)


def test_ranks_without_queries_are_asked_about(films, ranker):
    with pytest.warns(DataWarning, match=r"ranked as one query, although .* qid=\[0\] \* len"):
        ranker.rank(films[F])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranker.rank(films[F], [0] * 24)
        ranker.rank(films[F][:1])


# ------------------------------------------------------------------- labels


def test_the_best_labels_of_each_row(films):
    X = films[F].to_numpy()
    Y = pd.DataFrame({"b": X[:, 0], "a": X[:, 1], "c": -X.sum(axis=1)})
    ranker = LabelRanker().fit(films[F], Y)
    order = ranker.predict_order(films[F])
    assert order.shape == (24, 3)
    assert order[:, 0].tolist() == ranker.classify(films[F]).tolist()
    np.testing.assert_array_equal(
        ranker.rank(films[F]), [[list(row).index(name) + 1 for name in "bac"] for row in order]
    )
    best = ranker.top_k(films, k=2)
    assert best.columns.tolist() == ["title", "user", "label", "rank", "score"]
    assert best.index.tolist() == np.repeat(films.index, 2).tolist()
    assert best["label"].tolist() == order[:, :2].ravel().tolist()
    assert best["rank"].tolist() == [1, 2] * 24
    assert best["score"].tolist() == (-np.sort(-ranker.predict(films[F])))[:, :2].ravel().tolist()
    assert len(ranker.top_k(films)) == 72
    in_polars = ranker.top_k(pl.from_pandas(films), k=2)
    assert in_polars.columns == ["row", "title", "user", "label", "rank", "score"]
    assert in_polars["label"].to_list() == best["label"].tolist()
    unnamed = LabelRanker().fit(X, Y).top_k(X, k=2)
    assert unnamed["label"].tolist() == best["label"].tolist()
    assert unnamed.columns.tolist() == ["row", "label", "rank", "score"]


def test_examples_of_the_estimators():
    module = importlib.import_module("rankplug.estimators.ranker")
    failed, attempted = doctest.testmod(module)
    assert attempted
    assert not failed
