"""LazyFrames of polars are collected, once, from every way in."""

import numpy as np
import polars as pl
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import rankplug.mlflow
from rankplug import LabelRanker, Ranker, RankingData, tune
from rankplug.data import LabelRankingData
from rankplug.models.pipelines import pipeline_model

RNG = np.random.default_rng(0)
FRAME = pl.DataFrame(
    {
        "a": RNG.normal(size=60),
        "b": RNG.normal(size=60),
        "qid": np.repeat(np.arange(6), 10),
        "label": np.tile([0, 1, 2], 20),
    }
)
COLUMNS = ["a", "b", "qid"]


@pytest.fixture
def lazy():
    """A function that makes a LazyFrame, and notes each time that one is collected."""
    collected = []

    def make(*names):
        frame = FRAME.select(names)
        noted = frame.lazy().map_batches(lambda rows: collected.append(names) or rows)
        return noted.select(names)

    make.collected = collected
    return make


@pytest.fixture(scope="module")
def ranker():
    return Ranker("tree-tron").fit(FRAME.select(COLUMNS), FRAME["label"])


def test_a_ranker_takes_them(lazy, ranker):
    fitted = Ranker("tree-tron").fit(lazy(*COLUMNS), lazy("label"))
    assert lazy.collected == [tuple(COLUMNS), ("label",)]
    apart = Ranker("tree-tron").fit(lazy("a", "b"), lazy("label"), qid=lazy("qid"))
    for one in (fitted, apart):
        np.testing.assert_array_equal(one.model_.coef, ranker.model_.coef)
        assert one.feature_names_in_.tolist() == ["a", "b"]


def test_it_answers_them(lazy, ranker):
    eager = FRAME.select(COLUMNS)
    np.testing.assert_array_equal(ranker.predict(lazy(*COLUMNS)), ranker.predict(eager))
    np.testing.assert_array_equal(ranker.rank(lazy(*COLUMNS)), ranker.rank(eager))
    assert ranker.score(lazy(*COLUMNS), lazy("label")) == ranker.score(eager, FRAME["label"])
    assert len(lazy.collected) == 4
    found = ranker.top_k(lazy(*COLUMNS), k=2)
    assert found.equals(ranker.top_k(eager, k=2))
    assert len(lazy.collected) == 5


def test_validation_data_and_data_take_them(lazy):
    Ranker("xgboost-pairwise").fit(
        FRAME.select(COLUMNS), FRAME["label"], eval_set=[(lazy(*COLUMNS), lazy("label"))]
    )
    data = RankingData.from_arrays(lazy(*COLUMNS), lazy("label"))
    assert data.sizes.tolist() == [10] * 6
    labels = LabelRankingData.from_arrays(lazy("a"), lazy("b", "label"), ranks=False)
    assert labels.labels.tolist() == ["b", "label"]


def test_label_rankers_take_them(lazy):
    ranker = LabelRanker("sopopo").fit(lazy("a", "b"), FRAME["label"])
    eager = FRAME.select("a", "b")
    np.testing.assert_array_equal(ranker.predict(lazy("a", "b")), ranker.predict(eager))
    assert len(ranker.top_k(lazy("a", "b"), k=1)) == 60


def test_models_and_logged_models_take_them(lazy, ranker, tmp_path):
    expected = ranker.predict(FRAME.select(COLUMNS))
    np.testing.assert_array_equal(ranker.model_.predict(lazy(*COLUMNS)), expected)
    rankplug.mlflow.save_model(ranker, tmp_path / "m", input_example=lazy(*COLUMNS))
    model = rankplug.mlflow.load_model(str(tmp_path / "m"))
    np.testing.assert_array_equal(model.predict(lazy(*COLUMNS)), expected)


def test_models_of_pipelines_take_them(lazy):
    pipeline = make_pipeline(OrdinalEncoder(), Ranker("tree-tron"))
    pipeline.fit(FRAME.select("a", "b"), FRAME["label"], ranker__qid=FRAME["qid"])
    model = pipeline_model(pipeline, pipeline[-1].model_)
    expected = model.predict(FRAME.select("a", "b").to_numpy())
    np.testing.assert_array_equal(model.predict(lazy("a", "b")), expected)
    assert len(lazy.collected) == 1


def test_studies_take_them(lazy):
    result = tune(
        "tree-tron", lazy("a", "b"), FRAME["label"], qid=FRAME["qid"], n_trials=1, folds=3
    )
    assert result.best_params
