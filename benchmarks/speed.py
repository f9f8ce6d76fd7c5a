"""Our own linear rankSVM against the speed of memory: one ``X @ v`` in the same process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import rankplug
from benchmarks.measure import alternate, peak_memory
from benchmarks.objective import objective
from benchmarks.problems import Problem, as_float32, small_real, text_scores, web_search
from rankplug.data import RankingData
from rankplug.solver import Solver, SolverResult

Row = dict[str, Any]

TOL = 1e-3
_PATH = tuple(1e-5 * 4.0**i for i in range(8))
_MULTIPLIES = 5


def passes(tiny: bool, rounds: int) -> Iterator[Row]:
    """Time of a whole solve over the time of one ``X @ v``, float64 and float32."""
    for problem in _synthetic(tiny):
        kinds = {"float64": problem.train, "float32": as_float32(problem.train)}
        for C in problem.Cs:
            solver = tree_tron(C)
            calls: dict[str, Callable[[], Any]] = {}
            for kind, data in kinds.items():
                calls[f"solve {kind}"] = _solving(solver, data)
                calls[f"multiply {kind}"] = multiplying(data)
            number = {name: _MULTIPLIES for name in calls if name.startswith("multiply")}
            samples = alternate(calls, rounds, number)
            best = optimum(problem.train, C)
            for kind, data in kinds.items():
                solve = samples[f"solve {kind}"]
                yield {
                    "problem": problem.name,
                    **sizes(data),
                    "dtype": kind,
                    "C": C,
                    "n_threads": 1,
                    **_outcome(solve.result, data, C, best),
                    **solve.columns(),
                    "multiply_s": samples[f"multiply {kind}"].median("thread_cpu"),
                    "ratio_to_multiply": solve.ratio(samples[f"multiply {kind}"], "thread_cpu"),
                    "ratio_to_float64": solve.ratio(samples["solve float64"], "thread_cpu"),
                }


def path(tiny: bool, rounds: int) -> Iterator[Row]:
    """Time of a path over eight values of C with warm starts, and of each value alone."""
    for problem in _synthetic(tiny):
        data = problem.train
        calls: dict[str, Callable[[], Any]] = {
            f"{C:g}": _solving(tree_tron(C), data) for C in _PATH
        }
        calls["path"] = partial(rankplug.path, tree_tron(1.0), data, _PATH)
        samples = alternate(calls, rounds)
        dearest = max((samples[f"{C:g}"] for C in _PATH), key=lambda s: s.median("thread_cpu"))
        along = samples["path"]
        common = {"problem": problem.name, **sizes(data), "n_threads": 1}
        for C, on_path in zip(_PATH, along.result, strict=True):
            alone, best = samples[f"{C:g}"], optimum(data, C)
            cold = {**common, "C": C, "start": "zero"}
            yield {**cold, **_outcome(alone.result, data, C, best), **alone.columns()}
            yield {**cold, "start": "path", **_outcome(on_path, data, C, best)}
        yield {
            **common,
            "C": "all",
            "start": "path",
            "n_passes": sum(result.n_passes for result in along.result),
            **along.columns(),
            "ratio_to_dearest": along.ratio(dearest, "thread_cpu"),
        }


def threads(tiny: bool, rounds: int) -> Iterator[Row]:
    """Wall time on 1, 2, 4, ... threads, up to the number of cores (two at least)."""
    counts = [1, 2]
    while counts[-1] * 2 <= (os.cpu_count() or 1):
        counts.append(counts[-1] * 2)
    for problem in _synthetic(tiny):
        C, data = problem.Cs[-1], problem.train
        samples = alternate({str(n): _solving(tree_tron(C, n), data) for n in counts}, rounds)
        one = samples["1"]
        for n in counts:
            coef, reference = _coef(samples[str(n)].result), _coef(one.result)
            yield {
                "problem": problem.name,
                **sizes(data),
                "C": C,
                "n_threads": n,
                **samples[str(n)].columns(),
                "speed_up": one.ratio(samples[str(n)], "wall"),
                "coef_difference": np.linalg.norm(coef - reference) / np.linalg.norm(reference),
            }


def memory(tiny: bool, rounds: int) -> Iterator[Row]:
    """Peak memory of a solve beyond X, each in a process of its own (Linux only)."""
    for name in ("web-search", "text-scores"):
        command = [sys.executable, "-m", "benchmarks", "memory", "--of", name, *["--tiny"] * tiny]
        # A fixed threshold gives large freed blocks back to the system at once.
        environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072"}
        outputs = [
            json.loads(subprocess.check_output(command, env=environment)) for _ in range(rounds)
        ]
        peak = median(output["peak_bytes"] for output in outputs)
        yield {**outputs[0], "peak_bytes": peak, "ratio_to_X": peak / outputs[0]["X_bytes"]}


def memory_of(name: str, tiny: bool) -> Row:
    """Solve one problem and say what memory it took; run by `memory` in a new process."""
    problem = next(problem for problem in _synthetic(tiny) if problem.name == name)
    C, data = problem.Cs[-1], problem.train
    peak = peak_memory(_solving(tree_tron(C), data))
    row = {"problem": name, **sizes(data), "C": C, "n_threads": 1}
    return {**row, "X_bytes": _bytes(data), "peak_bytes": peak}


def small(tiny: bool, rounds: int) -> Iterator[Row]:
    """Wall time of ``Ranker.fit`` with its validation on small public sets."""
    for problem in small_real():
        data, C = problem.train, 0.1
        ranker = rankplug.Ranker(tree_tron(C))
        call = partial(ranker.fit, data.X, data.relevance, qid=data.qid)
        samples = alternate({"fit": call}, rounds if tiny else 5 * rounds)
        row = {"problem": problem.name, **sizes(data), "C": C, "n_threads": 1}
        result = samples["fit"].result.result_
        best = optimum(data, C)
        yield {**row, **_outcome(result, data, C, best), **samples["fit"].columns()}


def optimum(data: RankingData, C: float) -> float:
    """The minimum, to about ten digits, evaluated by the common exact function."""
    result = rankplug.make_solver("tree-tron", C=C, tol=1e-8, max_iter=1000).solve(data)
    return objective(data, _coef(result), C, "squared-hinge")


def sizes(data: RankingData) -> Row:
    """Columns that describe the training data."""
    return {
        "n_queries": data.n_queries,
        "n_samples": data.n_samples,
        "n_features": data.n_features,
        "n_pairs": int(data.pair_counts.sum()),
    }


def _synthetic(tiny: bool) -> Iterator[Problem]:
    yield web_search(40, 20) if tiny else web_search()
    yield text_scores(400, 200) if tiny else text_scores()


def tree_tron(C: float, n_threads: int = 1) -> Solver:
    """The solver as all experiments run it."""
    return rankplug.make_solver("tree-tron", C=C, tol=TOL, n_threads=n_threads)


def _solving(solver: Solver, data: RankingData) -> Callable[[], SolverResult]:
    return partial(solver.solve, data)


def multiplying(data: RankingData) -> Callable[[], Any]:
    """One ``X @ v``, the unit of costs."""
    v = np.random.default_rng(0).normal(size=data.n_features).astype(data.X.dtype)
    return lambda: data.X @ v


def _coef(result: SolverResult) -> Any:
    model: Any = result.model
    return model.coef


def _outcome(result: SolverResult, data: RankingData, C: float, best: float) -> Row:
    value = objective(data, _coef(result), C, "squared-hinge")
    return {
        "status": result.status,
        "n_iter": result.n_iter,
        "n_passes": result.n_passes,
        "objective": value,
        "excess": (value - best) / best,
    }


def _bytes(data: RankingData) -> int:
    X = data.X
    parts = (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)
    return sum(part.nbytes for part in parts)
