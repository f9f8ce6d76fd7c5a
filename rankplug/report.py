"""What a run found: one outcome a solver, and the table that compares them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.metrics import parse_metric
from rankplug.solver import SolverResult

__all__ = ["Cell", "Outcome", "Report", "text_table"]


@dataclass(frozen=True)
class Outcome:
    """What became of one entry of a recipe's solvers.

    Attributes
    ----------
    name : str
        The entry's label, unique in the recipe.
    solver : str
        Registered name.
    params : mapping
        All parameters of the solver, defaults included.
    status : str
        A status of `SolverResult`; "failed" (see `error`); or "stopped" without a result if
        the user interrupted it.
    error : str or None
        Why there is no result.
    result : SolverResult or None
    metrics : mapping of mappings
        ``metrics[split][metric]``; empty if there is no result.
    per_query : mapping of float64 ndarrays of shape (n_queries,)
        ``per_query[metric]`` on the test set, NaN where a query does not count.
    train_seconds, train_cpu_seconds : float or None
        Wall time, and processor time of all threads, of training.
    predict_seconds : float or None
        Wall time of scoring the test set.
    """

    name: str
    solver: str
    params: Mapping[str, Any]
    status: str
    error: str | None = None
    result: SolverResult | None = None
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    per_query: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    train_seconds: float | None = None
    train_cpu_seconds: float | None = None
    predict_seconds: float | None = None

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the solver before it was trained and scored."""
        return self.status == "stopped" and self.result is None

    def score(self, metric: str) -> float:
        """Value of a metric on the test set, NaN if there is none."""
        return self.metrics.get("test", {}).get(metric, math.nan)


@dataclass(frozen=True)
class Cell:
    """A cell of the table; `best` marks the winner of a metric."""

    text: str
    best: bool = False


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
    """

    name: str
    metrics: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    recipe: str = ""
    splits: Mapping[str, str] = field(default_factory=dict)
    query_ids: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    baseline: str | None = None

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the run: solvers may be missing."""
        return any(outcome.interrupted for outcome in self.outcomes)

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The outcomes without a result."""
        return tuple(outcome for outcome in self.outcomes if outcome.result is None)

    def winners(self, metric: str) -> frozenset[str]:
        """Names of the best on the test set: several if they tie, none if nobody has a value."""
        scores = {outcome.name: outcome.score(metric) for outcome in self.outcomes}
        values = [score for score in scores.values() if not math.isnan(score)]
        if not values:
            return frozenset()
        best = max(values) if parse_metric(metric).greater_is_better else min(values)
        return frozenset(
            name for name, score in scores.items() if math.isclose(score, best, rel_tol=1e-12)
        )

    def table(self) -> tuple[list[str], list[list[Cell]]]:
        """The comparison table: its header and its rows.

        The differences to the baseline are those of the primary metric, the column before.
        """
        columns = {"solver": [Cell(outcome.name) for outcome in self.outcomes]}
        for metric in self.metrics:
            best = self.winners(metric)
            columns[metric] = [
                Cell(_number(outcome.score(metric), "{:.4f}"), outcome.name in best)
                for outcome in self.outcomes
            ]
            if metric == self.metrics[0] and self.baseline is not None:
                columns[f"vs {self.baseline}"] = self._differences(self.baseline)
        columns["train s"] = [
            Cell(_number(outcome.train_seconds, "{:.2f}")) for outcome in self.outcomes
        ]
        columns["passes"] = self._results("n_passes", "{:.1f}")
        columns["duality gap"] = self._results("duality_gap", "{:.2g}")
        columns["status"] = [Cell(outcome.status) for outcome in self.outcomes]
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]

    def _results(self, field_name: str, form: str) -> list[Cell]:
        values = [getattr(outcome.result, field_name, None) for outcome in self.outcomes]
        return [Cell(_number(value, form)) for value in values]

    def _differences(self, baseline: str) -> list[Cell]:
        scores = {outcome.name: outcome.score(self.metrics[0]) for outcome in self.outcomes}
        reference = scores.get(baseline, math.nan)
        return [
            Cell("-" if name == baseline else _number(score - reference, "{:+.4f}"))
            for name, score in scores.items()
        ]

    def notes(self) -> list[str]:
        """What has to be said below the table."""
        notes = [f"{outcome.name}: {outcome.error}" for outcome in self.failed]
        if self.interrupted:
            notes.append("the run was interrupted: solvers that are not listed did not start")
        return notes

    def to_text(self) -> str:
        """The table and its notes for a terminal, winners marked by an asterisk."""
        header, rows = self.table()
        marks = [" " if title in self.metrics else "" for title in header]
        texts = []
        for row in rows:
            cells = zip(row, marks, strict=True)
            texts.append([cell.text + ("*" if cell.best else mark) for cell, mark in cells])
        titles = [title + mark for title, mark in zip(header, marks, strict=True)]
        table = text_table(titles, texts, "<" + ">" * (len(header) - 2) + "<")
        return "\n".join([table, "* best on the test set", *self.notes()]) + "\n"


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


def _number(value: float | None, form: str) -> str:
    return "-" if value is None or math.isnan(value) else form.format(value)
