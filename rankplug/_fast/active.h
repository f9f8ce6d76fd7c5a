/* The pairs of a query that are active at given scores: the order of its rows, the windows of
 * their partners, and how many these are. */
#ifndef RANKPLUG_ACTIVE_H
#define RANKPLUG_ACTIVE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "ranks.h"
#include "weighted.h"

#define SUM int32_t
#define VALUE(t) 1
#define NAME(x) x##_of_ones
#include "pair_sums.h"
#undef SUM
#undef VALUE
#undef NAME

/* Elements of `rp_workspace.sums` that a query needs. */
RP_INLINE int64_t rp_sums_size(int64_t n_rows, int64_t n_levels) {
    int64_t values = rp_value_sums_size(n_rows, n_levels);
    int64_t ranks = rp_ranks_size(n_rows, n_levels) * (int64_t)(sizeof(rp_word) / sizeof(double));
    return values > ranks ? values : ranks;
}

RP_INLINE int rp_all_finite(const double *values, ptrdiff_t n) {
    int finite = 1;
    for (ptrdiff_t i = 0; i < n; i++) finite &= values[i] - values[i] == 0.0;
    return finite;
}

/* A step along the border from the start, or from the end, where t + p is `sum`; by products, as
 * compilers make jumps of choices. */
#define RP_STEP(t, sum)                                                                           \
    do {                                                                                          \
        ptrdiff_t p = (sum) - t, below = key[t] - key[p] < margin, above = !below;                \
        begin[t + above * (to_end + p - t)] = (int32_t)(p + above * (t - p));                     \
        t += below;                                                                               \
    } while (0)
#define RP_STEP_BACK(t, sum)                                                                      \
    do {                                                                                          \
        ptrdiff_t p = (sum) - t, below = key[t] - key[p] < margin, above = !below;                \
        begin[t + below * (to_end + p - t)] = (int32_t)(p + below * (t - p)) + 1;                 \
        t -= above;                                                                               \
    } while (0)

/* end and begin of every position, for pairs with a difference of scores below `margin`. No pairs,
 * if a score is not finite. Writes to key[-1] and key[n].
 *
 * A walk of 2 n steps along the border between the differences below it and the others judges each
 * pair once for both of its rows; without branches, as nobody can guess its turns. Every step waits
 * for the one before, so four walk at once, from both ends and both ways from the middle, which a
 * bisection finds. One function, so that all of their positions have a register. */
RP_CLONES static void rp_find_windows(double *key, ptrdiff_t n, double margin, int32_t *end,
                                      int32_t *begin) {
    if (!rp_all_finite(key, n)) {
        for (ptrdiff_t p = 0; p < n; p++) end[p] = 0, begin[p] = (int32_t)n;
        return;
    }
    ptrdiff_t to_end = end - begin, middle = 0, most = n;
    key[-1] = -INFINITY;
    key[n] = INFINITY;
    while (middle < most) {
        ptrdiff_t t = (middle + most) / 2, below = key[t] - key[n - 1 - t] < margin;
        middle = below ? t + 1 : middle;
        most = below ? most : t;
    }
    ptrdiff_t first = 0, before = middle - 1, next = middle, last = n - 1, step = 0;
    for (; step < n / 2; step++) {
        RP_STEP(first, step);
        RP_STEP_BACK(before, n - 2 - step);
        RP_STEP(next, n + step);
        RP_STEP_BACK(last, 2 * n - 2 - step);
    }
    if (n % 2) {
        RP_STEP(first, step);
        RP_STEP(next, n + step);
    }
}

RP_INLINE void rp_count_by_ranks(const rp_query *q, rp_word *words, int32_t *restrict above,
                                 int32_t *restrict below) {
    rp_ranks ranks = rp_fill_ranks(q, words);
    int32_t n = q->n_rows;
    for (int32_t p = 0; p < n; p++) {
        int32_t level = q->sorted_level[p];
        above[p] = rp_higher_before(&ranks, level + 1, q->end[p]);
        below[p] = rp_lower_from(&ranks, level, q->begin[p]);
    }
    if (!q->straight_end) return;
    for (int32_t p = 0; p < n; p++) {
        int32_t level = q->sorted_level[p];
        above[p] -= rp_higher_before(&ranks, level + 1, q->straight_end[p]);
        below[p] -= rp_lower_from(&ranks, level, q->straight_begin[p]);
    }
}

/* Number of pairs of every row within the query's windows. */
RP_INLINE void rp_count(const rp_query *q, const rp_workspace *space, int32_t *restrict count,
                        int32_t *restrict difference) {
    int32_t *above = (int32_t *)space->above, *below = (int32_t *)space->below;
    if (rp_ranks_size(q->n_rows, q->n_levels))
        rp_count_by_ranks(q, (rp_word *)space->sums, above, below);
    else rp_sums_by_levels_of_ones(q, NULL, (int32_t *)space->sums, above, below);
    for (int32_t p = 0; p < q->n_rows; p++) {
        count[p] = below[p] + above[p];
        difference[p] = below[p] - above[p];
    }
}

/* The query with its straight pairs in the place of the curved ones. */
RP_INLINE rp_query rp_straight(const rp_query *q) {
    rp_query straight = *q;
    straight.end = q->straight_end;
    straight.begin = q->straight_begin;
    straight.straight_end = straight.straight_begin = NULL;
    return straight;
}

/* What the pairs count, instead of how many they are. */
RP_INLINE void rp_weigh(const rp_query *q, const rp_workspace *space) {
    const rp_weights *w = &q->weights;
    rp_sort_weights(q);
    rp_weighted_count(q, space, w->count, w->difference);
    if (!q->straight_end) return;
    rp_query straight = rp_straight(q);
    rp_weighted_count(&straight, space, w->straight_count, w->straight_difference);
}

/* Find the pairs active at `score`: order, windows, count and difference of every row. */
RP_INLINE void rp_activate(const rp_query *q, const double *score, double margin, double band,
                           const rp_workspace *space) {
    int32_t n = q->n_rows;
    /* The order before is a good start: rows that are nearly sorted move less. */
    for (int32_t p = 0; p < n; p++)
        space->keyed[p] = (rp_keyed_row){score[q->order[p]], q->order[p]};
    const rp_keyed_row *sorted = rp_sort(space->keyed, n);
    double *key = space->value + 1;
    for (int32_t p = 0; p < n; p++) {
        key[p] = sorted[p].key;
        q->order[p] = sorted[p].row;
        q->sorted_level[p] = q->level[sorted[p].row];
    }
    rp_find_windows(key, n, margin, q->end, q->begin);
    if (q->straight_end) {
        rp_find_windows(key, n, margin - band, q->straight_end, q->straight_begin);
        rp_query straight = rp_straight(q);
        if (!q->weights.count)
            rp_count(&straight, space, q->straight_count, q->straight_difference);
    }
    if (q->weights.count) rp_weigh(q, space);
    else rp_count(q, space, q->count, q->difference);
}

#endif
