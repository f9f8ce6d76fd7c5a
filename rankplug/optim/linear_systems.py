"""Systems that are positive definite but for rounding errors: Cholesky, conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, cg

from rankplug.optim.bracket import Vector
from rankplug.system.interruption import raise_if_overdue

Factor: TypeAlias = tuple[NDArray[np.float64], bool]
"""As `scipy.linalg.cho_solve` takes it."""

_FIRST_RIDGE = 1e-15  # of the largest diagonal element: about its last digits
_SMALLEST = 1e-300  # where all of them are 0
_GROWTH = 100.0  # two more digits given up at each attempt


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
    """
    if not np.isfinite(matrix).all():
        raise FloatingPointError("a matrix is too large for floating point")
    diagonal = np.diag_indices_from(matrix)
    largest = float(np.abs(matrix[diagonal]).max())
    ridge = max(_FIRST_RIDGE * largest, _SMALLEST)
    while ridge <= max(largest, _SMALLEST):
        try:
            factor: Factor = linalg.cho_factor(matrix, lower=True, check_finite=False)
        except linalg.LinAlgError:
            matrix[diagonal] += ridge
            ridge *= _GROWTH
        else:
            return factor
    raise FloatingPointError("a matrix has lost all digits to rounding")


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
