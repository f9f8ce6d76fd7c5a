# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Passes over features: products with X and X', fused with the pairs' Laplacian.

Features are float32 or float64, vectors and sums always float64. All release the GIL. Lengths
are checked once a call.
"""

from cython cimport floating
from libc.stdint cimport int32_t, int64_t

from rankplug._fast.pairs cimport ActivePairs, rp_pairs

ctypedef fused index:
    int32_t
    int64_t


cdef extern from "passes_all.h" nogil:
    void rp_dense_dot_f64(const double *, int64_t, int64_t, const double *, double *)
    void rp_dense_dot_f32(const float *, int64_t, int64_t, const double *, double *)
    void rp_dense_transposed_dot_f64(const double *, int64_t, int64_t, const double *, double *)
    void rp_dense_transposed_dot_f32(const float *, int64_t, int64_t, const double *, double *)
    void rp_dense_laplacian_f64(
        const double *, int64_t, const rp_pairs *, const double *, double *, double *, double *)
    void rp_dense_laplacian_f32(
        const float *, int64_t, const rp_pairs *, const double *, double *, double *, double *)
    void rp_laplacian_query(const rp_pairs *, int64_t, const double *, double *)


def dense_dot(const floating[:, ::1] X not None, const double[::1] v not None,
              double[::1] z not None):
    """Write X v to `z`."""
    cdef int64_t n = X.shape[0], d = X.shape[1]
    assert v.shape[0] == d and z.shape[0] == n
    with nogil:
        if floating is double:
            rp_dense_dot_f64(&X[0, 0], n, d, &v[0], &z[0])
        else:
            rp_dense_dot_f32(&X[0, 0], n, d, &v[0], &z[0])


def dense_transposed_dot(const floating[:, ::1] X not None, const double[::1] u not None,
                         double[::1] g not None):
    """Write X' u to `g`."""
    cdef int64_t n = X.shape[0], d = X.shape[1]
    assert u.shape[0] == n and g.shape[0] == d
    with nogil:
        if floating is double:
            rp_dense_transposed_dot_f64(&X[0, 0], n, d, &u[0], &g[0])
        else:
            rp_dense_transposed_dot_f32(&X[0, 0], n, d, &u[0], &g[0])


def dense_laplacian(const floating[:, ::1] X not None, ActivePairs pairs not None,
                    const double[::1] v not None, double[::1] z not None,
                    double[::1] u not None, double[::1] g not None):
    """Write X v to `z` and X' L X v to `g`, L the Laplacian of `pairs`; reads X once.

    `u` is scratch space of the length of `z`.
    """
    cdef int64_t n = X.shape[0], d = X.shape[1]
    assert pairs.queries.n_rows == n and v.shape[0] == d and g.shape[0] == d
    assert z.shape[0] == n and u.shape[0] == n
    with nogil:
        if floating is double:
            rp_dense_laplacian_f64(&X[0, 0], d, &pairs.pairs, &v[0], &z[0], &u[0], &g[0])
        else:
            rp_dense_laplacian_f32(&X[0, 0], d, &pairs.pairs, &v[0], &z[0], &u[0], &g[0])


def dense_moments(const floating[:, ::1] X not None, const int64_t[::1] query_ptr not None,
                  const double[::1] c not None, double[::1] first not None,
                  double[::1] out not None):
    """Add sum_q [sum_i c_i x_ik^2 - (sum_i c_i x_ik)^2 / sum_i c_i], i in q, to `out`.

    `first` is scratch space of length n_features.
    """
    cdef int64_t q, i, k, d = X.shape[1]
    cdef double total, weighted
    assert c.shape[0] == X.shape[0] and first.shape[0] == d and out.shape[0] == d
    with nogil:
        for q in range(query_ptr.shape[0] - 1):
            total = 0.0
            for k in range(d):
                first[k] = 0.0
            for i in range(query_ptr[q], query_ptr[q + 1]):
                total += c[i]
                for k in range(d):
                    weighted = c[i] * X[i, k]
                    first[k] += weighted
                    out[k] += weighted * X[i, k]
            if total > 0.0:
                for k in range(d):
                    out[k] -= first[k] * first[k] / total


def sparse_dot(const index[::1] indptr not None, const index[::1] indices not None,
               const floating[::1] values not None, const double[::1] v not None,
               double[::1] z not None):
    """Write X v to `z`, X in compressed rows."""
    assert z.shape[0] == indptr.shape[0] - 1
    with nogil:
        _sparse_scores(indptr, indices, values, 0, z.shape[0], v, z)


def sparse_transposed_dot(const index[::1] indptr not None, const index[::1] indices not None,
                          const floating[::1] values not None, const double[::1] u not None,
                          double[::1] g not None):
    """Add X' u to `g`, X in compressed rows."""
    assert u.shape[0] == indptr.shape[0] - 1
    with nogil:
        _add_sparse_rows(indptr, indices, values, 0, u.shape[0], u, g)


def sparse_laplacian(const index[::1] indptr not None, const index[::1] indices not None,
                     const floating[::1] values not None, ActivePairs pairs not None,
                     const double[::1] v not None, double[::1] z not None,
                     double[::1] u not None, double[::1] g not None):
    """Write X v to `z` and add X' L X v to `g`, query by query; `u` is scratch space.

    The rows of all but the largest queries are still in cache for their second use.
    """
    cdef int64_t q, b, e
    cdef const int64_t[::1] query_ptr = pairs.queries.query_ptr
    assert pairs.queries.n_rows == z.shape[0] == u.shape[0] == indptr.shape[0] - 1
    with nogil:
        for q in range(pairs.queries.n_queries):
            b = query_ptr[q]
            e = query_ptr[q + 1]
            _sparse_scores(indptr, indices, values, b, e, v, z)
            if pairs.queries.n_levels[q] > 1:
                rp_laplacian_query(&pairs.pairs, q, &z[0], &u[0])
                _add_sparse_rows(indptr, indices, values, b, e, u, g)


def sparse_moments(const index[::1] indptr not None, const index[::1] indices not None,
                   const floating[::1] values not None, const int64_t[::1] query_ptr not None,
                   const double[::1] c not None, double[::1] first not None,
                   double[::1] out not None):
    """As `dense_moments`, for compressed rows; `first` must hold zeros, and will again."""
    cdef int64_t q, i, p, k
    cdef double total, weighted
    assert c.shape[0] == indptr.shape[0] - 1 and first.shape[0] == out.shape[0]
    with nogil:
        for q in range(query_ptr.shape[0] - 1):
            total = 0.0
            for i in range(query_ptr[q], query_ptr[q + 1]):
                total += c[i]
                for p in range(indptr[i], indptr[i + 1]):
                    weighted = c[i] * values[p]
                    first[indices[p]] += weighted
                    out[indices[p]] += weighted * values[p]
            for p in range(indptr[query_ptr[q]], indptr[query_ptr[q + 1]]):
                k = indices[p]
                if first[k] != 0.0:
                    out[k] -= first[k] * first[k] / total
                    first[k] = 0.0


cdef inline void _sparse_scores(const index[::1] indptr, const index[::1] indices,
                                const floating[::1] values, int64_t b, int64_t e,
                                const double[::1] v, double[::1] z) noexcept nogil:
    cdef int64_t i, p, stop
    cdef double s0, s1, s2, s3
    for i in range(b, e):
        s0 = s1 = s2 = s3 = 0.0
        p = indptr[i]
        stop = indptr[i + 1]
        # Four sums, since each addition has to wait for the one before.
        while p + 4 <= stop:
            s0 += values[p] * v[indices[p]]
            s1 += values[p + 1] * v[indices[p + 1]]
            s2 += values[p + 2] * v[indices[p + 2]]
            s3 += values[p + 3] * v[indices[p + 3]]
            p += 4
        while p < stop:
            s0 += values[p] * v[indices[p]]
            p += 1
        z[i] = (s0 + s1) + (s2 + s3)


cdef inline void _add_sparse_rows(const index[::1] indptr, const index[::1] indices,
                                  const floating[::1] values, int64_t b, int64_t e,
                                  const double[::1] u, double[::1] g) noexcept nogil:
    cdef int64_t i, p
    cdef double u0
    for i in range(b, e):
        u0 = u[i]
        if u0 != 0.0:
            for p in range(indptr[i], indptr[i + 1]):
                g[indices[p]] += u0 * values[p]
