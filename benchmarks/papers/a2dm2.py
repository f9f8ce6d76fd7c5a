"""Ranking at the top: the protocol of the A2DM2 paper's Table 1, and its Figure 1."""

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
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import StratifiedKFold, train_test_split

import rankplug
from benchmarks import results
from benchmarks.plots import figure_of
from rankplug.data import RankingData
from rankplug.metrics import evaluate
from rankplug.optim.a2dm2 import Variant, largest_step, splitting
from rankplug.solver import Solver

Row = dict[str, Any]
Vector = NDArray[np.float64]

SETS = {
    "breast-cancer": "breast_cancer_wisconsin",
    "australian": "australian",
    "diabetes": "diabetes",
    "spambase": "spambase",
    "splice": "splice_scale",
    "ijcnn1": "ijcnn1.train",
    "a9a": "a9a",
    "w8a": "w8a",
}
SMALL = ("breast-cancer", "australian", "diabetes", "spambase")
LAMBDAS = tuple(10.0**e for e in range(-4, 3))

# Pos@Top (mean, deviation) that the paper's Table 1 prints.
PUBLISHED = {
    ("breast-cancer", "toppush"): (49.0, 13.9),
    ("breast-cancer", "admm"): (53.3, 13.8),
    ("breast-cancer", "a2dm2"): (52.5, 14.8),
    ("breast-cancer", "a2dm2-restart"): (52.3, 15.0),
    ("australian", "toppush"): (11.3, 5.14),
    ("australian", "admm"): (16.2, 7.18),
    ("australian", "a2dm2"): (17.7, 10.8),
    ("australian", "a2dm2-restart"): (17.1, 6.76),
    ("diabetes", "toppush"): (14.1, 21.4),
    ("diabetes", "admm"): (23.6, 20.3),
    ("diabetes", "a2dm2"): (31.9, 17.3),
    ("diabetes", "a2dm2-restart"): (18.7, 18.9),
    ("spambase", "toppush"): (54.9, 82.9),
    ("spambase", "admm"): (44.8, 38.6),
    ("spambase", "a2dm2"): (50.2, 36.4),
    ("spambase", "a2dm2-restart"): (54.8, 35.5),
    ("splice", "toppush"): (87.8, 48.5),
    ("splice", "admm"): (99.9, 22.2),
    ("splice", "a2dm2"): (115.0, 26.3),
    ("splice", "a2dm2-restart"): (114.0, 27.0),
    ("ijcnn1", "toppush"): (60.8, 20.6),
    ("ijcnn1", "admm"): (124.0, 37.6),
    ("ijcnn1", "a2dm2"): (55.6, 9.9),
    ("ijcnn1", "a2dm2-restart"): (73.4, 32.0),
    ("a9a", "toppush"): (17.8, 13.0),
    ("a9a", "admm"): (45.7, 21.9),
    ("a9a", "a2dm2"): (54.7, 28.9),
    ("a9a", "a2dm2-restart"): (50.7, 24.3),
    ("w8a", "toppush"): (139.0, 34.2),
    ("w8a", "admm"): (137.0, 41.9),
    ("w8a", "a2dm2"): (138.0, 49.8),
    ("w8a", "a2dm2-restart"): (144.0, 38.6),
}


@dataclass(frozen=True)
class Entrant:
    """A solver of the table, made for a lambda, and whose cross-validation chooses lambda."""

    make: Callable[[float], Solver]
    tuned_as: str | None


def _entrants() -> dict[str, Entrant]:
    # Accelerated variants as in the paper: lam1 = lam2 = 0.01, within the theorem's step.
    split = partial(rankplug.make_solver, "a2dm2", tol=1e-4, max_iter=2000)
    paper = partial(split, lam1=0.01, lam2=0.01)
    return {
        "toppush": Entrant(lambda lam: rankplug.make_solver("toppush", lam=lam), "toppush"),
        "toppush-5": Entrant(
            lambda lam: rankplug.make_solver("toppush", lam=lam, top_k=5), "toppush-5"
        ),
        "admm": Entrant(lambda lam: split(lam=lam), "toppush"),
        "a2dm2": Entrant(lambda lam: paper(lam=lam, variant="a2dm2"), "toppush"),
        "a2dm2-restart": Entrant(lambda lam: paper(lam=lam, variant="a2dm2-restart"), "toppush"),
        "tree-tron": Entrant(
            lambda lam: rankplug.make_solver("tree-tron", C=1 / lam, reduction="mean", n_threads=1),
            "tree-tron",
        ),
        "xgboost-pairwise": Entrant(
            lambda _: rankplug.make_solver("xgboost-pairwise", n_threads=1), None
        ),
    }


def top_ranking(tiny: bool, _rounds: int) -> Iterator[Row]:
    """Ten random splits, lambda by 3-fold cross-validation on Pos@Top: means and deviations.

    `RANKPLUG_TOP_SETS` names the sets, "all" for all of them; the small ones by default.
    """
    folder = os.environ.get("RANKPLUG_DATA")
    if folder is None:
        return
    names = os.environ.get("RANKPLUG_TOP_SETS", " ".join(SMALL)).split()
    for name in SMALL[:1] if tiny else SETS if names == ["all"] else names:
        data = load(Path(folder), name)
        trials = [_trial(data, seed, tiny) for seed in range(2 if tiny else 10)]
        for solver in trials[0]:
            tops, seconds, lams, zeros = map(
                np.array, zip(*(trial[solver] for trial in trials), strict=True)
            )
            mean, deviation = PUBLISHED.get((name, solver), ("", ""))
            yield {
                "problem": name,
                "solver": solver,
                "splits": len(trials),
                "pos_at_top": float(tops.mean()),
                "pos_at_top_sd": float(tops.std(ddof=1)),
                "paper_pos_at_top": mean,
                "paper_pos_at_top_sd": deviation,
                "train_s": float(seconds.mean()),
                "train_s_sd": float(seconds.std(ddof=1)),
                "median_lambda": float(np.median(lams)),
                "zero_models": int(zeros.sum()),
            }


def load(folder: Path, name: str) -> RankingData:
    """A binary set, each feature divided by its largest absolute value."""
    data = rankplug.read_data(folder / "libsvm_binary" / f"{SETS[name]}.txt.gz")
    X = sparse.csr_array(data.X)
    largest = abs(X).max(axis=0).toarray().ravel()
    X = sparse.csr_array(X @ sparse.diags_array(1 / np.where(largest > 0, largest, 1.0)))
    dense = X.nnz > 0.3 * X.shape[0] * X.shape[1]
    return RankingData.from_arrays(X.toarray() if dense else X, data.relevance > 0)


def _trial(data: RankingData, seed: int, tiny: bool) -> dict[str, tuple[float, ...]]:
    """Of each entrant: Pos@Top as a count on the test third, seconds, lambda, w = 0 or not."""
    train, test = train_test_split(
        np.arange(data.n_samples), test_size=1 / 3, random_state=seed, stratify=data.relevance
    )
    entrants = _entrants()
    tuned: dict[str, float] = {}
    found = {}
    for name, entrant in entrants.items():
        key = entrant.tuned_as
        if key is not None and key not in tuned:
            tuned[key] = _best_lambda(
                entrants[key].make, data, train, LAMBDAS[:2] if tiny else LAMBDAS
            )
        lam = np.nan if key is None else tuned[key]
        started = time.thread_time()
        model = _fit(entrant.make(lam), data, train)
        seconds = time.thread_time() - started
        zero = not np.any(getattr(model, "coef", 1.0))
        found[name] = (_pos_at_top(model, data, test), seconds, lam, float(zero))
    return found


def _best_lambda(
    make: Callable[[float], Solver],
    data: RankingData,
    rows: NDArray[np.int64],
    lambdas: tuple[float, ...],
) -> float:
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    splits = list(folds.split(rows, data.relevance[rows]))

    def score(lam: float) -> float:
        return sum(
            _pos_at_top(_fit(make(lam), data, rows[fit]), data, rows[held]) for fit, held in splits
        )

    return max(lambdas, key=score)


def _fit(solver: Solver, data: RankingData, rows: NDArray[np.int64]) -> Any:
    part = RankingData.from_arrays(data.X[rows], data.relevance[rows])
    with warnings.catch_warnings():  # counted in the table instead
        warnings.simplefilter("ignore")
        return solver.solve(part, random_state=0).model


def _pos_at_top(model: Any, data: RankingData, rows: NDArray[np.int64]) -> float:
    y = data.relevance[rows]
    share = evaluate(y, model.predict(data.X[rows]), None, "pos@top")["pos@top"]
    return float(share * y.sum())


class DirtyModel:
    """min |x|_1 + 1/2 |x|^2 + mu (|y|_1 + 1/2 |y|^2) subject to A x + y = c (equation 15)."""

    def __init__(self, m: int, n: int, mu: float = 0.5) -> None:
        rng = np.random.default_rng(0)
        self._matrix = rng.normal(size=(m, n))
        x = rng.normal(size=n) * (rng.random(n) < 0.05)
        self.c: Vector = self._matrix @ x + rng.exponential(0.01, size=m)
        self._mu, self.norm = mu, float(np.linalg.norm(self._matrix, 2))
        self._last = np.zeros(n)

    def argmin_x(self, v: Vector, rho: float) -> Vector:
        """Accelerated proximal gradients from the last solution."""
        step = 1 / (1 + rho * self.norm**2)
        x = before = self._last
        momentum = (1 - np.sqrt(step)) / (1 + np.sqrt(step))
        for _ in range(5000):
            ahead = x + momentum * (x - before)
            gradient = ahead + rho * self._matrix.T @ (self._matrix @ ahead - v)
            before, x = x, _soft(ahead - step * gradient, step)
            if np.abs(x - before).max() < 1e-11:
                break
        self._last = x
        return x

    def argmin_y(self, v: Vector, rho: float) -> Vector:
        return _soft(rho * v, self._mu) / (rho + self._mu)

    def argmin_y_linear(self, g: Vector) -> Vector:
        return _soft(-g, self._mu) / self._mu

    def map_x(self, x: Vector) -> Vector:
        return np.asarray(self._matrix @ x)

    def map_y(self, y: Vector) -> Vector:
        return y

    def value(self, x: Vector, y: Vector) -> float:
        of_x, of_y = (np.abs(z).sum() + 0.5 * z @ z for z in (x, y))
        return float(of_x + self._mu * of_y)

    @property
    def safe_step(self) -> float:
        return largest_step(1.0, self._mu, self.norm, 1.0)


def dirty_model(tiny: bool, _rounds: int) -> Iterator[Row]:
    """Residuals and objective against iterations for the paper's elastic net, m = 2^8, n = 2^9."""
    sizes, n_iter = ((12, 24), 20) if tiny else ((2**8, 2**9), 300)
    exact = DirtyModel(*sizes)
    best = _objectives(exact, "a2dm2-restart", 10 * n_iter)[-1]["objective"]
    variants: tuple[Variant, ...] = ("admm", "a2dm2", "a2dm2-restart")
    for variant in variants:
        for row in _objectives(DirtyModel(*sizes), variant, n_iter):
            yield {**row, "objective_gap": abs(row["objective"] - best) / best}


def _objectives(model: DirtyModel, variant: Variant, n_iter: int) -> list[Row]:
    zero = np.zeros(len(model.c))
    rows: list[Row] = []
    for step in splitting(model, variant, model.safe_step, y=zero, multiplier=zero):
        rows.append(
            {
                "variant": variant,
                "n_iter": step.n_iter,
                "primal_residual": step.primal_residual,
                "dual_residual": step.dual_residual,
                "objective": model.value(step.x, step.y),
            }
        )
        if step.n_iter == n_iter or step.primal_residual < 1e-11:
            break
    return rows


def _soft(v: Vector, t: float) -> Vector:
    return np.asarray(np.sign(v) * np.maximum(np.abs(v) - t, 0.0))


def plot_dirty_model(source: Path, target: Path) -> None:
    """Residual and objective against iterations: Figure 1 of Kadkhodaie et al. (2015)."""
    table = results.read(source)
    figure, axes = figure_of(2)
    for axis, column in zip(axes, ("primal_residual", "objective_gap"), strict=True):
        for variant in dict.fromkeys(row["variant"] for row in table):
            line = [row for row in table if row["variant"] == variant]
            axis.semilogy(
                [int(row["n_iter"]) for row in line],
                [float(row[column]) for row in line],
                label=variant,
            )
        axis.set(xlabel="iterations", ylabel=column.replace("_", " "), xscale="linear")
        axis.legend(frameon=False)
    figure.savefig(target, dpi=150)
