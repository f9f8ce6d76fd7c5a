"""Search spaces, and the same parameters searched by scikit-learn's tools."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankplug
from rankplug.exceptions import ParameterError
from rankplug.metrics import evaluate
from rankplug.objectives import decades_down, decades_up, pairwise_c
from rankplug.solver import solver_class
from rankplug.tuning import read_space, tune

rng = np.random.default_rng(0)
QUERIES = rankplug.RankingData.from_arrays(
    rng.normal(size=(120, 3)), rng.integers(0, 3, 120), np.repeat(np.arange(20), 6)
)
LABELS = rankplug.LabelRankingData.from_arrays(
    rng.normal(size=(30, 3)), rng.integers(0, 3, (30, 4)).astype(float)
)
OF_TASK = {"query-document": QUERIES, "label-ranking": LABELS}
SOLVERS = [info.name for info in rankplug.list_solvers() if info.available]


def scaled(data, factor):
    return replace(data, X=data.X * factor)


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_accept_all_of_their_search_space(name):
    cls = solver_class(name)
    for data in [None, *(OF_TASK[task] for task in cls.tags.tasks)]:
        space = cls.search_space(data)
        assert set(space) <= set(cls().get_params())
        if not space:
            continue
        assert read_space(cls(), space, data).distributions == cls().tuning_space(data)
        for distribution in space.values():
            if not isinstance(distribution, CategoricalDistribution):
                assert distribution.low < distribution.high


@pytest.mark.parametrize("name", ["tree-tron", "cutting-plane", "sopopo"])
@pytest.mark.parametrize("data", [QUERIES, LABELS], ids=["queries", "labels"])
def test_at_the_lowest_c_every_pair_has_a_loss(name, data):
    solver = rankplug.make_solver(name)
    C = solver.tuning_space(data)["C"].low
    exact = clone(solver).set_params(C=C, tol=1e-8)
    scores = exact.solve(data, random_state=0).model.predict(data.X)
    assert np.ptp(scores) < 1
    # For such noise the best of sopopo's worst pairs are those of equal scores.
    assert np.ptp(scores) > 1e-4 or name == "sopopo", "far too low"


@pytest.mark.parametrize("reduction", ["sum", "mean", "query-mean"])
@pytest.mark.parametrize("data", [QUERIES, LABELS], ids=["queries", "labels"])
def test_c_follows_the_scale_of_features_and_the_reduction(data, reduction):
    solver = rankplug.make_solver("tree-tron", reduction=reduction)
    C = solver.tuning_space(data)["C"]
    assert solver.tuning_space(scaled(data, 10.0))["C"].low == pytest.approx(C.low / 100)
    assert C.low == pytest.approx(pairwise_c(data, reduction).low)
    if reduction == "mean":
        by_sum = solver_class("tree-tron").search_space(data)["C"].low
        assert C.low == pytest.approx(by_sum * data.pair_counts.sum())


def test_ranges_of_data_that_say_nothing():
    zero = scaled(QUERIES, 0.0)
    assert pairwise_c(zero) == pairwise_c(None) == decades_up(1e-6)
    assert decades_down(1.0) == FloatDistribution(1e-7, 1.0, log=True)
    toppush = solver_class("toppush")
    assert toppush.search_space(zero) == toppush.search_space()
    assert set(toppush.search_space()) == {"lam", "top_k"}
    assert set(toppush(method="apg").tuning_space()) == {"lam"}


def test_kernels_have_a_gamma_to_search():
    space = rankplug.make_solver("sopopo", kernel="rbf").tuning_space(LABELS)
    assert set(space) == {"C", "gamma"}
    default = 1 / (3 * LABELS.X.var())
    assert space["gamma"].low < default < space["gamma"].high


TREE_TRON = rankplug.make_solver("tree-tron")


@pytest.mark.parametrize(
    ("name", "wish", "expected"),
    [
        ("C", {"low": 1e-6, "high": 10, "log": True}, FloatDistribution(1e-6, 10.0, log=True)),
        ("C", {"low": 1, "high": 10, "log": False}, FloatDistribution(1.0, 10.0)),
        ("C", {"low": 1, "high": 10, "step": 3}, FloatDistribution(1.0, 10.0, step=3.0)),
        ("C", {"high": 10.0}, FloatDistribution(1e-6, 10.0, log=True)),
        ("C", [0.1, 1.0], CategoricalDistribution([0.1, 1.0])),
        ("C", FloatDistribution(1.0, 2.0), FloatDistribution(1.0, 2.0)),
        ("method", ["newton", "tron"], CategoricalDistribution(["newton", "tron"])),
        ("method", {"choices": ["tron"]}, CategoricalDistribution(["tron"])),
        ("max_iter", {"low": 1, "high": 9}, IntDistribution(1, 9)),
        ("max_iter", {"low": 1, "high": 9, "step": 2}, IntDistribution(1, 9, step=2)),
        ("n_threads", [None, 1], CategoricalDistribution([None, 1])),
    ],
)
def test_what_is_searched(name, wish, expected):
    assert read_space(TREE_TRON, {name: wish}).distributions[name] == expected


def test_what_is_held():
    space = read_space(TREE_TRON, {"tol": 1e-4, "n_threads": None, "method": "tron"})
    assert space.fixed == {"tol": 1e-4, "n_threads": None, "method": "tron"}
    assert set(space.distributions) == {"C"}
    space = read_space(TREE_TRON, {"C": 0.1, "max_iter": [1, 2]})
    assert space.fixed == {"C": 0.1}
    assert set(space.distributions) == {"max_iter"}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"c": 1.0},
            r"no parameter 'c'; did you mean 'C'\? "
            r"\(known: C, document_pairs, early_stopping_rounds, eval_metric, max_iter",
        ),
        ({"max_iters": [1]}, "no parameter 'max_iters'; did you mean 'max_iter'"),
        ({"C": {"low": 2, "high": 1}}, "C: low=2 is above high=1"),
        ({"C": {"low": 0, "high": 1, "log": True}}, "C: a logarithmic range needs low > 0"),
        ({"C": {"low": 0.0, "high": 1, "log": False}}, r"C=0.0 \(must be a finite number > 0\)"),
        ({"C": {"low": "1e-6", "high": 1}}, "C: low='1e-6' must be a finite number"),
        ({"C": {"low": float("nan"), "high": 1}}, "C: low=nan must be a finite number"),
        ({"C": {"lowest": 1}}, "C: no key 'lowest'; did you mean 'low'"),
        ({"C": {"choices": [1.0], "log": True}}, "C: no key 'log'"),
        ({"C": {"low": 1, "high": 2, "log": 1}}, "log=1 must be true or false"),
        ({"C": {"low": 1, "high": 2, "step": 0}}, "step must be > 0"),
        ({"C": []}, "C: choices must be a list of values"),
        ({"C": {"choices": 3}}, "C: choices must be a list of values, not 3"),
        ({"C": [1.0, 1.0]}, "C: a choice is named twice"),
        ({"C": [[1.0]]}, r"C: choice \[1.0\] cannot be stored"),
        ({"C": -1.0}, r"C=-1.0 \(must be"),
        ({"tol": {"high": 1}}, "tol: a range needs low and high"),
        ({"max_iter": {"low": 1, "high": 2.5}}, "max_iter: high=2.5 must be an integer"),
        ({"max_iter": {"low": 0, "high": 2}}, r"max_iter=0 \(must be an integer >= 1\)"),
        ({"method": ["newton", "trom"]}, r"method='trom' \(must be one of"),
        ({"C": 1.0}, "nothing is left to search"),
        ([1], "space must be a mapping"),
    ],
)
def test_wrong_spaces(overrides, message):
    with pytest.raises(ParameterError, match=message):
        read_space(TREE_TRON, overrides)


def test_everything_wrong_is_said_at_once_and_before_any_trial(tmp_path):
    space = {"C": {"low": 2, "high": 1}, "methd": ["tron"], "tol": -1.0}
    with pytest.raises(ParameterError, match=r"C: low=2.*did you mean 'method'.*tol=-1.0"):
        tune(TREE_TRON, QUERIES, space=space, n_trials=1, storage=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_grid_search(routing):
    grid = {"solver__C": [1e-9, 1e-2, 1.0]}
    search = GridSearchCV(rankplug.Ranker(TREE_TRON), grid, cv=GroupKFold(4), error_score="raise")
    search.fit(QUERIES.X, QUERIES.relevance, qid=QUERIES.qid, groups=QUERIES.qid)
    assert search.best_params_["solver__C"] == search.best_estimator_.solver.C
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_randomized_search_in_a_pipeline(routing):
    import scipy.stats

    pipeline = make_pipeline(
        StandardScaler(), rankplug.Ranker(rankplug.make_solver("cutting-plane"))
    )
    search = RandomizedSearchCV(
        pipeline,
        {"ranker__solver__C": scipy.stats.loguniform(1e-4, 1.0)},
        n_iter=3,
        cv=GroupKFold(3),
        random_state=0,
        error_score="raise",
    )
    search.fit(QUERIES.X, QUERIES.relevance, qid=QUERIES.qid, groups=QUERIES.qid)
    assert len(set(search.cv_results_["param_ranker__solver__C"])) == 3
    assert search.score(QUERIES.X, QUERIES.relevance, qid=QUERIES.qid) > 0


def test_labels_in_grid_search(routing):
    # That is so for labels at random and "adjacent-layers", and told.
    warnings.filterwarnings("ignore", "sopopo: the model is no better than w = 0", UserWarning)
    ranker = rankplug.LabelRanker(rankplug.make_solver("sopopo"))
    grid = {"solver__C": [1e-4, 1.0], "solver__decomposition": ["adjacent-layers", "all-pairs"]}
    search = GridSearchCV(ranker, grid, cv=3, error_score="raise")
    search.fit(LABELS.X, LABELS.relevance)
    assert len(search.cv_results_["params"]) == 4


def test_tree_tron_on_mq2008(data_folder):
    folder = data_folder / "letor4_mq2008" / "Fold1"
    train = rankplug.read_data(folder / "train.txt.gz", dense=True)
    valid, test = (
        rankplug.read_data(folder / f"{part}.txt.gz", like=train) for part in ("vali", "test")
    )
    solver = rankplug.make_solver("tree-tron", tol=1e-4)
    metric = "pairwise_accuracy"
    result = tune(
        solver, train, valid=valid, metric=metric, path=30, n_trials=1, refit=True, progress=False
    )
    scores = result.best_result.model.predict(test.X)
    assert evaluate(test.relevance, scores, test.qid, metric)[metric] >= 0.826
