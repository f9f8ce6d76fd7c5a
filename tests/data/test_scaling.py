"""Scaling of features, and models that do it themselves."""

import numpy as np
import pytest
from scipy import sparse

import rankplug
from rankplug.data import RankingData, Scaling, fit_scaling
from rankplug.exceptions import DataError, ModelFormatError
from rankplug.models import LinearModel, ScaledModel, load_model


@pytest.mark.parametrize(
    ("scale", "train", "test"),
    [
        ("standard", [[-1, 0], [1, 0]], [[3, 0], [-2, 1]]),
        ("minmax", [[0, 0], [1, 0]], [[2, 0], [-0.5, 1]]),
        ("maxabs", [[1 / 3, 1], [1, 1]], [[5 / 3, 1], [0, 1.2]]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_are_scaled_as_the_training_set_says(scale, train, test, dtype):
    X, other = np.array([[1, 5], [3, 5]], dtype), np.array([[5, 5], [0, 6]], dtype)
    scaling = fit_scaling(X, scale)
    for found, expected in ((scaling.apply(X), train), (scaling.apply(other), test)):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert found.dtype == dtype
        assert found.flags.c_contiguous
    assert other.tolist() == [[5, 5], [0, 6]]


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_features_stay_sparse(index):
    X = sparse.csr_array(np.array([[2.0, 0.0], [-4.0, 1.0]]))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    scaled = fit_scaling(X, "maxabs").apply(X)
    assert isinstance(scaled, sparse.csr_array)
    assert scaled.toarray().tolist() == [[0.5, 0.0], [-1.0, 1.0]]
    assert X.toarray().tolist() == [[2.0, 0.0], [-4.0, 1.0]]


@pytest.mark.parametrize("scale", ["standard", "minmax"])
def test_scaling_that_would_fill_sparse_features_is_refused(scale):
    with pytest.raises(DataError, match=f"scale: {scale} would make sparse features dense; use"):
        fit_scaling(sparse.csr_array(np.eye(2)), scale)


def test_none_is_no_scaling():
    assert fit_scaling(np.eye(2), "none") is None


@pytest.fixture(params=["tree-tron", "xgboost-pairwise"])
def trained(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * [1, 100, 0.01] + [0, 5, 1]
    data = RankingData.from_arrays(X, rng.integers(0, 3, 60), np.repeat(range(6), 10))
    scaling = fit_scaling(X, "standard")
    params = {"n_estimators": 3, "n_threads": 1} if "xgb" in request.param else {}
    solver = rankplug.make_solver(request.param, **params)
    return X, scaling, solver.solve(scaling.of(data)).model


def test_a_scaled_model_takes_features_as_they_are(trained):
    X, scaling, model = trained
    scaled = ScaledModel(model, scaling)
    np.testing.assert_array_equal(scaled.predict(X), model.predict(scaling.apply(X)))
    assert scaled.n_features == 3
    assert scaled.n_labels is None
    assert scaled.requires == model.requires


def test_it_is_saved_with_the_model_inside(trained, tmp_path):
    X, scaling, model = trained
    scaled = ScaledModel(model, scaling)
    scaled.feature_names = ("a", "b", "c")
    scaled.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), scaled.predict(X))
    assert loaded.feature_names == ("a", "b", "c")
    assert loaded.requires == model.requires


def test_sparse_features_are_never_shifted():
    scaled = ScaledModel(LinearModel([1.0, 2.0]), Scaling(np.ones(2), np.ones(2)))
    with pytest.raises(DataError, match=r"pass X\.toarray\(\)"):
        scaled.predict(sparse.csr_array([[2.0, 0.0]]))
    assert scaled.predict([[2.0, 0.0]]).tolist() == [-1.0]


def test_without_shift(tmp_path):
    scaled = ScaledModel(LinearModel([1.0, 2.0]), Scaling(None, np.array([0.5, 3.0])))
    scaled.save(tmp_path / "model")
    assert load_model(tmp_path / "model").predict([[2.0, 1.0]]).tolist() == [7.0]


def test_parts_that_do_not_fit_are_told(tmp_path):
    scaled = ScaledModel(LinearModel([1.0, 2.0]), Scaling(None, np.array([0.5])))
    scaled.save(tmp_path / "model")
    with pytest.raises(ModelFormatError, match="does not fit 2 features"):
        load_model(tmp_path / "model")
