from __future__ import annotations

import doctest
import importlib
import itertools
import math
import pkgutil

import numpy as np
import pytest
import pytrec_eval
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

import rankplug.metrics
from rankplug.metrics import (
    Ndcg,
    PairwiseAccuracy,
    blocks,
    evaluate,
    evaluate_labels,
    parse_metric,
    per_instance,
    per_query,
)

ALL_NAMES = [
    "ndcg",
    "ndcg@2",
    "ndcg@3[gain=linear]",
    "ndcg@3[discount=letor]",
    "mean_ndcg",
    "map",
    "map[threshold=1]",
    "mrr",
    "mrr@2",
    "precision@1",
    "precision@3",
    "map@2",
    "recall@1",
    "recall@3",
    "hit@1",
    "hit@2",
    "hit@3[threshold=1]",
    "err",
    "err@2",
    "auc",
    "pos@top",
    "pairwise_accuracy",
    "kendall_tau",
    "top1_error",
]
PERFECT_IS_ONE = ["ndcg", "ndcg@2", "mean_ndcg", "map", "mrr", "auc", "pos@top"]
PERFECT_IS_ONE += ["pairwise_accuracy", "kendall_tau", "ndcg@3[gain=linear]"]

MODULES = [
    "rankplug.metrics",
    *(
        f"rankplug.metrics.{module.name}"
        for module in pkgutil.iter_modules(rankplug.metrics.__path__)
    ),
]

queries = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=6)


# The definitions once more, for one query in a strict order, without any vector.


def dcg(labels, k, gain, discount):
    total = 0.0
    for i, y in enumerate(labels[:k], start=1):
        g = 2.0**y - 1 if gain == "exp2" else y
        total += g / math.log2(i + 1 if discount == "log2" else max(2, i))
    return total


def ndcg(labels, k, gain="exp2", discount="log2"):
    best = dcg(sorted(labels, reverse=True), k, gain, discount)
    return dcg(labels, k, gain, discount) / best if best else math.nan


def mean_ndcg(labels):
    values = [ndcg(labels, k, discount="letor") for k in range(1, len(labels) + 1)]
    return 0.0 if math.isnan(values[0]) else sum(values) / len(values)


def average_precision(labels, threshold=0):
    relevant = [y > threshold for y in labels]
    precisions = [sum(relevant[: i + 1]) / (i + 1) for i, is_hit in enumerate(relevant) if is_hit]
    return sum(precisions) / len(precisions) if precisions else math.nan


def reciprocal_rank(labels, k=None):
    if not any(labels):
        return math.nan
    return next((1 / i for i, y in enumerate(labels[:k], start=1) if y > 0), 0.0)


def precision(labels, k):
    return sum(y > 0 for y in labels[:k]) / k if any(labels) else math.nan


def average_precision_at(labels, k):
    if not any(labels):
        return math.nan
    hits = [sum(y > 0 for y in labels[: i + 1]) for i in range(len(labels))]
    precisions = [hits[i] / (i + 1) for i, y in enumerate(labels[:k]) if y > 0]
    return sum(precisions) / hits[-1]


def recall(labels, k):
    return sum(y > 0 for y in labels[:k]) / sum(y > 0 for y in labels) if any(labels) else math.nan


def hit(labels, k, threshold=0):
    found = [y > threshold for y in labels]
    return float(any(found[:k])) if any(found) else math.nan


def err(labels, k=None):
    if not any(labels):
        return math.nan
    total, reached = 0.0, 1.0
    for i, y in enumerate(labels[:k], start=1):
        satisfied = (2**y - 1) / 16
        total += reached * satisfied / i
        reached *= 1 - satisfied
    return total


def pair_share(labels, relevant=lambda y: y):
    grades = [relevant(y) for y in labels]
    pairs = [a > b for a, b in itertools.combinations(grades, 2) if a != b]
    return sum(pairs) / len(pairs) if pairs else math.nan


def pos_at_top(labels):
    relevant = [y > 0 for y in labels]
    if all(relevant) or not any(relevant):
        return math.nan
    return relevant.index(False) / sum(relevant)


def top_one_error(labels):
    return float(labels[0] < max(labels)) if len(set(labels)) > 1 else math.nan


def mean(values):
    return sum(values) / len(values)


ORACLES = {
    "ndcg": (lambda y: ndcg(y, None), mean),
    "ndcg@2": (lambda y: ndcg(y, 2), mean),
    "ndcg@3[gain=linear]": (lambda y: ndcg(y, 3, gain="linear"), mean),
    "ndcg@3[discount=letor]": (lambda y: ndcg(y, 3, discount="letor"), mean),
    "mean_ndcg": (mean_ndcg, mean),
    "map": (average_precision, mean),
    "map[threshold=1]": (lambda y: average_precision(y, 1), mean),
    "mrr": (reciprocal_rank, mean),
    "mrr@2": (lambda y: reciprocal_rank(y, 2), mean),
    "precision@1": (lambda y: precision(y, 1), mean),
    "precision@3": (lambda y: precision(y, 3), mean),
    "err": (err, min),
    "map@2": (lambda y: average_precision_at(y, 2), mean),
    "recall@1": (lambda y: recall(y, 1), mean),
    "recall@3": (lambda y: recall(y, 3), mean),
    "hit@1": (lambda y: hit(y, 1), mean),
    "hit@2": (lambda y: hit(y, 2), mean),
    "hit@3[threshold=1]": (lambda y: hit(y, 3, 1), mean),
    "err@2": (lambda y: err(y, 2), min),
    "auc": (lambda y: pair_share(y, lambda label: label > 0), mean),
    "pos@top": (pos_at_top, min),
    "pairwise_accuracy": (pair_share, mean),
    "kendall_tau": (lambda y: 2 * pair_share(y) - 1, mean),
    "top1_error": (top_one_error, mean),
}


def orders(labels, scores):
    """The labels in every order that the scores allow."""
    for order in itertools.permutations(range(len(labels))):
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order)):
            yield [labels[i] for i in order]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_the_documentation(module):
    failed, attempted = doctest.testmod(importlib.import_module(module))
    assert failed == 0
    assert attempted > 0 or module.endswith((".base", ".evaluation"))


# Against the definitions and other libraries


@given(queries)
def test_metrics_are_averages_over_the_orders_of_ties(query):
    labels, scores = zip(*query, strict=True)
    values = per_query(labels, scores, None, ALL_NAMES)
    allowed = list(orders(labels, scores))
    for name, (oracle, combine) in ORACLES.items():
        expected = combine([oracle(order) for order in allowed])
        assert values[name][0] == pytest.approx(expected, nan_ok=True, abs=1e-12), name


@pytest.mark.parametrize("name", ["ndcg@3", "mean_ndcg", "map", "mrr", "precision@2", "err"])
def test_ties_can_go_by_input_order(name):
    labels, scores = [0, 2, 1, 0, 1], [1, 1, 1, 0, 0]
    by_order = parse_metric(f"{name}[ties=order]")
    strict = evaluate(labels, [5, 4, 3, 2, 1], None, name)[name]
    assert evaluate(labels, scores, None, by_order)[str(by_order)] == pytest.approx(strict)
    assert evaluate(labels, scores, None, name)[name] != pytest.approx(strict)


@pytest.mark.parametrize("k", [1, 5, 10, None])
@pytest.mark.parametrize("digits", [0, 8], ids=["ties", "no-ties"])
def test_ndcg_agrees_with_scikit_learn(k, digits):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, (40, 25))
    scores = rng.normal(size=(40, 25)).round(digits)
    qid = np.repeat(np.arange(40), 25)
    for gain, gains in (("linear", labels), ("exp2", 2**labels - 1)):
        metric = Ndcg(k, gain=gain)
        ours = evaluate(labels.ravel(), scores.ravel(), qid, metric)[str(metric)]
        assert ours == pytest.approx(ndcg_score(gains, scores, k=k), abs=1e-12)


def test_binary_metrics_agree_with_scikit_learn():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, (30, 20))
    distinct = rng.normal(size=(30, 20))
    tied = distinct.round()
    ours = per_instance(labels, distinct, "map")["map"]
    theirs = [average_precision_score(y, s) for y, s in zip(labels, distinct, strict=True)]
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    ours = per_instance(labels, tied, "auc")["auc"]
    theirs = [roc_auc_score(y, s) for y, s in zip(labels, tied, strict=True)]
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_metrics_agree_with_trec_eval():
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 40, 60)
    qid = np.repeat([f"q{i}" for i in range(60)], sizes)
    labels = rng.choice([0, 0, 0, 1, 2], sizes.sum())
    # Integers, as trec_eval has single precision.
    scores = rng.permutation(sizes.sum())
    documents = [f"d{i}" for i in range(sizes.sum())]
    qrel: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for query, document, label, score in zip(qid, documents, labels, scores, strict=True):
        qrel.setdefault(str(query), {})[document] = int(label)
        run.setdefault(str(query), {})[document] = float(score)
    ours_to_theirs = {
        "map[empty=0]": "map",
        "mrr[empty=0]": "recip_rank",
        "precision@5[empty=0]": "P_5",
        "ndcg[gain=linear,empty=0]": "ndcg",
        "ndcg@10[gain=linear,empty=0]": "ndcg_cut_10",
    }
    measures = {"map", "recip_rank", "P.5", "ndcg", "ndcg_cut.10"}
    theirs = pytrec_eval.RelevanceEvaluator(qrel, measures).evaluate(run)
    ours = per_query(labels, scores, qid, list(ours_to_theirs))
    assert any(not any(judged.values()) for judged in qrel.values())
    for our_name, their_name in ours_to_theirs.items():
        expected = [theirs[f"q{i}"][their_name] for i in range(60)]
        np.testing.assert_allclose(ours[our_name], expected, atol=1e-6, err_msg=our_name)


def test_kendall_tau_agrees_with_scipy():
    rng = np.random.default_rng(3)
    relevance = np.argsort(rng.random((50, 9)), axis=1).astype(float)
    scores = rng.normal(size=(50, 9))
    theirs = [kendalltau(y, s).statistic for y, s in zip(relevance, scores, strict=True)]
    ours = per_instance(relevance, scores, "kendall_tau")["kendall_tau"]
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    # With ties scipy's tau-b divides by more than the pairs: here one is right, one tied.
    assert evaluate_labels([[1, 1, 0]], [[3, 2, 2]], "kendall_tau") == {"kendall_tau": 0.5}


@given(queries.filter(lambda query: any(label for label, _ in query)))
def test_mean_ndcg_averages_all_cutoffs(query):
    labels, scores = zip(*query, strict=True)
    cutoffs = [Ndcg(k, discount="letor") for k in range(1, len(labels) + 1)]
    expected = mean(list(evaluate(labels, scores, None, cutoffs).values()))
    assert evaluate(labels, scores, None, "mean_ndcg")["mean_ndcg"] == pytest.approx(expected)


# Pairs


@given(st.integers(0, 2**32 - 1), st.integers(2, 300), st.integers(1, 40), st.integers(1, 40))
def test_pairs_are_counted_as_a_list_of_pairs_would(seed, n, n_levels, n_scores):
    rng = np.random.default_rng(seed)
    y, s = rng.integers(0, n_levels, n) / 4, rng.integers(0, n_scores, n) / 8
    qid = rng.integers(0, 5, n)
    preferred = (y[:, None] > y) & (qid[:, None] == qid)
    difference = s[:, None] - s
    right = (preferred & (difference > 0)).sum() + (preferred & (difference == 0)).sum() / 2
    value = evaluate(y, s, qid, "pairwise_accuracy")["pairwise_accuracy"]
    expected = right / preferred.sum() if preferred.any() else math.nan
    assert value == pytest.approx(expected, nan_ok=True)


@given(st.lists(st.lists(st.integers(0, 9), min_size=7, max_size=7), min_size=1, max_size=4))
def test_inversions_are_counted(rows):
    expected = [sum(a > b for a, b in itertools.combinations(row, 2)) for row in rows]
    assert blocks.count_inversions(np.array(rows)).tolist() == expected


def test_pairs_of_a_long_query_are_not_listed():
    n = 200_000
    y = np.random.default_rng(0).permutation(n)
    s = y.astype(float)
    assert evaluate(y, s, None, "pairwise_accuracy") == {"pairwise_accuracy": 1.0}
    assert evaluate(y, -s, None, "pairwise_accuracy") == {"pairwise_accuracy": 0.0}
    s[y < 2] = s[y < 2][::-1]
    n_pairs = n * (n - 1) / 2
    assert evaluate(y, s, None, "pairwise_accuracy")["pairwise_accuracy"] == 1 - 1 / n_pairs


def test_pairwise_accuracy_is_pooled_over_all_pairs():
    y, s, qid = [1, 0, 2, 1, 0], [0, 1, 3, 2, 1], [1, 1, 2, 2, 2]
    assert per_query(y, s, qid, "pairwise_accuracy")["pairwise_accuracy"].tolist() == [0, 1]
    assert evaluate(y, s, qid, "pairwise_accuracy") == {"pairwise_accuracy": 0.75}
    assert evaluate(y, s, qid, "auc") == {"auc": 0.5}


def test_a_query_without_pairs_has_no_weight_in_the_pooled_mean():
    y, s, qid = [1, 0, 1, 1], [1, 0, 1, 0], [1, 1, 2, 2]
    metric = PairwiseAccuracy(empty=0)
    assert per_query(y, s, qid, metric)[str(metric)].tolist() == [1, 0]
    assert evaluate(y, s, qid, metric) == {str(metric): 1.0}


# Properties


@given(queries)
def test_values_lie_in_their_range(query):
    labels, scores = zip(*query, strict=True)
    for name, (value,) in per_query(labels, scores, None, ALL_NAMES).items():
        low = -1 if name == "kendall_tau" else 0
        assert math.isnan(value) or low <= value <= 1, name


@given(queries)
def test_only_the_order_of_the_scores_counts(query):
    labels, scores = zip(*query, strict=True)
    values = per_query(labels, scores, None, ALL_NAMES)
    transformed = per_query(labels, np.exp(np.array(scores) * 3.0) - 1e-3, None, ALL_NAMES)
    for name in ALL_NAMES:
        np.testing.assert_array_equal(values[name], transformed[name], err_msg=name)


@given(queries, st.randoms())
def test_rows_of_a_query_may_come_in_any_order(query, random):
    shuffled = query.copy()
    random.shuffle(shuffled)
    values = per_query(*zip(*query, strict=True), None, ALL_NAMES)
    moved = per_query(*zip(*shuffled, strict=True), None, ALL_NAMES)
    for name in ALL_NAMES:
        np.testing.assert_allclose(values[name], moved[name], atol=1e-12, err_msg=name)


@given(st.lists(queries, min_size=1, max_size=5), st.randoms())
def test_each_query_is_judged_on_its_own(several, random):
    rows = [(f"id{number}", *row) for number, query in enumerate(several) for row in query]
    random.shuffle(rows)
    qid, labels, scores = zip(*rows, strict=True)
    together = per_query(labels, scores, qid, ALL_NAMES)
    for place, query_id in enumerate(dict.fromkeys(qid)):
        alone = per_query(*zip(*several[int(query_id[2:])], strict=True), None, ALL_NAMES)
        for name in ALL_NAMES:
            assert together[name][place] == pytest.approx(alone[name][0], nan_ok=True), name


@pytest.mark.parametrize("cells", [1, 64, 1 << 15])
def test_block_sizes_change_nothing(cells, monkeypatch):
    rng = np.random.default_rng(4)
    sizes = np.concatenate(([1, 1, 2], rng.integers(1, 70, 30), [300]))
    y, s = rng.integers(0, 4, sizes.sum()), rng.normal(size=sizes.sum()).round(1)
    bounds = np.cumsum(sizes)[:-1]
    alone = [
        per_query(labels, scores, None, ALL_NAMES)
        for labels, scores in zip(np.split(y, bounds), np.split(s, bounds), strict=True)
    ]
    monkeypatch.setattr(blocks, "_CELLS", cells)
    together = per_query(y, s, np.repeat(np.arange(len(sizes)), sizes), ALL_NAMES)
    for name in ALL_NAMES:
        expected = np.concatenate([values[name] for values in alone])
        np.testing.assert_allclose(together[name], expected, atol=1e-12, err_msg=name)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=12))
def test_the_perfect_ranking_has_one(eighths):
    labels = np.array(eighths) / 8
    assume(labels.min() < labels.max())
    assume(labels.min() == 0)
    for scores in (labels, labels + np.arange(len(labels)) * 1e-3):
        for name, value in evaluate(labels, scores, None, PERFECT_IS_ONE).items():
            assert value == pytest.approx(1, abs=1e-12), name
        assert evaluate(labels, scores, None, "top1_error") == {"top1_error": 0.0}


@given(st.lists(st.integers(0, 4), min_size=2, max_size=40))
def test_a_constant_scorer_is_never_perfect(labels):
    assume(min(labels) < max(labels))
    values = per_query(labels, np.zeros(len(labels)), None, ALL_NAMES)
    assert values["top1_error"][0] != 0
    for name, (value,) in values.items():
        graded = name.startswith(("ndcg", "mean", "err", "pair", "kendall", "top1"))
        threshold = 1 if "threshold=1" in name else 0
        if "letor" in name and len(labels) == 2:
            continue  # the two positions count the same: every order is perfect
        if name.startswith(("recall", "hit")):
            continue  # every order is, of as many documents as places or relevant ones
        if graded or min(labels) <= threshold:
            assert value != 1, name
    assert values["pairwise_accuracy"][0] == 0.5
    assert values["kendall_tau"][0] == 0


# Empty queries, and what may be passed


def test_empty_queries_count_as_their_option_says():
    y, s, qid = [0, 0, 1, 0], [1, 2, 2, 1], ["none", "none", "some", "some"]
    for name in ("ndcg", "map", "mrr", "precision@1", "err", "auc", "pos@top", "kendall_tau"):
        skipped = per_query(y, s, qid, name)[name]
        assert np.isnan(skipped[0]), name
        assert evaluate(y, s, qid, name)[name] == skipped[1], name
        for empty in (0, 1):
            explicit = f"{name}[empty={empty}]"
            assert per_query(y, s, qid, explicit)[explicit].tolist() == [empty, skipped[1]]
            assert evaluate(y, s, qid, explicit)[explicit] == (empty + skipped[1]) / 2
    assert per_query(y, s, qid, "mean_ndcg")["mean_ndcg"].tolist() == [0, 1]


def test_undefined_for_every_query_is_nan():
    values = evaluate([0, 0], [1, 2], None, ALL_NAMES)
    assert all(math.isnan(value) for name, value in values.items() if name != "mean_ndcg")


def test_queries_come_in_order_of_first_appearance():
    y, s, qid = [0, 1, 1, 0], [2, 2, 1, 1], ["z", "a", "z", "a"]
    assert per_query(y, s, qid, "mrr")["mrr"].tolist() == [0.5, 1]


def test_no_query_ids_mean_one_query():
    assert evaluate([0, 1], [1, 0], None, "mrr") == evaluate([0, 1], [1, 0], [7, 7], "mrr")


def test_labels_may_be_negative_or_large_where_only_their_order_counts():
    names = ["pairwise_accuracy", "kendall_tau", "top1_error", "map", "auc"]
    assert evaluate([-3.5, 1e300], [0, 1], None, names) == {
        name: float(name != "top1_error") for name in names
    }


def test_relevance_of_documents_with_fractional_gains():
    low, high = 2**0.5 - 1, 2**1.5 - 1
    expected = (low + high / math.log2(3)) / (high + low / math.log2(3))
    assert evaluate([0.5, 1.5], [1, 0], None, "ndcg")["ndcg"] == pytest.approx(expected)


def test_inputs_are_not_changed():
    y, s, qid = np.array([1.0, 0, 1]), np.array([0.0, 2, 1]), np.array([1, 2, 1])
    copies = y.copy(), s.copy(), qid.copy()
    evaluate(y, s, qid, ALL_NAMES)
    for array, copy in zip((y, s, qid), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


# Label ranking


def test_labels_that_are_not_compared_do_not_exist():
    relevance = [[2, math.nan, 1, 0], [1, 0, math.nan, math.nan], [math.nan] * 4]
    scores = [[0.1, 0.9, 0.2, 0.0], [3, 1, 9, 9], [1, 2, 3, 4]]
    values = per_instance(relevance, scores, ["kendall_tau", "top1_error"])
    np.testing.assert_allclose(values["kendall_tau"], [1 / 3, 1, math.nan])
    np.testing.assert_array_equal(values["top1_error"], [1, 0, math.nan])
    assert evaluate_labels(relevance, scores, "top1_error") == {"top1_error": 0.5}


def test_top_one_error_is_the_classification_error():
    rng = np.random.default_rng(5)
    classes, scores = rng.integers(0, 4, 50), rng.normal(size=(50, 4))
    error = evaluate_labels(np.eye(4)[classes], scores, "top1_error")["top1_error"]
    assert error == pytest.approx(np.mean(scores.argmax(axis=1) != classes))


def test_an_instance_is_a_query_of_its_labels():
    rng = np.random.default_rng(6)
    relevance, scores = rng.integers(0, 5, (8, 6)), rng.normal(size=(8, 6))
    qid = np.repeat(np.arange(8), 6)
    as_labels = per_instance(relevance, scores, ALL_NAMES)
    as_queries = per_query(relevance.ravel(), scores.ravel(), qid, ALL_NAMES)
    for name in ALL_NAMES:
        np.testing.assert_array_equal(as_labels[name], as_queries[name])
