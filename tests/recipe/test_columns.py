"""What columns hold, which of them are features, and which may be label and query."""

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rankplug.exceptions import DataError, ParameterError
from rankplug.io import read_table
from rankplug.io.frames import arrow_table
from rankplug.recipe import choose_columns
from rankplug.recipe.columns import has_decimal_commas


def searches(n_queries=20, size=6):
    """A table as people have it: one row for each document that a query found."""
    rng = np.random.default_rng(0)
    n = n_queries * size
    return pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(100, 100 + n_queries), size),
            "doc_id": [f"d{number}" for number in rng.permutation(n)],
            "title": [f"red shoes {number % 7}" for number in range(n)],
            "clicks": rng.poisson(3, n),
            "price": rng.lognormal(2, 1, n).round(2),
            "published": pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d"),
            "in_stock": rng.random(n) < 0.7,
            "rating": np.where(rng.random(n) < 0.2, np.nan, rng.uniform(1, 5, n).round(1)),
            "country": "SE",
            "version": 3,
            "empty": np.nan,
            "row": np.arange(n),
            "query_number": np.repeat(np.arange(n_queries), size),
            "copy": np.arange(n) % 5,
            "grade": np.arange(n) % 5,
        }
    )


EXPECTED = {
    "doc_id": "ids",
    "title": "text",
    "published": "times",
    "country": "text",
    "version": "always 3",
    "empty": "no values",
    "row": "the numbers of the rows",
    "query_number": "the numbers of the queries",
    "copy": "a copy of grade",
}


@pytest.fixture(params=["csv", "csv.gz", "parquet", "arrow", "pandas", "polars"])
def table(request, tmp_path):
    frame, path = searches(), tmp_path / f"a.{request.param}"
    if request.param.startswith("csv"):
        frame.to_csv(path, index=False)
    elif request.param == "parquet":
        frame.to_parquet(path, index=False)
    elif request.param == "arrow":
        frame.to_feather(path)
    elif request.param == "pandas":
        return pa.Table.from_pandas(frame.assign(title=frame["title"].astype("category")))
    else:
        dates = [dt.datetime(2024, 1, 1 + day % 28) for day in range(len(frame))]
        return pl.from_pandas(frame).with_columns(pl.Series("published", dates)).to_arrow()
    return read_table(path)


def test_numbers_and_truth_values_are_features_and_others_are_left_out_with_a_reason(table):
    choice = choose_columns(table, label="grade", qid="query_id")
    assert choice.features == ("clicks", "price", "in_stock", "rating")
    expected = EXPECTED | {"published": choice.left_out["published"]}
    assert choice.left_out == expected
    assert choice.left_out["published"] in ("times", "text")
    assert choice.ids == ("doc_id",)
    held = {column.name: str(column) for column in choice.columns}
    assert held["grade"] == "whole numbers from 0 to 4"
    assert held["in_stock"] == "true or false, as 1 and 0"
    assert held["rating"] == "numbers from 1.1 to 4.9, 15 % missing"
    assert held["title"] == "text such as 'red shoes 0', 7 different"
    assert held["empty"] == "no values"


def test_a_csv_file_has_the_types_of_its_values(tmp_path):
    (tmp_path / "a.csv").write_text(
        "day,when,flag,number,text,hole\n"
        "2024-01-01,2024-01-01 10:00:00,True,1,a,\n"
        ",2024-01-02 11:30:00,,NA,,\n"
        "2024-02-29,2024-01-03 00:00:00,false, 1e3 ,b,\n"
    )
    kinds = {field.name: str(field.type) for field in read_table(tmp_path / "a.csv").schema}
    assert kinds == {
        "day": "timestamp[us]",
        "when": "timestamp[us]",
        "flag": "bool",
        "number": "double",
        "text": "string",
        "hole": "null",
    }
    for text, message in [("a,b\n1\n", "line 2: 1 values"), ("a,b\n", "no rows")]:
        (tmp_path / "b.csv").write_text(text)
        with pytest.raises(DataError, match=message):
            read_table(tmp_path / "b.csv")
    (tmp_path / "c.txt").write_text("1 qid:1 1:1\n")
    with pytest.raises(DataError, match="svmlight text has no columns"):
        read_table(tmp_path / "c.txt")
    with pytest.raises(ParameterError, match=r"unknown format 'cvs'.*'csv'"):
        read_table(tmp_path / "a.csv", format="cvs")


@pytest.mark.parametrize(
    ("name", "values", "is_id"),
    [
        ("doc_id", [7, 7, 8, 9], True),
        ("docId", [7, 7, 8, 9], True),
        ("ID", [7, 7, 8, 9], True),
        ("url", ["a b", "c", "c", "d"], True),
        ("document", ["d1", "d2", "d3", "d4"], True),
        ("document", ["d 1", "d 2", "d 3", "d 4"], False),
        ("bid", [7, 7, 8, 9], False),
        ("paid", [7, 7, 8, 9], False),
        ("key_figure", [7, 7, 8, 9], False),
        ("score_id", [0.5, 0.5, 1.5, 2], False),
    ],
)
def test_ids_are_known_by_their_names_and_by_texts_that_differ(name, values, is_id):
    rows = {name: values, "x": [1, 3, 2, 5], "label": [0, 1, 0, 1], "qid": [1, 1, 2, 2]}
    assert choose_columns(pa.table(rows)).ids == ((name,) if is_id else ())


def test_what_is_asked_for_counts():
    table = pa.Table.from_pandas(searches())
    choice = choose_columns(
        table, label="grade", qid="query_id", weight="version", drop=["clicks"], ids=["title"]
    )
    assert choice.features == ("price", "in_stock", "rating")
    assert choice.ids == ("title",)
    assert not {"version", "clicks", "title"} & set(choice.left_out)


def test_lists_and_columns_that_are_there_twice_are_left_out():
    arrays = [[0, 1], [1, 1], [[1], [2]], [1.0, 2.0], [3.0, 4.0], [5, 6], [b"a", b"b"]]
    names = ["label", "qid", "tags", "x", "x", "y", "raw"]
    choice = choose_columns(pa.table([pa.array(one) for one in arrays], names=names))
    assert choice.features == ("y",)
    assert choice.left_out == {
        "tags": "lists",
        "x": "there is more than one",
        "raw": "neither numbers nor text",
    }


def test_without_label_and_query_those_that_are_likely_are_listed():
    table = pa.Table.from_pandas(searches())
    with pytest.raises(DataError) as caught:
        choose_columns(table)
    lines = str(caught.value).splitlines()
    assert lines[0] == (
        "which column holds the relevance of each row and its query? Likely --label grade "
        "--qid query_id (in recipes and in Python: label, qid):"
    )
    assert lines[1].split(maxsplit=2) == ["--label", "grade", "whole numbers from 0 to 4"]
    assert not any("in_stock" in line or "title" in line for line in lines)
    assert any(line.split()[:2] == ["--qid", "query_id"] for line in lines)
    with pytest.raises(DataError, match=r"which column holds its query\? Likely --qid query_id"):
        choose_columns(table, label="grade")
    with pytest.raises(
        DataError, match=r"Likely --label grade \(in recipes and in Python: label\)"
    ):
        choose_columns(table, qid="query_id")
    with pytest.raises(DataError, match="Name it with --label and --qid; columns: a"):
        choose_columns(pa.table({"a": ["x", "y"]}))


def test_mistakes_are_named():
    table = pa.Table.from_pandas(searches())
    with pytest.raises(DataError, match="no column 'grad'; did you mean 'grade'"):
        choose_columns(table, label="grad", qid="query_id")
    with pytest.raises(DataError, match="no column 'doc'; did you mean 'doc_id'"):
        choose_columns(table, label="grade", qid="query_id", ids=["doc"])
    nothing = table.select(["grade", "query_id", "title", "version"])
    with pytest.raises(DataError, match=r"no column can be a feature.*\n  title: text\n  version"):
        choose_columns(nothing, label="grade", qid="query_id")


def small(**columns):
    ranked = {"label": [0, 1, 0, 1], "qid": [1, 1, 2, 2], "x": [1.5, 3, 2, 5]}
    return pa.table({**ranked, **columns})


def test_a_text_of_which_most_is_numbers_is_named_with_what_is_none():
    choice = choose_columns(small(price=["1.5", "2", "?", "-3e5"], few=["1", "a", "b", "c"]))
    assert choice.left_out["price"] == "text, as '?' is no number"
    assert choice.left_out["few"] == "ids"  # all different, without blanks
    assert choice.features == ("x",)


def test_what_only_looks_like_label_or_query_is_a_feature():
    """The same range and as many values, in another order; numbers of other groups of rows."""
    choice = choose_columns(
        small(turned=[1, 0, 1, 0], other=[7, 8, 8, 7], copy=[0, 1, 0, 1], number=[4, 4, 9, 9])
    )
    assert choice.features == ("x", "turned", "other")
    assert choice.left_out == {
        "copy": "a copy of label", "number": "the numbers of the queries"
    }  # fmt: skip


def test_columns_of_every_type_of_arrow_are_described():
    day, second = dt.date(2024, 2, 29), dt.timedelta(seconds=1)
    given = {
        "decimals": pa.array(
            [decimal.Decimal("1.5"), None, decimal.Decimal(2), decimal.Decimal(3)]
        ),
        "half": pa.array(np.array([1.5, 2, 3, 7], np.float16)),
        "coded": pa.array([7, 3, 3, 9]).dictionary_encode(),
        "days": pa.array([day, None, day, day]),
        "durations": pa.array([second, None, second * 2, second]),
        "clock": pa.array([dt.time(1), dt.time(2), None, dt.time(1)]),
        "lists": pa.array([[1], [], None, [2]]),
        "pairs": pa.array([{"a": 1}] * 4),
        "bytes": pa.array([b"a", b"b", None, b"a"]),
        "words": pa.array(["a b", "c", "a b", None], pa.large_string()).dictionary_encode(),
        "views": pa.array(["a b", "c", "a b", None], getattr(pa, "string_view", pa.string)()),
        "__index_level_0__": pa.array([3, 9, 1, 4]),
    }
    choice = choose_columns(small(**given))
    assert choice.features == ("x", "decimals", "half", "coded")
    assert choice.left_out == {
        "days": "times",
        "durations": "neither numbers nor text",
        "clock": "times",
        "lists": "lists",
        "pairs": "lists",
        "bytes": "neither numbers nor text",
        "words": "text",
        "views": "text",
        "__index_level_0__": "the index of the rows",
    }
    assert all(str(column) for column in choice.columns)


def test_columns_of_pandas_that_arrow_has_not_are_described():
    frame = pd.DataFrame(
        {
            "sparse": pd.arrays.SparseArray([0, 0, 1, 2.5]),
            "months": pd.period_range("2024", periods=4, freq="M"),
            "mixed": [1, "a", None, 2.5],
            ("a", 1): [1, 2, 3, 9],
            "label": [0, 1, 0, 1],
            "qid": [1, 1, 2, 2],
        }
    )
    choice = choose_columns(arrow_table(frame))
    assert choice.features == ("sparse", "('a', 1)")
    assert choice.left_out == {
        "months": "neither numbers nor text",
        "mixed": "text, as 'a' is no number",
    }


def test_infinite_values_are_left_out_and_said():
    choice = choose_columns(small(a=[1.5, np.inf, 2, 3], b=[-np.inf, np.nan, 0, 1]))
    infinite = "infinite values: clip them, or leave them empty"
    assert choice.left_out == {"a": infinite, "b": infinite}
    assert str(choice.columns[3]) == "numbers from 1.5 to inf"


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (
            ["bad", "good", "bad", "good"],
            "the label 'label' must be numbers, .* text such as 'bad'",
        ),
        ([2, 2, 2, 2], "the label 'label' is the same in all rows"),
        ([None, None, None, None], "must be numbers, the higher the better, but it is no values"),
    ],
)
def test_a_label_that_teaches_nothing_is_an_error(label, message):
    with pytest.raises(DataError, match=message):
        choose_columns(small(label=label))


@pytest.mark.parametrize(
    ("cells", "commas"),
    [
        (["1,5", "2", None], True),
        (["-0,25", ",5", "1,5"], True),
        (["1,234", "2,500", "12"], False),  # may be thousands
        (["1,234", "2,5", "12"], True),
        (["1,5", "a", None], False),
        (["1", "2", "3"], False),
        ([1.5, 2.5, 3.5], False),
    ],
)
def test_decimal_commas_are_found(cells, commas):
    assert has_decimal_commas(pa.table({"x": cells, "title": ["a, b", "c", "d"]})) == commas


def test_what_others_write_for_missing_values_is_missing(tmp_path):
    marks = ["n/a", "NA", "#N/A", "<NA>", "\\N", "null", "None", "NaN", ""]
    (tmp_path / "a.csv").write_text("x,y\n1,0\n" + "".join(f"{mark},1\n" for mark in marks))
    column = read_table(tmp_path / "a.csv").column("x")
    assert str(column.type) == "double"
    assert np.isnan(column.to_numpy()).sum() == len(marks)
