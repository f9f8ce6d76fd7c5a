"""Exported models score and rank as the models do: every kind in every format that is offered."""

import functools
import json

import mlflow
import numpy as np
import pandas
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import PoissonRegressor, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler

import rankplug
from rankplug import RankingData
from rankplug.data import Scaling
from rankplug.exceptions import ParameterError, SolverUnavailableError, UnknownNameError
from rankplug.exchange import export, list_formats
from rankplug.exchange.floats import less_than_float32, pull_back, widen
from rankplug.kernels import Kernel
from rankplug.maps import JoinedMap, MappedModel, make_map
from rankplug.models import (
    AdjustedModel,
    KernelModel,
    LabelLinearModel,
    LinearModel,
    ScaledModel,
    TreeArrays,
    TreeEnsemble,
    Turn,
)
from rankplug.models.pipelines import pipeline_model
from rankplug_plugins.baselines import RegressorModel
from tests.exchange.evaluators import EVALUATORS, SINGLE

NAMES = ("a b", 'q"uo\\te', "dot.s", "näh 🂡")
ALL = {one.name for one in list_formats()}
LINEAR = ALL - {"xgboost", "lightgbm", "vespa-lightgbm", "vespa-xgboost"}
TREES = ALL - {"liblinear", "svmrank"}
SUMS = {"onnx", "python", "sql", "vespa"}


def make_rows(n=60, missing=0.0, seed=0):
    """Odd rows, all in single precision: ties, zeros of both signs, numbers around 0."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, len(NAMES))), 1)
    X[rng.random(X.shape) < 0.2] = 0.0
    X[:8, 0] = [1e-30, -1e-30, 1e-6, 3e-7, -1e-6, 0.0, -0.0, 1e6]
    X[:, 2] = np.round(1000 + 3 * X[:, 2])
    X[n // 2 :] = X[: n - n // 2]
    X[rng.random(X.shape) < missing] = np.nan
    return X.astype(np.float32).astype(np.float64)


def make_data(X):
    y = np.clip(np.nan_to_num(np.round(X[:, 1] + (X[:, 0] > 0) * np.abs(X[:, 3]))) + 1, 0, 4)
    return RankingData.from_arrays(X, y, np.repeat(np.arange(len(X) // 10), 10))


def train(name, X=None, **params):
    data = make_data(make_rows() if X is None else X)
    return rankplug.make_solver(name, **params).solve(data, random_state=0).model


def make_trees(missing=True):
    """Two trees whose thresholds are those of numbers in the rows, and 1e-30."""
    return TreeEnsemble(
        TreeArrays(
            sizes=np.array([7, 1]),
            left=np.array([1, 3, 5, -1, -1, -1, -1, -1]),
            right=np.array([2, 4, 6, -1, -1, -1, -1, -1]),
            feature=np.array([0, 1, 2, 0, 0, 0, 0, 0]),
            threshold=np.array([1e-30, 0.1, 1001.0, 0, 0, 0, 0, 0]),
            value=np.array([0, 0, 0, 1.5, -1e-3, 0.25, -7.0, 0.5]),
            missing_left=np.array([1, 0, 1, 0, 0, 0, 0, 0], dtype=bool) if missing else None,
        ),
        len(NAMES),
        start=0.125,
        scale=0.1,
        average=True,
    )


COEF = np.array([1e-30, -1.25, 0.0, 3.0])
SHIFTED = Scaling(np.array([0.5, 0.0, 1000.0, -1.0]), np.array([2.0, 0.1, 1 / 3, 5.0]))
FILLED = Scaling(SHIFTED.shift, SHIFTED.factor, np.array([0.0, 0.5, 1001.0, -1.0]))
HOLES = make_rows(missing=0.2)


def pipeline(*steps, X=None):
    X = make_rows() if X is None else X
    data = make_data(X)
    ranker = rankplug.Ranker("tree-tron")
    fitted = make_pipeline(*steps, ranker)
    fitted.fit(X, data.relevance, ranker__qid=np.repeat(np.arange(len(X) // 10), 10))
    return pipeline_model(fitted, fitted[-1].model_)


def mapped(maps, X=None):
    return train("mapped", X, map=maps, C=0.1)


LEAVES = {"leaves": {"n_estimators": 3}}
RNG = np.random.default_rng(5)
SUPPORT = np.round(RNG.normal(size=(5, len(NAMES))), 1).astype(np.float32)
SUPPORT[:, 2] += 1000
DUAL = np.array([1.0, -0.5, 0.25, 2.0, -1.0])

# Of each kind: how it is made, whether rows have holes, and the formats that can say it.
MODELS = {
    "linear": (lambda: LinearModel(COEF), False, LINEAR),
    "skips missing": (lambda: LinearModel(COEF, skip_missing=True), True, LINEAR),
    "nothing": (lambda: LinearModel(np.zeros(4)), False, ALL),
    "scaled": (lambda: ScaledModel(LinearModel(COEF + 1), SHIFTED), False, LINEAR),
    "filled": (lambda: ScaledModel(LinearModel(COEF + 1), FILLED), True, LINEAR),
    "trees": (make_trees, True, TREES),
    "filled trees": (lambda: ScaledModel(make_trees(), FILLED), True, TREES),
    "refusing trees": (lambda: make_trees(missing=False), False, TREES),
    "xgboost": (lambda: train("xgboost-pairwise", n_estimators=3), False, TREES),
    "zeros are values": (
        lambda: train("xgboost-ndcg", HOLES, n_estimators=3, zeros="value"), True, TREES,
    ),
    "scaled xgboost": (
        lambda: ScaledModel(
            train("xgboost-pairwise", SHIFTED.apply(make_rows()), n_estimators=3), SHIFTED
        ),
        False,
        TREES,
    ),
    "lightgbm": (lambda: train("lightgbm-lambdarank", HOLES, n_estimators=3), True, TREES),
    "catboost": (lambda: train("catboost", HOLES, n_estimators=3, depth=3), True, TREES),
    "linear-then-boost": (lambda: train("linear-then-boost", n_estimators=3), False, SUMS),
    "forest": (
        lambda: train("pointwise", regressor="random-forest", n_estimators=3), False, TREES,
    ),
    "ridge": (lambda: train("pointwise", regressor=make_pipeline(StandardScaler(), Ridge())),
              False, LINEAR),
    "leaves": (lambda: mapped(LEAVES), False, TREES),
    "leaves of lightgbm": (
        lambda: mapped({"leaves": {"trees": "lightgbm-lambdarank", "n_estimators": 3}}, HOLES),
        True,
        TREES,
    ),
    "splines": (lambda: mapped({"splines": {"n_knots": 4}}, HOLES), True, SUMS),
    "identity": (lambda: mapped("identity", HOLES), True, LINEAR),
    "joined": (lambda: mapped(LEAVES | {"identity": {}, "splines": {"n_knots": 3}}), True, SUMS),
    "nystroem": (lambda: mapped({"nystroem": {"n_components": 5}}), False, {"onnx", "svmrank"}),
    "fourier": (lambda: mapped({"fourier": {"n_components": 5}}), False, {"onnx"}),
    "rbf": (
        lambda: KernelModel(Kernel("rbf", 0.25), SUPPORT, DUAL), False, {"onnx", "svmrank"},
    ),
    "poly": (
        lambda: KernelModel(Kernel("poly", 0.001, 2, 0.5), SUPPORT, DUAL),
        False,
        {"onnx", "svmrank"},
    ),
    "linear kernel": (lambda: KernelModel(Kernel("linear"), SUPPORT, DUAL), False, LINEAR),
    "scaled kernel": (
        lambda: ScaledModel(KernelModel(Kernel("rbf", 0.1), SUPPORT / 9, DUAL), FILLED),
        True,
        {"onnx"},
    ),
    "pipeline": (lambda: pipeline(MinMaxScaler()), False, LINEAR),
    "imputing pipeline": (
        lambda: pipeline(SimpleImputer(), StandardScaler(), X=HOLES), True, LINEAR,
    ),
    "selected and weighed": (
        lambda: pipeline(
            VarianceThreshold(1e-9),
            FeatureUnion([("a", StandardScaler()), ("b", MinMaxScaler())],
                         transformer_weights={"a": 0.25}),
        ),
        False,
        LINEAR,
    ),
    "columns": (
        lambda: pipeline(ColumnTransformer([
            ("one", StandardScaler(), [3, 1]), ("same", "passthrough", [1, 0]),
        ])),
        False,
        LINEAR,
    ),
}  # fmt: skip


@functools.cache
def model_of(kind):
    model = MODELS[kind][0]()
    model.feature_names = NAMES[: model.n_features]
    return model


def check_same(model, name, found, X, notes):
    """The same scores, but for a constant that a note tells, and the same order."""
    expected, found = model.predict(X), np.asarray(found, dtype=np.float64)
    scale = max(np.abs(expected).max(), np.abs(expected - expected.mean()).max())
    rough = name in SINGLE or "xgboost" in " ".join(model.requires)
    tolerance = (1e-5 if rough else 1e-9) * scale
    if any("constant" in note for note in notes):
        found = found + np.median(expected - found)
    assert np.abs(found - expected).max(initial=0.0) <= tolerance
    # Ties too, but for sums that round otherwise.
    higher = expected[:, None] > expected[None] + 4 * tolerance
    assert np.all((found[:, None] > found[None])[higher])


CASES = [(kind, name) for kind in MODELS for name in sorted(ALL)]


@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{a}-{b}" for a, b in CASES])
def test_scores_and_order(kind, name, tmp_path):
    if kind == "catboost":
        pytest.importorskip("catboost")
    if "lightgbm" in (kind, name) or kind == "leaves of lightgbm":
        pytest.importorskip("lightgbm")
    if name == "onnx":
        pytest.importorskip("onnx")
    _, holes, offered = MODELS[kind]
    model, file = model_of(kind), tmp_path / "model"
    if name not in offered:
        with pytest.raises(ParameterError, match=r"export|can say it|hold"):
            export(model, file, name)
        assert not file.exists()
        return
    notes = export(model, file, name)
    X = make_rows(80, missing=0.2 if holes else 0.0, seed=1)[:, : model.n_features]
    if any(" counts as 0" in note for note in notes):
        X = make_rows(80, seed=1)  # a format that has no missing features says so
    content = file.read_bytes()
    content = content if name == "onnx" else content.decode()
    more = {"missing": 0.0} if name == "xgboost" and "missing=0" in " ".join(notes) else {}
    found = EVALUATORS[name](content, X, model.feature_names, **more)
    check_same(model, name, found, X, notes)


@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.parametrize("data_set", ["letor4_mq2008", "letor3_ohsumed"])
def test_public_data(data_folder, data_set, name, tmp_path):
    """The first 200 rows, by a linear model and by trees to which zeros are missing."""
    data = rankplug.read_data(data_folder / data_set / "S1.txt.gz").take_queries(np.arange(8))
    X = np.asarray(data.X)[:200]
    models = {
        "linear": rankplug.make_solver("tree-tron", tol=0.1).solve(data, random_state=0).model,
        "trees": rankplug.make_solver("xgboost-pairwise", n_estimators=4)
        .solve(data, random_state=0)
        .model,
    }
    names = tuple(f"f{j}" for j in range(X.shape[1]))
    for kind, model in models.items():
        if name not in (LINEAR if kind == "linear" else TREES):
            continue
        model.feature_names = names
        notes = model.export(tmp_path / kind, to=name)
        content = (tmp_path / kind).read_bytes()
        content = content if name == "onnx" else content.decode()
        more = {"missing": 0.0} if name == "xgboost" else {}
        # Vespa compares what is in double precision with thresholds in single precision.
        rows = X.astype(np.float32).astype(np.float64) if name == "vespa-xgboost" else X
        found = EVALUATORS[name](content, rows, names, **more)
        check_same(model, "svmrank", found, rows, notes)


def test_unknown_format_and_missing_packages(tmp_path, monkeypatch):
    model = LinearModel(COEF)
    with pytest.raises(UnknownNameError, match="elasticsearch-ltr"):
        export(model, tmp_path / "x", "elastic-ltr")
    monkeypatch.setattr("rankplug.exchange.registry.find_missing", lambda names: "needs onnx")
    with pytest.raises(SolverUnavailableError, match="onnx needs onnx"):
        export(model, tmp_path / "x", "onnx")


def with_categories():
    """A model of trees that never ask for the feature of categories."""
    model = train("xgboost-ndcg", n_estimators=1)
    model.feature_names, model.categories = ("c", "a", "b", "d"), {0: ("x", "y")}
    return model


def custom_kernel(A, B):
    return A @ B.T


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LabelLinearModel(np.ones((3, 4))), "3 labels"),
        (lambda: KernelModel(Kernel(custom_kernel), SUPPORT, DUAL), "kernel function of your own"),
        (lambda: pipeline(PolynomialFeatures()), r"'polynomialfeatures' \(PolynomialFeatures\)"),
        (lambda: pipeline(MinMaxScaler(clip=True)), "'minmaxscaler'"),
        (lambda: LinearModel(COEF[:2], ["a", "a"]), "several features are called 'a'"),
        (
            lambda: train("pointwise", regressor=KNeighborsRegressor()),
            "this regressor has no form that other systems know",
        ),
        (
            lambda: train("pointwise", regressor=make_pipeline(MinMaxScaler(clip=True), Ridge())),
            "a scaler that clips cannot be exported",
        ),
        (
            lambda: MappedModel(
                JoinedMap([make_map("identity")]).fit(make_data(make_rows())),
                KernelModel(Kernel("rbf", 0.25), SUPPORT, DUAL),
            ),
            "only linear models behind a map can be exported, not one of kind 'kernel'",
        ),
        (
            lambda: AdjustedModel(LinearModel(COEF), {0: Turn(2.0)}),
            "a model of kind 'adjusted' has no form that other systems know; those of",
        ),
        (
            lambda: ScaledModel(LinearModel(COEF), Scaling(None, np.array([1.0, -1.0, 1.0, 1.0]))),
            "features are scaled by numbers that are not positive",
        ),
        (
            lambda: pipeline(SimpleImputer(add_indicator=True), X=HOLES),
            r"'simpleimputer' \(SimpleImputer\)",
        ),
        (lambda: with_categories(), "the feature 'c' holds categories, whose codes no other"),
    ],
)
def test_what_has_no_form_says_which_part(make, message, tmp_path):
    model = make()
    with pytest.raises(ParameterError, match=message):
        export(model, tmp_path / "x", "sql")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "names", "message"),
    [
        ("sql", ["ab", "AB", "c", "d"], "differ only in small and capital letters: SQL may not"),
        ("vespa", ["a b", "feature_0", "c", "d"], "'a b' is feature_0_"),
        ("json", None, "they are called x0, x1"),
    ],
)
def test_notes_on_names(name, names, message, tmp_path):
    notes = export(LinearModel(COEF, names), tmp_path / "x", name if name in ALL else "python")
    assert any(message in note for note in notes)


def test_names_that_a_library_does_not_take_are_changed_to_others(tmp_path):
    model = train("xgboost-ndcg", n_estimators=2)
    export(model, tmp_path / "nameless", "xgboost")
    assert not json.loads((tmp_path / "nameless").read_text())["learner"]["feature_names"]
    model.feature_names = ("a[", "a_", "b", "c")
    notes = export(model, tmp_path / "named", "xgboost")
    written = json.loads((tmp_path / "named").read_text())["learner"]["feature_names"]
    assert written == ["a__", "a_", "b", "c"]
    assert any("'a['" in note and "a__" in note for note in notes)


def test_an_exponential_is_left_out_and_said(tmp_path):
    rows, data = make_rows(), make_data(make_rows())
    model = RegressorModel(PoissonRegressor().fit(rows, data.relevance))
    model.feature_names = NAMES
    notes = export(model, tmp_path / "x", "python")
    assert "scores are those before the exponential, which changes no order" in notes
    found = EVALUATORS["python"]((tmp_path / "x").read_text(encoding="utf-8"), rows, NAMES)
    np.testing.assert_allclose(np.exp(found), model.predict(rows))


def test_categories_go_to_their_own_library_only(tmp_path):
    frame = pandas.DataFrame({"x": np.arange(40) % 7.0, "c": list("abcd") * 10})
    frame["c"] = frame["c"].astype("category")
    ranker = rankplug.Ranker("xgboost-ndcg", n_estimators=2)
    ranker.fit(frame, np.arange(40) % 4, qid=np.repeat([0, 1], 20))
    with pytest.raises(ParameterError, match="categor"):
        ranker.export(tmp_path / "x", "python")
    assert ranker.export(tmp_path / "x", "xgboost")
    assert (tmp_path / "x").read_text(encoding="utf-8").startswith('{"')


def test_thresholds_of_single_precision_are_exact_in_double():
    rng = np.random.default_rng(0)
    some = rng.normal(size=40) * 10.0 ** rng.integers(-44, 38, size=40)
    thresholds = np.concatenate((some, [0.0, -0.0, 1e-45, -1e-45, 1.0, 3.4028234663852886e38]))
    found = widen(thresholds)
    near = np.float32(thresholds).astype(np.float64)
    with np.errstate(over="ignore"):
        ends = [np.nextafter(np.float32(near), np.float32(side)) for side in (-np.inf, np.inf)]
    middles = [0.5 * (near + end.astype(np.float64)) for end in ends]
    values = [thresholds, near, found, *middles]
    values += [np.nextafter(one, side) for one in values for side in (-np.inf, np.inf)]
    for x in values:
        x = np.clip(x, -3.4028234663852886e38, 3.4028234663852886e38)
        narrow = x.astype(np.float32)
        assert np.array_equal(x <= found, narrow.astype(np.float64) <= thresholds)
        below = narrow < less_than_float32(found)  # whose last is no threshold but the end
        assert np.array_equal(below[:-1], (narrow <= thresholds)[:-1])


def test_thresholds_behind_scaling_are_exact():
    rng = np.random.default_rng(1)
    shift, factor = rng.normal(size=50), rng.uniform(0.001, 1000, size=50)
    thresholds = np.concatenate(([0.0, 1e308, -1e308], rng.normal(size=47)))

    def scale(x):
        with np.errstate(over="ignore"):
            return (x - shift) * factor

    found = pull_back(thresholds, scale)
    assert np.array_equal(found == np.inf, scale(np.full(50, 1.7976931348623157e308)) <= thresholds)
    last = np.isfinite(found)
    assert last.sum() > 45
    assert np.all((scale(found) <= thresholds)[last])
    assert np.all((scale(np.nextafter(found, np.inf)) > thresholds)[last])


def test_thresholds_that_solr_moves(tmp_path):
    """It adds 1e-6 to each: those near 0 beside others, and one that all rows pass."""
    threshold = np.array([-1e-35, 1e-30, 0.35, -0.35, 0.0, 1e-35, 7.0, np.inf])
    n = len(threshold)
    arrays = TreeArrays(
        np.full(n, 3),
        np.tile([1, -1, -1], n),
        np.tile([2, -1, -1], n),
        np.zeros(3 * n, dtype=np.int64),
        np.ravel(np.column_stack([threshold, np.zeros((n, 2))])),
        np.ravel(np.column_stack([np.zeros(n), 2.0 ** np.arange(n), np.zeros(n)])),
    )
    model = TreeEnsemble(arrays, 1)
    X = np.array([-3.0, -0.35, -0.34, -1e-30, 0.0, 1e-31, 1e-30, 2e-30, 0.35, 0.36, 7.0, 1e7])
    X = X.astype(np.float32).astype(np.float64)[:, None]
    notes = export(model, tmp_path / "solr", "solr-ltr")
    found = EVALUATORS["solr-ltr"]((tmp_path / "solr").read_text(), X, ["x0"])
    assert np.allclose(found, model.predict(X))
    assert any("power of 2" in note for note in notes)


def test_deep_trees(tmp_path):
    """A chain of splits, deeper than recursion and parsers go; right of each is its leaf."""
    depth = 3000
    inner = 2 * np.arange(depth)
    left, right = np.full(2 * depth + 1, -1), np.full(2 * depth + 1, -1)
    left[inner], right[inner] = inner + 2, inner + 1
    value = np.arange(2.0 * depth + 1) % 5
    threshold = np.where(left >= 0, -np.arange(2.0 * depth + 1), 0.0)
    feature = np.zeros(2 * depth + 1, dtype=np.int64)
    arrays = TreeArrays(np.array([2 * depth + 1]), left, right, feature, threshold, value)
    model = TreeEnsemble(arrays, 1)
    X = -np.linspace(0, 2 * depth, 30)[:, None]
    for name in ("python", "lightgbm", "xgboost", "onnx"):
        pytest.importorskip(name) if name in ("lightgbm", "onnx") else None
        export(model, tmp_path / name, name)
        content = (tmp_path / name).read_bytes()
        content = content if name == "onnx" else content.decode()
        assert np.allclose(EVALUATORS[name](content, X, ["x0"]), model.predict(X))
    with pytest.raises(ParameterError, match="too deep for solr-ltr"):
        export(model, tmp_path / "solr", "solr-ltr")


def test_python_refuses_what_is_missing(tmp_path):
    export(make_trees(missing=False), tmp_path / "m.py", "python")
    space = {}
    exec((tmp_path / "m.py").read_text(), space)
    with pytest.raises(ValueError, match="'x1' is missing"):
        space["score"]([1.0, None, 2.0, 3.0])
    with pytest.raises(ValueError, match="4 features, not 1"):
        space["score"]([1.0])


def test_mlflow_serves_the_graph(tmp_path):
    """MLflow's onnx flavor takes a frame's columns in their order, and gives the scores."""
    onnx, mlflow_onnx = pytest.importorskip("onnx"), pytest.importorskip("mlflow.onnx")
    model = model_of("joined")
    export(model, tmp_path / "m.onnx", "onnx")
    mlflow_onnx.save_model(onnx.load(tmp_path / "m.onnx"), tmp_path / "saved")
    X = make_rows(10)
    served = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    frame = served.predict(pandas.DataFrame(X, columns=NAMES))
    assert np.allclose(np.ravel(frame["score"]), model.predict(X), rtol=1e-5)
