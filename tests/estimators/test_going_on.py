"""Rankers that are watched, that go on from yesterday's model, or that are made of a model."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

import rankplug
from rankplug import LabelRanker, Ranker
from rankplug.exceptions import (
    DataError,
    DataWarning,
    ModelFormatError,
    ParameterError,
    UnknownNameError,
)
from rankplug.metrics import evaluate
from rankplug.models.pipelines import pipeline_model
from rankplug.testing import make_problem

NAMES = ["year", "length", "price", "stars", "age"]


@pytest.fixture(scope="module")
def queries():
    return make_problem("query-document")


@pytest.fixture(scope="module")
def labels():
    return make_problem("label-ranking")


@pytest.fixture(scope="module")
def table(queries):
    return pd.DataFrame(queries.X, columns=NAMES)


# ------------------------------------------------------------------- parameters of the solver


@pytest.mark.parametrize("make", [Ranker, LabelRanker])
def test_parameters_beside_the_name_are_the_solvers(make):
    ranker = make("xgboost-pairwise", n_estimators=50, max_depth=2)
    assert ranker.solver.name == "xgboost-pairwise"
    assert (ranker.solver.n_estimators, ranker.solver.max_depth) == (50, 2)
    assert make(C=3.0).solver.C == 3.0
    assert make(C=3.0, random_state=5).get_params(deep=False).keys() == {"solver", "random_state"}
    for copy in (clone(ranker), pickle.loads(pickle.dumps(ranker))):
        assert copy.solver.get_params() == ranker.solver.get_params()
    assert "n_estimators=50" in repr(ranker)
    solver = rankplug.make_solver("tree-tron", C=2.0)
    both = make(solver, tol=0.5)
    assert (both.solver.C, both.solver.tol, solver.tol) == (2.0, 0.5, 1e-3)
    assert make(solver).solver is solver


def test_parameters_are_set_and_searched_by_their_short_names(queries):
    assert Ranker("sopopo").set_params(C=2.0).solver.C == 2.0
    assert Ranker().set_params(solver="xgboost-pairwise", n_estimators=3).solver.n_estimators == 3
    folds = list(GroupKFold(2).split(queries.X, groups=queries.qid))
    X = pd.DataFrame(queries.X, columns=NAMES).assign(qid=queries.qid)
    search = GridSearchCV(Ranker(), {"C": [1e-4, 1.0]}, cv=folds).fit(X, queries.y)
    assert search.best_params_["C"] == search.best_estimator_.solver.C


def test_wrong_parameters_are_named():
    with pytest.raises(
        ParameterError, match=r"tree-tron has no parameter 'max_iters'; did you mea"
    ):
        Ranker(max_iters=3)
    with pytest.raises(ParameterError, match="tree-tron has no parameter 'n_estimators'"):
        Ranker(rankplug.make_solver("tree-tron"), n_estimators=3)
    with pytest.raises(UnknownNameError, match="did you mean 'tree-tron'"):
        Ranker("tree-torn", C=1)
    with pytest.raises(ParameterError, match="parameters C are given, but no solver"):
        Ranker(None, C=1)
    with pytest.raises(ValueError, match="Invalid parameter 'D'"):
        Ranker().set_params(D=1)


# ------------------------------------------------------------------- watching


@pytest.mark.parametrize("name", ["tree-tron", "xgboost-pairwise", "lightgbm-lambdarank"])
def test_every_validation_set_has_a_history(name, queries, table):
    if name.startswith("lightgbm"):
        pytest.importorskip("lightgbm")
    other = make_problem("query-document", seed=1)
    sets = [(table, queries.y), (pd.DataFrame(other.X, columns=NAMES), other.y)]
    alone = Ranker(name, random_state=0).fit(table, queries.y, qid=queries.qid)
    ranker = Ranker(name, random_state=0).fit(
        table, queries.y, qid=queries.qid, eval_set=sets, eval_qid=[queries.qid, other.qid]
    )
    np.testing.assert_array_equal(ranker.predict(table), alone.predict(table))
    assert alone.evals_result_ == {}
    assert list(ranker.evals_result_) == ["validation_0", "validation_1"]
    for values in ranker.evals_result_.values():
        assert len(values["ndcg@10"]) == len(ranker.result_.history)
    expected = evaluate(other.y, ranker.predict(other.X), other.qid, "ndcg@10")["ndcg@10"]
    last = ranker.evals_result_["validation_1"]["ndcg@10"][-1]
    assert last == pytest.approx(expected, abs=1e-6)


def test_label_rankers_have_a_history(labels):
    ranker = LabelRanker().fit(labels.X, labels.y, eval_set=(labels.X, labels.y))
    values = ranker.evals_result_["validation_0"]["kendall_tau"]
    assert len(values) == len(ranker.result_.history)
    assert values[-1] == pytest.approx(ranker.score(labels.X, labels.y))


@pytest.mark.parametrize("name", ["tree-tron", "xgboost-pairwise", "cutting-plane"])
def test_callbacks_see_the_iterations_and_stop_them(name, queries):
    seen, every = [], []
    ranker = Ranker(name).fit(
        queries.X,
        queries.y,
        qid=queries.qid,
        eval_set=(queries.X, queries.y),
        eval_qid=queries.qid,
        callbacks=[lambda p: seen.append(p) or len(seen) == 2, every.append],
    )
    assert ranker.result_.status == "stopped"
    assert len(seen) == len(every) == len(ranker.result_.history) == 2
    values = ranker.evals_result_["validation_0"]["ndcg@10"]
    assert [one.evals["validation_0"]["ndcg@10"] for one in seen] == values
    with pytest.raises(ZeroDivisionError):
        Ranker(name).fit(queries.X, queries.y, qid=queries.qid, callbacks=[lambda p: 1 / 0])


def test_callbacks_of_label_rankers_and_pipelines(labels, queries):
    seen = []
    LabelRanker().fit(labels.X, labels.y, callbacks=seen.append)
    assert seen
    seen.clear()
    pipeline = make_pipeline(StandardScaler(), Ranker())
    pipeline.fit(queries.X, queries.y, ranker__qid=queries.qid, ranker__callbacks=[seen.append])
    assert seen
    seen.clear()
    with config_context(enable_metadata_routing=True):
        pipeline.fit(queries.X, queries.y, qid=queries.qid, callbacks=[seen.append])
    assert seen


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"callbacks": [3]}, r"callbacks\[0\] is a int, not a function"),
        ({"callbacks": "print"}, r"callbacks\[0\] is a str"),
        ({"verbose": "yes"}, "verbose='yes' must be True"),
        ({"verbose": -1}, "verbose=-1 must be True"),
        ({"eval_qid": [1]}, "eval_qid is given without eval_set"),
        ({"init": 3}, "init is a int: it must be a Model, the folder"),
    ],
)
def test_wrong_arguments_are_told_before_the_data_are_read(arguments, message):
    for ranker in (Ranker(), LabelRanker()):
        if "eval_qid" in arguments and isinstance(ranker, LabelRanker):
            continue
        with pytest.raises(ParameterError, match=message):
            ranker.fit(None, None, **arguments)


def test_callbacks_of_other_libraries_are_refused(queries):
    lightgbm = pytest.importorskip("lightgbm")
    xgboost = pytest.importorskip("xgboost")
    for callback, of in (
        (lightgbm.early_stopping(3), "lightgbm"),
        (xgboost.callback.EarlyStopping(3), "xgboost"),
    ):
        with pytest.raises(ParameterError, match=f"of {of}, .*Progress.* early_stopping_rounds"):
            Ranker().fit(queries.X, queries.y, qid=queries.qid, callbacks=[callback])


def test_verbose_prints_every_so_many_iterations(queries, capsys):
    given = {"qid": queries.qid, "eval_set": [(queries.X, queries.y)], "eval_qid": [queries.qid]}
    ranker = Ranker("xgboost-pairwise", n_estimators=7)
    ranker.fit(queries.X, queries.y, **given)
    assert capsys.readouterr().out == ""
    ranker.fit(queries.X, queries.y, **given, verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert lines[0].startswith("iteration 1 (")
    assert "validation_0 ndcg@10 0." in lines[0]
    ranker.fit(queries.X, queries.y, **given, verbose=3)
    starts = [line.partition(" (")[0] for line in capsys.readouterr().out.splitlines()]
    assert starts == ["iteration 1", "iteration 4", "iteration 7"]


# ------------------------------------------------------------------- going on


def test_fit_goes_on_from_a_model_a_ranker_a_result_or_a_folder(queries, table, tmp_path):
    yesterday = Ranker("xgboost-pairwise", n_estimators=5, random_state=0)
    yesterday.fit(table, queries.y, qid=queries.qid)
    yesterday.model_.save(tmp_path / "model")
    starts = [yesterday, yesterday.model_, yesterday.result_, tmp_path / "model"]
    rankers = [
        Ranker("xgboost-pairwise", n_estimators=3, random_state=0).fit(
            table, queries.y, qid=queries.qid, init=init
        )
        for init in [*starts, str(tmp_path / "model")]
    ]
    for ranker in rankers:
        assert ranker.model_.n_trees == 8
        np.testing.assert_array_equal(ranker.predict(table), rankers[0].predict(table))
    rankers[0].model_.save(tmp_path / "both")
    assert rankplug.load_model(tmp_path / "both").n_trees == 8


def test_a_linear_ranker_starts_where_it_ended(queries, labels):
    cold = Ranker().fit(queries.X, queries.y, qid=queries.qid)
    warm = Ranker().fit(queries.X, queries.y, qid=queries.qid, init=cold)
    assert warm.result_.n_iter < cold.result_.n_iter
    cold = LabelRanker("tree-tron").fit(labels.X, labels.y)
    warm = LabelRanker("tree-tron").fit(labels.X, labels.y, init=cold.model_)
    assert warm.result_.n_iter < cold.result_.n_iter


def test_what_cannot_be_gone_on_from(queries, table, tmp_path):
    with pytest.raises(NotFittedError):
        Ranker().fit(table, queries.y, qid=queries.qid, init=Ranker())
    with pytest.raises(ModelFormatError, match="holds no rankplug model"):
        Ranker().fit(table, queries.y, qid=queries.qid, init=tmp_path)
    model = Ranker().fit(table, queries.y, qid=queries.qid)
    with pytest.raises(ParameterError, match=r"^toppush cannot start .* begins anew"):
        Ranker("toppush").fit(table, queries.y, qid=queries.qid, init=model)
    with pytest.raises(ParameterError, match=r"'year' where the data have 'age' \(column 0\)"):
        Ranker().fit(table[NAMES[::-1]], queries.y, qid=queries.qid, init=model)


def test_new_rows_alone_are_learnt_online(queries, table, tmp_path):
    """`partial_fit` of "larank", of a ranker, a saved one, and a pipeline's last step."""
    parts = [queries.qid % 2 == half for half in (0, 1)]
    online = Ranker("larank", random_state=0)
    for part in parts:
        online.partial_fit(table[part], queries.y[part], qid=queries.qid[part])
    first = Ranker("larank", random_state=0, online=True)
    first.fit(table[parts[0]], queries.y[parts[0]], qid=queries.qid[parts[0]])
    first.model_.save(tmp_path / "first")
    loaded = Ranker.from_model(tmp_path / "first", first.solver).set_params(random_state=0)
    with_qid = table[parts[1]].assign(qid=queries.qid[parts[1]])
    loaded.partial_fit(with_qid, queries.y[parts[1]])
    np.testing.assert_array_equal(loaded.predict(table), online.predict(table))
    assert online.score(table, queries.y, qid=queries.qid) > 0.8
    assert online.model_.feature_names == tuple(NAMES)
    before = online.coef_.copy()
    with pytest.raises(DataError, match="feature names"):
        online.partial_fit(table[NAMES[:3]], queries.y, qid=queries.qid)
    np.testing.assert_array_equal(online.coef_, before)
    assert not hasattr(Ranker(), "partial_fit")
    with pytest.raises(AttributeError) as error:
        _ = Ranker("tree-tron").partial_fit
    assert "take 'larank'" in str(error.value.__cause__)
    with pytest.warns(DataWarning, match="ranked as one query"):
        Ranker("larank").partial_fit(table, queries.y)


def test_new_classes_and_orders_are_learnt_online():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = np.array(["a", "b", "c"])[np.argmax(X @ rng.normal(size=(5, 3)), axis=1)]
    order = np.argsort(y, kind="stable")  # the first rows are all of class a
    ranker = LabelRanker("larank", random_state=0)
    ranker.partial_fit(X[order[:20]], y[order[:20]], classes=["a", "b", "c"])
    for _ in range(3):
        for part in np.array_split(rng.permutation(300), 6):
            ranker.partial_fit(X[part], y[part])
    assert ranker.score(X, y) > 0.9
    assert ranker.labels_.tolist() == ranker.classes_.tolist() == ["a", "b", "c"]
    with pytest.raises(DataError, match="'d'"):
        ranker.partial_fit(X[:2], ["a", "d"])
    kernel = LabelRanker("larank", kernel="rbf", random_state=0).fit(X[:100], y[:100])
    kernel.partial_fit(X[100:], y[100:])
    assert kernel.score(X, y) > 0.9
    orders = LabelRanker("larank", random_state=0).partial_fit(
        X[:4], ["a>b>c", "c>b", "a>c", "b>a"]
    )
    orders.partial_fit(X[4:6], ["b>c", "a>b"])
    assert orders.predict(X).shape == (300, 3)


# ------------------------------------------------------------------- estimators of models


@pytest.mark.parametrize("name", ["tree-tron", "xgboost-pairwise"])
def test_a_loaded_model_is_an_estimator(name, queries, table, tmp_path):
    fitted = Ranker(name).fit(table, queries.y, qid=queries.qid)
    fitted.model_.save(tmp_path / "model")
    for model in (tmp_path / "model", str(tmp_path / "model"), fitted.model_, fitted):
        ranker = Ranker.from_model(model)
        check_is_fitted(ranker)
        assert ranker.n_features_in_ == 5
        assert ranker.feature_names_in_.tolist() == NAMES
        np.testing.assert_array_equal(ranker.predict(table), fitted.predict(table))
        np.testing.assert_array_equal(
            ranker.rank(table, queries.qid), fitted.rank(table, queries.qid)
        )
        score = ranker.score(table, queries.y, qid=queries.qid)
        assert score == fitted.score(table, queries.y, qid=queries.qid)
        pd.testing.assert_frame_equal(
            ranker.top_k(table, queries.qid, 2), fitted.top_k(table, queries.qid, 2)
        )
        with pytest.raises(DataError, match="score needs the queries"):
            ranker.score(table, queries.y)
        with pytest.raises(DataError, match="feature names should match"):
            ranker.predict(table[NAMES[::-1]])
    again = Ranker.from_model(tmp_path / "model", "cutting-plane")
    assert again.solver == "cutting-plane"
    assert again.fit(table, queries.y, qid=queries.qid).result_.model.kind == "linear"


def test_weights_and_importances_of_a_loaded_model(queries, table, tmp_path):
    Ranker().fit(table, queries.y, qid=queries.qid).model_.save(tmp_path / "model")
    assert Ranker.from_model(tmp_path / "model").coef_.shape == (5,)


def test_a_loaded_model_ranks_labels_by_their_names(labels, tmp_path):
    Y = pd.DataFrame(labels.y, columns=list("abcd"))
    fitted = LabelRanker().fit(labels.X, Y)
    fitted.model_.save(tmp_path / "model")
    ranker = LabelRanker.from_model(tmp_path / "model")
    assert ranker.labels_.tolist() == list("abcd")
    np.testing.assert_array_equal(ranker.predict_order(labels.X), fitted.predict_order(labels.X))
    assert ranker.score(labels.X, Y) == fitted.score(labels.X, Y)
    with pytest.raises(ParameterError, match=r"ranks labels: use LabelRanker\.from_model"):
        Ranker.from_model(tmp_path / "model")
    with pytest.raises(ParameterError, match=r"ranks rows: use Ranker\.from_model"):
        LabelRanker.from_model(rankplug.models.LinearModel([1.0, 2.0]))
    ranks = pd.DataFrame(ranker.rank(labels.X), columns=list("abcd"))
    assert LabelRanker.from_model(tmp_path / "model", ranks=True).score(labels.X, ranks) > 0.9


def test_what_is_no_model(tmp_path):
    with pytest.raises(ParameterError, match="model is a dict"):
        Ranker.from_model({})
    with pytest.raises(NotFittedError):
        Ranker.from_model(Ranker())
    with pytest.raises(ModelFormatError):
        Ranker.from_model(tmp_path)


def test_the_model_of_a_pipeline_takes_the_original_table(queries, table, tmp_path):
    """Encoders and all: what the pipeline took, its loaded model takes as an estimator."""
    original = table.assign(genre=np.array(["crime", "drama"])[(table["age"] > 0).astype(int)])
    encode = ColumnTransformer([("genre", OneHotEncoder(), ["genre"])], remainder=StandardScaler())
    pipeline = make_pipeline(encode, Ranker())
    pipeline.fit(original, queries.y, ranker__qid=queries.qid)
    pipeline_model(pipeline, pipeline[-1].model_).save(tmp_path / "model")
    ranker = Ranker.from_model(tmp_path / "model")
    np.testing.assert_array_equal(ranker.predict(original), pipeline.predict(original))
    encoded = encode.transform(original)
    expected = pipeline[-1].score(encoded, queries.y, qid=queries.qid)
    assert ranker.score(original, queries.y, qid=queries.qid) == pytest.approx(expected)
    best = ranker.top_k(original.assign(title="x", user=queries.qid), queries.qid, 1)
    assert best.columns.tolist() == ["qid", "title", "user", "rank", "score"]
    assert ranker.rank(original, queries.qid).min() == 1
    with pytest.raises(DataError, match="feature names should match"):
        ranker.predict(original.drop(columns="genre"))


def test_validation_sets_without_queries_are_asked_about(queries, table):
    sets = [(table, queries.y), (table.assign(qid=queries.qid), queries.y)]
    with pytest.warns(DataWarning, match=r"the queries of eval_set\[0\]: all .* pass eval_qid"):
        Ranker().fit(table, queries.y, qid=queries.qid, eval_set=sets)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        Ranker().fit(table, queries.y, qid=queries.qid, eval_set=sets[1:])
        Ranker().fit(table, queries.y, group=[len(table)], eval_set=sets[:1])
