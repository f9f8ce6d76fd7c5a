"""What a change made faster or slower: solves, paths, fits and studies before and after it.

`benchmarks.checkouts` says how two versions are compared.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import rankplug
from benchmarks import problems
from benchmarks.problems import Problem

if TYPE_CHECKING:
    from benchmarks.checkouts import Measurement

Call = Callable[[], float]
Case = tuple[str, str, str, Call]
"""Experiment, data, how, and what returns its passes over the data."""

_TOL = 1e-3
_RUNS = 3
_SHORT = 0.05  # seconds; what is shorter runs twenty times


def changes(tiny: bool, rounds: int) -> Iterator[dict[str, Any]]:
    """Seconds and passes of both versions; the ratio is the median over the rounds."""
    from benchmarks.checkouts import measure_in_turn  # which the other version may not have

    found: dict[tuple[str, ...], dict[str, list[Any]]] = {}
    commits = {}
    for version, commit, measured in measure_in_turn(__file__, tiny, rounds):
        commits[version] = commit
        for names, figures in measured:
            of_names = found.setdefault(tuple(names.values()), {})
            of_names.setdefault(version, []).append(figures)
    for (experiment, data, how), of in found.items():
        n_threads = 2 if experiment == "threads" else 1
        row = {"experiment": experiment, "data": data, "how": how, "n_threads": n_threads}
        for version, figures in of.items():
            row[f"{version}_s"] = median(one["seconds"] for one in figures)
            row[f"{version}_passes"] = figures[-1]["passes"]
        if "before" in of:
            pairs = zip(of["after"], of["before"], strict=True)
            row["ratio"] = median(a["seconds"] / b["seconds"] for a, b in pairs)
        of_commits = {f"{version}_commit": commit for version, commit in commits.items()}
        yield {**row, "runs": rounds, **of_commits}


def _measure_here(tiny: bool) -> Iterator[Measurement]:
    """Median seconds of a few runs: of the calling thread, of the clock for several threads."""
    for experiment, data, how, call in _cases(tiny):
        clock = time.perf_counter if experiment == "threads" else time.thread_time
        passes, seconds = call(), []  # the first one warms caches, and imports
        for _ in range(1 if tiny else _RUNS):
            number = 20 if seconds and seconds[0] < _SHORT else 1
            started = clock()
            for _ in range(number):
                call()
            seconds.append((clock() - started) / number)
        figures = {"seconds": median(seconds), "passes": passes}
        yield {"experiment": experiment, "data": data, "how": how}, figures


def _cases(tiny: bool) -> Iterator[Case]:
    """Small data first: what a process has allocated before changes how fast memory is."""
    for problem in problems.small_real():
        data = problem.train
        yield "small", problem.name, "Ranker.fit, C=0.1", _fit(problem, 0.1)
        yield "tuning", problem.name, "10 trials of 5 folds", _tune(data)
        yield "l1", problem.name, "ocas, C=0.1", _solve(data, 0.1, "cutting-plane")
    yield from _of_leaves(tiny)
    yield from _of_rows_and_levels(tiny)
    for problem in (_web(tiny), _text(tiny)):
        kinds = {"float64": problem.train, "float32": problems.as_float32(problem.train)}
        for kind, data in kinds.items():
            for C in problem.Cs:
                yield "passes", problem.name, f"{kind}, C={C:g}", _solve(data, C)
        data, C = problem.train, problem.Cs[-1]
        yield "path", problem.name, "8 C", _path(data, np.geomspace(1e-5, 0.16, 8), "sum")
        yield "threads", problem.name, "2 threads", _solve(data, C, n_threads=2)
        for method in ("ocas", "smoothed-newton"):
            planes = _solve(data, problem.Cs[0], "cutting-plane", method=method)
            yield "l1", problem.name, f"{method}, C={problem.Cs[0]:g}", planes


def _of_rows_and_levels(tiny: bool) -> Iterator[Case]:
    for n in (20, 40) if tiny else (100, 1000):
        data = problems.web_search(n, 20 if tiny else 120).train
        yield "rows", "web-search", f"{data.n_samples} rows, C=0.001", _solve(data, 1e-3)
    for n in (100, 200) if tiny else (2_000, 20_000):
        data = problems.text_scores(n, 200 if tiny else 50_000).train
        yield "rows", "text-scores", f"{n} rows, C=1e-06", _solve(data, 1e-6)
    base = _text(tiny).train
    for n in (2, 5) if tiny else (2, 16, 120, 16_384):
        data = problems.with_levels(base, n)
        yield "levels", "text-scores", f"{n} levels, C=1e-06", _solve(data, 1e-6)
    base = _web(tiny).train
    utility = base.X @ np.random.default_rng(0).normal(size=base.n_features)
    distinct = replace(base, relevance=np.argsort(np.argsort(utility)).astype(float))
    yield "levels", "web-search", "all distinct, C=1e-05", _solve(distinct, 1e-5)


def _of_leaves(tiny: bool) -> Iterator[Case]:
    from benchmarks import leaves
    from rankplug.data import JoinedMatrix

    for train, *_ in leaves._housing(tiny):
        trees = leaves._regression(train, 20 if tiny else 300)
        X = rankplug.make_map("leaves", trees=trees).fit(train, random_state=0).transform(train.X)
        data = leaves._on(train, JoinedMatrix([X]))
        yield "leaves", "california-housing", "11 C", _path(data, leaves._CS, "mean")


def _web(tiny: bool) -> Problem:
    return problems.web_search(40, 20) if tiny else problems.web_search()


def _text(tiny: bool) -> Problem:
    return problems.text_scores(400, 200) if tiny else problems.text_scores()


def _solve(data: Any, C: float, solver: str = "tree-tron", **params: Any) -> Call:
    made = rankplug.make_solver(solver, C=C, tol=_TOL, **{"n_threads": 1, **params})
    return lambda: made.solve(data).n_passes


def _path(data: Any, Cs: Any, reduction: str) -> Call:
    solver = rankplug.make_solver("tree-tron", reduction=reduction, n_threads=1)
    return lambda: sum(result.n_passes for result in rankplug.path(solver, data, tuple(Cs)))


def _fit(problem: Problem, C: float) -> Call:
    data = problem.train
    ranker = rankplug.Ranker(rankplug.make_solver("tree-tron", C=C, n_threads=1))
    fit = partial(ranker.fit, data.X, data.relevance, qid=data.qid)
    return lambda: fit().result_.n_passes


def _tune(data: Any) -> Call:
    solver = rankplug.make_solver("tree-tron", n_threads=1)
    tune = partial(rankplug.tune, solver, data, n_trials=10, pruner=None, progress=False)
    return lambda: sum(trial.user_attrs.get("n_passes", 0.0) for trial in tune().study.trials)


if __name__ == "__main__":
    measured = list(_measure_here("--tiny" in sys.argv))
    print(json.dumps({"package": rankplug.__file__, "rows": measured}))
