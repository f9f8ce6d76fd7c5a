"""Maps of features: their contract, their formulas, and how they are named and joined."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import rankplug
from rankplug.data import RankingData
from rankplug.exceptions import DataError, ModelFormatError, ParameterError, UnknownNameError
from rankplug.kernels import Kernel
from rankplug.maps import FittedJoin, JoinedMap, MappedModel, list_maps, make_map, pack
from rankplug.models import KernelModel, LabelLinearModel, LinearModel
from rankplug.testing import map_checks

QUICK = {
    "leaves": {"n_estimators": 5},
    "nystroem": {"n_components": 20},
    "fourier": {"n_components": 20},
}


def maps():
    yield from (make_map(info.name, **QUICK.get(info.name, {})) for info in list_maps())
    yield make_map({"identity": {}, "leaves": {"trees": "random-forest", "n_estimators": 4}})
    yield make_map("leaves", trees="random-forest", n_estimators=4)
    yield make_map("leaves", trees="extra-trees", n_estimators=4)
    yield make_map("leaves", trees="xgboost-regression", n_estimators=4)
    yield make_map("leaves", trees="xgboost-all-pairs", n_estimators=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        available = {info.name for info in rankplug.list_solvers() if info.available}
    if "lightgbm-lambdarank" in available:
        yield make_map("leaves", trees="lightgbm-lambdarank", n_estimators=4)


def checks():
    for k, one in enumerate(maps()):
        for check in map_checks(one):
            serves_labels = one.name != "leaves" or one.trees in (
                None,
                "random-forest",
                "extra-trees",
                "xgboost-regression",
            )
            if check.task == "query-document" or serves_labels:
                yield pytest.param(check, id=f"{k}-{check}")


@pytest.mark.parametrize("check", list(checks()))
def test_contract(check):
    check()


def data(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return RankingData.from_arrays(X, np.digitize(X[:, 0], [-0.5, 0.5]), np.arange(n) // 20)


def test_our_maps_are_listed():
    ours = {info.name for info in list_maps() if info.package == "rankplug"}
    assert ours == {"fourier", "identity", "leaves", "nystroem", "splines"}


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("leaves", ["leaves"]),
        (" leaves+ splines +identity", ["leaves", "splines", "identity"]),
        ({"splines": {"n_knots": 5}, "identity": None}, ["splines", "identity"]),
        (["splines", {"fourier": {"gamma": 2.0}}], ["splines", "fourier"]),
    ],
)
def test_forms_of_maps(spec, names):
    made = make_map(spec)
    assert [one.name for one in getattr(made, "maps", [made])] == names
    assert make_map(made) is made or isinstance(made, JoinedMap)


@pytest.mark.parametrize(
    ("spec", "params", "message"),
    [
        ("leave", {}, "unknown map 'leave'.*leaves"),
        ("leaves + leaves", {}, "named more than once"),
        ("leaves", {"n_estimator": 3}, "no parameter 'n_estimator'.*n_estimators"),
        ({"splines": {"knots": 3}}, {}, "no parameter 'knots'"),
        ({"splines": 3}, {}, "must be a mapping"),
        ("leaves + identity", {"n_estimators": 3}, "give them by name"),
        ([], {}, "empty list"),
        (3, {}, "must be a name"),
    ],
)
def test_wrong_forms_are_named(spec, params, message):
    with pytest.raises((ParameterError, UnknownNameError), match=message):
        make_map(spec, **params)


def test_parameters_are_nested():
    joined = make_map("leaves + splines").set_params(leaves__n_estimators=7, splines__n_knots=4)
    assert joined.get_params()["leaves__n_estimators"] == 7
    assert joined.maps[1].n_knots == 4


def test_a_map_is_set_by_its_name():
    joined = make_map("leaves + identity").set_params(leaves=make_map("leaves", n_estimators=7))
    assert joined.get_params()["leaves__n_estimators"] == 7
    with pytest.raises(ParameterError, match="maps="):
        joined.set_params(identity="no map").fit(data())


def test_missing_values_of_sparse_features_do_not_count():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((400, 2)) < 0.5, np.nan, rng.normal(3.0, 1.0, (400, 2)))
    y, qid = rng.integers(0, 3, 400), np.arange(400) // 20
    dense, thin = (
        make_map("identity").fit(RankingData.from_arrays(form, y, qid))
        for form in (X, sparse.csr_array(X))
    )
    np.testing.assert_allclose(thin.factor, dense.factor, rtol=1e-12)
    np.testing.assert_allclose(thin.fill, dense.fill, rtol=1e-12)
    np.testing.assert_allclose(dense.fill / dense.factor, np.nanmean(X, axis=0), rtol=1e-12)


def test_splines_follow_any_piecewise_linear_function():
    train = data()
    fitted = make_map("splines", n_knots=5).fit(train)
    knots = fitted.knots_of(1)
    values = np.array([0.0, 2.0, -1.0, 3.0, 0.5])
    weights = np.zeros(fitted.n_columns)
    weights[4:8] = np.diff(values)  # of the second feature
    np.testing.assert_allclose(
        fitted.transform(train.X) @ weights, np.interp(train.X[:, 1], knots, values), atol=1e-12
    )
    assert fitted.column_features().tolist() == [0] * 4 + [1] * 4 + [2] * 4


def test_kernel_maps_approach_the_kernel():
    train = data(n=60)
    gamma = 0.3
    kernel = np.exp(-gamma * np.square(train.X[:, None] - train.X[None]).sum(axis=2))
    for name, size, tolerance in (("nystroem", 60, 1e-6), ("fourier", 20_000, 0.05)):
        fitted = make_map(name, n_components=size, gamma=gamma).fit(train, random_state=0)
        columns = fitted.transform(train.X)
        assert np.abs(columns @ columns.T - kernel).max() < tolerance, name


def test_joined_blocks_have_rows_of_the_length_of_their_weight():
    train = data()
    joined = make_map(
        {"leaves": {"n_estimators": 6}, "identity": {}, "splines": {"weight": 2.0}}
    ).fit(train)
    columns = joined.transform(train.X)
    starts = columns.starts
    dense = columns.toarray()
    for (b, e), weight in zip(pairwise(starts), (1.0, 0.3, 2.0), strict=True):
        assert np.square(dense[:, b:e]).sum(axis=1).mean() == pytest.approx(weight**2)


def test_trees_that_were_trained_before():
    train = data()
    trees = rankplug.make_solver("xgboost-pairwise", n_estimators=3).solve(train).model
    fitted = make_map("leaves", trees=trees).fit(train)
    assert fitted.trees is trees
    with pytest.raises(DataError, match="take 3 features, the data have 2"):
        make_map("leaves", trees=trees).fit(
            RankingData.from_arrays(train.X[:, :2], train.relevance)
        )


def test_leaves_of_one_score_are_refused_for_labels():
    labels = rankplug.LabelRankingData.from_arrays(
        data().X, np.random.default_rng(0).random((200, 4))
    )
    with pytest.raises(DataError, match="take one of 'random-forest', 'extra-trees'"):
        make_map("leaves", trees="xgboost-pairwise").fit(labels)
    with pytest.raises(ParameterError, match="no solver of boosted trees"):
        make_map("leaves", trees="tree-tron").fit(data())


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_a_booster_of_the_users(library):
    module, train = pytest.importorskip(library), data()
    y = train.X[:, 0] ** 2
    regressor = getattr(module, {"xgboost": "XGBRegressor", "lightgbm": "LGBMRegressor"}[library])
    fitted = regressor(n_estimators=4).fit(train.X, y)
    booster = fitted.get_booster() if library == "xgboost" else fitted.booster_
    expected = (
        fitted.apply(train.X) if library == "xgboost" else fitted.predict(train.X, pred_leaf=True)
    )
    for trees in (fitted, booster):
        leaves = make_map("leaves", trees=trees).fit(train)
        codes = leaves.transform(train.X).codes
        assert codes.shape == (200, 4)
        for t in range(4):  # the same rows together
            pairs = {*zip(codes[:, t].tolist(), expected[:, t].tolist(), strict=True)}
            assert len(pairs) == len(set(codes[:, t])) == len(set(expected[:, t]))


@pytest.mark.parametrize("n_labels", [0, 3])
def test_boosted_regression_grows_the_trees_of_xgboost(n_labels):
    xgboost, train = pytest.importorskip("xgboost"), data()
    relevance = np.tanh(train.X @ np.random.default_rng(1).normal(size=(3, max(n_labels, 1))))
    if n_labels:
        train = rankplug.LabelRankingData.from_arrays(train.X, relevance)
    else:
        train = RankingData.from_arrays(train.X, relevance[:, 0], train.qid)
    leaves = make_map("leaves", trees="xgboost-regression", n_estimators=6).fit(train)
    params = {
        "max_depth": 6,
        "learning_rate": 0.1,
        "min_child_weight": 5,
        "nthread": 1,
        "multi_strategy": "multi_output_tree",
    }
    booster = xgboost.train(params, xgboost.DMatrix(train.X, train.relevance), 6)
    X = np.concatenate([train.X, np.where(train.X > 1, np.nan, train.X.round(1))])
    expected = booster.predict(xgboost.DMatrix(X), pred_leaf=True)
    found = leaves.trees.find_leaves(X)
    for t in range(6):  # the same rows together
        pairs = {*zip(found[:, t].tolist(), expected[:, t].tolist(), strict=True)}
        assert len(pairs) == len(set(found[:, t])) == len(set(expected[:, t])) > 4


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["map", "parts", 0, "map"], "nobody", "unknown map 'nobody'"),
        (["map", "parts", 0, "factor"], 0.0, "map 0 is not described"),
        (["map", "parts", 0, "content", "files"], ["../secret"], r"map0-\.\./secret is missing"),
        (["files"], ["a" * 5000], "model-a+ is missing"),
        (["map", "parts"], [], "names no maps"),
        (["kind"], None, "does not describe the map and the model"),
    ],
)
def test_forged_headers_are_refused(tmp_path, place, value, message):
    joined = JoinedMap([make_map("splines")]).fit(data())
    header = MappedModel(joined, LinearModel(np.ones(joined.n_columns)))._write(tmp_path)
    *outer, last = place
    inner = header
    for key in outer:
        inner = inner[key]
    inner[last] = value
    with pytest.raises(ModelFormatError, match=message):
        MappedModel._read(tmp_path, header)


def labels():
    return rankplug.LabelRankingData.from_arrays(data().X, data().X)


@pytest.mark.parametrize(
    ("name", "header", "arrays", "message"),
    [
        ("leaves", {"kind": None}, None, "does not describe the trees"),
        ("leaves", {"kind": "linear"}, None, "a model of kind 'linear' has no leaves"),
        ("nystroem", {"gamma": -1.0}, None, "gamma is missing or wrong in the header"),
        ("fourier", {}, {"waves": np.ones((3, 4)), "phases": np.ones(5)}, "do not fit together"),
    ],
)
def test_what_a_map_wrote_is_checked(tmp_path, name, header, arrays, message):
    one = make_map(name, **QUICK[name]).fit(data(), random_state=0)
    content = {**one._write(tmp_path), **header}
    for file in tmp_path.glob("*.npz") if arrays else ():
        np.savez(file, **arrays)
    with pytest.raises(ModelFormatError, match=message):
        type(one)._read(tmp_path, content)


def test_parts_of_a_file_take_the_same_features(tmp_path):
    train = data()
    narrow = RankingData.from_arrays(train.X[:, :2], train.relevance, train.qid)
    parts = [make_map("splines").fit(one) for one in (train, narrow)]
    header = FittedJoin(parts, [1.0, 1.0])._write(tmp_path)
    with pytest.raises(ModelFormatError, match="the maps take different numbers of features"):
        FittedJoin._read(tmp_path, header)


def test_trees_of_labels_make_no_leaves_of_documents(tmp_path):
    trees = rankplug.make_solver("xgboost-pairwise", n_estimators=2).solve(labels()).model
    with pytest.raises(DataError, match="the trees given rank labels, the data are documents"):
        make_map("leaves", trees=trees).fit(data())
    header = {"kind": "xgboost", "trees": pack(trees, tmp_path, "trees")}
    with pytest.raises(ModelFormatError, match="the trees are those of labels"):
        make_map("leaves").fitted._read(tmp_path, header)
    with pytest.raises(ParameterError, match="kind 'linear-then-trees', which has no leaves"):
        make_map("leaves", trees="linear-then-boost", n_estimators=2).fit(data())


@pytest.mark.parametrize(
    ("name", "X", "message"),
    [
        ("identity", np.array([[-1e308], [1e308]] * 10), "too large or too small to be stand"),
        ("splines", np.array([[-1e308], [1e308]] * 10), "too large for knots between them"),
        ("splines", np.ones((20, 2)), "all features are constant: splines need two values"),
        ("leaves", np.array([[-1e308], [1e308]] * 10), "too large for forests"),
    ],
)
def test_features_that_no_map_can_take(name, X, message):
    given = RankingData.from_arrays(X, np.arange(20) % 2, np.arange(20) // 10)
    trees = {"trees": "extra-trees"} if name == "leaves" else {}
    with np.errstate(all="ignore"), pytest.raises(DataError, match=message):
        make_map(name, **trees).fit(given)


def test_too_many_sparse_features_do_not_become_dense(monkeypatch):
    monkeypatch.setattr("rankplug_plugins.maps.growing._MOST_DENSE", 100)
    thin = RankingData.from_arrays(sparse.csr_array(data().X), data().relevance, data().qid)
    with pytest.raises(DataError, match=r"takes dense features, .* take 'random-forest'"):
        make_map("leaves", trees="xgboost-regression", n_estimators=2).fit(thin)


def test_a_map_of_documents_takes_no_labels():
    class Documents(type(make_map("identity"))):
        tasks = ("query-document",)

    with pytest.raises(DataError, match="'identity' is for query-document, not label-ranking"):
        Documents().fit(labels())


def test_what_is_worth_tuning():
    train = data()
    for name in ("nystroem", "fourier"):
        gamma = make_map(name).tuning_space(train)["gamma"]
        middle = make_map(name, **QUICK[name]).fit(train, random_state=0)
        assert gamma.high == pytest.approx(100 * gamma.low)
        assert gamma.log
        assert make_map(name).tuning_space() == {}
        if name == "nystroem":
            assert middle.gamma == pytest.approx(10 * gamma.low)
    solver = rankplug.make_solver("xgboost-pairwise", n_estimators=2)
    assert make_map("leaves", trees=solver).tuning_space(train) == {}
    alone = JoinedMap([make_map("leaves")])
    assert set(alone.tuning_space(train)) == {"n_estimators"}
    assert alone.set_params(n_estimators=9, leaves__min_samples_leaf=2).maps[0].n_estimators == 9
    assert alone.maps[0].min_samples_leaf == 2


def test_trees_that_were_trained_take_missing_values_if_they_do():
    train = data()
    for trees, takes in (
        (rankplug.make_solver("xgboost-pairwise", n_estimators=2).solve(train).model, True),
        (None, True),
        ("random-forest", True),
    ):
        assert make_map("leaves", trees=trees).takes_missing_values() is takes


def test_a_constant_feature_adds_nothing():
    train = data()
    X = np.column_stack((train.X, np.full(len(train.X), 3.0)))
    fitted = make_map("splines").fit(RankingData.from_arrays(X, train.relevance, train.qid))
    weights = np.random.default_rng(0).normal(size=fitted.n_columns)
    found = fitted.contributions(X, weights).values
    assert not found[:, 3].any()
    np.testing.assert_allclose(found.sum(axis=1), fitted.transform(X) @ weights, atol=1e-12)


def test_models_that_are_not_linear_behind_a_map():
    train = data()
    joined = JoinedMap([make_map("leaves", n_estimators=2)]).fit(train, random_state=0)
    several = MappedModel(joined, LabelLinearModel(np.ones((2, joined.n_columns))))
    with pytest.raises(ParameterError, match="only weights of one score can be the values"):
        several.to_xgboost()
    joined = JoinedMap([make_map("identity")]).fit(train)
    kernel = KernelModel(Kernel("rbf", 0.5), joined.transform(train.X[:4]).tocsr(), np.ones(4))
    model = MappedModel(joined, kernel)
    with pytest.raises(ParameterError, match=r"leaves of lightgbm alone .* one is of identity"):
        model.to_lightgbm()
    added = model.contributions(train.X[:3])  # sampled
    np.testing.assert_allclose(added.sum(axis=1), model.predict(train.X[:3]), atol=1e-9)


def test_the_default_trees_suit_the_data():
    train = data()
    one = RankingData.from_arrays(train.X, train.X[:, 1], group=[200])
    labels = rankplug.LabelRankingData.from_arrays(train.X, train.X)
    for given, kind, objective in ((train, "xgboost", "rank:pairwise"), (one, "xgboost", None)):
        trees = make_map("leaves", n_estimators=2).fit(given, random_state=0).trees
        assert trees.kind == kind
        assert ("rank:pairwise" in trees.booster.save_config()) == (objective is not None)
    assert make_map("leaves", n_estimators=2).fit(labels, random_state=0).trees.kind == "trees"
