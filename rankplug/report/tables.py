"""The tables of a report, in a form that text, Markdown and HTML share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankplug.display import html_table
from rankplug.report.report import Outcome, Report
from rankplug.report.statistics import CONFIDENCE, Comparison, count

_FEW_QUERIES = 30  # below it percentile bootstrap intervals are visibly too narrow
_MOST_DISAGREEMENTS = 10  # what a reader looks into one by one


@dataclass(frozen=True)
class Cell:
    """A cell of a table; `best` marks the winner of a metric."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells.

    Attributes
    ----------
    title : str
    header : tuple of str
    rows : tuple of tuples of Cell
    align : str
        ``<`` (left) or ``>`` (right) for each column.
    notes : tuple of str
        Lines below the table: how to read it, and its limits.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    align: str
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        rows = [[cell.text + "*" * cell.best for cell in row] for row in self.rows]
        return html_table(self.header, rows, title=self.title, align=self.align)

    @classmethod
    def of_columns(
        cls,
        title: str,
        columns: Mapping[str, Sequence[Cell | str]],
        left: Iterable[str],
        notes: Iterable[str] = (),
    ) -> Table:
        """A table of named columns of cells or their texts, those in `left` aligned to the left."""
        align = "".join("<" if name in set(left) else ">" for name in columns)
        rows = tuple(
            tuple(Cell(cell) if isinstance(cell, str) else cell for cell in row)
            for row in zip(*columns.values(), strict=True)
        )
        return cls(title, tuple(columns), rows, align, tuple(notes))


def report_tables(report: Report) -> list[Table]:
    """The results, and the comparison, costs, tuning and repetitions where there are any."""
    others = (comparisons(report), costs(report), tuning(report), repeats(report))
    return [results(report), *(table for table in others if table is not None)]


def results(report: Report) -> Table:
    """Quality of every solver on the test set."""
    outcomes = report.outcomes
    columns: dict[str, Sequence[Cell | str]] = {"solver": [one.name for one in outcomes]}
    against = f"against {report.baseline}"
    for metric in report.metrics:
        best = report.winners(metric)
        columns[metric] = [
            Cell(number(outcome.score(metric), "{:.4f}"), outcome.name in best)
            for outcome in outcomes
        ]
        if metric == report.metrics[0] and report.comparisons:
            verdicts = {one.name: one.verdict for one in report.comparisons}
            columns[against] = [verdicts.get(outcome.name, "-") for outcome in outcomes]
    columns["train s"] = [number(outcome.train_seconds, "{:.2f}") for outcome in outcomes]
    columns["passes"] = _of_results(outcomes, "n_passes", "{:.1f}")
    columns["duality gap"] = _of_results(outcomes, "duality_gap", "{:.2g}")
    columns["status"] = [outcome.status for outcome in outcomes]
    return Table.of_columns("Results on the test set", columns, {"solver", against, "status"})


def comparisons(report: Report) -> Table | None:
    """Every solver against the baseline, in the primary metric."""
    if not report.comparisons:
        return None
    metric = report.comparisons[0].metric
    scores = {outcome.name: outcome.score(metric) for outcome in report.outcomes}
    return comparison_table(report.comparisons, scores)


def comparison_table(
    found: Sequence[Comparison], scores: Mapping[str, float], what: str = "solver"
) -> Table:
    """The comparisons with a baseline, at least one; `scores` are the means of all."""
    percent = f"{CONFIDENCE:.0%}".replace("%", " %")
    columns = {
        what: [one.name for one in found],
        "difference": [number(one.difference, "{:+.4f}") for one in found],
        f"{percent} interval": [_interval(one) for one in found],
        "p (Holm)": [_p_value(one.p_holm) for one in found],
        "wins": [f"{one.wins:,}" for one in found],
        "ties": [f"{one.ties:,}" for one in found],
        "losses": [f"{one.losses:,}" for one in found],
        "verdict": [one.verdict for one in found],
    }
    title = f"{found[0].metric} against {found[0].baseline}"
    notes = _about_comparisons(found, scores, what)
    return Table.of_columns(title, columns, {what, "verdict"}, notes)


def costs(report: Report) -> Table | None:
    """Costs of training, storing and using each solver; None if nothing was measured."""
    outcomes = report.succeeded
    if not any(outcome.costs for outcome in outcomes):
        return None
    columns = {"solver": [outcome.name for outcome in outcomes]}
    notes = []
    for key, title, form, about in COSTS:
        values = [cost(outcome, key) for outcome in outcomes]
        if not all(math.isnan(value) for value in values):
            columns[title] = [form(value) for value in values]
            notes += [about] if about else []
    return Table.of_columns("Costs", columns, {"solver"}, notes)


def tuning(report: Report) -> Table | None:
    """The best trial of each tuned solver, and the number of trials; None if none was tuned."""
    tuned = [(one.name, one.tuning) for one in report.outcomes if one.tuning is not None]
    if not tuned:
        return None
    columns = {
        "solver": [name for name, _ in tuned],
        "trials": [f"{summary.n_trials:,}" for _, summary in tuned],
        "pruned": [f"{summary.n_pruned:,}" for _, summary in tuned],
        "failed": [f"{summary.n_failed:,}" for _, summary in tuned],
        "seconds": [number(summary.seconds, "{:.1f}") for _, summary in tuned],
        f"best {tuned[0][1].metric}": [number(one.best_value, "{:.4f}") for _, one in tuned],
        "with": [_parameters(summary.best_params) for _, summary in tuned],
    }
    return Table.of_columns("Tuning", columns, {"solver", "with"})


def repeats(report: Report) -> Table | None:
    """The primary metric in each fold or for each seed; None if there was only one."""
    outcomes = [outcome for outcome in report.succeeded if outcome.repeats]
    if not outcomes:
        return None
    metric = report.metrics[0]
    values = [[one.get(metric, math.nan) for one in outcome.repeats] for outcome in outcomes]
    columns = {
        "solver": [outcome.name for outcome in outcomes],
        "mean": [number(float(np.mean(row)), "{:.4f}") for row in values],
        "deviation": [
            number(float(np.std(row, ddof=1)) if len(row) > 1 else None, "{:.4f}") for row in values
        ],
    }
    for place, column in enumerate(itertools.zip_longest(*values), start=1):
        columns[str(place)] = [number(value, "{:.4f}") for value in column]
    return Table.of_columns(f"{metric} of each repetition", columns, {"solver"})


def disagreements(report: Report) -> Table | None:
    """The queries on which the solvers' values of the primary metric lie farthest apart."""
    metric = report.metrics[0]
    outcomes = [outcome for outcome in report.competitors if metric in outcome.per_query]
    if len(outcomes) < 2 or len(report.query_ids) < 2:
        return None
    values = np.array([outcome.per_query[metric] for outcome in outcomes])
    spread = np.ptp(values, axis=0)
    order = np.argsort(-np.nan_to_num(spread, nan=-1.0), kind="stable")[:_MOST_DISAGREEMENTS]
    chosen = order[np.nan_to_num(spread[order]) > 0]
    if not len(chosen):
        return None
    columns: dict[str, Sequence[Cell | str]] = {
        "query": [str(report.query_ids[q]) for q in chosen],
        "spread": [number(spread[q], "{:.4f}") for q in chosen],
    }
    best = values[:, chosen] == report.best_value(metric, values[:, chosen])
    for outcome, row, wins in zip(outcomes, values, best, strict=True):
        columns[outcome.name] = [
            Cell(number(row[q], "{:.4f}"), bool(win)) for q, win in zip(chosen, wins, strict=True)
        ]
    return Table.of_columns(f"Queries of largest disagreement in {metric}", columns, {"query"})


def number(value: float | None, form: str) -> str:
    """The formatted number, a dash if there is none."""
    return "-" if value is None or math.isnan(value) else form.format(value)


def size(value: float) -> str:
    """Bytes in words: ``12 kB``, ``3.4 MB``."""
    if math.isnan(value):
        return "-"
    for unit in ("B", "kB", "MB"):
        if value < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def cost(outcome: Outcome, key: str) -> float:
    """A cost of an outcome by its key, also if the result or the outcome itself knows it."""
    known: list[float | None] = [
        getattr(outcome, key, None),
        outcome.costs.get(key),
        getattr(outcome.result, key, None),
    ]
    return next((float(value) for value in known if value is not None), math.nan)


def _three_digits(value: float) -> str:
    return number(value, "{:.0f}" if abs(value) >= 1000 else "{:.3g}")


COSTS = (
    ("train_seconds", "training s", _three_digits, ""),
    ("train_cpu_seconds", "CPU s", _three_digits, "CPU s: processor time of all threads"),
    (
        "seconds_to_99",
        "s to 99 %",
        _three_digits,
        "s to 99 %: training time after which the solver, stopped there, has 99 % of its quality",
    ),
    ("n_passes", "passes", _three_digits, ""),
    (
        "train_peak_bytes",
        "memory",
        size,
        "memory: by how much training raised the process's highest resident memory, at least",
    ),
    ("model_bytes", "model", size, "model: size of its files"),
    (
        "predict_us_1",
        "µs/row alone",
        _three_digits,
        "µs/row: microseconds of prediction per row, called with one row, 100, or 10,000",
    ),
    ("predict_us_100", "of 100", _three_digits, ""),
    ("predict_us_10000", "of 10,000", _three_digits, ""),
)
"""Key, title, format and explanation of each cost."""


def _of_results(outcomes: Iterable[Outcome], name: str, form: str) -> list[str]:
    return [number(getattr(outcome.result, name, None), form) for outcome in outcomes]


def _interval(one: Comparison) -> str:
    return "-" if math.isnan(one.low) else f"{one.low:+.4f} to {one.high:+.4f}"


def _p_value(p: float) -> str:
    if math.isnan(p):
        return "-"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _parameters(params: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in params.items()
    )


def _about_comparisons(
    found: Sequence[Comparison], scores: Mapping[str, float], what: str
) -> list[str]:
    """How to read the table, and what its numbers cannot say."""
    most = max(found, key=lambda one: one.n_queries)
    n = most.n_queries
    if n < 2:
        return [
            f"there is no test on {count(n, 'query', 'queries')}: the difference may be chance; "
            "compare on more queries"
        ]
    notes = [
        f"difference: mean over {n:,} queries; interval: bootstrap over queries; p: paired "
        f"randomisation test, corrected by Holm's method for "
        f"{count(len(found), what, what + 's')}",
        "interval and p say what to expect of these trained models on other queries, not of "
        "training anew"
        if what == "solver"
        else f"interval and p say what to expect of the same {what}s on other queries",
    ]
    if most.smallest_p > 1 - CONFIDENCE:
        notes.append(
            f"{n} queries are too few: the smallest possible p is {most.smallest_p:.2g}, whatever "
            "the results"
        )
    elif n < _FEW_QUERIES:
        notes.append(f"with {n} queries the interval tends to be too narrow")
    if any(abs(scores[one.name] - scores[one.baseline] - one.difference) > 5e-5 for one in found):
        notes.append(
            "every query counts alike here, so that differences are not those of the results above"
        )
    return notes
