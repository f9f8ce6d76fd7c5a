"""A report as CSV, in full precision."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankplug.report.report import Report

__all__ = ["to_csv", "to_per_query_csv"]

_OF_OUTCOME = ("train_seconds", "train_cpu_seconds", "predict_seconds")
_OF_RESULT = ("objective", "duality_gap", "n_iter", "n_passes")
_OF_COMPARISON = (
    "n_queries", "difference", "low", "high", "p_value", "p_holm", "wins", "ties", "losses",
    "verdict",
)  # fmt: skip


def to_csv(report: Report) -> str:
    """A row a solver with everything known of it, in full precision.

    Metrics are in columns ``split metric``; ``best`` lists the metrics that it wins;
    ``difference`` and so on compare the primary metric with the baseline's.
    """
    scored = [(split, metric) for split in report.splits for metric in report.metrics]
    costs = [key for key in _keys(one.costs for one in report.outcomes) if key not in _OF_OUTCOME]
    header = ["name", "solver", "status", "error", "best"]
    header += [f"{split} {metric}" for split, metric in scored]
    header += [*_OF_COMPARISON, *_OF_OUTCOME, *costs, *_OF_RESULT, "params"]
    winners = {metric: report.winners(metric) for metric in report.metrics}
    compared = {one.name: one for one in report.comparisons}
    rows: list[list[Any]] = []
    for outcome in report.outcomes:
        best = " ".join(metric for metric in report.metrics if outcome.name in winners[metric])
        row: list[Any] = [outcome.name, outcome.solver, outcome.status, outcome.error, best]
        row += [outcome.metrics.get(split, {}).get(metric) for split, metric in scored]
        row += [getattr(compared.get(outcome.name), key, None) for key in _OF_COMPARISON]
        row += [getattr(outcome, key) for key in _OF_OUTCOME]
        row += [outcome.costs.get(key) for key in costs]
        row += [getattr(outcome.result, key, None) for key in _OF_RESULT]
        rows.append([*row, json.dumps(dict(outcome.params), default=str)])
    return _csv(header, rows)


def to_per_query_csv(report: Report) -> str:
    """A row for each solver and query of the test set; empty where a query does not count."""
    rows = (
        [outcome.name, query, *(outcome.per_query[metric][i] for metric in report.metrics)]
        for outcome in report.succeeded
        for i, query in enumerate(report.query_ids)
    )
    return _csv(["name", "qid", *report.metrics], rows)


def _keys(mappings: Iterable[Iterable[str]]) -> list[str]:
    """All keys, in the order of their first appearance."""
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(["" if value is None or value != value else value for value in row])
    return stream.getvalue()
