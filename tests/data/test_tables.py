from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from rankplug.data import read_features, tables
from rankplug.exceptions import DataError

MAKERS = [pd.DataFrame, pl.DataFrame, pa.table, pa.RecordBatch.from_pydict]
makers = pytest.mark.parametrize("make", MAKERS, ids=["pandas", "polars", "arrow", "batch"])


@makers
def test_what_is_a_table(make):
    assert tables.is_table(make({"a": [1]}))
    for other in (np.ones((2, 2)), [[1]], sparse.eye_array(2), {"a": [1]}, pd.Series([1]), None):
        assert not tables.is_table(other)


@makers
def test_columns_by_name(make):
    table = make({"b": [1, 2], "a": ["x", "y"]})
    assert tables.column_names(table) == ["b", "a"]
    assert tables.column(table, "a").tolist() == ["x", "y"]
    with pytest.raises(DataError, match=r"no column 'aa'; did you mean 'a'\?"):
        tables.column(table, "aa")


@pytest.mark.parametrize(
    "table",
    [pd.DataFrame([[1, 2]], columns=["a", "a"]), pa.table([[1], [2]], ["a", "a"])],
    ids=["pandas", "arrow"],
)
def test_a_name_that_occurs_twice(table):
    with pytest.raises(DataError, match="'a' occurs 2 times"):
        tables.column(table, "a")


def test_names_are_strings():
    frame = pd.DataFrame([[1.0, 2.0]], columns=[0, 1])
    assert tables.column_names(frame) == ["0", "1"]
    np.testing.assert_array_equal(tables.to_matrix(frame, ["1"]), [[2.0]])


@makers
def test_matrix_of_named_columns(make):
    table = make({"a": [1, 2], "b": [0.5, 1.5], "c": [True, False]})
    matrix = tables.to_matrix(table)
    assert matrix.dtype == np.float64
    assert matrix.flags.c_contiguous
    np.testing.assert_array_equal(matrix, [[1, 0.5, 1], [2, 1.5, 0]])
    np.testing.assert_array_equal(tables.to_matrix(table, ["c", "a"]), [[1, 1], [0, 2]])


@makers
def test_missing_values_become_nan(make):
    table = make({"a": [1, None], "b": [0.5, None], "c": [True, None]})
    np.testing.assert_array_equal(tables.to_matrix(table), [[1, 0.5, 1], [np.nan] * 3])


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "double[pyarrow]", object])
def test_pandas_types_with_missing_values(dtype):
    frame = pd.DataFrame({"a": pd.Series([1, 0, None], dtype=dtype)})
    np.testing.assert_array_equal(tables.to_matrix(frame), [[1], [0], [np.nan]])


@pytest.mark.parametrize(
    "values",
    [
        pd.DataFrame({"a": np.array([1, 2.5], dtype=object)}),
        pa.table({"a": [Decimal("1"), Decimal("2.5")]}),
        pl.DataFrame({"a": [Decimal("1"), Decimal("2.5")]}),
    ],
    ids=["objects", "arrow decimals", "polars decimals"],
)
def test_numbers_in_other_clothes(values):
    np.testing.assert_array_equal(tables.to_matrix(values), [[1], [2.5]])


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((np.float32, np.float32), np.float32),
        ((np.float16, np.float32), np.float32),
        ((np.float32, np.float64), np.float64),
        ((np.float32, np.int8), np.float64),
    ],
)
def test_float32_is_kept_if_all_columns_are(types, expected):
    frame = pd.DataFrame({str(j): np.ones(3, dtype=t) for j, t in enumerate(types)})
    assert tables.to_matrix(frame).dtype == expected


def test_small_frames_of_numbers_are_read_at_once_with_the_same_result(monkeypatch):
    base = pd.DataFrame({"t": ["x", "y"], "b": [3.0, np.nan], "a": [1.0, 2.0]})
    types = ["int64", "uint64", "int8", "bool", "float32", "float16", "Int64", "category"]
    frames = [
        base,
        base.assign(a=[2**60 + 1, 2]),
        *(base.assign(a=base.a.astype(t)) for t in types),
    ]
    at_once = [read_features(frame, ["a", "b"], {}).matrix for frame in frames]
    monkeypatch.setattr(tables, "_FEW_VALUES", 0)
    for frame, found in zip(frames, at_once, strict=True):
        expected = read_features(frame, ["a", "b"], {}).matrix
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        assert not np.shares_memory(found, frame["b"].to_numpy())


@makers
def test_all_wrong_columns_are_named(make):
    table = make({"a": ["x"], "b": [1], "c": ["y"]})
    with pytest.raises(DataError, match=r"not numbers: a \(text\), c \(text\); encode"):
        tables.to_matrix(table)
    with pytest.raises(DataError, match="missing feature columns: z, y"):
        tables.to_matrix(table, ["z", "b", "y"])


def test_more_rows_than_are_moved_at_once():
    values = np.arange(10_001.0)
    matrix = tables.to_matrix(pd.DataFrame({"a": values, "b": -values}))
    np.testing.assert_array_equal(matrix, np.column_stack((values, -values)))


@pytest.mark.parametrize(
    ("value", "missing"),
    [(None, True), (np.nan, True), (pd.NA, True), (pd.NaT, True), (0, False), ("", False)],
)
def test_is_missing(value, missing):
    assert tables.is_missing(value) is missing
