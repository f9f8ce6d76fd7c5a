"""Objective, Pos@Top, residual and ROC curves on spambase: Figures 2 and 3 of the A2DM2 paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import roc_curve

from benchmarks import results
from benchmarks.papers.a2dm2 import Trial, load, solve_quietly, split_problem
from benchmarks.papers.a2dm2_runs import (
    ETA,
    Point,
    fit_by_splitting,
    fit_by_toppush,
    follow_splitting,
    follow_toppush,
)
from benchmarks.plots import figure_of
from rankplug import make_solver
from rankplug.models import LinearModel
from rankplug.optim.a2dm2 import Variant

Row = dict[str, Any]

_SET = "spambase"
_LAMBDA = 10.0  # the paper's
_COMMON_RHO = 0.01  # in the grids of all variants, and the largest of A2DM2's
_ALL_UP_TO, _EVERY = 10, 20  # the iterations that are rows
_LEFT = 0.05  # of the false positives: there all points of an ROC curve are rows
_PANELS = {
    "excess": "value of (11) above its minimum",
    "pos_at_top": "Pos@Top of the test third",
    "residual": "residual, equation (9)",
}


def top_curves(tiny: bool, _rounds: int) -> Iterator[Row]:
    """By iteration: value of (11) above its minimum, Pos@Top of the test third, residual."""
    data = load(_SET, tiny)
    if data is None:
        return
    trial, n_iter = Trial(data, 0, tiny), 100 if tiny else 2000
    exact = make_solver("toppush", lam=_LAMBDA, tol=1e-10)
    least = solve_quietly(exact, trial.part(trial.train)).objective
    assert least is not None
    tuned = trial.best_rhos(_LAMBDA)
    for rhos, solver, rho, eta, points in _runs(trial, tuned, n_iter):
        for point in islice(points, n_iter):
            if point.n_iter > _ALL_UP_TO and point.n_iter % _EVERY:
                continue
            objective = trial.problem.value_at(_LAMBDA, point.w)
            yield {
                "rhos": rhos,
                "solver": solver,
                "rho": rho,
                "eta": eta,
                "n_iter": point.n_iter,
                "restarts": point.restarts,
                "excess": objective - least,
                "pos_at_top": trial.pos_at_top(LinearModel(point.w), trial.test),
                "residual": point.residual,
                "norm_of_w": float(np.linalg.norm(point.w)),
            }


def _runs(
    trial: Trial, tuned: dict[Variant, float], n_iter: int
) -> Iterator[tuple[str, str, float, float, Iterable[Point]]]:
    """Iterates with a step that all grids have, and with those of cross-validation."""
    split = split_problem(trial.problem, _LAMBDA)
    toppush = follow_toppush(trial.problem, _LAMBDA, n_iter)[1:]  # without the start
    for rhos, etas in (("common", (ETA, 0.999)), ("tuned", (ETA,))):
        yield rhos, "toppush", math.nan, math.nan, toppush
        for variant in tuned:
            rho = _COMMON_RHO if rhos == "common" else tuned[variant]
            for eta in etas if variant == "a2dm2-restart" else (math.nan,):
                points = follow_splitting(split, variant, rho, ETA if math.isnan(eta) else eta)
                yield rhos, variant, rho, eta, points


def plot_top_curves(source: Path, target: Path) -> None:
    """Figures 2 (a), 2 (b) and 3 (a), a row of panels for each choice of rho."""
    table = results.read(source)
    choices = list(dict.fromkeys(row["rhos"] for row in table))
    figure = Figure(figsize=(15, 3.8 * len(choices)), layout="constrained")
    for rhos, axes in zip(choices, figure.subplots(len(choices), 3), strict=True):
        of_choice = [row for row in table if row["rhos"] == rhos]
        for solver, rho, eta in dict.fromkeys(map(_line_of, of_choice)):
            line = [row for row in of_choice if _line_of(row) == (solver, rho, eta)]
            label = solver if rho == "nan" else f"{solver}, rho = {rho}"
            label += "" if eta == "nan" else f", eta = {eta}"
            for axis, column in zip(axes, _PANELS, strict=True):
                # TopPush's residual is another: no line, but the same colours.
                shown = [] if column == "residual" and solver == "toppush" else line
                kept = [r for r in shown if column != "pos_at_top" or not int(r["n_iter"]) % 100]
                x = [int(row["n_iter"]) for row in kept]
                axis.plot(x, [float(row[column]) for row in kept], label=label)
        for axis, column in zip(axes, _PANELS, strict=True):
            axis.set(xlabel="iterations", ylabel=_PANELS[column])
            axis.set_yscale("linear" if column == "pos_at_top" else "log")
        axes[0].legend(frameon=False, fontsize="small")
    figure.savefig(target, dpi=100)


def _line_of(row: Row) -> tuple[str, str, str]:
    return row["solver"], row["rho"], row["eta"]


def top_roc(tiny: bool, _rounds: int) -> Iterator[Row]:
    """ROC curves of the test third, of the models that Table 1 measures in one split."""
    data = load(_SET, tiny)
    if data is None:
        return
    trial = Trial(data, 0, tiny)
    lam = trial.best_lambda()
    rhos = trial.best_rhos(lam)
    fits = {("toppush", math.nan): fit_by_toppush(trial.problem, lam)}
    for variant, rho in rhos.items():
        fits[variant, rho] = fit_by_splitting(split_problem(trial.problem, lam), variant, rho)
    y = data.relevance[trial.test] > 0
    for (solver, rho), fit in fits.items():
        false, true, _ = roc_curve(y, fit.model.predict(data.X[trial.test]))
        left = int(np.searchsorted(false, _LEFT, side="right"))
        kept = [*range(left), *range(left, len(false) - 1, 10), len(false) - 1]
        found = {
            "pos_at_top": trial.pos_at_top(fit.model, trial.test),
            "auc": float(np.trapezoid(true, false)),
        }
        for place in kept:
            shares = {"false_positives": float(false[place]), "true_positives": float(true[place])}
            yield {"solver": solver, "lambda": lam, "rho": rho, **found, **shares}


def plot_top_roc(source: Path, target: Path) -> None:
    """Figure 3 (b)."""
    table = results.read(source)
    figure, axes = figure_of(2)
    for axis, most in zip(axes, (1.0, _LEFT), strict=True):
        for solver in dict.fromkeys(row["solver"] for row in table):
            line = [row for row in table if row["solver"] == solver]
            x = [float(row["false_positives"]) for row in line]
            axis.plot(x, [float(row["true_positives"]) for row in line], label=solver)
        axis.set(xlabel="false positives", ylabel="true positives", xlim=(0, most))
        axis.legend(frameon=False)
    figure.savefig(target, dpi=100)
