"""The outcomes of a run, their comparison, and its forms: text, Markdown, CSV, HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.data import LabelRankingData, RankingData
from rankplug.metrics import parse_metric
from rankplug.report import csv_tables, html, markdown, tables
from rankplug.report.outcome import SANITY_SOLVERS, Outcome, ParetoTrials
from rankplug.report.statistics import Comparison, compare
from rankplug.report.tables import Table

__all__ = ["Report", "text_table"]


@dataclass(frozen=True)
class Report:
    """The outcomes of a run, in the order of the recipe.

    Attributes
    ----------
    name : str
        The recipe's.
    metrics : tuple of str
        The primary one first.
    outcomes : tuple of Outcome
    recipe : str
        The resolved recipe, as YAML.
    splits : mapping
        A description of each split.
    query_ids : ndarray
        Of the test set.
    baseline : str or None
        Name of the outcome that the others are compared with.
    digests : mapping
        What has to be equal for equal numbers: digests of the data and of the recipe, seeds,
        versions; shown at the end.
    pareto : tuple of ParetoTrials
        Of the solvers that were tuned for several objectives at once.
    test : RankingData or LabelRankingData or None
        The test set, to which `Outcome.scores` belong; curves of the ranking need it. With
        folds, the test sets of all folds one after the other.
    """

    name: str
    metrics: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    recipe: str = ""
    splits: Mapping[str, str] = field(default_factory=dict)
    query_ids: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    baseline: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    pareto: tuple[ParetoTrials, ...] = ()
    test: RankingData | LabelRankingData | None = None

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the run: solvers may be missing."""
        return any(outcome.interrupted for outcome in self.outcomes)

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The outcomes without a result."""
        return tuple(outcome for outcome in self.outcomes if outcome.result is None)

    @property
    def succeeded(self) -> tuple[Outcome, ...]:
        """The outcomes with a result."""
        return tuple(outcome for outcome in self.outcomes if outcome.result is not None)

    @property
    def competitors(self) -> tuple[Outcome, ...]:
        """The outcomes with a result that plots show."""
        return tuple(outcome for outcome in self.outcomes if self.is_drawn(outcome))

    def is_drawn(self, outcome: Outcome) -> bool:
        """Whether plots show it: it has a result and is no sanity ranker, or is the baseline.

        Next to a ranker that has learned nothing all others would look alike.
        """
        compared = outcome.solver not in SANITY_SOLVERS or outcome.name == self.baseline
        return outcome.result is not None and compared

    def winners(self, metric: str) -> frozenset[str]:
        """Names of the best on the test set: several if they tie, none if nobody has a value."""
        scores = {outcome.name: outcome.score(metric) for outcome in self.outcomes}
        values = [score for score in scores.values() if not math.isnan(score)]
        if not values:
            return frozenset()
        best = self.best_value(metric, np.array(values))
        return frozenset(
            name for name, score in scores.items() if math.isclose(score, best, rel_tol=1e-12)
        )

    @staticmethod
    def best_value(metric: str, values: NDArray[np.float64]) -> Any:
        """The best of some values of a metric, or of each column of a matrix of them."""
        greater_is_better = parse_metric(metric).greater_is_better
        return values.max(axis=0) if greater_is_better else values.min(axis=0)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Every solver against the baseline in the primary metric; none without a baseline."""
        metric = self.metrics[0]
        values = {
            outcome.name: outcome.per_query[metric]
            for outcome in self.succeeded
            if metric in outcome.per_query
        }
        if self.baseline is None or self.baseline not in values:
            return ()
        better = parse_metric(metric).greater_is_better
        return compare(values, self.baseline, metric, greater_is_better=better)

    def notes(self) -> list[str]:
        """What has to be said below the results."""
        notes = [f"{outcome.name}: {outcome.error}" for outcome in self.failed]
        if self.interrupted:
            notes.append("the run was interrupted: solvers that are not listed did not start")
        return notes

    def tables(self) -> list[Table]:
        """The results, and the comparison, costs, tuning and repetitions where there are any."""
        found = [
            tables.results(self),
            tables.comparisons(self),
            tables.costs(self),
            tables.tuning(self),
            tables.repeats(self),
        ]
        return [table for table in found if table is not None]

    def to_text(self) -> str:
        """The tables and their notes for a terminal, winners marked by an asterisk."""
        results, *others = self.tables()
        lines = [_text(results), "* best on the test set", *self.notes()]
        for table in others:
            lines += ["", table.title, "", _text(table), *table.notes]
        return "\n".join(lines) + "\n"

    def to_markdown(self) -> str:
        """The tables and their notes as Markdown, winners in bold."""
        return markdown.to_markdown(self)

    def to_csv(self) -> str:
        """A row a solver with everything known of it, in full precision."""
        return csv_tables.to_csv(self)

    def to_html(self) -> str:
        """A page with tables and plots that needs no other file and no network."""
        return html.to_html(self)


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """Aligned columns for a terminal; `align` has ``<`` or ``>`` for each."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(line, align, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def _text(table: Table) -> str:
    """The table for a terminal; columns with a winner have room for its asterisk."""
    columns = zip(*table.rows, strict=True)
    marks = [" " if any(cell.best for cell in column) else "" for column in columns]
    marks = marks or [""] * len(table.header)
    titles = [title + mark for title, mark in zip(table.header, marks, strict=True)]
    rows = [
        [cell.text + ("*" if cell.best else mark) for cell, mark in zip(row, marks, strict=True)]
        for row in table.rows
    ]
    return text_table(titles, rows, table.align)
