"""Label ranking: solvers compared by cross-validation, and the experiments of the SOPOPO paper.

Shalev-Shwartz and Singer, "Efficient Learning of Label Ranking by Soft Projections onto
Polyhedra", JMLR 7 (2006): `interior_point` is its Figure 7, `phase_transition` its Figure 8.
"""

from __future__ import annotations

import gzip
import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

import rankplug
from benchmarks.interior_point import solve_reduced_problem
from benchmarks.measure import alternate
from rankplug.data import LabelRankingData
from rankplug.exceptions import ConvergenceWarning
from rankplug.metrics import per_instance

_SETS = (
    *("authorship", "bodyfat", "calhousing", "cpu", "elevators", "fried", "glass", "housing"),
    *("iris", "pendigits", "segment", "stock", "vehicle", "vowel", "wine", "wisconsin"),
)
_METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "sopopo adjacent-layers": ("sopopo", {"decomposition": "adjacent-layers"}),
    "sopopo all-pairs": ("sopopo", {"decomposition": "all-pairs"}),
    "sopopo top-vs-rest": ("sopopo", {"decomposition": "top-vs-rest"}),
    "larank": ("larank", {"schedule": "cyclic", "epochs": 200}),
    "tree-tron": ("tree-tron", {"n_threads": 1}),
    "xgboost-pairwise": ("xgboost-pairwise", {"n_estimators": 100, "n_threads": 1}),
}
_C_TIMES_ROWS = (1.0, 10.0, 100.0)
_GAP = 0.01  # the paper's, absolute
_MOST_LABELS_FOR_CLARABEL = 20  # its factorisation takes minutes beyond:
_LABELS_TO_GIVE_UP_AT = (40, 100)  # there it is stopped after
_PATIENCE = 120.0  # seconds, which bound its time from below


def label_ranking(tiny: bool, _rounds: int) -> Iterator[dict[str, Any]]:
    """Kendall's tau in 10-fold cross-validation on the 16 semi-synthetic sets of KEBI."""
    if "RANKPLUG_DATA" not in os.environ:
        return
    folder = Path(os.environ["RANKPLUG_DATA"]) / "label_ranking"
    for name in ("iris", "wine") if tiny else _SETS:
        data = _read(folder / f"{name}.csv.gz")
        for method in _METHODS:
            yield {"data": name, "method": method, **_cross_validated(data, method, tiny)}


def interior_point(tiny: bool, rounds: int) -> Iterator[dict[str, Any]]:
    """Seconds to a gap of 0.01 for k labels and 10 k instances, against Clarabel."""
    for k in (4, 6) if tiny else (10, 15, 20, 40, 60, 80, 100):
        data = bipartite_feedback(k, 10 * k, seed=0)
        C = 1.0 / data.n_samples
        row = {"k": k, "n_samples": data.n_samples, "C": C}
        calls = {"sopopo": partial(_to_the_gap, data, C)}
        if k <= _MOST_LABELS_FOR_CLARABEL:
            calls["clarabel"] = partial(solve_reduced_problem, data, C, _GAP)
        for solver, call in calls.items():
            # Clarabel's runs are long enough to need no repetition.
            samples = alternate({solver: call}, rounds if solver == "sopopo" else 1)[solver]
            yield {**row, "solver": solver, **samples.result, **samples.columns()}
        if k in _LABELS_TO_GIVE_UP_AT and not _ends(solve_reduced_problem, data, C, _GAP):
            note = f"not finished in {_PATIENCE:g} s"
            yield {**row, "solver": "clarabel", "note": note, "wall_s": _PATIENCE}


def phase_transition(tiny: bool, _rounds: int) -> Iterator[dict[str, Any]]:
    """Objective, gap and rise of the dual objective by epoch, k = 100 and 1,000 instances."""
    data = bipartite_feedback(6, 60, seed=0) if tiny else bipartite_feedback(100, 1000, seed=0)
    solver = rankplug.make_solver("sopopo", C=1.0 / data.n_samples, tol=1e-7, max_epochs=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        history = solver.solve(data, random_state=0).history
    before = 0.0
    for step in history:
        dual = step["objective"] - step["duality_gap"]
        yield {
            "epoch": step["n_iter"],
            "visits": step["n_iter"] * data.n_samples,
            "objective": step["objective"],
            "gap": step["duality_gap"],
            "dual_rise": dual - before,
        }
        before = dual


def bipartite_feedback(k: int, n_samples: int, seed: int) -> LabelRankingData:
    """The paper's data: the upper half of k random linear functions of 100 features is relevant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 100))
    scores = X @ rng.normal(size=(100, k))
    relevance = np.zeros((n_samples, k))
    np.put_along_axis(relevance, np.argsort(-scores, axis=1)[:, : k // 2], 1.0, axis=1)
    return LabelRankingData.from_arrays(X, relevance)


def _to_the_gap(data: LabelRankingData, C: float) -> dict[str, Any]:
    solver = rankplug.make_solver("sopopo", C=C, tol=1e-12)
    result = solver.solve(
        data, random_state=0, callback=lambda progress: progress.values["duality_gap"] <= _GAP
    )
    return {
        "objective": result.objective,
        "gap": result.duality_gap,
        "iterations": result.n_iter,
        "note": "",
    }


def _ends(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a call ends in time; it gets a process of its own, which can be stopped."""
    process = get_context("spawn").Process(target=function, args=arguments)
    process.start()
    process.join(_PATIENCE)
    if not process.is_alive():
        return process.exitcode == 0
    process.kill()
    process.join()
    return False


def _read(path: Path) -> LabelRankingData:
    """Features and a constant, because the linear models have no intercept of their own."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        columns = stream.readline().strip().split(",")
    labels = [name for name in columns if name.startswith("L")]
    data = rankplug.read_label_data(path, labels=labels, ranks=True)
    rows = np.random.default_rng(0).permutation(data.n_samples)
    X = np.column_stack((data.X[rows], np.ones(len(rows))))
    return LabelRankingData.from_arrays(X, data.relevance[rows])


def _cross_validated(data: LabelRankingData, method: str, tiny: bool) -> dict[str, Any]:
    folds = list(KFold(3 if tiny else 10, shuffle=True, random_state=0).split(data.X))
    params = _chosen_params(data, folds[0][0], method)
    tau, seconds, unconverged = np.empty(data.n_samples), 0.0, 0
    for train, test in folds:
        result, tau[test] = _fitted(data, train, test, method, params)
        seconds += result.seconds
        unconverged += result.status == "max_iter"
    of_fold = [tau[test].mean() for _, test in folds]
    return {
        "n_samples": data.n_samples,
        "n_features": data.n_features - 1,
        "n_labels": data.n_labels,
        **params,
        "kendall_tau": float(np.mean(of_fold)),
        "std_of_folds": float(np.std(of_fold)),
        "fit_s": seconds / len(folds),
        "unconverged": unconverged,
    }


def _chosen_params(data: LabelRankingData, train: Any, method: str) -> dict[str, Any]:
    """C by a fifth of the first training part; XGBoost keeps its defaults."""
    if method == "xgboost-pairwise":
        return {}
    held_out = np.arange(len(train)) % 5 == 0
    fit, test = train[~held_out], train[held_out]
    grid = [{"C_times_rows": value} for value in _C_TIMES_ROWS]
    return max(grid, key=lambda params: _fitted(data, fit, test, method, params)[1].mean())


def _fitted(
    data: LabelRankingData, train: Any, test: Any, method: str, params: dict[str, Any]
) -> tuple[Any, Any]:
    """The result on standardised features, and tau of each test instance."""
    name, fixed = _METHODS[method]
    mean, deviation = data.X[train].mean(axis=0), data.X[train].std(axis=0)
    constant = deviation == 0
    mean[constant], deviation[constant] = 0.0, 1.0
    X = (data.X - mean) / deviation
    if "C_times_rows" in params:
        fixed = {**fixed, "C": params["C_times_rows"] / len(train)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = rankplug.make_solver(name, **fixed).solve(
            LabelRankingData.from_arrays(X[train], data.relevance[train]), random_state=0
        )
    scores = result.model.predict(X[test])
    return result, per_instance(data.relevance[test], scores, "kendall_tau")["kendall_tau"]
