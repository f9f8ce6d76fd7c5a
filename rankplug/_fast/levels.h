/* Levels of relevance of a query's rows: dense ranks, 0 the lowest. */
#ifndef RANKPLUG_LEVELS_H
#define RANKPLUG_LEVELS_H

#include <stdint.h>
#include <string.h>

#include "clones.h"
#include "sorting.h"

#define RP_FEW_LEVELS 8             /* levels found by looking at each */

/* Dense ranks of the relevance of a query's rows, by sorting; returns the number of levels. */
RP_INLINE int32_t rp_rank_by_sorting(const double *relevance, int32_t n, rp_keyed_row *space,
                                     int32_t *level) {
    for (int32_t i = 0; i < n; i++) space[i] = (rp_keyed_row){relevance[i], i};
    const rp_keyed_row *sorted = rp_sort(space, n);
    int32_t rank = 0;
    for (int32_t p = 0; p < n; p++) {
        if (p > 0 && sorted[p].key != sorted[p - 1].key) rank++;
        level[sorted[p].row] = rank;
    }
    return n > 0 ? rank + 1 : 0;
}

/* How many of some values are lower. */
RP_INLINE int32_t rp_rank(const double *values, int32_t n_values, double value) {
    int32_t rank = 0;
    for (int32_t r = 0; r < n_values; r++) rank += values[r] < value;
    return rank;
}

/* The same, but where there are few levels by looking at each of them. */
RP_INLINE int32_t rp_rank_levels(const double *relevance, int32_t n, rp_keyed_row *space,
                                 int32_t *level) {
    double values[RP_FEW_LEVELS];
    int32_t n_levels = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t rank = rp_rank(values, n_levels, relevance[i]);
        if (rank < n_levels && values[rank] == relevance[i]) continue;
        if (n_levels == RP_FEW_LEVELS) return rp_rank_by_sorting(relevance, n, space, level);
        memmove(values + rank + 1, values + rank, (size_t)(n_levels++ - rank) * sizeof *values);
        values[rank] = relevance[i];
    }
    for (int32_t i = 0; i < n; i++) level[i] = rp_rank(values, n_levels, relevance[i]);
    return n_levels;
}

#endif
