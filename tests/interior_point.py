"""What the exact solvers minimise, as terms to evaluate and as a program for Clarabel.

Whatever the accuracy of an interior-point solver, the value at its w is an upper bound of the
minimum: no solver's lower bound may lie above it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, sparse

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

_EPSILON = float(np.finfo(np.float64).eps)
_ROUNDINGS = 16.0  # of a score, in units of the last digit of its largest terms
_HARD = 1e7  # a weight of the loss beside the regulariser that makes margins about hard
_LOG2 = float(np.log(2.0))


@dataclass
class Program:
    """``minimise 1/2 x'Px + q'x``, with rows ``lower <= A x`` and exponential cones.

    Rows are added as matrices over all variables; a triple of an exponential cone is the affine
    functions (x, y, z) with ``y exp(x / y) <= z``.
    """

    P: Any
    q: Vector

    def __post_init__(self) -> None:
        self._rows: list[Any] = []
        self._lower: list[Vector] = []
        self._cones: list[tuple[Any, Vector]] = []

    def require(self, rows: Any, lower: Any) -> None:
        """``rows x >= lower``."""
        self._rows.append(sparse.csr_array(rows))
        self._lower.append(np.broadcast_to(lower, self._rows[-1].shape[0]).astype(float))

    def require_exponentials(self, x: Any, y: Any, z: Any, constants: Matrix) -> None:
        """Each row of (x, y, z), plus constants of shape (n, 3), lies in the cone."""
        n = constants.shape[0]
        stacked = sparse.vstack([sparse.csr_array(part) for part in (x, y, z)]).tocsr()
        order = np.arange(3 * n).reshape(3, n).T.ravel()
        self._cones.append((stacked[order], constants.ravel()))

    def solve(self) -> Vector:
        """The x that is found, perhaps not an accurate one."""
        clarabel: Any = pytest.importorskip("clarabel")
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_threads = False, 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
        parts, right = [-one for one in self._rows], [-one for one in self._lower]
        cones = [clarabel.NonnegativeConeT(sum(len(one) for one in right))]
        for rows, constants in self._cones:
            parts.append(-rows)
            right.append(constants)
            cones += [clarabel.ExponentialConeT()] * (len(constants) // 3)
        P, A = sparse.triu(self.P).tocsc(), sparse.vstack(parts).tocsc()
        found = clarabel.DefaultSolver(P, self.q, A, np.concatenate(right), cones, settings)
        return np.array(found.solve().x)


@dataclass(frozen=True)
class Groups:
    """``1/2 R |w - base|^2 + sum over groups g of c_g max(0, max_k m_k - (s_better - s_worse))^p``.

    Scores are ``s = items w``; pair k of a group has two items and a margin.
    """

    items: Matrix
    better: NDArray[np.int64]
    worse: NDArray[np.int64]
    margin: Vector
    group: NDArray[np.int64]
    weight: Vector
    power: int
    regulariser: float = 1.0
    base: Vector | None = None

    @property
    def differences(self) -> Matrix:
        """Of the items of each pair."""
        return self.items[self.better] - self.items[self.worse]

    def value(self, w: Vector) -> float:
        """The objective."""
        moved = w if self.base is None else w - self.base
        return self.value_of(self.differences @ w, float(moved @ moved))

    def value_of(self, ahead: Vector, squared_norm: float) -> float:
        """The objective, by the differences of scores and the squared norm of w."""
        loss = float(self.weight @ self._worst(ahead) ** self.power)
        return 0.5 * self.regulariser * squared_norm + loss

    def rounding(self, ahead: Vector, error: float) -> float:
        """By how much the loss may change if scores are wrong by that."""
        worst = self._worst(ahead)
        more = (worst + 2.0 * error) ** self.power - worst**self.power
        return float(self.weight @ more)

    def upper_bound(self) -> float:
        """The least value of w = 0 (or the base) and of the interior-point solution."""
        D, base = self.differences, self.base
        n = len(self.weight)
        margin = self.margin if base is None else self.margin - D @ base
        total = self.weight.sum()
        weight = self.weight / total
        own, basis = _small(D)
        best = self.value(np.zeros(D.shape[1]) if base is None else base)
        of_group = sparse.csr_array(
            (np.ones(len(self.group)), self.group, np.arange(len(self.group) + 1)),
            shape=(len(self.group), n),
        )
        d = own.shape[1]
        for scale, largest in itertools.product(_scales(own), (np.inf, _HARD)):
            curvature = 2.0 * weight if self.power == 2 else np.zeros(n)
            stiffness = self.regulariser / total / scale**2
            if np.isfinite(largest):
                if stiffness.max(initial=1.0) >= 1.0 / largest:
                    continue
                stiffness = np.maximum(stiffness * (1.0 / largest / stiffness.max()), 1e-30)
            program = Program(
                sparse.diags_array(np.append(stiffness, curvature)),
                np.append(np.zeros(d), weight if self.power == 1 else np.zeros(n)),
            )
            program.require(sparse.hstack((sparse.csr_array(own / scale), of_group)), margin)
            program.require(sparse.hstack((sparse.csr_array((n, d)), sparse.eye_array(n))), 0.0)
            w = basis @ (program.solve()[:d] / scale)
            if np.isfinite(w).all():
                best = min(best, self._least_on_ray(w))
        return best

    def _least_on_ray(self, w: Vector) -> float:
        """The least value about w, in its direction, where margins may be met just so."""
        base = 0.0 if self.base is None else self.base
        ahead = self.differences @ w
        lengths = [1.0]
        if self.base is None and ahead.min() > 0:
            lengths.append(float((self.margin / ahead).max()))
        best = min(self.value(base + length * w) for length in lengths)
        found = optimize.minimize_scalar(
            lambda length: self.value(base + length * w), bounds=(0.5, 2.0), method="bounded"
        )
        return min(best, float(found.fun))

    def _worst(self, ahead: Vector) -> Vector:
        worst = np.zeros(len(self.weight))
        np.maximum.at(worst, self.group, self.margin - ahead)
        return worst


@dataclass(frozen=True)
class Top:
    """``lam/2 |w|^2 + sum_i p_i l(t_q(i) - s_i)``, t_q the mean of the k highest negatives.

    With lam1 and lam2 the problem (13) of A2DM2, each of a query and of its rows.
    """

    positives: Matrix
    negatives: Matrix
    query: NDArray[np.int64]  # of each positive
    query_of_negative: NDArray[np.int64]
    weight: Vector
    top_k: NDArray[np.int64]
    lam: float
    loss: str = "squared-hinge"
    lam1: Vector | None = None
    lam2: Vector | None = None
    origin: Vector | float = 0.0  # what was taken off all rows

    def value(self, w: Vector) -> float:
        """The objective (11)."""
        return self.value_of(self.arguments(w), float(w @ w))

    def arguments(self, w: Vector) -> Vector:
        """``t - s`` of each positive, by differences of rows where one negative counts."""
        scores = self.negatives @ w
        found = np.empty(len(self.query))
        for q, k in enumerate(self.top_k):
            own = np.flatnonzero(self.query_of_negative == q)
            highest = own[np.argsort(-scores[own], kind="stable")[:k]]
            for i in np.flatnonzero(self.query == q):
                found[i] = ((self.negatives[highest] - self.positives[i]) @ w).mean()
        return found

    def value_of(self, arguments: Vector, squared_norm: float) -> float:
        """The objective, by ``t - s`` and the squared norm of w."""
        return 0.5 * self.lam * squared_norm + float(self.weight @ self._losses(arguments))

    def rounding(self, arguments: Vector, error: float) -> float:
        """By how much the loss may change if scores are wrong by that."""
        more = self._losses(arguments + 2.0 * error) - self._losses(arguments)
        return float(self.weight @ more)

    def _losses(self, z: Vector) -> Vector:
        if self.loss == "logistic":
            return np.logaddexp(0.0, z) / _LOG2
        return np.exp(z) if self.loss == "exponential" else np.maximum(0.0, 1.0 + z) ** 2

    def upper_bound(self) -> float:
        """The least value of (11) at w = 0 and at the interior-point solution."""
        best = self.value(np.zeros(self.positives.shape[1]))
        for w in self._solutions(split=False):
            best = min(best, self.value(w))
        return best

    def upper_bound_of_13(self) -> float:
        """The same of (13)."""
        found = [self.value_of_13(w) for w in self._solutions(split=True)]
        return min(1.0, *found)

    def value_of_13(self, w: Vector) -> float:
        """The value of (13) at w, with the best t."""
        assert self.lam1 is not None
        assert self.lam2 is not None
        pos, neg = self.positives @ w, self.negatives @ w
        total = 0.5 * self.lam * float(w @ w)
        for q in range(len(self.top_k)):
            mine, others = self.query == q, self.query_of_negative == q
            s, n, p = pos[mine], neg[others], self.weight[mine]
            l1, l2 = self.lam1[q], self.lam2[q]

            def value(t: float, s=s, n=n, p=p, l1=l1, l2=l2) -> float:
                squares = np.sum((t - s) ** 2) + np.sum((n - t) ** 2)
                hinge = p @ np.maximum(0.0, 1.0 + t - s) ** 2
                return float(0.5 * l1 * t**2 + hinge + 0.5 * l2 * squares)

            low, high = n.max(), max(s.max(), n.max(), 0.0)
            for _ in range(100):  # golden enough: thirds
                a, b = low + (high - low) / 3.0, high - (high - low) / 3.0
                low, high = (low, b) if value(a) <= value(b) else (a, high)
            total += min(value(low), value(high), value(n.max()))
        return total

    def _solutions(self, *, split: bool) -> Any:
        rows = np.concatenate((self.positives, self.negatives))
        own, basis = _small(rows - rows.mean(axis=0) if self._is_one_query() else rows)
        P, N = own[: len(self.query)], own[len(self.query) :]
        for scale in _scales(own):
            w = basis @ (self._solve(P / scale, N / scale, self.lam / scale**2, split) / scale)
            if np.isfinite(w).all():
                yield w

    def _is_one_query(self) -> bool:
        return len(self.top_k) == 1

    def _solve(self, P: Matrix, N: Matrix, lam: Vector, split: bool) -> Vector:
        """Variables: w, t of each query, its k-th score, what negatives have above that, losses."""
        (m, d), n, n_queries = P.shape, len(N), len(self.top_k)
        at = np.cumsum([0, d, n_queries, n_queries, n, m, m, m])
        size = int(at[-1])

        def block(part: int, values: Any) -> Any:
            values = sparse.coo_array(values)
            shape = (values.shape[0], size)
            return sparse.csr_array((values.data, (values.row, values.col + at[part])), shape=shape)

        of_pos, of_neg = np.eye(n_queries)[self.query], np.eye(n_queries)[self.query_of_negative]
        p, q = np.zeros(size), np.zeros(size)
        p[:d] = lam
        z, loss = block(1, of_pos) - block(0, P), block(4, np.eye(m))
        if self.loss == "squared-hinge":
            p[at[4] : at[5]] = 2.0 * self.weight
        else:
            q[at[4] : at[5]] = self.weight / (_LOG2 if self.loss == "logistic" else 1.0)
        quadratic = sparse.diags_array(p)
        if split:
            assert self.lam1 is not None
            assert self.lam2 is not None
            below = block(0, N) - block(1, of_neg)
            rows = sparse.vstack((block(1, np.eye(n_queries)), z, below))
            weight = np.concatenate((self.lam1, of_pos @ self.lam2, of_neg @ self.lam2))
            quadratic = quadratic + rows.T @ (sparse.diags_array(weight) @ rows)
        program = Program(quadratic, q)
        if self.top_k.max() == 1:
            program.require(block(1, of_neg) - block(0, N), 0.0)
        else:
            mean = block(2, np.eye(n_queries)) + block(3, of_neg.T / self.top_k[:, None])
            program.require(block(1, np.eye(n_queries)) - mean, 0.0)
            program.require(block(3, np.eye(n)) + block(2, of_neg) - block(0, N), 0.0)
            program.require(block(3, np.eye(n)), 0.0)
        one, nothing = np.tile([0.0, 1.0, 0.0], (m, 1)), sparse.csr_array((m, size))
        if self.loss == "squared-hinge":
            program.require(loss - z, 1.0)
            program.require(loss, 0.0)
        elif self.loss == "exponential":
            program.require_exponentials(z, nothing, loss, one)
        else:  # exp(z - loss) + exp(-loss) <= 1
            a, b = block(5, np.eye(m)), block(6, np.eye(m))
            program.require_exponentials(z - loss, nothing, a, one)
            program.require_exponentials(-loss, nothing, b, one)
            program.require(-a - b, -1.0)
        return program.solve()[:d]


def _small(rows: Matrix) -> tuple[Matrix, Matrix]:
    """The rows in a basis of what they span, if that is smaller, and the basis."""
    n, d = rows.shape
    if d <= n:
        return rows, np.eye(d)
    basis, triangle = np.linalg.qr(rows.T)
    return triangle.T, basis


def _scales(rows: Matrix) -> list[Vector]:
    """Units of the weights: one for all columns and, where these differ, one for each."""
    columns = np.abs(rows).max(axis=0, initial=0.0)
    largest = columns.max(initial=0.0) or 1.0
    of_all = np.full(len(columns), largest)
    if columns.min(initial=largest) >= 0.01 * largest:
        return [of_all]
    return [of_all, np.where(columns > 0, columns, largest)]


def error_of_scores(items: Matrix, w: Vector) -> float:
    """By how much rounding may change a score."""
    return _ROUNDINGS * _EPSILON * float((np.abs(items) @ np.abs(w)).max(initial=0.0))
