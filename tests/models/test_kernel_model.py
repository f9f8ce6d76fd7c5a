"""Kernels against scikit-learn's, and models of them on disk and off."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import pairwise

from rankplug.exceptions import DataError, ModelFormatError
from rankplug.kernels import Kernel, squared_norms
from rankplug.models import KernelModel, load_model

KERNELS = [
    (Kernel("linear"), pairwise.linear_kernel),
    (Kernel("rbf", 0.4), lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.4)),
    (
        Kernel("poly", 0.5, 2, 1.5),
        lambda A, B: pairwise.polynomial_kernel(A, B, degree=2, gamma=0.5, coef0=1.5),
    ),
    (Kernel(pairwise.laplacian_kernel), pairwise.laplacian_kernel),
]
by_kernel = pytest.mark.parametrize(("kernel", "expected"), KERNELS)


def features(n=7, d=3, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[0] = 0.0
    return X


@by_kernel
@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
def test_kernels_equal_those_of_scikit_learn(kernel, expected, kind):
    X, Z = (sparse.csr_array(A) if kind == "csr" else A.astype(kind) for A in map(features, (7, 4)))
    values = kernel(X, Z)
    dense = [A.toarray() if sparse.issparse(A) else A.astype(float) for A in (X, Z)]
    assert values.dtype == np.float64
    assert values.flags.c_contiguous
    digits = 1e-6 if callable(kernel.function) else 1e-12  # a function may compute in float32
    np.testing.assert_allclose(values, expected(*dense), rtol=digits, atol=digits)
    own = expected(dense[0], dense[0])
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(own), rtol=1e-5, atol=1e-6)


def test_norms_of_float32_do_not_overflow():
    X = np.full((2, 2), 1e30, dtype=np.float32)
    for rows in (X, sparse.csr_array(X)):
        np.testing.assert_allclose(squared_norms(rows), 2e60, rtol=1e-6)


@pytest.mark.parametrize(
    ("returned", "words"),
    [(np.zeros((2, 2)), "shape"), (np.full((7, 4), np.nan), "NaN"), ([["a"] * 4] * 7, "numbers")],
)
def test_functions_that_return_no_kernel(returned, words):
    with pytest.raises(DataError, match=words):
        Kernel(lambda A, B: returned)(features(7), features(4))


def model(kernel=KERNELS[1][0], X=None, labels=("a", "b"), **params):
    rng = np.random.default_rng(1)
    X = features() if X is None else X
    shape = (X.shape[0], len(labels)) if labels else X.shape[0]
    return KernelModel(kernel, X, rng.normal(size=shape), labels, **params)


@by_kernel
@pytest.mark.parametrize("labels", [("a", "b", "c"), None])
def test_scores_are_weighted_kernels(kernel, expected, labels, monkeypatch):
    found, X = model(kernel, labels=labels), features(9, seed=2)
    scores = found.predict(X)
    np.testing.assert_allclose(scores, expected(X, features()) @ found.dual_coef, rtol=1e-6)
    assert found.n_labels == (3 if labels else None)
    monkeypatch.setattr("rankplug.models.kernel._CHUNK", 10)
    np.testing.assert_allclose(found.predict(X), scores)


@pytest.mark.parametrize("kernel", [kernel for kernel, _ in KERNELS[:3]])
@pytest.mark.parametrize("labels", [("a", "b"), (3, 7), None])
@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
def test_saved_models_predict_the_same(tmp_path, kernel, labels, kind):
    X = features()
    X = sparse.csr_array(X) if kind == "csr" else X.astype(kind)
    saved = model(kernel, X, labels, feature_names=["x", "y", "z"])
    saved.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, KernelModel)
    assert loaded.kernel == kernel
    assert loaded.feature_names == ("x", "y", "z")
    assert loaded.support.dtype == X.dtype
    np.testing.assert_array_equal(loaded.labels, saved.labels)
    np.testing.assert_array_equal(loaded.predict(features(5)), saved.predict(features(5)))


def test_a_function_of_the_callers_cannot_be_saved(tmp_path):
    with pytest.raises(DataError, match="cannot be saved"):
        model(KERNELS[3][0]).save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change", [{"kernel": "sigmoid"}, {"gamma": None}, {"degree": "two"}, {"sparse": True}]
)
def test_damaged_headers_are_an_error(tmp_path, change):
    model().save(tmp_path / "model")
    header = json.loads((tmp_path / "model" / "model.json").read_text())
    header["model"].update(change)
    (tmp_path / "model" / "model.json").write_text(json.dumps(header))
    with pytest.raises(ModelFormatError):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"dual_coef": np.zeros(3)}, "7 support rows"),
        ({"dual_coef": np.full(7, np.nan)}, "finite"),
        ({"dual_coef": np.zeros((7, 1, 1))}, "dimensions"),
        ({"dual_coef": ["a"] * 7}, "numbers"),
        ({"dual_coef": np.zeros((7, 2)), "labels": ["a"]}, "labels"),
        ({"dual_coef": np.zeros(7), "feature_names": ["x"]}, "feature names"),
    ],
)
def test_models_that_make_no_sense(arguments, words):
    with pytest.raises(DataError, match=words):
        KernelModel(Kernel("linear"), features(), **arguments)
