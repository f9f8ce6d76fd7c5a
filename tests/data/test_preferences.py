"""Orders of names, from texts, lists and columns, and what is taken for something else."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rankplug
from rankplug import LabelRanker, LabelRankingData
from rankplug.data import read_preferences
from rankplug.exceptions import DataError, DataWarning, ParameterError

NAN = np.nan
TEXTS = ["a>b>c", "b > c", "c=a>b", None, "", "c"]
RELEVANCE = [[2, 1, 0], [NAN, 2, 1], [2, 1, 2], [NAN] * 3, [NAN] * 3, [NAN, NAN, 2]]


@pytest.fixture
def silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        yield


def expect(read, relevance, labels):
    np.testing.assert_array_equal(read.relevance, np.array(relevance, dtype=float))
    assert read.labels.tolist() == labels
    assert not read.are_classes


@pytest.mark.usefixtures("silence")
@pytest.mark.parametrize(
    "make",
    [
        list,
        np.array,
        pd.Series,
        lambda texts: pd.Series(texts, dtype="string"),
        pl.Series,
        pa.array,
        lambda texts: pd.DataFrame({"order": texts}),
        lambda texts: pl.DataFrame({"order": texts}),
        lambda texts: pa.table({"order": texts}),
        lambda texts: [[text] for text in texts],
    ],
)
def test_texts(make):
    expect(read_preferences(make(TEXTS)), RELEVANCE, ["a", "b", "c"])


PLACES = {"first": ["a", "b", None], "second": ["b", None, "c"], "third": ["c", " a ", ""]}
BY_PLACE = [[2, 1, 0], [1, 2, NAN], [NAN, NAN, 2]]


@pytest.mark.usefixtures("silence")
@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        pl.DataFrame,
        pa.table,
        lambda places: pd.DataFrame(places).astype("category"),
        lambda places: pd.DataFrame(places).to_numpy(),
        lambda places: np.array([["a", "b", "c"], ["b", "", "a"], ["", "c", ""]]),
        lambda places: [["a", "b", "c"], ["b", "a"], ["c"]],
        lambda places: [("a", "b", "c"), ("b", "a"), ("c",)],
    ],
)
def test_columns_of_places(make):
    expect(read_preferences(make(PLACES)), BY_PLACE, ["a", "b", "c"])


@pytest.mark.usefixtures("silence")
def test_numbers_as_names_are_orders_if_it_is_said():
    frame = pd.DataFrame({"first": [10, 20], "second": [20.0, NAN], "third": [30, 10]})
    expect(read_preferences(frame, orders=True), [[2, 1, 0], [1, 2, NAN]], [10, 20, 30])
    lists = [[10, 20, 30], [20, 10]]
    expect(read_preferences(lists, orders=True), [[2, 1, 0], [1, 2, NAN]], [10, 20, 30])
    relevance = read_preferences(frame)
    assert relevance.labels.tolist() == ["first", "second", "third"]
    assert relevance.relevance[0].tolist() == [10, 20, 30]


@pytest.mark.usefixtures("silence")
def test_what_is_no_order():
    assert read_preferences(["<=50K", ">50K", ">50K"]).labels.tolist() == ["<=50K", ">50K"]
    assert read_preferences(["a=b", "a"]).are_classes
    classes = read_preferences(["a>b", "b>a"], orders=False)
    assert classes.are_classes
    assert classes.labels.tolist() == ["a>b", "b>a"]
    assert read_preferences([[0.5, NAN], [1, 2]]).labels.tolist() == [0, 1]
    with pytest.raises(DataError, match="must hold numbers"):
        read_preferences([["1", "2"], ["2", "1"]])
    with pytest.raises(DataError, match=r"not numbers: b \(text\)"):
        read_preferences(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
    expect(read_preferences([["1", "2"], ["2", "1"]], orders=True), [[1, 0], [0, 1]], ["1", "2"])


def test_classes_of_which_some_look_like_orders_are_asked_about():
    with pytest.warns(DataWarning, match=r"2 of 3 classes .* such as 'a>b': pass orders=True if"):
        assert read_preferences(["a>b", "z", "b>a"]).are_classes


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (["a>b", "a>>b"], "Y, row 1: 'a>>b' is no order: write the names from the best on"),
        (["a>b", 3], "Y, row 1: 3 is no order"),
        (["a>b>a"], "Y, row 0: 'a' occurs twice"),
        ([["a", "b"], ["b", "b"]], "Y, row 1: 'b' occurs twice"),
        ([None, ""], "Y names no label"),
        ([["a", 1]], "the names in Y mixes values of types int, str"),
        ([["a", ["b"]], ["b"]], "the names in Y must be texts or numbers, not lists"),
        (np.ma.masked_array(["a>b"], mask=[True]), "masked"),
    ],
)
def test_wrong_orders_are_refused(Y, message):
    with pytest.raises(DataError, match=message):
        read_preferences(Y, orders=True)


def test_the_labels_are_those_of_training_or_those_that_are_named():
    known = np.array(["a", "b", "c", "d"])
    read = read_preferences(["c>a"], known=known)
    expect(read, [[2, NAN, 3, NAN]], list("abcd"))
    with pytest.raises(DataError, match="Y has labels that training had not: 'x'"):
        read_preferences(["c>x"], known=known)
    data = LabelRankingData.from_arrays([[1.0], [2.0]], ["b>a", "c>a"], labels=["c", "b", "a"])
    assert data.labels.tolist() == ["c", "b", "a"]
    assert data.relevance.tolist()[1][0] == 2


@pytest.fixture(scope="module")
def cities():
    """Orders of four names, of which a tenth is missing."""
    g = np.random.default_rng(0)
    names = np.array(["Oslo", "Rome", "Bonn", "Lima"])
    X = pd.DataFrame(g.normal(size=(80, 3)), columns=["sun", "rent", "size"])
    utility = X.to_numpy() @ g.normal(size=(3, 4)) + 0.1 * g.normal(size=(80, 4))
    order = names[np.argsort(-utility, axis=1)]
    order[g.random(order.shape) < 0.1] = ""
    return X, order


def test_a_label_ranker_learns_orders_and_answers_with_names(cities, tmp_path):
    X, order = cities
    texts = [">".join(filter(None, row)) for row in order]
    ranker = LabelRanker(random_state=0).fit(X, texts)
    assert ranker.labels_.tolist() == ["Bonn", "Lima", "Oslo", "Rome"]
    assert not hasattr(ranker, "classes_")
    frame = pd.DataFrame(order, columns=["first", "second", "third", "fourth"])
    for Y in (frame, order, [list(filter(None, row)) for row in order]):
        again = LabelRanker(random_state=0).fit(X, Y)
        assert again.labels_.tolist() == ranker.labels_.tolist()
        np.testing.assert_array_equal(again.predict(X), ranker.predict(X))
        assert again.score(X, Y) == ranker.score(X, texts)
    assert ranker.score(X, texts) > 0.9
    right = [guess == best for guess, best in zip(ranker.classify(X), order[:, 0], strict=True)]
    assert np.mean(right) > 0.7
    assert ranker.predict_order(X)[:, 0].tolist() == ranker.classify(X).tolist()
    ranker.fit(X, texts, eval_set=(X[:9], texts[:9]))
    assert ranker.evals_result_["validation_0"]["kendall_tau"][-1] > 0.9
    with pytest.raises(DataError, match="labels that training had not: 'Paris'"):
        ranker.score(X[:1], ["Rome>Paris"])
    ranker.model_.save(tmp_path / "model")
    loaded = LabelRanker.from_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_order(X), ranker.predict_order(X))
    assert loaded.score(X, texts) == ranker.score(X, texts)


def test_files_of_orders(cities, tmp_path):
    X, order = cities
    texts = [">".join(filter(None, row)) for row in order]
    file = tmp_path / "cities.csv"
    X.assign(order=texts).to_csv(file, index=False)
    data = rankplug.read_label_data(file, labels="order")
    direct = LabelRankingData.from_arrays(X, texts)
    np.testing.assert_array_equal(data.relevance, direct.relevance)
    assert data.labels.tolist() == direct.labels.tolist()
    X[:5].assign(order=["Rome>Oslo"] * 5).to_csv(file, index=False)
    like = rankplug.read_label_data(file, labels="order", like=data)
    assert like.labels.tolist() == data.labels.tolist()
    assert like.relevance[0].tolist()[3] == 3
    classes = rankplug.read_label_data(file, labels="order", orders=False)
    assert classes.labels.tolist() == ["Rome>Oslo"]
    X[:1].assign(order="Rome>Paris").to_csv(file, index=False)
    with pytest.raises(DataError, match=r"cities\.csv: Y has labels .* 'Paris'"):
        rankplug.read_label_data(file, labels="order", like=data)
    with pytest.raises(ParameterError, match="orders=True needs the name of the column"):
        rankplug.read_label_data(file, labels=["sun", "rent"], orders=True)
