"""Multiclass machines with kernels: the tables and figures of the LaRank paper.

Bordes, Bottou, Gallinari and Weston, "Solving MultiClass Support Vector Machines with LaRank",
ICML 2007: `multiclass` is its Tables 2 and 3, `multiclass_online` its Figure 1 and
`larank_operations` its Figure 2.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.svm import SVC, LinearSVC

import rankplug
from benchmarks import results
from benchmarks.measure import alternate
from benchmarks.papers.larank_sets import MulticlassSet, read_sets
from benchmarks.plots import figure_of
from benchmarks.rivals.multiclass_dual import mcsvm, svm_struct
from benchmarks.rivals.multiclass_online import Trained, averaged_perceptron, mira
from rankplug.data import LabelRankingData
from rankplug.exceptions import ConvergenceWarning

_CACHE_MB = 1000.0  # of larank and sopopo
_MOST_SECONDS = 400.0  # of a solver of rankplug; the column `status` says so
_RIVALS_SECONDS = 120.0  # of CPU time, of MCSVM and SVMstruct
_SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2)  # of the training examples, for one epoch each
_SEEDS = 5
_GAP = {"gap": "absolute", "tol": 1.0}  # LaRankGap: the gap is at most C

_Row = dict[str, Any]
_Method = Callable[[MulticlassSet], _Row]


def multiclass(tiny: bool, _rounds: int) -> Iterator[_Row]:
    """Test error, dual objective, seconds, kernel evaluations and searches of the best class."""
    for problem in read_sets(tiny):
        linear = problem.gamma is None
        methods: dict[str, _Method] = {
            "mcsvm": _mcsvm,
            "svmstruct": _svm_struct,
            "larank gap": partial(_larank, **_GAP),
            "larank x1": partial(_larank, epochs=1),
            **_online(),
            "larank cyclic": partial(_larank, schedule="cyclic", **_GAP),
            "sopopo": _sopopo,
            "svc" if not linear else "linear-svc": _svc if not linear else _linear_svc,
        }
        if linear:
            explicit = {"kernel": "linear", "gamma": None}
            methods["larank gap, explicit weights"] = partial(_larank, **_GAP, **explicit)
            methods["larank cyclic, explicit weights"] = partial(
                _larank, schedule="cyclic", **_GAP, **explicit
            )
        if problem.gamma is not None and 8 * len(problem.train[1]) ** 2 > _CACHE_MB * 2**20:
            methods.pop("sopopo")  # it computes rows that do not fit again in each epoch
        for method, fit in methods.items():
            samples = alternate({method: partial(fit, problem)}, 1)[method]
            yield {**problem.about(), "method": method, **samples.result, **samples.columns()}


def multiclass_online(tiny: bool, _rounds: int) -> Iterator[_Row]:
    """Test error after more and more of the first epoch, and at the end; the perceptrons beside."""
    for problem in read_sets(tiny):
        rows = np.random.default_rng(0).permutation(len(problem.train[1]))
        points: list[tuple[str, Any, Callable[[], _Row]]] = []
        for share in _SHARES:
            met = problem.take(rows[: int(share * len(rows))])
            points.append(("larank", share, partial(_larank, met, epochs=1)))
        points.append(("larank x1", 1, partial(_larank, problem, epochs=1)))
        points.append(("larank gap", "", partial(_larank, problem, **_GAP)))
        points += [(name, "", partial(fit, problem)) for name, fit in _online().items()]
        for name, share, fit in points:
            yield {**problem.about(), "point": name, "share": share, **fit()}


def larank_operations(tiny: bool, _rounds: int) -> Iterator[_Row]:
    """One epoch without some of LaRank's operations, five orders of the examples each."""
    for problem in read_sets(tiny, ("usps", "usps-blurred", "pendigits")):
        for seed in range(1 if tiny else _SEEDS):
            methods = _online(seed)
            methods.pop("avg perceptron x10")
            for operations in ("new", "new+old", "new+optimize", "all"):
                params = {"operations": operations, "epochs": 1, "random_state": seed}
                methods[f"larank {operations}"] = partial(_larank, **params)
            for name, fit in methods.items():
                yield {**problem.about(), "method": name, "seed": seed, **fit(problem)}


def _online(seed: int = 0) -> dict[str, _Method]:
    """The rivals that see one example after the other."""
    fits = {
        "avg perceptron x1": partial(averaged_perceptron, n_epochs=1, seed=seed),
        "avg perceptron x10": partial(averaged_perceptron, n_epochs=10, seed=seed),
    }
    methods: dict[str, _Method] = {name: partial(_rival, fit) for name, fit in fits.items()}
    return methods | {
        "mira": lambda problem: _rival(partial(mira, C=problem.C, seed=seed), problem)
    }


def _mcsvm(problem: MulticlassSet) -> _Row:
    return _rival(partial(mcsvm, C=problem.C, gap=problem.C, seconds=_RIVALS_SECONDS), problem)


def _svm_struct(problem: MulticlassSet) -> _Row:
    return _rival(partial(svm_struct, C=problem.C, seconds=_RIVALS_SECONDS), problem)


def _rival(fit: Callable[..., Trained], problem: MulticlassSet) -> _Row:
    (X, y), (Z, z) = problem.train, problem.test
    classes, codes = np.unique(y, return_inverse=True)
    trained = fit(X, codes, problem.kernel)
    used = np.flatnonzero(trained.dual.any(axis=1))
    scores = problem.kernel(Z, X[used]) @ trained.dual[used]
    return {
        "test_error": 100.0 * np.mean(classes[scores.argmax(axis=1)] != z),
        "objective": trained.objective,
        "dual": None if trained.gap is None else trained.objective - trained.gap,
        "status": trained.status,
        "kernel_evaluations": trained.n_evaluations,
        "arg_max": trained.n_arg_max or "",
        "support_patterns": len(used),
        "support_vectors": np.count_nonzero(trained.dual),
        "epochs": trained.n_epochs,
    }


def _larank(problem: MulticlassSet, **params: Any) -> _Row:
    known = {"cache_mb": _CACHE_MB, **problem.params, **params}
    result, row = _solved(rankplug.make_solver("larank", **known), problem)
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


def _sopopo(problem: MulticlassSet) -> _Row:
    """The class against the rest is the same problem."""
    params = {"decomposition": "top-vs-rest", "tol": 1e-2, "cache_mb": _CACHE_MB, **problem.params}
    if problem.gamma is None:
        params |= {"kernel": "linear", "gamma": None}
    result, row = _solved(rankplug.make_solver("sopopo", **params), problem)
    if problem.gamma is not None:
        row["kernel_evaluations"] = result.n_passes * problem.train[0].shape[0] ** 2
    return {**row, "epochs": result.n_iter}


def _solved(solver: Any, problem: MulticlassSet) -> tuple[Any, _Row]:
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


def _svc(problem: MulticlassSet) -> _Row:
    """One against one: another problem, so that its objective cannot be compared."""
    machine = SVC(C=problem.C, gamma=problem.gamma, cache_size=_CACHE_MB).fit(*problem.train)
    X, y = problem.test
    return {
        "test_error": 100.0 * np.mean(machine.predict(X) != y),
        "status": "converged",
        "support_patterns": len(machine.support_),
    }


def _linear_svc(problem: MulticlassSet) -> _Row:
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


_MARKERS = {
    "larank x1": ("o", "tab:blue"),
    "larank gap": ("s", "tab:blue"),
    "avg perceptron x1": ("^", "tab:orange"),
    "avg perceptron x10": ("v", "tab:red"),
    "mira": ("D", "tab:green"),
}


def plot_multiclass_online(source: Path, target: Path) -> None:
    """Test error against kernel evaluations: Figure 1 of the LaRank paper."""
    table = results.read(source)
    names = list(dict.fromkeys(row["data"] for row in table))
    figure = Figure(figsize=(15, 8), layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    for axis, name in zip(axes, names, strict=False):
        of_set = [row for row in table if row["data"] == name]
        way = [row for row in of_set if row["point"].startswith("larank")]
        axis.semilogx(*_error_by_kernels(way), color="tab:blue", marker=".", label="larank")
        for point, (marker, color) in _MARKERS.items():
            (row,) = (row for row in of_set if row["point"] == point)
            x, error = _error_by_kernels([row])
            axis.semilogx(x, error, marker=marker, markersize=9, ls="", color=color, label=point)
            if point == "larank gap":
                whole = x[0] + float(row["certificate_evaluations"])
                axis.plot([x[0], whole], error * 2, color="tab:blue", ls=":", label="its proof")
        highest = 2.0 * max(float(row["test_error"]) for row in of_set if row["point"] in _MARKERS)
        axis.set(title=name, xlabel="kernel evaluations", ylabel="test error, %")
        axis.set_ylim(0.0, highest)
    for axis in axes[len(names) :]:
        axis.axis("off")
    handles, labels = axes[0].get_legend_handles_labels()
    axes[-1].legend(handles, labels, frameon=False, loc="center")
    figure.savefig(target, dpi=120)


def _error_by_kernels(rows: list[dict[str, str]]) -> tuple[list[float], list[float]]:
    return (
        [float(row["kernel_evaluations"]) for row in rows],
        [float(row["test_error"]) for row in rows],
    )


def plot_larank_operations(source: Path, target: Path) -> None:
    """Test error and kernel evaluations by operations: Figure 2 of the LaRank paper."""
    table = results.read(source)
    names = list(dict.fromkeys(row["data"] for row in table))
    methods = list(dict.fromkeys(row["method"] for row in table))
    figure, axes = figure_of(2)
    width = 0.8 / len(methods)
    for axis, column in zip(axes, ("test_error", "kernel_evaluations"), strict=True):
        for position, method in enumerate(methods):
            at = np.arange(len(names)) + position * width
            values = [
                [float(r[column]) for r in table if (r["data"], r["method"]) == (name, method)]
                for name in names
            ]
            mean = np.array([np.mean(of_set) for of_set in values])
            spread = np.array([[min(of_set), max(of_set)] for of_set in values]).T
            around = np.abs(spread - mean)
            axis.bar(at, mean, width, yerr=around, label=method)
        axis.set_xticks(np.arange(len(names)) + 0.4 - width / 2, names)
    axes[0].set(title="test error, % (mean, least and largest of the orders)")
    axes[1].set(title="kernel evaluations")
    axes[1].legend(frameon=False, fontsize="small")
    figure.savefig(target, dpi=120)
