"""The solver "mapped": exact rankers on mapped features."""

import dataclasses
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import rankplug
import rankplug.cli
from rankplug.data import JoinedMatrix, LabelRankingData, RankingData
from rankplug.exceptions import ConvergenceWarning, DataError, DataWarning, ParameterError
from rankplug.maps import MappedModel, make_map
from rankplug.solver import path
from rankplug.testing import contract_checks, make_problem

LEAVES = {"leaves": {"n_estimators": 5}}


def mapped(**params):
    return rankplug.make_solver("mapped", **{"map": LEAVES, **params})


@pytest.fixture(scope="module")
def data():
    """Queries whose order no linear function has."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = np.digitize(X[:, 0] * X[:, 1], [-0.6, 0.0, 0.6])
    return RankingData.from_arrays(X, y, np.arange(600) // 20)


def accuracy(model, data):
    return rankplug.metrics.evaluate(
        data.relevance, model.predict(data.X), data.qid, "pairwise_accuracy"
    )["pairwise_accuracy"]


@pytest.mark.parametrize(
    "params",
    [
        {"map": "splines", "C": 1.0, "solver": "cutting-plane"},
        {"map": {"leaves": {"n_estimators": 4}, "identity": {}}},
        {"map": {"nystroem": {"n_components": 10}}, "C": 1.0},
    ],
    ids=str,
)
def test_contract(params):
    for check in contract_checks(mapped(**params)):
        check()


@pytest.mark.parametrize(
    "solver", ["tree-tron", "cutting-plane", "toppush", "a2dm2", "larank", "sopopo"]
)
@pytest.mark.parametrize("name", ["leaves", "splines", "nystroem", "fourier", "identity"])
def test_every_map_under_every_exact_solver(data, solver, name):
    some = data.take(np.arange(8))
    if solver in ("toppush", "a2dm2"):
        some = dataclasses.replace(some, relevance=(some.relevance > 1).astype(float))
    small = {
        "leaves": {"n_estimators": 3},
        "nystroem": {"n_components": 10},
        "fourier": {"n_components": 10},
    }
    solver = mapped(map={name: small.get(name, {})}, solver=solver)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = solver.solve(some, random_state=0)
    assert isinstance(result.model, MappedModel)
    assert result.duality_gap is not None
    assert np.isfinite(result.model.predict(some.X)).all()


@pytest.mark.parametrize("solver", ["tree-tron", "cutting-plane", "larank", "sopopo"])
def test_every_map_serves_labels_under_the_solvers_that_rank_them(data, solver, tmp_path):
    X = data.X[:30]
    labels = LabelRankingData.from_arrays(X, np.column_stack([X[:, 0], X[:, 1] ** 2, X[:, 2]]))
    for name, params in (
        ("leaves", {"n_estimators": 3}),
        ("splines", {}),
        ("nystroem", {"n_components": 5}),
        ("fourier", {"n_components": 5}),
        ("identity", {}),
    ):
        found = mapped(map={name: params}, solver=solver, C=1.0).solve(labels, random_state=0)
        assert found.duality_gap is not None
        found.model.save(tmp_path / name)
        scores = rankplug.load_model(tmp_path / name).predict(X)
        assert scores.shape == (30, 3)
        np.testing.assert_array_equal(scores, found.model.predict(X))


@pytest.mark.parametrize("solver", ["toppush", "a2dm2"])
def test_solvers_that_rank_no_labels_refuse_them_under_a_map_as_well(data, solver):
    labels = LabelRankingData.from_arrays(data.X[:30], data.X[:30])
    with pytest.raises(ParameterError, match=f"'{solver}' solves query-document, not label"):
        mapped(map="splines", solver=solver).solve(labels)


def test_the_problem_is_that_of_the_solver_on_the_columns(data):
    result = mapped(C=0.01, solver={"tree-tron": {"tol": 1e-6}}).solve(data, random_state=0)
    columns = result.model.map.transform(data.X)
    assert isinstance(columns, JoinedMatrix)
    plain = RankingData.from_arrays(columns.tocsr(), data.relevance, data.qid)
    expected = rankplug.make_solver("tree-tron", C=0.01, tol=1e-6).solve(plain)
    assert result.objective == pytest.approx(expected.objective, rel=1e-6)
    assert result.duality_gap <= 1e-3 * result.objective
    np.testing.assert_allclose(
        result.model.predict(data.X), expected.model.predict(plain.X), atol=1e-3
    )


def test_it_follows_what_linear_rankers_cannot(data):
    train, test = data.take(np.arange(20)), data.take(np.arange(20, 30))
    result = mapped(map="leaves").solve(train, random_state=0)
    assert accuracy(result.model, test) > 0.85
    assert accuracy(rankplug.make_solver("tree-tron").solve(train).model, test) < 0.6


@pytest.mark.parametrize("held", ["valid", "queries", "rows"])
def test_c_is_chosen_on_data_that_were_not_trained_on(data, held):
    train, valid = data.take(np.arange(20)), data.take(np.arange(20, 30))
    if held == "rows":
        train = RankingData.from_arrays(train.X, train.relevance, group=[train.n_samples])
    exactly = {"tree-tron": {"tol": 1e-6}}
    given = valid if held == "valid" else None
    result = mapped(solver=exactly).solve(train, valid=given, random_state=0)
    searched = [row for row in result.history if "C" in row]
    assert len(searched) >= 3
    key = "held_out_ndcg_at_10"
    assert all(key in row for row in searched)
    assert result.status == "converged"
    if held == "valid":
        best = max(searched, key=lambda row: row[key])
        again = mapped(C=best["C"], solver=exactly).solve(train, random_state=0)
        assert again.objective == pytest.approx(result.objective, rel=1e-5)


def test_a_c_that_was_said_is_kept(data):
    for params in ({"C": 0.1}, {"solver": {"tree-tron": {"C": 0.1}}}):
        result = mapped(**params).solve(data, random_state=0)
        assert not any("C" in row for row in result.history)
    given = rankplug.make_solver("tree-tron", C=0.1)
    other = mapped(solver=given).solve(data, random_state=0)
    assert other.objective == pytest.approx(result.objective, rel=1e-6)
    with pytest.raises(ParameterError, match="'toppush' has no parameter C"):
        mapped(solver="toppush", C=1.0).solve(data)


def test_a_path_fits_the_map_once(data, monkeypatch):
    data, fits = data.take(np.arange(30)), count_fits(monkeypatch)
    results = path(mapped(), data, [0.01, 0.1, 1.0], random_state=0)
    assert len(fits) == 1
    assert results[0].objective < results[-1].objective
    assert len({id(result.model.map) for result in results}) == 1


def test_trials_that_change_c_alone_do_not_fit_the_map_again(data, monkeypatch):
    data, fits = data.take(np.arange(30)), count_fits(monkeypatch)
    solver = mapped()
    first = solver.set_params(C=0.1).solve(data, random_state=0)
    solver.set_params(C=1.0).solve(data, random_state=0)
    again = solver.set_params(C=0.1).solve(data, random_state=0)
    assert len(fits) == 1
    assert again.objective == first.objective
    solver.set_params(map__n_estimators=6).solve(data, random_state=0)
    solver.solve(data, random_state=1)
    assert len(fits) == 3
    rankplug.tune(
        mapped(), data, n_trials=3, folds=2, progress=False, space={"map__n_estimators": 5}
    )
    assert len(fits) <= 3 + 3  # each fold once, and the last fit


def test_maps_of_equal_parameters_are_not_taken_for_each_other(data):
    data = data.take(np.arange(30))
    models = [
        mapped(map={name: {"n_components": 12, "gamma": 0.5}}, C=1.0)
        .solve(data, random_state=0)
        .model
        for name in ("nystroem", "fourier")
    ]
    assert [model.map.parts[0].kind for model in models] == ["nystroem", "fourier"]


def test_a_solver_that_grows_trees_is_known_by_its_parameters(data, monkeypatch):
    data, fits = data.take(np.arange(30)), count_fits(monkeypatch)
    trees = rankplug.make_solver("xgboost-pairwise", n_estimators=3)
    solver = mapped(map={"leaves": {"trees": trees}})
    for C, depth in ((0.1, 3), (1.0, 3), (1.0, 2)):
        clone(solver).set_params(C=C, map__trees__max_depth=depth).solve(data, random_state=0)
    assert len(fits) == 2


def count_fits(monkeypatch):
    fits, cls = [], type(make_map("leaves"))
    fit = cls._fit

    def counted(self, fitting):
        fits.append(fitting)
        return fit(self, fitting)

    monkeypatch.setattr(cls, "_fit", counted)
    return fits


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_the_weights_go_back_into_the_booster(data, library):
    booster = pytest.importorskip(library)
    trees = {"xgboost": "xgboost-pairwise", "lightgbm": "lightgbm-lambdarank"}[library]
    solver = mapped(map={"leaves": {"trees": trees, "n_estimators": 30}})
    model = solver.solve(data, random_state=0).model
    refitted = model.to_xgboost() if library == "xgboost" else model.to_lightgbm()
    rows = booster.DMatrix(data.X, missing=0.0) if library == "xgboost" else data.X
    options = {"output_margin": True} if library == "xgboost" else {"raw_score": True}
    found, expected = refitted.predict(rows, **options), model.predict(data.X)
    difference = found - expected
    scale = np.abs(expected - expected.mean()).max()
    assert np.ptp(difference) <= 1e-6 * max(scale, 1.0)
    other = model.to_lightgbm if library == "xgboost" else model.to_xgboost
    with pytest.raises(ParameterError, match="leaves of"):
        other()


def test_models_of_several_maps_are_no_booster(data):
    model = mapped(map="leaves + identity", C=1.0).set_params(map__leaves__n_estimators=3)
    with pytest.raises(ParameterError, match=r"this one is of leaves \+ identity"):
        model.solve(data, random_state=0).model.to_xgboost()


def test_label_ranking():
    problem = make_problem("label-ranking")
    labels = problem.data()
    result = mapped(map={"leaves": {"n_estimators": 20}, "splines": {}}).solve(
        labels, random_state=0
    )
    assert result.model.n_labels == labels.n_labels
    assert any("held_out_kendall_tau" in row for row in result.history)
    with pytest.raises(DataError, match="random-forest"):
        mapped(map={"leaves": {"trees": "xgboost-pairwise"}}).solve(labels)


def test_missing_values_are_taken_where_the_map_takes_them(data):
    X = np.where(np.random.default_rng(1).random(data.X.shape) < 0.1, np.nan, data.X)
    holes = RankingData.from_arrays(X, data.relevance, data.qid)
    result = mapped(map={**LEAVES, "identity": {}}, C=0.1).solve(holes, random_state=0)
    assert np.isfinite(result.model.predict(X)).all()
    with pytest.raises(DataError, match="takes no missing values"):
        mapped(map="nystroem", C=0.1).solve(holes)


def test_an_estimator_nests_the_parameters(data, tmp_path):
    ranker = rankplug.Ranker(mapped(C=0.1))
    ranker.set_params(solver__map__n_estimators=4, solver__solver__tol=1e-4)
    ranker.fit(data.X, data.relevance, qid=data.qid)
    assert len(ranker.model_.map.parts[0].trees.leaf_counts) == 4
    ranker.model_.save(tmp_path / "model")
    again = rankplug.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(data.X), ranker.predict(data.X))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"map": "leave"}, r"map='leave' \(must be a map"),
        ({"map": {"leaves": {"nothing": 1}}}, "must be a map"),
        ({"solver": "nobody"}, r"solver='nobody' \(must be the name of a solver"),
        ({"solver": {"tree-tron": {"D": 1}}}, "must be the name of a solver"),
        ({"eval_metric": "nice"}, "the name of a metric"),
    ],
)
def test_wrong_parameters_are_named(data, params, message):
    with pytest.raises(ParameterError, match=message):
        mapped(**params).solve(data)


def test_little_time_still_gives_a_model(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        result = mapped(map="leaves").solve(data, random_state=0, time_limit=1e-3)
    assert result.status == "time_limit"
    assert accuracy(result.model, data) > 0.6


def searched(result):
    return [row for row in result.history if "C" in row]


def test_other_parameters_of_a_named_solver_leave_the_choice_of_c(data):
    solvers = [
        mapped(solver={"tree-tron": {"tol": 0.01}}),
        mapped(solver__tol=0.01),
        rankplug.Ranker(mapped()).set_params(solver__solver__tol=0.01).solver,
    ]
    results = [solver.solve(data, random_state=0) for solver in solvers]
    assert all(searched(result) for result in results)
    assert len({result.objective for result in results}) == 1
    assert not searched(mapped(solver__C=0.1).solve(data, random_state=0))


def test_the_seed_reaches_the_search(data):
    some = data.take(np.arange(10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [mapped(solver="larank").solve(some, random_state=3) for _ in range(2)]
    scores = [[row["held_out_ndcg_at_10"] for row in searched(result)] for result in results]
    assert scores[0]
    assert scores[0] == scores[1]
    np.testing.assert_array_equal(*(result.model.predict(some.X) for result in results))


def test_a_metric_that_is_undefined_chooses_no_c(data):
    train, valid = data.take(np.arange(20)), data.take(np.arange(20, 30))
    with pytest.raises(DataError, match="undefined for every query of the data by which C"):
        mapped(eval_metric="map[threshold=9]").solve(train, valid=valid, random_state=0)
    # Of two queries one has pairs: none is held out then.
    y = np.where(np.arange(40) < 20, train.relevance[:40], 1.0)
    two = RankingData.from_arrays(train.X[:40], y, train.qid[:40])
    result = mapped().solve(two, random_state=0)
    assert all(np.isfinite(row["held_out_ndcg_at_10"]) for row in searched(result))


def test_eval_sets_are_measured_all_along_and_iterations_counted(data):
    train, other = data.take(np.arange(20)), data.take(np.arange(20, 30))
    result = mapped().solve(train, watch={"other": other}, random_state=0)
    values = result.evals["other"]["ndcg@10"]
    assert len(values) == len(result.history)
    assert np.isfinite(values).all()
    found = rankplug.metrics.evaluate(
        other.relevance, result.model.predict(other.X), other.qid, "ndcg@10"
    )
    assert values[-1] == pytest.approx(found["ndcg@10"], abs=1e-12)
    assert result.n_iter == result.history[-1]["n_iter"]


def test_parts_of_the_time_limit_are_left_for_what_comes(data, monkeypatch):
    limits, cls = [], type(make_map("leaves"))
    fit = cls._fit
    monkeypatch.setattr(
        cls, "_fit", lambda self, fitting: limits.append(fitting.time_limit) or fit(self, fitting)
    )
    data = data.take(np.arange(30))
    mapped().solve(data, time_limit=1000.0, random_state=0)
    first, last = limits
    assert first <= 300.0
    assert last <= 600.0


def test_warnings_are_those_of_the_solver_within(data):
    with pytest.warns(ConvergenceWarning) as caught:
        mapped(C=100.0, solver={"tree-tron": {"max_iter": 1}}).solve(data, random_state=0)
    assert [str(one.message).split()[0] for one in caught] == ["tree-tron"]


def test_nested_parameters_by_name():
    solver = rankplug.make_solver("mapped", map__leaves__n_estimators=7, solver__tol=0.1)
    assert solver.get_params()["map__leaves__n_estimators"] == 7
    assert solver.get_params()["solver__tol"] == 0.1
    with pytest.raises(ParameterError, match="Invalid parameter 'n_estimator'"):
        rankplug.make_solver("mapped", map__leaves__n_estimator=7)
    with pytest.raises(ParameterError, match="no parameter 'maps__n'"):
        rankplug.make_solver("mapped", maps__n=7)


RECIPE = """
data: {dataset: web-search, params: {n_queries: 30, docs_per_query: 8, seed: 1}}
metrics: [ndcg@10]
tune: {n_trials: 2}
solvers:
  - solver: mapped
    name: leaves
    params: {map: {leaves: {n_estimators: 5}, identity: {}}, solver__tol: 0.01}
    space: {map__leaves__n_estimators: {low: 3, high: 6}}
  - solver: mapped
    name: additive
    params: {map: splines, solver: cutting-plane}
"""


def test_recipes_name_maps(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "maps.yaml").write_text(RECIPE)
    assert rankplug.cli.main(["run", "maps.yaml", "--quiet", "--output", "out"]) == 0
    assert "additive" in capsys.readouterr().out
    wrong = RECIPE.replace("n_estimators: 5", "n_estimator: 5").replace("solver__tol", "solver__tl")
    (tmp_path / "maps.yaml").write_text(wrong)
    assert rankplug.cli.main(["run", "maps.yaml", "--quiet", "--output", "out2"]) == 2
    message = capsys.readouterr().err
    assert "maps.yaml" in message
    assert "map" in message
