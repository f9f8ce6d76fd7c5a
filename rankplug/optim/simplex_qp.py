"""A small dense quadratic program over the simplex, from a good starting point.

    maximise  b.a - 1/2 a'H a   subject to  a >= 0, sum a = 1

H is positive semidefinite and often singular. An active-set method that stays feasible: on the
support of a it goes to the maximum with the sum held at 1, or up to the first a_k that becomes
zero, which leaves the support; the a_k with the largest partial derivative enters it. A slight
proximal term makes every system positive definite and still lets every step ascend.

It starts from the last solution with one variable more, from where a few steps suffice.

References
----------
.. [1] Wolfe, "Finding the nearest point in a polytope", Mathematical Programming 11 (1976);
   Kiwiel, "A dual method for certain positive semidefinite quadratic programming problems",
   SIAM J. Scientific and Statistical Computing 10 (1989).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from rankplug.optim.bracket import Vector
from rankplug.system.interruption import interrupted

_PROXIMAL = 1e-13  # of the largest diagonal element of H: above the rounding errors of a step
_LEAST_PROXIMAL = 1e-200  # where H underflows, the program is as good as linear
_ENTRIES_PER_VARIABLE = 20  # a guard against cycles by rounding errors


def maximise_on_simplex(H: NDArray[np.float64], b: Vector, a: Vector, *, tol: float) -> Vector:
    """The maximiser, within `tol` of the maximum unless rounding errors or a signal forbid it.

    Parameters
    ----------
    H : ndarray of shape (n, n)
        Symmetric and positive semidefinite.
    b : ndarray of shape (n,)
    a : ndarray of shape (n,)
        Feasible starting point; it is left as it is.
    tol : float
        In the units of the objective; the certificate is ``max_k g_k - a.g`` with g the
        gradient ``b - H a``.
    """
    a, value = a.copy(), -np.inf
    shift = max(_PROXIMAL * float(H.diagonal().max()), _LEAST_PROXIMAL)
    for _ in range(_ENTRIES_PER_VARIABLE * len(b)):
        gradient = b - H @ a
        before, value = value, 0.5 * float(a @ (gradient + b))
        entering, level = int(gradient.argmax()), float(a @ gradient)
        excess = gradient[entering] - level
        if excess <= tol or value <= before or interrupted():
            break
        free = a > 0
        # First the best of the support, unless it is close to that already.
        if gradient[free].max() - level <= 0.5 * excess:
            free[entering] = True
        _maximise_on_support(H, shift, gradient, a, free.nonzero()[0])
    return a


def _maximise_on_support(
    H: NDArray[np.float64], shift: float, gradient: Vector, a: Vector, support: NDArray[np.int64]
) -> None:
    """Change `a` to the maximiser on some variables, or on what is left of them.

    `gradient` is that at `a`; `support` is reordered.
    """
    while len(support) > 1:
        largest = a[support].argmax()
        support[largest], support[-1] = support[-1], support[largest]
        before = a[support]
        step = _find_step(H[support[:, None], support], gradient[support], shift)
        after = before + step
        if after.min() >= 0.0:
            a[support] = after
            break
        down = (step < 0).nonzero()[0]
        room = before[down] / -step[down]
        first = room.argmin()
        change = room[first] * step
        a[support] = np.maximum(before + change, 0.0)
        a[support[down[first]]] = 0.0
        gradient = gradient - change @ H[support]
        support = support[support != support[down[first]]]
    a /= a.sum()


def _find_step(H: NDArray[np.float64], gradient: Vector, shift: float) -> Vector:
    """The maximiser of ``g.s - 1/2 s'(H + shift I)s`` with sum s = 0.

    In differences from the last column, so that the sum is zero without cancellation.
    """
    row = H[-1, :-1]
    right = gradient[:-1] - gradient[-1]
    info = 1
    while info != 0:  # until the shift outweighs rounding errors
        reduced = H[:-1, :-1] - row
        reduced -= (row - H[-1, -1])[:, None]
        reduced.flat[:: len(row) + 1] += shift
        # Symmetric, so its transpose, which LAPACK takes without a copy, is itself.
        _, solved, info = lapack.dposv(reduced.T, right, lower=1, overwrite_a=1)
        shift *= 100.0
    step = np.empty(len(solved) + 1)
    step[:-1] = solved
    step[-1] = -solved.sum()
    return step
