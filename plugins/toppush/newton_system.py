"""The Newton system of the augmented Lagrangian of TopPush, with t eliminated.

With c_i the curvature of the loss of a positive (2 p_i or 0 for the squared hinge), sigma the
penalty and F the projection onto the span of the face of the cone, the Hessian of Phi is, at a
direction (v, s),

    1/2 lam |v|^2 + 1/2 sum_i c_i (x_i.v - s_q(i))^2 + sigma/2 |F (X- v - s)|^2.

The best s for a given v is ``s_q = h_q.v / r_q``, which leaves the matrix

    S = lam I + X+' c X+ + sigma X-' F X- - sum over q of h_q h_q' / r_q.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from rankplug.data import to_dense
from rankplug.objectives import Rows, TopProblem
from rankplug.optim.bracket import Vector
from rankplug.optim.linear_systems import conjugate_gradients, factorise
from rankplug_plugins.toppush.cone import Face

_LARGEST_CHOLESKY = 2000  # features: a factor takes their cube / 3 operations, 32 MB, each step
_CG_TOLERANCE = 1e-2  # a line search follows, so directions need not be exact
_MOST_CG_STEPS = 200  # wherever they end, the direction is one of descent


class NewtonSystem:
    """Rows with a part in the Hessian, which are not copied, and the solution of the system.

    Parameters
    ----------
    problem : TopProblem
    lam : float
    curvature : float64 array of shape (m,)
        That of the loss of each positive.
    sigma : float64 array of shape (n,)
    face : Face
    """

    def __init__(
        self, problem: TopProblem, lam: float, curvature: Vector, sigma: Vector, face: Face
    ) -> None:
        self._problem, self._lam, self._face, self._sigma = problem, lam, face, sigma
        pos_places = np.flatnonzero(curvature)
        neg_places = np.flatnonzero(face.free | face.capped)
        self._pos = _Active(problem.positives, pos_places, problem.pos_ptr)
        self._neg = _Active(problem.negatives, neg_places, problem.neg_ptr)
        self._c = curvature[pos_places]
        ones = sigma * face.project(np.ones(len(sigma)))
        response = problem.sum_positives(curvature) + problem.sum_negatives(ones)
        self._response = np.where(response > 0, response, 1.0)
        self._coupled = ones[neg_places]
        n_rows = len(curvature) + len(sigma)
        self._share = (len(pos_places) + len(neg_places)) / n_rows
        self.n_passes = 0.0

    def solve(self, gradient: Vector, t_gradient: Vector) -> tuple[Vector, Vector]:
        """The Newton direction (dw, dt)."""
        self.n_passes = self._share
        factorised = len(gradient) <= _LARGEST_CHOLESKY
        curvature = _gram if factorised else _squares
        places = self._neg.places
        sigma, free = self._sigma[places], self._face.free[places]
        root = np.sqrt(sigma)
        neg_weights = [self._coupled]
        if factorised and self._face.capped.any():
            neg_weights += [root * free, root * ~free]
        (h,), of_pos = self._pos.sums([self._c], curvature, self._c)
        (of_coupled, *of_faces), of_neg = self._neg.sums(
            neg_weights, curvature, np.where(free, sigma, 0.0)
        )
        # h_q = X+' c + sigma X-' F 1 of each query, as rows.
        h = h + of_coupled
        right = -gradient - h.T @ (t_gradient / self._response)
        if factorised:
            matrix = of_pos + of_neg - _gram(h, 1.0 / self._response)
            if of_faces:
                matrix += self._capped_part(*map(to_dense, of_faces))
            matrix[np.diag_indices_from(matrix)] += self._lam
            dw = _solve_positive(matrix, right)
        else:
            dw = self._conjugate_gradients(h, right, self._lam + of_pos + of_neg)
        return dw, (h @ dw - t_gradient) / self._response

    def _capped_part(self, of_free: Any, of_capped: Any) -> NDArray[np.float64]:
        """What capped entries add to ``sigma X-' F X-``: products of sums of rows by query."""
        f, r, determinant = self._face.counts()
        k = self._face.k
        lone = (f == 0) & (r == k)
        mixed: NDArray[np.float64] = of_free.T @ (((k - r) / determinant)[:, None] * of_capped)
        part = mixed + mixed.T - _gram(of_free, r / determinant)
        return part + _gram(of_capped, np.where(lone, 1.0 / k, f / determinant))

    def _conjugate_gradients(self, h: Any, right: Vector, diagonal: Vector) -> Vector:
        """From 0, preconditioned by the diagonal of what h is subtracted from."""
        pos, neg = self._pos.rows, self._neg.rows

        def product(v: Vector) -> Vector:
            self.n_passes += 2 * self._share
            z = np.zeros(len(self._sigma))
            z[self._neg.places] = neg.dot(v)
            z = self._sigma * self._face.project(z)
            result: Vector = self._lam * v - h.T @ ((h @ v) / self._response)
            result += pos.transposed_dot(self._c * pos.dot(v))
            result += neg.transposed_dot(z[self._neg.places])
            return result

        return conjugate_gradients(
            product, right, diagonal, rtol=_CG_TOLERANCE, maxiter=_MOST_CG_STEPS
        )


class _Active:
    """The positives or the negatives with a part in the Hessian."""

    def __init__(self, kind: Rows, places: NDArray[np.int64], ptr: NDArray[np.int64]) -> None:
        self.rows, self.places, self._ptr = kind.take(places), places, ptr

    def sums(
        self, weights: Sequence[Vector], curvature: Callable[[Any, Vector], Any], weight: Vector
    ) -> tuple[list[Any], Any]:
        """Sums over each query of rows times each of the weights, and their weighted curvature.

        One pass over the active rows.
        """
        shape = (len(self._ptr) - 1, self.rows.n_columns)
        make = sparse.csr_array if sparse.issparse(self.rows.X) else np.zeros
        sums, curved = [make(shape) for _ in weights], 0.0
        for span, block in self.rows.blocks():
            starts = np.searchsorted(self.places[span], self._ptr)
            for i, of_sum in enumerate(weights):
                sums[i] = _add_sums(sums[i], of_sum[span], starts, block)
            curved = curved + curvature(block, weight[span])
        return sums, curved


def _add_sums(sums: Any, weight: Vector, starts: NDArray[np.int64], block: Any) -> Any:
    """Add the sums of rows, times their weight, from each of the starts to the next."""
    if sparse.issparse(sums):
        return sums + _make_summing(weight, starts) @ block
    first = int(np.searchsorted(starts, 0, side="right")) - 1
    last = int(np.searchsorted(starts, len(weight)))
    sums[first:last] += _make_summing(weight, starts[first : last + 1]) @ block
    return sums


def _make_summing(weight: Vector, starts: NDArray[np.int64]) -> Any:
    shape = (len(starts) - 1, len(weight))
    return sparse.csr_array((weight, np.arange(len(weight)), starts), shape=shape)


def _gram(X: Any, weight: Vector) -> NDArray[np.float64]:
    """``X' diag(weight) X`` for weights >= 0."""
    if sparse.issparse(X):
        return np.asarray((X.T @ (sparse.diags_array(weight) @ X)).toarray())
    root = np.sqrt(weight)[:, None] * X
    return np.asarray(root.T @ root)


def _squares(X: Any, weight: Vector) -> Vector:
    """The diagonal of ``X' diag(weight) X``."""
    squares: Vector = X.power(2).T @ weight if sparse.issparse(X) else (X**2).T @ weight
    return squares


def _solve_positive(matrix: NDArray[np.float64], right: Vector) -> Vector:
    """Solve by Cholesky; rounding of large penalties may ask for a tiny ridge."""
    if not np.isfinite(right).all():
        raise FloatingPointError("the gradient is too large for floating point")
    return np.asarray(linalg.cho_solve(factorise(matrix), right))
