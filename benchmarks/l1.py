"""The hinge loss: three methods of cutting-plane, and the share of their quadratic program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import rankplug
from benchmarks.measure import alternate, timed_methods
from benchmarks.objective import objective
from benchmarks.problems import Problem, large_queries, small_real, web_search
from benchmarks.speed import TOL, Row, multiplying, sizes
from rankplug.optim.bundle import Planes
from rankplug.solver import SolverResult

_METHODS = ("ocas", "bmrm", "smoothed-newton")
_MOST_PLANES = 2000
_TIME_LIMIT = 60.0


def l1(tiny: bool, rounds: int) -> Iterator[Row]:
    """Time to a relative gap of 1e-3, in seconds and in units of one ``X @ v``."""
    for problem in _problems(tiny):
        for C in problem.Cs:
            for method in _METHODS:
                yield _solved(problem, C, method, rounds)


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
    with timed_methods(Planes, "add", "minimise") as spent:
        result = solve()
    return result, sum(spent)
