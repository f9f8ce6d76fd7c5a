"""Convergence plots: the distance of each solver's objective from its minimum, as it trained."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankplug.exceptions import RankplugError
from rankplug.report.plots.canvas import Canvas, Plot, Styles, plain_log_axis, shorten
from rankplug.report.report import Outcome, Report
from rankplug.solver import Objective, Solver, make_solver

_SMALLEST = 1e-12  # relative distances below it are errors of rounding


def convergence(report: Report, canvas: Canvas) -> list[Plot]:
    """A picture for each objective, of two panels: against passes, or iterations, and seconds."""
    plots = []
    for group in same_objective(report.competitors):
        names = ", ".join(outcome.name for outcome in group)
        panels = []
        for column, unit in (steps_of(group), ("seconds", "seconds")):
            with canvas.axes(2.6) as axes:
                draw_convergence(axes, [group], column, unit, canvas.styles)
                panels.append(canvas.svg(axes, f"Convergence of {names} against {unit}"))
        title = ", ".join(shorten(outcome.name) for outcome in group)
        solver = _solver(group[0])
        problem = group[0].name if solver is None else solver.tags.problem
        caption = f"Minimum: at least {_lower_bound(group):.6g}. Problem: {problem}."
        plots.append(Plot(title, "\n".join(panels), caption))
    return plots


def steps_of(outcomes: Iterable[Outcome]) -> tuple[str, str]:
    """The column of the history that all have, passes if possible, and what it counts."""
    if all(_read_columns(outcome, "n_passes").size for outcome in outcomes):
        return "n_passes", "passes over the data"
    return "n_iter", "iterations"


def same_objective(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """The outcomes with a recorded objective, those together that minimised the same one.

    Their solvers say so by `Solver.describe_objective`. Values of different objectives have no
    common scale, and a solver that describes none stands alone.
    """
    groups: list[tuple[Objective | None, list[Outcome]]] = []
    for outcome in outcomes:
        if outcome.result is None or _read_columns(outcome, "objective").size < 2:
            continue
        solver = _solver(outcome)
        objective = None if solver is None else solver.describe_objective()
        for known, members in groups:
            if objective is not None and objective == known:
                members.append(outcome)
                break
        else:
            groups.append((objective, [outcome]))
    return [members for _, members in groups]


def _solver(outcome: Outcome) -> Solver | None:
    """The solver with its parameters, None if it is not installed here."""
    try:
        return make_solver(outcome.solver, **outcome.params)
    except (RankplugError, TypeError):
        return None


def draw_convergence(
    axes: Any, groups: list[list[Outcome]], column: str, unit: str, styles: Styles
) -> None:
    """Distances, certified gaps (dotted) and the results' gaps, against a column of the history.

    Each group is drawn relative to the lower bound of its own objective.
    """
    for group in groups:
        lowest = _lower_bound(group)
        scale = abs(lowest) if abs(lowest) > _SMALLEST else 1.0
        for outcome in group:
            style = styles[outcome.name]
            places, objective = _read_columns(outcome, column, "objective")
            distance = (objective - lowest) / scale
            above = distance > _SMALLEST
            axes.plot(
                places[above], distance[above], style.marker, color=style.color, linestyle="solid",
                markevery=0.15, label=shorten(outcome.name),
            )  # fmt: skip
            certified, gap = _read_columns(outcome, column, "duality_gap")
            above = gap > _SMALLEST * scale
            axes.plot(certified[above], gap[above] / scale, ":", color=style.color)
            final = outcome.result.duality_gap if outcome.result is not None else None
            if final is not None and final / scale > _SMALLEST:
                axes.plot(
                    places[-1], final / scale, style.marker, color=style.color,
                    markerfacecolor="none", markersize=9,
                )  # fmt: skip
    plain_log_axis(axes.yaxis)
    limits = axes.dataLim
    if column == "seconds" or limits.x1 > 30 * limits.x0 > 0:  # more than a decade
        plain_log_axis(axes.xaxis)
    axes.set(xlabel=unit, ylabel="relative distance")


def _lower_bound(group: list[Outcome]) -> float:
    """The best certified bound of the minimum, or the smallest value found if there is none."""
    certified = [
        one.result.objective - one.result.duality_gap
        for one in group
        if one.result and one.result.objective is not None and one.result.duality_gap is not None
    ]
    return (
        max(certified) if certified else min(_read_columns(one, "objective").min() for one in group)
    )


def _read_columns(outcome: Outcome, *columns: str) -> NDArray[np.float64]:
    """Columns of the history, of the rows where all of them are known and finite."""
    history = outcome.result.history if outcome.result is not None else ()
    rows = [[row.get(column, math.nan) for column in columns] for row in history]
    values = np.array(rows, dtype=np.float64).reshape(-1, len(columns))
    known: NDArray[np.float64] = values[np.isfinite(values).all(axis=1)].T
    return known
