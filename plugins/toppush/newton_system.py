"""The Newton system of the augmented Lagrangian of TopPush, with t eliminated.

With c_i = 2 p_i for positives that have a loss, sigma the penalty and F the projection onto the
span of the face of the cone, the Hessian of Phi is, at a direction (v, s),

    1/2 lam |v|^2 + 1/2 sum_i c_i (x_i.v - s_q(i))^2 + sigma/2 |F (X- v - s)|^2.

The best s for a given v is ``s_q = h_q.v / r_q``, which leaves the matrix

    S = lam I + X+' c X+ + sigma X-' F X- - sum over q of h_q h_q' / r_q.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, cg

from rankplug.top import TopProblem
from rankplug_plugins.toppush.cone import Face

__all__ = ["NewtonSystem"]

Vector: TypeAlias = NDArray[np.float64]

_LARGEST_CHOLESKY = 2000
_CG_TOLERANCE = 1e-2
_MOST_CG_STEPS = 200


class NewtonSystem:
    """Rows with a part in the Hessian, and the solution of the system.

    Parameters
    ----------
    problem : TopProblem
    lam : float
    active : bool array of shape (m,)
        Positives with a loss.
    sigma : float64 array of shape (n,)
    face : Face
    """

    def __init__(
        self,
        problem: TopProblem,
        lam: float,
        active: NDArray[np.bool_],
        sigma: Vector,
        face: Face,
    ) -> None:
        self._problem, self._lam, self._face, self._sigma = problem, lam, face, sigma
        self._rows_pos = np.flatnonzero(active)
        self._rows_neg = np.flatnonzero(face.free | face.capped)
        self._X_pos, self._X_neg = problem.X_pos[self._rows_pos], problem.X_neg[self._rows_neg]
        self._c = 2.0 * problem.weight[self._rows_pos]
        ones = sigma * face.project(np.ones(len(sigma)))
        response = problem.sum_positives(np.where(active, 2.0 * problem.weight, 0.0))
        response = response + problem.sum_negatives(ones)
        self._response = np.where(response > 0, response, 1.0)
        self._coupled = ones[self._rows_neg]
        n_rows = len(active) + len(sigma)
        self._share = (len(self._rows_pos) + len(self._rows_neg)) / n_rows
        self.n_passes = 0.0

    def solve(self, gradient: Vector, t_gradient: Vector) -> tuple[Vector, Vector]:
        """The Newton direction (dw, dt)."""
        h = self._couplings()
        right = -gradient - h.T @ (t_gradient / self._response)
        if len(gradient) <= _LARGEST_CHOLESKY:
            self.n_passes = self._share
            dw = _solve_positive(self._matrix(h), right)
        else:
            dw = self._conjugate_gradients(h, right)
        return dw, (h @ dw - t_gradient) / self._response

    def _couplings(self) -> Any:
        """``h_q = X+' c + sigma X-' F 1`` of each query, as rows."""
        pos = _per_query(self._problem.pos_ptr, self._rows_pos, self._c) @ self._X_pos
        neg = _per_query(self._problem.neg_ptr, self._rows_neg, self._coupled) @ self._X_neg
        return pos + neg

    def _matrix(self, h: Any) -> NDArray[np.float64]:
        sigma = self._sigma[self._rows_neg]
        free = self._face.free[self._rows_neg]
        matrix = _gram(self._X_pos, self._c) + _gram(self._X_neg, np.where(free, sigma, 0.0))
        matrix -= _gram(h, 1.0 / self._response)
        if self._face.capped.any():
            matrix += self._capped_part(sigma, free)
        matrix[np.diag_indices_from(matrix)] += self._lam
        return matrix

    def _capped_part(self, sigma: Vector, free: NDArray[np.bool_]) -> NDArray[np.float64]:
        """What capped entries add to ``sigma X-' F X-``: products of sums of rows."""
        ptr = self._problem.neg_ptr
        of_free = _dense(_per_query(ptr, self._rows_neg, np.sqrt(sigma) * free) @ self._X_neg)
        of_capped = _dense(_per_query(ptr, self._rows_neg, np.sqrt(sigma) * ~free) @ self._X_neg)
        f, r, determinant = self._face.counts()
        k = self._face.k
        lone = (f == 0) & (r == k)
        mixed: NDArray[np.float64] = of_free.T @ (((k - r) / determinant)[:, None] * of_capped)
        part = _gram(of_free, -r / determinant) + mixed + mixed.T
        return part + _gram(of_capped, np.where(lone, 1.0 / k, f / determinant))

    def _conjugate_gradients(self, h: Any, right: Vector) -> Vector:
        def product(v: Vector) -> Vector:
            self.n_passes += 2 * self._share
            z = np.zeros(len(self._sigma))
            z[self._rows_neg] = self._X_neg @ v
            z = self._sigma * self._face.project(z)
            result: Vector = self._lam * v - h.T @ ((h @ v) / self._response)
            result += self._X_pos.T @ (self._c * (self._X_pos @ v))
            result += self._X_neg.T @ z[self._rows_neg]
            return result

        weight = np.where(self._face.free, self._sigma, 0.0)[self._rows_neg]
        diagonal = self._lam + _squares(self._X_pos, self._c) + _squares(self._X_neg, weight)
        shape = (len(right), len(right))
        direction, _ = cg(
            LinearOperator(shape, matvec=product),
            right,
            rtol=_CG_TOLERANCE,
            maxiter=_MOST_CG_STEPS,
            M=LinearOperator(shape, matvec=lambda v: v / diagonal),
        )
        return np.asarray(direction)


def _per_query(ptr: NDArray[np.int64], rows: NDArray[np.int64], weight: Vector) -> Any:
    """The matrix that sums rows, times their weight, over each query."""
    starts = np.searchsorted(rows, ptr)
    columns = np.arange(len(rows))
    return sparse.csr_array((weight, columns, starts), shape=(len(ptr) - 1, len(rows)))


def _gram(X: Any, weight: Vector) -> NDArray[np.float64]:
    """``X' diag(weight) X``."""
    if sparse.issparse(X):
        return np.asarray((X.T @ (sparse.diags_array(weight) @ X)).toarray())
    return np.asarray(X.T @ (weight[:, None] * X))


def _squares(X: Any, weight: Vector) -> Vector:
    """The diagonal of ``X' diag(weight) X``."""
    squares: Vector = X.power(2).T @ weight if sparse.issparse(X) else (X**2).T @ weight
    return squares


def _dense(X: Any) -> NDArray[np.float64]:
    return np.asarray(X.toarray() if sparse.issparse(X) else X)


def _solve_positive(matrix: NDArray[np.float64], right: Vector) -> Vector:
    """Solve by Cholesky; rounding of large penalties may ask for a tiny ridge."""
    largest = float(matrix.diagonal().max())
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        raise FloatingPointError("the Hessian is too large for floating point")
    ridge = 0.0
    while True:
        try:
            factor = linalg.cho_factor(matrix, lower=True)
            return np.asarray(linalg.cho_solve(factor, right))
        except linalg.LinAlgError:
            added = max(99.0 * ridge, 1e-15 * largest)
            matrix[np.diag_indices_from(matrix)] += added
            ridge += added
