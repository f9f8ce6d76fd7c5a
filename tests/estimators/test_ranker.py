import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankplug
from rankplug import LabelRanker, Ranker
from rankplug.exceptions import DataError, ParameterError, UnknownNameError
from rankplug.solver import Solver, SolverTags
from rankplug.testing import PairDirection, make_problem


def registered_solvers(task):
    with warnings.catch_warnings():  # a plugin that cannot be imported is no solver to check
        warnings.simplefilter("ignore")
        infos = rankplug.list_solvers()
    solvers = [rankplug.make_solver(info.name) for info in infos if task in info.tasks]
    for solver in solvers:
        if "n_threads" in solver.get_params():
            solver.set_params(n_threads=1)
        if "n_estimators" in solver.get_params():
            solver.set_params(n_estimators=10)
        if solver.name == "mapped":
            solver.set_params(map={"leaves": {"n_estimators": 3}, "identity": {}}, C=1.0)
    return solvers


ONE_QUERY = "sample_weight varies within one query, where pairs have no weight per row"
ONE_SCORE = "predict gives a score for each label, the check wants one for each row"

CANNOT_APPLY = {
    Ranker: {
        "check_sample_weights_not_overwritten": ONE_QUERY,
        "check_sample_weight_equivalence_on_dense_data": ONE_QUERY,
        "check_sample_weight_equivalence_on_sparse_data": ONE_QUERY,
    },
    LabelRanker: {
        "check_estimator_sparse_array": ONE_SCORE,
        "check_estimator_sparse_matrix": ONE_SCORE,
    },
}


# Solvers that differ from another one by their loss only, as far as the checks go.
NOT_AGAIN = {"lightgbm-lambdarank", "linear-then-boost", "xgboost-all-pairs", "xgboost-ndcg"}
QUERIES = [s for s in registered_solvers("query-document") if s.name not in NOT_AGAIN]
LABELS = [s for s in registered_solvers("label-ranking") if s.name not in NOT_AGAIN]


@parametrize_with_checks(
    [
        Ranker(),
        *(Ranker(solver) for solver in QUERIES if solver.name != "tree-tron"),
        LabelRanker(PairDirection()),
        *(LabelRanker(solver) for solver in LABELS),
    ],
    expected_failed_checks=lambda estimator: CANNOT_APPLY[type(estimator)],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def queries():
    return make_problem("query-document")


@pytest.fixture
def labels():
    return make_problem("label-ranking")


class Recorder(PairDirection):
    """Keeps what it was called with, on the class, because estimators clone their solver."""

    seen = {}

    def solve(self, data, **arguments):
        type(self).seen = {"data": data, **arguments}
        return super().solve(data, **arguments)


class DenseOnly(PairDirection):
    tags = SolverTags(("query-document",), "p", "r", sparse=False, duality_gap=True)


# Ranker


def test_the_default_is_tree_tron(queries):
    ranker = Ranker().fit(queries.X, queries.y, qid=queries.qid)
    direct = rankplug.make_solver("tree-tron").solve(queries.data())
    np.testing.assert_array_equal(ranker.predict(queries.X), direct.model.predict(queries.X))
    assert ranker.result_.status == "converged"
    assert ranker.model_ is ranker.result_.model
    assert ranker.n_features_in_ == queries.X.shape[1]


def test_scores_come_in_the_order_of_the_rows(queries):
    order = np.random.default_rng(0).permutation(len(queries.y))
    mixed = queries.rows(order)
    names = np.array([f"query {q}" for q in mixed.qid])
    grouped = Ranker(PairDirection()).fit(queries.X, queries.y, qid=queries.qid)
    scattered = Ranker(PairDirection()).fit(mixed.X, mixed.y, qid=names)
    np.testing.assert_allclose(scattered.predict(mixed.X), grouped.predict(queries.X)[order])
    np.testing.assert_array_equal(
        scattered.rank(mixed.X, names), grouped.rank(queries.X, queries.qid)[order]
    )


@pytest.mark.parametrize("group", [[74], [30, 44], [30, 0, 44]])
def test_groups_are_sizes_of_consecutive_queries(queries, group):
    assert len(queries.y) == 74
    by_group = Ranker(PairDirection()).fit(queries.X, queries.y, group=group)
    qid = np.repeat(np.arange(len(group)), group)
    by_qid = Ranker(PairDirection()).fit(queries.X, queries.y, qid=qid)
    np.testing.assert_array_equal(by_group.model_.coef, by_qid.model_.coef)


def brute_force_ranks(scores, qid):
    return [
        1
        + sum(
            qid[j] == qid[i] and (scores[j] > scores[i] or (scores[j] == scores[i] and j < i))
            for j in range(len(scores))
        )
        for i in range(len(scores))
    ]


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), min_size=1, max_size=30))
def test_ranks_are_stable_and_per_query(rows):
    scores, qid = np.array([row[0] for row in rows], float), [row[1] for row in rows]
    ranker = Ranker(PairDirection()).fit([[0.0], [1.0]], [0, 1])
    X = (scores / ranker.model_.coef)[:, None]
    assert ranker.rank(X, qid).tolist() == brute_force_ranks(scores, qid)


def test_without_query_ids_all_rows_are_one_query():
    ranker = Ranker(PairDirection()).fit([[0.0], [1.0], [2.0]], [0, 1, 2])
    assert ranker.rank([[5.0], [7.0], [6.0], [7.0]]).tolist() == [4, 1, 3, 2]


def test_the_solver_given_is_not_touched(queries):
    solver = PairDirection(C=2.0)
    ranker = Ranker(solver).fit(queries.X, queries.y, qid=queries.qid)
    assert ranker.solver is solver
    assert vars(solver) == {"C": 2.0}


def test_random_state_and_weights_reach_the_solver(queries):
    weight = np.where(queries.qid % 2, 2.0, 0.5)
    ranker = Ranker(Recorder(), random_state=3)
    ranker.fit(queries.X, queries.y, qid=queries.qid, sample_weight=weight)
    assert Recorder.seen["random_state"] == 3
    np.testing.assert_array_equal(Recorder.seen["data"].query_weight[:3], [0.5, 2.0, 0.5])


def test_weights_within_a_query_are_refused(queries):
    weight = np.ones(len(queries.y))
    weight[0] = 2.0
    with pytest.raises(DataError, match="sample_weight varies within query 0"):
        Ranker().fit(queries.X, queries.y, qid=queries.qid, sample_weight=weight)


@pytest.mark.parametrize("listed", [False, True])
def test_validation_data_reach_the_solver(queries, listed):
    valid = make_problem("query-document", seed=1)
    eval_set, eval_qid = (valid.X, valid.y), valid.qid
    if listed:
        eval_set, eval_qid = [eval_set], [eval_qid]
    Ranker(Recorder()).fit(
        queries.X, queries.y, qid=queries.qid, eval_set=eval_set, eval_qid=eval_qid
    )
    np.testing.assert_array_equal(Recorder.seen["valid"].X, valid.X)
    np.testing.assert_array_equal(Recorder.seen["valid"].qid, valid.qid)


def test_early_stopping(queries):
    valid = make_problem("query-document", seed=1)
    solver = rankplug.make_solver(
        "xgboost-pairwise", n_estimators=200, early_stopping_rounds=2, n_threads=1
    )
    ranker = Ranker(solver, random_state=0)
    ranker.fit(
        queries.X, queries.y, qid=queries.qid, eval_set=(valid.X, valid.y), eval_qid=valid.qid
    )
    assert ranker.result_.n_iter < 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eval_set": np.ones((3, 2))}, "eval_set must be one pair"),
        ({"eval_set": ([[1.0]], [1]), "eval_qid": [1]}, "1 features"),
        ({"eval_set": [(1, 2), (3, 4)]}, "Expected 2D array"),
        ({"eval_qid": [1, 2]}, "eval_qid is given without eval_set"),
        ({"eval_set": [([[1.0]], [1])], "eval_qid": [1, 2]}, "list of one array"),
        ({"eval_set": [([[1.0]], [1])], "eval_qid": np.array([1])}, "list of one array"),
        ({"eval_set": (np.ones((3, 5)), [1, 2])}, "3 rows but relevance y has 2"),
        ({"qid": [0], "group": [74]}, "both qid and group"),
        ({"qid": [0]}, "74 rows but qid has shape"),
        ({"group": [73]}, "group adds up to 73"),
        ({"sample_weight": [1.0]}, "sample_weight has 1 values"),
    ],
)
def test_wrong_arguments_of_fit(queries, arguments, message):
    with pytest.raises(ValueError, match=message):
        Ranker().fit(queries.X, queries.y, **arguments)


@pytest.mark.parametrize(
    ("solver", "error", "message"),
    [
        ("tree-torn", UnknownNameError, "did you mean 'tree-tron'"),
        (PairDirection, ParameterError, "name of a solver or a Solver"),
        (None, ParameterError, "name of a solver or a Solver"),
        (PairDirection(C=-1), ParameterError, "C=-1 "),
    ],
)
def test_wrong_solvers(queries, solver, error, message):
    ranker = Ranker(solver)
    assert "Ranker" in repr(ranker)
    with pytest.raises(error, match=message):
        ranker.fit(queries.X, queries.y)
    assert not hasattr(ranker, "partial_fit")
    tags = get_tags(ranker)  # which scikit-learn reads to show it
    assert tags.target_tags.required
    assert tags.input_tags.sparse == isinstance(solver, PairDirection)


def test_strings_are_no_relevance(queries):
    with pytest.raises(DataError, match="relevance y must hold numbers"):
        Ranker().fit(queries.X, queries.y.astype(str).astype(object) + "a")


def test_sparse_features_go_where_the_solver_takes_them(queries):
    X = sparse.csc_array(queries.X)
    dense = Ranker(PairDirection()).fit(queries.X, queries.y, qid=queries.qid)
    ranker = Ranker(PairDirection()).fit(X, queries.y, qid=queries.qid)
    np.testing.assert_allclose(ranker.predict(X), dense.predict(queries.X))
    with pytest.raises(DataError, match="takes dense features only"):
        Ranker(DenseOnly()).fit(X, queries.y, qid=queries.qid)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_tables_name_the_features(queries, make):
    names = [f"f{j}" for j in range(5)]
    table = make(dict(zip(names, queries.X.T, strict=True)))
    ranker = Ranker(PairDirection()).fit(table, queries.y, qid=queries.qid)
    assert ranker.feature_names_in_.tolist() == names
    assert ranker.model_.feature_names == tuple(names)
    np.testing.assert_array_equal(
        ranker.predict(table), Ranker(PairDirection()).fit(queries.X, queries.y, qid=queries.qid)
        .predict(queries.X),
    )  # fmt: skip
    swapped = make(dict(zip(names[::-1], queries.X.T, strict=True)))
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        ranker.predict(swapped)


def test_not_fitted():
    for call in (Ranker().predict, Ranker().rank, LabelRanker().rank, LabelRanker().classify):
        with pytest.raises(NotFittedError):
            call([[1.0]])
    with pytest.raises(NotFittedError):
        Ranker().score([[1.0]], [1.0])


def test_html_shows_the_solver():
    html = Ranker(PairDirection(C=3.0))._repr_html_()
    assert "PairDirection" in html
    assert "Ranker" in html


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_fitted_rankers_can_be_copied(queries, duplicate):
    ranker = Ranker().fit(queries.X, queries.y, qid=queries.qid)
    again = duplicate(ranker)
    np.testing.assert_array_equal(again.predict(queries.X), ranker.predict(queries.X))
    assert again.result_.history == ranker.result_.history


# Ranker.score


def identity_ranker():
    """A ranker whose scores are its single feature."""
    return Ranker(PairDirection()).fit([[0.0], [1.0]], [0, 1])


def test_score_is_mean_ndcg_at_10():
    rng = np.random.default_rng(0)
    qid = np.repeat([3, 1, 2], [12, 20, 4])
    y = rng.integers(0, 5, size=36)
    y[-4:] = 0  # a query without a relevant row is left out
    X = rng.normal(size=(36, 1))
    expected = [
        ndcg_score([2.0 ** y[rows] - 1], [X[rows, 0]], k=10) for rows in (qid == 3, qid == 1)
    ]
    assert identity_ranker().score(X, y, qid=qid) == pytest.approx(np.mean(expected))
    weighted = identity_ranker().score(X, y, qid=qid, sample_weight=np.where(qid == 1, 3.0, 1.0))
    assert weighted == pytest.approx((expected[0] + 3 * expected[1]) / 4)


@pytest.mark.parametrize("y", [[-1.5, 0.0, 2.0], [0.0, 1500.0, 3500.0], [0, 32, 64]])
def test_score_of_utilities_has_linear_gain(y):
    X = [[0.3], [0.1], [0.2]]
    gain = np.asarray(y, float) - np.min(y)
    assert identity_ranker().score(X, y) == pytest.approx(ndcg_score([gain], np.transpose(X)))


def test_score_is_an_error_where_it_is_undefined():
    ranker = identity_ranker()
    with pytest.raises(DataError, match="no query has a relevant row"):
        ranker.score([[1.0], [2.0]], [0, 0])
    with pytest.raises(DataError, match="requires y"):
        ranker.score([[1.0], [2.0]], None)
    with pytest.raises(DataError, match="undefined"):
        ranker.score([[1.0], [2.0]], [0, 1], sample_weight=[0, 0])


# Metadata routing


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search_over_the_solver_in_a_pipeline(queries, n_jobs):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), Ranker(rankplug.make_solver("tree-tron"))),
        {"ranker__solver__C": [1e-6, 1e2]},
        cv=GroupKFold(3),
        error_score="raise",
        n_jobs=n_jobs,
    )
    search.fit(queries.X, queries.y, qid=queries.qid, groups=queries.qid)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(set(search.cv_results_["mean_test_score"])) > 1
    score = search.best_estimator_.score(queries.X, queries.y, qid=queries.qid)
    assert 0 < score <= 1


@pytest.mark.usefixtures("routing")
def test_cross_validate_passes_query_ids_and_weights(queries):
    weight = np.where(queries.qid % 2, 2.0, 0.5)
    result = cross_validate(
        Ranker(Recorder()),
        queries.X,
        queries.y,
        cv=GroupKFold(3),
        params={"qid": queries.qid, "groups": queries.qid, "sample_weight": weight},
        return_estimator=True,
        return_indices=True,
        error_score="raise",
    )
    trained, tested = result["indices"]["train"][-1], result["indices"]["test"][-1]
    np.testing.assert_array_equal(Recorder.seen["data"].qid, queries.qid[trained])
    assert Recorder.seen["data"].query_weight is not None
    expected = result["estimator"][-1].score(
        queries.X[tested], queries.y[tested], qid=queries.qid[tested], sample_weight=weight[tested]
    )
    assert result["test_score"][-1] == expected


@pytest.mark.usefixtures("routing")
def test_a_pipeline_passes_query_ids_without_requests(queries):
    pipeline = make_pipeline(StandardScaler(), Ranker(Recorder()))
    pipeline.fit(queries.X, queries.y, qid=queries.qid)
    np.testing.assert_array_equal(Recorder.seen["data"].query_ids, np.unique(queries.qid))
    assert 0 < pipeline.score(queries.X, queries.y, qid=queries.qid) <= 1


def test_a_grid_search_without_routing_or_query_ids(queries):
    search = GridSearchCV(
        Ranker(PairDirection()), {"solver__C": [0.1, 1.0]}, cv=3, error_score="raise"
    )
    search.fit(queries.X, queries.y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


# LabelRanker


def test_the_default_label_ranker_names_its_solver(labels):
    if "sopopo" in {info.name for info in rankplug.list_solvers()}:
        assert LabelRanker().fit(labels.X, labels.y).result_.status == "converged"
    else:
        with pytest.raises(UnknownNameError, match="unknown solver 'sopopo'"):
            LabelRanker().fit(labels.X, labels.y)


def test_labels_are_scored_ranked_and_classified(labels):
    ranker = LabelRanker(PairDirection()).fit(labels.X, labels.y)
    scores, ranks = ranker.predict(labels.X), ranker.rank(labels.X)
    assert ranker.labels_.tolist() == [0, 1, 2, 3]
    assert not hasattr(ranker, "classes_")
    assert np.all(np.sort(ranks, axis=1) == [1, 2, 3, 4])
    np.testing.assert_array_equal(np.take_along_axis(-scores, ranks.argsort(axis=1), axis=1),
                                  np.sort(-scores, axis=1))  # fmt: skip
    np.testing.assert_array_equal(ranker.classify(labels.X), scores.argmax(axis=1))


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_labels_of_sparse_features(labels, container):
    X = container(labels.X)
    ranker = LabelRanker(PairDirection()).fit(X, labels.y)
    dense = LabelRanker(PairDirection()).fit(labels.X, labels.y)
    np.testing.assert_allclose(ranker.predict(X), dense.predict(labels.X))


def test_equal_labels_are_ranked_in_their_order(labels):
    ranker = LabelRanker(PairDirection()).fit(labels.X, labels.y)
    assert ranker.rank(np.zeros((1, 5))).tolist() == [[1, 2, 3, 4]]


@pytest.mark.parametrize("classes", [[3, 7, 5], ["ö", "a", "b"], [True, False], [0.5, 1.5, -1.0]])
def test_classes(classes):
    rng = np.random.default_rng(0)
    centres = 10 * np.eye(4)[: len(classes)]
    members = rng.integers(len(classes), size=60)
    X, y = centres[members] + rng.normal(size=(60, 4)), np.array(classes)[members]
    ranker = LabelRanker(PairDirection()).fit(X, y)
    assert ranker.classes_.tolist() == sorted(classes)
    assert ranker.labels_.tolist() == sorted(classes)
    accuracy = np.mean(ranker.classify(X) == y)
    assert accuracy > 0.9
    assert ranker.score(X, y) == pytest.approx(accuracy)


def test_labels_take_their_names_from_the_table(labels):
    names = ["red", "green", "blue", "grey"]
    Y = pd.DataFrame(labels.y, columns=names)
    ranker = LabelRanker(PairDirection()).fit(labels.X, Y)
    assert ranker.labels_.tolist() == names
    assert set(ranker.classify(labels.X)) <= set(names)
    shuffled = Y[["grey", "red", "blue", "green"]]
    assert ranker.score(labels.X, shuffled) == ranker.score(labels.X, Y)
    with pytest.raises(DataError, match=r"missing.*grey"):
        ranker.score(labels.X, Y.drop(columns="grey"))


def test_labels_that_are_not_compared(labels):
    Y = labels.y.copy()
    Y[::2, 0] = np.nan
    ranker = LabelRanker(PairDirection()).fit(labels.X, Y)
    everywhere = LabelRanker(PairDirection()).fit(labels.X, labels.y)
    assert not np.allclose(ranker.model_.coef, everywhere.model_.coef)
    assert -1 <= ranker.score(labels.X, Y) <= 1


def test_label_score_is_kendalls_tau():
    ranker = LabelRanker(PairDirection()).fit(np.eye(3), [[2, 1, 0], [0, 2, 1], [1, 0, 2]])
    assert ranker.score(np.eye(3), [[2, 1, 0], [0, 2, 1], [1, 0, 2]]) == 1.0
    assert ranker.score(np.eye(3), [[0, 1, 2], [2, 0, 1], [1, 2, 0]]) == -1.0
    Y = [[2, 1, 0], [2, 0, 1], [1, 2, 0]]
    assert ranker.score(np.eye(3), Y, sample_weight=[3, 1, 0]) == pytest.approx((3 - 1) / 4)


def test_validation_labels_are_those_of_training(labels):
    y = labels.y.argmax(axis=1)
    LabelRanker(Recorder()).fit(labels.X, y, eval_set=(labels.X[:2], [2, 0]))
    valid = Recorder.seen["valid"]
    assert valid.relevance.tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]
    with pytest.raises(DataError, match="classes that training had not: 9"):
        LabelRanker(Recorder()).fit(labels.X, y, eval_set=[(labels.X[:2], [2, 9])])


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (None, "requires y to be passed"),
        (["a"] * 30, "1 class only, 'a': at least two"),
        (np.ones((30, 3)), "no preference pair"),
        (np.ones((29, 3)), "30 rows but Y has 29"),
        (np.ones((30, 3, 2)), "3 dimensions"),
        (np.full((30, 3), np.inf), "relevance Y contains inf"),
        ([[1, 2, 3], [1, 2]] * 15, "relevance Y"),
    ],
)
def test_wrong_label_relevance(labels, Y, message):
    with pytest.raises(DataError, match=message):
        LabelRanker(PairDirection()).fit(labels.X, Y)


@pytest.mark.usefixtures("routing")
def test_label_rankers_in_a_grid_search(labels):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LabelRanker(PairDirection())),
        {"labelranker__solver__C": [0.1, 1.0]},
        error_score="raise",
    )
    search.fit(labels.X, labels.y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_refitting_on_relevance_forgets_the_classes(labels):
    ranker = LabelRanker(PairDirection()).fit(labels.X, labels.y.argmax(axis=1))
    assert hasattr(ranker, "classes_")
    assert not hasattr(clone(ranker), "classes_")
    ranker.fit(labels.X, labels.y)
    assert not hasattr(ranker, "classes_")


def test_a_solver_of_documents_ranks_no_labels(labels):
    with pytest.raises(DataError, match="solves query-document, not label-ranking"):
        LabelRanker(DenseOnly()).fit(labels.X, labels.y)
    assert issubclass(DenseOnly, Solver)
