"""A column without a name, as an index that was written along, is no feature, and that is said."""

import warnings

import numpy as np
import pandas as pd
import pytest

from rankplug import Ranker, prepare, read_data
from rankplug.cli import main
from rankplug.clicks import ClickLog
from rankplug.exceptions import DataWarning
from rankplug.io import read_label_data
from rankplug.recipe import parse_recipe
from rankplug.runner import load_splits

FRAME = pd.DataFrame(
    {"label": [0, 1, 2, 0], "qid": [1, 1, 2, 2], "a": [0.5, 0.25, 2, 3], "b": [9.0, 8, 7, 5]},
    index=[3, 1, 0, 2],
)


def written(folder, n_times):
    file = folder / "data.csv"
    frame = FRAME
    for _ in range(n_times):
        frame.to_csv(file)
        frame = pd.read_csv(file)
    return file


def whole(path):
    return read_data(path)


def prepared(path):
    return prepare(path, path.parent / "folder", progress=False).data()


def labels(path):
    return read_label_data(path, labels="label", features=None)


@pytest.mark.parametrize("read", [whole, prepared])
@pytest.mark.parametrize("n_times", [1, 2, 3])
def test_an_index_that_was_written_along_is_no_feature(tmp_path, n_times, read):
    with pytest.warns(DataWarning, match="column '.* has no name, .* and is no feature"):
        data = read(written(tmp_path, n_times))
    assert data.feature_names == ("a", "b")
    np.testing.assert_array_equal(data.X, FRAME[["a", "b"]])


def test_labels_and_parquet_too(tmp_path):
    with pytest.warns(DataWarning, match="has no name"):
        assert labels(written(tmp_path, 2)).feature_names == ("qid", "a", "b")
    FRAME.to_parquet(tmp_path / "data.parquet")
    with pytest.warns(DataWarning, match="'__index_level_0__' has no name"):
        assert read_data(tmp_path / "data.parquet").feature_names == ("a", "b")


def test_logs_of_clicks_too(tmp_path):
    """Where the number of a row would tell its position, and so what was clicked."""
    log = FRAME.assign(document=range(4), position=[1, 2, 1, 2], click=[0, 1, 1, 0])
    log.to_parquet(tmp_path / "log.parquet")
    log.to_csv(tmp_path / "log.csv")
    (tmp_path / "again.csv").write_text(pd.read_csv(tmp_path / "log.csv").to_csv(index=False))
    for file in ("log.parquet", "log.csv", "again.csv"):
        with pytest.warns(DataWarning, match="column '.*' has no name, .* and is no feature"):
            read = ClickLog.from_table(tmp_path / file)
        assert read.documents.feature_names == ("label", "a", "b")
        text = (
            f"data: {{train: {file}, test: {file}, drop: [b]}}\nclicks: {{propensities: none}}\n"
            "solvers: [tree-tron]\n"
        )
        with pytest.warns(DataWarning, match=f"{file}: column '.*' has no name"):
            splits = load_splits(parse_recipe(text, "logs", "logs.yaml", tmp_path))
        assert splits["train"].feature_names == ("a",)


def test_what_is_named_is_a_feature(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = read_data(written(tmp_path, 2), features=["a", "Unnamed: 0"])
    assert data.feature_names == ("a", "Unnamed: 0")


def test_models_do_without_it(tmp_path):
    ranker = Ranker("tree-tron").fit(FRAME[["a", "b"]].to_numpy(), FRAME["label"], qid=FRAME["qid"])
    ranker.model_.save(tmp_path / "model")
    out = tmp_path / "scores.csv"
    data = written(tmp_path, 2)
    assert main(["predict", str(tmp_path / "model"), str(data), "-o", str(out)]) == 0
    expected = ranker.predict(FRAME[["a", "b"]].to_numpy())
    np.testing.assert_allclose(pd.read_csv(out)["score"], expected)


def test_fit_asks_about_it():
    frame = FRAME.drop(columns="label").rename(columns={"b": "Unnamed: 0"})
    with pytest.warns(DataWarning, match="'Unnamed: 0', which looks like an index"):
        ranker = Ranker("tree-tron").fit(frame, FRAME["label"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranker.predict(frame)
