"""The experiments of the SOPOPO paper.

Shalev-Shwartz and Singer, "Efficient Learning of Label Ranking by Soft Projections onto
Polyhedra", JMLR 7 (2006): `soft_projection` is its Figure 6, `interior_point` its Figure 7,
`phase_transition` its Figure 8.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rankplug
from benchmarks import results
from benchmarks.measure import alternate
from benchmarks.papers.interior_point import (
    project_reduced,
    project_with_weights,
    solve_reduced_problem,
)
from benchmarks.plots import draw_line, figure_of
from rankplug._fast.projection import soft_projection as project
from rankplug.data import LabelRankingData
from rankplug.exceptions import ConvergenceWarning

_GAP = 0.01  # the paper's, absolute
_MOST_LABELS_FOR_CLARABEL = 20  # its factorisation takes minutes beyond:
_LABELS_TO_GIVE_UP_AT = (40, 100)  # there it is stopped after
_PATIENCE = 120.0  # seconds, which bound its time from below
_DIMENSIONS = 100
_DRAWS = 10
_BOUND = 1.0  # of a single projection; the paper does not say its own
_TOLD_EVERY = 1.01  # times the visits of the last row


def soft_projection(tiny: bool, rounds: int) -> Iterator[dict[str, Any]]:
    """Seconds of one soft projection for k labels, against sorting and an interior point."""
    for k in (4, 10) if tiny else (*range(10, 101, 10), 200, 300, 500, 1000):
        seconds: dict[str, list[float]] = {}
        differences: dict[str, list[float]] = {}
        for draw in range(1 if tiny else _DRAWS):
            calls = _projections(k, draw)
            exact, samples = calls["soft projection"](), alternate(calls, rounds, _REPEATED)
            for name, sample in samples.items():
                seconds.setdefault(name, []).append(sample.median("thread_cpu"))
                differences.setdefault(name, []).append(float(abs(sample.result - exact).max()))
        for name, times in seconds.items():
            row = {"k": k, "C": _BOUND, "draws": len(times), "n_threads": 1, "solver": name}
            spread = {"thread_cpu_s": float(np.mean(times)), "longest_s": max(times)}
            yield {**row, **spread, "difference": max(differences[name])}


_REPEATED = {"soft projection": 50, "sorting": 20}
_MOST_LABELS_FOR_WEIGHTS = 100  # of problem (7), as in the paper


def _projections(k: int, seed: int) -> dict[str, Callable[[], NDArray[np.float64]]]:
    """Ways from an instance and weights to the new weights; half of the labels are better."""
    rng = np.random.default_rng(seed)
    x, U, better = rng.normal(size=_DIMENSIONS), rng.normal(size=(k, _DIMENSIONS)), k // 2

    def moved(projection: Callable[..., Any]) -> NDArray[np.float64]:
        square, scores = float(x @ x), U @ x
        alpha, beta = projection((1.0 - scores[:better]) / square, scores[better:] / square, _BOUND)
        return U + np.append(alpha, -beta)[:, None] * x

    calls: dict[str, Callable[[], NDArray[np.float64]]] = {
        "soft projection": partial(moved, project),
        "sorting": partial(moved, project_by_sorting),
        "clarabel, problem (19)": partial(moved, project_reduced),
    }
    if k <= _MOST_LABELS_FOR_WEIGHTS:
        calls["clarabel, problem (7)"] = partial(project_with_weights, x, U, better, _BOUND)
    return calls


def project_by_sorting(
    mu: NDArray[np.float64], nu: NDArray[np.float64], C: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The paper's Figure 3; knots that rounding makes negative are 0."""
    first, second = -np.sort(-mu), -np.sort(-nu)
    sums = np.cumsum(first), np.cumsum(second)
    of_mu = np.maximum.accumulate(np.maximum(sums[0] - np.arange(1, len(mu) + 1) * first, 0.0))
    of_nu = np.maximum.accumulate(np.maximum(sums[1] - np.arange(1, len(nu) + 1) * second, 0.0))
    knots = np.sort(np.concatenate((of_mu[of_mu < C], of_nu[of_nu < C], [C])))
    i, j = (np.searchsorted(of, knots, side="right") for of in (of_mu, of_nu))
    inner = (j * sums[0][i - 1] + i * sums[1][j - 1]) / (i + j)
    found = np.flatnonzero((inner >= knots) & (inner <= np.append(knots[1:], C)))
    at = found[0] if len(found) else len(knots) - 1
    if not len(found) and first[0] + second[0] <= 0.0:
        return np.zeros_like(mu), np.zeros_like(nu)
    z = inner[at] if len(found) else C
    shifts = (sums[0][i[at] - 1] - z) / i[at], (sums[1][j[at] - 1] - z) / j[at]
    return np.maximum(mu - shifts[0], 0.0), np.maximum(nu - shifts[1], 0.0)


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
    """Rise of the dual objective and gap, by visits to 1,000 instances of 100 labels.

    "visits" goes through the instances in a new random order each epoch, and no more: the
    paper's Figure 5. "sopopo" is the solver, which also extrapolates; its gap is from the best
    objective met.
    """
    data = bipartite_feedback(6, 60, seed=0) if tiny else bipartite_feedback(100, 1000, seed=0)
    for times in (1, 100):
        solver = rankplug.make_solver(
            "sopopo", C=times / data.n_samples, tol=1e-7, max_epochs=5 if tiny else 100
        )
        for way, told in (("visits", _visits), ("sopopo", _epochs)):
            for row in told(solver, data):
                yield {"n_threads": 1, "C_times_rows": times, "way": way, **row}


def _epochs(solver: Any, data: LabelRankingData) -> Iterator[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        history = solver.solve(data, random_state=0).history
    before = 0.0
    for step in history:
        dual = step["objective"] - step["duality_gap"]
        yield {
            "visits": step["n_iter"] * data.n_samples,
            "objective": step["objective"],
            "gap": step["duality_gap"],
            "dual_rise": (dual - before) / data.n_samples,
        }
        before = dual


def _visits(solver: Any, data: LabelRankingData) -> Iterator[dict[str, Any]]:
    """Rows of the first visits, of ends of epochs, and of some between them.

    `dual_rise` is the mean since the last row, of rises computed from the steps themselves: in
    differences of objectives they would drown.
    """
    problem, rng = solver._problem(data), np.random.default_rng(0)
    norms, (n, k) = (data.X**2).sum(axis=1), data.relevance.shape
    label = np.argsort(-data.relevance, axis=1, kind="stable")  # of each dual variable, A first
    sign = np.where(np.arange(k) < k // 2, 1.0, -1.0)
    dual = np.asarray(problem.graphs.dual).reshape(n, k)
    visit, last, risen = 0, 0, 0.0
    for _ in range(solver.max_epochs):
        for i in rng.permutation(n):
            before, own = dual[i].copy(), label[i]
            slack = sign * (data.relevance[i] - problem.weights @ data.X[i])[own]
            problem.epoch(np.array([i]))
            step = dual[i] - before
            risen += float(step @ slack - 0.5 * norms[i] * (step @ step))
            visit += 1
            if visit < _TOLD_EVERY * last and visit % n:
                continue
            dual_objective = problem.graphs.linear() - 0.5 * problem.squared_norm()
            loss = problem.graphs.loss(problem.scores(), np.inf)
            objective = 0.5 * problem.squared_norm() + loss
            yield {
                "visits": visit,
                "objective": objective,
                "gap": objective - dual_objective,
                "dual_rise": risen / (visit - last),
            }
            last, risen = visit, 0.0


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


def plot_soft_projection(source: Path, target: Path) -> None:
    """Time of a projection by labels: the two panels of Figure 6 of the SOPOPO paper."""
    table = results.read(source)
    figure, axes = figure_of(2)
    for axis, other in zip(axes, ("(7)", "(19)"), strict=True):
        for solver in dict.fromkeys(row["solver"] for row in table):
            if "clarabel" not in solver or other in solver:
                of_solver = [row for row in table if row["solver"] == solver]
                draw_line(axis, of_solver, "k", solver, "thread_cpu_s")
        axis.set(xlabel="labels k", ylabel="CPU seconds of a projection")
        axis.legend(frameon=False)
    figure.savefig(target, dpi=150)


def plot_phase_transition(source: Path, target: Path) -> None:
    """Rise of the dual objective and the gap by visits: Figure 8 of the SOPOPO paper."""
    table = results.read(source)
    figure, axes = figure_of(2)
    for axis, column in zip(axes, ("dual_rise", "gap"), strict=True):
        for times, way in dict.fromkeys((row["C_times_rows"], row["way"]) for row in table):
            line = [r for r in table if (r["C_times_rows"], r["way"]) == (times, way)]
            axis.loglog(
                [float(row["visits"]) for row in line],
                [max(float(row[column]), 1e-16) for row in line],
                label=f"{way}, C = {times} / instances",
                linestyle="-" if way == "visits" else ":",
            )
        axis.set(xlabel="visits to instances")
        axis.legend(frameon=False)
    axes[0].set(title="rise of the dual objective a visit")
    axes[1].set(title="duality gap")
    figure.savefig(target, dpi=150)
