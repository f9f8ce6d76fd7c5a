"""Ranking at the top as two functions and a linear constraint (the paper's problem 13).

    minimise   lam/2 |w|^2 + sum_q lam1_q/2 t_q^2                                 (f1, of w and t)
               + sum_i p_i max(0, 1 + b_i)^2 + sum_i lam2_i/2 b_i^2
               + sum_j lam2_j/2 s_j^2                                             (f2, of b and s)
    subject to b_i + w.x_i - t_q(i) = 0 over positives,  s_j + t_q(j) - w.x_j = 0 and s_j <= 0 over
               negatives

so that ``A (w, t) = (X+ w - t, t - X- w)``, ``B = I`` and ``c = 0``. Without lam1 and lam2 this is
problem (11). All minimisers are closed, except that of f1 for huge data, by conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse

from rankplug.data import to_dense
from rankplug.objectives import TopProblem
from rankplug.optim.bracket import Vector
from rankplug.optim.linear_systems import conjugate_gradients, factorise

Solve: TypeAlias = Callable[[Vector], Vector]

_LARGEST_FACTOR = 3000  # rows of a matrix that is factorised, which takes 72 MB
_CG_TOLERANCE = 1e-8  # ADMM takes its steps for exact
_MOST_FITTED = 2**21  # elements of a matrix whose least squares take a fraction of a second
_BISECTIONS = 60  # as many digits as there are
_OF_SUMS = 10.0  # weight of a sum that is to be met, beside the columns' elements
_POWER_STEPS = 30  # enough for a norm that enters a step's length with the power 2/3


class TopSplit:
    """Implements `rankplug.optim.a2dm2.SplitProblem`.

    Parameters
    ----------
    problem : TopProblem
        With top_k = 1.
    lam, lam1, lam2 : float
        A query counts for lam1 and lam2 as it counts for the loss: if queries differ in size or
        weight, lam1 and lam2 are its means over rows. So a query of weight 2 is that query twice.
    """

    def __init__(self, problem: TopProblem, lam: float, lam1: float, lam2: float) -> None:
        self.problem, self.lam = problem, lam
        self._m = len(problem.weight)
        self._n_rows = self._m + int(problem.neg_ptr[-1])
        of_query = problem.sum_positives(problem.weight)
        sizes = np.diff(problem.pos_ptr) + np.diff(problem.neg_ptr)
        share = self._n_rows * of_query / sizes
        self.lam1 = lam1 * share
        self.lam2 = lam2 * np.concatenate(
            (problem.of_positives(share), problem.of_negatives(share))
        )
        self.c = np.zeros(self._n_rows)
        self.n_passes = 0.0
        self._solve: tuple[float, Solve] | None = None
        self._sums_and_gram: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    @property
    def n_weights(self) -> int:
        """Length of w, the first part of x."""
        return self.problem.n_features

    def map_x(self, x: Vector) -> Vector:
        """``(X+ w - t, t - X- w)``; one pass over the features."""
        problem, w, t = self.problem, x[: self.n_weights], x[self.n_weights :]
        self.n_passes += 1
        pos, neg = problem.scores(w)
        return np.concatenate((pos - problem.of_positives(t), problem.of_negatives(t) - neg))

    def transposed(self, v: Vector) -> Vector:
        """``A' v``; one pass over the features."""
        problem, pos, neg = self.problem, v[: self._m], v[self._m :]
        self.n_passes += 1
        return np.concatenate((problem.combination(pos, neg), self._of_t(v)))

    def map_y(self, y: Vector) -> Vector:
        """B is the identity."""
        return y

    def argmin_x(self, v: Vector, rho: float) -> Vector:
        """The (w, t) that minimises ``f1 + rho/2 |A (w, t) - v|^2``; it factorises once per rho."""
        if self._solve is None or self._solve[0] != rho:
            self._solve = rho, self._solver(rho)
        return self._solve[1](v)

    def argmin_y(self, v: Vector, rho: float) -> Vector:
        """The (b, s) that minimises ``f2 + rho/2 |(b, s) - v|^2``."""
        return self._minimise_f2(rho * v, rho)

    def argmin_y_linear(self, g: Vector) -> Vector:
        """The (b, s) that minimises ``f2 + g'(b, s)``."""
        return self._minimise_f2(-g, 0.0)

    def _minimise_f2(self, pull: Vector, rho: float) -> Vector:
        """The y that minimises ``f2(y) + rho/2 |y|^2 - pull.y``."""
        y = pull / (rho + self.lam2)
        pos, twice = slice(0, self._m), 2.0 * self.problem.weight
        lossy = (pull[pos] - twice) / (rho + self.lam2[pos] + twice)
        y[pos] = np.where(y[pos] <= -1.0, y[pos], lossy)
        y[self._m :] = np.minimum(y[self._m :], 0.0)
        return y

    def scores(self, x: Vector, Ax: Vector) -> tuple[Vector, Vector]:
        """``X+ w`` and ``X- w``, given ``A (w, t)``."""
        t = x[self.n_weights :]
        pos = Ax[: self._m] + self.problem.of_positives(t)
        return pos, self.problem.of_negatives(t) - Ax[self._m :]

    def dual_point(self, multiplier: Vector) -> tuple[Vector, Vector]:
        """Dual numbers (a, b) of problem (11); feasible at the optimum."""
        return np.maximum(-multiplier[: self._m], 0.0), np.maximum(-multiplier[self._m :], 0.0)

    def value(self, x: Vector, Ax: Vector) -> float:
        """Of problem (13) at the weights of x, with each t_q as in x or at the top."""
        problem, w = self.problem, x[: self.n_weights]
        pos, neg = self.scores(x, Ax)
        t = np.maximum(x[self.n_weights :], problem.tops(neg))
        y = np.concatenate((problem.of_positives(t) - pos, neg - problem.of_negatives(t)))
        regulariser = 0.5 * self.lam * float(w @ w) + 0.5 * float(self.lam1 @ t**2)
        return regulariser + self._value_f2(y)

    def lower_bounds(self, x: Vector, multiplier: Vector) -> tuple[float, float]:
        """Certified lower bounds of the minima of (11) and of (13); one pass over the features.

        The multipliers of negatives are rescaled in each query, for (11) to the sum of those of the
        positives, for (13) to what t_q is optimal for.
        """
        problem = self.problem
        self.n_passes += 1
        a, b = self.dual_point(multiplier)
        scale = problem.matching_scale(a, b)
        of_11 = problem.of_positives(scale) > 0
        combined = problem.combination(np.where(of_11, a, 0.0), b * problem.of_negatives(scale))
        bound = problem.dual_value(self.lam, np.where(of_11, a, 0.0), combined)
        # For (13), g itself, but with the sum by which t_q is optimal.
        positive = np.maximum(multiplier[self._m :], 0.0)
        wanted = problem.sum_negatives(positive) - problem.sum_positives(multiplier[: self._m])
        wanted = np.maximum(wanted + self.lam1 * x[self.n_weights :], 0.0)
        own = problem.sum_negatives(b)
        scale = np.divide(wanted, own, where=own > 0, out=np.zeros_like(own))
        g_neg = positive - b * problem.of_negatives(scale)
        g = np.concatenate((multiplier[: self._m], g_neg))
        y, of_x = self.argmin_y_linear(g), self.transposed(g)
        w_part, t_part = of_x[: self.n_weights], of_x[self.n_weights :]
        of_13 = self._value_f2(y) + float(g @ y) - 0.5 * float(w_part @ w_part) / self.lam
        return bound, of_13 - 0.5 * float(np.sum(t_part**2 / self.lam1))

    def start(self, w: Vector) -> tuple[Vector, Vector, Vector]:
        """``(w, t)``, y and multipliers to start from: those that are the best for w.

        The multipliers are minus the slopes of f2 at y, less those of ``s <= 0``, which are fitted
        to ``f1' + A'g = 0`` over the negatives that are nearest to the top. That holds at the
        minimum, which is so recognised.
        """
        problem = self.problem
        pos, neg = problem.scores(w)
        self.n_passes += 1
        low = t = problem.tops(neg)
        high = np.maximum(np.maximum.reduceat(pos, problem.pos_ptr[:-1]), np.maximum(low, 0.0))
        for _ in range(_BISECTIONS):  # between the top and where the value rises with t for sure
            _, g = self._slopes(t, pos, neg)
            rises = self.lam1 * t + self._of_t(g) > 0.0
            low, high = np.where(rises, low, t), np.where(rises, t, high)
            t = 0.5 * (low + high)
        y, g = self._slopes(t, pos, neg)
        of_x = self.transposed(g) + np.concatenate((self.lam * w, self.lam1 * t))
        g[self._m :] -= self._fit_negatives(of_x, y[self._m :])
        return np.concatenate((w, t)), y, g

    def _slopes(self, t: Vector, pos: Vector, neg: Vector) -> tuple[Vector, Vector]:
        """The y at these scores, and minus the slopes of f2 there."""
        y = np.concatenate((self.problem.of_positives(t) - pos, neg - self.problem.of_negatives(t)))
        g = -self.lam2 * y
        g[: self._m] -= 2.0 * self.problem.weight * np.maximum(0.0, 1.0 + y[: self._m])
        return y, g

    def _of_t(self, v: Vector) -> Vector:
        """The part of ``A' v`` that belongs to t."""
        problem = self.problem
        return problem.sum_negatives(v[self._m :]) - problem.sum_positives(v[: self._m])

    def _fit_negatives(self, of_x: Vector, below: Vector) -> Vector:
        """The ``u >= 0`` of negatives near the top with ``X-'u = -of_w``, and sums ``of_t``."""
        problem, d = self.problem, self.n_weights
        sums = np.maximum(of_x[d:], 0.0)
        u = (below == problem.of_negatives(problem.tops(below))).astype(np.float64)
        u *= problem.of_negatives(sums / problem.sum_negatives(u))
        n_near = min(len(u), 2 * len(of_x))
        if len(of_x) * n_near > _MOST_FITTED:
            return u
        near = np.sort(np.argsort(-below, kind="stable")[:n_near])
        queries = np.arange(problem.n_queries)
        in_query = (problem.of_negatives(queries)[near] == queries[:, None]).astype(np.float64)
        rows = to_dense(problem.negatives.take(near).gather()).T
        weight = _OF_SUMS * max(1.0, float(np.abs(rows).max()))
        left = np.concatenate((rows, weight * in_query))
        with suppress(RuntimeError):  # too many iterations: the highest negatives alone then
            found, _ = optimize.nnls(left, np.concatenate((-of_x[:d], weight * sums)))
            u[:] = 0.0
            u[near] = found
        return u

    def _value_f2(self, y: Vector) -> float:
        slack = np.maximum(0.0, 1.0 + y[: self._m])
        return float(self.problem.weight @ slack**2) + 0.5 * float(self.lam2 @ y**2)

    def norm(self) -> float:
        """Largest singular value of A, from below, by the power method."""
        v = np.ones(self._n_rows)
        norm = 0.0
        for _ in range(_POWER_STEPS):
            v = self.map_x(self.transposed(v / np.linalg.norm(v)))
            norm = float(np.sqrt(np.linalg.norm(v)))
            if norm == 0.0:
                break
        return norm

    def _solver(self, rho: float) -> Solve:
        """The map ``(diag(lam, lam1) + rho A'A)^-1 rho A'``, by the smaller of two matrices."""
        if min(self.n_weights, self._n_rows) > _LARGEST_FACTOR:
            return self._by_conjugate_gradients(rho)
        if self.n_weights > self._n_rows:
            return self._by_rows(rho)
        return self._by_columns(rho)

    def _by_columns(self, rho: float) -> Solve:
        """A Cholesky factor of the matrix of w, t eliminated."""
        problem, d = self.problem, self.n_weights
        sizes = np.diff(problem.pos_ptr) + np.diff(problem.neg_ptr)
        of_t = self.lam1 + rho * sizes
        if self._sums_and_gram is None:
            self._sums_and_gram = self._sum_rows()
        sums, gram = self._sums_and_gram
        matrix = rho * gram
        matrix -= sums.T @ ((rho * rho / of_t)[:, None] * sums)
        matrix[np.diag_indices_from(matrix)] += self.lam
        factor = factorise(matrix)

        def solve(v: Vector) -> Vector:
            right = rho * self.transposed(v)
            w = linalg.cho_solve(factor, right[:d] + sums.T @ (rho * right[d:] / of_t))
            return np.concatenate((w, (right[d:] + rho * (sums @ w)) / of_t))

        return solve

    def _by_rows(self, rho: float) -> Solve:
        """Woodbury: ``(D + rho A'A)^-1 rho A' = D^-1 A' (1/rho + A D^-1 A')^-1``."""
        problem, m = self.problem, self._m
        order = np.concatenate((problem.pos_places, problem.neg_places))
        X = problem.rows.gather()
        matrix = to_dense(X @ X.T)[np.ix_(order, order)] / self.lam
        queries = np.arange(problem.n_queries)
        query = np.concatenate((problem.of_positives(queries), problem.of_negatives(queries)))
        matrix += (query[:, None] == query) / self.lam1[query]
        # A negates the rows of negatives; 1 where both signs are the same.
        matrix[:m, m:] *= -1.0
        matrix[m:, :m] *= -1.0
        matrix[np.diag_indices_from(matrix)] += 1.0 / rho
        factor = factorise(matrix)
        scale = np.concatenate((np.full(self.n_weights, self.lam), self.lam1))
        return lambda v: self.transposed(linalg.cho_solve(factor, v)) / scale

    def _by_conjugate_gradients(self, rho: float) -> Solve:
        """Conjugate gradients, each from the last solution."""
        scale = np.concatenate((np.full(self.n_weights, self.lam), self.lam1))
        last = np.zeros(len(scale))
        squares = sum(_squares(block) for _, block in self.problem.rows.blocks())
        sizes = np.diff(self.problem.pos_ptr) + np.diff(self.problem.neg_ptr)
        diagonal = scale + rho * np.concatenate((squares, sizes))

        def product(x: Vector) -> Vector:
            return scale * x + rho * self.transposed(self.map_x(x))

        def solve(v: Vector) -> Vector:
            nonlocal last
            right = rho * self.transposed(v)
            last = conjugate_gradients(product, right, diagonal, rtol=_CG_TOLERANCE, start=last)
            return last

        return solve

    def _sum_rows(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The sum of the rows of each query, and ``X' X``."""
        problem, d = self.problem, self.n_weights
        starts = problem.pos_ptr + problem.neg_ptr
        sums, gram = np.zeros((problem.n_queries, d)), np.zeros((d, d))
        for span, block in problem.rows.blocks():
            first = int(np.searchsorted(starts, span.start, side="right")) - 1
            last = int(np.searchsorted(starts, span.stop))
            within = np.clip(starts[first : last + 1], span.start, span.stop) - span.start
            n_rows = span.stop - span.start
            ones = sparse.csr_array(
                (np.ones(n_rows), np.arange(n_rows), within), shape=(last - first, n_rows)
            )
            sums[first:last] += to_dense(ones @ block)
            gram += to_dense(block.T @ block)
        return sums, gram


def _squares(X: Any) -> Vector:
    """Sums of squares of the columns."""
    squares = X.power(2) if sparse.issparse(X) else X**2
    return np.asarray(squares.sum(axis=0)).ravel()
