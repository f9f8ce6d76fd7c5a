# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Soft projection of two vectors onto ``alpha, beta >= 0, sum alpha = sum beta <= C``."""

import numpy as np

from libc.stdint cimport int64_t


cdef extern from "projection.h" nogil:
    double rp_soft_projection(const double *, int64_t, const double *, int64_t, double,
                              double *, double *)


cdef double project(const double *mu, int64_t p, const double *nu, int64_t q, double C,
                    double *alpha, double *beta) noexcept nogil:
    return rp_soft_projection(mu, p, nu, q, C, alpha, beta)


def soft_projection(mu, nu, double C):
    """The closest pair of vectors with equal and bounded sums.

    Minimises ``1/2 |alpha - mu|^2 + 1/2 |beta - nu|^2`` over ``alpha >= 0`` and ``beta >= 0``
    with ``sum alpha = sum beta <= C``, in O(len(mu) + len(nu)).

    Parameters
    ----------
    mu, nu : array-like of one dimension, not empty
        Finite, with finite sums.
    C : float
        Bound of the sums; may be infinite.

    Returns
    -------
    (alpha, beta) : float64 ndarrays of the lengths of `mu` and `nu`

    Raises
    ------
    ValueError
        If a vector is empty or has not one dimension, or `C` is negative or NaN.
    """
    cdef const double[::1] of_mu = np.ascontiguousarray(mu, dtype=np.float64)
    cdef const double[::1] of_nu = np.ascontiguousarray(nu, dtype=np.float64)
    cdef double[::1] alpha, beta
    if of_mu.shape[0] == 0 or of_nu.shape[0] == 0:
        raise ValueError("soft_projection needs at least one entry of mu and of nu")
    if not C >= 0.0:
        raise ValueError(f"soft_projection needs a bound C >= 0, not {C}")
    alpha, beta = np.empty(of_mu.shape[0]), np.empty(of_nu.shape[0])
    with nogil:
        project(&of_mu[0], of_mu.shape[0], &of_nu[0], of_nu.shape[0], C, &alpha[0], &beta[0])
    return np.asarray(alpha), np.asarray(beta)
