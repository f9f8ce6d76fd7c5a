/* The pairs of a query that are active at given scores: the order of its rows, the windows of
 * their partners, and how many these are. */
#ifndef RANKPLUG_ACTIVE_H
#define RANKPLUG_ACTIVE_H

#include <stdint.h>

#include "weighted.h"

#define SUM int32_t
#define VALUE(t) 1
#define NAME(x) x##_of_ones
#include "pair_sums.h"
#undef SUM
#undef VALUE
#undef NAME

/* end and begin of every position, for pairs with a difference of scores below `margin`.
 *
 * A walk of 2 n steps along the border between the differences below it and the others judges each
 * pair once for both of its rows; without branches, as nobody can guess its turns. Every step waits
 * for the one before, so two walk at once, from both ends of the border to its middle. */
RP_INLINE void rp_find_windows(const rp_keyed_row *sorted, int32_t n, double margin,
                               int32_t *end, int32_t *begin) {
    int32_t t = 0, p = 0, last_t = n - 1, last_p = n - 1;
    for (int32_t step = 0; step < n; step++) {
        int below = sorted[t].key - sorted[p].key < margin;
        int last_below = sorted[last_t].key - sorted[last_p].key < margin;
        *(below ? begin + t : end + p) = below ? p : t;
        *(last_below ? end + last_p : begin + last_t) = (last_below ? last_t : last_p) + 1;
        t += below;
        p += !below;
        last_p -= last_below;
        last_t -= !last_below;
    }
}

/* Number of pairs of every row within the query's windows. */
RP_INLINE void rp_count(const rp_query *q, const rp_workspace *space, int32_t *restrict count,
                        int32_t *restrict difference) {
    int32_t *above = (int32_t *)space->above, *below = (int32_t *)space->below;
    rp_sums_of_ones(q, NULL, (int32_t *)space->sums, above, below);
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
    for (int32_t p = 0; p < n; p++) {
        q->order[p] = sorted[p].row;
        q->sorted_level[p] = q->level[sorted[p].row];
    }
    rp_find_windows(sorted, n, margin, q->end, q->begin);
    if (q->straight_end) {
        rp_find_windows(sorted, n, margin - band, q->straight_end, q->straight_begin);
        rp_query straight = rp_straight(q);
        if (!q->weights.count)
            rp_count(&straight, space, q->straight_count, q->straight_difference);
    }
    if (q->weights.count) rp_weigh(q, space);
    else rp_count(q, space, q->count, q->difference);
}

#endif
