"""Trees of all libraries: their leaves, and other values for them."""

import numpy as np
import pytest

import rankplug
from rankplug.models import TreeModel


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = np.digitize(X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=200), [-0.5, 0.5])
    return rankplug.RankingData.from_arrays(X, y, np.repeat(np.arange(10), 20))


@pytest.mark.parametrize("name", ["xgboost-pairwise", "xgboost-all-pairs", "lightgbm-lambdarank"])
def test_scores_are_sums_of_leaf_values(data, name):
    if "lightgbm" in name:
        pytest.importorskip("lightgbm")
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
