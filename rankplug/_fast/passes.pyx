# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Passes over features: products with X and X', fused with the pairs' Laplacian.

Features are float32 or float64, vectors and sums always float64. All release the GIL. Lengths
are checked once a call.
"""

from cython cimport floating
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t
from libc.stdlib cimport free, malloc

import numpy as np

from rankplug._fast.pairs cimport ActivePairs, rp_pairs

ctypedef fused index:
    int32_t
    int64_t

ctypedef fused code:
    uint16_t
    uint32_t


cdef extern from "passes_all.h" nogil:
    int64_t rp_find_changes(
        const int64_t *, int64_t, const double *, const double *, double, double *, double,
        int64_t *)
    void rp_dense_dot_f64(
        const double *, const int64_t *, int64_t, int64_t, const double *, double *)
    void rp_dense_dot_f32(
        const float *, const int64_t *, int64_t, int64_t, const double *, double *)
    void rp_dense_transposed_dot_f64(
        const double *, const int64_t *, int64_t, int64_t, const double *, double *)
    void rp_dense_transposed_dot_f32(
        const float *, const int64_t *, int64_t, int64_t, const double *, double *)
    void rp_dense_laplacian_f64(
        const double *, int64_t, const rp_pairs *, const double *, double *, double *, double *,
        double *)
    void rp_dense_laplacian_f32(
        const float *, int64_t, const rp_pairs *, const double *, double *, double *, float *,
        double *)
    void rp_dense_centre_f64(
        double *, int64_t, const int64_t *, int64_t, const double *, double *)
    void rp_dense_centre_f32(
        float *, int64_t, const int64_t *, int64_t, const double *, double *)


def add_scaled(double factor, const double[::1] x not None, double[::1] y not None):
    """Add `factor` times x to y."""
    cdef int64_t i, n = y.shape[0]
    assert x.shape[0] == n
    with nogil:
        for i in range(n):
            y[i] += factor * x[i]


def find_changes(const int64_t[::1] query_ptr not None, const double[::1] before not None,
                 const double[::1] now not None, double step, double[::1] bend not None,
                 double share):
    """Turn `bend` into ``now - before - step bend``; return the rows where that is not about 0.

    About 0 is what is at most a share of the largest number of the query, before or now.
    """
    cdef int64_t k, n = now.shape[0], n_queries = query_ptr.shape[0] - 1
    assert before.shape[0] == n and bend.shape[0] == n
    assert query_ptr[0] == 0 and query_ptr[n_queries] == n
    found = np.empty(n + 1, dtype=np.int64)
    cdef int64_t[::1] rows = found
    with nogil:
        k = rp_find_changes(
            &query_ptr[0], n_queries, &before[0], &now[0], step, &bend[0], share, &rows[0])
    return found[:k].copy()


def dense_dot(const floating[:, ::1] X not None, const double[::1] v not None,
              double[::1] z not None, const int64_t[::1] rows=None):
    """Write X v to `z`; with `rows`, ascending, for those rows of X only."""
    cdef int64_t n = z.shape[0], d = X.shape[1]
    cdef const int64_t *chosen = _chosen(rows, n, X.shape[0])
    assert v.shape[0] == d
    with nogil:
        if floating is double:
            rp_dense_dot_f64(&X[0, 0], chosen, n, d, &v[0], &z[0])
        else:
            rp_dense_dot_f32(&X[0, 0], chosen, n, d, &v[0], &z[0])


def dense_transposed_dot(const floating[:, ::1] X not None, const double[::1] u not None,
                         double[::1] g not None, const int64_t[::1] rows=None):
    """Write X' u to `g`, X all rows or those at `rows`; zeros in `u` read none."""
    cdef int64_t n = u.shape[0], d = X.shape[1]
    cdef const int64_t *chosen = _chosen(rows, n, X.shape[0])
    assert g.shape[0] == d
    with nogil:
        if floating is double:
            rp_dense_transposed_dot_f64(&X[0, 0], chosen, n, d, &u[0], &g[0])
        else:
            rp_dense_transposed_dot_f32(&X[0, 0], chosen, n, d, &u[0], &g[0])


def dense_laplacian(const floating[:, ::1] X not None, ActivePairs pairs not None,
                    const double[::1] v not None, double[::1] z not None,
                    double[::1] of_z not None, double[::1] g not None):
    """Write X v to `z`, L X v to `of_z` and X' L X v to `g`, L the Laplacian of `pairs`.

    Reads X once.

    The second product of float32 features is one of their own precision.
    """
    cdef int64_t n = X.shape[0], d = X.shape[1]
    assert pairs.queries.n_rows == n and v.shape[0] == d and g.shape[0] == d
    assert z.shape[0] == n and of_z.shape[0] == n
    cdef floating *sums = <floating *>malloc(d * sizeof(floating))
    if sums == NULL:
        raise MemoryError
    with nogil:
        if floating is double:
            rp_dense_laplacian_f64(&X[0, 0], d, &pairs.pairs, &v[0], &z[0], &of_z[0], sums, &g[0])
        else:
            rp_dense_laplacian_f32(
                &X[0, 0], d, &pairs.pairs, &v[0], &z[0], &of_z[0], sums, &g[0])
        free(sums)


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


def dense_centre(floating[:, ::1] X not None, const int64_t[::1] query_ptr not None,
                 const double[::1] c not None, double[::1] mean not None):
    """Make x_i into sqrt(c_i) (x_i - m), m the mean of its query's rows, weighted by c >= 0.

    `mean` is scratch space of length n_features.
    """
    cdef int64_t d = X.shape[1], n_queries = query_ptr.shape[0] - 1
    assert c.shape[0] == X.shape[0] and mean.shape[0] == d
    assert query_ptr[0] == 0 and query_ptr[n_queries] == X.shape[0]
    with nogil:
        if floating is double:
            rp_dense_centre_f64(&X[0, 0], d, &query_ptr[0], n_queries, &c[0], &mean[0])
        else:
            rp_dense_centre_f32(&X[0, 0], d, &query_ptr[0], n_queries, &c[0], &mean[0])


def sparse_dot(const index[::1] indptr not None, const index[::1] indices not None,
               const floating[::1] values not None, const double[::1] v not None,
               double[::1] z not None, const int64_t[::1] rows=None):
    """Write X v to `z`, X in compressed rows; with `rows`, ascending, for those only."""
    cdef const index *columns = &indices[0] if indices.shape[0] > 0 else NULL
    cdef const floating *x = &values[0] if values.shape[0] > 0 else NULL
    cdef int64_t i, n = z.shape[0]
    cdef const int64_t *chosen = _chosen(rows, n, indptr.shape[0] - 1)
    with nogil:
        for i in range(n):
            z[i] = _sparse_score(
                &indptr[i if chosen == NULL else chosen[i]], columns, x, &v[0])


def sparse_transposed_dot(const index[::1] indptr not None, const index[::1] indices not None,
                          const floating[::1] values not None, const double[::1] u not None,
                          double[::1] g not None, const int64_t[::1] rows=None):
    """Add X' u to `g`, X all compressed rows or those at `rows`."""
    cdef const index *columns = &indices[0] if indices.shape[0] > 0 else NULL
    cdef const floating *x = &values[0] if values.shape[0] > 0 else NULL
    cdef int64_t i, n = u.shape[0]
    cdef const int64_t *chosen = _chosen(rows, n, indptr.shape[0] - 1)
    with nogil:
        for i in range(n):
            _add_sparse_row(
                &indptr[i if chosen == NULL else chosen[i]], columns, x, u[i], &g[0])


def sparse_laplacian(const index[::1] indptr not None, const index[::1] indices not None,
                     const floating[::1] values not None, ActivePairs pairs not None,
                     const double[::1] v not None, double[::1] z not None,
                     double[::1] of_z not None, double[::1] g not None):
    """Write X v to `z` and L X v to `of_z`, and add X' L X v to `g`, query by query.

    The rows of all but the largest queries are still in cache for their second use.
    """
    cdef const index *columns = &indices[0] if indices.shape[0] > 0 else NULL
    cdef const floating *x = &values[0] if values.shape[0] > 0 else NULL
    cdef int64_t q, b, e, i
    cdef const int64_t[::1] query_ptr = pairs.queries.query_ptr
    assert pairs.queries.n_rows == z.shape[0] == of_z.shape[0] == indptr.shape[0] - 1
    with nogil:
        for q in range(pairs.queries.n_queries):
            b = query_ptr[q]
            e = query_ptr[q + 1]
            for i in range(b, e):
                z[i] = _sparse_score(&indptr[i], columns, x, &v[0])
            if e > b:
                pairs.laplacian_of_query(q, &z[0], &of_z[0])
            if pairs.queries.n_levels[q] > 1:
                for i in range(b, e):
                    _add_sparse_row(&indptr[i], columns, x, of_z[i], &g[0])


def sparse_moments(const index[::1] indptr not None, const index[::1] indices not None,
                   const floating[::1] values not None, const int64_t[::1] query_ptr not None,
                   const double[::1] c not None, double[::1] first not None,
                   double[::1] out not None):
    """As `dense_moments`, for compressed rows; `first` must hold zeros, and will again."""
    cdef const index *columns = &indices[0] if indices.shape[0] > 0 else NULL
    cdef const floating *x = &values[0] if values.shape[0] > 0 else NULL
    cdef int64_t q, i, p, k
    cdef double total
    assert c.shape[0] == indptr.shape[0] - 1 and first.shape[0] == out.shape[0]
    with nogil:
        for q in range(query_ptr.shape[0] - 1):
            total = 0.0
            for i in range(query_ptr[q], query_ptr[q + 1]):
                total += c[i]
                _add_sparse_moments(
                    &indptr[i], columns, x, c[i], &first[0], &out[0])
            for p in range(indptr[query_ptr[q]], indptr[query_ptr[q + 1]]):
                k = indices[p]
                if first[k] != 0.0:
                    out[k] -= first[k] * first[k] / total
                    first[k] = 0.0


def onehot_dot(const code[:, ::1] codes not None, const int64_t[::1] starts not None,
               const double[::1] v not None, double[::1] z not None):
    """Write X v to `z`: x_i is 1 at columns ``starts[t] + codes[i, t]``, one in each group t."""
    cdef int64_t i, t, n = codes.shape[0], n_groups = codes.shape[1]
    cdef const code *row
    cdef const int64_t *start = &starts[0]
    cdef const double *w
    cdef double s0, s1, s2, s3
    assert z.shape[0] == n and starts.shape[0] == n_groups + 1
    assert v.shape[0] == starts[n_groups]
    if n == 0 or n_groups == 0:
        z[:] = 0.0
        return
    w = &v[0]
    with nogil:
        for i in range(n):
            row = &codes[i, 0]
            s0 = s1 = s2 = s3 = 0.0
            t = 0
            # Four sums, since each addition has to wait for the one before.
            while t + 4 <= n_groups:
                s0 += w[start[t] + row[t]]
                s1 += w[start[t + 1] + row[t + 1]]
                s2 += w[start[t + 2] + row[t + 2]]
                s3 += w[start[t + 3] + row[t + 3]]
                t += 4
            while t < n_groups:
                s0 += w[start[t] + row[t]]
                t += 1
            z[i] = (s0 + s1) + (s2 + s3)


def onehot_transposed_dot(const code[:, ::1] codes not None, const int64_t[::1] starts not None,
                          const double[::1] u not None, double[::1] g not None):
    """Add X' u to `g`, X as in `onehot_dot`; pairs of rows with u = 0 are not read."""
    cdef int64_t i, t, n = codes.shape[0], n_groups = codes.shape[1]
    cdef const code *row
    cdef const code *second
    cdef const int64_t *start = &starts[0]
    cdef double *out
    cdef double value, second_value
    assert u.shape[0] == n and starts.shape[0] == n_groups + 1
    assert g.shape[0] == starts[n_groups]
    if n == 0 or n_groups == 0:
        return
    with nogil:
        # Two rows at once, which share what is read of the groups.
        for i in range(0, n - n % 2, 2):
            value, second_value = u[i], u[i + 1]
            if value != 0.0 or second_value != 0.0:
                row = &codes[i, 0]
                second = row + n_groups
                for t in range(n_groups):
                    out = &g[start[t]]
                    out[row[t]] += value
                    out[second[t]] += second_value
        if n % 2 == 1:
            row = &codes[n - 1, 0]
            for t in range(n_groups):
                g[start[t] + row[t]] += u[n - 1]


def onehot_moments(const code[:, ::1] codes not None, const int64_t[::1] starts not None,
                   const int64_t[::1] query_ptr not None, const double[::1] c not None,
                   double[::1] first not None, double[::1] out not None):
    """As `dense_moments`, for X as in `onehot_dot`; `first` must hold zeros, and will again."""
    cdef int64_t q, i, t, k, n_groups = codes.shape[1]
    cdef double total
    assert c.shape[0] == codes.shape[0] and starts.shape[0] == n_groups + 1
    assert first.shape[0] == out.shape[0] == starts[n_groups]
    with nogil:
        for q in range(query_ptr.shape[0] - 1):
            total = 0.0
            for i in range(query_ptr[q], query_ptr[q + 1]):
                total += c[i]
                for t in range(n_groups):
                    k = starts[t] + codes[i, t]
                    first[k] += c[i]
                    out[k] += c[i]
            for i in range(query_ptr[q], query_ptr[q + 1]):
                for t in range(n_groups):
                    k = starts[t] + codes[i, t]
                    if first[k] != 0.0:
                        out[k] -= first[k] * first[k] / total
                        first[k] = 0.0


# Pointers, as a view passed on is a large struct, which is copied unless the call is inlined.

cdef inline double _sparse_score(const index *span, const index *indices, const floating *values,
                                 const double *v) noexcept nogil:
    """x . v for the row that stands at ``span[0]:span[1]``."""
    cdef int64_t p = span[0], stop = span[1]
    cdef double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0
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
    return (s0 + s1) + (s2 + s3)


cdef inline void _add_sparse_row(const index *span, const index *indices, const floating *values,
                                 double u, double *g) noexcept nogil:
    """g += u x for the row that stands at ``span[0]:span[1]``."""
    cdef int64_t p
    if u != 0.0:
        for p in range(span[0], span[1]):
            g[indices[p]] += u * values[p]


cdef inline void _add_sparse_moments(const index *span, const index *indices,
                                     const floating *values, double c, double *first,
                                     double *second) noexcept nogil:
    """first += c x and second += c x^2 for the row that stands at ``span[0]:span[1]``."""
    cdef int64_t p
    cdef double weighted
    for p in range(span[0], span[1]):
        weighted = c * values[p]
        first[indices[p]] += weighted
        second[indices[p]] += weighted * values[p]


cdef const int64_t *_chosen(const int64_t[::1] rows, int64_t n, int64_t n_rows) except? NULL:
    """Where the numbers of n chosen rows of a matrix start; NULL if all of its rows are meant."""
    if rows is None:
        assert n == n_rows
        return NULL
    assert rows.shape[0] == n and n > 0 and rows[0] >= 0 and rows[n - 1] < n_rows
    return &rows[0]
