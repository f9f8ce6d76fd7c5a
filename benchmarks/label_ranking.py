"""Label ranking: solvers compared by cross-validation."""

from __future__ import annotations

import gzip
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import KFold

import rankplug
from rankplug.data import LabelRankingData
from rankplug.exceptions import ConvergenceWarning
from rankplug.metrics import per_instance

_SETS = (
    *("authorship", "bodyfat", "calhousing", "cpu", "elevators", "fried", "glass", "housing"),
    *("iris", "pendigits", "segment", "stock", "vehicle", "vowel", "wine", "wisconsin"),
)
_REAL_SETS = ("cold", "diau", "dtt", "heat", "spo", "sushi")
_C_TIMES_ROWS = "C_times_rows"
_GAMMA_TIMES_FEATURES = "gamma_times_features"
_LINEAR: dict[str, Sequence[Any]] = {_C_TIMES_ROWS: (1.0, 10.0, 100.0)}
_MOST_ROWS_OF_KERNELS = 10_000  # whose time grows faster than the rows
_MOST_ROWS_OF_NOISY_KERNELS = 3000  # where nearly every instance is a support vector
_TREES = ("random-forest", "extra-trees", "xgboost-regression")


@dataclass(frozen=True)
class Method:
    """A solver of the table: what is fixed, and what a part of the training data chooses."""

    solver: str
    fixed: Mapping[str, Any]
    grid: Mapping[str, Sequence[Any]]
    most_rows: float = np.inf
    features: bool = True


_METHODS = {
    "sopopo adjacent-layers": Method("sopopo", {"decomposition": "adjacent-layers"}, _LINEAR),
    "sopopo all-pairs": Method("sopopo", {"decomposition": "all-pairs"}, _LINEAR),
    "sopopo top-vs-rest": Method("sopopo", {"decomposition": "top-vs-rest"}, _LINEAR),
    "larank": Method("larank", {"schedule": "cyclic", "epochs": 200}, _LINEAR),
    "larank, rbf": Method(
        "larank",
        {"kernel": "rbf"},
        {_C_TIMES_ROWS: (1e2, 1e3, 1e4, 1e5), _GAMMA_TIMES_FEATURES: (0.1, 0.3, 1.0, 3.0, 10.0)},
        most_rows=_MOST_ROWS_OF_KERNELS,
    ),
    "tree-tron": Method("tree-tron", {"n_threads": 1}, _LINEAR),
    "mapped: leaves": Method("mapped", {"map": {"leaves": {}}}, {"map__trees": _TREES}),
    "mapped: leaves + nystroem": Method(
        "mapped",
        {"map": {"leaves": {}, "nystroem": {}}},
        {"map__leaves__trees": _TREES},
        most_rows=_MOST_ROWS_OF_KERNELS,
    ),
    "xgboost-pairwise": Method(
        "xgboost-pairwise", {"n_threads": 1}, {"n_estimators": (100, 300), "max_depth": (3, 6, 9)}
    ),
}


_REAL_METHODS = {
    "one ranking for all": Method("tree-tron", {"n_threads": 1}, {}, features=False),
    **_METHODS,
    "larank, rbf": replace(
        _METHODS["larank, rbf"],
        grid={
            _C_TIMES_ROWS: (1.0, 10.0, 100.0, 1000.0),  # less than above, as these data are noisy
            _GAMMA_TIMES_FEATURES: (0.1, 0.3, 1.0, 3.0),
        },
        most_rows=_MOST_ROWS_OF_NOISY_KERNELS,
    ),
}
del _REAL_METHODS["mapped: leaves + nystroem"]  # six sets would take too long


def label_ranking(tiny: bool, _rounds: int) -> Iterator[dict[str, Any]]:
    """Kendall's tau in 10-fold cross-validation on the 16 semi-synthetic sets of KEBI."""
    yield from _compared(_SETS, _METHODS, tiny)


def label_ranking_real(tiny: bool, _rounds: int) -> Iterator[dict[str, Any]]:
    """The same on real rankings: genes of yeast over time, and people's favourite sushi."""
    yield from _compared(_REAL_SETS, _REAL_METHODS, tiny)


def _compared(
    sets: Sequence[str], methods: Mapping[str, Method], tiny: bool
) -> Iterator[dict[str, Any]]:
    if "RANKPLUG_DATA" not in os.environ and not tiny:
        return
    chosen = os.environ.get("RANKPLUG_LABEL_RANKING_SETS", " ".join(sets)).split()
    for name in sets[:1] if tiny else [name for name in sets if name in chosen]:
        data = _linear_rankings() if tiny else _read(name)
        for label, method in methods.items():
            if data.n_samples <= method.most_rows and not (tiny and method.solver == "mapped"):
                row = {"data": name, "method": label, "n_threads": 1}
                yield {**row, **_cross_validated(data, method, tiny)}


def _read(name: str) -> LabelRankingData:
    """A set in another order, with a constant, as linear models have no intercept of their own."""
    path = Path(os.environ["RANKPLUG_DATA"]) / "label_ranking" / f"{name}.csv.gz"
    X, Y = _read_orders(path) if name == "sushi" else _read_ranks(path)
    rows = np.random.default_rng(0).permutation(len(X))
    return LabelRankingData.from_arrays(np.column_stack((X[rows], np.ones(len(rows)))), Y[rows])


def _read_ranks(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        columns = stream.readline().strip().split(",")
    labels = [name for name in columns if name.startswith("L")]
    data = rankplug.read_label_data(path, labels=labels, ranks=True)
    return np.asarray(data.X), data.relevance


def _read_orders(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The last column holds orders of names; a column of texts becomes one for each text."""
    table = pd.read_csv(path)
    X = pd.get_dummies(table.iloc[:, :-1]).to_numpy(dtype=np.float64)
    return X, LabelRankingData.from_arrays(X, table.iloc[:, -1], orders=True).relevance


def _linear_rankings() -> LabelRankingData:
    """What tries the harness."""
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.normal(size=(60, 3)), np.ones(60)))
    return LabelRankingData.from_arrays(X, (-X @ rng.normal(size=(4, 4))).argsort().argsort())


def _cross_validated(data: LabelRankingData, method: Method, tiny: bool) -> dict[str, Any]:
    folds = list(KFold(3 if tiny else 10, shuffle=True, random_state=0).split(data.X))
    chosen = _chosen(data, folds[0][0], method)
    tau, seconds, unconverged = np.empty(data.n_samples), 0.0, 0
    for train, test in folds:
        result, tau[test] = _fitted(data, train, test, method, chosen)
        seconds += result.seconds
        unconverged += result.status == "max_iter"
    of_fold = [tau[test].mean() for _, test in folds]
    return {
        "n_samples": data.n_samples,
        "n_features": data.n_features - 1,
        "n_labels": data.n_labels,
        "chosen": " ".join(f"{name}={value}" for name, value in chosen.items()),
        "kendall_tau": float(np.mean(of_fold)),
        "std_of_folds": float(np.std(of_fold)),
        "fit_s": seconds / len(folds),
        "unconverged": unconverged,
    }


def _chosen(data: LabelRankingData, train: Any, method: Method) -> dict[str, Any]:
    """The point of the grid that is best on a fifth of the first training part."""
    held_out = np.arange(len(train)) % 5 == 0
    fit, test = train[~held_out], train[held_out]
    grid = [dict(zip(method.grid, point, strict=True)) for point in product(*method.grid.values())]
    return max(grid, key=lambda point: _fitted(data, fit, test, method, point)[1].mean())


def _fitted(
    data: LabelRankingData, train: Any, test: Any, method: Method, point: Mapping[str, Any]
) -> tuple[Any, Any]:
    """The result on standardised features, and tau of each test instance."""
    mean, deviation = data.X[train].mean(axis=0), data.X[train].std(axis=0)
    constant = deviation == 0
    mean[constant], deviation[constant] = 0.0, 1.0
    X = (data.X - mean) / deviation
    if not method.features:
        X = X[:, -1:]
    params = dict(point)
    if _C_TIMES_ROWS in params:
        params["C"] = params.pop(_C_TIMES_ROWS) / len(train)
    if _GAMMA_TIMES_FEATURES in params:
        params["gamma"] = params.pop(_GAMMA_TIMES_FEATURES) / (data.n_features - 1)
    solver = rankplug.make_solver(method.solver, **method.fixed).set_params(**params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = solver.solve(
            LabelRankingData.from_arrays(X[train], data.relevance[train]), random_state=0
        )
    scores = result.model.predict(X[test])
    return result, per_instance(data.relevance[test], scores, "kendall_tau")["kendall_tau"]
