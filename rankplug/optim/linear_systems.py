"""Systems that are positive definite but for rounding errors: Cholesky, conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg

from rankplug.optim.bracket import Vector
from rankplug.system.interruption import check_in_time, raise_if_overdue

Factor: TypeAlias = tuple[NDArray[np.float64], bool]
"""As `scipy.linalg.cho_solve` takes it."""

_FIRST_RIDGE = 1e-15  # of the largest diagonal element: about its last digits
_SMALLEST = 1e-300  # where all of them are 0
_GROWTH = 100.0  # two more digits given up at each attempt
_LARGE = 3000  # rows, beyond which a factorisation takes seconds
_PANEL = 256  # columns of such a one that are factorised at once under a time limit


def factorise(matrix: NDArray[np.float64]) -> Factor:
    """A Cholesky factor, of the matrix plus a tiny ridge if rounding errors ask for one.

    Parameters
    ----------
    matrix : float64 ndarray of shape (n, n)
        Symmetric, of which the lower half is read; the ridge is added to it.

    Raises
    ------
    FloatingPointError
        If it holds NaN or infinity, or has lost all digits to rounding.
    Overdue
        If it is large, and a time limit is over.
    """
    if not np.isfinite(matrix).all():
        raise FloatingPointError("a matrix is too large for floating point")
    diagonal = np.diag_indices_from(matrix)
    largest = float(np.abs(matrix[diagonal]).max())
    ridge = max(_FIRST_RIDGE * largest, _SMALLEST)
    while ridge <= max(largest, _SMALLEST):
        try:
            if len(matrix) > _LARGE and check_in_time():
                return _factorise_in_parts(matrix), True
            factor: Factor = linalg.cho_factor(matrix, lower=True, check_finite=False)
        except linalg.LinAlgError:
            matrix[diagonal] += ridge
            ridge *= _GROWTH
        else:
            return factor
    raise FloatingPointError("a matrix has lost all digits to rounding")


def _factorise_in_parts(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The lower factor, panel by panel, each done within a second, about."""
    factor, n = np.tril(matrix), len(matrix)
    for begin in range(0, n, _PANEL):
        end = min(begin + _PANEL, n)
        corner = linalg.cholesky(factor[begin:end, begin:end], lower=True, check_finite=False)
        factor[begin:end, begin:end] = corner
        below = factor[end:, begin:end]
        below[:] = linalg.solve_triangular(corner, below.T, lower=True, check_finite=False).T
        for first in range(end, n, _PANEL):
            check_in_time()
            rows, last = slice(first, n), min(first + _PANEL, n)
            factor[rows, first:last] -= below[first - end :] @ below[first - end : last - end].T
    return factor


def conjugate_gradients(
    product: Callable[[Vector], Vector],
    right: Vector,
    diagonal: Vector,
    *,
    rtol: float,
    start: Vector | None = None,
    maxiter: int | None = None,
) -> Vector:
    """About the x whose `product` is `right`, preconditioned by the matrix's diagonal."""
    shape = (len(right), len(right))
    found, _ = cg(
        LinearOperator(shape, matvec=product, dtype=np.float64),
        right,
        x0=start,
        rtol=rtol,
        maxiter=maxiter,
        M=LinearOperator(shape, matvec=lambda v: v / diagonal, dtype=np.float64),
        callback=lambda _: raise_if_overdue(),
    )
    return np.asarray(found)
