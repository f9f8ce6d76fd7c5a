"""What recipes leave open: columns, splits and metrics, settled by the data."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from rankplug import prepare
from rankplug.exceptions import DataError
from rankplug.recipe import Dataset, Entry, Files, OneFile, Recipe, Split, load_recipe
from rankplug.runner import Observer, run
from rankplug.runner.settling import settle_columns, settle_metrics
from rankplug.runner.splits import load_splits


@pytest.fixture
def table(tmp_path):
    """A file of 20 queries of 6 rows."""
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame(
        {
            "query": np.repeat([f"q{number}" for number in range(20)], 6),
            "doc_id": [f"d{number}" for number in range(n)],
            "title": "red shoes",
            "a": rng.normal(size=n),
            "b": rng.random(n) < 0.5,
            "grade": rng.integers(0, 4, n),
        }
    )
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


def recipe(data, **values):
    solvers = (Entry("tree-tron"), Entry("constant"))
    return Recipe("demo", data, **{"metrics": (), "solvers": solvers, **values})


def one(path, **values):
    return recipe(OneFile(path, **{"label": "grade", "qid": "query", **values}))


def test_what_describes_rows_is_shown_and_no_feature_where_it_is_text(table, tmp_path):
    frame = pd.read_csv(table)
    parts = {"label": "grade", "qid": "query", "id": ("doc_id",), "display": ("title", "a")}
    for data in (
        OneFile(table, **parts),
        Files(table, table, **parts),
        Files(table, table, **{**parts, "features": ("b", "a")}),
    ):
        settled, _ = settle_columns(recipe(data))
        splits = load_splits(settled)
        test = splits["test"]
        assert set(test.feature_names) == {"a", "b"}
        assert test.shown.column_names == ["title", "a"]
        place = test.feature_names.index("a")
        np.testing.assert_array_equal(test.shown["a"].to_numpy(), test.X[:, place])
        ids = load_splits(replace(settled, data=replace(settled.data, display=())))["test"].shown
        kept = frame[frame["query"].isin(test.query_ids)]
        assert ids["doc_id"].to_pylist() == kept["doc_id"].tolist()
    with pytest.raises(DataError, match="no column 'titel'; did you mean 'title'"):
        settle_columns(one(table, display=("titel",)))
    text = tmp_path / "data.txt"
    text.write_text("1 qid:1 1:1\n0 qid:1 1:0\n")
    with pytest.raises(DataError, match="has no columns that display could name"):
        settle_columns(recipe(Files(text, text, display=("title",))))


def test_whole_queries_are_drawn(table):
    settled, _ = settle_columns(one(table))
    splits = load_splits(settled)
    assert {name: part.n_queries for name, part in splits.items()} == {
        "train": 12,
        "valid": 4,
        "test": 4,
    }
    ids = [set(part.query_ids) for part in splits.values()]
    assert len(set.union(*ids)) == 20
    for part in splits.values():
        assert set(part.sizes) == {6}
        assert part.feature_names == ("a", "b")
        assert part.id_columns == ("doc_id",)
        assert part.query_column == "query"
        numbers = [int(name[1:]) for name in part.query_ids]
        assert numbers == sorted(numbers)
    again = load_splits(settled)
    assert again["test"].query_ids.tolist() == splits["test"].query_ids.tolist()
    for other in (replace(settled, seed=1), one(table, features=("a",), split=Split(seed=1))):
        drawn = load_splits(other)["test"].query_ids.tolist()
        assert drawn != splits["test"].query_ids.tolist()
        assert drawn == load_splits(replace(settled, seed=1))["test"].query_ids.tolist()


@pytest.mark.parametrize(
    ("split", "sizes"),
    [
        (Split(0, 0.5), {"train": 10, "test": 10}),
        (Split(0.01, 0.01), {"train": 18, "valid": 1, "test": 1}),
        (Split(0.45, 0.5), {"train": 1, "valid": 9, "test": 10}),
    ],
)
def test_shares_can_be_chosen(table, split, sizes):
    splits = load_splits(one(table, features=("a",), split=split))
    assert {name: part.n_queries for name, part in splits.items()} == sizes


def test_too_few_queries_are_an_error(tmp_path):
    (tmp_path / "a.csv").write_text("query,a,grade\n1,2,0\n1,3,1\n2,3,1\n")
    with pytest.raises(DataError, match="2 queries cannot be split"):
        load_splits(one(tmp_path / "a.csv", features=("a",)))


def test_text_and_prepared_folders_are_split_too(tmp_path, table):
    lines = [f"{row % 3} qid:{row // 4} 1:{row} 2:1\n" for row in range(40)]
    (tmp_path / "a.txt").write_text("".join(lines))
    prepare(table, tmp_path / "folder", label="grade", qid="query", features=["a"], progress=False)
    for path, n in [(tmp_path / "a.txt", 6), (tmp_path / "folder", 12)]:
        settled, lines = settle_columns(recipe(OneFile(path)))
        assert lines == ()
        splits = load_splits(settled)
        assert splits["train"].n_queries == n
        assert list(splits) == ["train", "valid", "test"]


def test_a_line_is_said_of_everything_that_was_chosen(table):
    settled, lines = settle_columns(one(table))
    assert settled.data == replace(one(table).data, features=("a", "b"), id=("doc_id",))
    assert lines == (
        "data:     table.csv, 120 rows, 20 queries (query), relevance grade: whole numbers from 0 "
        "to 3",
        "features: a, b",
        "left out: doc_id (ids, which stand beside predictions)",
        "left out: title (text)",
    )
    assert settle_columns(settled) == (settled, ())


def test_files_that_are_split_already_choose_only_if_they_are_asked_to(table):
    files = Files(table, table, label="grade", qid="query")
    assert settle_columns(recipe(files)) == (recipe(files), ())
    chosen, lines = settle_columns(recipe(replace(files, features="auto", drop=("b",))))
    assert chosen.data.features == ("a",)
    assert chosen.data.drop == ()
    assert lines[1] == "features: a"
    left, lines = settle_columns(recipe(replace(files, drop=("title", "b"), id=("doc_id",))))
    assert left.data == replace(files, features=("a",), id=("doc_id",))
    assert lines == ()
    assert load_splits(left)["test"].id_columns == ("doc_id",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": None, "qid": None}, r"table.csv: which column holds .* --label grade --qid que"),
        ({"label": "grad"}, "table.csv: no column 'grad'; did you mean 'grade'"),
        ({"drop": ("x",)}, "table.csv: no column 'x'"),
        ({"features": ("a",), "drop": ("x",)}, "table.csv: no column 'x'"),
        ({"features": ("a",), "id": ("a",)}, "table.csv: columns a are features and also"),
    ],
)
def test_mistakes_name_the_file(table, changes, message):
    with pytest.raises(DataError, match=message):
        settle_columns(one(table, **changes))


@pytest.mark.parametrize(
    ("labels", "metrics"),
    [
        ([0, 1, 4], ("ndcg@10", "mrr", "pairwise_accuracy")),
        ([0, 1e5, 3e5], ("ndcg@10[gain=linear]", "pairwise_accuracy")),
        ([-1, 0.5, 2], ("pairwise_accuracy",)),
    ],
)
def test_metrics_are_those_that_suit_the_labels(tmp_path, labels, metrics):
    frame = pd.DataFrame({"qid": np.repeat(range(9), 3), "a": range(27), "label": labels * 9})
    frame.to_csv(tmp_path / "a.csv", index=False)
    data = recipe(OneFile(tmp_path / "a.csv", features=("a",)))
    assert settle_metrics(data, load_splits(data)).metrics == metrics
    named = replace(data, metrics=("pairwise_accuracy",))
    assert settle_metrics(named, load_splits(named)) == named


def test_metrics_of_label_ranking():
    wine = recipe(Dataset("wine"))
    assert settle_metrics(wine, load_splits(wine)).metrics == ("kendall_tau", "top1_error")


def test_a_run_tells_its_observers_and_keeps_the_settled_recipe(table, tmp_path, monkeypatch):
    from rankplug.report import REPORT_FILES
    from rankplug.runner import turn

    monkeypatch.setattr(turn, "measure", lambda model, data: {})
    monkeypatch.setitem(REPORT_FILES, "report.html", lambda report: "<!DOCTYPE html>")  # slow
    told = []

    class Told(Observer):
        def data_loaded(self, lines):
            told.extend(lines)

        def run_started(self, recipe, splits):
            told.append(recipe)

    report = run(one(table), observer=Told(), output=tmp_path / "out", progress=False)
    *lines, settled = told
    assert lines[-1] == (
        "split:    12 to train on, 4 to validate, 4 to test: whole queries, drawn with seed 0"
    )
    assert report.metrics == ("ndcg@10", "mrr", "pairwise_accuracy")
    kept = load_recipe(tmp_path / "out" / "recipe.yaml")
    assert kept == settled
    assert kept.data.features == ("a", "b")
    model = report.outcomes[0].result.model
    assert (model.feature_names, model.id_columns) == (("a", "b"), ("doc_id",))
    again = run(kept, output=tmp_path / "again", progress=False)
    assert again.digests == report.digests
