"""Metrics of rankings: values per query first, means second.

>>> y = [2, 0, 1, 0, 1]
>>> scores = [0.9, 0.8, 0.3, 0.2, 0.7]
>>> qid = ["a", "a", "a", "b", "b"]
>>> per_query(y, scores, qid, "mrr")
{'mrr': array([1., 1.])}
>>> means = evaluate(y, scores, qid, ["ndcg@10", "pairwise_accuracy"])
>>> {name: round(value, 4) for name, value in means.items()}
{'ndcg@10': 0.982, 'pairwise_accuracy': 0.75}

A metric is a name, with its options in brackets where they are not the defaults
(``"ndcg@10[gain=linear,empty=0]"``), or an object (``Ndcg(10, gain="linear", empty=0)``);
`parse_metric` turns one into the other, ``str`` the other into the one. It also understands how
trec_eval, ir_measures, ranx and scikit-learn spell them (`rankplug.metrics.names`).

=====================  =============================================================
``ndcg``, ``ndcg@k``   `Ndcg`: normalised discounted cumulative gain
``mean_ndcg``          `MeanNdcg`: LETOR's mean of ndcg@k over all cutoffs
``map``, ``map@k``     `AveragePrecision`
``mrr``, ``mrr@k``     `ReciprocalRank`
``precision@k``        `Precision`
``recall@k``           `Recall`
``hit@k``              `Hit`: whether one of the first k is relevant, Success@k
``err``, ``err@k``     `ExpectedReciprocalRank`
``auc``                `Auc`: area under the ROC curve of a query
``pos@top``            `PosAtTop`: share of positives above every negative
``pairwise_accuracy``  `PairwiseAccuracy`: over all pairs of all queries
``kendall_tau``        `KendallTau`
``top1_error``         `TopOneError`
``ips_dcg@k``          `IpsDcg`: counterfactual, of clicks (`rankplug.clicks`)
``snips_dcg@k``        `SnipsDcg`: the same, self-normalised
``average_rank``       `AverageRank` of what was clicked
=====================  =============================================================

Some options are the same everywhere. ``k``: the cutoff; without it all documents count.
``threshold``, of metrics that know two kinds of documents: those with ``relevance > threshold``,
which is 0, are relevant. ``ties``: an order within tied scores is never a merit, so a metric
takes its expected value over random orders of the tied rows ("expected"), except ``err``, where
that is expensive, and ``pos@top``, whose definition is strict: they take the worst order;
"order" takes the rows in the order in which they were given. ``empty``: where a metric is
undefined for a query (no relevant document, or no pair to compare), what it counts: "skip" (NaN,
left out of the mean), 0 or 1.
"""

from rankplug.metrics.base import Metric
from rankplug.metrics.binary import Auc, AveragePrecision, PosAtTop, Precision, Recall
from rankplug.metrics.cascade import ExpectedReciprocalRank, Hit, ReciprocalRank
from rankplug.metrics.counterfactual import AverageRank, IpsDcg, SnipsDcg
from rankplug.metrics.evaluation import (
    Measured,
    confidence_interval,
    confidence_intervals,
    evaluate,
    evaluate_labels,
    mean_of_defined,
    measure_data,
    measure_instances,
    measure_queries,
    per_instance,
    per_query,
    weighted_mean,
)
from rankplug.metrics.gain import MeanNdcg, Ndcg
from rankplug.metrics.names import METRICS, parse_metric, parse_metrics
from rankplug.metrics.pairs import KendallTau, PairwiseAccuracy, TopOneError
from rankplug.metrics.runs import MeasuredRun, evaluate_run, measure_run
from rankplug.metrics.scorers import RankingScorer, get_scorer, get_scorer_names
from rankplug.metrics.summary import (
    DEFAULT_LABEL_METRICS,
    DEFAULT_METRICS,
    RankedRows,
    Summary,
    SummarySettings,
    summarize_label_ranking,
    summarize_measured,
    summarize_ranking,
)

__all__ = [
    "DEFAULT_LABEL_METRICS",
    "DEFAULT_METRICS",
    "METRICS",
    "Auc",
    "AveragePrecision",
    "AverageRank",
    "ExpectedReciprocalRank",
    "Hit",
    "IpsDcg",
    "KendallTau",
    "MeanNdcg",
    "Measured",
    "MeasuredRun",
    "Metric",
    "Ndcg",
    "PairwiseAccuracy",
    "PosAtTop",
    "Precision",
    "RankedRows",
    "RankingScorer",
    "Recall",
    "ReciprocalRank",
    "SnipsDcg",
    "Summary",
    "SummarySettings",
    "TopOneError",
    "confidence_interval",
    "confidence_intervals",
    "evaluate",
    "evaluate_labels",
    "evaluate_run",
    "get_scorer",
    "get_scorer_names",
    "mean_of_defined",
    "measure_data",
    "measure_instances",
    "measure_queries",
    "measure_run",
    "parse_metric",
    "parse_metrics",
    "per_instance",
    "per_query",
    "summarize_label_ranking",
    "summarize_measured",
    "summarize_ranking",
    "weighted_mean",
]
