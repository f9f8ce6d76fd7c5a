"""Odd problems, and whether a solver says of its results what an interior-point solver finds.

A seed makes data, parameters and a way to ask: cold, from another model, along a path of C, with
early stopping, with a callback that stops, or with no time.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from scipy import sparse

import rankplug
from rankplug.data import LabelRankingData, RankingData
from rankplug.exceptions import ConvergenceWarning, DataError
from rankplug.maps import MappedModel
from rankplug.models import LabelLinearModel, LinearModel
from rankplug.optim import preconditioners
from rankplug.solver import Solver, SolverResult, iterate_path
from rankplug.solver.result import tells_apart
from rankplug_plugins.mapped.solver import read_solver
from tests.interior_point import Top, error_of_scores
from tests.stated_problems import Data, dense, kernel_of, problem_of

Choices = dict[str, list[Any]]


def top_two(relevance: Any) -> list[Any]:
    """A decomposition of one's own: the best item against the others, weighed."""
    known = np.flatnonzero(~np.isnan(relevance))
    best = known[np.argmax(relevance[known])] if len(known) else 0
    beaten = [int(i) for i in known if relevance[i] < relevance[best]]
    return [([int(best)], beaten, 2.5)] if beaten else []


def own_kernel(X: Any, Z: Any) -> Any:
    """A kernel of one's own."""
    return 1.0 + dense(X) @ dense(Z).T


OF_LOSS: Choices = {
    "reduction": ["mean", "query-mean"],
    "pair_weight": ["gain", "relevance"],
    "document_pairs": ["product"],
    "pairs": ["adjacent"],
}
PAIRS: Choices = {"preconditioner": ["cholesky", "diagonal", "none"]} | OF_LOSS
TOP: Choices = {"scope": ["global"], "threshold": [0.0, 1.0]}
KERNELS: Choices = {
    "kernel": ["linear", "rbf", "poly", own_kernel],
    "gamma": [0.01, 1.0],
    "coef0": [1.0],
    "degree": [2],
    "cache_mb": [1e-3],
}
PATTERNS: Choices = KERNELS | {
    "operations": ["new", "new+old", "new+optimize"],
    "gap": ["absolute"],
    "patterns": ["items", "pairs"],
    "margin": ["graded"],
    "online": [True],
}
VARIANTS: dict[str, tuple[dict[str, Any], Choices]] = {
    "tree-tron": ({}, PAIRS),
    "tree-tron tron": ({"method": "tron"}, PAIRS),
    "tree-tron nystrom": ({"preconditioner": "nystrom"}, OF_LOSS),
    "cutting-plane": ({"max_iter": 300}, PAIRS),
    "cutting-plane bmrm": ({"method": "bmrm", "max_iter": 300}, PAIRS),
    "cutting-plane smoothed-newton": ({"method": "smoothed-newton", "max_iter": 500}, PAIRS),
    "toppush": (
        {"max_iter": 1000},
        TOP | {"top_k": [2, 3, 100], "loss": ["logistic", "exponential"]},
    ),
    "toppush apg": ({"method": "apg", "max_iter": 500}, TOP),
    "a2dm2": (
        {"max_iter": 300},
        TOP
        | {
            "variant": ["a2dm2", "a2dm2-restart"],
            "lam1": [1e-9, 1e-2],
            "lam2": [1e-9, 1e-2],
            "rho": [0.1, 10.0],
            "eta": [1.0, 0.5],
            "relaxation": [1.0],
            "clamp": [True],
        },
    ),
    "sopopo": (
        {"max_epochs": 200},
        KERNELS
        | {
            "decomposition": [
                "adjacent-layers", "all-pairs", "top-vs-rest", "all-layers", top_two
            ],
            "weights": ["mean"],
            "shrinking": [False],
        },
    ),
    "larank": ({"epochs": 200}, PATTERNS),
    "larank cyclic": ({"epochs": 200, "schedule": "cyclic"}, PATTERNS),
    "mapped": (
        {"map": "splines"},
        {
            "map": ["identity", "nystroem", "fourier + identity", {"leaves": {"n_estimators": 2}}],
            "solver": ["cutting-plane", {"larank": {"epochs": 100}}],
        },
    ),
}  # fmt: skip

WAYS = {"plain": 0.55, "init": 0.15, "path": 0.1, "valid": 0.1, "callback": 0.05, "late": 0.05}


# -- data ------------------------------------------------------------------------------------------


def odd_features(rng: np.random.Generator, n: int) -> Any:
    """Few or many columns, ties, duplicates, constants, offsets, all scales, any kind of matrix."""
    d = int(rng.choice([1, 2, 5, 40]))
    X = rng.normal(size=(n, d))
    if rng.random() < 0.25:
        X = np.round(X)
    if rng.random() < 0.15:
        X = rng.normal(size=(n, 1)) * rng.normal(size=d) + 1e-3 * X
    if rng.random() < 0.2:
        X[rng.integers(0, n, n // 3)] = X[0]
    if rng.random() < 0.15:
        X[rng.random(size=X.shape) < 0.8] = 0.0
    if rng.random() < 0.2:
        X[:, rng.integers(0, d)] = rng.choice([0.0, 1.0, -1e3])
    _move(rng, X)
    kind = rng.choice(["plain", "float32", "fortran", "csr", "csr32"], p=[0.5, 0.1, 0.1, 0.2, 0.1])
    X = X.astype(np.float32 if kind.endswith("32") else np.float64)
    if kind == "fortran":
        X = np.asfortranarray(X)
    return sparse.csr_array(X) if kind.startswith("csr") else X


def _move(rng: np.random.Generator, X: Any) -> None:
    """Add an offset, and take other units, of all columns or of each."""
    offset, scale = rng.random(2)
    if offset < 0.25:
        X += 10.0 ** rng.integers(0, 5)
    elif offset < 0.3:
        X[:, 0] += 1e6
    if scale < 0.3:
        X *= 10.0 ** rng.uniform(-6, 6)
    elif scale < 0.45:
        X *= 10.0 ** rng.uniform(-3, 3, X.shape[1])


def odd_labels(rng: np.random.Generator) -> LabelRankingData:
    """Classes, relevance with ties, or some labels that are not compared."""
    n, k = int(rng.integers(2, 12)), int(rng.integers(2, 6))
    X = odd_features(rng, n)
    kind = rng.random()
    if kind < 0.3:
        y = rng.integers(0, k, n)
        y[:2] = [0, 1]
        return LabelRankingData.from_arrays(X, y)
    Y = rng.integers(0, int(rng.choice([2, 3, 9])), (n, k)).astype(float)
    if kind < 0.5:
        Y = rng.normal(size=(n, k)) * 10.0 ** rng.integers(-1, 2)
    if kind > 0.8:
        Y[rng.random(size=Y.shape) < 0.3] = np.nan
    Y[0, :2] = [0.0, 1.0]
    return LabelRankingData.from_arrays(X, Y, ranks=False)


def odd_documents(rng: np.random.Generator, *, weights: bool) -> RankingData:
    """Queries of one level or one row, weights of zero, any relevance, few rows or more."""
    n = int(rng.choice([rng.integers(3, 12), rng.integers(12, 30), 80], p=[0.5, 0.4, 0.1]))
    X = odd_features(rng, n)
    y = rng.integers(0, int(rng.choice([2, 3, 9])), n).astype(float)
    if rng.random() < 0.15:
        y = np.round(rng.normal(size=n) * 10.0 ** rng.integers(-1, 2), 3)
    qid = np.sort(rng.integers(0, rng.integers(1, 6), n))
    if n == 80:
        qid = np.arange(n) // 10
    elif rng.random() < 0.2:
        y[qid == qid[-1]] = 1.0
    if rng.random() < 0.5:
        qid = rng.permutation(qid)
    y[:2], qid[:2] = [0.0, 1.0], qid[0]
    given: dict[str, Any] = {}
    if rng.random() < 0.3:
        of_query = 10.0 ** rng.uniform(-3, 3, 99)
        of_query[rng.random(99) < 0.2] = 0.0
        of_query[qid[0]] = 1.0
        given["sample_weight"] = of_query[qid]
    if weights and rng.random() < 0.3:
        given["document_weight"] = 10.0 ** rng.uniform(-2, 2, n)
        given["document_weight"][rng.random(n) < 0.2] = 0.0
        given["document_weight"][:2] = 1.0
    return RankingData.from_arrays(X, y, qid, **given)


# -- a solver and how it is asked ------------------------------------------------------------------


@dataclass
class Asked:
    """A result, what was told with it, and what it is the result of."""

    solver: Solver
    data: Data
    result: SolverResult
    told: list[Any]
    base: Any
    way: str


def ask(variant: str, seed: int) -> Asked | str:
    """Solve the problem of a seed; or why it was refused."""
    rng = np.random.default_rng((seed, *variant.encode()))
    solver, data = draw(variant, rng)
    way = str(rng.choice(list(WAYS), p=list(WAYS.values())))
    if way == "path" and not hasattr(solver, "C"):
        way = "plain"
    if getattr(solver, "online", False):
        way = "online"
        solver.set_params(kernel="linear")
    # Problems so small are worth no approximation of their Hessian, which others are to test.
    at_once = {"_RANK": 3, "_LEAST_RANK": 1, "_WORTH_RANKS": 1} if "nystrom" in variant else {}
    with (
        warnings.catch_warnings(record=True) as told,
        mock.patch.multiple(preconditioners, **at_once) if at_once else nullcontext(),
    ):
        warnings.simplefilter("always")
        try:
            given = arguments(way, solver, data, rng)
            if way == "path":
                results = iterate_path(solver, data, [solver.C / 100.0, solver.C])
                next(results)
            told.clear()
            result = (
                next(results) if way == "path" else solver.solve(data, random_state=seed, **given)
            )
        except DataError as error:
            return str(error)
    base = np.ravel(given["init"].coef) if way == "online" else None
    return Asked(solver, data, result, list(told), base, way)


def draw(variant: str, rng: np.random.Generator) -> tuple[Any, Data]:
    """A solver with some parameters of its variant, and data that it takes."""
    fixed, choices = VARIANTS[variant]
    own = {
        key: values[rng.integers(len(values))]
        for key, values in choices.items()
        if rng.random() < 0.3
    }
    solver = rankplug.make_solver(variant.split()[0], **fixed | own)
    if "label-ranking" in solver.tags.tasks and rng.random() < 0.35:
        data: Data = odd_labels(rng)
    else:
        data = odd_documents(rng, weights=solver.takes_document_weights())
    if data.n_labels is not None and own.get("preconditioner") == "cholesky":
        solver.set_params(preconditioner="auto")  # which labels do not take
    tol = float(10.0 ** -rng.integers(2, 9))
    key = "solver__tol" if solver.name == "mapped" else "tol"
    solver.set_params(**{key: tol}, **weight_of_loss(solver, data, rng))
    if hasattr(solver, "max_iter") and rng.random() < 0.05:
        solver.set_params(max_iter=int(rng.integers(1, 6)))
    return solver, data


def arguments(way: str, solver: Any, data: Data, rng: np.random.Generator) -> dict[str, Any]:
    """What `Solver.solve` is given beside the data."""
    if way == "online":
        return {"init": odd_model(data, rng)}
    if way == "init" and (solver.tags.warm_start or solver.tags.takes_init):
        if rng.random() < 0.5:
            return {"init": odd_model(data, rng)}
        key = "C" if hasattr(solver, "C") else "lam"
        other = rankplug.make_solver(solver.name, **solver.get_params())
        other.set_params(**{key: 0.01 * getattr(solver, key)})
        return {"init": other.solve(data, random_state=0)}
    if way == "valid" and hasattr(solver, "early_stopping_rounds"):
        solver.set_params(early_stopping_rounds=2)
        return {"valid": shuffled(data, rng)}
    if way == "late":
        return {"time_limit": 1e-9}
    last = int(rng.integers(1, 6))
    return {"callback": lambda step: step.n_iter >= last} if way == "callback" else {}


def shuffled(data: Data, rng: np.random.Generator) -> Data:
    """Other preferences of the same rows."""
    if isinstance(data, LabelRankingData):
        Y = rng.permutation(data.relevance)
        return LabelRankingData.from_arrays(data.X, Y, labels=data.labels, ranks=False)
    y = rng.permutation(data.relevance)
    y[:2] = [0.0, 1.0]
    return RankingData.from_arrays(data.X, y, np.arange(len(y)) // len(y))


def odd_model(data: Data, rng: np.random.Generator) -> Any:
    """Weights that make scores of some size."""
    size = np.abs(dense(data.X)).max() or 1.0
    d, scale = data.n_features, 10.0 ** rng.uniform(-3, 1) / size
    if isinstance(data, LabelRankingData):
        return LabelLinearModel(scale * rng.normal(size=(data.n_labels, d)), data.labels)
    return LinearModel(scale * rng.normal(size=d))


def weight_of_loss(solver: Any, data: Data, rng: np.random.Generator) -> dict[str, float]:
    """Mostly from where little is learnt to where the loss is all, at times far beyond."""
    if rng.random() < 0.15:
        weight = 10.0 ** rng.uniform(-8, 8)
        return {"C": weight} if hasattr(solver, "C") else {"lam": weight}
    if kernel_of(solver, data) is not None or solver.name == "mapped":
        size = 1.0
    else:
        X = dense(data.X)
        size = float(np.square(X - X.mean(axis=0)).sum(axis=1).max()) or 1.0
    if hasattr(solver, "C"):
        return {"C": 10.0 ** rng.uniform(-3, 5) / size}
    return {"lam": size * 10.0 ** rng.uniform(-6, 1)}


# -- what must hold --------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """How a solve ended, and whether the interior-point solver came as close to the minimum."""

    status: str
    sharp: bool = True


def check(variant: str, seed: int) -> Outcome:
    """Solve an odd problem; assert that objective, gap, status and warnings are what they say."""
    asked = ask(variant, seed)
    if isinstance(asked, str):
        return Outcome("refused")
    solver, result, data = within(asked)
    problem = problem_of(solver, data, asked.base)
    value, rounding = evaluate(problem, solver, data, result)
    upper = problem.upper_bound()
    where = (
        f"{variant}, seed {seed} ({asked.way}): {solver} on {data}: {result}; value {value!r}, "
        f"upper bound {upper!r}, rounding {rounding:.3g}"
    )
    objective, gap = result.objective, result.duality_gap
    if objective is None or gap is None:
        assert asked.way in ("callback", "late"), where
        return Outcome(result.status)
    assert abs(objective - value) <= rounding, f"objective: {where}"
    assert gap >= -rounding, f"sign of the gap: {where}"
    hidden = 2e-3 * solver.tol * abs(objective)  # what need not be told of rounding errors
    assert objective - gap <= upper + rounding + hidden, f"bound: {where}"
    values = [row["objective"] for row in result.history if "objective" in row]
    assert all(one >= objective - gap - rounding for one in values), f"history: {where}"
    warned = [str(one.message) for one in asked.told if "before reaching" in str(one.message)]
    if result.status == "converged":
        slack = rounding if asked.base is not None else 1e-9 * abs(value)
        check_promise(problem, solver, result, value, upper + slack, where)
        assert not warned, f"needless warning {warned}: {where}"
    elif asked.way not in ("callback", "late") and result.best_iter is None:
        silent = getattr(solver, "online", False) and result.status == "max_iter"
        stopped_early = getattr(solver, "early_stopping_rounds", None) is not None
        assert warned or silent or stopped_early, f"no warning: {where}"
    if asked.way == "late":
        assert result.status in ("time_limit", "converged"), where
    if result.status == "max_iter":
        limit = getattr(solver, solver.iteration_limit) or 1000  # larank's default
        assert result.n_iter == limit, f"n_iter: {where}"
    if result.status == "converged" and not tells_apart(result.model, data):
        others = [one for one in asked.told if one.category is not ConvergenceWarning]
        assert others, f"ranks nothing, without a word: {where}"
    return Outcome(result.status, upper <= value * (1.0 + solver.tol) + rounding)


def within(asked: Asked) -> tuple[Any, SolverResult, Data]:
    """The solver, its result and its data; those within one of mapped features."""
    solver, result, data = asked.solver, asked.result, asked.data
    if not isinstance(result.model, MappedModel):
        return solver, result, data
    inner = read_solver(solver.solver).set_params(C=solver.C)
    columns = result.model.map.transform(data.X).toarray()
    return inner, replace(result, model=result.model.model), replace(data, X=columns)


def evaluate(problem: Any, solver: Any, data: Data, result: SolverResult) -> tuple[float, float]:
    """The objective at the model, and by how much rounding may change it."""
    model = result.model
    if not hasattr(model, "dual_coef"):
        w = np.asarray(model.coef, dtype=np.float64).ravel()
        value = problem.value(w)
        if isinstance(problem, Top):
            rows = np.concatenate((problem.positives, problem.negatives)) + problem.origin
            rounding = problem.rounding(problem.arguments(w), error_of_scores(rows, w))
        else:
            ahead = problem.differences @ w
            rounding = problem.rounding(ahead, error_of_scores(problem.items, w))
            if solver.name == "tree-tron" or getattr(solver, "method", "") == "smoothed-newton":
                # Sums over pairs are taken from sums over rows.
                terms = float(problem.weight.sum()) * (1.0 + np.abs(ahead).max()) ** 2
                rounding += 1e-15 * terms
    else:
        K, coef = model.kernel(model.support, model.support), model.dual_coef
        scores = model.predict(data.X).ravel()
        norm = float(np.sum(coef * (K @ coef)))
        ahead = scores[problem.better] - scores[problem.worse]
        value = problem.value_of(ahead, norm)
        most = model.kernel.condition(model.support) * np.abs(K).max() * np.abs(coef).sum()
        rounding = problem.rounding(ahead, 4e-15 * most) + 4e-15 * most * np.abs(coef).sum()
    if getattr(solver, "online", False):  # a gap of such a size is none
        rounding += (
            1e-13 * problem.weight.sum() * (1.0 + np.abs(problem.items @ problem.base).max())
        )
    return value, rounding + 1e-7 * abs(value)


def check_promise(
    problem: Any, solver: Any, result: SolverResult, value: float, upper: float, where: str
) -> None:
    """What "converged" says, by the docstrings."""
    gap, objective, tol = result.duality_gap, result.objective, solver.tol * (1.0 + 1e-6)
    assert gap is not None
    assert objective is not None
    promised = tol * (solver.C if getattr(solver, "gap", "") == "absolute" else abs(objective))
    if solver.name == "a2dm2" and gap > promised:
        own = problem.value_of_13(np.asarray(result.model.coef))
        least = problem.upper_bound_of_13()
        assert own <= least + 2.0 * tol * own, f"(13) {own!r} {least!r}: {where}"
        return
    assert gap <= promised, f"promise: {where}"
    assert value <= upper + 1.01 * promised, f"minimum: {where}"
