/* Sums over the partners of every row of a query, and the Laplacian of its pairs by them. */
#ifndef RANKPLUG_LAPLACIAN_H
#define RANKPLUG_LAPLACIAN_H

#include <stdint.h>
#include <string.h>

#include "pairs.h"

#define RP_MOST_LANES 16            /* prefix sums kept side by side */
#define RP_FAN 16                   /* children of a tree node */
#define RP_MAX_HEIGHT 8             /* 16^8 = 2^32 levels */
#define RP_AHEAD 12                  /* rows between fetching a leaf and using it */

typedef struct {
    int height;
    int64_t offset[RP_MAX_HEIGHT];  /* of each layer, leaves first */
    int64_t size;
} rp_tree;

RP_INLINE rp_tree rp_tree_layout(int64_t n_levels) {
    rp_tree tree = {0, {0}, 0};
    int64_t nodes = n_levels;
    do {
        nodes = (nodes + RP_FAN - 1) / RP_FAN;
        tree.offset[tree.height++] = tree.size;
        tree.size += nodes * RP_FAN;
    } while (nodes > 1);
    return tree;
}

/* How many lanes a query takes, one more than levels at least; 0 for a tree. */
RP_INLINE int rp_lanes(int64_t n_levels) {
    if (n_levels < 4) return 4;
    if (n_levels < 8) return 8;
    return n_levels < RP_MOST_LANES ? RP_MOST_LANES : 0;
}

/* Elements of `rp_workspace.sums` that a query needs for sums of values. */
RP_INLINE int64_t rp_value_sums_size(int64_t n_rows, int64_t n_levels) {
    int lanes = rp_lanes(n_levels);
    return lanes ? (n_rows + 1) * lanes : rp_tree_layout(n_levels).size;
}

#define SUM double
#define VALUE(t) value[t]
#define NAME(x) x
#include "pair_sums.h"
#undef SUM
#undef VALUE
#undef NAME

/* Lane r of sums[t] holds the sum of the first t values whose level is below r, for r from 0 to
 * the number of levels. */
RP_INLINE void rp_fill_lanes(const rp_query *q, const double *restrict value,
                             double *restrict sums, int lanes) {
    int32_t n = q->n_rows;
    double total[RP_MOST_LANES] = {0};
    for (int32_t t = 0; t < n; t++) {
        int32_t level = q->sorted_level[t];
        double x = value[t];
#pragma omp simd
        for (int r = 0; r < lanes; r++) {
            sums[(int64_t)t * lanes + r] = total[r];
            total[r] += level < r ? x : 0;
        }
    }
    for (int r = 0; r < lanes; r++) sums[(int64_t)n * lanes + r] = total[r];
}

RP_INLINE void rp_sums_by_lanes(const rp_query *q, const double *restrict value,
                                double *restrict sums, double *restrict above,
                                double *restrict below, int lanes) {
    int32_t n = q->n_rows, n_levels = q->n_levels;
    rp_fill_lanes(q, value, sums, lanes);
    const double *all = sums + (int64_t)n * lanes;
    for (int32_t p = 0; p < n; p++) {
        const double *end = sums + (int64_t)q->end[p] * lanes;
        const double *begin = sums + (int64_t)q->begin[p] * lanes;
        int32_t level = q->sorted_level[p];
        above[p] = end[n_levels] - end[level + 1];
        below[p] = all[level] - begin[level];
    }
    if (!q->straight_end) return;
    for (int32_t p = 0; p < n; p++) {
        const double *end = sums + (int64_t)q->straight_end[p] * lanes;
        const double *begin = sums + (int64_t)q->straight_begin[p] * lanes;
        int32_t level = q->sorted_level[p];
        above[p] -= end[n_levels] - end[level + 1];
        below[p] -= all[level] - begin[level];
    }
}

/* One function, as the sums are most of the code. */
RP_CLONES static void rp_sums(const rp_query *q, const double *value, double *sums, double *above,
                              double *below) {
    int lanes = rp_lanes(q->n_levels);
    if (lanes == 4) rp_sums_by_lanes(q, value, sums, above, below, 4);
    else if (lanes == 8) rp_sums_by_lanes(q, value, sums, above, below, 8);
    else if (lanes == 16) rp_sums_by_lanes(q, value, sums, above, below, 16);
    else rp_sums_by_levels(q, value, sums, above, below);
}

/* out = weight * sum over curved pairs (i, j) of (z_i - z_j) (e_i - e_j). */
RP_INLINE void rp_laplacian(const rp_query *q, const double *z, const rp_workspace *space,
                            double *out) {
    int32_t n = q->n_rows;
    for (int32_t p = 0; p < n; p++) space->value[p] = z[q->order[p]];
    rp_sums(q, space->value, space->sums, space->above, space->below);
    for (int32_t p = 0; p < n; p++)
        out[q->order[p]] = q->weight
            * (q->count[p] * space->value[p] - (space->above[p] + space->below[p]));
}

#endif
