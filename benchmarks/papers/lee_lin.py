"""The figures of Lee and Lin, "Large-scale linear rankSVM", Neural Computation 26 (2014).

Figure 4 compares structures that count pairs in one method, figures 5 to 7 methods: objective and
test metrics against the time of training. The tables are in `lee_lin_tables`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import rankplug
from benchmarks import results
from benchmarks.measure import alternate
from benchmarks.objective import Loss, objective
from benchmarks.papers.lee_lin_sets import (
    CS,
    Collection,
    choose,
    collections,
    quality,
    solver_of,
    web_search,
)
from benchmarks.plots import draw_line
from benchmarks.rivals.counting import CountedSquaredHinge, structures
from benchmarks.speed import Row, optimum, sizes
from rankplug.data import RankingData
from rankplug.exceptions import ConvergenceWarning
from rankplug.optim.newton_cg import Point
from rankplug.optim.tron import tron

_DEFAULT_TOL = 1e-3  # of the paper's (4.4): where its method stops
_TOL = 1e-6  # of the curves, which go on
_MOST_ITERATIONS = 1000
_MOST_POINTS = 25  # of a curve, evenly by the logarithm of the iteration
_TIME_LIMIT = 4.0  # CPU seconds of a training
_TINY_LIMIT = 0.02
_FIXED_CS = (100.0, 1.0, 1e-4)
_PANELS = 3  # in a line
_SLOW = ("direct", "prsvm+")  # O(l k)
_MOST_ROWS_OF_SLOW = 16_000


@dataclass
class Curve:
    """Weights by seconds of CPU, those that looking at them takes left out."""

    seconds: list[float] = field(default_factory=list)
    coef: list[NDArray[np.float64]] = field(default_factory=list)
    stop: int | None = None
    """The first point with the gradient of the paper's stopping rule."""
    limit: float = np.inf
    """Seconds."""
    started: float = field(default_factory=time.thread_time)
    _first_norm: float | None = None

    def add(self, coef: NDArray[np.float64], gradient_norm: float | None = None) -> bool:
        """Whether to go on."""
        now = time.thread_time()
        self.seconds.append(now - self.started)
        self.coef.append(coef.copy())
        if gradient_norm is not None:
            self._first_norm = self._first_norm or gradient_norm
            if self.stop is None and gradient_norm <= _DEFAULT_TOL * self._first_norm:
                self.stop = len(self.coef) - 1
        self.started += time.thread_time() - now
        return self.seconds[-1] < self.limit

    def points(self) -> list[int]:
        """Which of the points are shown: first, last, that of the stop, and some others."""
        last = len(self.coef) - 1
        some = np.geomspace(1, last + 1, _MOST_POINTS).round().astype(int) - 1
        return sorted({*some.tolist(), last, last if self.stop is None else self.stop})


def counting(tiny: bool, rounds: int) -> Iterator[Row]:
    """Figure 4: trainings that differ only in the structure that counts pairs, C = 1."""
    for collection in collections(tiny):
        data = collection.train
        kinds = [kind for kind in structures() if kind != "prsvm+"]
        calls = {kind: partial(_trust_region, kind, data, 1.0) for kind in kinds}
        curves: dict[str, list[Curve]] = {kind: [] for kind in kinds}
        for _ in range(rounds):
            for kind, call in calls.items():
                curves[kind].append(call())
        best = optimum(data, 1.0)
        for kind, runs in curves.items():
            for i in runs[0].points():
                seconds = [run.seconds[i] for run in runs if i < len(run.seconds)]
                value = objective(data, runs[0].coef[i], 1.0, "squared-hinge")
                yield {
                    "problem": collection.name,
                    **sizes(data),
                    "n_levels": _most_levels(data),
                    "C": 1.0,
                    "structure": kind,
                    "n_threads": 1,
                    "runs": len(seconds),
                    "n_iter": i,
                    "thread_cpu_s": median(seconds),
                    "excess": (value - best) / best,
                    "default_stop": int(i == runs[0].stop),
                }


def counting_levels(tiny: bool, rounds: int) -> Iterator[Row]:
    """One product with the Hessian's pairs, by structure, against levels, and against rows."""
    rows = 200 if tiny else 20_000
    levels = (2, 20, rows) if tiny else (2, 8, 32, 128, 512, 2048, 8192, rows)
    more_rows = (100, 200) if tiny else (1000, 4000, 16_000, 64_000, 256_000)
    tasks = [("levels", rows, k) for k in levels] + [("rows", n, n) for n in more_rows]
    rng = np.random.default_rng(0)
    for varied, n, k in tasks:
        utility = rng.normal(size=n)
        y = np.argsort(np.argsort(utility)) * k // n
        # Two thirds of the pairs are active, some of them in the wrong order.
        scores = 0.7 * utility + 0.7 * rng.normal(size=n)
        data = RankingData.from_arrays(scores[:, None], y.astype(np.float64))
        z = rng.normal(size=n)
        calls: dict[str, Callable[[], Any]] = {}
        for kind in structures():
            if kind not in _SLOW or n <= _MOST_ROWS_OF_SLOW or varied == "levels":
                loss = CountedSquaredHinge(data, kind)
                loss.move_to(np.ones(1))
                calls[kind] = partial(loss.pairs.laplacian, z)
        for kind, samples in alternate(calls, rounds).items():
            common = {"varied": varied, "n_samples": n, "n_levels": k, "structure": kind}
            yield {**common, "n_threads": 1, **samples.columns()}


def convergence(tiny: bool, _rounds: int) -> Iterator[Row]:
    """Figures 5 to 7: objective and test metrics by time; with the C that is best, and fixed."""
    for collection in (*collections(tiny), web_search(tiny)):
        best = choose(collection, "squared-hinge", CS)["pairwise_accuracy"]
        for figure, C in (("5, 6", best), *(("7", C) for C in _FIXED_CS)):
            yield from _compared(collection, figure, C, _TINY_LIMIT if tiny else _TIME_LIMIT)


def _compared(collection: Collection, figure: str, C: float, limit: float) -> Iterator[Row]:
    data, test = collection.train, collection.test
    curves = {name: train(data, C, limit) for name, (_, train) in _METHODS.items()}
    least: dict[Loss, tuple[float, float]] = {
        "squared-hinge": (optimum(data, C), 0.0),
        "hinge": _hinge_optimum(data, C, 2.0 * limit),
    }
    values = {
        name: {i: objective(data, curve.coef[i], C, _METHODS[name][0]) for i in curve.points()}
        for name, curve in curves.items()
    }
    for name, curve in curves.items():
        loss = _METHODS[name][0]
        reference, gap = least[loss]
        reached = [min(values[other].values()) for other in values if _METHODS[other][0] == loss]
        reference = min(reference, *reached)
        for i, value in values[name].items():
            yield {
                "problem": collection.name,
                **sizes(data),
                "figure": figure,
                "C": C,
                "method": name,
                "loss": loss,
                "n_threads": 1,
                "n_iter": i,
                "thread_cpu_s": curve.seconds[i],
                "objective": value,
                "excess": (value - reference) / reference,
                "reference_gap": gap,
                "default_stop": int(i == curve.stop),
                **quality(test, test.X @ curve.coef[i], collection.levels),
            }


def _trust_region(structure: str, data: RankingData, C: float, limit: float = np.inf) -> Curve:
    """The paper's method; `structure` says how it counts."""
    curve = Curve(limit=limit)
    loss = CountedSquaredHinge(data, structure)
    start = Point(np.zeros(data.n_features), loss.move_to(None), loss.gradient())

    def report(_n_iter: int, *, w: NDArray[np.float64], **values: float) -> bool:
        return curve.add(w, values["gradient_norm"])

    first = float(np.linalg.norm(start.gradient(C)))
    found = tron(
        loss, C, start, gradient_tol=_TOL * first, max_iter=_MOST_ITERATIONS, report=report
    )
    curve.add(found.point.w)
    return curve


def _solver(name: str, method: str, data: RankingData, C: float, limit: float) -> Curve:
    curve = Curve(limit=limit)
    limit = 50_000 if name == "cutting-plane" else _MOST_ITERATIONS
    solver = rankplug.make_solver(name, C=C, method=method, tol=_TOL, max_iter=limit, n_threads=1)

    def look(progress: Any) -> bool:
        return not curve.add(progress.model().coef, progress.values.get("gradient_norm"))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result: Any = solver.solve(data, callback=look)
    curve.add(result.model.coef)
    return curve


def _hinge_optimum(data: RankingData, C: float, limit: float) -> tuple[float, float]:
    """About the least objective, and how far above the minimum it may be, as a share."""
    started = time.thread_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result: Any = solver_of("hinge", C, 1e-6).solve(
            data, callback=lambda _progress: time.thread_time() - started > limit
        )
    return objective(data, result.model.coef, C, "hinge"), result.duality_gap / result.objective


_METHODS: dict[str, tuple[Loss, Callable[[RankingData, float, float], Curve]]] = {
    "tree-tron": ("squared-hinge", partial(_solver, "tree-tron", "newton")),
    "tree-tron, method tron": ("squared-hinge", partial(_solver, "tree-tron", "tron")),
    "TreeRankSVM (bmrm)": ("hinge", partial(_solver, "cutting-plane", "bmrm")),
    "cutting-plane": ("hinge", partial(_solver, "cutting-plane", "ocas")),
}
if "prsvm+" in structures():
    _METHODS["PRSVM+"] = ("squared-hinge", partial(_trust_region, "prsvm+"))


def _most_levels(data: RankingData) -> int:
    """Levels of the query that has most of them."""
    ptr = data.query_ptr
    return max(len(np.unique(data.relevance[a:b])) for a, b in pairwise(ptr))


def plot_counting(source: Path, target: Path) -> None:
    """The panels of Figure 4: relative difference from the optimum against time."""
    table = results.read(source)
    problems = list(dict.fromkeys(row["problem"] for row in table))
    n_lines = -(-len(problems) // _PANELS)
    figure = Figure(figsize=(5 * _PANELS, 4 * n_lines), layout="constrained")
    axes = figure.subplots(n_lines, _PANELS, squeeze=False).ravel()
    for axis in axes[len(problems) :]:
        axis.set_axis_off()
    for axis, problem in zip(axes, problems, strict=False):
        of_problem = [row for row in table if row["problem"] == problem]
        for kind in dict.fromkeys(row["structure"] for row in of_problem):
            _draw_curve(axis, [r for r in of_problem if r["structure"] == kind], kind, "excess")
        _draw_stop(axis, of_problem, "excess")
        axis.set(title=problem, xlabel="CPU seconds", ylabel="relative difference", yscale="log")
        axis.legend(frameon=False, fontsize="small")
    figure.savefig(target, dpi=130)


def plot_counting_levels(source: Path, target: Path) -> None:
    """Seconds of a product against levels, and against rows that are all levels."""
    table = results.read(source)
    figure = Figure(figsize=(10, 4), layout="constrained")
    titles = {"levels": "20,000 rows", "rows": "as many levels as rows"}
    for axis, varied in zip(figure.subplots(1, 2), titles, strict=True):
        for kind in dict.fromkeys(row["structure"] for row in table):
            line = [row for row in table if (row["varied"], row["structure"]) == (varied, kind)]
            column = "n_levels" if varied == "levels" else "n_samples"
            draw_line(axis, line, column, kind, "thread_cpu_s")
        axis.set(title=titles[varied], xlabel=varied, ylabel="CPU seconds of a product")
        axis.legend(frameon=False, fontsize="small")
    figure.savefig(target, dpi=130)


def plot_convergence(source: Path, target: Path) -> None:
    """Figures 5 and 6: three panels of each set, with the C that is best; figure 7 beside."""
    table = results.read(source)
    problems = list(dict.fromkeys(row["problem"] for row in table))
    columns = ["excess", "pairwise_accuracy", "mean_ndcg", *(f"{C:g}" for C in _FIXED_CS)]
    figure = Figure(figsize=(22, 3.2 * len(problems)), layout="constrained")
    axes = figure.subplots(len(problems), len(columns), squeeze=False)
    for line_of_axes, problem in zip(axes, problems, strict=True):
        for axis, column in zip(line_of_axes, columns, strict=True):
            fixed = column not in table[0]
            shown = "excess" if fixed else column
            rows = [row for row in table if row["problem"] == problem and row[shown]]
            if shown != "excess":  # w = 0, which ranks nothing, would set the scale
                rows = [row for row in rows if float(row["pairwise_accuracy"]) > 0.0]
            rows = [r for r in rows if (r["figure"] == "7") == fixed]
            rows = [r for r in rows if not fixed or float(r["C"]) == float(column)]
            if not rows:
                axis.set_axis_off()
                continue
            for method in _METHODS:
                line = [row for row in rows if row["method"] == method]
                _draw_curve(axis, line, method, shown)
            _draw_stop(axis, rows, shown)
            name = "relative difference" if shown == "excess" else shown.replace("_", " ")
            title = f"{problem}, C = {float(rows[0]['C']):.4g}"
            axis.set(title=title, xlabel="CPU seconds", ylabel=name)
            axis.set(xscale="log", yscale="log" if shown == "excess" else "linear")
    axes[0, 0].legend(frameon=False, fontsize="small")
    figure.savefig(target, dpi=80)


def _draw_curve(axis: Any, table: list[dict[str, str]], label: str, column: str) -> None:
    least = 1e-12 if column == "excess" else -np.inf
    x = [max(float(row["thread_cpu_s"]), 1e-4) for row in table]
    axis.plot(x, [max(float(row[column]), least) for row in table], marker=".", label=label)


def _draw_stop(axis: Any, table: list[dict[str, str]], column: str) -> None:
    """A line where the paper's stopping rule ends its method."""
    stops = [row for row in table if row["default_stop"] == "1"]
    stops = [row for row in stops if row.get("method", "tree-tron, method tron").endswith("tron")]
    if stops:
        axis.axhline(float(stops[-1][column]), color="gray", linestyle=":")
