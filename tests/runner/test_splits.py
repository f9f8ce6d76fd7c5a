import numpy as np
import pytest

from rankplug.data import RankingData
from rankplug.datasets import load
from rankplug.exceptions import DataError
from rankplug.recipe import Dataset, Files, Recipe
from rankplug.runner import splits as module
from rankplug.runner.splits import describe, load_splits


def recipe(data, **values):
    return Recipe("demo", data, **{"metrics": ("map",), "solvers": (), **values})


@pytest.fixture
def given(monkeypatch):
    """Make the recipe's data these."""

    def given(**parts):
        monkeypatch.setattr(module, "_load", lambda source: parts)
        return Dataset("")

    return given


def data(X, y=(1, 0), **values):
    return RankingData.from_arrays(X, list(y), **values)


def test_an_embedded_set_has_three_parts():
    splits = load_splits(recipe(Dataset("digits-retrieval", {"n_queries": 3, "seed": 5})))
    expected = load("digits-retrieval", n_queries=3, seed=5)
    assert list(splits) == ["train", "valid", "test"]
    for split in splits:
        np.testing.assert_array_equal(splits[split].X, getattr(expected, split).X)
    assert describe(splits["train"]) == "3 queries, 300 rows, 64 features"
    assert splits["valid"].example_ids.tolist() == [3]


def test_label_ranking_data_are_described_by_instances():
    splits = load_splits(recipe(Dataset("wine"), metrics=("kendall_tau",)))
    assert describe(splits["test"]) == "36 instances, 3 labels, 13 features"
    assert splits["test"].example_ids.tolist() == list(range(36))


def test_files_get_the_features_of_the_training_set(tmp_path):
    (tmp_path / "train").write_text("1 qid:a 1:1 4:2\n0 qid:a 2:1 3:1 4:1\n")
    (tmp_path / "test").write_text("1 qid:b 1:1\n0 qid:b 2:1\n")
    files = Files(tmp_path / "train", tmp_path / "test", id=("doc_id",))
    splits = load_splits(recipe(files))
    assert list(splits) == ["train", "test"]
    assert splits["test"].shown is None  # text has no columns of ids
    assert splits["test"].id_columns == ("doc_id",)
    assert splits["test"].X.shape == (2, 4)
    assert type(splits["test"].X) is type(splits["train"].X)
    folds = module.make_folds(splits, 2, 0)
    for data in (*splits.values(), folds.data, *folds.splits(0).values()):
        assert vars(data)["has_missing"] is False  # known: nobody looks at all features again


def test_features_unseen_in_training_are_an_error(tmp_path):
    (tmp_path / "train").write_text("1 qid:a 1:1\n0 qid:a 1:2\n")
    (tmp_path / "test").write_text("1 qid:b 1:1\n0 qid:b 2:1\n")
    with pytest.raises(DataError, match="test"):
        load_splits(recipe(Files(tmp_path / "train", tmp_path / "test")))


def test_roles_name_columns(tmp_path):
    (tmp_path / "train.csv").write_text("q,grade,w,a,b,c,d\nx,1,2,5,6,7,0.5\nx,0,2,8,9,1,0\n")
    files = Files(
        tmp_path / "train.csv",
        tmp_path / "train.csv",
        tmp_path / "train.csv",
        format="csv",
        label="grade",
        qid="q",
        weight="w",
        document_weight="d",
        query_weight="inverse-idcg",
        features=("c", "a"),
    )
    splits = load_splits(recipe(files))
    assert splits["train"].query_weight.tolist() == [2]  # the best order has a DCG of 1
    for part in splits.values():
        assert part.document_weight.tolist() == [0.5, 0]
        assert part.feature_names == ("c", "a")
        assert part.X.tolist() == [[7, 5], [1, 8]]
        assert part.relevance.tolist() == [1, 0]
        assert part.query_weight.tolist() == [2]
        assert part.query_ids.tolist() == ["x"]


def test_splits_need_the_same_features(given):
    source = given(train=data(np.eye(2)), test=data(np.ones((2, 3))))
    with pytest.raises(DataError, match="test set has 3 features, which are not the 2 of"):
        load_splits(recipe(source))
    source = given(
        train=data(np.eye(2), feature_names=["a", "b"]),
        test=data(np.eye(2), feature_names=["b", "a"]),
    )
    with pytest.raises(DataError, match="the same columns"):
        load_splits(recipe(source))


@pytest.mark.parametrize("metric", ["ndcg@10", "mean_ndcg"])
def test_labels_that_a_metric_cannot_take_are_found_before_training(given, metric):
    source = given(train=data(np.eye(2)), test=data(np.eye(2), [-1, 0]))
    with pytest.raises(DataError, match=f"test set: {metric}: relevance must be >= 0"):
        load_splits(recipe(source, metrics=("map", metric)))
