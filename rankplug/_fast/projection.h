/* Soft projection onto the polyhedron of one complete bipartite graph.
 *
 * Minimise 1/2 |alpha - mu|^2 + 1/2 |beta - nu|^2 over alpha, beta >= 0 with
 * sum alpha = sum beta <= C. Both sides are measured downwards from their largest entry,
 * below_mu_i = max mu - mu_i >= 0, so that alpha_i = (level - below_mu_i)_+ loses no digits
 * however far from zero the entries lie. The levels of both sides solve piecewise linear
 * equations; a Newton step is exact once the right pieces are known, so none is sorted. */
#ifndef RANKPLUG_PROJECTION_H
#define RANKPLUG_PROJECTION_H

#include <stdint.h>

#include "clones.h"

#define RP_PROJECTION_STEPS 200     /* halving alone ends within the bits of a double */

/* The entries less than `level` below the largest: how many, and the sum of their depths. */
typedef struct {
    int64_t count;
    double depth;
} rp_active;

RP_INLINE double rp_largest(const double *x, int64_t n) {
    double largest = x[0];
#pragma omp simd reduction(max : largest)
    for (int64_t i = 1; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

RP_INLINE rp_active rp_active_entries(const double *x, int64_t n, double largest, double level) {
    double depth = 0.0;
    int64_t count = 0;
#pragma omp simd reduction(+ : depth, count)
    for (int64_t i = 0; i < n; i++) {
        double below = largest - x[i];
        depth += below < level ? below : 0.0;
        count += below < level;
    }
    return (rp_active){count, depth};
}

/* out = (level - (largest - x))_+ ; `out` may be `x`. */
RP_INLINE void rp_cut_at(const double *x, int64_t n, double largest, double level, double *out) {
    for (int64_t i = 0; i < n; i++) {
        double above = level - (largest - x[i]);
        out[i] = above > 0.0 ? above : 0.0;
    }
}

/* The level at which the entries above it add up to `total` > 0: Newton from the right, where
 * this convex function of the level lets every step fall short of the solution. */
RP_INLINE double rp_simplex_level(const double *x, int64_t n, double largest, double total) {
    double level = total;
    int64_t count = -1;
    for (int step = 0; step < RP_PROJECTION_STEPS; step++) {
        rp_active active = rp_active_entries(x, n, largest, level);
        if (active.count == count || active.count == 0) break;
        count = active.count;
        level = (total + active.depth) / (double)count;
    }
    return level;
}

/* Returns sum alpha = sum beta. Needs p, q >= 1 and finite sums of entries; C may be infinite.
 * `alpha` may be `mu`, and `beta` may be `nu`. */
RP_CLONES static double rp_soft_projection(const double *mu, int64_t p, const double *nu, int64_t q,
                                           double C, double *alpha, double *beta) {
    double top_mu = rp_largest(mu, p), top_nu = rp_largest(nu, q), height = top_mu + top_nu;
    if (!(height > 0.0 && C > 0.0)) {
        for (int64_t i = 0; i < p; i++) alpha[i] = 0.0;
        for (int64_t j = 0; j < q; j++) beta[j] = 0.0;
        return 0.0;
    }
    if (p == 1 && q == 1) {
        alpha[0] = beta[0] = 0.5 * height < C ? 0.5 * height : C;
        return alpha[0];
    }
    /* The levels of the two sides add up to `height`; `level` is that of alpha. */
    double low = 0.0, high = height, level = 0.5 * height, total = 0.0;
    int64_t count_mu = -1, count_nu = -1;
    for (int step = 0; step < RP_PROJECTION_STEPS; step++) {
        rp_active of_mu = rp_active_entries(mu, p, top_mu, level);
        rp_active of_nu = rp_active_entries(nu, q, top_nu, height - level);
        double sum_mu = (double)of_mu.count * level - of_mu.depth;
        double sum_nu = (double)of_nu.count * (height - level) - of_nu.depth;
        total = sum_mu;
        if (of_mu.count == count_mu && of_nu.count == count_nu) break;
        count_mu = of_mu.count;
        count_nu = of_nu.count;
        if (sum_mu < sum_nu) low = level;
        else high = level;
        double newton = level - (sum_mu - sum_nu) / (double)(count_mu + count_nu);
        if (newton >= low && newton <= high) {
            level = newton;
        } else {
            double middle = low + 0.5 * (high - low);
            if (middle <= low || middle >= high) break;
            level = middle;
            count_mu = -1;
        }
    }
    double level_mu = level, level_nu = height - level;
    if (total > C) {
        total = C;
        level_mu = rp_simplex_level(mu, p, top_mu, C);
        level_nu = rp_simplex_level(nu, q, top_nu, C);
    }
    rp_cut_at(mu, p, top_mu, level_mu, alpha);
    rp_cut_at(nu, q, top_nu, level_nu, beta);
    return total;
}

#endif
