"""Metrics as scorers in scikit-learn's searches, cross-validations and inspections."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankplug import LabelRanker, Ranker
from rankplug.exceptions import DataError, ParameterError, UnknownNameError
from rankplug.metrics import evaluate, get_scorer, get_scorer_names, parse_metric

F = ["year", "length", "noise"]


@pytest.fixture(scope="module")
def films():
    g = np.random.default_rng(3)
    user = np.repeat(np.arange(30), g.integers(5, 12, 30))
    X = g.normal(size=(len(user), 3))
    taste = X @ [1.0, -0.5, 0.0] + 0.7 * g.normal(size=len(user)) + 3.0 * g.normal(size=30)[user]
    frame = pd.DataFrame(X, columns=F)
    return frame.assign(stars=np.digitize(taste, [-3, -1, 1, 3]), qid=user)


@pytest.fixture(scope="module")
def table(films):
    return films[[*F, "qid"]]


@pytest.fixture(scope="module")
def folds(films):
    return list(GroupKFold(3).split(films, groups=films.qid))


def by_hand(films, folds, metric, ranker=None):
    found = []
    for train, test in folds:
        fitted = clone(ranker or Ranker()).fit(
            films[F].iloc[train], films.stars[train], qid=films.qid[train]
        )
        scores = fitted.predict(films[F].iloc[test])
        found.append(evaluate(films.stars[test], scores, films.qid[test], metric)[metric])
    return found


METRICS = ["ndcg@10", "ndcg@3[gain=linear]", "map[threshold=2]", "pairwise_accuracy", "precision@2"]


@pytest.mark.parametrize("metric", METRICS)
def test_cross_validation_by_a_column(films, table, folds, metric):
    scores = cross_val_score(Ranker(), table, films.stars, cv=folds, scoring=get_scorer(metric))
    assert scores.tolist() == pytest.approx(by_hand(films, folds, metric), abs=1e-12)


def test_cross_validation_by_routing(films, folds):
    expected = by_hand(films, folds, "ndcg@10")
    with config_context(enable_metadata_routing=True):
        for ranker in (Ranker(), make_pipeline(StandardScaler(with_std=False), Ranker())):
            scores = cross_val_score(
                ranker,
                films[F],
                films.stars,
                cv=folds,
                scoring=get_scorer("ndcg@10"),
                params={"qid": films.qid},
            )
            assert scores.tolist() == pytest.approx(expected, abs=1e-3)


def test_several_scorers_at_once(films, table, folds):
    scoring = {name: get_scorer(name) for name in ("ndcg@10", "mrr")}
    found = cross_validate(Ranker(), table, films.stars, cv=folds, scoring=scoring)
    for name in scoring:
        expected = by_hand(films, folds, name)
        assert found[f"test_{name}"].tolist() == pytest.approx(expected, abs=1e-12)
    with config_context(enable_metadata_routing=True):
        params = {"qid": films.qid, "sample_weight": 1.0 + films.qid % 2}
        weighted = cross_validate(
            Ranker(), films[F], films.stars, cv=folds, scoring=scoring, params=params
        )
    assert weighted["test_ndcg@10"].tolist() != found["test_ndcg@10"].tolist()


def test_searches_choose_by_the_metric(films, table, folds):
    grid = {"solver__C": [1e-6, 1e-2]}
    search = GridSearchCV(Ranker(), grid, cv=folds, scoring=get_scorer("map"), n_jobs=2)
    search.fit(table, films.stars)
    for j, C in enumerate(grid["solver__C"]):
        expected = np.mean(by_hand(films, folds, "map", Ranker(C=C)))
        assert search.cv_results_["mean_test_score"][j] == pytest.approx(expected, abs=1e-12)
    direct = get_scorer("map")(search.best_estimator_, table, films.stars)
    assert search.score(table, films.stars) == direct
    assert get_scorer("map")(search, table, films.stars) == direct


def test_permutation_importance_by_a_column_or_the_scorers_own_queries(films, table):
    named = Ranker().fit(films[F], films.stars, qid=films.qid)
    own = permutation_importance(
        named,
        films[F],
        films.stars,
        scoring=get_scorer("ndcg@10", qid=films.qid),
        random_state=0,
        n_repeats=3,
    )
    by_column = permutation_importance(
        Ranker().fit(table, films.stars),
        table,
        films.stars,
        scoring=get_scorer("ndcg@10"),
        random_state=0,
        n_repeats=3,
    )
    assert own.importances_mean.argmax() == 0
    np.testing.assert_allclose(own.importances[0], by_column.importances[0])
    with pytest.raises(DataError, match=r"needs the queries: .* get_scorer\('map', qid=\.\.\.\)"):
        permutation_importance(named, films[F], films.stars, scoring=get_scorer("map"))


def test_queries_are_never_forgotten(films, table):
    scorer, X, y = get_scorer("ndcg@10"), films[F], films.stars
    for estimator in (
        LinearRegression().fit(X, y),
        Ranker().fit(X, y, qid=films.qid),
        make_pipeline(StandardScaler(), Ranker()).fit(X, y, ranker__qid=films.qid),
    ):
        with pytest.raises(DataError, match="needs the queries"):
            scorer(estimator, X, y)
        expected = evaluate(y, estimator.predict(X), films.qid, "ndcg@10")["ndcg@10"]
        assert scorer(estimator, X, y, qid=films.qid) == pytest.approx(expected)
    one = Ranker("toppush").fit(X, y)
    assert 0 < scorer(one, X, y) <= 1
    with pytest.raises(DataError, match="qid has shape"):
        get_scorer("map", qid=films.qid[:5])(one, X, y)
    with pytest.raises(DataError, match="4 rows but relevance y has"):
        scorer(one, X[:4], y)


def test_weights_count_queries(films):
    X, y = films[F], films.stars
    ranker = Ranker().fit(X, y, qid=films.qid)
    weight = (films.qid < 3).astype(float)
    first = films.qid < 3
    assert get_scorer("mrr")(ranker, X, y, qid=films.qid, sample_weight=weight) == pytest.approx(
        get_scorer("mrr")(ranker, X[first], y[first], qid=films.qid[first])
    )
    with pytest.raises(DataError, match="mrr is undefined"):
        get_scorer("mrr")(ranker, X, y, qid=films.qid, sample_weight=0.0 * weight)


def test_what_is_to_be_small_is_negative(films):
    X, y = films[F], films.stars
    ranker = Ranker().fit(X, y, qid=films.qid)
    value = get_scorer("top1_error")(ranker, X, y, qid=films.qid)
    expected = evaluate(y, ranker.predict(X), films.qid, "top1_error")["top1_error"]
    assert value == -expected < 0


def test_labels_are_scored_as_their_ranker_reads_them():
    g = np.random.default_rng(0)
    X, names = g.normal(size=(60, 3)), np.array(list("badc"))
    utility = X @ g.normal(size=(3, 4)) + 0.5 * g.normal(size=(60, 4))
    texts = [">".join(names[np.argsort(-row)]) for row in utility]
    scorer = get_scorer("kendall_tau")
    ranker = LabelRanker(random_state=0).fit(X, texts)
    assert scorer(ranker, X, texts) == ranker.score(X, texts)
    frame = pd.DataFrame(utility, columns=names)
    ranker = LabelRanker(random_state=0).fit(X, frame)
    assert scorer(ranker, X, frame[sorted(names)]) == ranker.score(X, frame)
    ranks = np.argsort(np.argsort(-utility, axis=1), axis=1) + 1
    ranker = LabelRanker(random_state=0).fit(X, ranks, ranks=True)
    assert scorer(ranker, X, ranks) == ranker.score(X, ranks) > 0.5
    classes = names[utility.argmax(axis=1)]
    ranker = LabelRanker(random_state=0).fit(X, classes)
    top1 = get_scorer("top1_error")
    assert 1 + top1(ranker, X, classes) == pytest.approx(ranker.score(X, classes))
    scores = cross_val_score(LabelRanker(random_state=0), X, texts, cv=3, scoring=scorer)
    assert scores.min() > 0.5
    weight = np.where(np.arange(60) == 7, -1.0, 1.0)
    for score in (ranker.score, lambda *args, **weights: top1(ranker, *args, **weights)):
        with pytest.raises(DataError, match="sample_weight is negative at row 7"):
            score(X, classes, sample_weight=weight)


def test_names_and_objects():
    names = get_scorer_names()
    assert {"ndcg", "ndcg@10", "precision@10", "map", "mrr", "kendall_tau"} <= set(names)
    assert names == sorted(names)
    assert "precision" not in names
    for name in names:
        assert get_scorer(name).metric == parse_metric(name)
    assert repr(get_scorer("ndcg_cut_10")) == "get_scorer('ndcg@10[gain=linear]')"
    assert get_scorer(parse_metric("map")).metric == parse_metric("map")
    scorer = get_scorer("map", qid=[1, 2])
    for copy in (clone(scorer, safe=False), pickle.loads(pickle.dumps(scorer))):
        assert (copy.metric, copy.qid) == (scorer.metric, [1, 2])
    assert check_scoring(Ranker(), scoring=scorer) is scorer
    with pytest.raises(UnknownNameError, match="did you mean 'ndcg'"):
        get_scorer("ndgc@10")
    with pytest.raises(ParameterError, match="needs a cutoff"):
        get_scorer("precision")


def test_requests_can_be_changed(films, folds):
    scorer = get_scorer("ndcg@10").set_score_request(qid="user", sample_weight=False)
    with config_context(enable_metadata_routing=True):
        found = cross_val_score(
            LinearRegression(),
            films[F],
            films.stars,
            cv=folds,
            scoring=scorer,
            params={"user": films.qid},
        )
    assert np.isfinite(found).all()


def test_classifiers_with_a_score_a_row_and_xgbranker(films, table):
    xgboost = pytest.importorskip("xgboost")
    ranker = xgboost.XGBRanker(n_estimators=3).fit(films[F], films.stars, qid=films.qid)
    scorer = get_scorer("ndcg@10", qid=films.qid)
    expected = evaluate(films.stars, ranker.predict(films[F]), films.qid, "ndcg@10")["ndcg@10"]
    assert scorer(ranker, films[F], films.stars) == pytest.approx(expected)
    by_column = cross_val_score(
        xgboost.XGBRanker(n_estimators=3),
        table,
        films.stars,
        cv=GroupKFold(3).split(table, groups=films.qid),
        scoring=get_scorer("ndcg@10"),
    )
    assert np.isfinite(by_column).all()
    classes = LogisticRegression().fit(films[F], films.stars)
    assert 0 < scorer(classes, films[F], films.stars) < 1
