"""What looks right and is not: told by a warning or an error, or done as it was meant."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

import rankplug
from rankplug import LabelRanker, LabelRankingData, Ranker, RankingData
from rankplug.exceptions import DataError, DataWarning
from rankplug.metrics import evaluate

F = ["year", "length"]


@pytest.fixture(scope="module")
def films():
    """Stars of 40 users whose scales differ, so that mixing users up shows."""
    g = np.random.default_rng(3)
    user = np.repeat(np.arange(40), g.integers(5, 12, 40))
    X = g.normal(size=(len(user), 2))
    taste = X @ [1.0, -0.5] + 0.7 * g.normal(size=len(user)) + 3.0 * g.normal(size=40)[user]
    stars = np.digitize(taste, [-3, -1, 1, 3])
    return pd.DataFrame({"year": X[:, 0], "length": X[:, 1], "stars": stars, "user": user})


@pytest.fixture
def silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        yield


# ------------------------------------------------------------------- queries that are not said


def test_no_queries_at_all_are_asked_about(films):
    with pytest.warns(DataWarning, match=r"neither qid nor group .* pass qid=.* group=\[\d+\]"):
        Ranker().fit(films[F], films.stars)
    with pytest.warns(DataWarning, match="ranked as one query"):
        Ranker().fit(films[F].to_numpy(), films.stars)


@pytest.mark.usefixtures("silence")
def test_one_query_on_purpose_is_not_asked_about(films):
    Ranker().fit(films[F], films.stars, group=[len(films)])
    Ranker().fit(films[F], films.stars, qid=np.zeros(len(films)))
    for top in ("toppush", "a2dm2", "pointwise"):
        Ranker(top).fit(films[F], films.stars > 3)


TABLES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
@pytest.mark.usefixtures("silence")
def test_a_column_qid_holds_the_queries(films, make):
    told = Ranker().fit(films[F], films.stars, qid=films.user)
    table = make(films[F].assign(qid=films.user))
    ranker = Ranker().fit(table, films.stars)
    assert ranker.feature_names_in_.tolist() == F
    assert ranker.n_queries_in_ == told.n_queries_in_ == 40
    assert np.array_equal(ranker.model_.coef, told.model_.coef)
    for X in (table, make(films[F])):
        assert np.array_equal(ranker.predict(X), told.predict(films[F]))
    assert np.array_equal(ranker.rank(table), told.rank(films[F], films.user))
    assert ranker.score(table, films.stars) == told.score(films[F], films.stars, qid=films.user)
    data = RankingData.from_arrays(table, films.stars)
    assert data.n_queries == 40
    assert data.feature_names == tuple(F)


@pytest.mark.usefixtures("silence")
def test_a_column_qid_stands_among_columns_of_any_names(films):
    table = films[F].assign(qid=films.user).rename(columns={"year": 0, "length": 1})
    ranker = Ranker().fit(table, films.stars)
    assert ranker.n_queries_in_ == 40
    assert ranker.predict(table).shape == (len(films),)


def test_a_column_qid_beside_qid_is_refused(films):
    table = films[F].assign(qid=films.user)
    for given in ({"qid": films.user}, {"group": films.user.value_counts(sort=False)}):
        with pytest.raises(DataError, match="column 'qid', which holds the queries, and they are"):
            Ranker().fit(table, films.stars, **given)
        with pytest.raises(DataError, match="column 'qid', which holds the queries, and they are"):
            RankingData.from_arrays(table, films.stars, **given)


def test_validation_data_may_have_their_queries_in_a_column(films):
    table = films[F].assign(qid=films.user)
    ranker = Ranker(rankplug.make_solver("xgboost-pairwise", n_estimators=3))
    ranker.fit(table, films.stars, eval_set=(table, films.stars))
    assert ranker.n_queries_in_ == 40


def test_a_feature_of_a_model_may_be_called_qid(films):
    model = rankplug.models.LinearModel([1.0, 2.0, 3.0], [*F, "qid"])
    assert (
        model.predict(films[F].assign(qid=1.0)).tolist()
        == (films.year + 2 * films.length + 3).tolist()
    )


def test_a_score_without_queries_is_refused_after_a_fit_with_some(films):
    ranker = Ranker().fit(films[F], films.stars, qid=films.user)
    with pytest.raises(DataError, match=r"column 'qid'.*enable_metadata_routing=True"):
        ranker.score(films[F], films.stars)
    with pytest.raises(DataError, match="score needs the queries"):
        permutation_importance(ranker, films[F], films.stars, n_repeats=1)
    one = Ranker().fit(films[F], films.stars, group=[len(films)])
    assert 0.0 < one.score(films[F], films.stars) <= 1.0


def test_searches_without_routing_are_right_by_a_column_and_told_otherwise(films):
    table = films[F].assign(qid=films.user)
    folds = list(GroupKFold(3).split(table, groups=films.user))
    by_hand = []
    for train, test in folds:
        ranker = Ranker().fit(films[F].iloc[train], films.stars[train], qid=films.user[train])
        relevance, scores = films.stars[test], ranker.predict(films[F].iloc[test])
        by_hand.append(evaluate(relevance, scores, films.user[test], "ndcg@10")["ndcg@10"])
    scores = cross_val_score(Ranker(), table, films.stars, cv=folds)
    assert scores.tolist() == pytest.approx(by_hand, abs=1e-12)
    search = GridSearchCV(Ranker(), {"solver__C": [1e-3, 1.0]}, cv=folds).fit(table, films.stars)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    told = GridSearchCV(Ranker(), {"random_state": [1, 2]}, cv=folds, refit=False)
    with pytest.warns(UserWarning, match="score needs the queries"):
        told.fit(films[F], films.stars, qid=films.user)
    assert np.isnan(told.cv_results_["mean_test_score"]).all()
    with config_context(enable_metadata_routing=True):
        routed = cross_val_score(
            Ranker(), films[F], films.stars, cv=folds, params={"qid": films.user}
        )
    assert routed.tolist() == pytest.approx(by_hand, abs=1e-12)


# ------------------------------------------------------------------- ranks taken for relevance


@pytest.fixture(scope="module")
def orders():
    g = np.random.default_rng(5)
    X = g.normal(size=(60, 3))
    utility = X @ g.normal(size=(3, 4)) + 0.1 * g.normal(size=(60, 4))
    ranks = np.argsort(np.argsort(-utility, axis=1), axis=1) + 1
    return X, ranks, utility


@pytest.mark.usefixtures("silence")
def test_ranks_are_learnt_the_right_way_up(orders):
    X, ranks, utility = orders
    ranker = LabelRanker(random_state=0).fit(X, ranks, ranks=True)
    first = ranker.rank(X).argmin(axis=1)
    assert np.mean(first == utility.argmax(axis=1)) > 0.8
    assert ranker.score(X, ranks) > 0.8
    assert np.array_equal(LabelRankingData.from_arrays(X, ranks, ranks=True).relevance, 4.0 - ranks)
    relevance = LabelRanker(random_state=0).fit(X, 4 - ranks)
    assert np.array_equal(relevance.model_.coef, ranker.model_.coef)
    frame = pd.DataFrame(ranks, columns=list("abcd"))
    again = LabelRanker(random_state=0).fit(X, frame, ranks=True)
    assert np.array_equal(again.model_.coef, ranker.model_.coef)
    LabelRanker().fit(X, ranks, ranks=False)


def test_warnings_point_at_the_line_that_calls():
    X, orders = np.arange(8.0).reshape(4, 2), [[1, 2, 3], [3, 1, 2], [2, 1, 3], [1, 3, 2]]
    with pytest.warns(DataWarning) as log:
        LabelRanker().fit(X, orders)
    assert [one.filename for one in log] == [__file__]
    with pytest.warns(UserWarning, match="the optimum is w = 0") as log:
        Ranker("toppush").fit(np.ones((4, 2)), [0, 1, 0, 1], qid=[0, 0, 1, 1])
    assert [one.filename for one in log] == [__file__]


def test_what_looks_like_ranks_is_asked_about(orders, tmp_path):
    X, ranks, _ = orders
    frame = pd.DataFrame(ranks, columns=list("abcd"))
    frame.assign(x=X[:, 0]).to_csv(tmp_path / "data.csv", index=False)
    for take in (
        lambda: LabelRanker().fit(X, ranks),
        lambda: LabelRanker().fit(X, frame),
        lambda: LabelRankingData.from_arrays(X, ranks),
        lambda: rankplug.read_label_data(tmp_path / "data.csv", labels=list("abcd")),
    ):
        with pytest.warns(DataWarning, match="from 1 to 4, as ranks do.* pass ranks=True"):
            take()


@pytest.mark.usefixtures("silence")
def test_files_of_ranks_are_not_asked_about_when_they_are_said_to_be(orders, tmp_path):
    X, ranks, _ = orders
    pd.DataFrame(ranks, columns=list("abcd")).assign(x=X[:, 0]).to_csv(
        tmp_path / "data.csv", index=False
    )
    for said, expected in ((True, 4 - ranks), (False, ranks)):
        data = rankplug.read_label_data(tmp_path / "data.csv", labels=list("abcd"), ranks=said)
        assert data.relevance.tolist() == expected.tolist()


def test_wrong_ranks_are_refused(orders):
    X, ranks, _ = orders
    with pytest.raises(DataError, match=r"Y, row 0, column 0: 5 is not a rank from 1 to 4"):
        LabelRanker().fit(X, np.where(ranks == ranks[0, 0], 5, ranks), ranks=True)
    with pytest.raises(DataError, match="needs a Y with a column for each label"):
        LabelRanker().fit(X, ranks[:, 0], ranks=True)


# ------------------------------------------------------------------- as in scikit-learn, XGBoost


def test_parameters_of_a_named_solver_are_set_and_searched():
    ranker = Ranker().set_params(solver__C=2.0)
    assert ranker.solver.C == 2.0
    assert Ranker().get_params()["solver__C"] == rankplug.make_solver("tree-tron").C
    assert Ranker().set_params(solver="sopopo", solver__C=3.0).solver.C == 3.0
    with pytest.raises(ValueError, match="Invalid parameter 'D'"):
        Ranker().set_params(solver__D=1)


def test_feature_selection_finds_weights_and_importances(films):
    table, y, qid = films[F].assign(noise=0.0), films.stars, films.user
    linear = Ranker().fit(table, y, qid=qid)
    assert np.array_equal(linear.coef_, linear.model_.coef)
    trees = Ranker(rankplug.make_solver("xgboost-pairwise", n_estimators=3)).fit(table, y, qid=qid)
    assert trees.feature_importances_.shape == (3,)
    assert trees.feature_importances_[2] == 0
    assert not hasattr(trees, "coef_")
    assert not hasattr(linear, "feature_importances_")
    for estimator in (linear, trees):
        chosen = SelectFromModel(estimator, prefit=True, threshold=1e-6, norm_order=1)
        assert chosen.get_support().tolist() == [True, True, False]
    selector = RFE(Ranker(), n_features_to_select=2).fit(table.to_numpy(), y, group=[len(y)])
    assert selector.support_.tolist() == [True, True, False]


def test_the_last_of_several_validation_sets_stops(films):
    X, y, qid = films[F].to_numpy(), films.stars.to_numpy(), films.user.to_numpy()

    def fit(**valid):
        solver = rankplug.make_solver(
            "xgboost-pairwise", n_estimators=60, early_stopping_rounds=2, n_threads=1
        )
        return Ranker(solver, random_state=0).fit(X, y, qid=qid, **valid)

    one = fit(eval_set=[(X[:200], y[:200])], eval_qid=[qid[:200]])
    two = fit(eval_set=[(X[200:], y[200:]), (X[:200], y[:200])], eval_qid=[qid[200:], qid[:200]])
    assert one.result_.n_iter == two.result_.n_iter
    assert np.array_equal(one.predict(X), two.predict(X))
