"""The experiments of the SOPOPO paper.

Shalev-Shwartz and Singer, "Efficient Learning of Label Ranking by Soft Projections onto
Polyhedra", JMLR 7 (2006): `interior_point` is its Figure 7, `phase_transition` its Figure 8.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import rankplug
from benchmarks import results
from benchmarks.measure import alternate
from benchmarks.papers.interior_point import solve_reduced_problem
from benchmarks.plots import draw_line, figure_of
from rankplug.data import LabelRankingData
from rankplug.exceptions import ConvergenceWarning

_GAP = 0.01  # the paper's, absolute
_MOST_LABELS_FOR_CLARABEL = 20  # its factorisation takes minutes beyond:
_LABELS_TO_GIVE_UP_AT = (40, 100)  # there it is stopped after
_PATIENCE = 120.0  # seconds, which bound its time from below


def interior_point(tiny: bool, rounds: int) -> Iterator[dict[str, Any]]:
    """Seconds to a gap of 0.01 for k labels and 10 k instances, against Clarabel."""
    for k in (4, 6) if tiny else (10, 15, 20, 40, 60, 80, 100):
        data = bipartite_feedback(k, 10 * k, seed=0)
        C = 1.0 / data.n_samples
        row = {"k": k, "n_samples": data.n_samples, "C": C}
        calls = {"sopopo": partial(_to_the_gap, data, C)}
        if k <= _MOST_LABELS_FOR_CLARABEL:
            calls["clarabel"] = partial(solve_reduced_problem, data, C, _GAP)
        for solver, call in calls.items():
            # Clarabel's runs are long enough to need no repetition.
            samples = alternate({solver: call}, rounds if solver == "sopopo" else 1)[solver]
            yield {**row, "solver": solver, **samples.result, **samples.columns()}
        if k in _LABELS_TO_GIVE_UP_AT and not _ends(solve_reduced_problem, data, C, _GAP):
            note = f"not finished in {_PATIENCE:g} s"
            yield {**row, "solver": "clarabel", "note": note, "wall_s": _PATIENCE}


def phase_transition(tiny: bool, _rounds: int) -> Iterator[dict[str, Any]]:
    """Objective, gap and rise of the dual objective by epoch, k = 100 and 1,000 instances."""
    data = bipartite_feedback(6, 60, seed=0) if tiny else bipartite_feedback(100, 1000, seed=0)
    solver = rankplug.make_solver("sopopo", C=1.0 / data.n_samples, tol=1e-7, max_epochs=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        history = solver.solve(data, random_state=0).history
    before = 0.0
    for step in history:
        dual = step["objective"] - step["duality_gap"]
        yield {
            "epoch": step["n_iter"],
            "visits": step["n_iter"] * data.n_samples,
            "objective": step["objective"],
            "gap": step["duality_gap"],
            "dual_rise": dual - before,
        }
        before = dual


def bipartite_feedback(k: int, n_samples: int, seed: int) -> LabelRankingData:
    """The paper's data: the upper half of k random linear functions of 100 features is relevant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 100))
    scores = X @ rng.normal(size=(100, k))
    relevance = np.zeros((n_samples, k))
    np.put_along_axis(relevance, np.argsort(-scores, axis=1)[:, : k // 2], 1.0, axis=1)
    return LabelRankingData.from_arrays(X, relevance)


def _to_the_gap(data: LabelRankingData, C: float) -> dict[str, Any]:
    solver = rankplug.make_solver("sopopo", C=C, tol=1e-12)
    result = solver.solve(
        data, random_state=0, callback=lambda progress: progress.values["duality_gap"] <= _GAP
    )
    return {
        "objective": result.objective,
        "gap": result.duality_gap,
        "iterations": result.n_iter,
        "note": "",
    }


def _ends(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a call ends in time; it gets a process of its own, which can be stopped."""
    process = get_context("spawn").Process(target=function, args=arguments)
    process.start()
    process.join(_PATIENCE)
    if not process.is_alive():
        return process.exitcode == 0
    process.kill()
    process.join()
    return False


def plot_interior_point(source: Path, target: Path) -> None:
    """Time to a gap of 0.01 against the number of labels: Figure 7 of the SOPOPO paper."""
    table = results.read(source)
    figure, (axis,) = figure_of(1)
    finished = [row for row in table if row["gap"]]
    for solver in dict.fromkeys(row["solver"] for row in table):
        draw_line(axis, [row for row in finished if row["solver"] == solver], "k", solver)
    for row in table:
        if row not in finished:
            axis.annotate(row["note"], (float(row["k"]), float(row["wall_s"])), ha="right")
            axis.loglog(float(row["k"]), float(row["wall_s"]), marker="^", color="tab:orange")
    axis.set(xlabel="labels k, for 10 k instances", ylabel="seconds, one thread")
    axis.legend(frameon=False)
    figure.savefig(target, dpi=150)


def plot_phase_transition(source: Path, target: Path) -> None:
    """Rise of the dual objective and the gap by visits: Figure 8 of the SOPOPO paper."""
    table = results.read(source)
    visits = [float(row["visits"]) for row in table]
    figure, axes = figure_of(2)
    for axis, column in zip(axes, ("dual_rise", "gap"), strict=True):
        axis.loglog(visits, [max(float(row[column]), 1e-16) for row in table], marker=".")
    axes[0].set(title="rise of the dual objective in an epoch", xlabel="visits to instances")
    axes[1].set(title="duality gap", xlabel="visits to instances")
    figure.savefig(target, dpi=150)
