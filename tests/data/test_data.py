import datetime
import re
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from rankplug.data import (
    LabelRankingData,
    RankingData,
    as_matrix,
    group_queries,
    with_short_indices,
)
from rankplug.estimators import Ranker
from rankplug.exceptions import DataError, ParameterError
from rankplug.models import LinearModel

qids = st.lists(st.integers(0, 4), min_size=1, max_size=30)


def ranking(qid, y=None, **kwargs):
    n = len(qid)
    X = np.arange(2.0 * n).reshape(n, 2)
    return RankingData.from_arrays(X, np.arange(n) if y is None else y, qid, **kwargs)


@given(qids)
def test_rows_of_a_query_stand_together_in_the_callers_order(qid):
    data = ranking(qid)
    first_seen = list(dict.fromkeys(qid))
    expected = [row for query in first_seen for row in range(len(qid)) if qid[row] == query]
    np.testing.assert_array_equal(data.relevance, expected)
    np.testing.assert_array_equal(data.X[:, 0], 2.0 * np.array(expected))
    np.testing.assert_array_equal(data.query_ids, first_seen)
    np.testing.assert_array_equal(np.diff(data.query_ptr), [qid.count(q) for q in first_seen])
    np.testing.assert_array_equal(data.qid, np.array(qid)[expected])
    assert data.query_ptr.dtype == np.int64


@given(qids)
def test_restore_gives_the_callers_row_order(qid):
    data = ranking(qid)
    np.testing.assert_array_equal(data.restore(data.relevance), np.arange(len(qid)))
    np.testing.assert_array_equal(data.restore(data.X)[:, 1], 2.0 * np.arange(len(qid)) + 1)


@given(qids, st.lists(st.sampled_from([-1.5, 0.0, 2.0, 2.5]), min_size=30, max_size=30))
def test_pair_counts_agree_with_brute_force(qid, levels):
    y = np.array(levels[: len(qid)])
    data = ranking(qid, y)
    ids = np.array(qid)
    expected = [
        sum(a > b for a in y[ids == query] for b in y[ids == query]) for query in data.query_ids
    ]
    np.testing.assert_array_equal(data.pair_counts, expected)
    if sum(expected):
        data.require_pairs()
    else:
        with pytest.raises(DataError, match="no preference pair"):
            data.require_pairs()


@pytest.mark.parametrize("levels", [None, 3])
def test_pair_counts_of_a_million_rows_do_not_overflow(levels):
    n = 1_000_000
    y = np.arange(n) if levels is None else np.arange(n) % levels
    data = RankingData.from_arrays(np.ones((n, 1), dtype=np.float32), y)
    n_tied = 0 if levels is None else sum(k * (k - 1) // 2 for k in np.bincount(y).tolist())
    assert data.pair_counts.tolist() == [n * (n - 1) // 2 - n_tied]


@given(qids, st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_take_queries(qid, positions):
    data = ranking(qid, sample_weight=np.array(qid) + 1.0, document_weight=np.arange(len(qid)))
    np.testing.assert_array_equal(data.restore(data.document_weight), np.arange(len(qid)))
    chosen = [position % data.n_queries for position in positions]
    part = data.take_queries(chosen)
    expected = [row for q in chosen for row in range(*data.query_ptr[q : q + 2])]
    np.testing.assert_array_equal(part.relevance, data.relevance[expected])
    np.testing.assert_array_equal(part.X, data.X[expected])
    np.testing.assert_array_equal(part.query_ids, data.query_ids[chosen])
    np.testing.assert_array_equal(part.query_weight, data.query_weight[chosen])
    np.testing.assert_array_equal(part.document_weight, data.document_weight[expected])
    both = RankingData.stack([part, part.with_facts(document_weight=None)])
    filled = np.append(part.document_weight, np.ones(part.n_samples))
    np.testing.assert_array_equal(both.document_weight, filled)


def test_take_queries_of_sparse_data_keeps_names_and_format():
    X = sparse.csr_array(np.eye(4))
    data = RankingData.from_arrays(X, [0, 1, 0, 1], [5, 5, 6, 6], feature_names=list("abcd"))
    part = data.take_queries([1])
    np.testing.assert_array_equal(part.X.toarray(), np.eye(4)[2:])
    assert part.feature_names == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([2], "no query at position 2: there are 2"),
        ([-1], "no query at position -1"),
        ([], "non-empty"),
        ([True, False], "integers"),
        ([0.5], "integers"),
    ],
)
def test_take_queries_refuses(queries, message):
    with pytest.raises(DataError, match=message):
        ranking([1, 1, 2]).take_queries(queries)


@pytest.mark.parametrize(
    "qid",
    [
        ["b", "a", "b"],
        [7, -3, 7],
        np.array([2**32, 0, 2**32], dtype=np.int64),
        np.array([2**63 + 1, 2**63, 2**63 + 1], dtype=np.uint64),
        np.array(["b", "a", "b"], dtype=object),
        np.array([7, 2, 7], dtype=object),
        np.array(["b", "a", "b"], dtype=np.dtypes.StringDType()),
        np.array([1.0, 0.5, 1.0]),
        np.array([[1], [2], [1]]),
        np.array(["2020-01-02", "2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
        pd.Series(["b", "a", "b"], index=[5, 6, 7]),
        pd.Series(["b", "a", "b"], dtype="category"),
        pd.Series([1, 2, 1], dtype="Int64"),
        pl.Series(["b", "a", "b"]),
        pl.Series([1, 2, 1]),
        pa.array(["b", "a", "b"]),
        pa.chunked_array([[1, 2], [1]]),
    ],
    ids=lambda qid: f"{type(qid).__module__}-{getattr(qid, 'dtype', getattr(qid, 'type', ''))}",
)
def test_any_kind_of_query_id(qid):
    data = ranking(qid)
    np.testing.assert_array_equal(data.relevance, [0, 2, 1])
    values = np.asarray(qid).ravel()
    assert data.query_ids.tolist() == values[:2].tolist()


@pytest.mark.parametrize(
    "qid",
    [
        [0, 2**32, 2**33, 2**62],
        [2**63, 2**63 + 1, 2**63 + 2, 5],  # NumPy makes floats of this list
        [2**63, 2**63 + 1, -1, -2],
        [2**64, 2**64 + 1, 2**70, 0],
        np.array([2**64, 2**64 + 1, 2**70, 0], dtype=object),
        np.array([2**53, 2**53 + 1, 2**53 + 2, 0], dtype=np.uint64),
    ],
)
def test_large_ids_stay_apart(qid):
    data = ranking(qid)
    assert data.n_queries == 4
    assert [int(value) for value in data.query_ids] == [int(value) for value in qid]


def test_missing_qid_means_one_query():
    data = ranking([0, 0, 0]), RankingData.from_arrays(np.eye(3), [1, 2, 3])
    assert [one.n_queries for one in data] == [1, 1]
    assert data[1].order is None


def test_group_sizes():
    data = RankingData.from_arrays(np.eye(5), [1, 2, 3, 4, 5], group=[2, 0, 3])
    np.testing.assert_array_equal(data.query_ptr, [0, 2, 5])
    np.testing.assert_array_equal(data.query_ids, [0, 2])
    small = np.array([200, 100], dtype=np.uint8)  # whose sum does not fit their type
    assert RankingData.from_arrays(np.ones((300, 1)), np.ones(300), group=small).n_queries == 2


def test_sorted_rows_are_neither_moved_nor_copied():
    X = np.ones((4, 2))
    data = RankingData.from_arrays(X, [1, 2, 3, 4], ["b", "b", "a", "a"])
    assert data.order is None
    assert data.X is X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_types_are_kept_without_a_copy(dtype):
    X = np.ones((3, 2), dtype=dtype)
    assert as_matrix(X)[0] is X
    rows = sparse.csr_array(X)
    matrix, _ = as_matrix(rows)
    assert matrix.dtype == dtype
    assert np.shares_memory(matrix.data, rows.data)
    assert np.shares_memory(matrix.indices, rows.indices)


@pytest.mark.parametrize(
    ("given_type", "kept"),
    [(np.float16, np.float32), (">f8", np.float64), (np.int8, np.float64), (bool, np.float64)],
)
def test_other_number_types_are_converted(given_type, kept):
    for X in (np.eye(3, dtype=given_type), sparse.csr_array(np.eye(3, dtype=bool))):
        matrix, _ = as_matrix(X)
        assert matrix.dtype == (np.float64 if sparse.issparse(X) else kept)
        np.testing.assert_array_equal(matrix @ np.eye(3), np.eye(3))


def test_dense_features_become_c_contiguous():
    X = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    matrix, _ = as_matrix(X)
    assert matrix.flags.c_contiguous
    np.testing.assert_array_equal(matrix, X)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_csr_is_made_canonical_without_touching_the_callers_arrays(index):
    indices = np.array([2, 0, 0, 1], dtype=index)
    row_ptr = np.array([0, 3, 4], dtype=index)
    values = np.array([1.0, 2.0, 3.0, 4.0])
    X = sparse.csr_array((values, indices, row_ptr), shape=(2, 3))
    matrix, _ = as_matrix(X)
    assert matrix.has_canonical_format
    assert matrix.indices.dtype == index
    np.testing.assert_array_equal(matrix.toarray(), [[5, 0, 1], [0, 4, 0]])
    np.testing.assert_array_equal(X.indices, [2, 0, 0, 1])
    np.testing.assert_array_equal(X.data, [1, 2, 3, 4])


@pytest.mark.parametrize("form", ["csc", "coo", "lil", "dok", "bsr", "dia"])
def test_other_sparse_formats(form):
    X = np.array([[0.0, 1.0], [2.0, 0.0]])
    for make in (sparse.csr_array, sparse.csr_matrix):
        matrix, _ = as_matrix(make(X).asformat(form))
        assert isinstance(matrix, sparse.csr_array)
        np.testing.assert_array_equal(matrix.toarray(), X)


def test_code_that_knows_short_indices_only_gets_these_or_a_refusal():
    narrow = sparse.csr_array(np.eye(3))
    narrow.indices, narrow.indptr = narrow.indices.astype(np.int64), narrow.indptr.astype(np.int64)
    short = with_short_indices(narrow, "CatBoost")
    assert short.indices.dtype == short.indptr.dtype == np.int32
    np.testing.assert_array_equal(short.toarray(), np.eye(3))
    with pytest.raises(DataError, match=r"CatBoost takes sparse features with up to 2\^31"):
        with_short_indices(sparse.csr_array((2, 2**31 + 1)), "CatBoost")


def test_64_bit_indices_survive_sorting():
    X = sparse.csr_array(np.eye(3))
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    data = RankingData.from_arrays(X, [1, 2, 3], [0, 1, 0])
    assert data.X.indices.dtype == data.X.indptr.dtype == np.int64
    np.testing.assert_array_equal(data.X.toarray(), np.eye(3)[[0, 2, 1]])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, pa.RecordBatch.from_pydict])
def test_tables_bring_their_names(make):
    frame = make({"a": [1.0, 2.0], "b": [3, 4], "c": [True, False]})
    data = RankingData.from_arrays(frame, [1, 0])
    np.testing.assert_array_equal(data.X, [[1, 3, 1], [2, 4, 0]])
    assert data.feature_names == ("a", "b", "c")
    chosen = RankingData.from_arrays(frame, [1, 0], feature_names=["c", "a"])
    np.testing.assert_array_equal(chosen.X, [[1, 1], [0, 2]])


def test_large_finite_values_are_accepted():
    X = np.full((3, 2), 1.7e308)  # their sum is infinite
    assert as_matrix(X)[0] is X
    assert as_matrix(sparse.csr_array(X))[0].nnz == 6


def nan_at(row, column, value=np.nan):
    X = np.ones((4, 3))
    X[row, column] = value
    return X


invalid_features = {
    "nan": (nan_at(2, 1), r"NaN at row 2, column 1: fill in"),
    "infinity": (nan_at(1, 0, -np.inf), r"infinity \(inf\) at row 1, column 0"),
    "sparse nan": (sparse.csr_array(nan_at(3, 2)), r"NaN at row 3, column 2"),
    "sparse gap": (sparse.csr_array(np.diag([0, 0, 1, np.inf])), r"row 3, column 3"),
    "table": (pd.DataFrame(nan_at(2, 1), columns=list("abc")), r"row 2, column 1 \(b\)"),
    "text column": (pd.DataFrame({"a": [1], "b": ["x"]}), r"not numbers: b \(text\)"),
    "date column": (pd.DataFrame({"d": pd.to_datetime(["2020-01-01"])}), "not numbers: d"),
    "complex": (np.ones((2, 2), dtype=complex), "Complex data not supported"),
    "text": (np.array([["a", "b"]]), "must hold numbers"),
    "objects": (np.array([[1, "b"]], dtype=object), "must hold numbers only"),
    "one dimension": (np.ones(3), "Reshape your data"),
    "one dimension, sparse": (sparse.coo_array(np.ones(3)), "Reshape your data"),
    "ragged": ([[1, 2], [3]], "cannot be made an array"),
    "no rows": (np.ones((0, 2)), "no rows"),
    "no columns": (np.ones((2, 0)), "no columns"),
    "none": (None, "0 dimension"),
}


@pytest.mark.parametrize("name", invalid_features)
def test_invalid_features(name):
    X, message = invalid_features[name]
    with pytest.raises(DataError, match=message):
        as_matrix(X)


def test_sparse_indices_out_of_range_are_refused():
    X = sparse.csr_array(np.eye(3))
    X.indices[1] = 7
    with pytest.raises(DataError, match="not a valid sparse matrix"):
        as_matrix(X)


X3 = np.eye(3)
invalid_arguments = {
    "y short": ({"y": [1, 2]}, "X has 3 rows but relevance y has 2 values"),
    "y nan": ({"y": [1, np.nan, 2]}, "relevance y contains nan .* at row 1"),
    "y infinite": ({"y": [1, 2, np.inf]}, "at row 2"),
    "y missing": ({"y": None}, "relevance y"),
    "y masked": ({"y": pd.Series([1, pd.NA, 2], dtype="Int64")}, "at row 1"),
    "y objects": ({"y": np.array([1, pd.NA, 2], dtype=object)}, "at row 1"),
    "y text": ({"y": ["a", "b", "c"]}, "must hold numbers"),
    "y dates": ({"y": pd.to_datetime(["2020-01-01"] * 3)}, "must hold numbers"),
    "y complex": ({"y": [1j, 2, 3]}, "Complex data not supported"),
    "y ragged": ({"y": [[1], [2, 3], [4]]}, "cannot be made an array"),
    "y wide": ({"y": np.ones((3, 2))}, "2 dimensions"),
    "qid short": ({"qid": [1, 2]}, r"qid has shape \(2,\)"),
    "qid None": ({"qid": ["a", None, "b"]}, "qid is missing .* at row 1"),
    "qid nan": ({"qid": [1.0, 2.0, np.nan]}, "qid is missing .* at row 2"),
    "qid NA": ({"qid": pd.Series(["a", pd.NA, "b"], dtype="string")}, "missing .* at row 1"),
    "qid NaT": ({"qid": np.array(["NaT", 1, 2], dtype="datetime64[D]")}, "missing .* at row 0"),
    "qid mixed": ({"qid": np.array([1, "a", 2], dtype=object)}, "mixes values of types int, str"),
    "qid floats": ({"qid": np.array([2.0**53, 1, 2])}, "pass integers or strings"),
    "qid complex": ({"qid": np.array([1j, 1, 2])}, "must hold integers or strings"),
    "qid and group": ({"qid": [1, 1, 1], "group": [3]}, "both qid and group"),
    "group sum": ({"group": [1, 1]}, "adds up to 2 rows but X has 3"),
    "group floats": ({"group": [1.0, 2.0]}, "query sizes"),
    "group negative": ({"group": [4, -1]}, "query sizes"),
    "weight varies": ({"qid": [7, 8, 8], "sample_weight": [1, 2, 3]}, "varies within query .*8"),
    "weight negative": ({"sample_weight": [-1, -1, -1]}, "negative at row 0"),
    "document weight": ({"document_weight": [1, -2, 1]}, "document_weight is negative at row 1"),
    "document NaN": ({"document_weight": [1, np.nan, 1]}, "document_weight.*row 1"),
    "document infinite": ({"document_weight": [np.inf, 1, 1]}, "document_weight.*row 0"),
    "document short": ({"document_weight": [1, 2]}, "document_weight has 2 values"),
    "weight short": ({"sample_weight": [1]}, "sample_weight has 1 values"),
    "names": ({"feature_names": ["a"]}, "1 feature names for 3 columns"),
}


@pytest.mark.parametrize("name", invalid_arguments)
def test_invalid_arguments(name):
    arguments, message = invalid_arguments[name]
    with pytest.raises(DataError, match=message):
        RankingData.from_arrays(X3, **{"y": [1, 2, 3], **arguments})


def test_queries_are_weighed_by_the_best_that_their_dcg_can_be():
    y, qid = [0.0, 2.0, 1.0, 0.0, 0.0, 1.0], [7, 7, 8, 7, 9, 8]
    X, weights = np.eye(6), {"sample_weight": [2.0, 2.0, 1.0, 2.0, 1.0, 1.0]}
    data = RankingData.from_arrays(X, y, qid, query_weight="inverse-idcg", **weights)
    np.testing.assert_allclose(data.query_weight, [2 / 3, 1 / (1 + 1 / np.log2(3)), 0.0])
    real = RankingData.from_arrays(X, np.subtract(y, 0.5), qid, query_weight="inverse-idcg")
    np.testing.assert_allclose(real.query_weight, [1 / 2, 0.0, 0.0])
    with pytest.raises(ParameterError, match="query_weight='idcg' must be 'inverse-idcg'"):
        RankingData.from_arrays(X, y, qid, query_weight="idcg")


def test_weights_follow_their_query():
    data = ranking(["b", "a", "b"], sample_weight=[2.0, 3.0, 2.0])
    np.testing.assert_array_equal(data.query_weight, [2, 3])


def test_relevance_may_be_any_real_number():
    data = RankingData.from_arrays(X3, np.array([-1.5, 1e300, 0], dtype=object))
    np.testing.assert_array_equal(data.relevance, [-1.5, 1e300, 0])
    assert data.relevance.dtype == np.float64


def test_group_queries_returns_no_order_where_nothing_moves():
    query_ptr, ids, order = group_queries(["x", "x", "y"], 3)
    assert (query_ptr.tolist(), ids.tolist(), order) == ([0, 2, 3], ["x", "y"], None)


# --- LabelRankingData ---


def test_classes_become_one_relevant_label():
    data = LabelRankingData.from_arrays(X3, ["b", "a", "b"])
    np.testing.assert_array_equal(data.labels, ["a", "b"])
    np.testing.assert_array_equal(data.relevance, [[0, 1], [1, 0], [0, 1]])
    assert (data.n_samples, data.n_features, data.n_labels) == (3, 3, 2)


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        (np.array(["b", "a", "b"], dtype=object), ["a", "b"]),
        (pd.Series(["b", "a", "b"]), ["a", "b"]),
        (np.array([3, 1, 3], dtype=object), [1, 3]),
        (np.array([True, False, True]), [False, True]),
        (np.array([1.5, 0.5, 1.5]), [0.5, 1.5]),
    ],
)
def test_kinds_of_classes(classes, labels):
    data = LabelRankingData.from_arrays(X3, classes)
    assert data.labels.tolist() == labels
    assert data.labels.dtype != object


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_label_tables(make):
    Y = make({"u": [1.0, None, 2.0], "v": [1, 2, 3]})
    data = LabelRankingData.from_arrays(X3, Y)
    assert list(data.labels) == ["u", "v"]
    np.testing.assert_array_equal(data.relevance, [[1, 1], [np.nan, 2], [2, 3]])
    data.require_pairs()


invalid_labels = {
    "rows": ({"Y": np.ones((2, 2))}, "X has 3 rows but Y has 2"),
    "infinite": ({"Y": np.full((3, 2), np.inf)}, "relevance Y contains inf"),
    "names": ({"Y": np.ones((3, 2)), "labels": ["a"]}, "2 columns but 1 labels"),
    "dimensions": ({"Y": np.ones((3, 2, 2))}, "3 dimensions"),
    "missing class": ({"Y": ["a", None, "b"]}, "class is missing .* at row 1"),
    "nan class": ({"Y": [1.0, 2.0, np.nan]}, "class is missing .* at row 2"),
    "mixed classes": ({"Y": np.array([1, "a", 2], dtype=object)}, "class mixes values"),
}


@pytest.mark.parametrize("name", invalid_labels)
def test_invalid_labels(name):
    arguments, message = invalid_labels[name]
    with pytest.raises(DataError, match=message):
        LabelRankingData.from_arrays(X3, **arguments)


@pytest.mark.parametrize(
    "Y", [np.ones((3, 4)), np.full((3, 2), np.nan), [[1, np.nan], [np.nan, 2], [3, 3]], [5, 5, 5]]
)
def test_labels_without_a_pair(Y):
    with pytest.raises(DataError, match="no preference pair"):
        LabelRankingData.from_arrays(X3, Y).require_pairs()


@pytest.mark.parametrize("end", [0, -1, -(2**31) + 2])
def test_rows_of_a_sparse_matrix_that_reach_outside_and_come_back(end):
    X = sparse.csr_array(np.eye(3))
    X.indptr[1:] = [10**6, 10**6, end]
    with pytest.raises(DataError, match="not a valid sparse matrix: index pointer values"):
        RankingData.from_arrays(X, [0, 1, 2])


def test_data_of_both_tasks_are_described_in_the_same_words():
    g = np.random.default_rng(0)
    X = g.normal(size=(9, 3))
    rows = RankingData.from_arrays(X, g.integers(0, 3, 9), [5, 5, 5, 2, 2, 9, 9, 9, 9])
    labels = LabelRankingData.from_arrays(X, g.permuted(np.tile(np.arange(4), (9, 1)), axis=1))
    assert (rows.task, rows.unit, rows.n_examples, rows.n_labels) == (
        "query-document",
        "queries",
        3,
        None,
    )
    assert (labels.task, labels.unit, labels.n_examples, labels.n_labels) == (
        "label-ranking",
        "instances",
        9,
        4,
    )
    assert rows.example_ids.tolist() == [5, 2, 9]
    assert rows.sizes.tolist() == [3, 2, 4]
    assert rows.row_query.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert labels.sizes.tolist() == [4] * 9
    assert labels.row_query.tolist() == labels.example_ids.tolist() == list(range(9))
    for data in (rows, labels):
        assert data.weights.tolist() == [1.0] * data.n_examples
        assert data.pair_counts.shape == data.weights.shape


@given(st.data())
def test_stacked_parts_are_the_whole(draw):
    g = np.random.default_rng(draw.draw(st.integers(0, 99)))
    n = draw.draw(st.integers(2, 12))
    X = g.normal(size=(n, 2))
    if draw.draw(st.booleans()):
        X = sparse.csr_array(X)
    qid = np.sort(g.integers(0, 4, n))
    weight = g.random(4)[qid] if draw.draw(st.booleans()) else None
    whole = [
        RankingData.from_arrays(X, g.integers(0, 3, n), qid, sample_weight=weight),
        LabelRankingData.from_arrays(X, g.normal(size=(n, 3))),
    ]
    for data in whole:
        cut = draw.draw(st.integers(0, data.n_examples))
        spans = [range(cut), range(cut, data.n_examples)]
        again = type(data).stack([data.take(span) for span in spans if len(span)])
        assert type(again.X) is type(data.X)
        assert abs(again.X - data.X).max() == 0
        assert np.array_equal(again.relevance, data.relevance)
        assert np.array_equal(again.example_ids, data.example_ids)
        assert np.array_equal(again.weights, data.weights)
        for mine, theirs in zip(again.structure, data.structure, strict=True):
            assert np.array_equal(mine, theirs)


def test_labels_are_taken_by_instance():
    data = LabelRankingData.from_arrays([[0.0], [1.0], [2.0]], [[0, 1], [1, 0], [2, 1]])
    part = data.take([2, 0])
    assert part.X.ravel().tolist() == [2.0, 0.0]
    assert part.relevance.tolist() == [[2.0, 1.0], [0.0, 1.0]]
    with pytest.raises(DataError, match="no instance at position 3: there are 3"):
        data.take([3])


def day(number):
    return datetime.date(2020, 1, number)


IDS = {
    "decimal numbers": ([Decimal(7), Decimal(7), Decimal("8.0")], [7, 8]),
    "decimal fractions": ([Decimal("0.5"), Decimal("0.5"), Decimal("0.7")], ["0.5", "0.7"]),
    "dates": ([day(2), day(2), day(1)], ["2020-01-02", "2020-01-01"]),
    "times with a zone": (
        pd.to_datetime(["2020-01-02", "2020-01-02", "2020-01-01"]).tz_localize("UTC"),
        ["2020-01-02 00:00:00+00:00", "2020-01-01 00:00:00+00:00"],
    ),
    "periods": (pd.PeriodIndex(["2021", "2021", "2020"], freq="Y"), ["2021", "2020"]),
    "UUIDs": ([UUID(int=2), UUID(int=2), UUID(int=1)], [str(UUID(int=2)), str(UUID(int=1))]),
    "bytes": (pd.Series([b"b", b"b", b"a"]), [b"b", b"a"]),
}


@pytest.mark.parametrize(("qid", "ids"), IDS.values(), ids=IDS)
@pytest.mark.parametrize("make", [list, pd.Series], ids=["list", "series"])
def test_ids_of_one_kind_are_ids(qid, ids, make):
    data = RankingData.from_arrays(np.eye(3), [0, 1, 0], make(qid))
    assert data.query_ids.tolist() == ids
    assert data.query_ptr.tolist() == [0, 2, 3]


def test_ids_of_two_kinds_are_refused():
    with pytest.raises(DataError, match="qid mixes values of types Decimal, date"):
        RankingData.from_arrays(np.eye(2), [0, 1], [Decimal(1), day(1)])


def test_a_weight_a_query_is_taken_where_rows_of_queries_stand_together():
    y, qid = [0, 1, 2, 0, 1], ["b", "b", "b", "a", "a"]
    by_row = RankingData.from_arrays(np.eye(5), y, qid, sample_weight=[2, 2, 2, 3, 3])
    for one_a_query in (
        RankingData.from_arrays(np.eye(5), y, qid, sample_weight=[2, 3]),
        RankingData.from_arrays(np.eye(5), y, group=[3, 2], sample_weight=[2, 3]),
    ):
        assert one_a_query.query_weight.tolist() == by_row.query_weight.tolist() == [2.0, 3.0]
    with pytest.raises(DataError, match="rows of a query do not stand together: give one for each"):
        RankingData.from_arrays(np.eye(3), [0, 1, 2], [1, 2, 1], sample_weight=[1, 2])
    with pytest.raises(DataError, match="sample_weight is negative at query 1"):
        RankingData.from_arrays(np.eye(5), y, qid, sample_weight=[1, -1])


def masked(values):
    return np.ma.masked_equal(values, 9)


MASKED = {
    "X": ({"X": masked([[1.0, 9.0], [2.0, 3.0]])}, "X is masked at row 0, column 1: fill in"),
    "y": ({"y": masked([1, 9])}, "relevance y is masked at row 1"),
    "qid": ({"qid": masked([9, 2])}, "qid is masked at row 0"),
    "weight": ({"sample_weight": masked([1.0, 9.0])}, "sample_weight is masked at row 1"),
}


@pytest.mark.parametrize(("given", "message"), MASKED.values(), ids=MASKED)
def test_masked_values_are_refused(given, message):
    arrays = {"X": [[1.0, 2.0], [2.0, 3.0]], "y": [0, 1], "qid": [1, 1], **given}
    with pytest.raises(DataError, match=message):
        RankingData.from_arrays(**arrays)
    with pytest.raises(DataError, match=message):
        Ranker().fit(**arrays)


def test_masked_labels_are_refused_and_masks_of_nothing_are_not():
    with pytest.raises(DataError, match="relevance Y is masked at row 0, column 1"):
        LabelRankingData.from_arrays(np.eye(2), masked([[1, 9], [0, 1]]))
    whole = masked([[1.0, 2.0], [3.0, 4.0]])
    assert RankingData.from_arrays(whole, [0, 1]).X.tolist() == whole.data.tolist()


NO_NUMBERS = {
    "times": (pd.to_datetime(["2020", "2021"]), "v (datetime64"),
    "dates": ([day(1), day(2)], "v (date)"),
    "durations": (pd.to_timedelta([1, 2]), "v (timedelta64"),
    "periods": (pd.PeriodIndex(["2020", "2021"], freq="Y"), "v (Period)"),
    "dicts": ([{}, {}], "v (dict)"),
}


@pytest.mark.parametrize(("values", "message"), NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_columns_that_are_no_numbers_are_named_from_every_way_in(values, message):
    frame = pd.DataFrame({"a": [1.0, 2.0], "v": values})
    model = LinearModel([1.0, 2.0], ["a", "v"])
    ranker = Ranker().fit(pd.DataFrame({"a": [1.0, 2.0], "v": [3.0, 1.0]}), [0, 1])
    for use in (
        lambda: RankingData.from_arrays(frame, [0, 1]),
        lambda: Ranker().fit(frame, [0, 1]),
        lambda: ranker.predict(frame),
        lambda: model.predict(frame),
    ):
        with pytest.raises(DataError, match=re.escape(f"not numbers: {message}")):
            use()
    if frame.to_numpy().dtype == object:
        with pytest.raises(DataError, match=r"column 1 \("):
            Ranker().fit(frame.to_numpy(), [0, 1])
        with pytest.raises(DataError, match=r"X must hold numbers only: column 1 \("):
            RankingData.from_arrays(frame.to_numpy(), [0, 1])
