"""Multiclass machines with kernels by the whole dual problem: MCSVM and SVMstruct.

Both solve, as LaRank,

    max_beta  sum_i beta_i^{y_i} - 1/2 sum_ij k(x_i, x_j) beta_i.beta_j,
    beta_i <= C e_{y_i},  sum_r beta_i^r = 0.

They keep the scores of all examples; a row of the kernel matrix is computed, and counted, when the
dual variables of its example change for the first time.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rivals.multiclass_online import Trained, Vector, solve_example
from rankplug.kernels import Kernel, KernelCache

_AT_ONCE = 16  # examples that are taken by one look at all violations
_NEW_CONSTRAINTS = 100  # of SVMstruct, after which it solves its problem again
_PRECISION = 1e-2  # of SVMstruct: the violation of a constraint that it does not add


def mcsvm(
    X: Any, y: NDArray[np.int64], kernel: Kernel, *, C: float, gap: float, seconds: float
) -> Trained:
    """Crammer and Singer (2001): the examples with the largest violations, one after another.

    It ends when the duality gap is at most `gap`, or after so many seconds.
    """
    ascent, allowed = _Ascent(X, y, kernel, C), np.ones((len(y), int(y.max()) + 1), dtype=bool)
    everything, end = np.arange(len(y)), time.thread_time() + seconds
    looks = 0
    while time.thread_time() < end:
        if looks % 50 == 0 and ascent.gap() <= gap:
            return ascent.trained("converged", 0, looks)
        ascent.improve(everything, allowed, 0.0)
        looks += 1
    return ascent.trained("time_limit", 0, looks)


def svm_struct(
    X: Any, y: NDArray[np.int64], kernel: Kernel, *, C: float, seconds: float
) -> Trained:
    """Tsochantaridis et al. (2005): the classes that violate most become constraints.

    It goes over the examples, looks for the class of each with the largest score, and lets only
    such classes have dual variables. The violation that makes a class a constraint is halved from
    epoch to epoch, from the margin down to 0.01, as is that to which the problem of the constraints
    so far is solved.
    """
    n, end = len(y), time.thread_time() + seconds
    ascent, allowed = _Ascent(X, y, kernel, C), np.zeros((n, int(y.max()) + 1), dtype=bool)
    allowed[np.arange(n), y] = True
    precision, epochs, added = 1.0, 0, n
    while (added or precision > _PRECISION) and time.thread_time() < end:
        precision, epochs = max(_PRECISION, 0.5 * precision), epochs + 1
        order = np.random.default_rng(epochs).permutation(n)
        added = new = 0
        for i in order:
            loss = ascent.loss(i)
            known = loss[allowed[i]].max()
            worst = int(loss.argmax())
            if loss[worst] > known + precision:
                allowed[i, worst] = True
                new += 1
            if new == _NEW_CONSTRAINTS or (i == order[-1] and new):
                working = np.flatnonzero(allowed.sum(axis=1) > 1)
                while ascent.improve(working, allowed, precision):
                    pass
                added, new = added + new, 0
    status = "time_limit" if added or precision > _PRECISION else "converged"
    return ascent.trained(status, n * epochs, epochs)


class _Ascent:
    """Dual variables, the scores that they make, and steps on single examples."""

    def __init__(self, X: Any, y: NDArray[np.int64], kernel: Kernel, C: float) -> None:
        n, k = len(y), int(y.max()) + 1
        self._cache = KernelCache(kernel, X, n * n * 8 / 2**20 + 1)
        self._norms = kernel.diagonal(X)
        self._y, self._C = y, C
        self._dual = np.zeros((n, k))
        self._loss = np.ones((k, n))  # score, and 1 for the other classes
        self._loss[y, np.arange(n)] = 0.0
        self._upper = np.zeros((n, k))
        self._upper[np.arange(n), y] = C

    def loss(self, i: int) -> Vector:
        """Scores of the classes of an example, plus 1 for the other classes."""
        return self._loss[:, i]

    def improve(self, working: NDArray[np.int64], allowed: NDArray[Any], tol: float) -> bool:
        """Steps on the examples that violate most by more than `tol`; False if there are none."""
        loss = self._loss.T[working]
        largest = np.where(allowed[working], loss, -np.inf).max(axis=1)
        free = self._dual[working] < self._upper[working] - 1e-12 * self._C
        violation = largest - np.where(free, loss, np.inf).min(axis=1)
        worst = np.argpartition(violation, -min(_AT_ONCE, len(working)))[-_AT_ONCE:]
        worst = worst[violation[worst] > max(tol, 1e-9)]
        for i in working[worst]:
            self._step(i, np.flatnonzero(allowed[i]))
        return len(worst) > 0

    def _step(self, i: int, classes: NDArray[np.int64]) -> None:
        norm, own = self._norms[i], int(np.searchsorted(classes, self._y[i]))
        others = self._loss[classes, i] - norm * self._dual[i, classes]
        change = solve_example(others, own, norm, self._C) - self._dual[i, classes]
        row = self._cache.rows[self._cache.fetch(np.array([i]))[0]]
        self._dual[i, classes] += change
        for r in np.flatnonzero(change):
            self._loss[classes[r]] += change[r] * row

    def gap(self) -> float:
        """The duality gap."""
        return self._primal() - self._objective()

    def trained(self, status: str, n_arg_max: int, n_epochs: int) -> Trained:
        """The machine as it is now."""
        evaluations = self._cache.n_evaluations
        primal = self._primal()
        return Trained(
            self._dual, evaluations, n_arg_max, n_epochs, status, primal, primal - self._objective()
        )

    def _half_norm(self) -> float:
        margins = np.where(self._upper > 0, 0.0, 1.0)
        return 0.5 * float(np.vdot(self._dual, self._loss.T - margins))

    def _primal(self) -> float:
        rows = np.arange(len(self._y))
        return self._half_norm() + self._C * float(
            (self._loss.max(axis=0) - self._loss[self._y, rows]).sum()
        )

    def _objective(self) -> float:
        return float(self._dual[np.arange(len(self._y)), self._y].sum()) - self._half_norm()
