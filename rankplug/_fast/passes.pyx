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


def sparse_dot(const index[::1] indptr not None, const index[::1] indices not None,
               const floating[::1] values not None, const double[::1] v not None,
               double[::1] z not None):
    """Write X v to `z`, X in compressed rows; with compressed columns it is X' v."""
    cdef int64_t i, n = indptr.shape[0] - 1
    cdef int64_t p, end
    cdef double a, b, c, e
    assert z.shape[0] == n
    with nogil:
        for i in range(n):
            a = b = c = e = 0.0
            p = indptr[i]
            end = indptr[i + 1]
            # Four sums, since each addition has to wait for the one before.
            while p + 4 <= end:
                a += values[p] * v[indices[p]]
                b += values[p + 1] * v[indices[p + 1]]
                c += values[p + 2] * v[indices[p + 2]]
                e += values[p + 3] * v[indices[p + 3]]
                p += 4
            while p < end:
                a += values[p] * v[indices[p]]
                p += 1
            z[i] = (a + b) + (c + e)


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
            first[:] = 0.0
            for i in range(query_ptr[q], query_ptr[q + 1]):
                total += c[i]
                for k in range(d):
                    weighted = c[i] * X[i, k]
                    first[k] += weighted
                    out[k] += weighted * X[i, k]
            if total > 0.0:
                for k in range(d):
                    out[k] -= first[k] * first[k] / total


def sparse_moments(const index[::1] indptr not None, const index[::1] rows not None,
                   const floating[::1] values not None, const int32_t[::1] query not None,
                   const double[::1] c not None, const double[::1] totals not None,
                   double[::1] out not None):
    """As `dense_moments`, for compressed columns with ascending rows.

    `query` is the query of each row, `totals` the sum of c of each query.
    """
    cdef int64_t k, p, q
    cdef double first, second, weighted
    assert out.shape[0] == indptr.shape[0] - 1 and c.shape[0] == query.shape[0]
    with nogil:
        for k in range(indptr.shape[0] - 1):
            second = 0.0
            first = 0.0
            q = -1
            for p in range(indptr[k], indptr[k + 1]):
                if query[rows[p]] != q:
                    if first != 0.0:
                        second -= first * first / totals[q]
                    q = query[rows[p]]
                    first = 0.0
                weighted = c[rows[p]] * values[p]
                first += weighted
                second += weighted * values[p]
            if first != 0.0:
                second -= first * first / totals[q]
            out[k] += second
