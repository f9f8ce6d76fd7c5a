"""Ranking at the top by the protocol of the A2DM2 paper's Table 1.

Kadkhodaie, Christakopoulou, Sanjabi and Banerjee, "Accelerated alternating direction method of
multipliers", KDD 2015. Its Figures 2 and 3 are in `a2dm2_curves`, Figure 1 in `a2dm2_dirty`.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold, train_test_split

from benchmarks.papers.a2dm2_runs import Fit, Stop, fit_by_splitting, fit_by_toppush
from rankplug import make_solver, read_data
from rankplug.data import RankingData
from rankplug.metrics import evaluate
from rankplug.objectives import TopProblem, make_top_problem
from rankplug.optim.a2dm2 import Variant
from rankplug.solver import SolverResult
from rankplug_plugins.a2dm2.split import TopSplit

Row = dict[str, Any]
Rows = NDArray[np.int64]

SETS = {
    "breast-cancer": ("breast_cancer_wisconsin",),
    "australian": ("australian",),
    "diabetes": ("diabetes",),
    "spambase": ("spambase",),
    "splice": ("splice_scale",),
    "ijcnn1": ("ijcnn1.train",),
    "a9a": ("a9a", "a9a.t"),
    "w8a": ("w8a",),
}
LARGE = ("ijcnn1", "a9a", "w8a")
LAMBDAS = tuple(10.0**e for e in range(-4, 3))
RHOS: dict[Variant, tuple[float, ...]] = {
    "admm": tuple(10.0**e for e in range(-4, 2)),
    "a2dm2": tuple(10.0**e for e in range(-4, -1)),
    "a2dm2-restart": tuple(10.0**e for e in range(-4, 2)),
}
SMALL_TERMS = 0.01  # lam1 and lam2

# What the paper's Table 1 prints: Pos@Top, its deviation, seconds.
PUBLISHED = {
    ("breast-cancer", "toppush"): (49.0, 13.9, 0.558),
    ("breast-cancer", "admm"): (53.3, 13.8, 1.74),
    ("breast-cancer", "a2dm2"): (52.5, 14.8, 0.924),
    ("breast-cancer", "a2dm2-restart"): (52.3, 15.0, 3.15),
    ("australian", "toppush"): (11.3, 5.14, 0.222),
    ("australian", "admm"): (16.2, 7.18, 0.591),
    ("australian", "a2dm2"): (17.7, 10.8, 0.512),
    ("australian", "a2dm2-restart"): (17.1, 6.76, 1.34),
    ("diabetes", "toppush"): (14.1, 21.4, 0.0466),
    ("diabetes", "admm"): (23.6, 20.3, 0.458),
    ("diabetes", "a2dm2"): (31.9, 17.3, 0.503),
    ("diabetes", "a2dm2-restart"): (18.7, 18.9, 0.617),
    ("spambase", "toppush"): (54.9, 82.9, 16.3),
    ("spambase", "admm"): (44.8, 38.6, 20.6),
    ("spambase", "a2dm2"): (50.2, 36.4, 3.35),
    ("spambase", "a2dm2-restart"): (54.8, 35.5, 15.1),
    ("splice", "toppush"): (87.8, 48.5, 1.86),
    ("splice", "admm"): (99.9, 22.2, 7.29),
    ("splice", "a2dm2"): (115.0, 26.3, 3.18),
    ("splice", "a2dm2-restart"): (114.0, 27.0, 14.3),
    ("ijcnn1", "toppush"): (60.8, 20.6, 7.39),
    ("ijcnn1", "admm"): (124.0, 37.6, 182.0),
    ("ijcnn1", "a2dm2"): (55.6, 9.9, 1.5),
    ("ijcnn1", "a2dm2-restart"): (73.4, 32.0, 113.0),
    ("a9a", "toppush"): (17.8, 13.0, 0.85),
    ("a9a", "admm"): (45.7, 21.9, 13.6),
    ("a9a", "a2dm2"): (54.7, 28.9, 14.4),
    ("a9a", "a2dm2-restart"): (50.7, 24.3, 52.9),
    ("w8a", "toppush"): (139.0, 34.2, 22.0),
    ("w8a", "admm"): (137.0, 41.9, 171.0),
    ("w8a", "a2dm2"): (138.0, 49.8, 59.8),
    ("w8a", "a2dm2-restart"): (144.0, 38.6, 225.0),
}


def top_ranking(tiny: bool, _rounds: int) -> Iterator[Row]:
    """Means and deviations over ten random splits, for each set and solver."""
    for name, data in _sets(tiny, list(SETS)):
        trials = [Trial(data, seed, tiny).run() for seed in range(2 if tiny else 10)]
        for solver in trials[0]:
            of_solver = [trial[solver] for trial in trials]
            zeros = sum(one["zero"] for one in of_solver)
            yield {**_summary(name, solver, of_solver), "zero_models": zeros}


def top_stops(tiny: bool, _rounds: int) -> Iterator[Row]:
    """Two readings of the paper's stop, on the small sets and five random splits."""
    stops: tuple[Stop, ...] = ("combined", "sum")
    for name, data in _sets(tiny, [name for name in SETS if name not in LARGE]):
        trials = [Trial(data, seed, tiny) for seed in range(2 if tiny else 5)]
        lams = [trial.best_lambda() for trial in trials]
        for stop in stops:
            found = [trial.run_variants(lam, stop) for trial, lam in zip(trials, lams, strict=True)]
            for variant in RHOS:
                rows = [one[variant] for one in found]
                yield {"stop": stop, **_summary(name, variant, rows)}


def _sets(tiny: bool, names: list[str]) -> Iterator[tuple[str, RankingData]]:
    """Sets by their names, of which there are none without the folder that holds them."""
    for name in names[:1] if tiny else names:
        data = load(name, tiny)
        if data is not None:
            yield name, data


def _summary(name: str, solver: str, rows: list[Row]) -> Row:
    paper = PUBLISHED.get((name, solver), ("", "", ""))
    columns = ("paper_pos_at_top", "paper_pos_at_top_sd", "paper_train_s")
    return {
        "problem": name,
        "solver": solver,
        "splits": len(rows),
        "test_positives": rows[0]["test_positives"],
        **_moments(rows, "pos_at_top"),
        **dict(zip(columns, paper, strict=True)),
        **_moments(rows, "train_s"),
        "median_n_iter": float(np.median([row["n_iter"] for row in rows])),
        "median_lambda": float(np.median([row["lam"] for row in rows])),
        "median_rho": float(np.median([row["rho"] for row in rows])),
        "unfinished_splits": sum(row["unfinished"] for row in rows),
    }


def _moments(rows: list[Row], column: str) -> Row:
    values = [row[column] for row in rows]
    return {column: float(np.mean(values)), f"{column}_sd": float(np.std(values, ddof=1))}


def load(name: str, tiny: bool) -> RankingData | None:
    """A binary set, each feature divided by its largest absolute value; None without the folder."""
    folder = os.environ.get("RANKPLUG_DATA")
    if tiny:  # embedded data stand in
        X, y = load_breast_cancer(return_X_y=True)
        X, y = sparse.csr_array(X), y > 0
    elif folder is None:
        return None
    else:
        files = [Path(folder) / "libsvm_binary" / f"{part}.txt.gz" for part in SETS[name]]
        data = read_data(files)
        X, y = sparse.csr_array(data.X), data.relevance > 0
    largest = abs(X).max(axis=0).toarray().ravel()
    X = sparse.csr_array(X @ sparse.diags_array(1 / np.where(largest > 0, largest, 1.0)))
    dense = X.nnz > 0.3 * X.shape[0] * X.shape[1]
    return RankingData.from_arrays(X.toarray() if dense else X, y)


class Trial:
    """A random split into 2/3 for training and 1/3 for test, and what is tuned on the first."""

    def __init__(self, data: RankingData, seed: int, tiny: bool) -> None:
        self.data, self.tiny = data, tiny
        self.train, self.test = train_test_split(
            np.arange(data.n_samples), test_size=1 / 3, random_state=seed, stratify=data.relevance
        )
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        split = folds.split(self.train, data.relevance[self.train])
        self.folds = [(self.train[fit], self.train[held]) for fit, held in split]
        self.problem = self.top_problem(self.train)

    def part(self, rows: Rows) -> RankingData:
        """Some of the rows."""
        return RankingData.from_arrays(self.data.X[rows], self.data.relevance[rows])

    def top_problem(self, rows: Rows) -> TopProblem:
        """Problem (11) on some of the rows."""
        return make_top_problem(self.part(rows), None, "global")

    def pos_at_top(self, model: Any, rows: Rows) -> float:
        """How many positives of the rows are above all negatives of the rows."""
        y = self.data.relevance[rows]
        share = evaluate(y, model.predict(self.data.X[rows]), None, "pos@top")["pos@top"]
        return float(share * y.sum())

    def best_lambda(self) -> float:
        """By 3-fold cross-validation of the paper's TopPush; the smallest of equals."""
        problems = [self.top_problem(fit) for fit, _ in self.folds]

        def score(lam: float) -> float:
            return self._score([fit_by_toppush(problem, lam) for problem in problems])

        return max(self._grid(LAMBDAS), key=score)

    def best_rhos(self, lam: float, stop: Stop = "combined") -> dict[Variant, float]:
        """By 3-fold cross-validation of each variant on its grid; the smallest of equals."""
        splits = [split_problem(self.top_problem(fit), lam) for fit, _ in self.folds]

        def score(variant: Variant, rho: float) -> float:
            return self._score([fit_by_splitting(split, variant, rho, stop) for split in splits])

        return {v: max(self._grid(rhos), key=partial(score, v)) for v, rhos in RHOS.items()}

    def _grid(self, values: tuple[float, ...]) -> tuple[float, ...]:
        return values[-2:] if self.tiny else values

    def _score(self, fits: list[Fit]) -> float:
        pairs = zip(fits, self.folds, strict=True)
        return sum(self.pos_at_top(fit.model, held) for fit, (_, held) in pairs)

    def run(self) -> dict[str, Row]:
        """Of each solver: what it reaches on the test third, with what, in which time."""
        lam = self.best_lambda()
        found = {"toppush": self._measure(partial(fit_by_toppush, self.problem, lam), lam)}
        found |= self.run_variants(lam)
        small = {"lam1": SMALL_TERMS, "lam2": SMALL_TERMS}
        pairwise = self._best_pairwise()
        for name, solver, own in (
            ("minimum of (11)", make_solver("toppush", lam=lam), lam),
            ("minimum of (13)", make_solver("a2dm2", lam=lam, max_iter=5000, **small), lam),
            ("tree-tron", _tree_tron(pairwise), pairwise),
            ("xgboost-pairwise", make_solver("xgboost-pairwise", n_threads=1), np.nan),
        ):
            found[name] = self._measure(partial(self._fit_solver, solver, self.train), own)
        found["validated toppush"] = self._measure(partial(self._fit_validated, lam), lam)
        return found

    def run_variants(self, lam: float, stop: Stop = "combined") -> dict[str, Row]:
        """The same of the variants of A2DM2."""

        def fit(variant: Variant, rho: float) -> Fit:
            return fit_by_splitting(split_problem(self.problem, lam), variant, rho, stop)

        rhos = self.best_rhos(lam, stop)
        return {v: self._measure(partial(fit, v, rho), lam, rho) for v, rho in rhos.items()}

    def _measure(self, call: Callable[[], Fit], lam: float, rho: float = np.nan) -> Row:
        started = time.thread_time()
        fit = call()
        seconds = time.thread_time() - started
        return {
            "pos_at_top": self.pos_at_top(fit.model, self.test),
            "test_positives": int(self.data.relevance[self.test].sum()),
            "train_s": seconds,
            "n_iter": fit.n_iter,
            "lam": lam,
            "rho": rho,
            "unfinished": not fit.finished,
            "zero": not np.any(getattr(fit.model, "coef", 1.0)),
        }

    def _fit_solver(self, solver: Any, rows: Rows, valid: RankingData | None = None) -> Fit:
        result = solve_quietly(solver, self.part(rows), valid)
        return Fit(result.model, result.n_iter, result.status != "max_iter")

    def _fit_validated(self, lam: float) -> Fit:
        """The package's way where w = 0 is optimal: the iterate best on a held-out third."""
        rows, held = self.folds[0]
        solver = make_solver(
            "toppush", method="apg", lam=lam, early_stopping_rounds=50, eval_metric="pos@top"
        )
        return self._fit_solver(solver, rows, self.part(held))

    def _best_pairwise(self) -> float:
        """The lambda of tree-tron, by its own 3-fold cross-validation."""

        def score(lam: float) -> float:
            return self._score([self._fit_solver(_tree_tron(lam), fit) for fit, _ in self.folds])

        return max(self._grid(LAMBDAS), key=score)


def split_problem(problem: TopProblem, lam: float) -> TopSplit:
    """Problem (13) with the paper's lam1 and lam2."""
    return TopSplit(problem, lam, SMALL_TERMS, SMALL_TERMS)


def solve_quietly(solver: Any, data: RankingData, valid: RankingData | None = None) -> SolverResult:
    """Without warnings: what they say is counted in the tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result: SolverResult = solver.solve(data, valid=valid, random_state=0)
    return result


def _tree_tron(lam: float) -> Any:
    return make_solver("tree-tron", C=1 / lam, reduction="mean", n_threads=1)
