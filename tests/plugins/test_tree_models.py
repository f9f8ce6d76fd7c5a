"""Trees of all libraries: their leaves, and other values for them."""

import json

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

import rankplug
from rankplug.exceptions import DataError, ModelFormatError
from rankplug.models import TreeArrays, TreeEnsemble, TreeModel, load_model


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = np.digitize(X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=200), [-0.5, 0.5])
    return rankplug.RankingData.from_arrays(X, y, np.repeat(np.arange(10), 20))


REGRESSORS = {
    "forest": RandomForestRegressor(7, max_depth=3),
    "boosting": GradientBoostingRegressor(n_estimators=7, max_depth=2),
}


@pytest.mark.parametrize(
    "name", ["xgboost-pairwise", "xgboost-all-pairs", "lightgbm-lambdarank", *REGRESSORS]
)
def test_scores_are_sums_of_leaf_values(data, name):
    if "lightgbm" in name:
        pytest.importorskip("lightgbm")
    if name in REGRESSORS:
        solver = rankplug.make_solver("pointwise", regressor=REGRESSORS[name])
        model = solver.solve(data, random_state=0).model.converted.model
    else:
        model = rankplug.make_solver(name, n_estimators=7).solve(data, random_state=0).model
    assert isinstance(model, TreeModel)
    counts, leaves = model.leaf_counts, model.find_leaves(data.X)
    assert leaves.shape == (200, 7)
    assert (leaves >= 0).all()
    assert (leaves < counts).all()
    own = model.leaf_values[leaves + (np.cumsum(counts) - counts)].sum(axis=1)
    np.testing.assert_allclose(np.diff(model.predict(data.X) - own), 0.0, atol=1e-6)
    values = np.random.default_rng(1).normal(size=counts.sum())
    expected = values[leaves + (np.cumsum(counts) - counts)].sum(axis=1)
    other = model.with_leaf_values(values)
    difference = other.predict(data.X) - expected
    np.testing.assert_allclose(difference, difference[0], atol=1e-5)
    np.testing.assert_array_equal(other.find_leaves(data.X), leaves)
    # Rows of one leaf in every tree have one score, before and after.
    _, same = np.unique(leaves, axis=0, return_inverse=True)
    scores = model.predict(data.X)
    for group in range(same.max() + 1):
        assert np.ptp(scores[same == group]) < 1e-6


# A tree of a root and two leaves.
STUMP = TreeArrays(
    np.array([3]), np.array([1, -1, -1]), np.array([2, -1, -1]), np.array([0, 0, 0]),
    np.array([0.5, 0.0, 0.0]), np.array([0.0, -1.0, 1.0]), np.array([True, False, False]),
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"right": np.array([-1, -1, -1])}, "a tree has nodes with one child"),
        ({"feature": np.array([2, 0, 0])}, "splits by features that do not exist"),
        ({"threshold": np.array([np.nan, 0, 0])}, "thresholds or values that are no numbers"),
        ({"value": np.array([0, np.inf, 0])}, "thresholds or values that are no numbers"),
        ({"value": np.zeros(4)}, "the trees' arrays do not fit together"),
        ({"sizes": np.array([2])}, "the trees' sizes do not fit their nodes"),
        ({"sizes": np.array([3, 0])}, "the trees' sizes do not fit their nodes"),
        ({"left": np.array([2, -1, -1])}, "children that do not exist or have two parents"),
        ({"left": np.array([3, -1, -1])}, "children that do not exist or have two parents"),
    ],
)
def test_trees_that_lead_astray_are_refused(changes, message):
    assert TreeEnsemble(STUMP, 2).predict([[0.0, 9.0], [1.0, 9.0]]).tolist() == [-1.0, 1.0]
    with pytest.raises(DataError, match=message):
        TreeEnsemble(STUMP._replace(**changes), 2)


@pytest.mark.parametrize("key", ["scale", "average", "float32", "missing"])
def test_a_header_of_trees_says_how_they_are_summed(tmp_path, key):
    TreeEnsemble(STUMP, 2).save(tmp_path / "model")
    header = tmp_path / "model" / "model.json"
    content = json.loads(header.read_text())
    content["model"][key] = "yes"
    header.write_text(json.dumps(content))
    with pytest.raises(ModelFormatError, match=f"{key} missing or wrong in the header"):
        load_model(tmp_path / "model")
