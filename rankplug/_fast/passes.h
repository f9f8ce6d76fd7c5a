/* Passes over dense features, one read of X each, for shards of whole queries.
 *
 * Included twice by passes_all.h, with FLOAT the type of the features and NAME(x) the name of
 * x for that type. Sums are in double precision whatever the features are. */

/* z[i] = X[i] . v for rows b to e. */
RP_INLINE void NAME(rp_scores)(const FLOAT *X, int64_t d, int64_t b, int64_t e, rp_fetch *ahead,
                               const double *restrict v, double *restrict z) {
    for (int64_t i = b; i < e; i++) {
        const FLOAT *restrict x = X + i * d;
        /* Side by side, because each addition has to wait for the one before. */
        double sums[RP_SUMS] = {0.0}, sum = 0.0;
        int64_t k = 0;
        rp_fetch_more(ahead);
        for (; k + RP_SUMS <= d; k += RP_SUMS)
            for (int r = 0; r < RP_SUMS; r++) sums[r] += x[k + r] * v[k + r];
        for (; k < d; k++) sum += x[k] * v[k];
        for (int half = RP_SUMS / 2; half > 0; half /= 2)
            for (int r = 0; r < half; r++) sums[r] += sums[r + half];
        z[i] = sum + sums[0];
    }
}

/* g += X' u over rows b to e. */
RP_INLINE void NAME(rp_add_rows)(const FLOAT *X, int64_t d, int64_t b, int64_t e,
                                 rp_fetch *ahead, const double *restrict u, double *restrict g) {
    for (int64_t i = b; i < e; i++) {
        const FLOAT *restrict x = X + i * d;
        double u0 = u[i];
        rp_fetch_more(ahead);
#pragma omp simd
        for (int64_t k = 0; k < d; k++) g[k] += u0 * x[k];
    }
}

RP_CLONES static void NAME(rp_dense_dot)(const FLOAT *X, int64_t n, int64_t d, const double *v,
                                         double *z) {
    rp_fetch nothing = {0};
    NAME(rp_scores)(X, d, 0, n, &nothing, v, z);
}

RP_CLONES static void NAME(rp_dense_transposed_dot)(const FLOAT *X, int64_t n, int64_t d,
                                                    const double *u, double *g) {
    int64_t row_bytes = d * (int64_t)sizeof *X, rows = RP_CHUNK / row_bytes + 1;
    memset(g, 0, (size_t)d * sizeof *g);
    for (int64_t b = 0; b < n; b += rows) {
        int64_t e = b + rows < n ? b + rows : n, next = e + rows < n ? e + rows : n;
        rp_fetch ahead = rp_fetch_block(X + e * d, (next - e) * row_bytes, e - b);
        NAME(rp_add_rows)(X, d, b, e, &ahead, u, g);
    }
}

/* z = X v, u = L z, g = X' u, query by query: the rows of a query are read from memory once,
 * while the query before is worked on, and are in cache for both of their uses. */
RP_CLONES static void NAME(rp_dense_laplacian)(const FLOAT *X, int64_t d, const rp_pairs *pairs,
                                               const double *v, double *z, double *u, double *g) {
    memset(g, 0, (size_t)d * sizeof *g);
    for (int64_t i = 0; i < pairs->n_queries; i++) {
        rp_query q = rp_query_at(pairs, i);
        int64_t b = pairs->query_ptr[i], e = b + q.n_rows;
        int64_t next = i + 1 < pairs->n_queries ? pairs->query_ptr[i + 2] : e;
        int with_pairs = q.n_levels > 1;
        rp_fetch ahead = rp_fetch_block(X + e * d, (next - e) * d * (int64_t)sizeof *X,
                                        q.n_rows * (1 + with_pairs));
        NAME(rp_scores)(X, d, b, e, &ahead, v, z);
        if (!with_pairs) continue;
        rp_laplacian(&q, z + b, &pairs->space, u + b);
        NAME(rp_add_rows)(X, d, b, e, &ahead, u, g);
    }
}
