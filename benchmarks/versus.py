"""rankplug beside its rivals: same data, same clock, same metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.measure import alternate
from benchmarks.objective import objective
from benchmarks.plots import draw_line, figure_of
from benchmarks.problems import (
    REAL_VALUED,
    Problem,
    embedded,
    large_queries,
    small_real,
    text_scores,
    web_search,
    with_levels,
)
from benchmarks.rivals import RIVALS, Rival
from benchmarks.speed import TOL, Row, optimum, sizes
from rankplug.metrics import evaluate

_TREES = {"trees": 100, "rate": 0.1}
_FEW_TREES = {"trees": 3, "rate": 0.1}


def rivals(tiny: bool, rounds: int) -> Iterator[Row]:
    """Every rival on every set it takes: time, objective where it has one, test metrics."""
    for problem in _head_to_head(tiny):
        yield from _compare(problem, list(RIVALS), rounds, tiny)


def rows(tiny: bool, rounds: int) -> Iterator[Row]:
    """Time against the number of rows."""
    for n in (20, 40) if tiny else (100, 300, 1000, 3000):
        problem = _at(web_search(n, 20 if tiny else 120), 1e-3)
        names = ["tree-tron", "linear-svc", "xgboost-pairwise", "lightgbm-lambdarank"]
        yield from _compare(problem, names, rounds, tiny)
    for n in (100, 200) if tiny else (2_000, 6_000, 20_000, 60_000, 200_000):
        problem = _at(text_scores(n, 200 if tiny else 50_000), 1e-6)
        yield from _compare(problem, ["tree-tron", "linear-svc"], rounds, tiny)


def levels(tiny: bool, rounds: int) -> Iterator[Row]:
    """Time against the number of levels of relevance in one query."""
    base = text_scores(200, 200) if tiny else text_scores()
    n_samples = base.train.n_samples
    for n in (2, 5, n_samples) if tiny else (2, 4, 8, 16, 64, 256, 1024, 16_384, n_samples):
        train = with_levels(base.train, n)
        problem = _at(replace(base, train=train), 1e-6)
        for row in _compare(problem, ["tree-tron"], rounds, tiny):
            yield {"n_levels": n, **row}


def _head_to_head(tiny: bool) -> Iterator[Problem]:
    if tiny:
        yield _at(web_search(40, 20), 1e-3)
        yield embedded("breast-cancer", (1e-3,))
        return
    yield embedded("digits-retrieval", (1e-3, 0.1))
    yield embedded("breast-cancer", (1e-3, 0.1))
    yield embedded("diabetes", (1e-3, 0.1), REAL_VALUED)
    yield from small_real()
    yield from large_queries()
    yield web_search()


def _at(problem: Problem, C: float) -> Problem:
    return replace(problem, Cs=(C,))


def _compare(problem: Problem, names: list[str], rounds: int, tiny: bool) -> Iterator[Row]:
    """Prepare every rival, then fit them in turn; linear ones once for each C.

    Rivals that are not installed are left out.
    """
    common = {"problem": problem.name, **sizes(problem.train), "n_threads": 1}
    calls, about, prepared = {}, {}, {}
    for rival in (RIVALS[name] for name in names if name in RIVALS):
        reason = rival.reason(problem.train)
        if reason is not None:
            yield {**common, "solver": rival.name, "note": reason}
            continue
        import_module(rival.module)  # here, so that no clock sees it
        preparing = partial(rival.prepare, problem.train)
        ready = alternate({"prepare": preparing}, 1)["prepare"]
        prepared[rival.name] = ready.median("wall")
        choices: list[dict[str, Any]] = [_FEW_TREES if tiny else _TREES]
        if rival.loss is not None:
            choices = [{"C": C, "tol": TOL} for C in problem.Cs]
        for params in choices:
            name = f"{rival.name} {params}"
            about[name] = (rival, params)
            calls[name] = partial(rival.fit, ready.result, **params)
    samples = alternate(calls, rounds)
    optima = {C: optimum(problem.train, C) for C in problem.Cs}
    for name, (rival, params) in about.items():
        fitted = samples[name].result
        yield {
            **common,
            "solver": rival.name,
            **params,
            "prepare_s": prepared[rival.name],
            **samples[name].columns(),
            "n_passes": fitted.passes,
            **_objective(problem, rival, params, fitted.coef, optima),
            **_metrics(problem, fitted.score(problem.test.X)),
        }


def _objective(
    problem: Problem, rival: Rival, params: Row, coef: Any, optima: dict[float, float]
) -> Row:
    """The value of the problem the rival states; the excess where the minimum is known."""
    if rival.loss is None:
        return {}
    C = params["C"]
    value = objective(problem.train, coef, C, rival.loss)
    row = {"loss": rival.loss, "objective": value}
    if rival.loss == "squared-hinge":
        row["excess"] = (value - optima[C]) / optima[C]
    return row


def _metrics(problem: Problem, scores: Any) -> dict[str, float]:
    test = problem.test
    return evaluate(test.relevance, scores, test.qid, list(problem.metrics))


def plot_rows(source: Path, target: Path) -> None:
    """One panel a data set, one line a solver, both axes logarithmic."""
    table = [row for row in results.read(source) if row["wall_s"]]
    problems = list(dict.fromkeys(row["problem"] for row in table))
    figure, axes = figure_of(len(problems))
    for axis, problem in zip(axes, problems, strict=True):
        of_problem = [row for row in table if row["problem"] == problem]
        for solver in dict.fromkeys(row["solver"] for row in of_problem):
            line = [row for row in of_problem if row["solver"] == solver]
            draw_line(axis, line, "n_samples", solver, "process_cpu_s")
        axis.set(title=problem, xlabel="rows", ylabel="CPU seconds, one thread")
        axis.legend(frameon=False)
    figure.savefig(target, dpi=150)


def plot_levels(source: Path, target: Path) -> None:
    """Time of a whole solve, and of one pass, against the number of levels."""
    table = results.read(source)
    figure, (whole, per_pass) = figure_of(2)
    for row in table:
        row["a_pass_s"] = str(float(row["thread_cpu_s"]) / float(row["n_passes"]))
    draw_line(whole, table, "n_levels", "tree-tron", "thread_cpu_s")
    draw_line(per_pass, table, "n_levels", "tree-tron", "a_pass_s")
    whole.set(title="whole solve", xlabel="levels of relevance", ylabel="CPU seconds")
    per_pass.set(title="one pass", xlabel="levels of relevance", ylabel="CPU seconds")
    per_pass.set_yscale("linear")
    per_pass.set_ylim(bottom=0)
    figure.savefig(target, dpi=150)
