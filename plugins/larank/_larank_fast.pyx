# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""LaRank's operations and its two schedules; whole epochs release the GIL.

A pattern says that one item, its own, is better than each of a span of items of its group. In
the dual problem, the beaten item b of pattern p has a variable alpha >= 0, whose sum over b is
at most bound_p, and

    w = sum_p sum_b alpha_pb (Phi_own - Phi_b),    D = sum_p sum_b alpha_pb margin_pb - |w|^2 / 2.

The paper's beta of the own item is sum_b alpha_pb, that of b is -alpha_pb; the derivative of D
by a beta is ``g(own) = -s_own`` or ``g(b) = -margin_pb - s_b``, with the items' scores s.
"""

import numpy as np

from cython cimport final, floating
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove

# Relative tolerances: of room below a bound, of differences of derivatives, of curvatures.
cdef double KAPPA = 1e-12
cdef double TAU = 1e-14
cdef double FLAT = 1e-14


cdef extern from "rows.h" nogil:
    void rp_row_scores(const double *, int64_t, int64_t, const double *, double *)
    void rp_add_row(double *, int64_t, int64_t, const double *, const double *)
    double rp_squared_distance(const double *, const double *, int64_t)


include "patterns.pxi"
include "scores.pxi"
include "schedule.pxi"
