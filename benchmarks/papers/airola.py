"""The experiment of the paper of TreeRankSVM: its Figure 1.

Airola, Pahikkala and Salakoski, "An Improved Training Algorithm for the Linear Ranking Support
Vector Machine", ICANN (2011): the cost of a subgradient, the run time and the test error against
rows, of counting in a tree and of going through all pairs.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import rankplug
from benchmarks import results
from benchmarks.measure import alternate, timed_methods
from benchmarks.objective import Loss, objective
from benchmarks.plots import draw_line
from benchmarks.problems import large_queries, text_scores
from rankplug import RankingData, read_data
from rankplug.exceptions import ConvergenceWarning
from rankplug.metrics import evaluate
from rankplug.models import linear_weights
from rankplug.objectives import Hinge
from rankplug.optim.bundle import Planes, bundle_method

_LAM = 1e-5
_EPSILON = 1e-3  # largest gap of ``lam |w|^2`` plus the mean loss of a pair
_MOST_PLANES = 5000
_TIME_LIMIT = 90.0  # seconds; after them a row without a result says what a subgradient costs
_MOST_ROWS_OF_PAIRS = 64_000  # where one subgradient takes seconds
_MOST_ROWS_TO_REPEAT = 20_000
_RESTS = "time_limit"


@dataclass(frozen=True)
class Collection:
    """One query with real-valued utilities; the first n rows of `train` make a smaller one."""

    name: str
    train: RankingData
    test: RankingData
    rows: tuple[int, ...]


def airola(tiny: bool, rounds: int) -> Iterator[dict[str, Any]]:
    """Cost of a subgradient, time and test error against rows, by how pairs are counted."""
    for collection in _collections(tiny):
        for n in collection.rows:
            whole = collection.train
            data = RankingData.from_arrays(whole.X[:n], whole.relevance[:n])
            for method, solve in _METHODS.items():
                if method == "PairRSVM" and n > _MOST_ROWS_OF_PAIRS:
                    continue
                often = n <= _MOST_ROWS_TO_REPEAT and method != "PairRSVM"
                found = _measured(data, solve, rounds if often else 1)
                if found["status"] != _RESTS:
                    coef = found.pop("coef")
                    error = 1.0 - _accuracy(collection.test, coef)
                    loss: Loss = "squared-hinge" if method == "tree-tron" else "hinge"
                    lam = found["lam"]
                    value = objective(data, coef, _weight(data, lam), loss)
                    found |= {"test_error": error, "objective": 2.0 * lam * value}
                found.pop("coef", None)
                row = {"problem": collection.name, "n_samples": n, "n_features": data.n_features}
                yield {**row, "method": method, "n_threads": 1, **found}


def _collections(tiny: bool) -> Iterator[Collection]:
    if tiny:
        yield _similar_to_one("synthetic documents", *_synthetic(400, 200), (100, 200))
        return
    if "RANKPLUG_DATA" in os.environ:
        folder = Path(os.environ["RANKPLUG_DATA"]) / "reuters_money_fx"
        train = read_data(folder / "reuters.train.txt.gz")
        test = read_data(folder / "reuters.test.txt.gz", like=train)
        yield _similar_to_one("Reuters", train.X, test.X, (1000, 2000, 4000, train.n_samples - 1))
        *_, houses = large_queries()
        yield Collection("cadata", houses.train, houses.test, (1000, 2000, 4000, 8000, 16_000))
    rows = tuple(1000 * 2**i for i in range(10))
    yield _similar_to_one("synthetic documents", *_synthetic(rows[-1] + 1, 50_000), rows)


def _synthetic(n_documents: int, n_features: int) -> tuple[Any, Any]:
    problem = text_scores(n_documents, n_features)
    return problem.train.X, problem.test.X[:20_000]


def _similar_to_one(name: str, train: Any, test: Any, rows: tuple[int, ...]) -> Collection:
    """Utilities as the paper makes them: products with one document, which is taken out."""
    order = np.random.default_rng(0).permutation(train.shape[0])
    target, rest = train[order[0]], train[order[1:]]
    made = [RankingData.from_arrays(X, (X @ target.T).toarray().ravel()) for X in (rest, test)]
    return Collection(name, made[0], made[1], rows)


def _weight(data: RankingData, lam: float) -> float:
    """C of ``1/2 |w|^2 + C`` times the sum of losses: the paper's problem divided by 2 lam."""
    return 1.0 / (2.0 * lam * float(data.pair_counts.sum()))


def _accuracy(data: RankingData, coef: NDArray[np.float64]) -> float:
    found = evaluate(data.relevance, data.X @ coef, None, "pairwise_accuracy")
    return float(found["pairwise_accuracy"])


def _measured(
    data: RankingData, solve: Callable[[RankingData], dict[str, Any]], rounds: int
) -> dict[str, Any]:
    samples = alternate({"solve": partial(solve, data)}, rounds)["solve"]
    return {"n_pairs": int(data.pair_counts.sum()), **samples.result, **samples.columns()}


def _cutting_plane(method: str, data: RankingData, lam: float = _LAM) -> dict[str, Any]:
    largest_gap = _EPSILON / (2.0 * lam)
    solver = rankplug.make_solver(
        "cutting-plane",
        C=_weight(data, lam),
        method=method,
        tol=1e-12,
        max_iter=_MOST_PLANES,
        n_threads=1,
    )
    with timed_methods(Hinge, "move_to", "gradient") as spent, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = solver.solve(
            data,
            time_limit=_TIME_LIMIT,
            callback=lambda progress: progress.values["duality_gap"] <= largest_gap,
        )
    gap = float(result.duality_gap or 0.0)
    return {
        "lam": lam,
        "status": "converged" if gap <= largest_gap else result.status,
        "n_iter": result.n_iter,
        "gap": 2.0 * lam * gap,
        # ocas finds most of its planes on the line, from scores that are known.
        **({"subgradient_s": sum(spent) / (result.n_iter + 1)} if method == "bmrm" else {}),
        "coef": linear_weights(result.model),
    }


def _all_pairs(data: RankingData) -> dict[str, Any]:
    """The plain cutting plane method, with PairRSVM's way to count."""
    loss, largest_gap = HingeOfListedPairs(data), _EPSILON / (2.0 * _LAM)
    started = time.perf_counter()

    def report(_n_iter: int, **values: Any) -> bool:
        late = time.perf_counter() - started > _TIME_LIMIT
        return not late and values["duality_gap"] > largest_gap

    with timed_methods(HingeOfListedPairs, "move_to", "gradient") as spent:
        found = bundle_method(
            loss,
            _weight(data, _LAM),
            Planes(data.n_features),
            None,
            method="bmrm",
            tol=1e-12,
            max_iter=_MOST_PLANES,
            report=report,
        )
    converged = found.bracket.gap <= largest_gap
    return {
        "lam": _LAM,
        "status": "converged" if converged else _RESTS,
        "n_iter": found.n_iter,
        "gap": 2.0 * _LAM * found.bracket.gap,
        "subgradient_s": sum(spent) / (found.n_iter + 1),
        "coef": found.bracket.w,
    }


def _squared_hinge(data: RankingData) -> dict[str, Any]:
    """The loss of PRSVM, to the default tolerance."""
    result = rankplug.make_solver("tree-tron", C=_weight(data, _LAM), n_threads=1).solve(data)
    told = {"lam": _LAM, "status": result.status, "n_iter": result.n_iter}
    return {**told, "coef": linear_weights(result.model)}


_METHODS: dict[str, Callable[[RankingData], dict[str, Any]]] = {
    "TreeRSVM": partial(_cutting_plane, "bmrm"),
    "PairRSVM": _all_pairs,
    "cutting-plane": partial(_cutting_plane, "ocas"),
    "cutting-plane, lam = 1e-6": partial(_cutting_plane, "ocas", lam=1e-6),
    "tree-tron": _squared_hinge,
}


class HingeOfListedPairs:
    """The hinge loss of the pairs of one query, each row against all others: O(n^2) a time.

    It counts what a tree counts, ``c_i`` and ``d_i`` of the paper's (3), by the same comparison.
    """

    def __init__(self, data: RankingData) -> None:
        order = np.argsort(-data.relevance, kind="stable")
        self._X = data.X[order]
        falling = -data.relevance[order]
        self._better = np.searchsorted(falling, falling, side="left")  # rows 0 to here
        self._worse = np.searchsorted(falling, falling, side="right")  # rows from here
        self._net = np.zeros(len(order))
        self._space = np.empty(len(order))
        self.n_columns = data.n_features
        self.n_passes = 0.0

    def move_to(self, w: NDArray[np.float64] | None) -> float:
        """Go to `w` (0 for None) and return the loss there."""
        self.n_passes += w is not None
        s = np.zeros(len(self._net)) if w is None else self._X @ w
        loss, space = 0.0, self._space
        for i, (better, worse) in enumerate(zip(self._better, self._worse, strict=True)):
            c = np.count_nonzero(np.subtract(s[:better], s[i], out=space[:better]) < 1.0)
            d = np.count_nonzero(np.subtract(s[i], s[worse:], out=space[worse:]) < 1.0)
            self._net[i] = c - d
            loss += c
        return loss + float(self._net @ s)

    def gradient(self) -> NDArray[np.float64]:
        """A subgradient of the loss by the weights."""
        self.n_passes += 1
        return np.asarray(self._X.T @ self._net)


def plot_airola(source: Path, target: Path) -> None:
    """The three panels of Figure 1, a row of them for each collection."""
    table = results.read(source)
    problems = list(dict.fromkeys(row["problem"] for row in table))
    figure = Figure(figsize=(15, 4 * len(problems)), layout="constrained")
    axes = figure.subplots(len(problems), 3, squeeze=False)
    for line_of_axes, problem in zip(axes, problems, strict=True):
        for method in dict.fromkeys(row["method"] for row in table):
            of_method = [r for r in table if (r["problem"], r["method"]) == (problem, method)]
            ended = [row for row in of_method if row["status"] != _RESTS]
            with_cost = [row for row in of_method if row["subgradient_s"]]
            panels = (with_cost, ended, ended)
            columns = ("subgradient_s", "thread_cpu_s", "test_error")
            for axis, rows, column in zip(line_of_axes, panels, columns, strict=True):
                if rows:
                    draw_line(axis, rows, "n_samples", method, column)
        titles = ("a subgradient, CPU s", "whole run, CPU s", "pairwise test error")
        for axis, title in zip(line_of_axes, titles, strict=True):
            axis.set(title=f"{problem}: {title}", xlabel="rows")
            axis.legend(frameon=False)
        line_of_axes[2].set_yscale("linear")
    figure.savefig(target, dpi=150)
