"""Columns far from 0: differences of scores, and so ranking at the top, do not depend on them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import rankplug
from rankplug.data import RankingData, far_origin
from rankplug.objectives import Rows


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=600) > 1.0
    return RankingData.from_arrays(X, y, np.repeat(np.arange(30), 20))


def moved(data, distance):
    X = data.X.copy()
    X[:, 2] += distance
    return RankingData.from_arrays(X, data.relevance, data.qid)


def test_the_origin_of_columns_that_are_far_from_0(data):
    assert far_origin(data.X) is None
    origin = far_origin(moved(data, -1e6).X)
    assert origin[2] == pytest.approx(-1e6, abs=1.0)
    assert np.flatnonzero(origin).tolist() == [2]
    assert far_origin(np.full((9, 2), 1e6)) is None
    assert far_origin(sparse.csr_array(data.X)) is None


@pytest.mark.parametrize("part", [700, 2**19])
def test_rows_from_another_origin(data, part, monkeypatch):
    monkeypatch.setattr("rankplug.objectives.top._PART_ELEMENTS", part)
    origin = np.array([0.0, 1.0, -3.0, 0.0, 1e3])
    index = np.flatnonzero(data.relevance)
    rows = Rows(data.X, index, origin)
    expected = data.X[index] - origin
    rng = np.random.default_rng(1)
    v, u = rng.normal(size=5), rng.normal(size=len(index))
    assert_allclose(rows.dot(v), expected @ v, atol=1e-11)
    assert_allclose(rows.transposed_dot(u), expected.T @ u, atol=1e-9)
    assert_allclose(rows.gather(), expected)
    assert_allclose(np.concatenate([block for _, block in rows.blocks()]), expected)
    some = np.arange(0, len(index), 3)
    assert_allclose(rows.take(some).gather(), expected[some])


@pytest.mark.parametrize("distance", [30.0, 1e4, 1e6, -1e9])
@pytest.mark.parametrize("name", ["toppush", "a2dm2"])
def test_a_column_far_from_0_changes_nothing(data, name, distance):
    solver = rankplug.make_solver(name)
    near, far = solver.solve(data), solver.solve(moved(data, distance))
    assert far.status == near.status == "converged"
    assert far.objective == pytest.approx(near.objective, rel=1e-5)
    assert -1e-7 <= far.duality_gap <= near.duality_gap + 1e-5
    assert_allclose(far.model.coef, near.model.coef, atol=2e-3)
