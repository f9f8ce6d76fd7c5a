"""Models that were turned by hand: their scores, and what is refused when they are read."""

import json
import math
import os

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import rankplug
from rankplug.cli import main
from rankplug.data import RankingData
from rankplug.exceptions import ModelFormatError, ParameterError
from rankplug.kernels import Kernel
from rankplug.models import (
    AdjustedModel,
    KernelModel,
    LinearModel,
    Turn,
    fingerprint,
    load_model,
    read_adjustment,
)
from rankplug.models.pipelines import pipeline_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
NAMES = ["a", "b", "c"]


@pytest.fixture
def turned(tmp_path):
    """A saved model, and what the page writes of it, which a test may change."""
    model = LinearModel([1.0, -2.0, 0.0], NAMES)
    model.save(tmp_path / "model")
    content = {
        "format": "rankplug-adjustment",
        "schema_version": 1,
        "model": "model",
        "sha256": fingerprint(model),
        "features": {"b": {"factor": 0.5}, "c": {"factor": 1, "added": [[-1, 0.0], [1, 4]]}},
    }

    def write(**changes):
        file = tmp_path / "turned.json"
        file.write_text(json.dumps({**content, **changes}))
        return file

    return write


def test_factors_and_curves_change_contributions_and_scores(turned):
    model = load_model(turned())
    expected = np.column_stack((X[:, 0], -X[:, 1], 2 * np.clip(X[:, 2], -1, 1) + 2))
    np.testing.assert_allclose(model.predict(X), expected.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(model.contributions(X)[:, :-1], expected, atol=1e-12)
    assert model.feature_names == tuple(NAMES)
    assert not model.turns[1].heights(X[:, 1]).any()  # no curve was added


def test_it_is_saved_and_loaded_as_any_model(turned, tmp_path):
    model = load_model(turned())
    model.save(tmp_path / "copy")
    again = load_model(tmp_path / "copy")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    header = json.loads((tmp_path / "copy" / "model.json").read_text())
    assert header["kind"] == "adjusted"
    assert again.turns == model.turns


def test_what_is_missing_adds_nothing():
    model = AdjustedModel(
        LinearModel([1.0, 1.0], skip_missing=True), {0: Turn(2.0, ((0.0, 5.0), (1.0, 5.0)))}
    )
    np.testing.assert_allclose(model.predict([[np.nan, 1.0], [3.0, 1.0]]), [1.0, 12.0])
    assert model.takes_missing_values
    assert not AdjustedModel(LinearModel([1.0]), {}).takes_missing_values


def test_pipelines_are_turned_by_the_columns_of_the_user(tmp_path):
    import pandas as pd

    table = pd.DataFrame({"a": X[:, 0], "kind": np.where(X[:, 1] > 0, "x", "y")})
    encode = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    y, qid = (X[:, 0] + X[:, 1] > 0).astype(int), np.repeat(range(5), 6)
    pipeline = make_pipeline(encode, rankplug.Ranker()).fit(table, y, ranker__qid=qid)
    model = pipeline_model(pipeline, pipeline[-1].model_)
    model.feature_names = ("a", "kind")
    AdjustedModel(model, {1: Turn(0.0)}).save(tmp_path / "model")
    turned = load_model(tmp_path / "model")
    left = table.assign(kind="x")
    np.testing.assert_allclose(np.diff(turned.predict(table)), np.diff(turned.predict(left)))
    with pytest.raises(ParameterError, match="kind, whose values are no numbers"):
        AdjustedModel(model, {1: Turn(1.0, ((0.0, 1.0),))}).predict(table)


def test_trees_cannot_be_turned():
    data = RankingData.from_arrays(X, X[:, 0] > 0, np.repeat(range(5), 6))
    trees = rankplug.make_solver("xgboost-pairwise", n_estimators=2).solve(data).model
    with pytest.raises(ParameterError, match="only linear and additive models"):
        AdjustedModel(trees, {0: Turn(2.0)})
    with pytest.raises(ParameterError, match="no feature 3: the model has 3"):
        AdjustedModel(LinearModel([1.0, 1.0, 1.0]), {3: Turn()})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "rankplug-model"}, "is no adjustment of a model"),
        ({"schema_version": 2}, "schema version 2, but this rankplug reads 1"),
        ({"model": None}, "model must be a text"),
        ({"model": "elsewhere"}, "elsewhere holds no rankplug model"),
        ({"sha256": "0"}, "is not the model that was turned"),
        ({"features": []}, "features a mapping"),
        ({"features": {"bb": {}}}, "no feature 'bb'.*'b'"),
        ({"features": {"b": 2}}, "feature b: a mapping of factor and added"),
        ({"features": {"b": {"weight": 2}}}, "feature b: a mapping of factor and added"),
        ({"features": {"b": {"factor": "2"}}}, 'factor must be a finite number, not "2"'),
        ({"features": {"b": {"factor": True}}}, "factor must be a finite number"),
        ({"features": {"b": {"factor": math.nan}}}, "holds no rankplug model"),
        ({"features": {"b": {"factor": 10**400}}}, "factor must be a finite number"),
        ({"features": {"b": {"added": [[0, 1], [0, 2]]}}}, "the values of added must ascend"),
        ({"features": {"b": {"added": [[0, 1, 2]]}}}, "pairs of finite numbers"),
        ({"features": {"b": {"added": [[0, "1"]]}}}, "pairs of finite numbers"),
        ({"features": {"b": {"added": {}}}}, "pairs of finite numbers"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_is_wrong_is_said_when_it_is_read(turned, changes, message):
    with pytest.raises(ModelFormatError, match=message):
        load_model(turned(**changes))


def test_the_command_says_what_is_wrong(turned, tmp_path, capsys):
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header="a,b,c", comments="")
    arguments = ["predict", str(turned()), str(tmp_path / "x.csv"), "-o", str(tmp_path / "s.csv")]
    assert main(arguments) == 0
    turned(sha256="0")
    assert main(arguments) == 2
    assert "turn it again with 'rankplug show'" in capsys.readouterr().err
    (tmp_path / "turned.json").write_text("[" * 100_000)
    assert main(arguments) == 2
    assert "holds no rankplug model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        (None, "does not say what was turned"),
        ([[0]], "does not say what was turned"),
        ([[3, {}]], "3 is no feature that can be turned"),
        ([[0, {}], [0, {}]], "0 is no feature that can be turned"),
        ([["a", {}]], "'a' is no feature that can be turned"),
        ([[1, {"factor": None}]], "feature 1: factor must be a finite number"),
    ],
)
def test_what_a_saved_one_cannot_hold(turned, tmp_path, turns, message):
    load_model(turned()).save(tmp_path / "copy")
    header = tmp_path / "copy" / "model.json"
    content = json.loads(header.read_text())
    content["model"]["turns"] = turns
    header.write_text(json.dumps(content))
    with pytest.raises(ModelFormatError, match=message):
        load_model(tmp_path / "copy")


def test_a_model_that_is_not_additive_is_refused_in_a_file(turned, tmp_path):
    kernel = KernelModel(Kernel("rbf", 0.5), X[:2], [1.0, -1.0])
    kernel.save(tmp_path / "kernel")
    file = turned(model="kernel", sha256=fingerprint(kernel), features={"f0": {"factor": 2}})
    with pytest.raises(ModelFormatError, match=r"turned\.json: only linear and additive models"):
        load_model(file)
    header = tmp_path / "kernel" / "model.json"
    content = json.loads(header.read_text())
    content |= {"kind": "adjusted", "model": {**content, "turns": []}}
    header.write_text(json.dumps(content))
    with pytest.raises(ModelFormatError, match="kernel: only linear and additive models"):
        load_model(tmp_path / "kernel")


def test_a_model_elsewhere_is_opened_by_its_address(turned):
    file = turned(model="models:/best/1")
    model = read_adjustment(file, lambda uri: load_model(file.parent / "model"))
    np.testing.assert_array_equal(model.predict(X), load_model(turned()).predict(X))
    os.truncate(file, 10_000_001)
    with pytest.raises(ModelFormatError, match="too large for an adjustment"):
        load_model(file)
