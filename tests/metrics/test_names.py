"""Names of metrics as other tools spell them, and our figures against theirs."""

from __future__ import annotations

import math
from dataclasses import replace

import ir_measures
import numpy as np
import pandas as pd
import pytest
import pytrec_eval

import rankplug
from rankplug.exceptions import ParameterError, UnknownNameError
from rankplug.metrics import METRICS, SummarySettings, evaluate, get_scorer, parse_metric, per_query
from rankplug.recipe import load_recipe

SPELLINGS = {
    "ndcg@10": ["nDCG@10", "NDCG@10", "ndcg_at_10", "NDCG_at_10", "ndcg_10", "ndcg_burges@10"],
    "ndcg@10[gain=linear]": [
        "ndcg_cut_10", "ndcg_cut.10", "ndcg_linear@10", "ndcg_score@10", "nDCG(dcg='log2')@10",
    ],
    "ndcg": ["nDCG", "NDCG", "nDCG(dcg='exp-log2')"],
    "map": ["AP", "MAP", "average_precision", "mean_average_precision", "Average_Precision"],
    "map@100": ["AP@100", "MAP@100", "map_cut_100", "map_cut.100", "map_at_100", "ap@100"],
    "map@100[threshold=1]": ["AP(rel=2)@100", "map@100-l2", "AP(rel=2, cutoff=100)"],
    "mrr": ["RR", "MRR", "recip_rank", "reciprocal_rank", "mean_reciprocal_rank", "RR(rel=1)"],
    "mrr@10": ["RR@10", "MRR@10", "mrr_at_10", "rr@10"],
    "precision@5": ["P@5", "p@5", "P_5", "P.5", "precision_at_5", "Precision@5", "prec@5"],
    "recall@100": ["R@100", "r@100", "Recall@100", "recall_100", "recall.100", "recall_at_100"],
    "hit@5": ["Success@5", "success_5", "success.5", "hit_rate@5", "HR@5", "HitRate@5", "Hit@5"],
    "err@20": ["ERR@20", "err_at_20"],
    "auc": ["AUC", "roc_auc", "roc_auc_score"],
    "kendall_tau": ["kendalltau", "Kendall_Tau"],
    "pos@top": ["pos_at_top"],
    "mean_ndcg": ["MeanNDCG"],
}  # fmt: skip
CASES = [(spelled, ours) for ours, others in SPELLINGS.items() for spelled in others]


@pytest.mark.parametrize(("spelled", "ours"), CASES)
def test_the_spellings_of_others_are_understood(spelled, ours):
    assert str(parse_metric(spelled)) == ours
    assert parse_metric(ours) == parse_metric(spelled)


def test_options_may_stand_behind_any_spelling():
    assert str(parse_metric("NDCG@10[gain=linear,empty=0]")) == "ndcg@10[empty=0,gain=linear]"
    assert str(parse_metric("ndcg_cut_10[gain=exp2]")) == "ndcg@10"


@pytest.mark.parametrize("name", METRICS)
def test_log_names_are_read_back(name):
    metric = METRICS[name](**({"k": 7} if "k" in METRICS[name].parameters else {}))
    assert parse_metric(metric.log_name) == metric
    assert parse_metric(str(metric).upper()) == metric


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("nDGC@10", UnknownNameError, "did you mean 'ndcg'"),
        ("recal@10", UnknownNameError, "did you mean 'recall'"),
        ("hits@10", UnknownNameError, "did you mean 'hit'"),
        ("Bpref", UnknownNameError, "known: auc"),
        ("P", ParameterError, "needs a cutoff, as in 'precision@10'"),
        ("AUC@3", ParameterError, "takes no cutoff"),
        ("P@0", ParameterError, "an integer >= 1"),
        ("nDCG(gains={1:2})@10", ParameterError, "not understood"),
        ("nDCG(rel=2)@10", ParameterError, "no level of relevance"),
        ("AP(cutoff=5)@10", ParameterError, "two cutoffs"),
    ],
)
def test_what_is_not_understood_is_an_error_that_helps(name, error, message):
    with pytest.raises(error, match=message):
        parse_metric(name)


def test_the_gain_is_said_beside_the_name():
    assert parse_metric("nDCG@10").title == "ndcg@10 (gain 2^y-1)"
    assert parse_metric("ndcg_cut_10").title == "ndcg@10[gain=linear] (gain y)"
    assert parse_metric("RR@10").title == "mrr@10"


def test_every_way_in_takes_them(tmp_path):
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(60, 2)), rng.integers(0, 3, 60), np.repeat(np.arange(12), 5)
    data = rankplug.RankingData.from_arrays(X, y, qid)
    result = rankplug.tune("tree-tron", data, metric="P_2", n_trials=2, folds=2, progress=False)
    assert result.metric == "precision@2"
    trees = rankplug.make_solver(
        "xgboost-ndcg", n_estimators=20, early_stopping_rounds=2, eval_metric="MAP@5"
    )
    assert "valid_map_at_5" in trees.solve(data, valid=data).history[-1]
    assert SummarySettings.of({"metrics": ["RR", "nDCG@3"]}).metrics == ("mrr", "ndcg@3")
    assert get_scorer("AP@5").metric == parse_metric("map@5")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "data: {dataset: wine}\nsolvers: [tree-tron]\nmetrics: [nDCG@3, recip_rank]\n"
        "tune: {n_trials: 1, metric: AP}\n"
    )
    loaded = load_recipe(recipe)
    assert loaded.metrics == ("ndcg@3", "mrr")
    assert loaded.tune.metric == "map"
    assert evaluate(y, X[:, 0], qid, "nDCG@3") == {
        "nDCG@3": evaluate(y, X[:, 0], qid, "ndcg@3")["ndcg@3"]
    }


# --- figures ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranking():
    """Queries of whole grades without ties, the first without a relevant document."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(3, 40, 60)
    qid = np.repeat([f"q{i:02}" for i in range(60)], sizes)
    labels = rng.choice([0, 0, 0, 1, 2, 3], sizes.sum())
    labels[: sizes[0]] = 0
    # Whole numbers, as trec_eval has single precision.
    scores = rng.permutation(sizes.sum()).astype(float)
    documents = np.array([f"d{i}" for i in range(sizes.sum())])
    return qid, documents, labels, scores


def tables(ranking):
    qid, documents, labels, scores = ranking
    qrels = pd.DataFrame({"query_id": qid, "doc_id": documents, "relevance": labels})
    run = pd.DataFrame({"query_id": qid, "doc_id": documents, "score": scores})
    return qrels, run


def values(ranking, name):
    qid, _, labels, scores = ranking
    found = per_query(labels, scores, qid, replace(parse_metric(name), empty=0))
    return next(iter(found.values()))


IR_MEASURES = [
    "nDCG(dcg='log2')@10", "nDCG", "AP", "AP@10", "AP(rel=2)@10", "RR", "RR@10",
    "RR(rel=2)", "P@5", "P(rel=2)@5", "R@10", "R(rel=3)@10", "Success@3", "Success(rel=3)@2",
]  # fmt: skip


@pytest.mark.parametrize("name", IR_MEASURES)
def test_figures_are_those_of_ir_measures(name, ranking):
    qrels, run = tables(ranking)
    found = ir_measures.iter_calc([ir_measures.parse_measure(name)], qrels, run)
    theirs = {one.query_id: one.value for one in found}
    ours = values(ranking, "ndcg[gain=linear]" if name == "nDCG" else name)
    assert len(theirs) == len(ours)
    np.testing.assert_allclose(ours, [theirs[query] for query in sorted(theirs)], atol=1e-6)


TREC_EVAL = ["map", "map_cut_10", "recip_rank", "P_5", "recall_5", "success_5", "ndcg_cut_5"]


@pytest.mark.parametrize("name", TREC_EVAL)
def test_figures_are_those_of_trec_eval(name, ranking):
    qid, documents, labels, scores = ranking
    qrel: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for query, document, label, score in zip(qid, documents, labels, scores, strict=True):
        qrel.setdefault(query, {})[document] = int(label)
        run.setdefault(query, {})[document] = float(score)
    family, _, k = name.rpartition("_")
    measure = f"{family}.{k}" if k.isdecimal() else name
    theirs = pytrec_eval.RelevanceEvaluator(qrel, {measure}).evaluate(run)
    expected = [theirs[query][name] for query in sorted(theirs)]
    np.testing.assert_allclose(values(ranking, name), expected, atol=1e-6)


RANX = {
    "ndcg_cut_10": "ndcg@10", "ndcg@10": "ndcg_burges@10", "map": "map", "map@10": "map@10",
    "map@10-l2": "map@10-l2", "mrr": "mrr", "mrr@10": "mrr@10", "precision@5": "precision@5",
    "recall@10": "recall@10", "hit_rate@3": "hit_rate@3",
}  # fmt: skip


@pytest.mark.long  # ranx compiles itself, half a minute
@pytest.mark.parametrize("name", RANX)
def test_figures_are_those_of_ranx(name, ranking):
    ranx = pytest.importorskip("ranx", reason="the extra 'ranx' is not installed")
    qrels, run = tables(ranking)
    text = {"query_id": object, "doc_id": object}  # ranx takes no other type of text
    qrels, run = qrels.astype(text), run.astype(text)
    keep = qrels.groupby("query_id")["relevance"].transform("max") > 0
    theirs = ranx.evaluate(
        ranx.Qrels.from_df(qrels[keep].astype({"relevance": int}), score_col="relevance",
                           q_id_col="query_id", doc_id_col="doc_id"),
        ranx.Run.from_df(run[keep], q_id_col="query_id", doc_id_col="doc_id"),
        RANX[name],
        make_comparable=True,
    )  # fmt: skip
    qid, _, labels, scores = ranking
    ours = evaluate(labels, scores, qid, parse_metric(name))
    assert next(iter(ours.values())) == pytest.approx(theirs, abs=1e-9)


# --- new metrics ------------------------------------------------------------------------------


def test_a_cutoff_counts_all_relevant_documents():
    y, scores = [1, 0, 1, 1], [4, 3, 2, 1]
    found = evaluate(y, scores, None, ["map@3", "recall@3", "hit@1", "recall@9", "map@9", "map"])
    assert found["map@3"] == pytest.approx((1 + 2 / 3) / 3)
    assert found["recall@3"] == pytest.approx(2 / 3)
    assert found["hit@1"] == 1.0
    assert found["recall@9"] == 1.0
    assert found["map@9"] == found["map"]
    empty = evaluate([0, 0], [1, 2], None, ["map@1", "recall@1", "hit@1"])
    assert all(map(math.isnan, empty.values()))
