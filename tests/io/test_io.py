import bz2
import gzip
import lzma
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet
from scipy import sparse

import rankplug
from rankplug.data import RankingData
from rankplug.exceptions import DataError, ParameterError
from rankplug.io import FORMATS, read_data, read_label_data, read_table, svmlight, write_data
from rankplug.io.files import InputFile
from rankplug.io.svmlight_rows import ParsedRows, parse_block, parse_lines

OPENERS = {"": open, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}

finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.one_of(finite, st.integers(-3, 3).map(float), st.sampled_from([-0.0, 5e-324]))


def save(folder, text, name="data.txt"):
    path = Path(folder) / name
    content = text.encode() if isinstance(text, str) else text
    with OPENERS.get(path.suffix, open)(path, "wb") as stream:
        stream.write(content)
    return path


def equal_bits(a, b):
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()


# --- svmlight ---


@st.composite
def svmlight_texts(draw):
    """A text and what it says: relevance, query ids or None, and features as dictionaries."""
    n_rows = draw(st.integers(1, 12))
    with_ids = draw(st.booleans())
    id_values = draw(
        st.sampled_from([["1", "2", "-5"], ["q1", "007", "a:b", "ü"], ["4294967297", "1"]])
    )
    blank = st.sampled_from([" ", "  ", "\t"])
    noise = st.sampled_from(["", "", " ", " # docid = GX-1 2:9 qid:8", "\t#"])
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    relevance, ids, rows, lines = [], [], [], []
    for _ in range(n_rows):
        relevance.append(draw(numbers))
        ids.append(draw(st.sampled_from(id_values)))
        indices = sorted(draw(st.sets(st.integers(1, 9), max_size=6)))
        rows.append({j: draw(numbers) for j in indices})
        parts = [repr(relevance[-1]), *([f"qid:{ids[-1]}"] if with_ids else [])]
        parts += [f"{j}:{value!r}" for j, value in rows[-1].items()]
        lines.append("".join(part + draw(blank) for part in parts) + draw(noise))
        lines += draw(st.lists(st.sampled_from(["", "# comment", "  "]), max_size=1))
    rows[0].setdefault(1, 0.0)
    lines.insert(0, "# head")
    text = newline.join(lines) + draw(st.sampled_from(["", newline]))
    return text, relevance, ids if with_ids else None, rows


@settings(max_examples=60)
@given(
    svmlight_texts(),
    st.sampled_from(list(OPENERS)),
    st.sampled_from([1, 7, 50, 1 << 24]),
    st.sampled_from([None, True, False]),
)
def test_svmlight_is_read_as_written(written, compression, block, dense):
    text, relevance, ids, rows = written
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(svmlight, "_BLOCK", block)
        path = save(folder, text, f"data.txt{compression}")
        data = read_data(path, dense=dense, n_features=9)
    assert data.restore(data.relevance).tolist() == relevance
    if ids is None:
        assert data.n_queries == 1
    else:
        assert [str(value) for value in data.restore(data.qid)] == ids
        plain = all(value.removeprefix("-").isdigit() and value[0] != "0" for value in ids)
        assert data.query_ids.dtype.kind == ("i" if plain else "U")
    expected = np.zeros((len(rows), 9))
    for i, row in enumerate(rows):
        expected[i, [j - 1 for j in row]] = list(row.values())
    X = data.X.toarray() if sparse.issparse(data.X) else data.X
    np.testing.assert_array_equal(data.restore(X), expected)
    if dense is not None:
        assert sparse.issparse(data.X) is not dense
    if sparse.issparse(data.X):
        assert np.all(data.X.data != 0)
        assert data.X.indices.dtype == np.int32


@settings(max_examples=40)
@given(svmlight_texts(), st.sampled_from([1, 7, 50, 1 << 24]))
def test_both_parsers_agree(written, block):
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(svmlight, "_BLOCK", block)
        file = InputFile(save(folder, written[0]))
        with file.open() as stream:
            fast = ParsedRows.concatenate(
                [parse_block(one, None, np.float64) for one in svmlight._read_blocks(file, stream)]
            )
            stream.seek(0)
            slow = parse_lines(file, enumerate(stream, start=1), None, np.float64)
    assert fast.ids.to_pylist() == slow.ids.to_pylist()
    assert fast.indices.tolist() == slow.indices.tolist()
    for name in ("relevance", "counts", "values"):
        assert equal_bits(getattr(fast, name), getattr(slow, name)), name


def test_what_the_fast_parser_rejects_is_read_all_the_same(tmp_path):
    text = b"\xef\xbb\xbf1 qid:1 1:0.5\x0b3:2\n0 qid:1 2:1\n"  # byte order mark, vertical tab
    path = save(tmp_path, text)
    with pytest.raises(ValueError, match=r"CSV parse error|conversion error"):
        parse_block(text, None, np.float64)
    data = read_data(path)
    np.testing.assert_array_equal(data.X, [[0.5, 0, 2], [0, 1, 0]])


malformed = {
    "relevance": ("x qid:1 1:2", "the relevance 'x' is not a number"),
    "no relevance": ("qid:1 1:2", "begins with 'qid:1', not with a relevance"),
    "no relevance or qid": ("1:2 2:3", "begins with '1:2'"),
    "two relevances": ("1,2 qid:1 1:2", "the relevance '1,2' is not a number"),
    "relevance nan": ("nan qid:1 1:2", "the relevance is nan: give a finite number"),
    "relevance inf": ("-inf qid:1 1:2", "the relevance is -inf"),
    "no qid": ("1 1:2", "no qid, but line 2 has one: give a qid to all lines or to none"),
    "empty qid": ("1 qid: 1:2", "nothing after 'qid:'"),
    "second qid": ("1 qid:1 qid:2 1:2", "'qid:2': the qid stands once"),
    "late qid": ("1 1:2 qid:1", "no qid"),
    "misspelt qid": ("1 qidx:1 1:2", "no qid"),
    "no colon": ("1 qid:1 1:2 7", "'7' is not of the form index:value"),
    "index": ("1 qid:1 a:2", "'a:2': the index before the colon must be a whole number"),
    "decimal index": ("1 qid:1 1.5:2", "'1.5:2': the index"),
    "no index": ("1 qid:1 :2", "':2': the index"),
    "index 0": ("1 qid:1 0:2", "feature index 0: indices begin at 1, so shift all of them"),
    "index -1": ("1 qid:1 -1:2", "feature index -1: indices begin at 1"),
    "huge index": ("1 qid:1 99999999999999999999:2", "is too large"),
    "twice": ("1 qid:1 2:1 2:1", "feature 2 occurs twice: keep one of its values"),
    "descending": ("1 qid:1 5:1 3:1", "feature 3 comes after feature 5: sort the features"),
    "value": ("1 qid:1 3:abc", "feature 3: 'abc' is not a number"),
    "no value": ("1 qid:1 3:", "feature 3: '' is not a number"),
    "two colons": ("1 qid:1 3:1:2", "feature 3: '1:2' is not a number"),
    "underscore": ("1 qid:1 3:1_0", "feature 3: '1_0' is not a number"),
    "infinite": ("1 qid:1 3:-inf", "feature 3 is -inf: clip infinite values"),
    "inf": ("1 qid:1 3:inf", "feature 3 is inf"),
    "overflow": ("1 qid:1 3:1e400", "feature 3 is inf"),
    "encoding": (b"1 qid:\xff 3:1", "the query id is not UTF-8 text"),
    "binary": (b"1 qid:1 3:\xff", "feature 3: '\ufffd' is not a number"),
}


@pytest.mark.parametrize("name", malformed)
def test_malformed_line(tmp_path, name):
    line, message = malformed[name]
    line = line.encode() if isinstance(line, str) else line
    text = b"# comment\n0 qid:1 1:1 2:1 # x\n\n" + line + b"\n1 qid:2 1:1\n"
    path = save(tmp_path, text, "train.txt")
    with pytest.raises(DataError) as caught:
        read_data(path)
    assert str(caught.value).startswith(f"{path}, line 4: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("compression", OPENERS)
def test_lines_of_a_compressed_file_are_counted(tmp_path, compression):
    text = save(tmp_path, "1 1:1\n\n0 1:x\n", f"train.txt{compression}")
    with pytest.raises(DataError, match=r"train\.txt.*, line 3: feature 1: 'x'"):
        read_data(text)
    table = save(tmp_path, "label,x\n\n0,y\n", f"train.csv{compression}")
    with pytest.raises(DataError, match=r"train\.csv.*, line 3, column 'x': 'y'"):
        read_data(table)


def test_qid_that_others_do_not_have(tmp_path):
    path = save(tmp_path, "1 1:1\n0 1:2\n1 qid:3 1:1\n")
    with pytest.raises(DataError, match="line 3: a qid, but line 1 has none"):
        read_data(path)


def test_all_malformed_lines_are_listed_up_to_five(tmp_path):
    path = save(tmp_path, "a 1:1\n1 1:1\n" + "1 1:x\n" * 3)
    with pytest.raises(DataError) as caught:
        read_data(path)
    assert [line.split(":")[0].strip() for line in str(caught.value).splitlines()[1:]] == [
        "line 1",
        "line 3",
        "line 4",
        "line 5",
    ]
    with pytest.raises(DataError, match=r"line 5: .*\n  and more$"):
        read_data(save(tmp_path, "1 1:x\n" * 100))


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_file_without_rows(tmp_path, text):
    with pytest.raises(DataError, match=r"data\.txt holds no rows"):
        read_data(save(tmp_path, text))


def test_file_without_features(tmp_path):
    path = save(tmp_path, "1 qid:1\n0 qid:1\n")
    with pytest.raises(DataError, match="no features"):
        read_data(path)
    assert read_data(path, n_features=3).X.shape == (2, 3)


def test_missing_features_at_test_time(tmp_path):
    train = read_data(save(tmp_path, "1 qid:1 1:1 2:2 3:3\n0 qid:1 1:1 2:1 3:0\n", "train.txt"))
    test = save(tmp_path, "1 qid:1 1:1\n", "test.txt")
    for data in (read_data(test, like=train), read_data(test, n_features=3, dense=True)):
        np.testing.assert_array_equal(data.X, [[1, 0, 0]])
    unseen = save(tmp_path, "1 qid:1 1:1\n0 qid:1 2:1 50:1\n", "unseen.txt")
    with pytest.raises(
        DataError, match=r"unseen\.txt, line 2: feature 50 is unseen in training.*3"
    ):
        read_data(unseen, like=train)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dense", [True, False])
def test_like_gives_form_and_type(tmp_path, dtype, dense):
    path = save(tmp_path, "1 1:1 2:2\n0 1:1 2:1\n")
    train = read_data(path, dense=dense, dtype=dtype)
    test = read_data(path, like=train)
    assert type(test.X) is type(train.X)
    assert test.X.dtype == train.X.dtype == dtype


def test_density_decides_the_form(tmp_path):
    assert isinstance(read_data(save(tmp_path, "1 1:0 2:0\n0 1:0 2:1\n")).X, np.ndarray)
    assert sparse.issparse(read_data(save(tmp_path, "1 1:1\n0 9:1\n")).X)


def test_several_files_are_read_as_one(tmp_path):
    paths = [
        save(tmp_path, "1 qid:1 1:1\n2 qid:2 1:2\n", "S1.txt"),
        save(tmp_path, "3 qid:1 2:3\n", "S2.txt.gz"),
    ]
    data = read_data(paths)
    np.testing.assert_array_equal(data.relevance, [1, 3, 2])
    np.testing.assert_array_equal(data.query_ptr, [0, 2, 3])
    assert data.n_features == 2
    named = save(tmp_path, "3 qid:x 1:3\n", "named.txt")
    assert read_data([paths[0], named]).query_ids.tolist() == ["1", "2", "x"]
    with pytest.raises(DataError, match=r"plain\.txt: no qid, but other files have them"):
        read_data([paths[0], save(tmp_path, "3 1:3\n", "plain.txt")])
    with pytest.raises(ParameterError, match="empty list"):
        read_data([])


# --- files ---


def test_no_such_file(tmp_path):
    save(tmp_path, "1 1:1\n", "train.txt")
    with pytest.raises(DataError, match=r"trian\.txt: no such file; did you mean '.*train\.txt'"):
        read_data(tmp_path / "trian.txt")
    with pytest.raises(DataError, match="nor is there a folder"):
        read_data(tmp_path / "nowhere" / "train.txt")
    with pytest.raises(DataError, match="is not a prepared folder"):
        read_data(tmp_path)


@pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_file(tmp_path, compression, damage):
    text = "".join(f"{i % 3} qid:{i} 1:{i / 7!r}\n" for i in range(2000))
    path = save(tmp_path, text, f"train.txt{compression}")
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    else:
        content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"train\.txt.* is damaged or incomplete"):
        read_data(path)


def test_content_says_the_format_not_the_name(tmp_path):
    frame = pd.DataFrame({"label": [1, 0], "x": [0.5, 1.5]})
    frame.to_parquet(tmp_path / "a.txt")
    assert read_data(tmp_path / "a.txt").feature_names == ("x",)
    compressed = save(tmp_path, gzip.compress(b"1 1:2\n"), "b.svm")
    np.testing.assert_array_equal(read_data(compressed).X, [[2]])
    text = save(tmp_path, "label,x\n1,0.5\n", "c.txt")
    assert read_data(text).feature_names == ("x",)
    with pytest.raises(DataError, match="is not a parquet file"):
        read_data(save(tmp_path, "label,x\n1,2\n", "d.parquet"))
    with pytest.raises(DataError, match="different formats"):
        read_data([tmp_path / "a.txt", compressed])


def test_format_can_be_told(tmp_path):
    path = save(tmp_path, "label\n1\n")
    assert set(FORMATS) == {"svmlight", "csv", "parquet", "arrow"}
    with pytest.raises(DataError, match="no column is left for the features"):
        read_data(path, format="csv")
    with pytest.raises(ParameterError, match="unknown format 'cvs'; did you mean 'csv'"):
        read_data(path, format="cvs")
    for format_ in ("parquet", "arrow"):
        with pytest.raises(DataError, match=f"is not a valid {format_} file"):
            read_data(path, format=format_)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": "y", "features": ["a"]}, "label, features: not for svmlight files"),
        ({"n_features": 0}, "n_features=0 .must be None or an integer >= 1"),
        ({"dense": "yes"}, "dense='yes'"),
        ({"dtype": "int8"}, "dtype='int8' must be 'float32' or 'float64'"),
        ({"like": "train.txt"}, "like must be data read before"),
        (
            {"like": RankingData.from_arrays(np.eye(2), [0, 1]), "n_features": 3},
            "n_features=3 but the data of like have 2",
        ),
    ],
)
def test_arguments_that_do_not_fit(tmp_path, arguments, message):
    with pytest.raises(ParameterError, match=message):
        read_data(save(tmp_path, "1 1:2\n"), **arguments)


# --- tables ---

TABLE = pd.DataFrame(
    {
        "rel": [2.0, 0.0, 1.0],
        "query": ["b", "a", "b"],
        "importance": [3.0, 1.0, 3.0],
        "x": [0.5, -1.0, 2.0],
        "y": [1, 2, 3],
    }
)


def save_table(folder, frame, kind):
    path = Path(folder) / f"table.{kind}"
    if kind.startswith("csv"):
        frame.to_csv(path, index=False)
    elif kind == "tsv":
        frame.to_csv(path, index=False, sep="\t")
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        feather.write_feather(frame, path)
    return path


table_kinds = pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "parquet", "feather"])


@table_kinds
def test_roles_of_columns(tmp_path, kind):
    path = save_table(tmp_path, TABLE, kind)
    data = read_data(path, label="rel", qid="query", weight="importance")
    assert data.feature_names == ("x", "y")
    np.testing.assert_array_equal(data.X, [[0.5, 1], [2, 3], [-1, 2]])
    np.testing.assert_array_equal(data.relevance, [2, 1, 0])
    assert data.query_ids.tolist() == ["b", "a"]
    np.testing.assert_array_equal(data.query_weight, [3, 1])
    chosen = read_data(path, label="rel", qid="query", features=["y"], dense=False)
    np.testing.assert_array_equal(chosen.X.toarray(), [[1], [3], [2]])
    assert read_data(path, label="rel", features=["x"]).n_queries == 1


@table_kinds
def test_columns_called_label_and_qid_need_no_telling(tmp_path, kind):
    frame = TABLE.rename(columns={"rel": "label", "query": "qid"})
    data = read_data(save_table(tmp_path, frame, kind))
    assert data.n_queries == 2
    assert data.feature_names == ("importance", "x", "y")


@table_kinds
def test_like_gives_the_features_and_their_order(tmp_path, kind):
    arguments = {"label": "rel", "qid": "query"}
    train = read_data(save_table(tmp_path, TABLE, kind), features=["y", "x"], **arguments)
    test = save_table(tmp_path, TABLE[["x", "rel", "query", "y"]], kind)
    data = read_data(test, like=train, **arguments)
    assert data.feature_names == ("y", "x")
    np.testing.assert_array_equal(data.X, train.X)
    more = save_table(tmp_path, TABLE, kind)
    with pytest.raises(DataError, match="features unseen in training: importance"):
        read_data(more, like=train, **arguments)
    fewer = save_table(tmp_path, TABLE[["x", "rel", "query"]], kind)
    with pytest.raises(DataError, match=r"table.* no column 'y'"):
        read_data(fewer, like=train, **arguments)


def test_an_index_that_pandas_wrote_is_no_feature(tmp_path):
    frame = pd.DataFrame({"label": [1, 0], "x": [1.0, 2.0]}, index=[5, 3])
    frame.to_csv(tmp_path / "a.csv")
    frame.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        assert read_data(tmp_path / name).feature_names == ("x",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": "rell"}, "no column 'rell'; did you mean 'rel'.* with label="),
        ({}, r"no column 'label'.*known: .*rel.* with label="),
        ({"label": "rel", "qid": "qury"}, "no column 'qury'; did you mean 'query'.* with qid="),
        ({"label": "rel", "features": ["xx", "z"]}, "no column 'xx', 'z'.* with features="),
        ({"label": "rel", "features": ["x", "rel"]}, "column 'rel' has two roles"),
        ({"label": "rel", "features": ["x", "x"]}, "none twice"),
        ({"label": "rel", "features": []}, "at least one column"),
        ({"label": "rel", "weight": "rel"}, "different columns"),
    ],
)
@table_kinds
def test_wrong_roles(tmp_path, kind, arguments, message):
    with pytest.raises(DataError, match=message):
        read_data(save_table(tmp_path, TABLE, kind), **arguments)


@table_kinds
def test_n_features_is_not_for_tables(tmp_path, kind):
    with pytest.raises(ParameterError, match="n_features: not for"):
        read_data(save_table(tmp_path, TABLE, kind), label="rel", n_features=3)


def test_like_without_names_has_a_number_of_columns(tmp_path):
    like = RankingData.from_arrays(np.eye(3), [0, 1, 2])
    path = save(tmp_path, "label,a,b\n1,2,3\n", "a.csv")
    with pytest.raises(DataError, match=r"2 feature columns, but the data of like have 3: name"):
        read_data(path, like=like)


def test_columns_that_are_shown_follow_their_rows(tmp_path):
    """Those of several files, and where rows of a query did not stand together."""
    first = save(tmp_path, "label,qid,title,x\n1,1,a,1\n0,2,b,2\n2,1,c,3\n", "1.csv")
    second = save(tmp_path, "label,qid,title,x\n1,2,d,4\n", "2.csv")
    data = read_data(first, shown=["title"], features=["x"])
    assert data.X[:, 0].tolist() == [1, 3, 2]
    assert data.shown["title"].to_pylist() == ["a", "c", "b"]
    both = read_data([first, second], shown=["title"], features=["x"])
    assert both.X[:, 0].tolist() == [1, 3, 2, 4]
    assert both.shown["title"].to_pylist() == ["a", "c", "b", "d"]


def test_tables_without_rows_and_compressed_tables_of_arrow(tmp_path):
    TABLE[:0].to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(DataError, match=r"empty\.parquet holds no rows"):
        read_data(tmp_path / "empty.parquet", label="rel")
    with pytest.raises(DataError, match=r"empty\.parquet holds no rows"):
        read_table(tmp_path / "empty.parquet")
    for kind in ("parquet", "feather"):
        content = save_table(tmp_path, TABLE, kind).read_bytes()
        (tmp_path / f"packed.{kind}.gz").write_bytes(gzip.compress(content))
        data = read_data(tmp_path / f"packed.{kind}.gz", label="rel", qid="query", features=["x"])
        assert data.X[:, 0].tolist() == [0.5, 2.0, -1.0]


def test_several_tables(tmp_path):
    first = save(tmp_path, "label,qid,a,b\n1,7,1,2\n", "1.csv")
    second = save(tmp_path, "b,a,qid,label\n3,4,7,0\n", "2.csv")
    np.testing.assert_array_equal(read_data([first, second]).X, [[1, 2], [4, 3]])
    third = save(tmp_path, "label,qid,a,c\n1,7,1,2\n", "3.csv")
    with pytest.raises(DataError, match="do not have the same columns: only one of them has b, c"):
        read_data([first, third])


malformed_csv = {
    "text": ("1,7,oops", "line 3, column 'x': 'oops' is not a number"),
    "empty": (",7,1", "line 3, column 'label': empty: fill it in"),
    "missing": ("NA,7,1", "line 3, column 'label': NA: fill it in"),
    "infinite": ("1,7,-inf", "line 3, column 'x': -inf is not finite"),
    "qid": ("1,,1", "line 3, column 'qid': empty, so the row belongs nowhere"),
    "short": ("1,7", "line 3: 2 values, but the header names 3 columns"),
    "long": ("1,7,1,2", "line 3: 4 values, but the header names 3 columns"),
    "two": ("a,7,b", "line 3, column 'label': 'a' is not a number"),
}


@pytest.mark.parametrize("name", malformed_csv)
def test_malformed_csv(tmp_path, name):
    row, message = malformed_csv[name]
    text = f"label,qid,x\n\n{row}\n1,7,1\n"
    path = save(tmp_path, text, "train.csv")
    with pytest.raises(DataError) as caught:
        read_data(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_line_numbers_count_lines_within_quotes(tmp_path):
    path = save(tmp_path, 'title,label,x\n"two\nlines",1,2\nplain,0,oops\n', "a.csv")
    with pytest.raises(DataError, match="line 4, column 'x'"):
        read_data(path, features=["x"])


def test_long_csv_with_line_ends_within_quotes(tmp_path):
    # more than Arrow parses at once, so that it must not cut the file at just any line end
    rows = "".join(f'{i % 3},"{"a line" * 20}\n\n{i}",{i}\n' for i in range(20_000))
    data = read_data(save(tmp_path, "label,title,x\n" + rows, "a.csv"), features=["x"])
    np.testing.assert_array_equal(data.X[:, 0], np.arange(20_000))


def test_csv_that_is_no_text(tmp_path):
    with pytest.raises(DataError, match="not UTF-8 text"):
        read_data(save(tmp_path, b"label,x\n1,\xff\n", "a.csv"))
    with pytest.raises(DataError, match="unexpected end of data; check its quotation marks"):
        read_data(save(tmp_path, 'label,"x\n1,2\n', "a.csv"))
    with pytest.raises(DataError, match="is empty: a header"):
        read_data(save(tmp_path, "", "a.csv"))
    with pytest.raises(DataError, match="holds no rows below its header"):
        read_data(save(tmp_path, "label,x\n", "a.csv"))
    with pytest.raises(DataError, match="occur more than once: x"):
        read_data(save(tmp_path, "label,x,x\n1,2,3\n", "a.csv"))


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["10", "9"], [10, 9]),
        (["007", "7"], ["007", "7"]),
        (["18446744073709551617", "18446744073709551616"],) * 2,
        (["9007199254740993", "9007199254740992"], [9007199254740993, 9007199254740992]),
        (["2020-01-01", "2020-01-02"],) * 2,
        (["1.0", "1"],) * 2,
        (["a b", "NA"],) * 2,
    ],
)
def test_csv_query_ids_stay_apart(tmp_path, ids, expected):
    path = save(tmp_path, f"label,qid,x\n1,{ids[0]},1\n0,{ids[1]},2\n", "a.csv")
    assert read_data(path).query_ids.tolist() == expected


@pytest.mark.parametrize("kind", ["parquet", "feather"])
@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("x", [1.0, 2.0, np.inf], "column 'x', row 2: inf: fill in"),
        ("x", ["a", "b", "c"], r"column 'x' holds (large_)?string, not numbers: encode"),
        ("label", [None, 1.0, 2.0], "column 'label', row 0: nan"),
        ("qid", ["a", None, "b"], "column 'qid', row 1: missing, so the row belongs nowhere"),
    ],
)
def test_malformed_arrow_columns(tmp_path, kind, column, values, message):
    columns = {"label": [1.0, 0.0, 1.0], "qid": ["a", "a", "b"], "x": [1.0, 2.0, 3.0]}
    table = pa.table({**columns, column: values})
    path = tmp_path / f"train.{kind}"
    (parquet.write_table if kind == "parquet" else feather.write_feather)(table, path)
    with pytest.raises(DataError, match=rf"train\.{kind}, {message}"):
        read_data(path)


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_arrow_types(tmp_path, kind):
    table = pa.table(
        {
            "label": pa.array([1, 0], pa.int8()),
            "qid": pa.array(["a", "b"]).dictionary_encode(),
            "x": pa.array([0.1, 0.2], pa.float32()),
        }
    )
    path = tmp_path / f"train.{kind}"
    (parquet.write_table if kind == "parquet" else feather.write_feather)(table, path)
    data = read_data(path)
    assert data.X.dtype == np.float32
    assert data.query_ids.tolist() == ["a", "b"]
    assert read_data(path, dtype="float64").X.dtype == np.float64


VALID_FILES = {
    "a.txt": b"# c\n2 qid:1 1:0.5 3:-2e3 # d\n0 qid:2 1:1\n",
    "a.txt.gz": gzip.compress(b"2 qid:1 1:0.5 3:-2e3\n0 qid:2 1:1\n", mtime=0),
    "a.csv": b'label,qid,x,"t,t"\n1,a,2,"x\ny"\n0,b,3,zz\n',
}


@settings(max_examples=150)
@given(
    st.sampled_from(list(VALID_FILES)),
    st.integers(0, 100),
    st.integers(0, 3),
    st.one_of(st.binary(max_size=3), st.sampled_from([b"\n", b'"', b":", b"qid:", b"nan", b","])),
)
def test_a_damaged_file_is_read_or_refused(name, start, length, inserted):
    content = VALID_FILES[name]
    start %= len(content)
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content[:start] + inserted + content[start + length :])
        try:
            data, message = read_data(path), None
        except DataError as error:
            data, message = None, str(error)
    if data is None:
        assert str(path) in message
    else:
        assert np.isfinite(data.X.sum() + data.relevance.sum())


# --- writing ---


@st.composite
def ranking_data(draw):
    n = draw(st.integers(1, 8))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    values = st.floats(
        allow_nan=False, allow_infinity=False, width=32 if dtype == np.float32 else 64
    )
    X = np.array([[draw(values) for _ in range(3)] for _ in range(n)], dtype=dtype)
    qid = [draw(st.sampled_from([3, -1, 2**40])) for _ in range(n)]
    if draw(st.booleans()):
        qid = [f"q{value}" for value in qid]
    return RankingData.from_arrays(X, [draw(numbers) for _ in range(n)], qid)


SUFFIXES = ["txt", "svm.gz", "csv", "csv.xz", "tsv.bz2", "parquet", "arrow"]


@settings(max_examples=60)
@given(ranking_data(), st.sampled_from(SUFFIXES))
def test_written_data_are_read_back_bit_by_bit(data, suffix):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "new" / f"data.{suffix}"
        write_data(data, path)
        again = read_data(path, dtype=data.X.dtype.type, dense=True)
        assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert equal_bits(again.X, data.X)
    assert equal_bits(again.relevance, data.relevance)
    assert again.query_ids.tolist() == data.query_ids.tolist()
    assert again.order is None


@settings(max_examples=20)
@given(ranking_data())
def test_sparse_data_round_trip(data):
    rows = RankingData.from_arrays(sparse.csr_array(data.X), data.relevance, data.qid)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "data.txt"
        write_data(rows, path)
        again = read_data(path, like=rows)
    np.testing.assert_array_equal(again.X.toarray(), data.X)


@pytest.mark.parametrize(("name", "tabs"), [("a.tsv.csv", 0), ("a.TSV", 2), ("a.tsv.gz", 2)])
def test_the_last_end_of_a_name_says_what_is_between_the_cells(tmp_path, name, tabs):
    write_data(RankingData.from_arrays([[1.0], [2.0]], [1, 0]), tmp_path / name)
    content = (tmp_path / name).read_bytes()
    text = gzip.decompress(content) if name.endswith(".gz") else content
    assert text.splitlines()[0].count(b"\t") == tabs


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_names_and_weights_are_written(tmp_path, suffix):
    data = RankingData.from_arrays(
        np.eye(2),
        [1, 0],
        ["a, b", "c"],
        sample_weight=[2, 3],
        document_weight=[0.1, 1e-6],
        feature_names=["u v", "w"],
    )
    write_data(data, tmp_path / f"data.{suffix}")
    roles = {"weight": "weight", "document_weight": "document_weight"}
    again = read_data(tmp_path / f"data.{suffix}", **roles)
    both = read_data([tmp_path / f"data.{suffix}"] * 2, **roles)
    np.testing.assert_array_equal(again.document_weight, [0.1, 1e-6])
    np.testing.assert_array_equal(both.document_weight, [0.1, 0.1, 1e-6, 1e-6])
    assert again.feature_names == data.feature_names
    assert again.query_ids.tolist() == ["a, b", "c"]
    np.testing.assert_array_equal(again.query_weight, [2, 3])


def make(X=None, qid=(1, 2), **kwargs):
    return RankingData.from_arrays(np.eye(2) if X is None else X, [1, 0], list(qid), **kwargs)


@pytest.mark.parametrize(
    ("data", "name", "error", "message"),
    [
        (make(), "data.xls", ParameterError, r"must end in one of \.arrow, \.csv"),
        (make(), "data.parquet.gz", ParameterError, r"drop \.gz"),
        (make(qid=("a b", "c")), "data.txt", DataError, "query id 'a b' .* holds a blank"),
        (make(qid=("a#", "c")), "data.txt", DataError, "query id 'a#'"),
        (make(sample_weight=[1, 2]), "data.txt", DataError, "cannot hold query weights"),
        (make(document_weight=[1, 2]), "data.txt", DataError, "cannot hold document weights"),
        (make(sparse.eye_array(2)), "data.csv", DataError, "write svmlight text"),
        (make(feature_names=["qid", "x"]), "data.csv", DataError, "features called qid"),
    ],
)
def test_data_that_cannot_be_written(tmp_path, data, name, error, message):
    with pytest.raises(error, match=message):
        write_data(data, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_earlier_file(tmp_path, monkeypatch):
    path = tmp_path / "data.txt"
    write_data(make(), path)
    before = path.read_bytes()

    def fail(data, stream):
        stream.write(b"half a line")
        raise OSError("disk full")

    monkeypatch.setattr("rankplug.io.writing.write_svmlight", fail)
    with pytest.raises(OSError, match="disk full"):
        write_data(make(np.ones((2, 2))), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["data.txt"]


# --- label ranking ---

RANKS = "x,A,B,C\n0.5,1,2,3\n1.5,3,1,2\n"


def test_ranks(tmp_path):
    path = save(tmp_path, RANKS, "a.csv")
    data = read_label_data(path, labels=["A", "B", "C"], ranks=True)
    np.testing.assert_array_equal(data.relevance, [[2, 1, 0], [0, 2, 1]])
    assert list(data.labels) == ["A", "B", "C"]
    assert data.feature_names == ("x",)
    as_they_are = read_label_data(path, labels=["B", "A"], features=["x"])
    np.testing.assert_array_equal(as_they_are.relevance, [[2, 1], [1, 3]])


def test_missing_ranks_are_not_compared(tmp_path):
    data = read_label_data(
        save(tmp_path, "x,A,B\n1,,1\n2,NA,2\n", "a.csv"), labels=["A", "B"], ranks=True
    )
    np.testing.assert_array_equal(data.relevance, [[np.nan, 1], [np.nan, 0]])


def test_classes_of_a_table(tmp_path):
    train = read_label_data(save(tmp_path, "x,kind\n1,red\n2,blue\n", "a.csv"), labels="kind")
    assert list(train.labels) == ["blue", "red"]
    test = save(tmp_path, "kind,x\nred,3\n", "b.csv")
    data = read_label_data(test, labels="kind", like=train)
    np.testing.assert_array_equal(data.relevance, [[0, 1]])
    assert list(data.labels) == ["blue", "red"]
    mixed = read_label_data(save(tmp_path, "x,kind\n1,7\n2,n/k\n", "m.csv"), labels="kind")
    digits = read_label_data(save(tmp_path, "x,kind\n3,7\n", "d.csv"), labels="kind", like=mixed)
    assert list(digits.labels) == ["7", "n/k"]
    np.testing.assert_array_equal(digits.relevance, [[1, 0]])
    with pytest.raises(DataError, match=r"c\.csv: classes unseen in training: green"):
        read_label_data(save(tmp_path, "x,kind\n1,green\n", "c.csv"), labels="kind", like=train)


def test_classes_of_svmlight_text(tmp_path):
    train = read_label_data(save(tmp_path, "3 1:1\n1 2:1\n7 1:2 3:1\n"))
    assert train.labels.tolist() == [1, 3, 7]
    assert train.labels.dtype == np.int64
    test = read_label_data(save(tmp_path, "7 1:2\n"), like=train)
    np.testing.assert_array_equal(test.relevance, [[0, 0, 1]])
    assert test.n_features == 3


@pytest.mark.parametrize(
    ("name", "text", "arguments", "error", "message"),
    [
        ("a.csv", RANKS, {}, ParameterError, "name the class column"),
        ("a.csv", RANKS, {"labels": ["A", "D"]}, DataError, r"a\.csv: no column 'D'"),
        (
            "a.csv",
            RANKS,
            {"labels": ["A", "B"], "ranks": True},
            DataError,
            r"a\.csv, row 1, column 'A': 3 is not a rank",
        ),
        ("a.csv", "x,A\n1,inf\n", {"labels": ["A"]}, DataError, "line 2, column 'A': inf"),
        ("a.csv", "x,A\n1,\n", {"labels": "A"}, DataError, "line 2, column 'A': empty"),
        ("a.txt", "1 qid:1 1:1\n", {}, DataError, "query ids are for read_data"),
        ("a.txt", "1 1:1\n", {"labels": "A"}, ParameterError, "labels: not for svmlight"),
    ],
)
def test_label_data_that_cannot_be_read(tmp_path, name, text, arguments, error, message):
    with pytest.raises(error, match=message):
        read_label_data(save(tmp_path, text, name), **arguments)


# --- real data ---


def test_mq2008(data_folder):
    folder = data_folder / "letor4_mq2008"
    train = rankplug.read_data(folder / "Fold1" / "train.txt.gz")
    assert (train.n_samples, train.n_queries, train.n_features) == (9630, 471, 46)
    assert train.pair_counts.sum() == 52_325
    assert isinstance(train.X, np.ndarray)
    everything = rankplug.read_data([folder / f"S{i}.txt.gz" for i in range(1, 6)])
    assert (everything.n_samples, everything.n_queries) == (15_211, 784)


def test_one_query_of_real_values(data_folder):
    data = rankplug.read_data(data_folder / "cal_housing" / "cal_housing.txt.gz")
    assert (data.n_samples, data.n_queries, data.n_features) == (20_640, 1, 8)
    assert data.pair_counts.sum() == 212_416_110


def test_missing_feature_of_a9a(data_folder):
    train = rankplug.read_data(data_folder / "libsvm_binary" / "a9a.txt.gz")
    test = rankplug.read_data(data_folder / "libsvm_binary" / "a9a.t.txt.gz", like=train)
    assert train.X.shape == (32_561, 123)
    assert test.X.shape == (16_281, 123)
    assert sparse.issparse(test.X)


def test_real_label_rankings(data_folder):
    labels = [f"L{j}" for j in range(1, 8)]
    data = read_label_data(
        data_folder / "label_ranking" / "heat.csv.gz", labels=labels[:6], ranks=True
    )
    assert (data.n_samples, data.n_features, data.n_labels) == (2465, 24, 6)
    assert len(np.unique(data.relevance, axis=0)) == 622
