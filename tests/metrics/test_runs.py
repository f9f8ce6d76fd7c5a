"""Evaluation of runs against qrels: to the figures of trec_eval, whatever is missing or tied."""

from __future__ import annotations

import ir_measures
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import pytrec_eval

from rankplug.exceptions import DataError, ParameterError
from rankplug.metrics import evaluate_run, measure_run

MEASURES = ["map", "map_cut_5", "recip_rank", "P_5", "recall_5", "success_3", "ndcg_cut_5"]


def make_task(seed, *, n_queries=25, ties=True):
    """Judged and ranked documents that overlap in part, queries that only one side has."""
    rng = np.random.default_rng(seed)
    qrels, run = {}, {}
    for i in range(n_queries):
        judged = rng.choice(60, rng.integers(1, 30), replace=False)
        ranked = rng.choice(60, rng.integers(1, 40), replace=False)
        grades = rng.choice([-1, 0, 0, 1, 2, 3], len(judged)) * (i % 6 > 0)
        scores = rng.integers(0, 6, len(ranked)) if ties else rng.permutation(len(ranked))
        if i % 7 != 3:
            qrels[f"q{i}"] = {f"d{j}": int(g) for j, g in zip(judged, grades, strict=True)}
        if i % 7 != 5:
            run[f"q{i}"] = {f"d{j}": float(s) for j, s in zip(ranked, scores, strict=True)}
    return qrels, run


def by_trec_eval(qrels, run, measures):
    families = {name: name.rpartition("_") for name in measures}
    names = {f"{f}.{k}" if k.isdecimal() else name for name, (f, _, k) in families.items()}
    return pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)


@pytest.mark.parametrize("seed", range(5))
def test_values_are_those_of_trec_eval_with_ties_and_gaps(seed):
    qrels, run = make_task(seed)
    found = measure_run(qrels, run, MEASURES, complete=False)
    theirs = by_trec_eval(qrels, run, MEASURES)
    assert set(found.queries) == set(theirs)
    for name in MEASURES:
        expected = [theirs[query][name] for query in found.queries]
        np.testing.assert_allclose(found.measured[name].values, expected, atol=1e-6, err_msg=name)


def test_means_are_those_of_ir_measures():
    qrels, run = make_task(1)
    names = ["nDCG(dcg='log2')@10", "AP", "AP(rel=2)@10", "RR", "P@5", "R@10", "Success@3"]
    measures = [ir_measures.parse_measure(name) for name in names]
    theirs = ir_measures.calc_aggregate(measures, qrels, run)
    ours = evaluate_run(qrels, run, names)
    for name, measure in zip(names, measures, strict=True):
        assert ours[name] == pytest.approx(theirs[measure], abs=1e-6), name


def test_scores_that_single_precision_cannot_tell_apart_are_ties_as_in_trec_eval():
    qrels = {"q": {"a": 1, "b": 0}}
    run = {"q": {"a": 1.0 + 1e-12, "b": 1.0}}
    theirs = by_trec_eval(qrels, run, ["recip_rank"])["q"]["recip_rank"]
    assert evaluate_run(qrels, run, "RR")["RR"] == theirs == 0.5
    assert evaluate_run(qrels, run, "RR", ties="expected")["RR"] == 1.0


def test_ties_may_count_their_expected_value():
    qrels, run = {"q": {"a": 1, "b": 0}}, {"q": {"a": 1.0, "b": 1.0}}
    assert evaluate_run(qrels, run, "P@1") == {"P@1": 0.0}
    assert evaluate_run(qrels, run, "P@1", ties="expected") == {"P@1": 0.5}


def test_relevant_documents_that_were_not_found_count():
    qrels = {"q": {"a": 1, "lost": 3}}
    run = {"q": {"a": 2.0}}
    found = evaluate_run(qrels, run, ["AP", "R@10", "ndcg@10", "hit@1", "err"])
    assert found["AP"] == 0.5
    assert found["R@10"] == 0.5
    assert found["ndcg@10"] == pytest.approx(1 / (7 + 1 / np.log2(3)))
    assert found["hit@1"] == 1.0
    assert found["err"] == pytest.approx(1 / 16)
    nothing = evaluate_run(qrels, {"q": {"other": 1.0}}, ["AP", "ndcg@10", "RR", "err"])
    assert set(nothing.values()) == {0.0}


def test_what_is_missing_is_counted():
    qrels = {"a": {"x": 1, "y": 0}, "b": {"x": 0}, "c": {"z": 2}}
    run = {"a": {"x": 1.0, "new": 2.0}, "b": {"x": 1.0}, "other": {"x": 1.0}}
    found = measure_run(qrels, run, "RR")
    assert found.queries.tolist() == ["a", "b", "c"]
    assert found.measured["RR"].values.tolist() == [0.5, 0.0, 0.0]
    counts = (found.n_unanswered, found.n_unjudged_queries, found.n_unjudged)
    assert (*counts, found.n_without_relevant) == (1, 1, 1, 1)
    assert measure_run(qrels, run, "RR", complete=False).queries.tolist() == ["a", "b"]


def test_tables_and_dicts_are_the_same():
    qrels, run = make_task(3)
    frames = [
        pd.DataFrame(
            [(q, d, v) for q, docs in given.items() for d, v in docs.items()],
            columns=["query_id", "doc_id", value],
        )
        for given, value in ((qrels, "relevance"), (run, "score"))
    ]
    shuffled = [frame.sample(frac=1, random_state=0) for frame in frames]
    expected = evaluate_run(qrels, run, MEASURES)
    assert evaluate_run(*shuffled, MEASURES) == pytest.approx(expected)
    categories = [f.astype({"query_id": "category", "doc_id": "category"}) for f in shuffled]
    for form in (
        lambda frame: frame,
        pl.from_pandas,
        lambda frame: pl.from_pandas(frame).lazy(),
        lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
        lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    ):
        for given in (shuffled, categories):
            assert evaluate_run(*map(form, given), MEASURES) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("qrels", "run", "metric", "error", "message"),
    [
        ({"a": {"x": 1}}, {"b": {"x": 1.0}}, "auc", ParameterError, "no meaning for runs"),
        ({"a": {"x": 1}}, {"a": {"x": np.nan}}, "RR", DataError, "no finite number"),
        ({"a": {"x": "yes"}}, {"a": {"x": 1}}, "RR", DataError, "qrels: relevance 'yes'"),
        (pd.DataFrame({"qid": ["a"]}), {}, "RR", DataError, "no column query_id"),
        ({"a": {"x": 1}}, pl.DataFrame({"doc_id": ["x"]}), "RR", DataError, "run: no column query"),
        ({"a": {"x": 1}}, {"a": {None: 1.0}}, "RR", DataError, "run: doc_id is missing"),
        (
            pd.DataFrame({"query_id": ["a"] * 2, "doc_id": ["x"] * 2, "relevance": [1, 1]}),
            {"a": {"x": 1.0}},
            "RR",
            DataError,
            "qrels: document 'x' stands twice in query 'a'",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_refused(qrels, run, metric, error, message):
    with pytest.raises(error, match=message):
        evaluate_run(qrels, run, metric)


def test_runs_of_another_task_are_refused_unless_missing_queries_count():
    qrels, run = {"a": {"x": 1}}, {"b": {"x": 1.0}}
    assert evaluate_run(qrels, run, "RR") == {"RR": 0.0}
    with pytest.raises(DataError, match="no query of the qrels is in the run"):
        evaluate_run(qrels, run, "RR", complete=False)
