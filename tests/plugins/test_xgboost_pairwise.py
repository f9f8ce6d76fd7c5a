"""The XGBoost solver against XGBoost itself."""

from __future__ import annotations

import dataclasses
import pickle
import re

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import rankplug
from rankplug.exceptions import DataError, ModelFormatError, ParameterError
from rankplug.metrics import evaluate
from rankplug_plugins.boosting import XGBoostModel, XGBoostPairwise
from rankplug_plugins.boosting.losses import levels

N_QUERIES, PER_QUERY, N_FEATURES, N_LABELS = 30, 12, 8, 5


def make_ranking(seed=0, zero_share=0.5, n_queries=N_QUERIES, weights=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * PER_QUERY, N_FEATURES))
    X[rng.random(X.shape) < zero_share] = 0.0
    utility = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=len(X))
    y = np.digitize(utility, [-0.5, 0.3, 1.0])
    qid = np.repeat(np.arange(n_queries), PER_QUERY)
    sample_weight = None if weights is None else np.repeat(weights, PER_QUERY)
    return rankplug.RankingData.from_arrays(X, y, qid, sample_weight=sample_weight)


def make_labels(seed=0, missing_share=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, N_FEATURES))
    X[rng.random(X.shape) < 0.3] = 0.0
    Y = X @ np.random.default_rng(99).normal(size=(N_FEATURES, N_LABELS))
    Y[rng.random(Y.shape) < missing_share] = np.nan
    return rankplug.LabelRankingData.from_arrays(X, Y, labels=list("abcde"))


def small(**params):
    return XGBoostPairwise(**{"n_estimators": 15, "max_depth": 3, "n_threads": 1, **params})


def replaced(data, **changes):
    return dataclasses.replace(data, **changes)


def concordance(y, scores):
    above = y[..., :, None] > y[..., None, :]
    return np.mean((scores[..., :, None] > scores[..., None, :])[above])


# --- the same trees as XGBoost's own estimator ------------------------------------------------


@pytest.mark.parametrize("zeros", ["missing", "value"])
@pytest.mark.parametrize(
    ("objective", "pair_method", "pairs"),
    [
        ("rank:pairwise", "topk", None),
        ("rank:pairwise", "topk", PER_QUERY),
        ("rank:pairwise", "mean", 3),
        ("rank:ndcg", "topk", None),
        ("rank:map", "topk", None),
    ],
)
def test_scores_equal_those_of_xgbranker(data, zeros, objective, pair_method, pairs):
    y = data.relevance > 1 if objective == "rank:map" else data.relevance
    data = replaced(data, relevance=y.astype(float))
    ours = small(
        objective=objective, pair_method=pair_method, num_pair_per_sample=pairs, zeros=zeros
    )
    extra = {} if pairs is None else {"lambdarank_num_pair_per_sample": pairs}
    theirs = xgboost.XGBRanker(
        n_estimators=15,
        max_depth=3,
        n_jobs=1,
        objective=objective,
        lambdarank_pair_method=pair_method,
        missing=0.0 if zeros == "missing" else np.nan,
        random_state=int(np.random.default_rng(5).integers(2**31 - 1)),
        **extra,
    ).fit(data.X, y, qid=data.qid)

    model = ours.solve(data, random_state=5).model

    np.testing.assert_array_equal(model.predict(data.X), theirs.predict(data.X))
    assert model.n_trees == 15
    assert model.booster.trees_to_dataframe().equals(theirs.get_booster().trees_to_dataframe())


def test_early_stopping_goes_by_the_metrics_of_reports(data, valid):
    result = small(n_estimators=200, early_stopping_rounds=5).solve(data, valid=valid)
    seen = [row["valid_ndcg_at_10"] for row in result.history]
    best = int(np.argmax(seen)) + 1
    assert result.status == "converged"
    assert result.model.n_trees == best
    assert result.n_iter == best + 5 < 200

    booster = small(n_estimators=result.n_iter).solve(data).model.booster
    for n_trees, value in enumerate(seen, start=1):
        scores = XGBoostModel(booster[:n_trees]).predict(valid.X)
        exact = evaluate(valid.relevance, scores, valid.qid, "ndcg@10")["ndcg@10"]
        assert value == pytest.approx(exact, abs=6e-7)  # XGBoost keeps six digits
    expected = XGBoostModel(booster[:best]).predict(valid.X)
    np.testing.assert_array_equal(result.model.predict(valid.X), expected)


def test_every_parameter_reaches_xgboost(data):
    changed = {
        "learning_rate": 0.125,
        "max_depth": 4,
        "min_child_weight": 0.5,
        "gamma": 0.125,
        "subsample": 0.75,
        "colsample_bytree": 0.625,
        "reg_lambda": 2.5,
        "reg_alpha": 0.25,
        "max_bin": 16,
        "pair_method": "mean",
        "num_pair_per_sample": 7,
    }
    native = {
        "learning_rate": "eta",
        "reg_lambda": "lambda",
        "reg_alpha": "alpha",
        "pair_method": "lambdarank_pair_method",
        "num_pair_per_sample": "lambdarank_num_pair_per_sample",
    }
    config = small(**changed).solve(data, random_state=0).model.booster.save_config()
    for name, value in changed.items():
        shown = value if isinstance(value, str) else f"{value:.9g}"
        assert f'"{native.get(name, name)}":"{shown}"' in config


# --- data -------------------------------------------------------------------------------------


def test_dense_sparse_and_stored_zeros_give_the_same_scores(data):
    absent = sparse.csr_array(data.X)
    columns = np.tile(np.arange(N_FEATURES), data.n_samples)
    starts = N_FEATURES * np.arange(data.n_samples + 1)
    stored = sparse.csr_array((data.X.ravel(), columns, starts), shape=data.X.shape)
    assert stored.nnz > absent.nnz
    expected = small().solve(data).model.predict(data.X)
    for X in (absent, stored):
        model = small().solve(replaced(data, X=X)).model
        for features in (data.X, absent, stored):
            np.testing.assert_array_equal(model.predict(features), expected)


def test_zeros_as_values_are_another_model_and_refused_where_absent(data):
    as_missing = small().solve(data).model.predict(data.X)
    as_values = small(zeros="value").solve(data).model.predict(data.X)
    assert np.any(as_missing != as_values)
    model = small(zeros="value").solve(data).model
    np.testing.assert_array_equal(model.predict(sparse.csr_array(data.X)), as_values)
    with pytest.raises(DataError, match=r"zeros='value'.*toarray"):
        small(zeros="value").solve(replaced(data, X=sparse.csr_array(data.X)))


def test_float32_and_int64_sparse_indices(data):
    expected = small().solve(data).model.predict(data.X)
    X = sparse.csr_array(data.X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    assert np.array_equal(small().solve(replaced(data, X=X)).model.predict(X), expected)
    X = data.X.astype(np.float32)
    assert np.array_equal(small().solve(replaced(data, X=X)).model.predict(X), expected)


def test_query_ids_that_agree_in_32_bits_stay_apart(data):
    ids = np.array([q // 2 + (q % 2) * 2**32 for q in range(N_QUERIES)])
    expected = small().solve(data).model.predict(data.X)
    renamed = rankplug.RankingData.from_arrays(data.X, data.relevance, np.repeat(ids, PER_QUERY))
    assert np.array_equal(small().solve(renamed).model.predict(data.X), expected)


def test_relevance_closer_than_float32_can_tell_still_makes_pairs(data):
    expected = small().solve(data).model.predict(data.X)
    close = replaced(data, relevance=1e9 + data.relevance)
    assert len(np.unique(close.relevance.astype(np.float32))) == 1
    assert np.array_equal(small().solve(close).model.predict(data.X), expected)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([-2.5, 0.0, 1e-9, 1.0, 1e9])), min_size=1)
)
@settings(max_examples=60, deadline=None)
def test_levels_keep_order_and_ties(rows):
    qid, y = np.array(rows).T
    data = rankplug.RankingData.from_arrays(np.ones((len(y), 1)), y, qid.astype(int))
    ranked = levels(data)
    for a, b in zip(data.query_ptr, data.query_ptr[1:], strict=False):
        distinct = np.unique(data.relevance[a:b])
        np.testing.assert_array_equal(ranked[a:b], np.searchsorted(distinct, data.relevance[a:b]))


def test_levels_of_labels_leave_out_what_is_not_compared():
    Y = [[3.0, np.nan, 3.0, -1.0], [np.nan, 0.0, 5.0, np.nan]]
    data = rankplug.LabelRankingData.from_arrays(np.ones((2, 1)), Y)
    expected = [[1, np.nan, 1, 0], [np.nan, 0, 1, np.nan]]
    np.testing.assert_array_equal(levels(data), expected)


# --- weights, seeds, threads ------------------------------------------------------------------


def test_weights_are_those_of_queries():
    weights = np.random.default_rng(3).uniform(0.1, 4, N_QUERIES)
    data = make_ranking(weights=weights)
    theirs = xgboost.XGBRanker(
        n_estimators=15, max_depth=3, n_jobs=1, objective="rank:pairwise", missing=0.0
    ).fit(data.X, data.relevance, qid=data.qid, sample_weight=weights)
    scores = small().solve(data).model.predict(data.X)
    np.testing.assert_array_equal(scores, theirs.predict(data.X))
    assert np.any(scores != small().solve(make_ranking()).model.predict(data.X))


def test_weights_that_leave_no_pair_are_refused(data):
    y = data.relevance.copy()
    y[:PER_QUERY] = 1
    first_only = np.zeros(N_QUERIES)
    first_only[0] = 1
    for weight in (np.zeros(N_QUERIES), first_only):
        with pytest.raises(DataError, match="no preference pair counts"):
            small().solve(replaced(data, relevance=y, query_weight=weight))


def test_same_seed_same_trees_whatever_the_threads(data):
    def scores(seed, n_threads):
        solver = small(subsample=0.6, colsample_bytree=0.5, n_threads=n_threads)
        return solver.solve(data, random_state=seed).model.predict(data.X)

    first = scores(7, 1)
    np.testing.assert_array_equal(first, scores(7, 1))
    np.testing.assert_array_equal(first, scores(7, 2))
    assert np.any(first != scores(8, 1))


# --- stopping ---------------------------------------------------------------------------------


def test_result_has_no_objective_and_one_pass_a_round(data):
    result = small().solve(data)
    assert (result.status, result.n_iter, result.n_passes) == ("converged", 15, 15.0)
    assert result.objective is None
    assert result.duality_gap is None
    assert [row["n_iter"] for row in result.history] == list(range(1, 16))


@pytest.mark.parametrize("early_stopping_rounds", [None, 5])
@pytest.mark.parametrize("last", [1, 4])
def test_callback_stops_and_the_model_is_kept(data, valid, early_stopping_rounds, last):
    result = small(early_stopping_rounds=early_stopping_rounds).solve(
        data, valid=valid, callback=lambda progress: progress.n_iter == last
    )
    assert result.status == "stopped"
    assert result.n_iter == last
    if early_stopping_rounds is None:
        assert result.model.n_trees == last
        expected = small(n_estimators=last).solve(data).model.predict(data.X)
        np.testing.assert_array_equal(result.model.predict(data.X), expected)
    else:
        seen = [row["valid_ndcg_at_10"] for row in result.history]
        assert result.model.n_trees == np.argmax(seen) + 1


def test_time_limit_stops_after_a_round(data):
    result = small(n_estimators=10_000).solve(data, time_limit=1e-9)
    assert result.status == "time_limit"
    assert result.n_iter == result.model.n_trees == 1


def test_interrupt_reaches_the_caller(data):
    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small().solve(data, callback=interrupt)


@pytest.mark.parametrize("metric", ["ndcg", "map", "pairwise_accuracy"])
def test_other_stopping_metrics(data, valid, metric):
    binary = replaced(valid, relevance=(valid.relevance > 1).astype(float))
    result = small(early_stopping_rounds=3, eval_metric=metric).solve(data, valid=binary)
    seen = [row[f"valid_{metric}"] for row in result.history]
    assert 0 < max(seen) < 1
    assert result.model.n_trees == np.argmax(seen) + 1


# --- errors -----------------------------------------------------------------------------------


def test_wrong_parameters_are_listed_together(data):
    solver = XGBoostPairwise(n_estimators=0, learning_rate=2, objective="rank:cosine", n_threads=-1)
    with pytest.raises(ParameterError) as caught:
        solver.solve(data)
    for name in ("n_estimators=0", "learning_rate=2", "objective='rank:cosine'", "n_threads=-1"):
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("objective", "change", "shown"),
    [
        ("rank:ndcg", lambda y: y + 0.5, "0.5, 1.5, 2.5"),
        ("rank:ndcg", lambda y: y + 30, "32, 33"),
        ("rank:ndcg", lambda y: y - 2, "-2, -1"),
        ("rank:map", lambda y: y, "2, 3"),
    ],
)
def test_relevance_an_objective_cannot_take(data, objective, change, shown):
    with pytest.raises(DataError, match="use 'rank:pairwise'") as caught:
        small(objective=objective).solve(replaced(data, relevance=change(data.relevance)))
    assert shown in str(caught.value)
    assert "Stack trace" not in str(caught.value)


def test_validation_data_that_cannot_stop_anything(data, valid):
    solver = small(early_stopping_rounds=3)
    with pytest.raises(ParameterError, match="needs validation data"):
        solver.solve(data)
    with pytest.raises(DataError, match="use pairwise_accuracy"):
        solver.solve(data, valid=replaced(valid, relevance=valid.relevance - 5))
    with pytest.raises(DataError, match="validation data: no preference pair"):
        solver.solve(data, valid=replaced(valid, relevance=np.ones_like(valid.relevance)))


@pytest.mark.parametrize("metric", ["ndgc@10", "top1_error", "precision", 3])
def test_only_metrics_to_be_made_large_stop_early(data, metric):
    with pytest.raises(ParameterError, match=r"eval_metric=.*such as 'ndcg@10'"):
        small(eval_metric=metric).solve(data)


def test_validation_data_are_left_aside_without_early_stopping(data, valid):
    unusable = replaced(valid, relevance=valid.relevance / 2)
    assert small().solve(data, valid=unusable).model.n_trees == 15


def test_native_errors_come_without_stack_trace_and_with_a_remedy(data):
    X = data.X.copy()
    X[3, 3] = 1e200
    with pytest.raises(DataError, match="rescale") as caught:
        small().solve(replaced(data, X=X))
    assert "Stack trace" not in str(caught.value)


# --- models -----------------------------------------------------------------------------------


def test_saved_model_scores_bit_equal(data, valid, tmp_path):
    model = small(n_estimators=100, early_stopping_rounds=5).solve(data, valid=valid).model
    model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    assert isinstance(loaded, XGBoostModel)
    assert sorted(file.name for file in (tmp_path / "model").iterdir()) == [
        "model.json",
        "trees.json",
    ]
    assert (loaded.n_trees, loaded.n_features, loaded.n_labels) == (model.n_trees, N_FEATURES, None)
    for X in (valid.X, sparse.csr_array(valid.X)):
        scores = loaded.predict(X)
        assert scores.dtype == np.float64
        np.testing.assert_array_equal(scores, model.predict(X))
    native = xgboost.Booster(model_file=tmp_path / "model" / "trees.json")
    matrix = xgboost.DMatrix(valid.X, missing=0.0)
    np.testing.assert_array_equal(native.predict(matrix), model.predict(valid.X))


def test_treatment_of_zeros_is_saved(data, tmp_path):
    model = small(zeros="value").solve(data).model
    model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(data.X), model.predict(data.X))


def test_model_survives_pickle(data):
    model = small().solve(data).model
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(data.X), model.predict(data.X))


@pytest.mark.parametrize("file", ["trees.json", "model.ubj"])
def test_unreadable_trees_are_a_model_format_error(tmp_path, file):
    (tmp_path / file).write_bytes(b"no trees here")
    with pytest.raises(ModelFormatError, match=rf"{re.escape(file)} cannot be read"):
        XGBoostModel._read(tmp_path, {"zeros": "missing", "labels": None})


def test_missing_trees_are_a_model_format_error(tmp_path):
    with pytest.raises(ModelFormatError, match=r"trees\.json cannot be read: .*No such file"):
        XGBoostModel._read(tmp_path, {"zeros": "missing", "labels": None})


def test_trees_in_the_format_of_version_0_1_are_the_same_to_the_bit(data, tmp_path):
    model = small().solve(data).model
    model.booster.save_model(tmp_path / "model.ubj")
    read = XGBoostModel._read(tmp_path, {"zeros": "missing", "labels": None})
    assert read.booster.save_raw("ubj") == model.booster.save_raw("ubj")


def test_splits_at_the_end_of_float32_are_saved_and_read(tmp_path):
    """XGBoost puts infinity there, for which JSON has no word."""
    X = np.where(np.arange(60) % 3 == 0, 3.2e38, 0.0)[:, None]
    model = small().solve(rankplug.RankingData.from_arrays(X, X[:, 0] > 0)).model
    assert b"Infinity" in model.booster.save_raw("json")
    model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    assert "Infinity" not in (tmp_path / "model" / "trees.json").read_text()
    assert loaded.booster.save_raw("ubj") == model.booster.save_raw("ubj")


# --- label ranking ----------------------------------------------------------------------------


@pytest.mark.parametrize("missing_share", [0.0, 0.4])
def test_label_ranking_learns_the_order_of_labels(missing_share):
    data, test = make_labels(missing_share=missing_share), make_labels(seed=1)
    model = small(n_estimators=60).solve(data).model
    scores = model.predict(test.X)
    assert scores.shape == (150, N_LABELS)
    assert (model.n_features, model.n_labels) == (N_FEATURES, N_LABELS)
    assert concordance(test.relevance, scores) > 0.8


def test_label_ranking_in_blocks_dense_or_sparse_gives_the_same_scores(monkeypatch, tmp_path):
    data = make_labels(missing_share=0.2)
    in_csr = replaced(data, X=sparse.csr_array(data.X))
    whole = small().solve(data).model.predict(data.X)
    monkeypatch.setattr("rankplug_plugins.boosting.xgboost_matrices._BLOCK_VALUES", 1000)
    for variant in (data, in_csr):
        model = small().solve(variant).model
        np.testing.assert_array_equal(model.predict(data.X), whole)
        np.testing.assert_array_equal(model.predict(in_csr.X), whole)
    model.save(tmp_path / "model")
    loaded = rankplug.load_model(tmp_path / "model")
    assert list(loaded.labels) == list("abcde")
    np.testing.assert_array_equal(loaded.predict(data.X), whole)


def test_label_ranking_stops_early():
    result = small(
        n_estimators=300, early_stopping_rounds=3, eval_metric="pairwise_accuracy"
    ).solve(make_labels(), valid=make_labels(seed=1))
    assert result.n_iter == result.model.n_trees + 3 < 300


def test_registered_by_name():
    assert type(rankplug.make_solver("xgboost-pairwise", max_depth=2)) is XGBoostPairwise
