"""Multiclass machines in the layout of the LaRank paper.

Bordes, Bottou, Gallinari and Weston, "Solving MultiClass Support Vector Machines with LaRank",
ICML 2007: `multiclass` is its Tables 2 and 3, `multiclass_online` its Figure 1.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits, load_svmlight_file, load_svmlight_files
from sklearn.svm import SVC, LinearSVC

import rankplug
from benchmarks import results
from benchmarks.measure import alternate
from benchmarks.plots import figure_of
from rankplug.data import LabelRankingData
from rankplug.exceptions import ConvergenceWarning

_TOL = 1e-2
_MOST_SECONDS = 300.0  # of a solver of rankplug; the column `status` says so
_SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # of the training rows, for one epoch each


@dataclass(frozen=True)
class MulticlassSet:
    """A training and a test part, and the machine that is trained on them."""

    name: str
    train: tuple[Any, Any]
    test: tuple[Any, Any]
    C: float
    gamma: float | None  # None: linear

    @property
    def kernel(self) -> dict[str, Any]:
        if self.gamma is None:
            return {"kernel": "linear"}
        return {"kernel": "rbf", "gamma": self.gamma}


def multiclass(tiny: bool, rounds: int) -> Iterator[dict[str, Any]]:
    """Test error, dual objective, seconds, kernel evaluations and searches of the best class."""
    for problem in _problems(tiny):
        methods: dict[str, Callable[[MulticlassSet], dict[str, Any]]] = {
            "larank x1": partial(_larank, epochs=1),
            "larank gap": _larank,
            "larank cyclic": partial(_larank, schedule="cyclic"),
            "sopopo": _sopopo,
            "svc" if problem.gamma else "linear-svc": _svc if problem.gamma else _linear_svc,
        }
        for method, fit in methods.items():
            samples = alternate({method: partial(fit, problem)}, rounds)[method]
            yield {**_about(problem), "method": method, **samples.result, **samples.columns()}


def multiclass_online(tiny: bool, _rounds: int) -> Iterator[dict[str, Any]]:
    """Test error after more and more of the first epoch, and at the end."""
    for problem in _problems(tiny):
        if problem.gamma is None:
            continue
        rows = np.random.default_rng(0).permutation(len(problem.train[1]))
        for share in _SHARES:
            part = rows[: int(share * len(rows))]
            X, y = problem.train
            met = MulticlassSet(
                problem.name, (X[part], y[part]), problem.test, problem.C, problem.gamma
            )
            yield {**_about(problem), "point": "epoch", "share": share, **_larank(met, epochs=1)}
        yield {**_about(problem), "point": "gap", "share": "", **_larank(problem)}


def _about(problem: MulticlassSet) -> dict[str, Any]:
    X, y = problem.train
    return {
        "data": problem.name,
        "n_samples": X.shape[0],
        "n_features": X.shape[1],
        "n_classes": len(np.unique(y)),
        "n_test": problem.test[0].shape[0],
        "C": problem.C,
        "gamma": "" if problem.gamma is None else problem.gamma,
    }


def _larank(problem: MulticlassSet, **params: Any) -> dict[str, Any]:
    solver = rankplug.make_solver(
        "larank", C=problem.C, tol=_TOL, cache_mb=1000.0, **problem.kernel, **params
    )
    result, row = _solved(solver, problem)
    last = result.history[-1]
    return {
        **row,
        "kernel_evaluations": last["kernel_evaluations"],
        "certificate_evaluations": last["certificate_evaluations"],
        "arg_max": last["process_new"] + last["process_old"] + last["visits"],
        "support_patterns": last["support_patterns"],
        "support_vectors": last["support_vectors"],
        "epochs": result.n_iter,
    }


def _sopopo(problem: MulticlassSet) -> dict[str, Any]:
    params = {"decomposition": "top-vs-rest", "tol": _TOL, "cache_mb": 1000.0, **problem.kernel}
    result, row = _solved(rankplug.make_solver("sopopo", C=problem.C, **params), problem)
    if problem.gamma is not None:
        row["kernel_evaluations"] = result.n_passes * problem.train[0].shape[0] ** 2
    return {**row, "epochs": result.n_iter}


def _solved(solver: Any, problem: MulticlassSet) -> tuple[Any, dict[str, Any]]:
    data = LabelRankingData.from_arrays(*problem.train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = solver.solve(data, random_state=0, time_limit=_MOST_SECONDS)
    X, y = problem.test
    predicted = data.labels[result.model.predict(X).argmax(axis=1)]
    row = {
        "test_error": 100.0 * np.mean(predicted != y),
        "objective": result.objective,
        "dual": result.objective - result.duality_gap,
        "status": result.status,
    }
    return result, row


def _svc(problem: MulticlassSet) -> dict[str, Any]:
    """One against one: another problem, so that its objective cannot be compared."""
    machine = SVC(C=problem.C, gamma=problem.gamma, cache_size=1000).fit(*problem.train)
    X, y = problem.test
    return {
        "test_error": 100.0 * np.mean(machine.predict(X) != y),
        "status": "converged",
        "support_patterns": len(machine.support_),
    }


def _linear_svc(problem: MulticlassSet) -> dict[str, Any]:
    """The same problem as larank's; the tolerance is the one that reaches a similar objective."""
    machine = LinearSVC(
        C=problem.C,
        multi_class="crammer_singer",
        fit_intercept=False,
        tol=0.1,
        max_iter=10_000,
        random_state=0,
    ).fit(*problem.train)
    X, y = problem.train
    scores = X @ machine.coef_.T
    own = np.searchsorted(machine.classes_, y)
    slack = 1.0 + scores - scores[np.arange(len(y)), own][:, None]
    slack[np.arange(len(y)), own] = 0.0
    loss = slack.max(axis=1).sum()
    return {
        "test_error": 100.0 * np.mean(machine.predict(problem.test[0]) != problem.test[1]),
        "objective": 0.5 * np.sum(machine.coef_**2) + problem.C * loss,
        "status": "converged",
        "epochs": machine.n_iter_,
    }


def _problems(tiny: bool) -> Iterator[MulticlassSet]:
    """The sets named by RANKPLUG_MULTICLASS_SETS, or all."""
    if tiny:
        X, y = load_digits(return_X_y=True)
        for name, C, gamma in (("digits-linear", 0.1, None), ("digits", 10.0, 0.5)):
            parts = [(X[rows] / 16.0, y[rows]) for rows in (slice(300), slice(300, 600))]
            yield MulticlassSet(name, *parts, C, gamma)
        return
    if "RANKPLUG_DATA" not in os.environ:
        return
    folder = Path(os.environ["RANKPLUG_DATA"]) / "multiclass"
    names = os.environ.get("RANKPLUG_MULTICLASS_SETS", " ".join(_SETS)).split()
    for name in names:
        read, C, gamma = _SETS[name]
        yield MulticlassSet(name, *read(folder), C, gamma)


_Parts = tuple[tuple[Any, Any], tuple[Any, Any]]


def _letter(folder: Path) -> _Parts:
    X, y = load_svmlight_file(str(folder / "letter_recognition.txt.gz"))
    X = X.toarray()
    return (X[:16_000], y[:16_000]), (X[16_000:], y[16_000:])


def _dense(train: str, test: str, *, standardise: bool) -> Callable[[Path], _Parts]:
    def read(folder: Path) -> _Parts:
        (X, y), (Z, z) = _sparse(train, test)(folder)
        X, Z = X.toarray(), Z.toarray()
        if standardise:
            mean, deviation = X.mean(axis=0), X.std(axis=0)
            X, Z = (X - mean) / deviation, (Z - mean) / deviation
        return (X, y), (Z, z)

    return read


def _sparse(train: str, test: str) -> Callable[[Path], _Parts]:
    def read(folder: Path) -> _Parts:
        X, y, Z, z = load_svmlight_files([str(folder / f"{name}.gz") for name in (train, test)])
        # scikit-learn's own machines take 32-bit indices only.
        X, Z = (
            sparse.csr_array((M.data, M.indices.astype("i4"), M.indptr.astype("i4")), M.shape)
            for M in (X, Z)
        )
        return (X, y), (Z, z)

    return read


_USPS = _dense("usps.train.txt", "usps.test.txt", standardise=False)

# C and gamma of letter and usps are the paper's; None: linear.
_SETS: dict[str, tuple[Callable[[Path], _Parts], float, float | None]] = {
    "usps-linear": (_USPS, 0.1, None),
    "sector": (_sparse("sector.scale.train.txt", "sector.scale.test.txt"), 1.0, None),
    "pendigits": (_dense("pendigits.txt", "pendigits.t.txt", standardise=True), 10.0, 1 / 16),
    "satimage": (_dense("satimage.train.txt", "satimage.test.txt", standardise=True), 10.0, 1 / 36),
    "usps": (_USPS, 10.0, 0.025),
    "letter": (_letter, 10.0, 0.025),
}


def plot_multiclass_online(source: Path, target: Path) -> None:
    """Test error against kernel evaluations: Figure 1 of the LaRank paper."""
    table = results.read(source)
    names = list(dict.fromkeys(row["data"] for row in table))
    figure, axes = figure_of(len(names))
    for axis, name in zip(axes, names, strict=True):
        of_set = [row for row in table if row["data"] == name]
        for point, marker in (("epoch", "o"), ("gap", "s")):
            part = [row for row in of_set if row["point"] == point]
            axis.semilogx(
                [
                    float(row["kernel_evaluations"])
                    + (point == "gap") * float(row["certificate_evaluations"])
                    for row in part
                ],
                [float(row["test_error"]) for row in part],
                marker=marker,
                label={"epoch": "during the first epoch", "gap": "relative gap 1e-2"}[point],
            )
        axis.set(title=name, xlabel="kernel evaluations", ylabel="test error, %")
        axis.legend(frameon=False)
    figure.savefig(target, dpi=150)
