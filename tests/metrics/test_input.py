from __future__ import annotations

import math
import re

import numpy as np
import pytest

from rankplug.exceptions import DataError, ParameterError, UnknownNameError
from rankplug.metrics import (
    METRICS,
    Metric,
    Ndcg,
    Precision,
    evaluate,
    evaluate_labels,
    parse_metric,
)

NAMES = [
    "ndcg",
    "ndcg@3[gain=linear]",
    "mean_ndcg",
    "map[threshold=1]",
    "mrr@2",
    "precision@3",
    "map@2",
    "recall@3",
    "hit@2[threshold=1]",
    "err@2",
    "auc",
    "pos@top",
    "pairwise_accuracy",
    "kendall_tau",
    "top1_error",
]


@pytest.mark.parametrize("name", ["ndcg@10", "mean_ndcg"])
def test_overflowing_gains_are_refused_and_linear_gain_is_offered(name):
    with pytest.raises(DataError, match=r"1001.*linear") as error:
        evaluate([0, 1001], [1, 2], None, name)
    offered = str(error.value).split()[-1]
    assert evaluate([0, 1001], [1, 2], None, offered) == {offered: 1.0}
    assert evaluate([0, 1000], [1, 2], None, name) == {name: 1.0}


def test_labels_too_large_to_be_summed_are_refused():
    with pytest.raises(DataError, match="scale the labels down"):
        evaluate([1e308] * 3, [1, 2, 3], None, "ndcg[gain=linear]")


@pytest.mark.parametrize("name", ["ndcg", "ndcg[gain=linear]", "mean_ndcg"])
def test_negative_gains_are_refused(name):
    with pytest.raises(DataError, match=r"lowest is -2.*pairwise_accuracy"):
        evaluate([-2, 1], [1, 2], None, name)


@pytest.mark.parametrize("name", ["ips_dcg@3", "snips_dcg", "average_rank"])
def test_rates_of_clicks_are_not_negative(name):
    with pytest.raises(DataError, match=r"a rate of clicks .* >= 0, but the lowest is -0.5"):
        evaluate([1, -0.5], [1, 2], None, name)


def test_columns_are_vectors_and_wider_arrays_are_refused():
    found = evaluate(np.array([[1.0], [0.0]]), np.array([[2.0], [1.0]]), None, "map")
    assert found == {"map": 1.0}
    with pytest.raises(DataError, match="relevance y has 2 dimensions; it needs one"):
        evaluate(np.eye(2), [1, 2], None, "map")


def test_labels_off_the_scale_of_err_are_refused():
    with pytest.raises(DataError, match=r"0\.\.4 but goes from 0 to 5.*max_grade"):
        evaluate([0, 5], [1, 2], None, "err@10")
    assert evaluate([0, 5], [1, 2], None, "err[max_grade=5]")["err[max_grade=5]"] == 31 / 32


def test_all_metrics_that_refuse_the_labels_are_named():
    with pytest.raises(DataError, match=r"ndcg@10: .*; err: "):
        evaluate([-1, 1], [1, 2], None, ["ndcg@10", "map", "err"])


@pytest.mark.parametrize(
    ("y", "scores", "qid", "message"),
    [
        ([1, 0], [1], None, "y has 2 values, scores has 1"),
        ([1, 0], [1, 2], [1], "2 rows"),
        ([], [], None, "no rows"),
        ([1, math.nan], [1, 2], None, "relevance y contains nan.* row 1"),
        ([1, 0], [math.inf, 2], None, "scores contains inf.* row 0"),
        ([1, 0], ["a", "b"], None, "scores must hold numbers"),
        ([[1, 0]], [1, 2], None, "relevance y has 2 dimensions"),
    ],
)
def test_bad_arrays_are_refused(y, scores, qid, message):
    with pytest.raises(DataError, match=message):
        evaluate(y, scores, qid, "ndcg")


@pytest.mark.parametrize(
    ("relevance", "scores", "message"),
    [
        ([[1, 0]], [[1, 2, 3]], r"shape \(1, 2\), scores has shape \(1, 3\)"),
        ([1, 0], [1, 2], "n_labels"),
        ([[1, 0]], [[1, math.nan]], "scores contains nan"),
        ([[1, math.inf]], [[1, 2]], "relevance contains inf"),
        ([[math.nan] * 2], [[1, 2]], "nothing to evaluate"),
    ],
)
def test_bad_label_arrays_are_refused(relevance, scores, message):
    with pytest.raises(DataError, match=message):
        evaluate_labels(relevance, scores, "kendall_tau")


# Names


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("ndgc@10", "'ndcg'"),
        ("mapp", "'map'"),
        ("pos@tpo", "'pos@top'"),
        ("pairwise-accuracy", "'pairwise_accuracy'"),
        ("ndcg[gian=linear]", "'gain'"),
        ("map[treshold=1]", "'threshold'"),
        ("", "cannot be read"),
    ],
)
def test_unknown_names_suggest_the_nearest(name, nearest):
    kind = UnknownNameError if name else ParameterError
    with pytest.raises(kind, match=nearest):
        parse_metric(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ndcg@0", "k=0"),
        ("ndcg@-1", "k=-1"),
        ("ndcg@ten", "k='ten'"),
        ("ndcg@", "k=''"),
        ("ndcg@2.5", "k=2.5"),
        ("auc@5", "no cutoff"),
        ("pos@top@5", "no cutoff"),
        ("precision", "precision@10"),
        ("ndcg[gain=square]", "one of 'exp2', 'linear'"),
        ("ndcg[empty=2]", "empty=2"),
        ("ndcg[gain]", "give it a value"),
        ("ndcg[gain=linear,gain=exp2]", "twice"),
        ("ndcg[gain=linear", "cannot be read"),
        ("ndcg[gain=linear]@10", "cannot be read"),
        ("map[threshold=inf]", "threshold=inf"),
        ("err[ties=expected]", "'worst'"),
        (10, "cannot be read"),
    ],
)
def test_bad_cutoffs_and_options_are_refused(name, message):
    with pytest.raises(ParameterError, match=re.escape(message)):
        parse_metric(name)


def test_unknown_option_is_not_called_by_the_cutoff_name():
    with pytest.raises(UnknownNameError, match="option of metric ndcg"):
        parse_metric("ndcg[k=10]")


@pytest.mark.parametrize("name", NAMES)
def test_names_survive_parsing(name):
    assert str(parse_metric(name)) == name
    assert parse_metric(parse_metric(name)) == parse_metric(name)


def test_options_in_names_are_those_of_the_objects():
    assert parse_metric("ndcg@10[gain=linear, empty=0]") == Ndcg(10, gain="linear", empty=0)
    assert str(Ndcg(10, gain="linear", empty=0)) == "ndcg@10[empty=0,gain=linear]"
    with pytest.raises(ParameterError, match="gain='x'"):
        Ndcg(gain="x")
    assert Precision(np.int64(5)) == Precision(5)


def test_results_have_the_names_that_were_asked_for():
    names = ["ndcg@10[gain=linear,empty=0]", "ndcg@10[empty=skip]", Ndcg(10)]
    assert list(evaluate([1, 0], [1, 0], None, names)) == [*names[:2], "ndcg@10"]


def test_names_for_logs_hold_only_what_mlflow_accepts():
    assert parse_metric("ndcg@10").log_name == "ndcg_at_10"
    assert parse_metric("pos@top").log_name == "pos_at_top"
    names = [*NAMES, "ndcg@10[gain=linear,empty=0]", "map[threshold=-1e+30]"]
    log_names = [parse_metric(name).log_name for name in names]
    assert all(re.fullmatch(r"[\w.\- /:]+", log_name) for log_name in log_names)
    assert len(set(log_names)) == len(names)


def test_only_errors_and_ranks_are_better_when_smaller():
    smaller = [name for name, metric in METRICS.items() if not metric.greater_is_better]
    assert smaller == ["top1_error", "average_rank"]


def test_own_metrics_are_accepted():
    class Length(Metric):
        name = "length"

        def _values(self, block):
            return block.valid.sum(axis=1).astype(float)

    assert evaluate([0, 1, 1], [1, 2, 3], [1, 1, 2], Length()) == {"length": 1.5}
