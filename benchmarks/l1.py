"""The hinge loss: three methods of cutting-plane, and the scaling figure of TreeRankSVM."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import rankplug
from benchmarks import results
from benchmarks.measure import alternate
from benchmarks.objective import objective
from benchmarks.plots import draw_line, figure_of
from benchmarks.problems import Problem, large_queries, small_real, text_scores, web_search
from benchmarks.speed import TOL, Row, multiplying, sizes
from rankplug.optim.bundle import Planes
from rankplug.solver import SolverResult

_METHODS = ("ocas", "bmrm", "smoothed-newton")
_MOST_PLANES = 2000
_LAM = 1e-5  # of the paper's figure
_ROWS = tuple(1000 * 2**i for i in range(10))
_TIME_LIMIT = 60.0


def l1(tiny: bool, rounds: int) -> Iterator[Row]:
    """Time to a relative gap of 1e-3, in seconds and in units of one ``X @ v``."""
    for problem in _problems(tiny):
        for C in problem.Cs:
            for method in _METHODS:
                yield _solved(problem, C, method, rounds)


def l1_rows(tiny: bool, rounds: int) -> Iterator[Row]:
    """Time against rows, every utility distinct: lam = 1e-5 in the paper's problem."""
    for n in (200, 400) if tiny else _ROWS:
        problem = text_scores(n, 200 if tiny else 50_000)
        data = problem.train
        for method in ("ocas", "bmrm"):
            C = 1.0 / (2.0 * _LAM * float(data.pair_counts.sum()))
            yield {"lam": _LAM, **_solved(problem, C, method, rounds if n < 100_000 else 1)}


def _problems(tiny: bool) -> Iterator[Problem]:
    if tiny:
        yield replace(web_search(40, 20), Cs=(1e-3,))
        return
    yield from small_real()
    for problem in large_queries():
        yield replace(problem, Cs=problem.Cs[:1])
    yield replace(web_search(), Cs=(1e-3,))


def _solved(problem: Problem, C: float, method: str, rounds: int) -> Row:
    data = problem.train
    solver = rankplug.make_solver(
        "cutting-plane", C=C, method=method, tol=TOL, max_iter=_MOST_PLANES, n_threads=1
    )
    solve = partial(_timing_the_qp, partial(solver.solve, data, time_limit=_TIME_LIMIT))
    calls: dict[str, Callable[[], Any]] = {"solve": solve, "multiply": multiplying(data)}
    samples = alternate(calls, rounds, {"multiply": 5})
    result, qp_seconds = samples["solve"].result
    value = objective(data, result.model.coef, C, "hinge")
    return {
        "problem": problem.name,
        **sizes(data),
        "C": C,
        "solver": method,
        "n_threads": 1,
        "status": result.status,
        "n_iter": result.n_iter,
        "n_passes": result.n_passes,
        "objective": value,
        "relative_gap": result.duality_gap / value,
        **samples["solve"].columns(),
        "multiply_s": samples["multiply"].median("thread_cpu"),
        "ratio_to_multiply": samples["solve"].ratio(samples["multiply"], "thread_cpu"),
        "qp_share": qp_seconds / samples["solve"].timings[-1].thread_cpu,
    }


def _timing_the_qp(solve: Any) -> tuple[SolverResult, float]:
    """The result, and the thread CPU seconds spent on planes and the quadratic program."""
    with _timed_methods(Planes, "add", "minimise") as spent:
        result = solve()
    return result, sum(spent)


@contextmanager
def _timed_methods(owner: type, *names: str) -> Iterator[list[float]]:
    """Collect the thread CPU time of every call of some methods."""
    spent: list[float] = []

    def timed(original: Any, *arguments: Any) -> Any:
        start = time.thread_time()
        try:
            return original(*arguments)
        finally:
            spent.append(time.thread_time() - start)

    originals = {name: getattr(owner, name) for name in names}
    for name, original in originals.items():
        setattr(owner, name, lambda *arguments, _of=original: timed(_of, *arguments))
    try:
        yield spent
    finally:
        for name, original in originals.items():
            setattr(owner, name, original)


def plot_l1_rows(source: Path, target: Path) -> None:
    """CPU time against rows, as in Figure 1 of Airola et al. (2011)."""
    table = results.read(source)
    figure, (axis,) = figure_of(1)
    for solver in dict.fromkeys(row["solver"] for row in table):
        line = [row for row in table if row["solver"] == solver]
        draw_line(axis, line, "n_samples", solver, "thread_cpu_s")
    axis.set(title="text-scores, hinge loss", xlabel="rows", ylabel="CPU seconds, one thread")
    axis.legend(frameon=False)
    figure.savefig(target, dpi=150)
