/* Passes over dense features, one read of X each, for shards of whole queries.
 *
 * Included twice by passes_all.h, with FLOAT the type of the features and NAME(x) the name of
 * x for that type. Sums are in double precision whatever the features are. Row i of X is the
 * one of number rows[i], or i if `rows` is NULL. */

RP_INLINE const FLOAT *NAME(rp_row)(const FLOAT *X, const int64_t *rows, int64_t i, int64_t d) {
    return X + (rows ? rows[i] : i) * d;
}

/* x . v by sums side by side, because each addition has to wait for the one before. */
RP_INLINE double NAME(rp_product)(const FLOAT *x, const double *v, int64_t d) {
    double rest = 0.0;
    int64_t k = 0;
#ifdef RP_FOUR
    typedef FLOAT floats RP_FOUR(FLOAT);
    rp_four s0 = {0.0}, s1 = {0.0}, s2 = {0.0}, s3 = {0.0};
    for (; k + 16 <= d; k += 16) {
        s0 += RP_LOAD(floats, x + k) * RP_LOAD(rp_four, v + k);
        s1 += RP_LOAD(floats, x + k + 4) * RP_LOAD(rp_four, v + k + 4);
        s2 += RP_LOAD(floats, x + k + 8) * RP_LOAD(rp_four, v + k + 8);
        s3 += RP_LOAD(floats, x + k + 12) * RP_LOAD(rp_four, v + k + 12);
    }
    for (; k + 4 <= d; k += 4) s0 += RP_LOAD(floats, x + k) * RP_LOAD(rp_four, v + k);
    s0 = (s0 + s2) + (s1 + s3);
#else
    double s0[4] = {0.0};
    for (; k + 4 <= d; k += 4)
        for (int r = 0; r < 4; r++) s0[r] += x[k + r] * v[k + r];
#endif
    for (; k < d; k++) rest += x[k] * v[k];
    return rest + ((s0[0] + s0[2]) + (s0[1] + s0[3]));
}

/* The same for four rows one after the other, with sums that need not wait for each other. */
RP_INLINE void NAME(rp_four_products)(const FLOAT *X, const double *restrict v, int64_t d,
                                      double *z) {
#ifdef RP_FOUR
    typedef FLOAT floats RP_FOUR(FLOAT);
    const FLOAT *x0 = X, *x1 = x0 + d, *x2 = x1 + d, *x3 = x2 + d;
    rp_four s0 = {0.0}, s1 = {0.0}, s2 = {0.0}, s3 = {0.0};
    rp_four t0 = {0.0}, t1 = {0.0}, t2 = {0.0}, t3 = {0.0};
    int64_t k = 0;
    for (; k + 8 <= d; k += 8) {
        rp_four first = RP_LOAD(rp_four, v + k), second = RP_LOAD(rp_four, v + k + 4);
        s0 += RP_LOAD(floats, x0 + k) * first;
        s1 += RP_LOAD(floats, x1 + k) * first;
        s2 += RP_LOAD(floats, x2 + k) * first;
        s3 += RP_LOAD(floats, x3 + k) * first;
        t0 += RP_LOAD(floats, x0 + k + 4) * second;
        t1 += RP_LOAD(floats, x1 + k + 4) * second;
        t2 += RP_LOAD(floats, x2 + k + 4) * second;
        t3 += RP_LOAD(floats, x3 + k + 4) * second;
    }
    rp_four sums[4] = {s0 + t0, s1 + t1, s2 + t2, s3 + t3};
    for (int r = 0; r < 4; r++) {
        double rest = 0.0;
        for (int64_t l = k; l < d; l++) rest += X[r * d + l] * v[l];
        z[r] = rest + ((sums[r][0] + sums[r][2]) + (sums[r][1] + sums[r][3]));
    }
#else
    for (int r = 0; r < 4; r++) z[r] = NAME(rp_product)(X + r * d, v, d);
#endif
}

/* z = X v for n rows. */
RP_INLINE void NAME(rp_scores)(const FLOAT *X, const int64_t *rows, int64_t n, int64_t d,
                               rp_fetch *ahead, const double *v, double *z) {
    for (int64_t i = 0; i < n; i++) {
        rp_fetch_more(ahead);
        z[i] = NAME(rp_product)(NAME(rp_row)(X, rows, i, d), v, d);
    }
}

/* g += X' u over n rows; those with u = 0 are not read. */
RP_INLINE void NAME(rp_add_rows)(const FLOAT *X, const int64_t *rows, int64_t n, int64_t d,
                                 rp_fetch *ahead, const double *restrict u, double *restrict g) {
    for (int64_t i = 0; i < n; i++) {
        const FLOAT *restrict x = NAME(rp_row)(X, rows, i, d);
        double u0 = u[i];
        rp_fetch_more(ahead);
        if (u0 == 0.0) continue;
#pragma omp simd
        for (int64_t k = 0; k < d; k++) g[k] += u0 * x[k];
    }
}

/* The same for chosen rows. Processors do not see which ones come next: they are fetched ahead. */
RP_INLINE void NAME(rp_add_chosen)(const FLOAT *X, const int64_t *rows, int64_t n, int64_t d,
                                   const double *restrict u, double *restrict g) {
    int64_t row_bytes = d * (int64_t)sizeof *X, ahead = RP_NEAR / row_bytes + 1;
    rp_fetch nothing = {0};
    for (int64_t i = 0; i < n; i++) {
        const FLOAT *later = X + rows[i + ahead < n ? i + ahead : n - 1] * d;
        rp_fetch row = rp_fetch_ahead(later, row_bytes, 0, row_bytes);
        rp_fetch_more(&row);
        NAME(rp_add_rows)(X, rows + i, 1, d, &nothing, u + i, g);
    }
}

/* z = X v for the n rows of a query that is in cache. Four rows at once are faster where numbers
 * have to be converted; from memory they are slower. */
RP_INLINE void NAME(rp_cached_scores)(const FLOAT *X, int64_t n, int64_t d, rp_fetch *ahead,
                                      const double *v, double *z) {
    int64_t fours = sizeof(FLOAT) < sizeof(double) ? n - n % 4 : 0;
    for (int64_t i = 0; i < fours; i += 4) {
        for (int r = 0; r < 4; r++) rp_fetch_more(ahead);
        NAME(rp_four_products)(X + i * d, v, d, z + i);
    }
    NAME(rp_scores)(X + fours * d, NULL, n - fours, d, ahead, v, z + fours);
}

/* g += X' u for the n rows of a query, with products and sums of few rows in the precision of the
 * features: the directions of Newton's method need no more. `sum` has room for d numbers. */
RP_INLINE void NAME(rp_add_query)(const FLOAT *X, int64_t n, int64_t d, rp_fetch *ahead,
                                  const double *restrict u, FLOAT *restrict sum,
                                  double *restrict g) {
    if (sizeof(FLOAT) == sizeof(double)) {
        NAME(rp_add_rows)(X, NULL, n, d, ahead, u, g);
        return;
    }
    double largest = DBL_MIN;
    for (int64_t i = 0; i < n; i++) largest = fabs(u[i]) > largest ? fabs(u[i]) : largest;
    /* Numbers of at most 1: sums are as far from overflow as the features are. */
    double scale = 1.0 / largest;
    for (int64_t b = 0; b < n; b += RP_FEW) {
        int64_t e = b + RP_FEW < n ? b + RP_FEW : n;
        memset(sum, 0, (size_t)d * sizeof *sum);
        FLOAT small[RP_FEW];
        for (int64_t i = b; i < e; i++) small[i - b] = (FLOAT)(u[i] * scale);
        int64_t i = b;
        for (; i + 4 <= e; i += 4) {
            for (int r = 0; r < 4; r++) rp_fetch_more(ahead);
            const FLOAT *restrict x0 = X + i * d, *restrict x1 = x0 + d;
            const FLOAT *restrict x2 = x1 + d, *restrict x3 = x2 + d, *s = small + (i - b);
#pragma omp simd
            for (int64_t k = 0; k < d; k++)
                sum[k] += (s[0] * x0[k] + s[1] * x1[k]) + (s[2] * x2[k] + s[3] * x3[k]);
        }
        for (; i < e; i++) {
            const FLOAT *restrict x = X + i * d;
            FLOAT s = small[i - b];
            rp_fetch_more(ahead);
#pragma omp simd
            for (int64_t k = 0; k < d; k++) sum[k] += s * x[k];
        }
#pragma omp simd
        for (int64_t k = 0; k < d; k++) g[k] += largest * sum[k];
    }
}

RP_CLONES static void NAME(rp_dense_dot)(const FLOAT *X, const int64_t *rows, int64_t n, int64_t d,
                                         const double *v, double *z) {
    rp_fetch nothing = {0};
    NAME(rp_scores)(X, rows, n, d, &nothing, v, z);
}

RP_CLONES static void NAME(rp_dense_transposed_dot)(const FLOAT *X, const int64_t *rows, int64_t n,
                                                    int64_t d, const double *u, double *g) {
    int64_t row_bytes = d * (int64_t)sizeof *X;
    rp_fetch ahead = rp_fetch_ahead(X, n * row_bytes, RP_NEAR, row_bytes);
    memset(g, 0, (size_t)d * sizeof *g);
    if (rows)
        NAME(rp_add_chosen)(X, rows, n, d, u, g);
    else
        NAME(rp_add_rows)(X, NULL, n, d, &ahead, u, g);
}

/* z = X v, of_z = L z, g = X' L z, query by query: the rows of a query are read from memory once,
 * while those before are worked on, and are in cache for both of their uses. */
RP_CLONES static void NAME(rp_dense_laplacian)(const FLOAT *X, int64_t d, const rp_pairs *pairs,
                                               const double *v, double *z, double *of_z,
                                               FLOAT *sum, double *g) {
    int64_t row_bytes = d * (int64_t)sizeof *X;
    rp_fetch ahead = rp_fetch_ahead(
        X, pairs->query_ptr[pairs->n_queries] * row_bytes, RP_FAR, row_bytes);
    memset(g, 0, (size_t)d * sizeof *g);
    for (int64_t i = 0; i < pairs->n_queries; i++) {
        rp_query q = rp_query_at(pairs, i);
        int64_t b = pairs->query_ptr[i], e = b + q.n_rows;
        int64_t next = i + 1 < pairs->n_queries ? pairs->query_ptr[i + 2] : e;
        int with_pairs = q.n_levels > 1;
        ahead.step = with_pairs ? row_bytes / 2 : row_bytes;
        rp_fetch_pairs(pairs, e, next - e);
        NAME(rp_cached_scores)(X + b * d, q.n_rows, d, &ahead, v, z + b);
        if (with_pairs) {
            rp_any_laplacian(pairs, i, &q, z + b, of_z + b);
            NAME(rp_add_query)(X + b * d, q.n_rows, d, &ahead, of_z + b, sum, g);
        } else
            memset(of_z + b, 0, (size_t)q.n_rows * sizeof *of_z);
    }
}

/* Row i becomes sqrt(c[i]) (x - m), m the mean of its query's rows weighted by c; `m` has room for
 * it. */
RP_CLONES static void NAME(rp_dense_centre)(FLOAT *X, int64_t d, const int64_t *query_ptr,
                                            int64_t n_queries, const double *c,
                                            double *restrict m) {
    for (int64_t q = 0; q < n_queries; q++) {
        int64_t b = query_ptr[q], n = query_ptr[q + 1] - b;
        rp_fetch nothing = {0};
        double total = 0.0;
        for (int64_t i = b; i < b + n; i++) total += c[i];
        if (total == 0.0) total = 1.0;
        memset(m, 0, (size_t)d * sizeof *m);
        NAME(rp_add_rows)(X + b * d, NULL, n, d, &nothing, c + b, m);
        for (int64_t k = 0; k < d; k++) m[k] /= total;
        for (int64_t i = b; i < b + n; i++) {
            FLOAT *restrict x = X + i * d;
            double root = sqrt(c[i]);
            for (int64_t k = 0; k < d; k++) x[k] = (FLOAT)(root * (x[k] - m[k]));
        }
    }
}
