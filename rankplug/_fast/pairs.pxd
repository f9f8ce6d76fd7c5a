# cython: language_level=3
"""The pairs of a shard: which are active at given scores, and sums over them.

`Queries` is what never changes (rows, levels, weights, scratch space); `ActivePairs` is the
state at one vector of scores. Formulas and complexity are in ``pairs.h``.
"""

from libc.stdint cimport int32_t, int64_t


cdef extern from "pairs.h" nogil:
    ctypedef struct rp_keyed_row:
        double key
        int32_t row

    ctypedef struct rp_workspace:
        rp_keyed_row *keyed
        double *value
        double *above
        double *below
        double *sums
        double *weighted
        double *other

    ctypedef struct rp_weights:
        const double *winner
        const double *loser
        const double *height
        double *sorted_winner
        double *sorted_loser
        double *count
        double *difference
        double *straight_count
        double *straight_difference

    ctypedef struct rp_pairs:
        int64_t n_queries
        double margin
        double band
        const int64_t *query_ptr
        const int32_t *n_levels
        const double *weight
        const int32_t *level
        int32_t *order
        int32_t *sorted_level
        int32_t *end
        int32_t *begin
        int32_t *count
        int32_t *difference
        int32_t *straight_end
        int32_t *straight_begin
        int32_t *straight_count
        int32_t *straight_difference
        rp_weights weights
        rp_workspace space


cdef class Queries:
    cdef readonly int64_t n_rows
    cdef readonly int64_t n_queries
    cdef const int64_t[::1] query_ptr
    cdef const double[::1] weight
    cdef int32_t[::1] level
    cdef int32_t[::1] n_levels
    cdef const double[::1] winner
    cdef const double[::1] loser
    cdef double[::1] height
    cdef bint weighted
    cdef rp_workspace space
    cdef list buffers
    cdef double *_doubles(self, int64_t size) except NULL
    cdef void _set_heights(self, const double[::1] gain)


cdef class ActivePairs:
    cdef readonly Queries queries
    cdef int32_t[:, ::1] curved
    cdef int32_t[:, ::1] straight
    cdef double[:, ::1] counted
    cdef double[:, ::1] counted_straight
    cdef double[:, ::1] sorted_weights
    cdef object allocate
    cdef rp_pairs pairs
    cdef void _set_band(self, double band)
    cdef void _set_weights(self)
    cdef void laplacian_of_query(self, int64_t q, const double *z, double *out) noexcept nogil
    cdef _by_row(self, const int32_t *by_position, const double *weighted)
