"""Regressors as files hold them: of version 0.1 (skops), forged in every part, and saved ones."""

import json
import struct
import zipfile
from io import BytesIO

import numpy as np
import pytest
import skops.io
from scipy import sparse
from sklearn.ensemble import (
    AdaBoostRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PowerTransformer, StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

import rankplug
from rankplug.exceptions import DataError, ModelFormatError
from rankplug.kernels import Kernel
from rankplug.models import KernelModel
from rankplug_plugins.baselines import RegressorModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X[:, 0] - X[:, 2] ** 2
NESTED = '{"__loader__": "ObjectNode", "__module__": "a", "__class__": "b", "content": '


def read(folder, members):
    """What is made of a file of version 0.1 with these members."""
    with zipfile.ZipFile(folder / "regressor.skops", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return RegressorModel._read(folder, {})


def dumped(regressor):
    """The members of the file of a regressor."""
    with zipfile.ZipFile(BytesIO(skops.io.dumps(regressor))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def npy(array, version=(1, 0)):
    stream = BytesIO()
    np.lib.format.write_array(stream, array, version, allow_pickle=True)
    return stream.getvalue()


def change_nodes(members, change):
    """Change the records of the nodes of all trees."""
    for name, content in members.items():
        array = np.load(BytesIO(content), allow_pickle=False) if name.endswith(".npy") else None
        if array is not None and array.dtype.names:
            members[name] = npy(change(array))


def schema_of(members):
    return json.loads(members["schema.json"])


def find(node, wanted):
    """The first node that is as wanted."""
    if isinstance(node, dict) and wanted(node):
        return node
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return next((found for part in inner if (found := find(part, wanted)) is not None), None)


def without(array, name):
    kept = [one for one in array.dtype.names if one != name]
    return np.array(array[kept].tolist(), [(one, array.dtype[one]) for one in kept])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda nodes: without(nodes, "feature"), "nodes have no feature"),
        (lambda nodes: np.arange(3.0), "nodes are no records"),
        (lambda nodes: np.append(nodes, nodes[-1:]), "values do not fit its nodes"),
        (
            lambda nodes: nodes.astype(
                [(one, "f8" if one == "feature" else nodes.dtype[one]) for one in nodes.dtype.names]
            ),
            "feature is of a wrong type",
        ),
    ],
)
def test_forged_nodes(tmp_path, change, message):
    members = dumped(DecisionTreeRegressor(max_depth=2).fit(X, Y))
    change_nodes(members, change)
    with pytest.raises(ModelFormatError, match=f"cannot be read: .*{message}"):
        read(tmp_path, members)


def test_trees_of_older_versions_do_not_say_where_missing_values_go(tmp_path):
    regressor = DecisionTreeRegressor(max_depth=3).fit(X, Y)
    members = dumped(regressor)
    change_nodes(members, lambda nodes: without(nodes, "missing_go_to_left"))
    model = read(tmp_path, members)
    np.testing.assert_array_equal(model.predict(X), regressor.predict(X))
    assert not model.takes_missing_values
    assert RegressorModel(regressor).takes_missing_values


def set_count(schema):
    node = find(schema, lambda node: "node_count" in node)
    node["node_count"]["content"] = "99"


def name_twice(schema):
    trees = []

    def gather(node):
        if isinstance(node.get("nodes"), dict):
            trees.append(node)

    find(schema, gather)
    trees[1]["nodes"] = trees[0]["nodes"]


def flatten(schema):
    node = find(schema, lambda node: "estimators_" in node)["estimators_"]
    node["shape"]["content"] = node["shape"]["content"][:1]


def repeat(schema):
    rows = {"__loader__": "JsonNode", "content": json.dumps([0] * 1000), "__id__": 7}
    again = {"__loader__": "CachedNode", "__id__": 7}
    node = find(schema, lambda node: "estimators_" in node)["estimators_"]
    node["content"] = [{**rows, "__module__": "a", "__class__": "b"}, *[again] * 1000]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_count, "a tree has more nodes than its arrays"),
        (name_twice, "it holds the same tree twice"),
        (flatten, "GradientBoostingRegressor.estimators_ has a wrong shape or type"),
        (repeat, "an array of objects is larger than the file"),
    ],
)
def test_forged_schemas(tmp_path, change, message):
    members = dumped(GradientBoostingRegressor(n_estimators=2, max_depth=1).fit(X, Y))
    schema = schema_of(members)
    change(schema)
    with pytest.raises(ModelFormatError, match=message):
        read(tmp_path, {**members, "schema.json": json.dumps(schema)})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(np.ones(3), (2, 0)), "no array of NumPy's format 1.0"),
        (npy(np.ones(3))[:10] + b"{" * 118, "no header of an array: "),
        (npy(np.array([None])), "an array of type object"),
        (npy(np.ones(3)).replace(b"(3,)", b"(-3,)"), r"an array of shape \(-3,\)"),
        (npy(np.ones(3))[:-8], r"does not hold an array of shape \(3,\) and type float64"),
    ],
)
def test_forged_arrays(tmp_path, content, message):
    members = dumped(Ridge().fit(X, Y))
    name = find(schema_of(members), lambda node: "coef_" in node)["coef_"]["file"]
    with pytest.raises(ModelFormatError, match=message):
        read(tmp_path, {**members, name: content})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (NESTED * 700 + "3" + "}" * 700, "nested too deeply"),
        (NESTED.replace("ObjectNode", "JsonNode") + '"3"}', "not safe to load: builtins.int is"),
    ],
)
def test_strange_schemas(tmp_path, schema, message):
    with pytest.raises(ModelFormatError, match=message):
        read(tmp_path, {"schema.json": schema})


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [(24, 10**6, "schema.json is larger than the file"), (8, 1, "is encrypted")],
)
def test_forged_directories(tmp_path, place, value, message):
    """Of the archive: the size of a member, and a flag that it is encrypted."""
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("schema.json", "{}")
    content = bytearray(stream.getvalue())
    struct.pack_into("<H" if place == 8 else "<I", content, content.find(b"PK\1\2") + place, value)
    (tmp_path / "regressor.skops").write_bytes(content)
    with pytest.raises(ModelFormatError, match=message):
        RegressorModel._read(tmp_path, {})


# Living regressors


@pytest.mark.parametrize(
    ("regressor", "attributes", "reason"),
    [
        (GradientBoostingRegressor(n_estimators=1, init=Ridge()), {}, "neither 'zero' nor a"),
        (HistGradientBoostingRegressor(max_iter=1, categorical_features=[1]), {}, "categorical"),
        (HistGradientBoostingRegressor(max_iter=1), {"loss": "cauchy"}, "its loss 'cauchy' is"),
        (RandomForestRegressor(1), {"estimators_": []}, "estimators_ holds no trees"),
        (Ridge(), {"intercept_": np.inf}, "Ridge.intercept_ is inf"),
        (Ridge(), {"n_features_in_": "3"}, "n_features_in_ is no number"),
        (make_pipeline(Ridge()), {"steps": [("a", Ridge(), 3)]}, "a step of the pipeline is no"),
        (KernelRidge(), {"X_fit_": sparse.csr_array((40, 2))}, "rows have another number of"),
        (SVR(), {"support_vectors_": sparse.csr_array((40, 2))}, "vectors have another number"),
    ],
    ids=str,
)
def test_regressors_that_do_not_fit_together_are_not_saved(tmp_path, regressor, attributes, reason):
    regressor.fit(np.abs(X).round(), Y)
    for name, value in attributes.items():
        setattr(regressor, name, value)
    with pytest.raises(DataError, match=f"cannot be saved without pickling: .*{reason}"):
        RegressorModel(regressor).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_regressors_fitted_to_sparse_features_and_to_nothing():
    thin = sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    for regressor in (SVR(kernel="rbf", gamma=0.5), KernelRidge(kernel="rbf", gamma=0.5)):
        theirs = regressor.fit(sparse.csr_matrix(thin), Y).predict(thin)
        np.testing.assert_allclose(RegressorModel(regressor).predict(thin), theirs, atol=1e-12)
    alone = SVR(epsilon=9.0).fit(X, Y)
    assert not len(alone.support_)
    np.testing.assert_array_equal(RegressorModel(alone).predict(X), alone.predict(X))


def test_scalers_of_float32_scale_float32():
    small = X.astype(np.float32)
    pipeline = make_pipeline(MinMaxScaler(), Ridge()).fit(small, Y)
    model = RegressorModel(pipeline)
    assert {step.values.dtype for step in model.converted.steps} == {np.dtype(np.float32)}
    np.testing.assert_allclose(model.predict(small), pipeline.predict(small), atol=1e-5)


def test_regressors_without_a_form_predict_by_themselves():
    regressor = AdaBoostRegressor(n_estimators=2, random_state=0).fit(X, Y)
    model = RegressorModel(regressor)
    np.testing.assert_array_equal(model.predict(X), regressor.predict(X))
    np.testing.assert_array_equal(model.feature_importances(), regressor.feature_importances_)
    assert model.n_features == 3
    several = RegressorModel(KNeighborsRegressor().fit(X, np.column_stack((Y, Y))))
    with pytest.raises(DataError, match="KNeighborsRegressor predicts more than one number"):
        several.predict(X)
    positive = make_pipeline(PowerTransformer(method="box-cox"), Ridge()).fit(np.exp(X), Y)
    with pytest.raises(DataError, match=r"refuses the features: .*strictly positive"):
        RegressorModel(positive).predict(X)


def test_features_that_scaling_makes_infinite_are_refused():
    model = RegressorModel(make_pipeline(StandardScaler(), Ridge()).fit(X / 100, Y))
    with pytest.raises(DataError, match="too large for the regressor's scalers"):
        model.predict(np.full((1, 3), 1e308))


def test_a_step_that_is_no_estimator_takes_no_missing_values():
    strange = make_pipeline(Ridge(), Ridge())
    strange.steps[0] = ("odd", object())
    assert not rankplug.make_solver("pointwise", regressor=strange).takes_missing_values()


def labels(folder, told):
    several = KernelModel(Kernel("rbf", 0.5), X[:2], np.ones((2, 4)))
    (folder / "arrays.npz").unlink(missing_ok=True)
    return {**told, "kind": "kernel", "model": several._write(folder)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder, told: {**told, "model": None}, "model missing or wrong in the header"),
        (lambda folder, told: {**told, "steps": ["power"]}, "steps missing or wrong"),
        (lambda folder, told: {**told, "kind": "label-linear"}, "kind missing or wrong"),
        (lambda folder, told: {**told, "steps": ["clip", "divide"]}, "does not fit 3 features"),
        (labels, "a regressor scores rows, not labels"),
    ],
)
def test_forged_headers(tmp_path, change, message):
    regressor = make_pipeline(StandardScaler(), Ridge()).fit(X, Y)
    told = RegressorModel(regressor)._write(tmp_path)
    with pytest.raises(ModelFormatError, match=message):
        RegressorModel._read(tmp_path, change(tmp_path, told))
